//! One answer of the model: streamed in pieces, closed, counted and priced.

use std::time::Instant;

use uuid::Uuid;

use super::agent::{Agent, Model, Stop, now_ms};
use super::record::{Assistant, Block, Change, Cost, Message, Record, Usage};
use super::script::Turn;

/// Seconds from one word to the next.
const WORD_PAUSE: f64 = 0.035;

/// Seconds before the first word of an answer.
pub const FIRST_WORD: f64 = 0.5;

/// Tokens of a system prompt.
const PROMPT_TOKENS: u64 = 2_600;

/// Errors of Pi when a run is aborted: inside an answer, and between or inside tools.
const ABORTED_ANSWER: &str = "Request was aborted";
const ABORTED_TOOL: &str = "This operation was aborted";

impl Agent {
    /// Streams an answer.
    pub fn answer(&mut self, turn: &Turn) -> Result<Message, Stop> {
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

    pub fn blank_answer(&self, stop_reason: &'static str) -> Assistant {
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

    /// Ends a run that was stopped before the model began to answer.
    pub fn empty_aborted_answer(&mut self, stop: Stop) -> Result<(), Stop> {
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
}

/// A text cut into words, as a model streams it.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}

/// Milliseconds since then.
pub fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
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
