// The connection to the core: starts a core or joins one, shakes hands, starts it again once when
// it is lost, and says goodbye. Knows what an offer is as little as what a tool is.

import { spawn } from "node:child_process";
import { connect } from "node:net";
import type { Readable, Writable } from "node:stream";
import { CallFailed, type Handlers, Peer } from "./peer.ts";
import { findProgram, NOT_FOUND } from "./program.ts";
import { isRecord, later, note, safe, textOf } from "./safe.ts";
import type { HostFacts, HostWelcome } from "./wire.ts";

const VERSION = "0.1.0";
/** A line that is longer ends the connection, until the core has said what it takes. */
const LINE = 16 * 1024 * 1024;
/** Time for a core to answer the handshake, in ms. */
const HANDSHAKE = 10_000;
/** Wait before a lost core is started again, in ms. */
const BACKOFF = 250;
/** So often a start is put off while something is on its way into the session. */
const WHOLE = 40;
/** A core that lived this long earns another start, in ms. */
const STEADY = 600_000;
/** Longest wait for agents to end before the next session begins, in ms. */
const GOODBYE = 2500;
/** Last words of a core that are kept for its error, in characters. */
const LAST_WORDS = 2000;

export interface Events {
	/** The facts for a handshake, as they are now. */
	facts(): HostFacts;
	/** The handshake is done; messages follow. */
	ready(welcome: HostWelcome): void;
	/** A connection that was there ended. */
	lost(): void;
	/** Nothing is on its way into the session: the facts of a handshake will be whole. */
	settled(): boolean;
	call(method: string, params: Record<string, unknown>): unknown;
	notice(method: string, params: Record<string, unknown>): void;
}

/** The one way to a core. */
export type Way = { kind: "start" } | { kind: "join"; socket: string };

type Waiter = (error: CallFailed | undefined) => void;

export class Core {
	readonly #way: Way;
	readonly #events: Events;
	#peer: Peer | undefined;
	#welcome: HostWelcome | undefined;
	#starting = false;
	#leaving = false;
	#restarts = 1;
	#since = 0;
	#failure: CallFailed | undefined;
	#waiters = new Set<Waiter>();
	#hold: (on: boolean) => void = () => {};
	#holders = 0;

	constructor(way: Way, events: Events) {
		this.#way = way;
		this.#events = events;
	}

	get generation(): number | undefined {
		return this.#welcome?.generation;
	}

