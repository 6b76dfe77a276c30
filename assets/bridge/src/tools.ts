// The tools: registers them from the file that is made from the Rust types, and hands calls on.

import { readFileSync } from "node:fs";
import type { AgentToolResult, AgentToolUpdateCallback, ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import type { Core } from "./core.ts";
import { environment, type Position } from "./environment.ts";
import { CallFailed } from "./peer.ts";
import { attempt, isRecord, note, safe } from "./safe.ts";
import type { ToolOutcome, ToolSpec } from "./wire.ts";

/** Status by which a child's message to its parent leaves: it works wherever the child runs. */
const PARENT_MESSAGE = "pi-subagent-msg";

type Result = AgentToolResult<unknown>;

export class Tools {
	readonly #pi: ExtensionAPI;
	readonly #position: Position;
	readonly #core: Core | undefined;
	readonly #names: string[];
	readonly #progress = new Map<string, (params: Record<string, unknown>) => void>();

	constructor(pi: ExtensionAPI, position: Position, core: Core | undefined) {
		this.#pi = pi;
		this.#position = position;
		this.#core = core;
		const file = JSON.parse(readFileSync(new URL("../tools.json", import.meta.url), "utf8")) as Record<Position, ToolSpec[]>;
		const specs = file[position];
		this.#names = specs.map((tool) => tool.name);
		for (const tool of specs) {
			pi.registerTool({
				name: tool.name,
				label: tool.title,
				description: tool.description,
				promptSnippet: tool.promptSnippet,
				parameters: tool.inputSchema as never,
				...(tool.name === "agent_send" && position === "leaf" ? { prepareArguments: onlyToParent } : {}),
				// A person's session gets them when it asks for the skill (R-TOOL-12).
				defaultActive: position !== "root",
				execute: (call: string, args: unknown, signal, update, ctx) => this.#execute(tool.name, call, args, signal, update, ctx),
			});
		}
	}

	/** Makes them usable from the next request to the model on. */
	activate(): void {
		const active = this.#pi.getActiveTools();
		const missing = this.#names.filter((name) => !active.includes(name));
		if (missing.length > 0) this.#pi.setActiveTools([...active, ...missing]);
	}

	/** How a call gets on. */
	progressed(params: Record<string, unknown>): void {
		const call = params["call"];
		if (typeof call === "string") this.#progress.get(call)?.(params);
	}

	async #execute(
		name: string,
		call: string,
		args: unknown,
		signal: AbortSignal | undefined,
		update: AgentToolUpdateCallback<unknown> | undefined,
		ctx: ExtensionContext,
	): Promise<Result> {
		// An abort has to be thrown: whatever is returned counts as a success (R-TOOL-10).
		if (signal?.aborted) throw abortOf(signal);
		const asked = isRecord(args) ? args : {};
		if (name === "agent_send" && this.#position !== "root" && isParent(asked["to"])) {
			return this.#toParent(call, asked["message"], ctx);
		}
		if (this.#core === undefined) {
			return failed(new CallFailed(nobody(asked["to"])));
		}
		return this.#ask(this.#core, name, call, { arguments: asked, ...this.#known(name, asked, ctx) }, signal, update);
	}

	/** What this session knows of the names in a call, so that a typo is refused before anything starts. */
	#known(name: string, asked: Record<string, unknown>, ctx: ExtensionContext): { models?: string[]; tools?: string[] } {
		if (name !== "agent_spawn") return {};
		const models = () => ctx.modelRegistry.getAvailable().map((model) => `${model.provider}/${model.id}`);
		const tools = () => this.#pi.getAllTools().map((tool) => tool.name);
		return {
			...(asked["model"] == null ? {} : { models: attempt("asking Pi for its models", [], models) }),
			...(asked["tools"] == null ? {} : { tools: attempt("asking Pi for its tools", [], tools) }),
		};
	}

	#ask(
		core: Core,
		name: string,
		call: string,
		about: { arguments: Record<string, unknown>; models?: string[]; tools?: string[] },
		signal: AbortSignal | undefined,
		update: AgentToolUpdateCallback<unknown> | undefined,
	): Promise<Result> {
		return new Promise<Result>((resolve, reject) => {
			let withdraw: () => void = () => {};
			let over = false;
			const finish = (end: () => void) => {
				if (over) return;
				over = true;
				signal?.removeEventListener("abort", aborted);
				// Another call with the same id may be the one that is told of (providers choose them).
				if (this.#progress.get(call) === shown) this.#progress.delete(call);
				end();
			};
			// Pi awaits what its callback gives, so nothing may come after the end, and nothing thrown.
			const shown = safe("an update of a call", (params: Record<string, unknown>) => {
				if (!over) update?.({ content: contentOf(params["content"]), details: params["details"] ?? {} });
			});
			let sent = false;
			const aborted = safe("a cancelled call", () => {
				if (over || signal === undefined) return;
				if (sent) core.tell("tools/cancel", { generation: core.generation, call });
				withdraw();
				finish(() => reject(abortOf(signal)));
			});
			signal?.addEventListener("abort", aborted, { once: true });
			withdraw = core.whenReady((gone) => {
				if (over) return;
				if (gone !== undefined) return finish(() => resolve(failed(gone)));
				if (!this.#progress.has(call)) this.#progress.set(call, shown);
				sent = true;
				withdraw = core.call("tools/call", { call, name, ...about, env: environment() }, (error, result) => {
					finish(() => resolve(error === undefined ? resultOf(result) : failed(error)));
				});
				return undefined;
			});
		});
	}

	#toParent(call: string, message: unknown, ctx: ExtensionContext): Result {
		if (typeof message !== "string" || message.trim() === "") {
			return failed(new CallFailed("the message is empty"));
		}
		ctx.ui.setStatus(PARENT_MESSAGE, JSON.stringify({ version: 1, id: call, message: message.toWellFormed() }));
		return {
			content: [{ type: "text", text: "Sent to @parent. Go on with your work; an answer arrives by itself." }],
			details: { to: "@parent", message },
		};
	}
}

