//! The tools of an answer: a shell that runs, a result that is told, a dialog that waits.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use super::agent::{Agent, Answer, Stop, now_ms};
use super::answer::millis;
use super::play::{QUOTE, Words};
use super::record::{Block, Message, Record, ToolOutput};
use super::script::{Act, Step, Turn, brief, fill};
use super::tool::{Shell, printing_script};

/// Seconds that a tool takes which only tells its result.
const QUICK_TOOL: f64 = 0.25;

/// How often a running tool's output is told, as Pi does. Real time.
const OUTPUT_EVERY: Duration = Duration::from_millis(100);

/// How often the end of a tool is looked for. Real time.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Agent {
    /// Uses all tools of an answer; gives their results in the order of the calls.
    ///
    /// # Errors
    /// The run or the process is to end; what belongs behind the tools is written already.
    pub fn use_tools(
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
