// Finds the pi-agents program: PI_AGENTS_BIN, the path that `setup` wrote down, PATH.

import { accessSync, constants, readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join } from "node:path";

/** A longer file holds no path, in bytes. */
const LONGEST = 16 * 1024;

export const NOT_FOUND =
	"the program pi-agents was not found: install it, or set PI_AGENTS_BIN to its path and start Pi again";

export function findProgram(): string | undefined {
	const named = process.env["PI_AGENTS_BIN"];
	if (named !== undefined && named !== "") return named;
	const written = recorded();
	if (written !== undefined && runs(written)) return written;
	for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
		// A relative folder of PATH would mean another program in every project.
		if (!isAbsolute(folder)) continue;
		const path = join(folder, "pi-agents");
		if (runs(path)) return path;
	}
	return undefined;
}

/** `pi-agents/program` in the configuration folder: one line, an absolute path. */
function recorded(): string | undefined {
	const named = process.env["XDG_CONFIG_HOME"] ?? "";
	const config = isAbsolute(named) ? named : join(homedir(), ".config");
	const file = join(config, "pi-agents", "program");
	try {
		// Reading anything else could wait for ever, and Pi with it.
		const there = statSync(file);
		if (!there.isFile() || there.size > LONGEST) return undefined;
		const path = readFileSync(file, "utf8").split("\n")[0]?.trim() ?? "";
		return isAbsolute(path) ? path : undefined;
	} catch {
		return undefined;
	}
}

function runs(path: string): boolean {
	try {
		accessSync(path, constants.X_OK);
		return statSync(path).isFile();
	} catch {
		return false;
	}
}
