//! A child modelled on real Pi (`pi-facts` §§2–5): it reads commands from a pipe, takes prompts through a preflight, runs,
//! queues, compacts, aborts, and says what it does in Pi's records, which go through the real `interpret`. It also does
//! what Pi has been seen to do wrong, and what a broken process can do.

use std::borrow::Cow;
use std::collections::VecDeque;

use pi_agents::fleet::interpret::{Fact, Interpreter};
use pi_agents::fleet::live::MESSAGE_STATUS;
use pi_agents::fleet::machine::ChildCommand;
use pi_agents::pi::event::{CompactionEnd, QueueUpdate, Record};
use pi_agents::pi::message::{Assistant, Gist, Message, StopReason};
use pi_agents::pi::response::Response;
use pi_agents::pi::ui_request::{UiMethod, UiRequest};

/// A prompt the child has read and not answered.
#[derive(Clone, Debug)]
pub struct Held {
    id: String,
    pub text: String,
    /// Read while another one was being looked at and nothing ran: real Pi loses it (R-PI-07).
    burst: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its prompt is accepted; `agent_start` was not said.
    Accepted,
    /// Between `agent_start` and `agent_end`.
    Open,
    /// After `agent_end`, not settled.
    Ended { retry: bool },
}

#[derive(Clone, Debug)]
struct Run {
    stage: Stage,
    /// Prompts the model has not been given.
    first: VecDeque<String>,
    /// The model has said something since it was given the last message.
    said: bool,
    aborted: bool,
}

#[derive(Debug, Default)]
pub struct Child {
    interpreter: Interpreter,
    /// What it said and the core has not heard, in order.
    pub facts: VecDeque<Fact>,
    pub inbox: VecDeque<(String, ChildCommand)>,
    pub held: VecDeque<Held>,
    queue: VecDeque<String>,
    /// Prompts taken after `agent_end`: they start the next run.
    after: VecDeque<String>,
    run: Option<Run>,
    pub compacting: bool,
    aborts: Vec<String>,
    /// stdin is at its end once the inbox is empty.
    pub eof: bool,
    /// Its output is closed.
    pub mute: bool,
    /// Its input is closed.
    pub deaf: bool,
    /// It swallowed a question about its state: nobody can know how it is.
    pub hung: bool,
    /// Answer to the last command, to be repeated.
    last: Option<Said>,
    /// What the model was given, in order.
    pub given: Vec<String>,
    scratch: Vec<Fact>,
}

#[derive(Clone, Debug)]
struct Said {
    id: String,
    command: &'static str,
    result: Result<String, String>,
}

impl Child {
    pub fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// What a prompt can be given to: a run is between its start and its settlement.
    pub fn is_open(&self) -> bool {
        self.run.as_ref().is_some_and(|r| r.stage == Stage::Open)
    }

    fn say(&mut self, record: &Record<'_>) {
        if self.mute {
            return;
        }
        self.interpreter.feed(record, 0, &mut self.scratch);
        self.facts.extend(self.scratch.drain(..));
    }

    fn answer(&mut self, id: String, command: &'static str, result: Result<String, String>) {
        let said = Said {
            id,
            command,
            result,
        };
        self.say_answer(&said);
        self.last = Some(said);
    }

    fn say_answer(&mut self, said: &Said) {
        let (data, error) = match &said.result {
            Ok(data) => (Cow::Owned(data.clone()), None),
            Err(error) => (Cow::Borrowed(""), Some(Cow::Owned(error.clone()))),
        };
        self.say(&Record::Response(Response {
            id: Some(Cow::Owned(said.id.clone())),
            command: Cow::Borrowed(said.command),
            success: error.is_none(),
            error,
            data,
        }));
    }

    /// A refusal because of compaction is not repeated: the same prompt is written again under the same id, and Pi answers
    /// each once.
    pub fn can_repeat(&self) -> bool {
        let refused = |said: &Said| said.result.as_ref().is_err_and(|e| e == COMPACTING);
        self.last.as_ref().is_some_and(|said| !refused(said))
    }

