// The bridge of pi-agents: connects a Pi session to its core. Wires the parts together; each says
// in its first lines what it owns. Which result goes to whom and when is decided in the core.

import { type ExtensionAPI, type ExtensionContext, VERSION } from "@earendil-works/pi-coding-agent";
import { ActivityWatch } from "./activity.ts";
import { Core, type Way } from "./core.ts";
import { Deliveries } from "./deliveries.ts";
import { environment, identity, type Position, type Secrets, takeSecrets } from "./environment.ts";
import { contributions } from "./launch.ts";
import { CallFailed } from "./peer.ts";
import { attempt, isRecord, note, safe, trace } from "./safe.ts";
import { deliveredIds, isDurable, remember, rosterOf } from "./session.ts";
import { Tools } from "./tools.ts";
import type { HostFacts } from "./wire.ts";

const SKILL = "pi-subagents-workflow";
/** By this two copies of the bridge in one Pi find each other (global installation and `--extension`). */
const PRESENCE = "pi-agents:bridge:v1";

export default function bridge(pi: ExtensionAPI): void {
	const secrets = takeSecrets();
	const who = identity();
	// Whoever has the variables of a child but no proof runs in a child's shell: it is not the child.
	const proven = who.agent === undefined || secrets.token !== undefined;
	if (!proven || who.position === "leaf") withoutSkill(pi);
	if (!proven || isSecondCopy(pi)) return;
	new Bridge(pi, secrets, who.agent, who.position).register();
}

/** Asks who else is here; the first copy answers at once, and for its whole life. */
function isSecondCopy(pi: ExtensionAPI): boolean {
	const mine = import.meta.url;
	const question: { by: string; taken: boolean } = { by: mine, taken: false };
	pi.events.emit(PRESENCE, question);
	if (question.taken) return true;
	pi.events.on(PRESENCE, (asked) => {
		// The same file once more is this copy after a reload.
		if (isRecord(asked) && asked["by"] !== mine) asked["taken"] = true;
	});
	return false;
}

/** A process that cannot start agents is not told how to coordinate them (R-TOOL-12). */
function withoutSkill(pi: ExtensionAPI): void {
	pi.on("before_agent_start", (event) => {
		attempt("the list of skills", undefined, () => {
			const { skills } = event.systemPromptOptions;
			const at = skills.findIndex((skill) => skill.name === SKILL);
			if (at >= 0) skills.splice(at, 1);
		});
	});
}

/** What lives as long as one session of Pi. */
interface Session {
	ctx: ExtensionContext;
	reason: string;
	activity: ActivityWatch;
	deliveries: Deliveries;
}

class Bridge {
	readonly #pi: ExtensionAPI;
	readonly #secrets: Secrets;
	readonly #agent: string | undefined;
	readonly #position: Position;
	readonly #core: Core | undefined;
	#tools: Tools | undefined;
	#session: Session | undefined;
	#seq = 0;

