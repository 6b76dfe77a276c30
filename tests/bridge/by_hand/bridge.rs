//! `pi-agents serve --stdio` and the other end of its line.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::support::core::PROGRAM;
use crate::support::fake::FakePi;
use crate::support::wait;

/// A Pi session that a test plays.
pub struct Bridge {
    guard: Child,
    stdin: Option<ChildStdin>,
    seen: Arc<Mutex<Vec<Value>>>,
    next: i64,
    pub generation: u64,
    states: u64,
    /// Answers to `host/launch_event`; `None` = not answered.
    launch: Arc<Mutex<Option<Value>>>,
    asked: Arc<Mutex<usize>>,
    /// Held by a test, nothing more is read.
    reading: Arc<Mutex<()>>,
    /// The pipe it is read from.
    pipe: OwnedFd,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a session says of itself.
pub fn facts(pi: &FakePi, session: &str, known: &[&str]) -> Value {
    let env: Vec<Value> = pi
        .env()
        .into_iter()
        .map(|(name, value)| json!({"name": name.to_str(), "value": value.to_str()}))
        .collect();
    json!({
        "session": session,
        "session_file": null,
        "reason": "startup",
        "cwd": pi.work(),
        "mode": "rpc",
        "has_ui": true,
        "model": null,
        "thinking": "high",
        "pid": std::process::id(),
        "state": "idle",
        "known": known,
        "durable": true,
        "env": env,
    })
}

impl Bridge {
    /// Starts a core and joins it.
    pub fn start(pi: &FakePi, session: &str) -> Self {
        Self::with(pi, facts(pi, session, &[])).expect("the core takes the session")
    }

