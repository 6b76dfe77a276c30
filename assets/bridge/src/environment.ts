// What the environment says: secrets, identity, and the whole of it for children.

import { readFileSync } from "node:fs";
import type { Bytes, EnvVar } from "./wire.ts";

/** Where a process keeps what a core gave it, once it is out of the environment. */
const KEPT = Symbol.for("pi-agents.bridge.secrets.v1");

export interface Secrets {
	/** The core to join. */
	socket: string | undefined;
	/** The proof for it. */
	token: string | undefined;
}

/**
 * Takes the secrets out of the environment, so that no tool and no other program sees them. A
 * reload makes a new instance of the bridge in the same process: it finds what the first one took.
 */
export function takeSecrets(): Secrets {
	const socket = take("PI_AGENTS_SOCKET");
	const token = take("PI_AGENTS_TOKEN");
	const shared = globalThis as { [KEPT]?: Secrets };
	if (socket !== undefined || token !== undefined || shared[KEPT] === undefined) {
		const secrets = { socket, token };
		Object.defineProperty(shared, KEPT, { value: secrets, configurable: true, enumerable: false });
		return secrets;
	}
	return shared[KEPT];
}

function take(name: string): string | undefined {
	const value = process.env[name];
	delete process.env[name];
	return value === "" ? undefined : value;
}

export type Position = "root" | "nested" | "leaf";

/** Where in the tree of agents this process says it is. Only a proof makes it true (see `index.ts`). */
export function identity(): { agent: string | undefined; position: Position } {
	const agent = process.env["PI_SUBAGENT_AGENT_ID"] || undefined;
	if (agent === undefined) return { agent, position: "root" };
	const depth = number("PI_SUBAGENT_DEPTH") ?? 1;
	const most = number("PI_SUBAGENT_MAX_DEPTH") ?? 1;
	return { agent, position: depth < most ? "nested" : "leaf" };
}

function number(name: string): number | undefined {
	const text = process.env[name] ?? "";
	return /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}

/** The environment as children are to get it. Node reads it as UTF-8 and loses what is not; the
 * system still has the bytes it began with. */
export function environment(): EnvVar[] {
	const raw = original();
	const all: EnvVar[] = [];
	for (const [name, value] of Object.entries(process.env)) {
		if (value === undefined) continue;
		const same = raw.get(name)?.find((variable) => variable.value.toString("utf8") === value);
		all.push(same === undefined ? { name, value } : { name: exact(same.name), value: exact(same.value) });
	}
	return all;
}

function exact(bytes: Buffer): Bytes {
	const text = bytes.toString("utf8");
	return Buffer.from(text, "utf8").equals(bytes) ? text : { bytes: [...bytes] };
}

function original(): Map<string, { name: Buffer; value: Buffer }[]> {
	const found = new Map<string, { name: Buffer; value: Buffer }[]>();
	let all: Buffer;
	try {
		all = readFileSync("/proc/self/environ");
	} catch {
		return found; // Not on this system: what Node says has to do.
	}
	let start = 0;
	while (start < all.length) {
		let end = all.indexOf(0, start);
		if (end < 0) end = all.length;
		const entry = all.subarray(start, end);
		start = end + 1;
		const equals = entry.indexOf(61);
		if (equals <= 0) continue;
		const name = entry.subarray(0, equals);
		const variables = found.get(name.toString("utf8")) ?? [];
		variables.push({ name, value: entry.subarray(equals + 1) });
		found.set(name.toString("utf8"), variables);
	}
	return found;
}
