//! Plays a script as one run, in Pi's order of records: answers, tools, retries, messages in between, an abort.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use super::agent::{Agent, Answer, Model, Stop, now_ms};
use super::record::{Assistant, Block, Change, Cost, Message, Record, Sections, ToolOutput, Usage};
use super::script::{Act, Step, Turn, brief, fill};
use super::session::Body;
use super::tool::{Shell, printing_script};

/// Seconds from one word to the next.
const WORD_PAUSE: f64 = 0.035;

/// Seconds before the first word of an answer.
const FIRST_WORD: f64 = 0.5;

/// Seconds that a tool takes which only tells its result.
const QUICK_TOOL: f64 = 0.25;

/// How often a running tool's output is told, as Pi does. Real time.
const OUTPUT_EVERY: Duration = Duration::from_millis(100);

/// How often the end of a tool is looked for. Real time.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Retries after a failing provider, and seconds before the first; each next one waits twice as long.
const RETRIES: u32 = 3;
const RETRY_DELAY: f64 = 2.0;

/// Tokens of a system prompt.
const PROMPT_TOKENS: u64 = 2_600;

/// How much of a person's message is quoted.
const QUOTE: usize = 80;

/// Errors of Pi when a run is aborted: inside an answer, and between or inside tools.
const ABORTED_ANSWER: &str = "Request was aborted";
const ABORTED_TOOL: &str = "This operation was aborted";

/// What the texts of one run are filled with.
#[derive(Default)]
struct Words {
    task: String,
    answer: String,
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

