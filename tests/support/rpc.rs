//! Drives a `pi --mode rpc` (real or fake) over pipes, without pi-agents in between: for the
//! tests of the support itself and for comparing what pi-agents makes of a Pi with what Pi said.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use super::wait;

/// A running Pi. Killed when dropped.
pub struct Rpc {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Arc<Mutex<Lines>>,
    errors: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
    sent: usize,
}

#[derive(Default)]
struct Lines {
    raw: Vec<Vec<u8>>,
    ended: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rpc {
    /// Starts the command with pipes and drains both outputs.
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} could not be started: {error}"));
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("piped");
        let mut stderr = child.stderr.take().expect("piped");
        let lines = Arc::new(Mutex::new(Lines::default()));
        let errors = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&lines);
        let records = std::thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            loop {
                let mut line = Vec::new();
                match reader.read_until(b'\n', &mut line) {
                    Ok(1..) => {
                        if line.last() == Some(&b'\n') {
                            line.pop();
                        }
                        lock(&into).raw.push(line);
                    }
                    _ => break,
                }
            }
            lock(&into).ended = true;
        });
        let into = Arc::clone(&errors);
        let complaints = std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = stderr.read(&mut part) {
                lock(&into).extend_from_slice(&part[..count]);
            }
        });
        Self {
            child,
            stdin,
            lines,
            errors,
            readers: vec![records, complaints],
            sent: 0,
        }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(bytes)?;
        stdin.flush()
    }

    /// Sends a command with an id of its own and returns that id.
    pub fn send(&mut self, kind: &str, fields: Value) -> String {
        self.sent += 1;
        let id = format!("t{}", self.sent);
        let mut command = json!({"id": id, "type": kind});
        if let (Value::Object(command), Value::Object(fields)) = (&mut command, fields) {
            command.extend(fields);
        }
        let line = format!("{command}\n");
        self.write(line.as_bytes()).expect("Pi reads commands");
        id
    }

    /// Sends a command and waits for its response.
    #[track_caller]
    pub fn request(&mut self, kind: &str, fields: Value) -> Value {
        let id = self.send(kind, fields);
        self.response(&id)
    }

    /// Waits for the response with that id.
    #[track_caller]
    pub fn response(&self, id: &str) -> Value {
        self.wait_record(&format!("response {id}"), |record| {
            record["type"] == "response" && record["id"] == id
        })
    }

    /// Sends a prompt the way pi-agents does and waits for the response.
    #[track_caller]
    pub fn prompt(&mut self, text: &str) -> Value {
        self.request(
            "prompt",
            json!({"message": text, "streamingBehavior": "steer"}),
        )
    }

    /// Sends a prompt and waits until the run it starts has settled; gives the records since.
    #[track_caller]
    pub fn run(&mut self, text: &str) -> Vec<Value> {
        let before = self.records().len();
        let response = self.prompt(text);
        assert_eq!(response["success"], true, "{response}");
        self.wait_settled(before)
    }

    /// Waits for the first `agent_settled` after record `from`; gives the records from there.
    #[track_caller]
    pub fn wait_settled(&self, from: usize) -> Vec<Value> {
        wait::wait_for_or(
            "agent_settled",
            || {
                let new = self.records().split_off(from);
                let settled = |record: &Value| record["type"] == "agent_settled";
                new.iter().any(settled).then_some(new)
            },
            || self.describe(),
        )
    }

    /// Records so far. A line that is no JSON becomes a string value.
    pub fn records(&self) -> Vec<Value> {
        let lines = lock(&self.lines);
        let parse = |line: &Vec<u8>| {
            serde_json::from_slice(line)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(line).into_owned()))
        };
        lines.raw.iter().map(parse).collect()
    }

    /// Lines so far, without their LF.
    pub fn lines(&self) -> Vec<Vec<u8>> {
        lock(&self.lines).raw.clone()
    }

    /// Waits for a record.
    #[track_caller]
    pub fn wait_record(&self, what: &str, found: impl Fn(&Value) -> bool) -> Value {
        wait::wait_for_or(
            what,
            || self.records().into_iter().find(|record| found(record)),
            || self.describe(),
        )
    }

    /// What it wrote to stderr so far.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&lock(&self.errors)).into_owned()
    }

    /// Closes stdin: Pi ends.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Whether stdout has ended.
    pub fn stdout_ended(&self) -> bool {
        lock(&self.lines).ended
    }

    /// The status, if it has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("own child")
    }

    /// Waits for the end.
    #[track_caller]
    pub fn wait_exit(&mut self) -> ExitStatus {
        let status = wait::wait_for("Pi to end", || self.exited());
        // What was said last must be there when the caller looks.
        let readers = std::mem::take(&mut self.readers);
        wait::wait_until("both outputs to end", || {
            readers.iter().all(JoinHandle::is_finished)
        });
        status
    }

    fn describe(&self) -> String {
        let lines = self.lines();
        let short: Vec<String> = lines
            .iter()
            .rev()
            .take(30)
            .rev()
            .map(|line| String::from_utf8_lossy(&line[..line.len().min(300)]).into_owned())
            .collect();
        format!("stdout:\n{}\nstderr:\n{}", short.join("\n"), self.stderr())
    }
}

impl Drop for Rpc {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last assistant message that ended in these records.
pub fn last_answer(records: &[Value]) -> &Value {
    let mut ended = records.iter().rev();
    ended
        .find(|r| r["type"] == "message_end" && r["message"]["role"] == "assistant")
        .map_or(&Value::Null, |record| &record["message"])
}

/// Text of a message's blocks.
pub fn message_text(message: &Value) -> String {
    let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
    let texts = blocks.iter().filter_map(|block| block["text"].as_str());
    texts.collect()
}
