// Hands offers of the core over to Pi and looks for them in the session. Decides nothing: the core
// says what and how, this refuses what Pi's state forbids and reports what it found.
//
// Nothing here waits. A boundary handler takes what lies ready and returns.

import type { BoundaryResult, ExtensionAPI, ExtensionContext, SessionBoundaryDraft } from "@earendil-works/pi-coding-agent";
import type { ActivityWatch } from "./activity.ts";
import { attempt, isRecord, later, note, trace } from "./safe.ts";
import { deliveredIds, isDurable, messageOf } from "./session.ts";
import type { Delivery, Offer, Refusal } from "./wire.ts";

/** A Pi that was idle all this time will not start the run that a wake asked for, in ms. */
const WAKE_LIMIT = 10_000;

export interface Host {
	/** Tells the core something; dropped when there is no core. */
	tell(method: string, params: Record<string, unknown>): void;
	/** Tells the core what Pi is doing, also if it was told before. */
	tellState(): void;
}

/** An offer that was given to Pi. */
interface Taken {
	/** Its number; null = one of an earlier connection. */
	epoch: number | null;
	/** The message that is to start a run: it comes into the session when that run begins. */
	wakes: string | undefined;
	/** That run is beginning. */
	begun: boolean;
	/** Ids nobody has looked for at a moment that tells. */
	undecided: Set<string>;
	found: string[];
	missing: string[];
}

export class Deliveries {
	readonly #pi: ExtensionAPI;
	readonly #ctx: ExtensionContext;
	readonly #activity: ActivityWatch;
	readonly #host: Host;
	#generation: number | undefined;
	/** Offers for the next boundary, in the order of their arrival. */
	readonly #held = new Map<number, Offer>();
	/** Every epoch of this connection. */
	readonly #seen = new Set<number>();
	readonly #taken = new Set<Taken>();
	/** Ids in the session of which the core does not know yet that they are safe, with their epoch. */
	readonly #unsafe = new Map<string, number | null>();
	#wake: NodeJS.Timeout | undefined;

	constructor(pi: ExtensionAPI, ctx: ExtensionContext, activity: ActivityWatch, host: Host) {
		this.#pi = pi;
		this.#ctx = ctx;
		this.#activity = activity;
		this.#host = host;
	}

