//! What of an input and of an effect is worth telling. The one place that a new variant of either
//! has to be thought about: no wildcard, so that the compiler asks.

use super::{Asked, Beginning, By, CallKind, Change, Did, MAX_DID, TimerKind, What};
use crate::fleet::agent::{Status, ToolChoice};
use crate::fleet::host::{Sender, Stopper};
use crate::fleet::ids::{AgentId, CallId, InstanceId};
use crate::fleet::interpret::{Disposition, Fact, ResponseData};
use crate::fleet::machine::table::{State, TRANSITIONS};
use crate::fleet::machine::{ChildCommand, Effect, Input, LadderSignal, Timer};
use crate::fleet::transcript::Outcome;
use crate::pi::message::StopReason;

/// Longest kept reason, in bytes.
const REASON: usize = 300;
/// Longest kept text of a prompt, a notice, a title, in bytes.
const SHORT: usize = 100;
/// Most tool names that are kept.
const TOOLS: usize = 64;

/// Whom an input is about.
#[derive(Debug)]
pub(super) enum Subject {
    Agent(AgentId),
    Process(InstanceId),
    /// The agent of a call that is not answered yet.
    Call(CallId),
    /// Every agent it has consequences for.
    Everyone,
    Nobody,
}

/// An input as it is told.
pub(super) struct Read {
    pub(super) subject: Subject,
    pub(super) call: Option<(CallId, CallKind)>,
    pub(super) what: What,
}

/// Whom an effect is about.
pub(super) enum Owner {
    Agent(AgentId),
    Process(InstanceId),
    Call(CallId),
    Nobody,
}

/// An input as it is told.
pub(super) fn input(input: &Input) -> Read {
    let asked = |agent: &AgentId, call: &CallId, kind, what| Read {
        subject: Subject::Agent(*agent),
        call: Some((*call, kind)),
        what,
    };
    let of = |instance: &InstanceId, what| Read {
        subject: Subject::Process(*instance),
        call: None,
        what,
    };
    let everyone = |what| Read {
        subject: Subject::Everyone,
        call: None,
        what,
    };
    match input {
        Input::Spawn {
            call,
            agent,
            prompt,
            ..
        } => {
            let task = beginning(prompt);
            asked(agent, call, CallKind::Spawn, What::SpawnAsked { task })
        }
        Input::Send {
            call,
            agent,
            by,
            text,
            ..
        } => {
            let what = What::MessageAsked {
                message: beginning(text),
                by: match by {
                    Sender::Parent(_) => By::Parent,
                    Sender::User => By::You,
                    Sender::Continue => By::Continue,
                },
            };
            asked(agent, call, CallKind::Send, what)
        }
        Input::Stop { call, agent, by } => {
            let what = What::StopAsked {
                by: match by {
                    Stopper::Parent(_) => By::Parent,
                    Stopper::User => By::You,
                },
            };
            asked(agent, call, CallKind::Stop, what)
        }
        Input::Cancel { call } => Read {
            subject: Subject::Call(*call),
            call: None,
            what: What::CallTakenBack,
        },
        Input::Abort { call, agent } => asked(agent, call, CallKind::Abort, What::AbortAsked),
        Input::Shutdown { .. } => everyone(What::ShutdownAsked),
        Input::HostJoined { .. } => everyone(What::HostJoined),
        Input::HostLeft { reason, .. } => everyone(What::HostLeft { reason: *reason }),
        // What becomes of results changes no agent; should it ever, this is where it came from.
        Input::HostState { .. }
        | Input::HostBranch { .. }
        | Input::Offered { .. }
        | Input::Journaled { .. }
        | Input::JournalFailed { .. }
        | Input::JournalRecovered { .. }
        | Input::JournalRead { .. } => everyone(What::HostNews),
        Input::Launched { instance, pid } => of(instance, What::Started { pid: *pid }),
        Input::LaunchFailed {
            instance,
            reason,
            hint,
        } => {
            let what = What::StartFailed {
                reason: cut(reason, REASON),
                hint: hint.as_deref().map(|h| cut(h, 2 * REASON)),
            };
            of(instance, what)
        }
        Input::Fact { instance, fact } => of(instance, self::fact(fact)),
        Input::WriteFailed { instance } => of(instance, What::WriteFailed),
        Input::OutputEnded { instance } => of(instance, What::OutputEnded),
        Input::Exited { instance, exit } => {
            let what = What::Exited {
                code: exit.code,
                signal: exit.signal,
                words: line(&exit.words(), REASON),
            };
            of(instance, what)
        }
        Input::Swept {
            instance,
            killed,
            left,
        } => {
            let (killed, left) = (*killed, *left);
            of(instance, What::Swept { killed, left })
        }
        Input::Timer(timer) => {
            let (timer, process) = timer_kind(timer);
            let what = What::TimeUp { timer };
            process.map_or_else(|| everyone(what.clone()), |i| of(&i, what.clone()))
        }
    }
}

