//! Golden files of the protocol, and the pages made from code. `UPDATE_GENERATED=1` writes them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pi_agents::client::{Reply, Update};
use pi_agents::config::env;
use pi_agents::control::protocol::{
    self, Closing, Direction, Initialize, Initialized, METHODS, NEWEST_VERSION, Nothing, Program,
    Role, method,
};
use pi_agents::control::rpc::{self, Message, RpcError, RpcId};
use serde_json::Value;

use super::fake_core::core_view;
use super::samples;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Compares a file with what the code makes of it, or writes it.
fn compare(path: &Path, text: &str) {
    let path = root().join(path);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        return;
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    pretty_assertions::assert_eq!(
        there,
        text,
        "{} is out of date: run the tests with UPDATE_GENERATED=1",
        path.display()
    );
}

fn golden(name: &str) -> PathBuf {
    Path::new("tests/fixtures/protocol").join(format!("{name}.json"))
}

fn pretty(line: &[u8]) -> String {
    let value: Value = serde_json::from_slice(line).unwrap();
    format!("{}\n", serde_json::to_string_pretty(&value).unwrap())
}

fn file_name(direction: Direction, name: &str) -> String {
    let name = name.replace('/', "-");
    match direction {
        Direction::Call => name,
        Direction::Notice | Direction::ClientNotice => format!("notice-{name}"),
        Direction::CoreCall => format!("core-{name}"),
    }
}

/// Every golden file: name, text.
fn files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut call = |name: &str, call: Vec<u8>, reply: Vec<u8>| {
        let name = file_name(Direction::Call, name);
        files.push((name.clone(), pretty(&call)));
        files.push((format!("{name}.reply"), pretty(&reply)));
    };
    let id = RpcId::Number(1);
    let hello = Initialize {
        role: Role::Viewer,
        versions: [1, 1],
        client: Program {
            name: "pi-agents".into(),
            version: "0.1.0".into(),
        },
        host: None,
    };
    let welcome = Initialized {
        version: 1,
        core: core_view(),
        host: None,
    };
    call(
        method::INITIALIZE,
        rpc::call(1, method::INITIALIZE, &hello).unwrap(),
        rpc::result(&id, &welcome).unwrap(),
    );
    call(
        method::SUBSCRIBE,
        rpc::call(1, method::SUBSCRIBE, &Nothing {}).unwrap(),
        rpc::result(&id, &Nothing {}).unwrap(),
    );
    for (request, reply) in samples::requests() {
        let (name, params) = protocol::call_of(request).unwrap();
        call(
            name,
            rpc::call(1, name, &params).unwrap(),
            rpc::result(&id, &reply).unwrap(),
        );
    }
    for update in samples::updates() {
        let line = protocol::line_of(&update).unwrap();
        let Ok(Message::Notice { method, .. }) = rpc::parse(&line) else {
            panic!("news are notices");
        };
        files.push((file_name(Direction::Notice, &method), pretty(&line)));
    }
    let closing = Closing {
        reason: "the core ends".into(),
    };
    files.push((
        file_name(Direction::Notice, method::CLOSING),
        pretty(&rpc::notice(method::CLOSING, &closing).unwrap()),
    ));
    let error = RpcError::from(samples::refusal());
    files.push((
        "error".into(),
        pretty(&rpc::error(Some(&id), &error).unwrap()),
    ));
    files
}

#[test]
fn messages_look_as_in_the_golden_files() {
    let files = files();
    for (name, text) in &files {
        compare(&golden(name), text);
    }
    // Each method of the reference has its example, and there is no file of something else.
    let have: BTreeSet<String> = files.into_iter().map(|(name, _)| name).collect();
    let mut want: BTreeSet<String> = ["error".to_owned()].into();
    for m in METHODS {
        let name = file_name(m.direction, m.name);
        if m.direction == Direction::Call {
            want.insert(format!("{name}.reply"));
        }
        want.insert(name);
    }
    assert_eq!(have, want);
    let on_disk: BTreeSet<String> = std::fs::read_dir(root().join("tests/fixtures/protocol"))
        .unwrap()
        .map(|f| {
            let name = f.unwrap().file_name().into_string().unwrap();
            name.trim_end_matches(".json").to_owned()
        })
        .collect();
    assert_eq!(on_disk, want);
}