	/** Ids that were handed over and not looked for. */
	get undecided(): string[] {
		return [...this.#taken].flatMap((taken) => [...taken.undecided]);
	}

	/** A connection begins: offers of the one before are not meant any more. */
	begin(generation: number): void {
		this.#generation = generation;
		this.#held.clear();
		this.#seen.clear();
		this.#unsafe.clear();
		for (const taken of this.#taken) taken.epoch = null;
		// The handshake named what was found until then; it may not have been safe.
		if (!isDurable(this.#ctx)) {
			for (const id of deliveredIds(this.#ctx)) this.#unsafe.set(id, null);
		}
	}

	/** The connection ended. */
	lost(): void {
		this.#generation = undefined;
		this.#held.clear();
	}

	end(): void {
		this.lost();
		clearTimeout(this.#wake);
	}

	offer(params: Record<string, unknown>): void {
		const { generation, epoch } = params;
		// Without its numbers nobody could be told what became of it.
		if (!isCount(generation) || !isCount(epoch)) return;
		if (generation !== this.#generation) {
			this.#host.tell("host/refused", { generation, epoch, why: "generation" satisfies Refusal });
			return;
		}
		const offer = read(params);
		if (offer === undefined || this.#seen.has(epoch)) {
			this.#refuse([epoch], "invalid");
			return;
		}
		this.#seen.add(epoch);
		const { state } = this.#activity.situation();
		if (offer.mode === "boundary") {
			if (state === "busy") this.#hold(offer);
			else this.#refuse([epoch], "idle");
		} else if (offer.mode === "silent") {
			if (state === "busy") this.#hold(offer);
			else this.#append(offer);
		} else if (this.#activity.inputOnItsWay) {
			this.#refuse([epoch], "prompt");
		} else if (state === "busy") {
			this.#refuse([epoch], "busy");
		} else if (state === "aborted") {
			this.#refuse([epoch], "aborted");
		} else {
			this.#append(offer);
		}
		this.#activity.look();
	}

	withdraw(params: Record<string, unknown>): void {
		const { generation, epoch } = params;
		if (generation !== this.#generation || !isCount(epoch)) return;
		if (this.#held.delete(epoch)) this.#refuse([epoch], "withdrawn");
	}

	/**
	 * What lies ready, at a boundary. After a turn that was aborted or failed the model does not go
	 * on by our doing: then only what asks for nothing is taken.
	 */
	take(event: { entries: SessionBoundaryDraft[]; outcome: string }): BoundaryResult | undefined {
		const drafts: SessionBoundaryDraft[] = [];
		let goOn = false;
		for (const [epoch, offer] of this.#held) {
			if (offer.mode === "boundary" && event.outcome !== "completed") continue;
			goOn ||= offer.mode === "boundary";
			this.#held.delete(epoch);
			this.#hand(offer, undefined);
			for (const delivery of offer.deliveries) drafts.push({ type: "custom_message", ...messageOf(delivery) });
		}
		if (drafts.length === 0) return undefined;
		const entries = [...event.entries, ...drafts];
		return goOn ? { entries, continue: true } : { entries };
	}

	/** Pi does nothing any more: no boundary will come for what is still held. */
	quiet(): void {
		const held = [...this.#held.keys()];
		this.#held.clear();
		this.#refuse(held, "idle");
	}

	/** A run begins with a message that an extension sent. */
	runBegins(details: unknown): void {
		const id = isRecord(details) ? details["delivery"] : undefined;
		for (const taken of this.#taken) {
			if (id !== undefined && taken.wakes === id) taken.begun = true;
		}
	}

	/**
	 * Looks for what was handed over. What a boundary took is in the session when anything happens
	 * after it, or never; what wakes Pi is in it when a turn of its run has ended (`turnOver`).
	 */
	check(turnOver: boolean): void {
		this.#check((id, taken) => id !== taken.wakes || (turnOver && taken.begun));
	}

	#check(decided: (id: string, taken: Taken) => boolean): void {
		if (this.#taken.size === 0 && this.#unsafe.size === 0) return;
		attempt("looking into the session", undefined, () => {
			const durable = isDurable(this.#ctx);
			if (durable) this.#nowSafe();
			if (this.#taken.size === 0) return;
			const there = deliveredIds(this.#ctx);
			for (const taken of this.#taken) {
				for (const id of taken.undecided) {
					if (there.has(id)) taken.found.push(id);
					else if (decided(id, taken)) taken.missing.push(id);
					else continue;
					taken.undecided.delete(id);
				}
				if (taken.undecided.size > 0) continue;
				const { epoch, found, missing } = taken;
				this.#taken.delete(taken);
				if (!durable) for (const id of found) this.#unsafe.set(id, epoch);
				this.#host.tell("host/ack", { generation: this.#generation, epoch, found, missing, durable });
			}
		});
	}

	/** What was in memory only is in a file now. */
	#nowSafe(): void {
		const byEpoch = Map.groupBy(this.#unsafe, ([, epoch]) => epoch);
		this.#unsafe.clear();
		for (const [epoch, pairs] of byEpoch) {
			const found = pairs.map(([id]) => id);
			this.#host.tell("host/ack", { generation: this.#generation, epoch, found, missing: [], durable: true });
		}
	}

	/** Lies ready for the next boundary. */
	#hold(offer: Offer): void {
		this.#held.set(offer.epoch, offer);
		trace(`held for a boundary: ${offer.deliveries.map((delivery) => delivery.id).join(" ")}`);
	}

	#hand(offer: Offer, wakes: string | undefined): void {
		const { generation, epoch, deliveries } = offer;
		const undecided = new Set(deliveries.map((delivery) => delivery.id));
		this.#taken.add({ epoch, wakes, begun: false, undecided, found: [], missing: [] });
		this.#host.tell("host/taken", { generation, epoch });
	}

	/** To a Pi that does nothing: all but the last silently, the last may start a run. */
	#append(offer: Offer): void {
		const { deliveries, mode } = offer;
		const wakes = mode === "wake" ? deliveries.at(-1) : undefined;
		this.#hand(offer, wakes?.id);
		for (const delivery of deliveries) {
			const options = delivery === wakes ? ({ triggerTurn: true, deliverAs: "steer" } as const) : { triggerTurn: false };
			try {
				this.#pi.sendMessage(messageOf(delivery), options);
			} catch (error) {
				note("handing a delivery to Pi", error);
			}
		}
		this.check(false);
		if (wakes !== undefined) this.#expectRun();
	}

	/** A run that cannot start says nothing to anybody. */
	#expectRun(): void {
		clearTimeout(this.#wake);
		this.#wake = later(WAKE_LIMIT, "waiting for a run to start", () => {
			if (![...this.#taken].some((taken) => taken.wakes !== undefined)) return;
			if (this.#activity.idle) this.#check(() => true);
			else this.#expectRun();
		});
	}

	/** The core offers anew when it knows what holds: it is told after each refusal. */
	#refuse(epochs: number[], why: Refusal): void {
		for (const epoch of epochs) this.#host.tell("host/refused", { generation: this.#generation, epoch, why });
		if (epochs.length > 0) this.#host.tellState();
	}
}

function isCount(value: unknown): value is number {
	return Number.isSafeInteger(value) && (value as number) >= 0;
}

function read(params: Record<string, unknown>): Offer | undefined {
	const { generation, epoch, mode } = params;
	if (!isCount(generation) || !isCount(epoch)) return undefined;
	if (mode !== "boundary" && mode !== "wake" && mode !== "silent") return undefined;
	const list: unknown = params["deliveries"];
	if (!Array.isArray(list) || list.length === 0) return undefined;
	const deliveries: Delivery[] = [];
	for (const item of list) {
		if (!isRecord(item)) return undefined;
		const { id, kind, content, details } = item;
		if (typeof id !== "string" || typeof kind !== "string" || typeof content !== "string") return undefined;
		deliveries.push({ id, kind, content, details: details ?? null });
	}
	return { generation, epoch, mode, deliveries };
}
