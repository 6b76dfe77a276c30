//! The wire: one request per connection, the answer as chunked server-sent events. Chunked,
//! because otherwise a broken connection would look like the end of the answer.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::script::{Step, Turn};
use super::{Outcome, Shared};

/// Characters per piece of streamed text.
const PIECE: usize = 12;

/// How often a waiting answer looks whether Pi is still there.
const LOOK: Duration = Duration::from_millis(5);

/// A request, parsed.
pub(super) struct Received {
    pub path: String,
    pub authorization: Option<String>,
    pub body: Value,
}

/// Reads one request, answers it, closes.
pub(super) fn serve(stream: &TcpStream, shared: &Shared) {
    let _ = stream.set_nodelay(true);
    let Some(received) = read_request(stream) else {
        return;
    };
    // As the API does it, the answer names the model that was asked for.
    let model = received.body["model"].clone();
    let (number, turn) = shared.receive(received);
    let mut answer = Answer {
        stream,
        number,
        model,
        head_sent: false,
    };
    let outcome = match answer.play(&turn) {
        Ok(()) => Outcome::Done,
        Err(_) => Outcome::Abandoned,
    };
    shared.finish(number, outcome);
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

fn read_request(stream: &TcpStream) -> Option<Received> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split_ascii_whitespace().nth(1)?.to_owned();
    let mut length = None;
    let mut chunked = false;
    let mut authorization = None;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok(),
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            "authorization" => authorization = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = Vec::new();
    if chunked {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size).ok()?;
            let size = u64::from_str_radix(size.trim(), 16).ok()?;
            (&mut reader).take(size).read_to_end(&mut body).ok()?;
            let mut end = String::new();
            reader.read_line(&mut end).ok()?;
            if size == 0 {
                break;
            }
        }
    } else {
        let length: u64 = length.unwrap_or(0);
        reader.take(length).read_to_end(&mut body).ok()?;
    }
    Some(Received {
        path,
        authorization,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    })
}

/// An answer being written. Any error means that Pi is gone.
struct Answer<'a> {
    stream: &'a TcpStream,
    number: usize,
    model: Value,
    head_sent: bool,
}

impl Answer<'_> {
    fn play(&mut self, turn: &Turn) -> std::io::Result<()> {
        let mut calls = 0;
        let mut finish = None;
        let mut usage = (1000 + 10 * self.number as u64, 20);
        for step in &turn.steps {
            match step {
                Step::HttpError {
                    status,
                    body,
                    headers,
                } => return self.error(*status, body, headers),
                Step::Text(text) => {
                    for piece in pieces(text) {
                        self.delta(json!({"content": piece}))?;
                    }
                }
                Step::Thinking(text) => {
                    for piece in pieces(text) {
                        self.delta(json!({"reasoning_content": piece}))?;
                    }
                }
                Step::ToolCall { name, args } => {
                    self.call(calls, name, args)?;
                    calls += 1;
                }
                Step::Pause(duration) => {
                    self.head()?;
                    let end = Instant::now() + *duration;
                    self.wait(|| Instant::now() >= end)?;
                }
                Step::Gate(gate) => {
                    self.head()?;
                    gate.arrive();
                    self.wait(|| gate.is_open())?;
                }
                Step::Usage { input, output } => usage = (*input, *output),
                Step::Finish(reason) => finish = Some(reason.clone()),
                Step::Disconnect => {
                    self.head()?;
                    return Ok(());
                }
                Step::Hang => {
                    self.head()?;
                    self.wait(|| false)?;
                }
                Step::Raw(line) => self.line(line)?,
            }
        }
        let fitting = if calls > 0 { "tool_calls" } else { "stop" };
        let reason = finish.as_deref().unwrap_or(fitting);
        self.chunk(
            &json!([{"index": 0, "delta": {}, "finish_reason": reason}]),
            None,
        )?;
        let (input, output) = usage;
        self.chunk(
            &json!([]),
            Some(json!({
                "prompt_tokens": input,
                "completion_tokens": output,
                "total_tokens": input + output,
            })),
        )?;
        self.line("[DONE]")?;
        self.write(b"0\r\n\r\n")
    }

    fn call(&mut self, index: usize, name: &str, args: &Value) -> std::io::Result<()> {
        let id = format!("call_{}_{index}", self.number);
        self.delta(json!({"tool_calls": [{
            "index": index,
            "id": id,
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }]}))?;
        for piece in pieces(&args.to_string()) {
            self.delta(json!({"tool_calls": [{
                "index": index,
                "function": {"arguments": piece},
            }]}))?;
        }
        Ok(())
    }

    fn delta(&mut self, delta: Value) -> std::io::Result<()> {
        self.chunk(
            &json!([{"index": 0, "delta": delta, "finish_reason": null}]),
            None,
        )
    }

    fn chunk(&mut self, choices: &Value, usage: Option<Value>) -> std::io::Result<()> {
        let mut chunk = json!({
            "id": format!("chatcmpl-{}", self.number),
            "object": "chat.completion.chunk",
            "created": 1,
            "model": self.model,
            "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage;
        }
        self.line(&chunk.to_string())
    }

    fn line(&mut self, data: &str) -> std::io::Result<()> {
        self.head()?;
        let event = format!("data: {data}\n\n");
        self.write(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())
    }

    fn head(&mut self) -> std::io::Result<()> {
        if self.head_sent {
            return Ok(());
        }
        self.head_sent = true;
        self.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\
              transfer-encoding: chunked\r\n\r\n",
        )
    }

    fn error(
        &mut self,
        status: u16,
        body: &Value,
        headers: &[(String, String)],
    ) -> std::io::Result<()> {
        let body = body.to_string();
        let mut head = format!(
            "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\n\
             connection: close\r\ncontent-length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.write(format!("{head}\r\n{body}").as_bytes())
    }

    /// Waits for `over`, and notices when Pi closes the connection meanwhile.
    fn wait(&self, over: impl Fn() -> bool) -> std::io::Result<()> {
        self.stream.set_read_timeout(Some(LOOK))?;
        while !over() {
            match self.stream.peek(&mut [0]) {
                Ok(0) => return Err(ErrorKind::ConnectionAborted.into()),
                // Pi sends nothing after its request; were it to, this only looks more often.
                Ok(_) => std::thread::sleep(LOOK),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        let mut stream = self.stream;
        stream.write_all(bytes)
    }
}

fn pieces(text: &str) -> Vec<String> {
    let all: Vec<char> = text.chars().collect();
    all.chunks(PIECE)
        .map(|part| part.iter().collect())
        .collect()
}