	constructor(pi: ExtensionAPI, secrets: Secrets, agent: string | undefined, position: Position) {
		this.#pi = pi;
		this.#secrets = secrets;
		this.#agent = agent;
		this.#position = position;
		const way = wayOf(secrets, position);
		this.#core = way && new Core(way, {
			facts: () => this.#facts(),
			ready: (welcome) => {
				this.#seq = 0;
				this.#session?.deliveries.begin(welcome.generation);
				if (welcome.activate) this.#tools?.activate();
				// Something may have changed since the facts were gathered.
				this.#tellState();
				trace(`joined as ${welcome.id}, generation ${welcome.generation}`);
			},
			lost: () => this.#session?.deliveries.lost(),
			settled: () => this.#session?.deliveries.undecided.length === 0,
			call: (method, params) => this.#called(method, params),
			notice: (method, params) => this.#noticed(method, params),
		});
	}

	register(): void {
		const pi = this.#pi;
		this.#tools = new Tools(pi, this.#position, this.#core);
		// No handler below waits for anything but the last: a core that is silent must not hold up Pi.
		pi.on("session_start", (event, ctx) => void attempt("the start of a session", undefined, () => this.#begin(event.reason, ctx)));
		pi.on("session_shutdown", (event) => this.#end(event.reason));
		if (this.#core === undefined) return;
		pi.on("input", this.#when("input", ({ activity }, event) => {
			activity.input();
			if (event.text.startsWith(`/skill:${SKILL}`)) this.#tools?.activate();
		}));
		pi.on("before_agent_start", this.#when("before_agent_start", ({ deliveries }, event) => {
			if (event.messageType === "custom") deliveries.runBegins(event.message.details);
		}));
		pi.on("agent_start", this.#when("agent_start", ({ activity, deliveries }) => {
			activity.runStarted();
			deliveries.check(false);
		}));
		pi.on("turn_start", this.#when("turn_start", ({ deliveries }) => deliveries.check(false)));
		pi.on("message_start", this.#when("message_start", ({ deliveries }, event) => {
			// The first sign of an answer: what it answers is in the session.
			if (event.message.role === "assistant") deliveries.check(false);
		}));
		pi.on("agent_end", this.#when("agent_end", ({ deliveries }) => deliveries.check(true)));
		pi.on("agent_settled", this.#when("agent_settled", ({ activity, deliveries }, event) => {
			deliveries.check(true);
			activity.settled(event.aborted);
		}));
		pi.on("turn_end", (event) => attempt("the end of a turn", undefined, () => {
			this.#session?.activity.turnEnded(event.outcome);
			this.#session?.deliveries.check(true);
			return this.#session?.deliveries.take(event);
		}));
		pi.on("agent_before_settle", (event) => attempt("the end of a run", undefined, () => {
			this.#session?.deliveries.check(true);
			return this.#session?.deliveries.take(event);
		}));
		pi.on("session_tree", this.#when("session_tree", ({ ctx, activity }) => {
			this.#core?.tell("host/branch", { generation: this.#core.generation, branch: rosterOf(ctx) });
			activity.look();
		}));
		pi.on("ui_prompt_start", this.#when("ui_prompt_start", ({ activity }) => activity.dialog(true)));
		pi.on("ui_prompt_end", this.#when("ui_prompt_end", ({ activity }) => activity.dialog(false)));
		pi.on("model_select", this.#when("model_select", ({ activity }) => activity.look()));
		pi.on("thinking_level_select", this.#when("thinking_level_select", ({ activity }, event) => activity.thinking(event.level)));
		pi.on("session_before_compact", this.#when("session_before_compact", ({ activity }) => activity.look()));
		pi.on("session_compact", this.#when("session_compact", ({ activity }) => activity.look()));
		if (this.#position === "root") {
			pi.on("tool_result", this.#when("tool_result", (_, event) => {
				if (!event.isError && JSON.stringify(event.input).includes(`${SKILL}/SKILL.md`)) this.#tools?.activate();
			}));
		}
	}

	/** A handler that returns nothing, never waits and never throws. */
	#when<E>(what: string, run: (session: Session, event: E) => void): (event: E) => void {
		return safe(what, (event: E) => {
			if (this.#session !== undefined) run(this.#session, event);
		});
	}

	#begin(reason: string, ctx: ExtensionContext): void {
		// Pi 1.4.0 says it twice when it changes the session.
		if (this.#session !== undefined) return;
		const activity = new ActivityWatch(ctx, this.#pi.getThinkingLevel(), (situation) => {
			this.#tellState();
			if (situation.state !== "busy") this.#session?.deliveries.quiet();
		});
		const deliveries = new Deliveries(this.#pi, ctx, activity, {
			tell: (method, params) => this.#core?.tell(method, params),
			tellState: () => this.#tellState(),
		});
		this.#session = { ctx, reason, activity, deliveries };
		// A print ends when its answer is there: it starts a core only when it has use for one.
		if (ctx.mode === "tui" || ctx.mode === "rpc") this.#core?.begin();
	}

	async #end(reason: string): Promise<void> {
		try {
			const session = this.#session;
			this.#session = undefined;
			session?.activity.end();
			session?.deliveries.end();
			await this.#core?.leave(reason);
		} catch (error) {
			note("the end of a session", error);
		}
	}

	#tellState(): void {
		const core = this.#core;
		const session = this.#session;
		if (core?.generation === undefined || session === undefined) return;
		this.#seq += 1;
		core.tell("host/state", { generation: core.generation, seq: this.#seq, ...session.activity.situation() });
	}

	#facts(): HostFacts {
		const session = this.#session;
		if (session === undefined) throw new CallFailed("this Pi session ends");
		const { ctx } = session;
		const { state, model, thinking } = session.activity.situation();
		const file = ctx.sessionManager.getSessionFile() ?? null;
		const durable = isDurable(ctx);
		const { token } = this.#secrets;
		return {
			session: ctx.sessionManager.getSessionId(),
			session_file: file,
			session_file_exists: file !== null && durable,
			reason: session.reason,
			cwd: ctx.cwd,
			mode: ctx.mode,
			has_ui: ctx.hasUI,
			model,
			thinking,
			pi_version: VERSION,
			pid: process.pid,
			trusted: ctx.isProjectTrusted(),
			state,
			known: [...deliveredIds(ctx)],
			durable,
			undecided: session.deliveries.undecided,
			branch: rosterOf(ctx),
			env: environment(),
			...(token === undefined ? {} : { proof: { agent: this.#agent ?? null, token } }),
		};
	}

	#called(method: string, params: Record<string, unknown>): unknown {
		if (params["generation"] !== this.#core?.generation) throw new CallFailed("this Pi session is another one now", -32013);
		if (method === "host/launch_event") return contributions((channel, data) => this.#pi.events.emit(channel, data));
		throw new CallFailed(`this bridge does not know ${method}`, -32601);
	}

	#noticed(method: string, params: Record<string, unknown>): void {
		const session = this.#session;
		if (method === "host/named" && session !== undefined && params["generation"] === this.#core?.generation) {
			attempt("remembering agents", undefined, () => remember(this.#pi, session.ctx, params["agents"]));
			return;
		}
		if (method === "host/offer") this.#session?.deliveries.offer(params);
		else if (method === "host/withdraw") this.#session?.deliveries.withdraw(params);
		else if (method === "tools/progress") this.#tools?.progressed(params);
	}
}

/** How this process gets to a core; a child joins its own or has none. */
function wayOf(secrets: Secrets, position: Position): Way | undefined {
	if (position === "leaf") return undefined;
	if (secrets.socket !== undefined) return { kind: "join", socket: secrets.socket };
	return position === "root" ? { kind: "start" } : undefined;
}
