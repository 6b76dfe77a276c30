//! Plays a script as one run, in Pi's order of records: answers, tools, retries, messages in between, an abort.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use super::agent::{Agent, Stop, now_ms};
use super::answer::FIRST_WORD;
use super::record::{Block, Message, Record, Sections};
use super::script::{Turn, brief, fill};
use super::session::Body;

/// Retries after a failing provider, and seconds before the first; each next one waits twice as long.
const RETRIES: u32 = 3;
const RETRY_DELAY: f64 = 2.0;

/// How much of a person's message is quoted.
pub const QUOTE: usize = 80;

/// What the texts of one run are filled with.
#[derive(Default)]
pub struct Words {
    pub task: String,
    /// What the person chose in a dialog.
    pub answer: String,
    /// What it was told on the way, quoted.
    told: Vec<String>,
    /// Said before the next answer.
    opening: Option<String>,
}

impl Agent {
    /// One run, from `agent_start` to `agent_settled`.
    ///
    /// # Errors
    /// The process is to end: then nothing more is written, but the session is in order.
    pub fn play(&mut self, prompt: &str) -> Result<(), Stop> {
        self.streaming = true;
        self.messages.clear();
        let first = self.session.is_new();
        let mut words = Words {
            task: brief(prompt, QUOTE),
            opening: self.past_in_words(),
            ..Words::default()
        };
        let turns = self.repertoire.choose(prompt, first);

        self.emit(&Record::AgentStart)?;
        self.emit(&Record::TurnStart)?;
        if first {
            let message = self.system_message();
            self.say(&message)?;
        }
        self.say_user(prompt)?;
        // Left over from an aborted run: the model sees it behind the new message.
        self.deliver_steering(&mut words)?;

        let aborted = match self.turns(turns.into(), &mut words) {
            Ok(()) => false,
            Err(Stop::Abort) => true,
            Err(quit) => return Err(quit),
        };
        self.streaming = false;
        self.emit(&Record::AgentSettled { aborted })?;
        for id in std::mem::take(&mut self.aborts) {
            self.respond(id, Some("abort"), Ok(None))?;
        }
        Ok(())
    }

    fn turns(&mut self, mut turns: VecDeque<Turn>, words: &mut Words) -> Result<(), Stop> {
        let mut attempt = 0;
        while let Some(mut turn) = turns.pop_front() {
            if let Some(error) = &turn.error {
                if attempt == RETRIES {
                    return self.fail_for_good(error, attempt);
                }
                attempt += 1;
                self.fail_and_retry(error, attempt)?;
                continue;
            }
            turn.tools.retain(|step| self.options.allows(&step.tool));
            let last = turn.tools.is_empty() && turns.is_empty();
            let turn = self.worded(turn, last, words);
            let message = self.answer(&turn)?;
            if attempt > 0 {
                self.emit(&Record::AutoRetryEnd {
                    success: true,
                    attempt,
                    final_error: None,
                })?;
                attempt = 0;
            }
            let results = self.use_tools(&turn, &message, words)?;
            self.emit(&Record::TurnEnd {
                message: &message,
                tool_results: &results,
            })?;

            let waits = !self.steering.is_empty() || !self.follow_up.is_empty();
            if turns.is_empty() && waits {
                turns.push_back(Turn {
                    text: self.repertoire.phrases.told_late.clone(),
                    ..Turn::default()
                });
            }
            if turns.is_empty() {
                break;
            }
            self.emit(&Record::TurnStart)?;
            if self.steering.is_empty() && last {
                // What was asked to come last comes only now.
                self.steering.extend(self.follow_up.pop_front());
            }
            self.deliver_steering(words)?;
        }
        self.end_agent(false)
    }

    // ---- a failing provider ------------------------------------------------------------------

    fn fail(&mut self, error: &str, will_retry: bool) -> Result<Option<Value>, Stop> {
        if let Err(stop) = self.pause(FIRST_WORD) {
            self.empty_aborted_answer(stop)?;
            return Err(stop);
        }
        let mut answer = self.blank_answer("error");
        answer.error_message = Some(error.to_owned());
        answer.duration_ms = Some(0);
        answer.thinking_level = Some(self.thinking.clone());
        let message = Message::Assistant(answer);
        self.keep(&message);
        let id = self.session.leaf().map(|id| Value::from(id.to_owned()));
        self.emit(&Record::MessageStart { message: &message })?;
        self.emit(&Record::MessageEnd { message: &message })?;
        self.emit(&Record::TurnEnd {
            message: &message,
            tool_results: &[],
        })?;
        self.end_agent(will_retry)?;
        Ok(id)
    }

