// The shapes of docs/bridge-protocol.md that the bridge reads or writes.

export type Activity = "busy" | "idle" | "aborted";
export type OfferMode = "boundary" | "wake" | "silent";
export type Refusal = "busy" | "prompt" | "idle" | "aborted" | "generation" | "withdrawn" | "invalid";
export type Bytes = string | { bytes: number[] };

export interface EnvVar {
	name: Bytes;
	value: Bytes;
}

export interface HostFacts {
	session: string;
	session_file: string | null;
	session_file_exists: boolean;
	reason: string;
	cwd: string;
	mode: string;
	has_ui: boolean;
	model: string | null;
	thinking: string | null;
	pi_version: string | null;
	pid: number;
	trusted: boolean;
	state: Activity;
	known: string[];
	durable: boolean;
	undecided: string[];
	branch: Roster;
	env: EnvVar[];
	proof?: { agent: string | null; token: string };
}

export interface Roster {
	agents: string[] | null;
	names: string[];
}

export interface HostWelcome {
	id: string;
	generation: number;
	activate: boolean;
	limits: { line_bytes: number };
}

export interface Delivery {
	id: string;
	kind: string;
	content: string;
	details: unknown;
}

export interface Offer {
	generation: number;
	epoch: number;
	mode: OfferMode;
	deliveries: Delivery[];
}

export interface ToolSpec {
	name: string;
	title: string;
	description: string;
	promptSnippet: string;
	inputSchema: Record<string, unknown>;
}

export interface ToolOutcome {
	content: { type: "text"; text: string }[];
	isError: boolean;
	details: unknown;
	usage?: unknown;
}
