//! Commands and their answers.

use serde_json::{Value, json};

use super::agent::{Agent, Answer, LEVELS, Model, Stop, known_level};
use super::record::{Record, Response};
use super::session::Body;

impl Agent {
    /// Takes one command.
    ///
    /// # Errors
    /// The run is to be aborted, or nobody reads the answer.
    pub fn command(&mut self, line: &[u8]) -> Result<(), Stop> {
        let text = String::from_utf8_lossy(line);
        let command: Value = match serde_json::from_str(text.trim_end_matches(['\n', '\r'])) {
            Ok(command) => command,
            Err(error) => {
                let error = format!("Failed to parse command: {error}");
                return self.respond(None, Some("parse"), Err(error));
            }
        };
        let id = command.get("id").cloned();
        let word = |key: &str| command.get(key).and_then(Value::as_str);
        let Some(kind) = word("type") else {
            return self.respond(id, None, Err("Unknown command: undefined".to_owned()));
        };
        let message = word("message").unwrap_or_default().to_owned();
        match kind {
            "prompt" => self.prompt(id, message, word("streamingBehavior")),
            "steer" | "follow_up" => {
                self.queue(kind == "steer", message)?;
                self.respond(id, Some(kind), Ok(Some(json!({"disposition": "queued"}))))
            }
            "abort" if self.streaming => {
                self.aborts.push(id);
                Err(Stop::Abort)
            }
            "abort" | "abort_retry" => self.respond(id, Some(kind), Ok(None)),
            "clear_queue" => {
                let steering: Vec<String> = self.steering.drain(..).collect();
                let follow_up: Vec<String> = self.follow_up.drain(..).collect();
                if !(steering.is_empty() && follow_up.is_empty()) {
                    self.show_queue()?;
                }
                let dropped = json!({"steering": steering, "followUp": follow_up});
                self.respond(id, Some(kind), Ok(Some(dropped)))
            }
            "get_state" => {
                let state = self.state();
                self.respond(id, Some(kind), Ok(Some(state)))
            }
            "get_session_stats" => {
                let stats = self.stats();
                self.respond(id, Some(kind), Ok(Some(stats)))
            }
            "get_available_models" => {
                let models: Vec<Value> = Model::all().iter().map(describe).collect();
                self.respond(id, Some(kind), Ok(Some(json!({"models": models}))))
            }
            "get_available_thinking_levels" => {
                self.respond(id, Some(kind), Ok(Some(json!({"levels": LEVELS}))))
            }
            "get_commands" => self.respond(id, Some(kind), Ok(Some(json!({"commands": []})))),
            "get_entries" => {
                let since = word("since");
                let answer = match self.session.entries_since(since) {
                    Some(entries) => Ok(Some(
                        json!({"entries": entries, "leafId": self.session.leaf()}),
                    )),
                    None => Err(format!("Entry not found: {}", since.unwrap_or_default())),
                };
                self.respond(id, Some(kind), answer)
            }
            "get_last_assistant_text" => {
                let data = match &self.session.past.report {
                    Some(text) => json!({"text": text}),
                    None => json!({}),
                };
                self.respond(id, Some(kind), Ok(Some(data)))
            }
            "set_model" => {
                let (provider, model) = (word("provider"), word("modelId"));
                self.set_model(id, provider.unwrap_or_default(), model.unwrap_or_default())
            }
            "set_thinking_level" => {
                let level = known_level(word("level").unwrap_or_default()).to_owned();
                self.set_level(&level)?;
                self.respond(id, Some(kind), Ok(None))
            }
            "set_session_name" => {
                let name = word("name").unwrap_or_default().trim().to_owned();
                if name.is_empty() {
                    let error = "Session name cannot be empty".to_owned();
                    return self.respond(id, Some(kind), Err(error));
                }
                self.save(Body::Info { name: &name });
                self.emit(&Record::SessionInfoChanged { name: &name })?;
                self.respond(id, Some(kind), Ok(None))
            }
            "compact" => {
                let error = "Compaction failed: Nothing to compact (session too small)".to_owned();
                self.respond(id, Some(kind), Err(error))
            }
            "extension_ui_response" => {
                self.answered(&command);
                Ok(())
            }
            other => {
                let error = format!("Unknown command: {other}");
                self.respond(id, Some(other), Err(error))
            }
        }
    }

    fn prompt(
        &mut self,
        id: Option<Value>,
        message: String,
        behavior: Option<&str>,
    ) -> Result<(), Stop> {
        let kind = Some("prompt");
        if !self.streaming && self.start.is_none() {
            self.respond(id, kind, Ok(Some(json!({"disposition": "started"}))))?;
            self.start = Some(message);
            return Ok(());
        }
        match behavior {
            Some("steer" | "followUp") => {
                self.queue(behavior == Some("steer"), message)?;
                self.respond(id, kind, Ok(Some(json!({"disposition": "queued"}))))
            }
            _ => {
                let error = "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.";
                self.respond(id, kind, Err(error.to_owned()))
            }
        }
    }

