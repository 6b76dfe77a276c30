// JSON-RPC 2.0 over a pair of streams: one object per LF line, both ends may ask. Answers and
// notices are handled in the order in which they arrive, without a turn of the event loop between
// them. Knows no method.

import type { Readable, Writable } from "node:stream";
import { isRecord, note, safe, textOf } from "./safe.ts";

/** Bytes that may wait for a core that does not read, before it counts as lost. */
const MOST_UNWRITTEN = 64 * 1024 * 1024;

/** Why a call was not answered with a result. */
export class CallFailed extends Error {
	override readonly name = "CallFailed";
	readonly code: number | undefined;
	readonly hint: string | undefined;
	readonly kind: string | undefined;

	constructor(message: string, code?: number, kind?: string, hint?: string) {
		super(message);
		this.code = code;
		this.kind = kind;
		this.hint = hint;
	}
}

export interface Handlers {
	/** Answers a call of the other end; what it throws is the error answer. */
	call(method: string, params: Record<string, unknown>): unknown;
	notice(method: string, params: Record<string, unknown>): void;
	/** Once, when nothing more will come. */
	closed(reason: string): void;
}

type Done = (error: CallFailed | undefined, result: unknown) => void;

export class Peer {
	readonly #input: Readable;
	readonly #output: Writable;
	readonly #handlers: Handlers;
	readonly #waiting = new Map<number, Done>();
	#parts: Buffer[] = [];
	#length = 0;
	#limit: number;
	#last = 0;
	#open = true;

	constructor(input: Readable, output: Writable, limit: number, handlers: Handlers) {
		this.#input = input;
		this.#output = output;
		this.#handlers = handlers;
		this.#limit = limit;
		input.on("data", safe("reading from the core", (piece: Buffer) => this.#take(piece)));
		input.on("end", () => this.close("it ended"));
		input.on("close", () => this.close("it ended"));
		input.on("error", (error: Error) => this.close(error.message));
		output.on("close", () => this.close("it ended"));
		output.on("error", (error: Error) => this.close(error.message));
	}

	get open(): boolean {
		return this.#open;
	}

	/** Longest line the other end takes, in bytes. */
	set limit(bytes: number) {
		this.#limit = bytes;
	}

	/** Asks; `done` is called once, in any case. Returns what withdraws the wait for it. */
	call(method: string, params: unknown, done: Done): () => void {
		const id = ++this.#last;
		const once = safe(`the answer to ${method}`, done);
		this.#waiting.set(id, once);
		try {
			this.#write({ jsonrpc: "2.0", id, method, params });
		} catch (error) {
			this.#waiting.delete(id);
			once(error instanceof CallFailed ? error : new CallFailed(textOf(error)), undefined);
		}
		return () => void this.#waiting.delete(id);
	}

	/** Tells. What cannot be sent is dropped: the connection is over then. */
	notify(method: string, params: unknown): void {
		try {
			this.#write({ jsonrpc: "2.0", method, params });
		} catch (error) {
			if (this.#open) note(`telling the core ${method}`, error);
		}
	}

	/** Ends the connection; whoever waits for an answer is told. */
	close(reason: string): void {
		if (!this.#open) return;
		this.#open = false;
		this.#parts = [];
		try {
			this.#output.end();
			this.#input.resume();
		} catch (error) {
			note("closing the connection", error);
		}
		const waiting = [...this.#waiting.values()];
		this.#waiting.clear();
		for (const done of waiting) done(new CallFailed(`the core is gone: ${reason}`), undefined);
		safe("the end of the connection", () => this.#handlers.closed(reason))();
	}

	#write(message: object): void {
		if (!this.#open) throw new CallFailed("there is no connection to the core");
		const line = `${JSON.stringify(message, wellFormed)}\n`;
		const bytes = Buffer.byteLength(line);
		if (bytes > this.#limit) {
			throw new CallFailed(`the message has ${bytes} bytes; the core takes ${this.#limit}`);
		}
		if (this.#output.writableLength > MOST_UNWRITTEN) {
			this.close("it does not read what it is told");
			throw new CallFailed("the core does not read what it is told");
		}
		this.#output.write(line);
	}

	#take(piece: Buffer): void {
		let rest = piece;
		while (this.#open) {
			const end = rest.indexOf(10);
			if (end < 0) break;
			const line = this.#parts.length === 0 ? rest.subarray(0, end) : Buffer.concat([...this.#parts, rest.subarray(0, end)]);
			this.#parts = [];
			this.#length = 0;
			rest = rest.subarray(end + 1);
			if (line.length > 0) this.#line(line.toString("utf8"));
		}
		if (!this.#open || rest.length === 0) return;
		this.#parts.push(rest);
		this.#length += rest.length;
		if (this.#length > this.#limit) this.close("it sent a line without end");
	}

	#line(text: string): void {
		let message: unknown;
		try {
			message = JSON.parse(text);
		} catch {
			note("reading from the core", `a line that is not JSON: ${text.slice(0, 200)}`);
			return;
		}
		if (!isRecord(message)) return;
		const { id, method } = message;
		const params = isRecord(message["params"]) ? message["params"] : {};
		if (typeof method === "string") {
			if (id === undefined || id === null) {
				safe(`the notice ${method}`, () => this.#handlers.notice(method, params))();
			} else {
				this.#answer(id, method, params);
			}
			return;
		}
		if (typeof id !== "number") return;
		const done = this.#waiting.get(id);
		if (done === undefined) return;
		this.#waiting.delete(id);
		const error = message["error"];
		if (isRecord(error)) done(failureOf(error), undefined);
		else done(undefined, message["result"]);
	}

	#answer(id: unknown, method: string, params: Record<string, unknown>): void {
		try {
			let answer: object;
			try {
				answer = { jsonrpc: "2.0", id, result: this.#handlers.call(method, params) ?? {} };
			} catch (error) {
				const code = error instanceof CallFailed && error.code !== undefined ? error.code : -32603;
				answer = { jsonrpc: "2.0", id, error: { code, message: textOf(error) } };
			}
			this.#write(answer);
		} catch (error) {
			note(`answering ${method}`, error);
		}
	}
}

/** Half of a surrogate pair, as a model writes it that was cut, is no text to the core (R-Q-01). */
function wellFormed(_key: string, value: unknown): unknown {
	return typeof value === "string" ? value.toWellFormed() : value;
}

function failureOf(error: Record<string, unknown>): CallFailed {
	const data = isRecord(error["data"]) ? error["data"] : {};
	const text = (value: unknown) => (typeof value === "string" ? value : undefined);
	return new CallFailed(
		text(error["message"]) ?? "the core refused",
		typeof error["code"] === "number" ? error["code"] : undefined,
		text(data["code"]),
		text(data["hint"]),
	);
}
