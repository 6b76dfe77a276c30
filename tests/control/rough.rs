//! Peers that do not behave, byte by byte. R-Q-01, R-Q-02.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pi_agents::control::framing::{Line, LineReader};
use pi_agents::control::server::{Options, Server};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::fake_core::{FakeCore, soon, until};

struct Raw {
    lines: LineReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl Raw {
    fn connect(server: &Server) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = server.clone();
        tokio::spawn(async move {
            let (reader, writer) = theirs.into_split();
            server.serve_stream(reader, writer, None).await
        });
        let (reader, writer) = ours.into_split();
        Self {
            lines: LineReader::new(reader, 16 << 20),
            writer,
        }
    }

    async fn hello(server: &Server) -> Self {
        let mut raw = Self::connect(server);
        raw.send(&hello([1, 1])).await;
        let answer = raw.next().await;
        assert_eq!(answer["result"]["version"], 1, "{answer}");
        raw
    }

    async fn send(&mut self, message: &Value) {
        self.bytes(format!("{message}\n").as_bytes()).await;
    }

    async fn bytes(&mut self, bytes: &[u8]) {
        soon("write", self.writer.write_all(bytes)).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        self.line().await.expect("the connection ended")
    }

    async fn line(&mut self) -> Option<Value> {
        match soon("a line", self.lines.next()).await.unwrap()? {
            Line::Whole(line) => Some(serde_json::from_slice(&line).unwrap()),
            Line::Oversize { bytes } => panic!("a line of {bytes} bytes"),
        }
    }
}

fn hello(versions: [u32; 2]) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "role": "viewer", "versions": versions, "client": {"name": "test", "version": "9"},
        "of a later version": true,
    }})
}

fn call(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[tokio::test]
async fn rubbish_is_answered_and_the_connection_goes_on() {
    let core = FakeCore::new();
    let (server, _shutdown) = core.server(Options::default());
    let mut raw = Raw::hello(&server).await;
    let cases: &[(&[u8], i64, Value)] = &[
        (b"hello\n", -32700, Value::Null),
        (b"{\"jsonrpc\":\"2.0\",\n", -32700, Value::Null),
        (b"\xff\xfe\x00\n", -32700, Value::Null),
        (b"[]\n", -32600, Value::Null),
        (b"17\n", -32600, Value::Null),
        (b"{\"jsonrpc\":\"1.0\",\"id\":4,\"method\":\"fleet/snapshot\"}\n", -32600, json!(4)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":5}\n", 0, Value::Null),
        (b"{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":7}\n", -32600, json!(6)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"six\",\"method\":\"agent/dance\"}\n", -32601, json!("six")),
        (b"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"agent/spawn\"}\n", -32602, json!(8)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"agent/spawn\",\"params\":{\"prompt\":3}}\n", -32602, json!(9)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":10,\"method\":\"initialize\",\"params\":{}}\n", -32002, json!(10)),
        (b"\n  \r\n", 0, Value::Null),
        (b"{\"jsonrpc\":\"2.0\",\"method\":\"nobody/knows\"}\n", 0, Value::Null),
    ];
    for (bytes, code, id) in cases {
        raw.bytes(bytes).await;
        if *code != 0 {
            let answer = raw.next().await;
            let text = String::from_utf8_lossy(bytes);
            assert_eq!(answer["error"]["code"], *code, "{text} {answer}");
            assert_eq!(answer["id"], *id, "{text} {answer}");
            assert!(answer["error"]["data"]["code"].is_string(), "{answer}");
        }
    }
    // Deep nesting ends in an error, not in a stack overflow.
    let mut deep =
        b"{\"jsonrpc\":\"2.0\",\"id\":11,\"method\":\"agent/spawn\",\"params\":".to_vec();
    deep.extend(vec![b'['; 200_000]);
    deep.extend(vec![b']'; 200_000]);
    deep.extend(b"}\n");
    raw.bytes(&deep).await;
    assert!(raw.next().await["error"]["code"].is_number());

    raw.send(&call(12, "fleet/snapshot", json!({"more": 1})))
        .await;
    let answer = raw.next().await;
    assert_eq!(answer["id"], 12);
    assert_eq!(answer["result"]["reply"], "snapshot");
}

#[tokio::test]
async fn nothing_but_rubbish_is_ended_with_the_reason() {
    let core = FakeCore::new();
    let (server, _shutdown) = core.server(Options::default());
    let mut raw = Raw::hello(&server).await;
    for _ in 0..16 {
        raw.bytes(b"GET / HTTP/1.1\n").await;
    }
    for _ in 0..16 {
        assert_eq!(raw.next().await["error"]["code"], -32700);
    }
    let closing = raw.next().await;
    assert_eq!(closing["method"], "core/closing");
    assert!(closing["params"]["reason"].is_string());
    assert_eq!(raw.line().await, None);
}

