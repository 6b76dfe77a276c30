//! A core that does what the test says: shakes hands, answers calls, offers, keeps what it was told.
//! Reached through the relay that the bridge starts, or directly by a bridge that joins it.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pi_agents::control::bridge::{
    Ack, Branch, Epoch, HostState, Leaving, Refused, ToolCall, ToolCancel, method,
};
use pi_agents::control::protocol::Initialize;
use serde_json::{Value, json};

use crate::support::wait;

/// What a call of a tool is answered with: the params go in, the result comes out; `None` = never.
type Tool = dyn Fn(&Value) -> Option<Value> + Send + Sync;

/// When a handshake is answered.
pub enum Handshake {
    /// At once.
    AtOnce,
    /// Later.
    After(Duration),
    /// When the test says so.
    When(Arc<AtomicBool>),
    /// Never.
    Never,
}

/// How it behaves.
pub struct Script {
    /// When the handshake is answered.
    pub handshake: Handshake,
    /// Whether `host/leaving` is answered.
    pub says_goodbye: bool,
    /// Activate the tools at once.
    pub activate: bool,
    /// The tools.
    pub tool: Box<Tool>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            handshake: Handshake::AtOnce,
            says_goodbye: true,
            activate: true,
            tool: Box::new(|params| {
                let text = format!("{} called", params["name"].as_str().unwrap_or_default());
                Some(text_result(&text))
            }),
        }
    }
}

/// A result of just text.
pub fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": false, "details": {}})
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One connection of a bridge.
pub struct Connection {
    generation: u64,
    stream: UnixStream,
    received: Mutex<Vec<Value>>,
    ended: Mutex<bool>,
}

impl Connection {
    /// Of the handshake.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Messages so far, without what the relay said of itself.
    pub fn received(&self) -> Vec<Value> {
        let all = lock(&self.received);
        let messages = all.iter();
        messages
            .filter(|m| m.get("relay").is_none())
            .cloned()
            .collect()
    }

    /// What the relay said of itself; null when the bridge joined.
    pub fn relay(&self) -> Value {
        let all = lock(&self.received);
        let mut messages = all.iter().map(|message| &message["relay"]);
        messages
            .find(|relay| !relay.is_null())
            .cloned()
            .unwrap_or_default()
    }

    /// Params of the messages with that method, in order.
    pub fn told(&self, method: &str) -> Vec<Value> {
        let all = self.received().into_iter();
        all.filter(|message| message["method"] == method)
            .map(|message| message["params"].clone())
            .collect()
    }

    /// Waits for params of a message with that method.
    #[track_caller]
    pub fn wait_told(&self, method: &str, found: impl Fn(&Value) -> bool) -> Value {
        wait::wait_for_or(
            method,
            || self.told(method).into_iter().find(&found),
            || format!("it was told: {:#?}", self.brief()),
        )
    }

    fn brief(&self) -> Vec<String> {
        let all = self.received().into_iter();
        all.map(|message| {
            let text = message.to_string();
            text.chars().take(300).collect()
        })
        .collect()
    }

    /// The facts of the handshake.
    #[track_caller]
    pub fn facts(&self) -> Value {
        self.wait_told("initialize", |_| true)["host"].clone()
    }

    /// Waits until the bridge says this state, as the last it said.
    #[track_caller]
    pub fn wait_state(&self, state: &str) {
        wait::wait_for_or(
            &format!("state {state}"),
            || {
                let last = self.told("host/state").pop()?;
                (last["state"] == state).then_some(())
            },
            || format!("it was told: {:#?}", self.brief()),
        );
    }

    /// Waits for what became of an offer.
    #[track_caller]
    pub fn outcome(&self, epoch: u64) -> String {
        wait::wait_for_or(
            &format!("what became of offer {epoch}"),
            || {
                let of_epoch = |params: &Value| params["epoch"] == epoch;
                if self.told("host/taken").iter().any(of_epoch) {
                    return Some("taken".to_owned());
                }
                let refused = self.told("host/refused").into_iter().find(of_epoch)?;
                Some(format!("refused: {}", refused["why"].as_str()?))
            },
            || format!("it was told: {:#?}", self.brief()),
        )
    }

    /// Waits for the acknowledgement of an offer.
    #[track_caller]
    pub fn ack(&self, epoch: u64) -> Value {
        self.wait_told("host/ack", |params| params["epoch"] == epoch)
    }

    /// Sends a line.
    pub fn send(&self, message: &Value) {
        let line = format!("{message}\n");
        // The bridge may be gone: then the test sees that by itself.
        self.send_raw(line.as_bytes());
    }

    /// Sends bytes as they are.
    pub fn send_raw(&self, bytes: &[u8]) {
        let _ = (&self.stream).write_all(bytes);
    }

