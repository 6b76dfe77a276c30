// What Pi is doing, as far as offers depend on it. Told to the core whenever it changes.

import type { ExtensionContext } from "@earendil-works/pi-coding-agent";
import { attempt, later, note } from "./safe.ts";
import { lastRunFailed } from "./session.ts";
import type { Activity } from "./wire.ts";

/** An input that no run followed within this time was handled by somebody else, in ms. */
const INPUT_LIMIT = 5000;
/** Time between two looks at a Pi that is busy without a run: a compaction, an input on its way. */
const LOOK = 100;

export interface Situation {
	state: Activity;
	model: string | null;
	thinking: string | null;
	dialogs: number;
}

export class ActivityWatch {
	readonly #ctx: ExtensionContext;
	readonly #changed: (situation: Situation) => void;
	#outcome: "completed" | "aborted" | "error" = "completed";
	#ended: Activity = "idle";
	#running = false;
	#inputSince: number | undefined;
	#dialogs = 0;
	#thinking: string | null;
	#timer: NodeJS.Timeout | undefined;
	#said = "";
	#over = false;

	constructor(ctx: ExtensionContext, thinking: string | null, changed: (situation: Situation) => void) {
		this.#ctx = ctx;
		// Whoever was aborted stays so until another run, also when Pi was started anew (R-DELIV-04).
		if (attempt("how the last run ended", false, () => lastRunFailed(ctx))) this.#ended = "aborted";
		this.#thinking = thinking;
		this.#changed = changed;
	}

	/** An input is on its way to Pi: a run started now would push it aside. */
	get inputOnItsWay(): boolean {
		if (this.#inputSince === undefined) return false;
		if (performance.now() - this.#inputSince < INPUT_LIMIT) return true;
		this.#inputSince = undefined;
		return false;
	}

	get idle(): boolean {
		if (this.#over) return false;
		try {
			return this.#ctx.isIdle();
		} catch (error) {
			// Pi took the session away without a word: there is nothing more to watch.
			note("asking Pi whether it is idle", error);
			this.end();
			return false;
		}
	}

	situation(): Situation {
		const busy = this.inputOnItsWay || !this.idle;
		const model = attempt("asking Pi for its model", undefined, () => this.#ctx.model);
		return {
			state: busy ? "busy" : this.#ended,
			model: model === undefined ? null : `${model.provider}/${model.id}`,
			thinking: this.#thinking,
			dialogs: this.#dialogs,
		};
	}

	input(): void {
		if (this.idle) this.#inputSince = performance.now();
		this.look();
	}

	runStarted(): void {
		this.#inputSince = undefined;
		this.#running = true;
		this.#outcome = "completed";
		this.look();
	}

	turnEnded(outcome: "completed" | "aborted" | "error"): void {
		this.#outcome = outcome;
	}

	settled(aborted: boolean): void {
		this.#running = false;
		this.#ended = aborted || this.#outcome !== "completed" ? "aborted" : "idle";
		this.look();
	}

	dialog(open: boolean): void {
		this.#dialogs = Math.max(0, this.#dialogs + (open ? 1 : -1));
		this.look();
	}

	thinking(level: string): void {
		this.#thinking = level;
		this.look();
	}

	/** Says what changed since the last look, and looks again while no event will tell. */
	look(): void {
		if (this.#over) return;
		const situation = this.situation();
		const text = JSON.stringify(situation);
		if (text !== this.#said) {
			this.#said = text;
			this.#changed(situation);
		}
		clearTimeout(this.#timer);
		this.#timer = undefined;
		if (this.#over) return;
		if (situation.state === "busy" && !this.#running) {
			this.#timer = later(LOOK, "looking at what Pi does", () => this.look());
		}
	}

	end(): void {
		this.#over = true;
		clearTimeout(this.#timer);
	}
}
