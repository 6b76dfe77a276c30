// What the bridge writes into a Pi session and finds there again.

import { existsSync } from "node:fs";
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { isRecord } from "./safe.ts";
import type { Delivery, Roster } from "./wire.ts";

const TYPES: ReadonlyMap<string, string> = new Map([
	["final_reply", "pi-agents-final-reply"],
	["non_blocking_question", "pi-agents-question"],
]);
const OTHER = "pi-agents-message";
const OURS: ReadonlySet<string> = new Set([...TYPES.values(), OTHER]);

/** A delivery as Pi takes it. The id is kept beside the text: it is looked for by that alone. */
export function messageOf(delivery: Delivery) {
	return {
		customType: TYPES.get(delivery.kind) ?? OTHER,
		content: delivery.content,
		display: true,
		details: { delivery: delivery.id, card: delivery.details },
	};
}

/**
 * Ids of the deliveries that are among the entries of the session, in any branch: those handed over
 * here, and those the result of a tool call carried (`details.deliveries`).
 */
export function deliveredIds(ctx: ExtensionContext): Set<string> {
	const ids = new Set<string>();
	const add = (id: unknown) => {
		if (typeof id === "string") ids.add(id);
	};
	for (const entry of ctx.sessionManager.getEntries()) {
		if (entry.type === "custom_message" && OURS.has(entry.customType)) {
			if (isRecord(entry.details)) add(entry.details["delivery"]);
		} else if (entry.type === "message" && entry.message.role === "toolResult") {
			const details: unknown = entry.message.details;
			const carried = isRecord(details) ? details["deliveries"] : undefined;
			if (Array.isArray(carried)) carried.forEach(add);
		}
	}
	return ids;
}

/** Entries of this type name agents. No model reads them. */
const ROSTER = "pi-agents-roster";

/** Remembers on the open branch who joined it. */
export function remember(pi: ExtensionAPI, ctx: ExtensionContext, agents: unknown): void {
	pi.appendEntry(ROSTER, { session: ctx.sessionManager.getSessionId(), agents });
}

/** Who is named in the session: on the open branch, and anywhere. A fork has entries of its origin, whose agents are not its own. */
export function rosterOf(ctx: ExtensionContext): Roster {
	const session = ctx.sessionManager.getSessionId();
	const here = new Set(ctx.sessionManager.getBranch().map((entry) => entry.id));
	const agents = new Set<string>();
	const names = new Set<string>();
	let own = false;
	for (const entry of ctx.sessionManager.getEntries()) {
		if (entry.type !== "custom" || entry.customType !== ROSTER || !isRecord(entry.data)) continue;
		const { session: of, agents: list } = entry.data;
		own ||= of === session;
		for (const agent of Array.isArray(list) ? list : []) {
			if (!isRecord(agent)) continue;
			const { id, name } = agent;
			if (typeof name === "string") names.add(name);
			if (typeof id === "string" && of === session && here.has(entry.id)) agents.add(id);
		}
	}
	return { agents: own ? [...agents] : null, names: [...names] };
}

/** How the last run of the open branch ended, as far as the session tells: what Pi says when it says it itself. */
export function lastRunFailed(ctx: ExtensionContext): boolean {
	for (const entry of ctx.sessionManager.getBranch().reverse()) {
		if (entry.type !== "message") continue;
		const { message } = entry;
		// A prompt without an answer: that run was accepted, and Pi ended during it.
		if (message.role === "user") return false;
		if (message.role === "assistant") return message.stopReason === "aborted" || message.stopReason === "error";
	}
	return false;
}

/** The file is there, or the user wants none. Before that, what is in the session is in memory only. */
export function isDurable(ctx: ExtensionContext): boolean {
	const file = ctx.sessionManager.getSessionFile();
	return file === undefined || existsSync(file);
}