    fn turns(
        &mut self,
        mut turns: std::collections::VecDeque<Turn>,
        words: &mut Words,
    ) -> Result<(), Stop> {
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

    // ---- one answer --------------------------------------------------------------------------

    /// Streams an answer.
    fn answer(&mut self, turn: &Turn) -> Result<Message, Stop> {
        let begun = Instant::now();
        let mut answer = self.blank_answer("pending");
        self.emit(&Record::MessageStart {
            message: &Message::Assistant(answer.clone()),
        })?;
        let streamed = self.stream(turn, &mut answer.content);
        answer.duration_ms = Some(millis(begun));
        answer.thinking_level = Some(self.thinking.clone());
        match streamed {
            Ok(()) => {
                answer.usage = self.usage(&answer.content);
                answer.stop_reason = if turn.tools.is_empty() {
                    "stop"
                } else {
                    "toolUse"
                };
                answer.response_id = Some(format!("demo-{}", self.session.counts.messages));
                self.close_blocks(&answer)?;
                let message = Message::Assistant(answer);
                self.keep(&message);
                self.emit(&Record::MessageEnd { message: &message })?;
                Ok(message)
            }
            Err(stop) => {
                // A call that was not complete is not kept.
                answer
                    .content
                    .retain(|block| !matches!(block, Block::ToolCall { .. }));
                answer.stop_reason = "aborted";
                answer.error_message = Some(ABORTED_ANSWER.to_owned());
                let message = Message::Assistant(answer);
                self.keep(&message);
                if stop == Stop::Abort {
                    self.emit(&Record::MessageEnd { message: &message })?;
                    self.emit(&Record::TurnEnd {
                        message: &message,
                        tool_results: &[],
                    })?;
                    self.end_agent(false)?;
                }
                Err(stop)
            }
        }
    }

    fn stream(&mut self, turn: &Turn, content: &mut Vec<Block>) -> Result<(), Stop> {
        self.pause(FIRST_WORD)?;
        if !turn.thinking.is_empty() && self.thinking != "off" {
            let content_index = content.len();
            self.update(Change::ThinkingStart { content_index })?;
            content.push(Block::Thinking {
                thinking: String::new(),
                thinking_signature: "demo",
            });
            for delta in pieces(&turn.thinking) {
                if let Some(Block::Thinking { thinking, .. }) = content.last_mut() {
                    thinking.push_str(delta);
                }
                self.update(Change::ThinkingDelta {
                    content_index,
                    delta,
                })?;
                self.pause(WORD_PAUSE)?;
            }
        }
        if !turn.text.is_empty() {
            let content_index = content.len();
            self.update(Change::TextStart { content_index })?;
            content.push(Block::text(""));
            for delta in pieces(&turn.text) {
                if let Some(Block::Text { text }) = content.last_mut() {
                    text.push_str(delta);
                }
                self.update(Change::TextDelta {
                    content_index,
                    delta,
                })?;
                self.pause(WORD_PAUSE)?;
            }
        }
        for step in &turn.tools {
            let content_index = content.len();
            let id = format!("call_{}", Uuid::new_v4().simple());
            self.update(Change::ToolCallStart {
                content_index,
                id: &id,
                tool_name: &step.tool,
            })?;
            content.push(Block::ToolCall {
                id,
                name: step.tool.clone(),
                arguments: step.args.clone(),
            });
            let arguments = step.args.to_string();
            for delta in pieces(&arguments) {
                self.update(Change::ToolCallDelta {
                    content_index,
                    delta,
                })?;
                self.pause(WORD_PAUSE)?;
            }
        }
        Ok(())
    }

    /// Pi ends all blocks at the end of the answer.
    fn close_blocks(&mut self, answer: &Assistant) -> Result<(), Stop> {
        for (content_index, block) in answer.content.iter().enumerate() {
            let change = match block {
                Block::Thinking { thinking, .. } => Change::ThinkingEnd {
                    content_index,
                    content: thinking,
                },
                Block::Text { text } => Change::TextEnd {
                    content_index,
                    content: text,
                },
                Block::ToolCall { .. } => Change::ToolCallEnd {
                    content_index,
                    tool_call: block,
                },
            };
            self.emit(&Record::MessageUpdate {
                usage: &answer.usage,
                assistant_message_event: change,
            })?;
        }
        Ok(())
    }

    fn update(&mut self, change: Change<'_>) -> Result<(), Stop> {
        self.emit(&Record::MessageUpdate {
            usage: &Usage::default(),
            assistant_message_event: change,
        })
    }

    fn blank_answer(&self, stop_reason: &'static str) -> Assistant {
        Assistant {
            content: Vec::new(),
            api: "demo",
            provider: self.model.provider.clone(),
            model: self.model.id.clone(),
            usage: Usage::default(),
            stop_reason,
            timestamp: now_ms(),
            response_id: None,
            error_message: None,
            duration_ms: None,
            thinking_level: None,
        }
    }

    /// Tokens as a provider with a cache would count them: four characters each, the past from the cache.
    fn usage(&self, content: &[Block]) -> Usage {
        let written: usize = content
            .iter()
            .map(|block| match block {
                Block::Text { text } => text.len(),
                Block::Thinking { thinking, .. } => thinking.len(),
                Block::ToolCall { arguments, .. } => arguments.to_string().len(),
            })
            .sum();
        let since = self
            .messages
            .iter()
            .rev()
            .take_while(|message| !matches!(message, Message::Assistant(_)))
            .map(message_size)
            .sum::<usize>();
        let past = self.session.counts.context;
        let fresh = if past == 0 { PROMPT_TOKENS } else { 0 };
        priced(&self.model, fresh + tokens(since), tokens(written), past)
    }

    // ---- tools -------------------------------------------------------------------------------

    fn use_tools(
        &mut self,
        turn: &Turn,
        message: &Message,
        words: &mut Words,
    ) -> Result<Vec<Message>, Stop> {
        let Message::Assistant(answer) = message else {
            return Ok(Vec::new());
        };
        let ids: Vec<String> = answer
            .content
            .iter()
            .filter_map(|block| match block {
                Block::ToolCall { id, .. } => Some(id.clone()),
                Block::Text { .. } | Block::Thinking { .. } => None,
            })
            .collect();
        let calls: Vec<(&Step, &String)> = turn.tools.iter().zip(&ids).collect();
        for (step, id) in &calls {
            self.emit(&Record::ToolExecutionStart {
                tool_call_id: id,
                tool_name: &step.tool,
                args: &step.args,
            })?;
        }
        let mut results = Vec::new();
        let mut stopped = None;
        for (step, id) in calls {
            let begun = Instant::now();
            let (output, is_error) = match stopped {
                None => match self.act(step, id, words) {
                    Ok(done) => done,
                    Err((output, stop)) => {
                        stopped = Some(stop);
                        (output, true)
                    }
                },
                Some(_) => (aborted_output(""), true),
            };
            let duration_ms = millis(begun);
            let quitting = matches!(stopped, Some(Stop::Quit(_)));
            if !quitting {
                self.emit(&Record::ToolExecutionEnd {
                    tool_call_id: id,
                    tool_name: &step.tool,
                    result: &output,
                    is_error,
                    duration_ms,
                })?;
            }
            let result = Message::ToolResult {
                tool_call_id: id.clone(),
                tool_name: step.tool.clone(),
                content: output.content,
                details: output.details,
                is_error,
                duration_ms,
                timestamp: now_ms(),
            };
            self.keep(&result);
            if !quitting {
                self.emit(&Record::MessageStart { message: &result })?;
                self.emit(&Record::MessageEnd { message: &result })?;
            }
            results.push(result);
        }
        match stopped {
            None => Ok(results),
            Some(stop) => {
                self.abort_after_tools(message, &results, stop)?;
                Err(stop)
            }
        }
    }

    /// Behind an aborted tool Pi writes one more answer, which is empty.
    fn abort_after_tools(
        &mut self,
        message: &Message,
        results: &[Message],
        stop: Stop,
    ) -> Result<(), Stop> {
        if stop == Stop::Abort {
            self.emit(&Record::TurnEnd {
                message,
                tool_results: results,
            })?;
            self.emit(&Record::TurnStart)?;
        }
        self.empty_aborted_answer(stop)
    }

    /// Ends a run that was stopped before the model began to answer.
    fn empty_aborted_answer(&mut self, stop: Stop) -> Result<(), Stop> {
        let mut answer = self.blank_answer("aborted");
        answer.error_message = Some(ABORTED_TOOL.to_owned());
        let message = Message::Assistant(answer);
        self.keep(&message);
        if stop != Stop::Abort {
            return Ok(());
        }
        self.emit(&Record::MessageStart { message: &message })?;
        self.emit(&Record::MessageEnd { message: &message })?;
        self.emit(&Record::TurnEnd {
            message: &message,
            tool_results: &[],
        })?;
        self.end_agent(false)
    }

    fn act(
        &mut self,
        step: &Step,
        id: &str,
        words: &mut Words,
    ) -> Result<(ToolOutput, bool), (ToolOutput, Stop)> {
        match &step.act {
            Act::Prints { lines, exit } => self.run_shell(step, id, lines, *exit),
            Act::Answers { text, details } => {
                self.pause(QUICK_TOOL)
                    .map_err(|stop| (aborted_output(""), stop))?;
                let text = fill(text, &[("task", &words.task), ("answer", &words.answer)]);
                Ok((told(text, details.clone()), false))
            }
            Act::Asks {
                method,
                title,
                message,
                options,
                placeholder,
            } => {
                let dialog = Uuid::new_v4().to_string();
                let asked = self.emit(&Record::ExtensionUiRequest {
                    id: &dialog,
                    method,
                    title,
                    message: message.as_deref(),
                    options: options.as_deref(),
                    placeholder: placeholder.as_deref(),
                });
                let answer = asked
                    .and_then(|()| self.wait_for_answer(dialog))
                    .map_err(|stop| (aborted_output(""), stop))?;
                words.answer = match answer {
                    Answer::Value(value) => brief(&value, QUOTE),
                    Answer::Confirmed(true) => "yes".to_owned(),
                    Answer::Confirmed(false) => "no".to_owned(),
                    Answer::Cancelled => self.repertoire.phrases.no_answer.clone(),
                };
                let text = format!("Answer: {}", words.answer);
                Ok((told(text, Some(json!({"answer": words.answer}))), false))
            }
        }
    }

    fn wait_for_answer(&mut self, dialog: String) -> Result<Answer, Stop> {
        self.answer = None;
        self.dialog = Some(dialog);
        let answer = loop {
            if let Some(answer) = self.answer.take() {
                break Ok(answer);
            }
            if let Err(stop) = self.wait_for_input(Duration::from_secs(3600)) {
                break Err(stop);
            }
        };
        self.dialog = None;
        answer
    }

    fn run_shell(
        &mut self,
        step: &Step,
        id: &str,
        lines: &[(f64, String)],
        exit: u8,
    ) -> Result<(ToolOutput, bool), (ToolOutput, Stop)> {
        let begun = Instant::now();
        self.tool.run += 1;
        self.tool.bytes.clear();
        self.tool.ended = false;
        let script = printing_script(lines, exit, self.pace);
        let env = self.tool_environment();
        let mut shell = match Shell::start(&script, self.tool.run, &env, self.inbox.clone()) {
            Ok(shell) => shell,
            Err(error) => return Ok((told(format!("cannot start sh: {error}"), None), true)),
        };
        let watched = self.watch_shell(step, id, &mut shell);
        let text = String::from_utf8_lossy(&self.tool.bytes).into_owned();
        match watched {
            // The shell is dropped, and with that killed.
            Err(stop) => Err((aborted_output(&text), stop)),
            Ok(0) => {
                let structured = json!({
                    "output": text,
                    "truncated": false,
                    "exit_code": 0,
                    "wall_time_seconds": (begun.elapsed().as_secs_f64() * 10.0).round() / 10.0,
                });
                let output = ToolOutput {
                    content: vec![Block::text(text)],
                    details: None,
                    structured_content: Some(structured),
                };
                Ok((output, false))
            }
            Ok(code) => {
                let text = format!("{text}\n\nCommand exited with code {code}");
                Ok((told(text, Some(json!({}))), true))
            }
        }
    }

    /// Tells the output so far, all of it each time, until the shell has ended.
    fn watch_shell(&mut self, step: &Step, id: &str, shell: &mut Shell) -> Result<i32, Stop> {
        let mut shown: Option<usize> = None;
        let mut shown_at = Instant::now();
        loop {
            let code = shell.exit_code();
            let ended = code.filter(|_| self.tool.ended);
            let size = self.tool.bytes.len();
            let due = shown.is_none_or(|bytes| {
                size > bytes && (ended.is_some() || shown_at.elapsed() >= OUTPUT_EVERY)
            });
            if due {
                // The first one is empty.
                let output = match shown {
                    None => ToolOutput::default(),
                    Some(_) => {
                        let text = String::from_utf8_lossy(&self.tool.bytes).into_owned();
                        told(text, Some(json!({})))
                    }
                };
                self.emit(&Record::ToolExecutionUpdate {
                    tool_call_id: id,
                    tool_name: &step.tool,
                    args: &step.args,
                    partial_result: &output,
                })?;
                shown = shown.map_or(Some(0), |_| Some(size));
                shown_at = Instant::now();
            }
            match ended {
                Some(code) if shown == Some(size) => return Ok(code),
                Some(_) => {}
                None => self.wait_for_input(LOOK_EVERY)?,
            }
        }
    }

    /// What Pi tells the commands of its shell tool.
    fn tool_environment(&self) -> Vec<(&'static str, String)> {
        let mut env = vec![
            ("AI_AGENT", "pi".to_owned()),
            ("PI_CODING_AGENT", "true".to_owned()),
            ("PI_SESSION_ID", self.session.id.clone()),
            ("PI_PROVIDER", self.model.provider.clone()),
            ("PI_MODEL", self.model.id.clone()),
            ("PI_REASONING_LEVEL", self.thinking.clone()),
        ];
        if let Some(path) = &self.session.path {
            env.push(("PI_SESSION_FILE", path.display().to_string()));
        }
        env
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

    fn end_agent(&mut self, will_retry: bool) -> Result<(), Stop> {
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

/// A text cut into words, as a model streams it.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn told(text: String, details: Option<Value>) -> ToolOutput {
    ToolOutput {
        content: vec![Block::text(text)],
        details,
        structured_content: None,
    }
}

fn aborted_output(text: &str) -> ToolOutput {
    let text = if text.is_empty() {
        "Command aborted".to_owned()
    } else {
        format!("{text}\n\nCommand aborted")
    };
    told(text, Some(json!({})))
}

fn message_size(message: &Message) -> usize {
    match message {
        Message::System { .. } => 0,
        Message::User { content, .. } | Message::ToolResult { content, .. } => content
            .iter()
            .map(|block| match block {
                Block::Text { text } => text.len(),
                Block::Thinking { .. } | Block::ToolCall { .. } => 0,
            })
            .sum(),
        Message::Assistant(_) => 0,
    }
}

fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes / 4 + 1).unwrap_or(u64::MAX)
}

fn priced(model: &Model, input: u64, output: u64, cache_read: u64) -> Usage {
    #[allow(clippy::cast_precision_loss)] // money for display
    let dollars = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
    let (input_price, output_price, cache_price) = model.price;
    let cost = Cost {
        input: dollars(input, input_price),
        output: dollars(output, output_price),
        cache_read: dollars(cache_read, cache_price),
        ..Cost::default()
    };
    Usage {
        input,
        output,
        cache_read,
        cache_write: 0,
        total_tokens: input + output + cache_read,
        cost: Cost {
            total: cost.input + cost.output + cost.cache_read,
            ..cost
        },
    }
}
