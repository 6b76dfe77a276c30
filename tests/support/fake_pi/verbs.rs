//! What a prompt can ask the fake to do: `fake:VERB ARGUMENTS`, several joined by ` ;; `.
//! A prompt without `fake:` (and without `--run`) is answered with `ack:` and its first words.
//!
//! Answers (each one turn of the run):
//! - `say TEXT`, `think TEXT`, `length TEXT`, `error TEXT`: one message, ended in that way;
//! - `stream N MS`: N deltas, MS between them (`w0 w1 …`, a line break after each tenth);
//! - `flood BYTES`: deltas of that size as fast as the reader takes them, until aborted;
//! - `big BYTES`: a text of that size in one delta (and again in every record that repeats it);
//! - `hang`: a first delta, then nothing until aborted;
//! - `mute`: nothing at all until aborted, not even the start of the run;
//! - `tool COMMAND`: a real shell in a session of its own, as Pi's bash tool;
//! - `ask METHOD TITLE`: a dialog (`select`, `confirm`, `input`, `editor`), then what was answered;
//! - `ask-timeout MS METHOD TITLE`: one that gives up by itself;
//! - `retry N MS TEXT`: N failed attempts, MS before the next, then the text;
//! - `env NAME`, `cwd`: the value as text;
//! - `wait PATH`: nothing until that file exists, then `done waiting`.
//!
//! In passing (no turn of their own):
//! - `sleep MS`; `message TEXT` (a message to the parent); `status KEY TEXT`; `notify TEXT`;
//! - `junk TEXT`: a line that is no record; `big-line BYTES`: one huge record of an unknown type;
//! - `bad-utf8`, `surrogate`: a delta that is no UTF-8, or holds half a surrogate pair;
//! - `stderr BYTES`: so much on stderr; `stderr 0`: without end;
//! - `grandchild KIND`: see `helpers.rs`;
//! - `exit CODE`, `signal NAME`, `half CODE` (half a record first): the process ends mid-run;
//! - `close-stdout`: the stream ends, the process does not.
//!
//! About the run: `handled MS` (no run at all: an extension command that took MS), `stray` (an
//! `agent_settled` that belongs to nothing, before the run), `no-settle` (no `agent_settled`),
//! `settle-delay MS` (between `agent_end` and `agent_settled`), `auto-compact` (a compaction there).

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) verb: String,
    pub(crate) rest: String,
}

const KNOWN: &[&str] = &[
    "say",
    "think",
    "length",
    "error",
    "stream",
    "flood",
    "big",
    "hang",
    "mute",
    "tool",
    "ask",
    "ask-timeout",
    "retry",
    "env",
    "cwd",
    "wait",
    "sleep",
    "message",
    "status",
    "notify",
    "junk",
    "big-line",
    "bad-utf8",
    "surrogate",
    "stderr",
    "grandchild",
    "exit",
    "signal",
    "half",
    "close-stdout",
    "handled",
    "stray",
    "no-settle",
    "settle-delay",
    "auto-compact",
];

/// Statements that are not turns.
const IN_PASSING: &[&str] = &[
    "sleep",
    "message",
    "status",
    "notify",
    "junk",
    "big-line",
    "bad-utf8",
    "surrogate",
    "stderr",
    "grandchild",
    "exit",
    "signal",
    "half",
    "close-stdout",
    "handled",
    "stray",
    "no-settle",
    "settle-delay",
    "auto-compact",
];

impl Statement {
    fn new(verb: &str, rest: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            rest: rest.to_owned(),
        }
    }

    /// Whether it answers with a message.
    pub(crate) fn is_turn(&self) -> bool {
        !IN_PASSING.contains(&self.verb.as_str())
    }

    /// The first word as a number; `default` without one.
    pub(crate) fn number(&self, default: u64) -> u64 {
        let first = self.rest.split_whitespace().next();
        first.and_then(|word| word.parse().ok()).unwrap_or(default)
    }

    /// The first word, and what follows it.
    pub(crate) fn split(&self) -> (&str, &str) {
        self.rest.split_once(' ').unwrap_or((&self.rest, ""))
    }
}

/// What this prompt asks for; `default` is the `--run` option. There is always a turn in it.
pub(crate) fn parse(text: &str, default: Option<&str>) -> Vec<Statement> {
    let script = match text.split_once("fake:") {
        Some((_, script)) => script.lines().next(),
        None => default,
    };
    let Some(script) = script else {
        let start: String = text.chars().take(40).collect();
        return vec![Statement::new("say", &format!("ack: {start}"))];
    };
    let mut statements: Vec<Statement> = script
        .split(" ;; ")
        .map(|part| {
            let part = part.trim();
            let (verb, rest) = part.split_once(' ').unwrap_or((part, ""));
            if KNOWN.contains(&verb) {
                Statement::new(verb, rest.trim())
            } else {
                // Loud, so that a test with a typo fails.
                Statement::new("error", &format!("fake pi: unknown verb {verb:?}"))
            }
        })
        .collect();
    let answered = statements.iter().rfind(|s| s.is_turn());
    match answered.map(|s| s.verb.as_str()) {
        None | Some("tool") => statements.push(Statement::new("say", "done")),
        Some(_) => {}
    }
    statements
}