fn fact(fact: &Fact) -> What {
    match fact {
        Fact::Response {
            command, result, ..
        } => What::ChildAnswered {
            command: line(command, SHORT),
            ok: result.is_ok(),
            words: match result {
                Ok(data) => response(data).to_owned(),
                Err(error) => line(error, REASON),
            },
        },
        Fact::RunStarted => What::RunBegan,
        Fact::RunEnded(end) => What::RunEnded {
            stop: stop_word(&end.stop, end.aborted),
            error: end.error.as_deref().map(|e| line(e, REASON)),
        },
        Fact::Unfinished(_) => What::RunCutOff,
        Fact::ToParent { text } => What::ToParent {
            message: beginning(text),
        },
        Fact::StraySettled => What::StraySettled,
        Fact::CompactionStarted => What::CompactionBegan,
        Fact::CompactionEnded => What::CompactionEnded,
        Fact::UserMessage { text } => What::ModelRead {
            chars: count(text.chars().count()),
        },
        Fact::QueueChanged {
            steering,
            follow_up,
        } => What::QueueChanged {
            steering: count(steering.len()),
            follow_up: count(follow_up.len()),
        },
        Fact::DialogOpened(dialog) => What::DialogOpened {
            title: line(&dialog.title, SHORT),
        },
        Fact::Retrying(retry) => What::Retrying {
            attempt: retry.attempt,
            max: retry.max,
            delay_ms: retry.delay_ms,
            error: line(&retry.error, REASON),
        },
        Fact::RetryOver => What::RetryOver,
        Fact::ExtensionFailed { error } => What::ExtensionFailed {
            error: line(error, REASON),
        },
    }
}

/// What the machine did, and to whom. Without anything to tell the agent is only looked at: its
/// status may have changed.
pub(super) fn effect(effect: &Effect) -> (Owner, Option<Did>) {
    match effect {
        Effect::Launch { agent, plan, .. } => {
            let did = Did::Launched {
                process: 0,
                resumes: plan.resume.is_some(),
            };
            (Owner::Agent(*agent), Some(did))
        }
        Effect::Write {
            instance, command, ..
        } => {
            let command = match command {
                ChildCommand::GetState => "get_state",
                ChildCommand::GetModels => "get_available_models",
                ChildCommand::GetCommands => "get_commands",
                ChildCommand::Prompt { .. } => "prompt",
                ChildCommand::ClearQueue => "clear_queue",
                ChildCommand::Abort => "abort",
            };
            let command = command.to_owned();
            (Owner::Process(*instance), Some(Did::Wrote { command }))
        }
        Effect::CloseStdin { instance } => (Owner::Process(*instance), Some(Did::ClosedInput)),
        Effect::Signal { instance, signal } => {
            let signal = match signal {
                LadderSignal::Term => "SIGTERM",
                LadderSignal::Kill => "SIGKILL",
            };
            let signal = signal.to_owned();
            (Owner::Process(*instance), Some(Did::Signalled { signal }))
        }
        // What a deadline is for is told when it passes.
        Effect::Arm { .. } | Effect::Disarm(_) => (Owner::Nobody, None),
        // The way of results to a host: no agent is another one for it.
        Effect::Journal { .. }
        | Effect::Offer { .. }
        | Effect::Named { .. }
        | Effect::Degraded { .. }
        | Effect::Forget { .. }
        | Effect::HostClosed { .. } => (Owner::Nobody, None),
        Effect::Answer { call, answer } => {
            let error = answer.as_ref().err();
            let did = Did::Answered {
                call: CallKind::Other,
                error: error.map(|e| line(&e.message, REASON)),
                code: error.map(|e| e.code),
            };
            (Owner::Call(*call), Some(did))
        }
        Effect::Save(agent) | Effect::Publish(agent) => (Owner::Agent(*agent), None),
        Effect::RunEnded {
            agent,
            outcome,
            took_ms,
            tokens,
            tool_uses,
        } => {
            let did = Did::RunOver {
                outcome: match outcome {
                    Outcome::Failed { reason } => Outcome::Failed {
                        reason: cut(reason, REASON),
                    },
                    Outcome::Completed { .. } | Outcome::Stopped { .. } => outcome.clone(),
                },
                took_ms: *took_ms,
                tokens: *tokens,
                tool_uses: *tool_uses,
            };
            (Owner::Agent(*agent), Some(did))
        }
        Effect::Notice { agent, level, text } => {
            let did = Did::Noted {
                level: *level,
                text: line(text, SHORT),
            };
            (Owner::Agent(*agent), Some(did))
        }
        Effect::Exit => (Owner::Nobody, None),
    }
}