/** Pi checks arguments before the tool sees them, and its words do not say who can be reached (R-TOOL-02). */
function onlyToParent(args: unknown): never {
	const to = isRecord(args) ? args["to"] : undefined;
	if (typeof to !== "string") return args as never;
	if (!isParent(to)) throw new Error(nobody(to));
	return { ...(args as object), to: "@parent" } as never;
}

function nobody(to: unknown): string {
	return `nobody is called ${String(to)} here: only @parent can be messaged`;
}

function isParent(to: unknown): boolean {
	return typeof to === "string" && to.trim().replace(/^@/, "") === "parent";
}

function abortOf(signal: AbortSignal): unknown {
	return signal.reason ?? new DOMException("This operation was aborted", "AbortError");
}

function contentOf(value: unknown): ToolOutcome["content"] {
	const content: ToolOutcome["content"] = [];
	for (const part of Array.isArray(value) ? value : []) {
		if (isRecord(part) && typeof part["text"] === "string") content.push({ type: "text", text: part["text"] });
	}
	return content;
}

/** A result of the core as Pi takes it. */
function resultOf(value: unknown): Result {
	if (!isRecord(value)) return failed(new CallFailed("the core's answer is not understood"));
	const usage = value["usage"];
	return {
		content: contentOf(value["content"]),
		details: value["details"] ?? {},
		...(isRecord(usage) ? { usage: usage as never } : {}),
		...(value["isError"] === true ? { isError: true } : {}),
	};
}

/** A tool error that keeps its details (R-TOOL-08). */
function failed(error: CallFailed): Result {
	const hint = error.hint === undefined ? "" : `\n${error.hint}`;
	note("a tool call", error.message);
	return {
		content: [{ type: "text", text: `${error.message}${hint}` }],
		details: { error: { message: error.message, code: error.kind ?? null, hint: error.hint ?? null } },
		isError: true,
	};
}