    /// The same with these facts; the refusal if it is refused.
    pub fn with(pi: &FakePi, facts: Value) -> Result<Self, Value> {
        let mut command = pi.command(PROGRAM);
        command
            .args(["serve", "--stdio"])
            .env("PI_AGENTS_PI", pi.pi_command())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut guard = command.spawn().expect("the program starts");
        let stdin = guard.stdin.take();
        let stdout = guard.stdout.take().expect("piped");
        let pipe = stdout
            .as_fd()
            .try_clone_to_owned()
            .expect("a second handle");
        let mut bridge = Self {
            guard,
            stdin,
            seen: Arc::default(),
            next: 0,
            generation: 0,
            states: 0,
            launch: Arc::new(Mutex::new(Some(json!({"env": {}, "extensions": []})))),
            asked: Arc::default(),
            reading: Arc::default(),
            pipe,
        };
        let seen = Arc::clone(&bridge.seen);
        let reading = Arc::clone(&bridge.reading);
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout).lines();
            loop {
                drop(lock(&reading));
                let Some(Ok(line)) = lines.next() else { break };
                let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
                lock(&seen).push(value);
            }
            lock(&seen).push(json!({"ended": true}));
        });
        let answer = bridge.request(
            "initialize",
            json!({
                "role": "bridge",
                "versions": [1, 1],
                "client": {"name": "by hand", "version": "0"},
                "host": facts,
            }),
        );
        if answer.get("error").is_some() {
            return Err(answer);
        }
        bridge.generation = answer["result"]["host"]["generation"]
            .as_u64()
            .unwrap_or_else(|| panic!("no welcome: {answer}"));
        Ok(bridge)
    }

    fn write(&mut self, line: &Value) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        let _ = writeln!(stdin, "{line}");
        let _ = stdin.flush();
    }

    /// What came so far.
    pub fn seen(&self) -> Vec<Value> {
        lock(&self.seen).clone()
    }

    /// Reads nothing until the guard is dropped, but a line it waits for already.
    pub fn read_nothing(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.reading)
    }

    /// Bytes in the pipe that were not read.
    pub fn unread(&self) -> usize {
        let bytes = rustix::io::ioctl_fionread(&self.pipe).expect("a pipe");
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// What was said of how a call gets on.
    pub fn progress(&self, call: &str) -> Vec<Value> {
        let seen = self.seen().into_iter();
        seen.filter(|m| m["method"] == "tools/progress" && m["params"]["call"] == call)
            .map(|m| m["params"].clone())
            .collect()
    }

    /// Waits until that was said of a call.
    #[track_caller]
    pub fn wait_progress(
        &mut self,
        call: &str,
        what: &str,
        found: impl Fn(&Value) -> bool,
    ) -> Value {
        self.wait(what, |seen| {
            seen.iter()
                .filter(|m| m["method"] == "tools/progress" && m["params"]["call"] == call)
                .map(|m| &m["params"])
                .find(|params| found(params))
                .cloned()
        })
    }

    /// Answers the questions about launches that came since.
    fn answer_launches(&mut self) {
        let questions: Vec<Value> = self
            .seen()
            .into_iter()
            .filter(|m| m["method"] == "host/launch_event")
            .collect();
        let answered = *lock(&self.asked);
        let answer = lock(&self.launch).clone();
        let Some(answer) = answer else { return };
        for question in questions.iter().skip(answered) {
            let mut line = json!({"jsonrpc": "2.0", "id": question["id"]});
            if answer.get("error").is_some() {
                line["error"] = json!({"code": -32000, "message": "secret reason"});
            } else {
                line["result"] = answer.clone();
            }
            self.write(&line);
        }
        *lock(&self.asked) = questions.len();
    }

    /// How launches are answered from now on.
    pub fn on_launch(&self, answer: Option<Value>) {
        *lock(&self.launch) = answer;
    }

    #[track_caller]
    pub fn wait<T>(&mut self, what: &str, found: impl Fn(&[Value]) -> Option<T>) -> T {
        wait::wait_for(what, || {
            self.answer_launches();
            found(&self.seen())
        })
    }

    /// Begins a call; its id.
    pub fn begin(&mut self, method: &str, params: Value) -> i64 {
        self.next += 1;
        let id = self.next;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    #[track_caller]
    pub fn answer(&mut self, id: i64) -> Value {
        self.wait(&format!("the answer to {id}"), |seen| {
            seen.iter()
                .find(|m| m["id"] == id && m.get("method").is_none())
                .cloned()
        })
    }

    /// How many answers a call has.
    pub fn answers(&self, id: i64) -> usize {
        let seen = self.seen();
        let of = |m: &&Value| m["id"] == id && m.get("method").is_none();
        seen.iter().filter(of).count()
    }

    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    pub fn notify(&mut self, method: &str, mut params: Value) {
        params["generation"] = self.generation.into();
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Begins the use of a tool; Pi's id of it is `call`.
    pub fn use_tool(&mut self, call: &str, name: &str, arguments: Value) -> i64 {
        let generation = self.generation;
        self.begin(
            "tools/call",
            json!({"generation": generation, "call": call, "name": name, "arguments": arguments}),
        )
    }

    /// Uses a tool and gives its result.
    #[track_caller]
    pub fn tool(&mut self, name: &str, arguments: Value) -> Value {
        let call = format!("call-{}", self.next);
        let id = self.use_tool(&call, name, arguments);
        let answer = self.answer(id);
        assert!(answer.get("result").is_some(), "no result: {answer}");
        answer["result"].clone()
    }

    /// Starts an agent in the background; its name.
    #[track_caller]
    pub fn spawn(&mut self, prompt: &str) -> String {
        let result = self.tool(
            "agent_spawn",
            json!({"prompt": prompt, "label": "a task", "run_in_background": true}),
        );
        assert_eq!(result["isError"], false, "{result}");
        result["details"]["agent_id"]
            .as_str()
            .expect("a name")
            .to_owned()
    }

    pub fn state(&mut self, state: &str) {
        self.states += 1;
        let seq = self.states;
        self.notify("host/state", json!({"seq": seq, "state": state}));
    }

    /// Offers so far.
    pub fn offers(&self) -> Vec<Value> {
        let seen = self.seen();
        let offers = seen.iter().filter(|m| m["method"] == "host/offer");
        offers.map(|m| m["params"].clone()).collect()
    }

    #[track_caller]
    pub fn wait_offers(&mut self, count: usize) -> Vec<Value> {
        self.wait(&format!("{count} offers"), |seen| {
            let offers: Vec<Value> = seen
                .iter()
                .filter(|m| m["method"] == "host/offer")
                .map(|m| m["params"].clone())
                .collect();
            (offers.len() >= count).then_some(offers)
        })
    }

    /// Waits until so many results were offered; the offers.
    #[track_caller]
    pub fn wait_deliveries(&mut self, count: usize) -> Vec<Value> {
        self.wait(&format!("{count} deliveries"), |seen| {
            let offers: Vec<Value> = seen
                .iter()
                .filter(|m| m["method"] == "host/offer")
                .map(|m| m["params"].clone())
                .collect();
            let lengths = offers.iter().filter_map(|o| o["deliveries"].as_array());
            (lengths.map(Vec::len).sum::<usize>() >= count).then_some(offers)
        })
    }

    /// Takes an offer and finds all of it in the session.
    pub fn take(&mut self, offer: &Value) {
        let ids: Vec<Value> = offer["deliveries"]
            .as_array()
            .expect("deliveries")
            .iter()
            .map(|d| d["id"].clone())
            .collect();
        self.notify("host/taken", json!({"epoch": offer["epoch"]}));
        self.notify(
            "host/ack",
            json!({"epoch": offer["epoch"], "found": ids, "missing": [], "durable": true}),
        );
    }

    /// Says goodbye and waits until the agents are gone.
    pub fn leave(&mut self, reason: &str) {
        let generation = self.generation;
        let answer = self.request(
            "host/leaving",
            json!({"generation": generation, "reason": reason}),
        );
        assert!(answer.get("result").is_some(), "{answer}");
    }

    /// Pi is gone.
    pub fn hang_up(&mut self) {
        self.stdin = None;
    }

    pub fn guard_pid(&self) -> u32 {
        self.guard.id()
    }

    #[track_caller]
    pub fn wait_exit(&mut self) -> ExitStatus {
        wait::wait_for("guard and core to end", || {
            self.guard.try_wait().expect("own child")
        })
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.guard.kill();
        let _ = self.guard.wait();
    }
}
