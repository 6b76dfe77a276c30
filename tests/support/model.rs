//! A scripted model: an OpenAI-compatible streaming server on 127.0.0.1 that answers what the
//! test says and keeps what it was asked.
//!
//! A test gives answers ([`Turn`]) by conversation (`on`: a marker in the first user message, so
//! that several agents can be told apart), by question (`on_last`), to whoever asks next
//! (`queue`), or computes them (`answer`). A request nobody scripted is answered with 400, which
//! Pi does not retry, and a text that says what was asked.

mod http;
mod script;

use std::collections::VecDeque;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub use script::{Gate, Step, Turn};

use super::wait;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    /// Number, from 0 in order of arrival.
    pub number: usize,
    /// When.
    pub at: Instant,
    /// Path, such as `/v1/chat/completions`.
    pub path: String,
    /// `authorization` header.
    pub authorization: Option<String>,
    /// Body.
    pub body: Value,
    /// How it went so far.
    pub outcome: Outcome,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is on its way.
    Running,
    /// Answered as scripted, to the end.
    Done,
    /// Pi closed the connection first: it aborted or died.
    Abandoned,
}

impl Request {
    /// All messages.
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Texts of the messages with that role.
    pub fn texts(&self, role: &str) -> Vec<String> {
        let of_role = self.messages().iter().filter(|m| m["role"] == role);
        of_role.map(|m| content_text(&m["content"])).collect()
    }

    /// Text of the first user message.
    pub fn first_user_text(&self) -> String {
        self.texts("user").into_iter().next().unwrap_or_default()
    }

    /// Text of the last user message.
    pub fn last_user_text(&self) -> String {
        self.texts("user").pop().unwrap_or_default()
    }

    /// System prompt, whichever role carries it.
    pub fn system_text(&self) -> String {
        let mut all = self.texts("system");
        all.extend(self.texts("developer"));
        all.join("\n")
    }

    /// Results of tools, as the model sees them.
    pub fn tool_results(&self) -> Vec<String> {
        self.texts("tool")
    }

    /// Names of the tools it was offered.
    pub fn tools(&self) -> Vec<String> {
        let tools = self.body["tools"].as_array().map_or(&[][..], Vec::as_slice);
        let names = tools.iter().filter_map(|t| t["function"]["name"].as_str());
        names.map(str::to_owned).collect()
    }
}

fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<_> = parts.iter().filter_map(|p| p["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

type Answerer = Box<dyn Fn(&Request) -> Option<Turn> + Send + Sync>;

enum Rule {
    First {
        marker: String,
        turns: VecDeque<Turn>,
        then: Option<Turn>,
    },
    Last {
        marker: String,
        turn: Turn,
    },
    Any {
        turns: VecDeque<Turn>,
    },
    Computed(Answerer),
}

impl Rule {
    fn answer(&mut self, request: &Request) -> Option<Turn> {
        match self {
            Self::First {
                marker,
                turns,
                then,
            } if request.first_user_text().contains(marker.as_str()) => {
                turns.pop_front().or_else(|| then.clone())
            }
            Self::Last { marker, turn } if request.last_user_text().contains(marker.as_str()) => {
                Some(turn.clone())
            }
            Self::Any { turns } => turns.pop_front(),
            Self::Computed(answer) => answer(request),
            Self::First { .. } | Self::Last { .. } => None,
        }
    }
}

#[derive(Default)]
struct Shared {
    requests: Mutex<Vec<Request>>,
    rules: Mutex<Vec<Rule>>,
    connections: Mutex<Vec<TcpStream>>,
    closing: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn receive(&self, request: http::Received) -> (usize, Turn) {
        let mut requests = lock(&self.requests);
        let number = requests.len();
        let request = Request {
            number,
            at: Instant::now(),
            path: request.path,
            authorization: request.authorization,
            body: request.body,
            outcome: Outcome::Running,
        };
        requests.push(request.clone());
        drop(requests);
        let scripted = lock(&self.rules)
            .iter_mut()
            .find_map(|rule| rule.answer(&request));
        let turn = scripted.unwrap_or_else(|| {
            Turn::error(
                400,
                &format!(
                    "no scripted answer for this request; first user text: {:?}, last: {:?}",
                    request.first_user_text(),
                    request.last_user_text()
                ),
            )
        });
        (number, turn)
    }

    fn finish(&self, number: usize, outcome: Outcome) {
        if let Some(request) = lock(&self.requests).get_mut(number) {
            request.outcome = outcome;
        }
    }
}

/// The server. Ends with its threads and connections when dropped.
pub struct ModelServer {
    shared: Arc<Shared>,
    port: u16,
}

impl ModelServer {
    /// Listens on a free port.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("own address").port();
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if for_thread.closing.load(Ordering::SeqCst) {
                    break;
                }
                if let Ok(copy) = stream.try_clone() {
                    lock(&for_thread.connections).push(copy);
                }
                let shared = Arc::clone(&for_thread);
                std::thread::spawn(move || http::serve(&stream, &shared));
            }
        });
        Self { shared, port }
    }

    /// What belongs into Pi's `models.json`.
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// Conversations whose first user message contains `marker` get these answers in order.
    pub fn on(&self, marker: &str, turns: impl IntoIterator<Item = Turn>) {
        self.add(Rule::First {
            marker: marker.to_owned(),
            turns: turns.into_iter().collect(),
            then: None,
        });
    }

    /// Conversations whose first user message contains `marker` always get this answer.
    pub fn on_always(&self, marker: &str, turn: Turn) {
        self.add(Rule::First {
            marker: marker.to_owned(),
            turns: VecDeque::new(),
            then: Some(turn),
        });
    }

    /// Requests whose last user message contains `marker` always get this answer.
    pub fn on_last(&self, marker: &str, turn: Turn) {
        self.add(Rule::Last {
            marker: marker.to_owned(),
            turn,
        });
    }

    /// Whoever asks next and has no answer by an earlier rule gets these in order.
    pub fn queue(&self, turns: impl IntoIterator<Item = Turn>) {
        self.add(Rule::Any {
            turns: turns.into_iter().collect(),
        });
    }

    /// Answers are computed; `None` leaves the request to the rules added later.
    pub fn answer(&self, answer: impl Fn(&Request) -> Option<Turn> + Send + Sync + 'static) {
        self.add(Rule::Computed(Box::new(answer)));
    }

    fn add(&self, rule: Rule) {
        lock(&self.shared.rules).push(rule);
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.requests).clone()
    }

    /// Waits until `found` picks something from the requests so far.
    #[track_caller]
    pub fn wait_request<T>(&self, what: &str, found: impl Fn(&[Request]) -> Option<T>) -> T {
        wait::wait_for_or(
            what,
            || found(&lock(&self.shared.requests)),
            || {
                let texts: Vec<_> = self
                    .requests()
                    .iter()
                    .map(|r| format!("{:?} {:?}", r.outcome, r.last_user_text()))
                    .collect();
                format!("the model was asked: {texts:#?}")
            },
        )
    }

    /// Waits for the first request of the conversation with `marker` in its first user message.
    #[track_caller]
    pub fn wait_first(&self, marker: &str) -> Request {
        self.wait_request(&format!("a request of {marker:?}"), |requests| {
            let mut all = requests.iter();
            all.find(|r| r.first_user_text().contains(marker)).cloned()
        })
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], self.port));
        let _ = TcpStream::connect_timeout(&address, Duration::from_secs(1));
        for connection in lock(&self.shared.connections).drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

/// Body of an error as the API sends it.
fn error_body(message: &str) -> Value {
    json!({"error": {"message": message, "type": "scripted_error"}})
}