/// The files of an older version must be understood as what they meant: read back, not written.
#[test]
fn golden_files_are_understood() {
    let read = |name: &str| {
        let text = std::fs::read(root().join(golden(name))).unwrap();
        rpc::parse(&text).unwrap()
    };
    for (request, reply) in samples::requests() {
        let (name, _) = protocol::call_of(request.clone()).unwrap();
        let file = file_name(Direction::Call, name);
        let Message::Call { method, params, .. } = read(&file) else {
            panic!("{file} is no call");
        };
        assert_eq!(
            protocol::request_of(&method, params.as_deref()),
            Ok(request)
        );
        let Message::Answer {
            outcome: Ok(result),
            ..
        } = read(&format!("{file}.reply"))
        else {
            panic!("{file}.reply is no answer");
        };
        assert_eq!(protocol::reply_of(result.as_deref()), Ok(reply));
    }
    for update in samples::updates() {
        let file = match &update {
            Update::Snapshot(_) => "notice-fleet-snapshot",
            Update::Delta(_) => "notice-fleet-delta",
            Update::Transcript { .. } => "notice-agent-transcript",
        };
        let Message::Notice { method, params } = read(file) else {
            panic!("{file} is no notice");
        };
        assert_eq!(
            protocol::update_of(&method, params.as_deref()),
            Ok(Some(update))
        );
    }
    let Message::Answer {
        outcome: Err(error),
        ..
    } = read("error")
    else {
        panic!("no error");
    };
    assert_eq!(error.into_refusal(), samples::refusal());
}

#[test]
fn the_reference_of_the_protocol_is_up_to_date() {
    let files = files();
    let example = |name: &str| {
        &files
            .iter()
            .find(|(file, _)| file == name)
            .unwrap_or_else(|| panic!("no example {name}"))
            .1
    };
    let mut page = format!(
        "# Control protocol, version {NEWEST_VERSION}\n\n\
         <!-- Generated by tests/control/generated.rs from src/control/protocol.rs; `UPDATE_GENERATED=1 cargo test --test it control::` writes it again. -->\n\n\
         JSON-RPC 2.0, one object per line ended by LF, over the Unix socket of a core. A line has at most\n\
         16 MiB. Lists of messages are not taken. Fields are only ever added: ignore those you do not know.\n\
         Answers may come in another order than the calls. Paths and variables that are not UTF-8 are\n\
         written as `{{\"bytes\": [255, 65]}}`.\n\n\
         ## Errors\n\n\
         `error.data` carries the refusal: `code` says what can be done about it, `message` is one line,\n\
         `hint` the way out.\n\n\
         | number | meaning |\n|---|---|\n"
    );
    for (code, meaning) in [
        (rpc::PARSE_ERROR, "the line is not JSON"),
        (rpc::INVALID_REQUEST, "the line is no message, or too long"),
        (rpc::METHOD_NOT_FOUND, "no such method (a newer client)"),
        (rpc::INVALID_PARAMS, "an argument is wrong"),
        (rpc::INTERNAL, "a fault in the core"),
        (
            rpc::OVERLOAD,
            "too many requests at once: wait for answers first",
        ),
        (
            rpc::NOT_INITIALIZED,
            "`initialize` must come first, and once",
        ),
        (rpc::VERSION, "no version in common"),
    ] {
        let _ = writeln!(page, "| {code} | {meaning} |");
    }
    let _ = writeln!(
        page,
        "| -32010 … -32015 | the request was refused: see `data.code` |\n\n```json\n{}```",
        example("error")
    );
    for (direction, title) in [
        (Direction::Call, "Calls, client to core"),
        (Direction::Notice, "Notices, core to client"),
    ] {
        let _ = writeln!(page, "\n## {title}");
        for m in METHODS.iter().filter(|m| m.direction == direction) {
            let name = file_name(direction, m.name);
            let _ = write!(
                page,
                "\n### `{}`\n\n{}\n\n```json\n{}```\n",
                m.name,
                m.doc,
                example(&name)
            );
            if direction == Direction::Call {
                let _ = write!(
                    page,
                    "\n```json\n{}```\n",
                    example(&format!("{name}.reply"))
                );
            }
        }
    }
    compare(Path::new("docs/control-protocol.md"), &page);
}

#[test]
fn the_table_of_variables_is_up_to_date() {
    compare(Path::new("docs/environment.md"), &env::reference());
}

/// Only here so that a new reply needs an example: the compiler asks for it.
#[allow(dead_code)]
fn every_reply_has_an_example(reply: &Reply) {
    match reply {
        Reply::Spawned { .. }
        | Reply::Sent { .. }
        | Reply::Stopped { .. }
        | Reply::Aborted { .. }
        | Reply::Explained { .. }
        | Reply::Done
        | Reply::Snapshot { .. } => {}
        // The result of a tool call: no client request is answered with it.
        Reply::Finished { .. } => {}
    }
}