#[tokio::test]
async fn a_line_over_the_limit_is_refused_and_the_next_one_taken() {
    let core = FakeCore::new();
    let (server, _shutdown) = core.server(Options::default());
    let mut raw = Raw::hello(&server).await;
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..20 {
        raw.bytes(&piece).await;
    }
    raw.bytes(b"\n").await;
    let answer = raw.next().await;
    assert_eq!(answer["error"]["code"], -32600);
    let said = answer["error"]["message"].as_str().unwrap();
    assert!(said.contains("20971520"), "{said}");
    raw.send(&call(2, "fleet/snapshot", json!({}))).await;
    assert_eq!(raw.next().await["id"], 2);
}

#[tokio::test]
async fn half_a_line_and_gone_leaves_nothing() {
    let core = FakeCore::new();
    let (server, _shutdown) = core.server(Options::default());
    let attached = server.attached();
    let mut raw = Raw::hello(&server).await;
    assert_eq!(*attached.borrow(), 1);
    raw.bytes(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"core/shutd")
        .await;
    drop(raw);
    until("nobody attached", || *attached.borrow() == 0).await;
    assert!(core.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn no_version_in_common_says_so_and_ends() {
    let core = FakeCore::new();
    let (server, _shutdown) = core.server(Options::default());
    for versions in [[2, 9], [0, 0]] {
        let mut raw = Raw::connect(&server);
        raw.send(&hello(versions)).await;
        let answer = raw.next().await;
        assert_eq!(answer["error"]["code"], -32003);
        assert_eq!(answer["error"]["data"]["code"], "unsupported");
        assert!(answer["error"]["data"]["hint"].is_string());
        assert_eq!(raw.next().await["method"], "core/closing");
        assert_eq!(raw.line().await, None);
    }
    // A client that also speaks later versions is served.
    let mut raw = Raw::connect(&server);
    raw.send(&hello([1, 9])).await;
    assert_eq!(raw.next().await["result"]["version"], 1);
}

#[tokio::test]
async fn the_handshake_comes_first_and_in_time() {
    let core = FakeCore::new();
    let options = Options {
        handshake_timeout: Duration::from_millis(200),
        ..Options::default()
    };
    let (server, _shutdown) = core.server(options);
    let mut raw = Raw::connect(&server);
    raw.send(&call(1, "core/shutdown", json!({}))).await;
    assert_eq!(raw.next().await["error"]["code"], -32002);
    assert!(core.asked.lock().unwrap().is_empty());
    assert_eq!(raw.next().await["method"], "core/closing");
    assert_eq!(raw.line().await, None);
    assert_eq!(*server.attached().borrow(), 0);
}

#[tokio::test]
async fn too_many_requests_at_once_are_refused_not_queued() {
    let core = FakeCore::new();
    let options = Options {
        max_in_flight: 3,
        max_in_flight_bytes: 2000,
        ..Options::default()
    };
    let (server, _shutdown) = core.server(options);
    let mut raw = Raw::hello(&server).await;
    for id in 10..14 {
        raw.send(&call(id, "agent/stop", json!({"agent": "max"})))
            .await;
    }
    let answer = raw.next().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(13), &json!(-32001))
    );
    core.release.notify_one();
    assert_eq!(raw.next().await["result"]["reply"], "stopped");
    // A place is free again, but not for that many bytes.
    let long = json!({"agent": "max", "text": "x".repeat(1990)});
    raw.send(&call(20, "agent/prompt", long)).await;
    assert_eq!(raw.next().await["error"]["code"], -32001);
    raw.send(&call(
        21,
        "agent/prompt",
        json!({"agent": "max", "text": "x"}),
    ))
    .await;
    assert_eq!(raw.next().await["id"], 21);
    assert_eq!(core.held.load(Ordering::SeqCst), 2);
}

// R-Q-02: who asks and never reads is not kept in memory.
#[tokio::test]
async fn a_peer_that_asks_and_never_reads_is_not_served_further() {
    let core = FakeCore::new();
    let (server, shutdown) = core.server(Options {
        close_grace: Duration::from_millis(100),
        ..Options::default()
    });
    let (ours, theirs) = UnixStream::pair().unwrap();
    let serving = {
        let server = server.clone();
        tokio::spawn(async move {
            let (reader, writer) = theirs.into_split();
            server.serve_stream(reader, writer, None).await
        })
    };
    let (_reader, mut writer) = ours.into_split();
    let mut text = format!("{}\n", hello([1, 1]));
    text.push_str(&format!("{}\n", call(1, "agent/watch", json!({"agents": []}))).repeat(1000));
    // Answers fill the way back, then nothing more is read from this side.
    let mut sent = 0;
    while let Ok(written) = tokio::time::timeout(
        Duration::from_millis(500),
        writer.write_all(text.as_bytes()),
    )
    .await
    {
        written.unwrap();
        sent += text.len();
        text = text.split_off(text.find('\n').unwrap() + 1);
        text.push_str(&format!(
            "{}\n",
            call(1, "agent/watch", json!({"agents": []}))
        ));
        assert!(
            sent < 64 << 20,
            "64 MB taken from a peer that reads nothing"
        );
    }
    // And it does not hold up the end.
    shutdown.cancel();
    soon("end", serving).await.unwrap();
}