fn timer_kind(timer: &Timer) -> (TimerKind, Option<InstanceId>) {
    match timer {
        Timer::Start(process) => (TimerKind::Start, Some(*process)),
        Timer::Prompt(process, _) => (TimerKind::Prompt, Some(*process)),
        Timer::RunBegins(process) => (TimerKind::RunBegins, Some(*process)),
        Timer::AskState(process) => (TimerKind::AskState, Some(*process)),
        Timer::Compaction(process) => (TimerKind::Compaction, Some(*process)),
        Timer::Run(process, _) => (TimerKind::Run, Some(*process)),
        Timer::Ladder(process) => (TimerKind::Ladder, Some(*process)),
        Timer::Abort(process) => (TimerKind::Abort, Some(*process)),
        Timer::Wake(_) => (TimerKind::Wake, None),
    }
}

fn response(data: &ResponseData) -> &'static str {
    match data {
        ResponseData::Disposition(Disposition::Started) => "started a run",
        ResponseData::Disposition(Disposition::Queued) => "queued behind the present run",
        ResponseData::Disposition(Disposition::Handled) => "handled as a command, no run",
        ResponseData::Disposition(Disposition::Missing) => "without saying what became of it",
        ResponseData::Dropped(_) => "gave the queue back",
        ResponseData::State(_) => "its state",
        ResponseData::Models(_) => "its models",
        ResponseData::Commands(_) => "its commands",
        ResponseData::Other => "done",
    }
}

/// Pi's word, or ours for an abort that Pi reports in another way.
fn stop_word(stop: &StopReason, aborted: bool) -> String {
    let word = match stop {
        _ if aborted => "aborted",
        StopReason::Stop => "stop",
        StopReason::Length => "length",
        StopReason::ToolUse => "toolUse",
        StopReason::Error => "error",
        StopReason::Aborted => "aborted",
        StopReason::Pending => "pending",
        StopReason::Unknown => "unknown",
        StopReason::Other(word) => return line(word, SHORT),
    };
    word.to_owned()
}

/// A change of status with the table's reason for it.
pub(super) fn change(from: Option<State>, to: &Status) -> Change {
    let when = from.and_then(|from| {
        let to = State::of(to);
        let row = TRANSITIONS.iter().find(|(f, t, _)| (*f, *t) == (from, to));
        row.map(|(_, _, when)| (*when).to_owned())
    });
    Change {
        from,
        to: match to {
            Status::Failed { reason } => Status::Failed {
                reason: cut(reason, REASON),
            },
            Status::Queued
            | Status::Starting
            | Status::Running
            | Status::Idle
            | Status::Completed
            | Status::Stopped { .. } => to.clone(),
        },
        when,
    }
}

/// The first of what was done, and how much more it was.
pub(super) fn few(mut did: Vec<Did>) -> Vec<Did> {
    if did.len() > MAX_DID {
        let count = u32::try_from(did.len() - (MAX_DID - 1)).unwrap_or(u32::MAX);
        did.truncate(MAX_DID - 1);
        did.push(Did::More { count });
    }
    did
}

/// The same with bounded texts.
pub(super) fn bounded(mut asked: Asked) -> Asked {
    asked.task.text = line(&asked.task.text, SHORT);
    let short = |text: &mut String| *text = cut(text, REASON);
    asked.label.iter_mut().for_each(short);
    asked.model.iter_mut().for_each(short);
    if let ToolChoice::Only(names) = &mut asked.tools {
        names.truncate(TOOLS);
        names.iter_mut().for_each(|n| *n = cut(n, SHORT));
    }
    asked
}

impl Beginning {
    /// The beginning of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        beginning(text)
    }
}

fn beginning(text: &str) -> Beginning {
    let mut first = line(text, SHORT);
    let more = text.lines().filter(|l| !l.trim().is_empty()).nth(1);
    if more.is_some() && !first.ends_with('…') {
        first.push_str(" …");
    }
    Beginning {
        text: first,
        chars: count(text.chars().count()),
    }
}

/// The first line with anything on it, cut.
fn line(text: &str, bytes: usize) -> String {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    cut(first.unwrap_or_default(), bytes)
}

/// A text cut at a character boundary.
fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes);
    format!("{}…", text.get(..end).unwrap_or_default().trim_end())
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