    fn queue(&mut self, steer: bool, message: String) -> Result<(), Stop> {
        if steer {
            self.steering.push_back(message);
        } else {
            self.follow_up.push_back(message);
        }
        self.show_queue()
    }

    /// Tells what waits.
    ///
    /// # Errors
    /// Nobody reads.
    pub fn show_queue(&mut self) -> Result<(), Stop> {
        let (steering, follow_up) = (self.steering.clone(), self.follow_up.clone());
        self.emit(&Record::QueueUpdate {
            steering: steering.iter().map(String::as_str).collect(),
            follow_up: follow_up.iter().map(String::as_str).collect(),
        })
    }

    fn set_model(&mut self, id: Option<Value>, provider: &str, model: &str) -> Result<(), Stop> {
        let known = Model::all()
            .into_iter()
            .find(|known| known.provider == provider && known.id == model);
        let Some(known) = known else {
            let error = format!("Model not found: {provider}/{model}");
            return self.respond(id, Some("set_model"), Err(error));
        };
        self.save(Body::Model {
            provider,
            model_id: model,
        });
        let data = describe(&known);
        self.model = known;
        self.respond(id, Some("set_model"), Ok(Some(data)))
    }

    fn set_level(&mut self, level: &str) -> Result<(), Stop> {
        if level == self.thinking {
            return Ok(());
        }
        level.clone_into(&mut self.thinking);
        self.save(Body::Thinking {
            thinking_level: level,
        });
        self.emit(&Record::ThinkingLevelChanged { level })
    }

    /// An answer to a dialog that is not open is ignored, as by Pi.
    fn answered(&mut self, command: &Value) {
        let id = command.get("id").and_then(Value::as_str);
        if id.is_none() || id != self.dialog.as_deref() {
            return;
        }
        let value = command.get("value").and_then(Value::as_str);
        let confirmed = command.get("confirmed").and_then(Value::as_bool);
        self.answer = Some(match (value, confirmed) {
            (Some(value), _) => Answer::Value(value.to_owned()),
            (None, Some(yes)) => Answer::Confirmed(yes),
            (None, None) => Answer::Cancelled,
        });
    }

    /// Answers a command.
    ///
    /// # Errors
    /// Nobody reads.
    pub fn respond(
        &mut self,
        id: Option<Value>,
        command: Option<&str>,
        result: Result<Option<Value>, String>,
    ) -> Result<(), Stop> {
        let success = result.is_ok();
        let (data, error) = match result {
            Ok(data) => (data, None),
            Err(error) => (None, Some(error)),
        };
        self.emit(&Response {
            id: id.as_ref(),
            r#type: "response",
            command,
            success,
            data,
            error,
        })
    }

    fn state(&self) -> Value {
        let mut state = json!({
            "model": describe(&self.model),
            "thinkingLevel": self.thinking,
            "isStreaming": self.streaming || self.start.is_some(),
            "isCompacting": false,
            "steeringMode": "one-at-a-time",
            "followUpMode": "one-at-a-time",
            "sessionId": self.session.id,
            "autoCompactionEnabled": true,
            "messageCount": self.session.counts.messages,
            "pendingMessageCount": self.steering.len() + self.follow_up.len(),
        });
        if let Some(path) = &self.session.path {
            state["sessionFile"] = json!(path);
        }
        if let Some(name) = &self.session.name {
            state["sessionName"] = json!(name);
        }
        state
    }

    fn stats(&self) -> Value {
        let counts = &self.session.counts;
        #[allow(clippy::cast_precision_loss)] // a percentage for display
        let percent = counts.context as f64 * 100.0 / self.model.window.max(1) as f64;
        json!({
            "sessionFile": self.session.path,
            "sessionId": self.session.id,
            "userMessages": counts.user,
            "assistantMessages": counts.assistant,
            "toolCalls": counts.tool_calls,
            "toolResults": counts.tool_results,
            "totalMessages": counts.messages,
            "tokens": {
                "input": counts.input,
                "output": counts.output,
                "cacheRead": counts.cache_read,
                "cacheWrite": counts.cache_write,
                "total": counts.input + counts.output + counts.cache_read + counts.cache_write,
            },
            "cost": counts.cost,
            "contextUsage": {
                "tokens": counts.context,
                "contextWindow": self.model.window,
                "percent": percent,
            },
        })
    }
}

fn describe(model: &Model) -> Value {
    let (input, output, cache_read) = model.price;
    json!({
        "id": model.id,
        "name": model.name,
        "api": "demo",
        "provider": model.provider,
        "baseUrl": "",
        "reasoning": true,
        "input": ["text"],
        "cost": {"input": input, "output": output, "cacheRead": cache_read, "cacheWrite": 0},
        "contextWindow": model.window,
        "maxTokens": 8192,
    })
}
