// What the other extensions want a child to have (R-PI-04). The event is emitted for every launch
// anew; what it collects is copied, checked and handed on, and never kept or shown.

import { CallFailed } from "./peer.ts";

export const CHANNEL = "pi-subagents:child-launch:v1";

/** Number of the error answer that rejects a launch. */
const REJECTED = -32012;

export interface Contributions {
	env: Record<string, string>;
	extensions: string[];
}

/** Emits the event and reads what came of it; throws what rejects the launch. */
export function contributions(emit: (channel: string, data: unknown) => void): Contributions {
	const event: Record<string, unknown> = { env: {}, extensions: [] };
	emit(CHANNEL, event);
	// From here on everything is copied at once: a listener that goes on later changes nothing.
	let collected: Contributions | undefined;
	try {
		if ("error" in event && event["error"] !== undefined) {
			throw new CallFailed("another extension rejected the launch", REJECTED);
		}
		collected = { env: record(event["env"]), extensions: paths(event["extensions"]) };
	} catch (error) {
		if (error instanceof CallFailed) throw error;
		throw malformed();
	}
	return collected;
}

function record(value: unknown): Record<string, string> {
	if (typeof value !== "object" || value === null || Array.isArray(value)) throw malformed();
	const prototype: unknown = Object.getPrototypeOf(value);
	if (prototype !== Object.prototype && prototype !== null) throw malformed();
	if (Object.getOwnPropertySymbols(value).length > 0) throw malformed();
	const copy: Record<string, string> = Object.create(null);
	for (const [name, text] of Object.entries(value)) {
		const good = /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && typeof text === "string" && !text.includes("\0");
		if (!good) throw malformed();
		copy[name] = text;
	}
	return copy;
}

function paths(value: unknown): string[] {
	if (!Array.isArray(value)) throw malformed();
	const copy = new Set<string>();
	// By index, so that a hole in the list is seen.
	for (let i = 0; i < value.length; i++) {
		const path: unknown = value[i];
		if (typeof path !== "string" || path.trim() === "" || path.includes("\0")) throw malformed();
		copy.add(path);
	}
	return [...copy];
}

function malformed(): CallFailed {
	return new CallFailed("another extension asked for something that no launch can have", REJECTED);
}