    fn fail_and_retry(&mut self, error: &str, attempt: u32) -> Result<(), Stop> {
        let failed = self.fail(error, true)?;
        let seconds = RETRY_DELAY * f64::from(1_u32 << (attempt - 1)) * self.pace;
        let delay = Duration::from_secs_f64(seconds);
        self.emit(&Record::AutoRetryStart {
            attempt,
            max_attempts: RETRIES,
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            error_message: error,
        })?;
        if let Some(target) = failed.as_ref().and_then(Value::as_str) {
            let entry = self.save(Body::Hide {
                target_id: target,
                replacement: (),
            });
            self.emit(&Record::EntryAppended { entry: &entry })?;
        }
        if let Err(stop) = self.wait(delay) {
            if stop == Stop::Abort {
                self.emit(&Record::AutoRetryEnd {
                    success: false,
                    attempt,
                    final_error: Some("Retry cancelled"),
                })?;
            }
            return Err(stop);
        }
        self.messages.clear();
        self.emit(&Record::AgentStart)?;
        self.emit(&Record::TurnStart)
    }

    fn fail_for_good(&mut self, error: &str, attempt: u32) -> Result<(), Stop> {
        self.fail(error, false)?;
        self.emit(&Record::AutoRetryEnd {
            success: false,
            attempt,
            final_error: Some(error),
        })
    }

    // ---- messages ----------------------------------------------------------------------------

    /// Ends the loop with all its messages.
    ///
    /// # Errors
    /// Nobody reads.
    pub fn end_agent(&mut self, will_retry: bool) -> Result<(), Stop> {
        let messages = std::mem::take(&mut self.messages);
        self.emit(&Record::AgentEnd {
            messages: &messages,
            will_retry,
        })
    }

    fn say(&mut self, message: &Message) -> Result<(), Stop> {
        self.keep(message);
        self.emit(&Record::MessageStart { message })?;
        self.emit(&Record::MessageEnd { message })
    }

    fn say_user(&mut self, text: &str) -> Result<(), Stop> {
        self.say(&Message::User {
            content: vec![Block::text(text)],
            timestamp: now_ms(),
        })
    }

    /// Gives the model one waiting message: one at a time, as Pi does.
    fn deliver_steering(&mut self, words: &mut Words) -> Result<(), Stop> {
        let Some(message) = self.steering.pop_front() else {
            return Ok(());
        };
        self.show_queue()?;
        self.say_user(&message)?;
        let quote = brief(&message, QUOTE);
        words.opening = Some(fill(&self.repertoire.phrases.told, &[("message", &quote)]));
        words.told.push(quote);
        Ok(())
    }

    fn system_message(&self) -> Message {
        Message::System {
            content: "",
            sections: Sections {
                preamble: "You are a scripted demo agent.",
                appended: self.options.system_prompt.join("\n\n"),
                cwd: std::env::current_dir()
                    .unwrap_or_default()
                    .display()
                    .to_string(),
            },
            timestamp: now_ms(),
        }
    }

    /// What the session remembers, said at the beginning of a later run.
    fn past_in_words(&self) -> Option<String> {
        let past = &self.session.past;
        let task = brief(past.task.as_deref()?, QUOTE);
        let report = brief(past.report.as_deref().unwrap_or_default(), 2 * QUOTE);
        let phrases = &self.repertoire.phrases;
        let template = if past.interrupted || report.is_empty() {
            &phrases.interrupted
        } else {
            &phrases.earlier
        };
        Some(fill(template, &[("task", &task), ("report", &report)]))
    }

    /// A turn with its texts filled in, and with what has to be said besides.
    fn worded(&self, mut turn: Turn, last: bool, words: &mut Words) -> Turn {
        let told = words.told.join("”, “");
        let values = [
            ("task", words.task.as_str()),
            ("answer", words.answer.as_str()),
            ("message", told.as_str()),
        ];
        let phrases = &self.repertoire.phrases;
        let mut parts: Vec<String> = words.opening.take().into_iter().collect();
        let just_told = !words.told.is_empty() && !parts.is_empty();
        if !turn.text.is_empty() {
            parts.push(fill(&turn.text, &values));
        } else if turn.tools.is_empty() {
            parts.push(phrases.no_tool.clone());
        }
        if last && !words.told.is_empty() && !just_told {
            parts.push(fill(&phrases.heeded, &values));
        }
        turn.thinking = fill(&turn.thinking, &values);
        turn.text = parts.join("\n\n");
        turn
    }
}
