// Nothing that is thrown in a timer, a promise or a callback may reach Pi: it would end Pi.

/** Says what went wrong where it harms nothing: never on a screen. */
export function note(what: string, error: unknown): void {
	try {
		if (process.stderr.isTTY) return;
		const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
		process.stderr.write(`pi-agents: ${what}: ${text}\n`);
	} catch {
		// There is nobody left to tell.
	}
}

const LOUD = process.env["PI_AGENTS_LOG"] === "debug" || process.env["PI_AGENTS_LOG"] === "trace";

/** Says what happens, for whoever looks for a fault: only where the log is asked to be that long. */
export function trace(what: string): void {
	if (LOUD) note("trace", what);
}

/** The same function, but it never throws. */
export function safe<A extends unknown[]>(what: string, run: (...args: A) => void): (...args: A) => void {
	return (...args) => {
		try {
			run(...args);
		} catch (error) {
			note(what, error);
		}
	};
}

/** A value, or the fallback when it cannot be had. */
export function attempt<T>(what: string, fallback: T, get: () => T): T {
	try {
		return get();
	} catch (error) {
		note(what, error);
		return fallback;
	}
}

/** A timer that never throws. It keeps no Pi alive that has nothing else to do, unless `keep`. */
export function later(ms: number, what: string, run: () => void, keep = false): NodeJS.Timeout {
	const timer = setTimeout(safe(what, run), ms);
	if (!keep) timer.unref();
	return timer;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
	return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function textOf(error: unknown): string {
	return error instanceof Error ? error.message : String(error);
}