	/** Starts it without waiting for it. */
	begin(): void {
		if (this.#starting || this.#leaving || this.#welcome !== undefined) return;
		this.#starting = true;
		this.#failure = undefined;
		this.#tryOpen();
	}

	/** `done` is called when there is a core to ask, or why there is none. */
	whenReady(done: Waiter): () => void {
		if (this.#welcome !== undefined) {
			done(undefined);
			return () => {};
		}
		if (this.#leaving) {
			done(new CallFailed("this Pi session ends"));
			return () => {};
		}
		const gaveUp = this.#failure;
		if (gaveUp !== undefined && !this.#starting && this.#restarts === 0) {
			done(gaveUp);
			return () => {};
		}
		this.#waiters.add(done);
		this.begin();
		return () => void this.#waiters.delete(done);
	}

	call(method: string, params: object, done: (error: CallFailed | undefined, result: unknown) => void): () => void {
		const peer = this.#peer;
		if (peer === undefined || this.#welcome === undefined) {
			done(new CallFailed("there is no connection to the core"), undefined);
			return () => {};
		}
		// A Pi that prints and ends must stay until the answer is there.
		this.#keep(true);
		let kept = true;
		const release = () => {
			if (kept) this.#keep(false);
			kept = false;
		};
		const forget = peer.call(method, { generation: this.#welcome.generation, ...params }, (error, result) => {
			release();
			done(error, result);
		});
		return () => {
			release();
			forget();
		};
	}

	/** Tells the core something about this host; dropped when there is none. */
	tell(method: string, params: object): void {
		if (this.#welcome !== undefined) this.#peer?.notify(method, params);
	}

	/** Ends the connection in order. Waits for the agents' end only where another session follows. */
	async leave(reason: string): Promise<void> {
		this.#leaving = true;
		this.#finishWaiters(new CallFailed("this Pi session ends"));
		const peer = this.#peer;
		const generation = this.#welcome?.generation;
		if (peer === undefined) return;
		if (generation !== undefined) {
			await new Promise<void>((resolve) => {
				const limit = later(reason === "quit" ? 0 : GOODBYE, "the goodbye", resolve, true);
				const done = () => {
					clearTimeout(limit);
					resolve();
				};
				peer.call("host/leaving", { generation, reason }, done);
				if (reason === "quit") done();
			});
		}
		peer.close("this Pi session ends");
	}

	#open(): void {
		if (this.#way.kind === "join") this.#join(this.#way.socket);
		else this.#start();
	}

	#join(path: string): void {
		const socket = connect(path);
		this.#hold = (on) => void (on ? socket.ref() : socket.unref());
		this.#shake(socket, socket, () => `the core at ${path} cannot be reached`);
	}

	#start(): void {
		const program = findProgram();
		if (program === undefined) {
			this.#failed(new CallFailed(NOT_FOUND));
			return;
		}
		// Its own session: what stops or suspends Pi's terminal does not reach it.
		const child = spawn(program, ["serve", "--stdio"], { detached: true, stdio: ["pipe", "pipe", "pipe"] });
		// The process is the guard, the core below it has the same pipes. When a guard is killed its core
		// goes on, but Node would close the input of whatever has exited.
		const input = child.stdin;
		(child as { stdin: Writable | null }).stdin = null;
		let words = "";
		let why = "";
		let killed = false;
		child.stderr.setEncoding("utf8");
		child.stderr.on("data", safe("the core's last words", (text: string) => {
			words = (words + text).slice(-LAST_WORDS);
		}));
		child.stderr.on("error", () => {});
		const parts = [child, input, child.stdout, child.stderr] as unknown as { ref?(): void; unref?(): void }[];
		this.#hold = (on) => {
			for (const part of parts) on ? part.ref?.() : part.unref?.();
		};
		const peer = this.#shake(child.stdout, input, () => {
			const said = words.trim();
			return `${program} ended${why}${said === "" ? "" : `: ${said}`}`;
		}, () => killed);
		child.on("error", (error: Error) => {
			why = `: ${error.message}`;
			peer.close(error.message);
		});
		child.on("exit", (code, signal) => {
			why = code === null ? ` by ${signal}` : ` with code ${code}`;
			// The guard ends as the core did.
			killed = code === null || code > 128;
		});
	}

	#shake(input: Readable, output: Writable, ended: () => string, killed = () => false): Peer {
		let shaken = false;
		const timer = later(HANDSHAKE, "the handshake", () => peer.close("it does not answer the handshake"));
		const handlers: Handlers = {
			call: (method, params) => this.#events.call(method, params),
			notice: (method, params) => {
				if (shaken) this.#events.notice(method, params);
			},
			closed: (reason) => {
				clearTimeout(timer);
				if (this.#peer !== peer) return;
				// The child's exit is known a moment after its streams have ended.
				if (shaken) this.#lost(reason);
				else later(20, "the end of the core", () => this.#endedEarly(new CallFailed(`${ended()} (${reason})`), killed()), true);
			},
		};
		const peer = new Peer(input, output, LINE, handlers);
		this.#peer = peer;
		this.#hold(this.#holders > 0 || this.#waiters.size > 0);
		const hello = {
			role: "bridge",
			versions: [1, 1],
			client: { name: "pi-agents-bridge", version: VERSION },
			host: this.#events.facts(),
		};
		peer.call("initialize", hello, (error, result) => {
			if (error !== undefined) {
				if (peer.open) {
					this.#peer = undefined;
					peer.close("the handshake failed");
					clearTimeout(timer);
					this.#failed(error);
				}
				return;
			}
			const welcome = welcomeOf(result);
			if (welcome === undefined) {
				this.#peer = undefined;
				peer.close("the handshake failed");
				clearTimeout(timer);
				this.#failed(new CallFailed("the core does not know Pi sessions: it is of another version of pi-agents"));
				return;
			}
			clearTimeout(timer);
			shaken = true;
			peer.limit = welcome.limits.line_bytes;
			this.#welcome = welcome;
			this.#starting = false;
			this.#since = performance.now();
			safe("the first moments with a core", () => this.#events.ready(welcome))();
			this.#finishWaiters(undefined);
		});
		return peer;
	}

	/** It ended before it had answered. One that was killed is lost like any other; what cannot start is not tried again. */
	#endedEarly(error: CallFailed, killed: boolean): void {
		if (!killed || this.#leaving || this.#restarts === 0) {
			this.#failed(error);
			return;
		}
		note("the core", error.message);
		this.#peer = undefined;
		this.#restarts -= 1;
		this.#again(0);
	}

	/** No core came to be. */
	#failed(error: CallFailed): void {
		this.#peer = undefined;
		this.#starting = false;
		this.#failure = error;
		if (!this.#leaving) note("the core", error.message);
		this.#finishWaiters(error);
	}

	/** A core that was there is gone. */
	#lost(reason: string): void {
		const steady = performance.now() - this.#since > STEADY;
		this.#peer = undefined;
		this.#welcome = undefined;
		this.#failure = new CallFailed(`the supervisor of the agents is gone (${reason}); /reload starts it again`);
		safe("the loss of the core", () => this.#events.lost())();
		if (this.#leaving) return;
		if (steady) this.#restarts = 1;
		if (this.#restarts === 0) {
			this.#finishWaiters(this.#failure);
			return;
		}
		this.#restarts -= 1;
		this.#starting = true;
		this.#again(WHOLE);
	}

	#again(looks: number): void {
		const look = () => {
			if (this.#leaving) return;
			if (looks > 0 && !this.#events.settled()) this.#again(looks - 1);
			else this.#tryOpen();
		};
		// A call may be waiting for it in a Pi that only prints.
		later(BACKOFF, "starting the core again", look, true);
	}

	#tryOpen(): void {
		try {
			this.#open();
		} catch (error) {
			this.#failed(new CallFailed(textOf(error)));
		}
	}

	#finishWaiters(error: CallFailed | undefined): void {
		const waiters = [...this.#waiters];
		this.#waiters.clear();
		for (const done of waiters) safe("waiting for the core", done)(error);
	}

	#keep(on: boolean): void {
		this.#holders += on ? 1 : -1;
		safe("keeping Pi alive", () => this.#hold(this.#holders > 0))();
	}
}

function welcomeOf(result: unknown): HostWelcome | undefined {
	const host = isRecord(result) ? result["host"] : undefined;
	if (!isRecord(host)) return undefined;
	const limits = isRecord(host["limits"]) ? host["limits"] : {};
	if (typeof host["id"] !== "string" || typeof host["generation"] !== "number") return undefined;
	return {
		id: host["id"],
		generation: host["generation"],
		activate: host["activate"] === true,
		limits: { line_bytes: typeof limits["line_bytes"] === "number" ? limits["line_bytes"] : LINE },
	};
}