    /// Sends a notice.
    pub fn notify(&self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Offers final replies with these ids.
    pub fn offer(&self, epoch: u64, mode: &str, ids: &[&str]) {
        let deliveries: Vec<Value> = ids.iter().map(|id| delivery(id)).collect();
        self.notify(
            "host/offer",
            json!({"generation": self.generation, "epoch": epoch, "mode": mode, "deliveries": deliveries}),
        );
    }

    /// Asks the bridge and waits for the whole answer.
    #[track_caller]
    pub fn ask(&self, id: i64, method: &str, mut params: Value) -> Value {
        params["generation"] = self.generation.into();
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        wait::wait_for(&format!("the answer to {method}"), || {
            let mut all = self.received().into_iter();
            all.find(|message| message["id"] == id && message.get("method").is_none())
        })
    }

    /// The core dies.
    pub fn die(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Whether the bridge closed its end.
    pub fn ended(&self) -> bool {
        *lock(&self.ended)
    }
}

/// A delivery as the core makes it.
pub fn delivery(id: &str) -> Value {
    json!({"id": id, "kind": "final_reply", "content": content(id), "details": {"label": "work"}})
}

/// The text the model has to read for it.
pub fn content(id: &str) -> String {
    json!({"kind": "final_reply", "completion_id": id, "status": "completed", "agent_id": "max", "result": format!("reply {id}")})
        .to_string()
}

/// Whether a message is what the Rust types say (`docs/bridge-protocol.md`).
fn fits(message: &Value) -> Result<(), String> {
    fn reads<T: serde::de::DeserializeOwned>(params: &Value) -> Result<(), String> {
        let read = serde_json::from_value::<T>(params.clone()).map(drop);
        read.map_err(|error| error.to_string())
    }
    let params = &message["params"];
    let Some(name) = message["method"].as_str() else {
        let answer = message.get("id").is_some()
            && (message.get("result").is_some() || message["error"]["code"].is_i64());
        return answer.then_some(()).ok_or_else(|| "no message".to_owned());
    };
    let call = message.get("id").is_some();
    let (is_call, read) = match name {
        "initialize" => (true, reads::<Initialize>(params)),
        method::TOOLS_CALL => (true, reads::<ToolCall>(params)),
        method::LEAVING => (true, reads::<Leaving>(params)),
        method::TOOLS_CANCEL => (false, reads::<ToolCancel>(params)),
        method::STATE => (false, reads::<HostState>(params)),
        method::BRANCH => (false, reads::<Branch>(params)),
        method::TAKEN => (false, reads::<Epoch>(params)),
        method::REFUSED => (false, reads::<Refused>(params)),
        method::ACK => (false, reads::<Ack>(params)),
        _ => (call, Err("nobody knows it".to_owned())),
    };
    if is_call != call {
        return Err("an id where none belongs, or none where one does".to_owned());
    }
    read
}

/// See the module. When it is dropped, everything it was told must have been what the types say.
pub struct ScriptedCore {
    socket: PathBuf,
    connections: Arc<Mutex<Vec<Arc<Connection>>>>,
}

impl ScriptedCore {
    /// Listens below `folder`.
    pub fn start(folder: &Path, script: Script) -> Self {
        let socket = folder.join("core");
        let listener = UnixListener::bind(&socket).expect("a socket of the sandbox");
        let connections = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&connections);
        let script = Arc::new(script);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut all = lock(&all);
                let connection = Arc::new(Connection {
                    generation: all.len() as u64 + 1,
                    stream: stream.try_clone().expect("a second handle"),
                    received: Mutex::default(),
                    ended: Mutex::new(false),
                });
                all.push(Arc::clone(&connection));
                drop(all);
                let script = Arc::clone(&script);
                std::thread::spawn(move || serve(&stream, &connection, &script));
            }
        });
        Self {
            socket,
            connections,
        }
    }

    /// Where.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Connections so far.
    pub fn count(&self) -> usize {
        lock(&self.connections).len()
    }

    /// Waits for the connection with this number, from 0, and for its first message.
    #[track_caller]
    pub fn connection(&self, number: usize) -> Arc<Connection> {
        wait::wait_for(&format!("connection {number}"), || {
            let connection = lock(&self.connections).get(number).cloned()?;
            (!connection.received().is_empty()).then_some(connection)
        })
    }

    /// Waits for a connection whose handshake is through.
    #[track_caller]
    pub fn joined(&self, number: usize) -> Arc<Connection> {
        let connection = self.connection(number);
        connection.wait_told("host/state", |_| true);
        connection
    }
}

impl Drop for ScriptedCore {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for connection in lock(&self.connections).iter() {
            for message in connection.received() {
                if let Err(error) = fits(&message) {
                    panic!("the bridge said what does not fit: {error}\n{message}");
                }
            }
        }
    }
}

fn serve(stream: &UnixStream, connection: &Arc<Connection>, script: &Arc<Script>) {
    let mut lines = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut line = Vec::new();
    while let Ok(1..) = lines.read_until(b'\n', &mut line) {
        let message: Value = serde_json::from_slice(&line).expect("the bridge speaks JSON");
        line.clear();
        lock(&connection.received).push(message.clone());
        let connection = Arc::clone(connection);
        let script = Arc::clone(script);
        // Answers may take their time: they do not hold up each other.
        std::thread::spawn(move || {
            if let Some(result) = answer(&connection, &script, &message) {
                connection.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
            }
        });
    }
    *lock(&connection.ended) = true;
}

fn answer(connection: &Connection, script: &Script, message: &Value) -> Option<Value> {
    message.get("id")?;
    match message["method"].as_str()? {
        "initialize" => {
            match &script.handshake {
                Handshake::AtOnce => {}
                Handshake::After(time) => std::thread::sleep(*time),
                Handshake::When(open) => {
                    wait::wait_until("the test to let the handshake be answered", || {
                        open.load(Ordering::SeqCst)
                    });
                }
                Handshake::Never => return None,
            }
            Some(json!({
                "version": 1,
                "core": {},
                "host": {
                    "id": message["params"]["host"]["session"],
                    "generation": connection.generation,
                    "tools": [],
                    "activate": script.activate,
                    "limits": {"line_bytes": 16 << 20},
                },
            }))
        }
        "tools/call" => (script.tool)(&message["params"]),
        "host/leaving" => script.says_goodbye.then(|| json!({})),
        other => panic!("the bridge called {other}"),
    }
}