    pub fn repeat(&mut self) {
        if self.can_repeat()
            && let Some(said) = self.last.clone()
        {
            self.say_answer(&said);
        }
    }

    /// An answer to a question that was never asked.
    pub fn babble(&mut self, sort: u32) {
        let (id, command) = match sort % 4 {
            0 => ("", "parse"),
            1 => ("abort", "abort"),
            2 => ("clear", "clear_queue"),
            _ => ("00000000-0000-0000-0000-000000000000", "prompt"),
        };
        self.say_answer(&Said {
            id: id.to_owned(),
            command,
            result: Err("nobody asked".to_owned()),
        });
    }

    /// Asks its parent something and goes on.
    pub fn ask(&mut self) {
        self.say(&Record::UiRequest(UiRequest {
            id: Cow::Borrowed("ask"),
            method: UiMethod::SetStatus {
                key: Cow::Borrowed(MESSAGE_STATUS),
                text: Some(Cow::Borrowed(r#"{"message":"which branch?"}"#)),
            },
            timeout_ms: None,
        }));
    }

    /// Reads the next command. Sorts: 0 as it should, 1 refuses, 2 answers what cannot be read, 3 never answers, 4 answers
    /// twice, 5 knows no models.
    pub fn read(&mut self, sort: u32) {
        let Some((id, command)) = self.inbox.pop_front() else {
            return;
        };
        match command {
            ChildCommand::GetState => {
                if sort == 3 {
                    self.hung = true;
                    return;
                }
                let state = format!(
                    r#"{{"sessionFile":"/sessions/one.jsonl","model":{{"provider":"p","id":"real"}},"thinkingLevel":"medium","isStreaming":{},"isCompacting":{}}}"#,
                    self.run.is_some(),
                    self.compacting
                );
                self.respond(id, "get_state", state, sort);
            }
            ChildCommand::GetModels => {
                let models = if sort == 5 {
                    r#"{"models":[{"provider":"q","id":"other"}]}"#
                } else {
                    r#"{"models":[{"provider":"p","id":"real"}]}"#
                };
                self.respond(id, "get_available_models", models.to_owned(), sort);
            }
            ChildCommand::GetCommands => {
                let commands = if sort == 5 {
                    r#"{"commands":[{"name":"other"}]}"#
                } else {
                    r#"{"commands":[{"name":"command"},{"name":"expand"}]}"#
                };
                self.respond(id, "get_commands", commands.to_owned(), sort);
            }
            ChildCommand::Prompt { text } => {
                if self.compacting {
                    self.answer(id, "prompt", Err(COMPACTING.to_owned()));
                    return;
                }
                let burst = self.run.is_none() && !self.held.is_empty();
                self.held.push_back(Held { id, text, burst });
            }
            ChildCommand::ClearQueue => {
                let dropped: Vec<String> = if sort == 1 {
                    Vec::new()
                } else {
                    self.queue.drain(..).collect()
                };
                if !dropped.is_empty() {
                    self.say_queue();
                }
                let list = serde_json::to_string(&dropped).unwrap();
                let data = format!(r#"{{"steering":{list},"followUp":[]}}"#);
                self.respond(id, "clear_queue", data, sort);
            }
            ChildCommand::Abort => match &mut self.run {
                Some(run) if run.stage != Stage::Accepted => {
                    run.aborted = true;
                    self.aborts.push(id);
                }
                _ => self.respond(id, "abort", String::new(), sort),
            },
        }
    }

    fn respond(&mut self, id: String, command: &'static str, data: String, sort: u32) {
        match sort {
            1 => self.answer(id, command, Err("refused".to_owned())),
            2 => self.answer(id, command, Ok("[1]".to_owned())),
            3 => {}
            4 => {
                self.answer(id, command, Ok(data));
                self.repeat();
            }
            _ => self.answer(id, command, Ok(data)),
        }
    }

    /// Answers the oldest prompt it holds. Sorts: 0 as it should, 1 an extension took it, 2 says not what became of it,
    /// 3 refuses, 4 answers twice, 5 acts first and answers then, 6 acts and never answers, 7 forgets it, 8 says it
    /// started and forgets it.
    pub fn answer_prompt(&mut self, sort: u32) {
        let Some(held) = self.held.pop_front() else {
            return;
        };
        let said = |word: &str| Ok(format!(r#"{{"disposition":"{word}"}}"#));
        let Held { id, text, burst } = held;
        if sort == 7 {
            return;
        }
        if sort == 1 || text.starts_with("/command") {
            self.given.push(text);
            self.answer(id, "prompt", said("handled"));
            return;
        }
        if self.compacting {
            self.answer(id, "prompt", Err(COMPACTING.to_owned()));
            return;
        }
        if sort == 3 {
            self.answer(id, "prompt", Err("no API key".to_owned()));
            return;
        }
        let lost = burst || sort == 8;
        let ended = self
            .run
            .as_ref()
            .is_some_and(|r| r.stage == Stage::Ended { retry: false });
        let word = if self.run.is_some() && !burst && !ended {
            "queued"
        } else {
            "started"
        };
        if lost {
            self.answer(id, "prompt", said("started"));
            if burst {
                self.say(&Record::AgentSettled {
                    aborted: Some(false),
                });
            }
            return;
        }
        if word == "queued" {
            self.queue.push_back(text);
            self.say_queue();
        } else if ended {
            self.after.push_back(text);
        } else {
            self.begin(VecDeque::from([text]));
        }
        if sort == 5 && !ended {
            if word == "started" {
                self.go(0);
                self.go(0);
            } else if self.is_open() {
                self.go(6);
            }
        }
        match sort {
            6 => {}
            2 => self.answer(id, "prompt", Ok(String::new())),
            _ => self.answer(id, "prompt", said(word)),
        }
        if sort == 4 {
            self.repeat();
        }
    }

    /// A message waits in its queue. After an abort it waits for the next prompt (`pi-facts` §0.9).
    pub fn keeps(&self, text: &str) -> bool {
        self.queue.iter().any(|t| t == text)
    }

    fn begin(&mut self, first: VecDeque<String>) {
        self.run = Some(Run {
            stage: Stage::Accepted,
            first,
            said: false,
            aborted: false,
        });
    }

    fn say_queue(&mut self) {
        let steering: Vec<String> = self.queue.iter().cloned().collect();
        let steering = steering.into_iter().map(Cow::Owned).collect();
        self.say(&Record::QueueUpdate(QueueUpdate {
            steering,
            follow_up: Vec::new(),
        }));
    }

    /// The model is given a message.
    fn give(&mut self, text: String) {
        let shown = text.replacen("/expand", "expanded", 1);
        self.given.push(text);
        let message = |content: String| Message::User {
            content: Gist {
                text: Cow::Owned(content),
                images: 0,
            },
            timestamp: 0,
        };
        self.say(&Record::MessageStart(message(shown.clone())));
        self.say(&Record::MessageEnd(message(shown)));
    }

    fn speak(&mut self, stop: StopReason, error: Option<&str>) {
        let message = |stop: StopReason, error: Option<&str>| {
            Message::Assistant(Assistant {
                whole: true,
                stop,
                error: error.map(|e| Cow::Owned(e.to_owned())),
                ..Assistant::default()
            })
        };
        self.say(&Record::MessageStart(message(StopReason::Pending, None)));
        self.say(&Record::MessageEnd(message(stop, error)));
    }

    /// Goes on with the run. Sorts: 0 towards its end, 1 a tool, 2 the provider fails, 3 the limit of the output, 4 gives
    /// up, 5 the provider fails and will be asked again, 6 the next message of the queue, 7 the end is not said.
    pub fn go(&mut self, sort: u32) {
        let Some(run) = &mut self.run else {
            return;
        };
        match run.stage {
            Stage::Accepted | Stage::Ended { retry: true } => {
                run.stage = Stage::Open;
                run.said = false;
                self.say(&Record::AgentStart);
                self.say(&Record::TurnStart);
            }
            Stage::Open => self.go_open(sort),
            Stage::Ended { retry: false } => {
                if !self.compacting {
                    self.settle();
                }
            }
        }
    }

    fn go_open(&mut self, sort: u32) {
        let Some(run) = &mut self.run else {
            return;
        };
        // The prompt comes first, whatever becomes of the run.
        if let Some(text) = run.first.pop_front() {
            run.said = false;
            self.give(text);
            return;
        }
        if run.aborted {
            self.speak(StopReason::Aborted, Some("Request was aborted"));
            self.end(false);
            return;
        }
        match sort {
            1 => {
                run.said = false;
                self.speak(StopReason::ToolUse, None);
                self.say(&Record::TurnStart);
            }
            2 | 5 => {
                self.speak(StopReason::Error, Some("500"));
                self.end(sort == 5);
            }
            3 => {
                run.said = true;
                self.speak(StopReason::Length, None);
            }
            4 => {
                self.speak(StopReason::Aborted, Some("Request was aborted"));
                self.end(false);
            }
            7 => {
                // Case H7 of the compatibility study: the run died without `agent_end`.
                self.settle();
            }
            _ => {
                if sort == 6 || run.said {
                    if let Some(text) = self.queue.pop_front() {
                        run.said = false;
                        self.say_queue();
                        self.give(text);
                    } else if run.said {
                        self.end(false);
                    }
                } else {
                    run.said = true;
                    self.speak(StopReason::Stop, None);
                }
            }
        }
    }

    fn end(&mut self, retry: bool) {
        if let Some(run) = &mut self.run {
            run.stage = Stage::Ended { retry };
        }
        self.say(&Record::TurnEnd);
        self.say(&Record::AgentEnd { will_retry: retry });
    }

    /// Says that it is settled, and answers who waits for the abort.
    pub fn settle(&mut self) {
        let Some(run) = self.run.take() else {
            return;
        };
        self.say(&Record::AgentSettled {
            aborted: Some(run.aborted),
        });
        for id in std::mem::take(&mut self.aborts) {
            self.answer(id, "abort", Ok(String::new()));
        }
        if !self.after.is_empty() {
            let first = std::mem::take(&mut self.after);
            self.begin(first);
        }
    }

    /// A run that nobody asked for, or `agent_start` once more inside a run.
    pub fn self_start(&mut self) {
        if self.is_open() {
            self.say(&Record::AgentStart);
        } else if self.run.is_none() {
            self.begin(VecDeque::new());
            self.go(0);
        }
    }

    pub fn stray(&mut self) {
        self.say(&Record::AgentSettled {
            aborted: Some(false),
        });
    }

    /// It may compact when nothing runs, or between the end of a run and its settlement.
    pub fn may_compact(&self) -> bool {
        !self.compacting
            && self
                .run
                .as_ref()
                .is_none_or(|r| r.stage == Stage::Ended { retry: false })
    }

    pub fn compact(&mut self) {
        if self.may_compact() {
            self.compacting = true;
            self.say(&Record::CompactionStart {
                reason: Cow::Borrowed("threshold"),
            });
        }
    }

    pub fn compacted(&mut self) {
        if std::mem::take(&mut self.compacting) {
            self.say(&Record::CompactionEnd(CompactionEnd::default()));
        }
    }
}

const COMPACTING: &str = "Cannot submit a prompt while compaction is in progress. Wait for compaction to finish and retry.";
