//! Whatever can be asked and said survives the way over the wire.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use pi_agents::client::{AgentRef, EnvText, EnvVar, Reply, Request, SpawnRequest, Update};
use pi_agents::control::protocol;
use pi_agents::control::rpc::{self, Message, RpcId};
use pi_agents::fleet::agent::{Thinking, ToolChoice};
use pi_agents::fleet::ids::{AgentId, MessageId};
use pi_agents::fleet::roster::{Badge, CoreView, DialogAnswer, FleetDelta};
use pi_agents::fleet::transcript::{Entry, EntryChange, EntryKind, TranscriptPatch};
use proptest::option;
use proptest::prelude::*;
use uuid::Uuid;

use super::fake_core::agent_view;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        Just("line\u{2028}\r\n\u{0}\u{1b}[31m\"\\ 🙂".to_owned()),
    ]
}

fn path() -> impl Strategy<Value = PathBuf> {
    prop_oneof![
        text().prop_map(PathBuf::from),
        prop::collection::vec(any::<u8>(), 0..20)
            .prop_map(|bytes| PathBuf::from(OsString::from_vec(bytes))),
    ]
}

fn agent_id() -> impl Strategy<Value = AgentId> {
    any::<u128>().prop_map(|n| AgentId(Uuid::from_u128(n)))
}

fn agent_ref() -> impl Strategy<Value = AgentRef> {
    prop_oneof![
        agent_id().prop_map(AgentRef::Id),
        // A name that reads as an id is an id: ids win, names never look like one.
        text()
            .prop_filter("an id", |name| Uuid::parse_str(name).is_err())
            .prop_map(AgentRef::Name),
    ]
}

fn env() -> impl Strategy<Value = Vec<EnvVar>> {
    let word = |bytes: Vec<u8>| match String::from_utf8(bytes) {
        Ok(text) => EnvText::Text(text),
        Err(e) => EnvText::Bytes {
            bytes: e.into_bytes(),
        },
    };
    let bytes = || prop::collection::vec(any::<u8>(), 0..12);
    let var = (bytes(), bytes()).prop_map(move |(name, value)| EnvVar {
        name: word(name),
        value: word(value),
    });
    prop::collection::vec(var, 0..4)
}

fn tools() -> impl Strategy<Value = ToolChoice> {
    prop_oneof![
        Just(ToolChoice::All),
        prop::collection::vec(text(), 0..3).prop_map(ToolChoice::Only),
    ]
}

fn spawn() -> impl Strategy<Value = Request> {
    (
        (text(), option::of(text()), option::of(text())),
        option::of(prop::sample::select(Thinking::ALL.to_vec())),
        tools(),
        option::of(path()),
        option::of(any::<bool>()),
        option::of(any::<u64>()),
        env(),
    )
        .prop_map(
            |((prompt, label, model), thinking, tools, cwd, persistent, timeout_ms, env)| {
                Request::Spawn(SpawnRequest {
                    prompt,
                    label,
                    model,
                    thinking,
                    tools,
                    cwd,
                    persistent,
                    timeout_ms,
                    env,
                })
            },
        )
}

fn answer() -> impl Strategy<Value = DialogAnswer> {
    prop_oneof![
        text().prop_map(DialogAnswer::Value),
        any::<bool>().prop_map(DialogAnswer::Confirmed),
        Just(DialogAnswer::Cancelled),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        spawn(),
        (agent_ref(), text(), env()).prop_map(|(agent, text, env)| Request::Send {
            agent,
            text,
            env
        }),
        (agent_ref(), option::of(text()), env()).prop_map(|(agent, text, env)| Request::Continue {
            agent,
            text,
            env
        }),
        agent_ref().prop_map(|agent| Request::Stop { agent }),
        agent_ref().prop_map(|agent| Request::Abort { agent }),
        (agent_ref(), text(), answer()).prop_map(|(agent, dialog, answer)| Request::Answer {
            agent,
            dialog,
            answer
        }),
        prop::collection::vec(agent_id(), 0..4).prop_map(|agents| Request::Watch { agents }),
        agent_ref().prop_map(|agent| Request::Explain { agent }),
        Just(Request::Resync),
        Just(Request::Snapshot),
        Just(Request::Shutdown),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        (agent_id(), text(), option::of(path())).prop_map(|(agent, name, session_path)| {
            Reply::Spawned {
                agent,
                name,
                session_path,
            }
        }),
        (any::<u128>(), any::<bool>(), any::<bool>()).prop_map(|(id, revived, steered)| {
            Reply::Sent {
                message: MessageId(Uuid::from_u128(id)),
                revived,
                steered,
            }
        }),
        any::<bool>().prop_map(|was_live| Reply::Stopped { was_live }),
        prop::collection::vec(text(), 0..3).prop_map(|returned| Reply::Aborted { returned }),
        Just(Reply::Done),
        Just(Reply::Snapshot {
            fleet: Box::new(super::samples::fleet())
        }),
    ]
}

fn update() -> impl Strategy<Value = Update> {
    let change = prop_oneof![
        (any::<u64>(), any::<usize>(), text()).prop_map(|(seq, from, text)| EntryChange::Append {
            seq,
            from,
            text
        }),
        (any::<u64>(), any::<i64>(), text(), any::<bool>()).prop_map(|(seq, at_ms, text, done)| {
            EntryChange::Put {
                entry: Entry {
                    seq,
                    at_ms,
                    kind: EntryKind::Text { text, done },
                },
            }
        }),
    ];
    prop_oneof![
        Just(Update::Snapshot(Box::new(super::samples::fleet()))),
        (any::<u64>(), any::<u64>(), text(), option::of(path())).prop_map(
            |(since, rev, label, session)| {
                let mut agent = agent_view(3, &label);
                agent.session_path = session;
                Update::Delta(FleetDelta {
                    since,
                    rev,
                    core: None,
                    agents: vec![agent],
                })
            }
        ),
        (
            agent_id(),
            any::<u64>(),
            any::<bool>(),
            prop::collection::vec(change, 0..4)
        )
            .prop_map(|(agent, rev, reset, changes)| Update::Transcript {
                agent,
                patch: TranscriptPatch {
                    since: 0,
                    rev,
                    reset,
                    first_seq: 0,
                    changes
                },
            }),
    ]
}

fn one_line(line: &[u8]) -> Message {
    assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
    assert_eq!(line.last(), Some(&b'\n'));
    rpc::parse(line).unwrap()
}

proptest! {
    #[test]
    fn requests_survive(request in request(), id in any::<i64>()) {
        let (name, params) = protocol::call_of(request.clone()).unwrap();
        let message = one_line(&rpc::call(id, name, &params).unwrap());
        let Message::Call { id: back, method, params } = message else { panic!("no call") };
        prop_assert_eq!(back, RpcId::Number(id));
        prop_assert_eq!(protocol::request_of(&method, params.as_deref()), Ok(request));
    }

    #[test]
    fn replies_survive(reply in reply(), id in text()) {
        let id = RpcId::Text(id);
        let message = one_line(&rpc::result(&id, &reply).unwrap());
        let Message::Answer { id: back, outcome: Ok(result) } = message else { panic!("no answer") };
        prop_assert_eq!(back, Some(id));
        prop_assert_eq!(protocol::reply_of(result.as_deref()), Ok(reply));
    }

    #[test]
    fn news_survive(update in update()) {
        let message = one_line(&protocol::line_of(&update).unwrap());
        let Message::Notice { method, params } = message else { panic!("no notice") };
        prop_assert_eq!(protocol::update_of(&method, params.as_deref()), Ok(Some(update)));
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = rpc::parse(&bytes);
    }
}

#[test]
fn what_is_added_later_is_ignored_and_what_is_optional_may_be_missing() {
    let params = serde_json::value::RawValue::from_string(
        r#"{"prompt":"p","colour":"red","tools":{"choice":"all","x":1}}"#.into(),
    )
    .unwrap();
    let Ok(Request::Spawn(spawn)) = protocol::request_of("agent/spawn", Some(&params)) else {
        panic!("not understood");
    };
    assert_eq!(spawn.prompt, "p");
    assert_eq!(spawn.tools, ToolChoice::All);
    assert_eq!(protocol::update_of("fleet/weather", None), Ok(None));
}

#[test]
fn a_warning_that_only_a_newer_core_knows_is_left_out() {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/protocol");
    let text = std::fs::read_to_string(fixtures.join("initialize.reply.json")).unwrap();
    let mut reply: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut core = reply["result"]["core"].take();
    assert!(core["badges"].is_array(), "{core:#}");
    core["badges"] = serde_json::json!(["not_saved", "of_tomorrow", {"x": 1}, "unreadable"]);
    let core: CoreView = serde_json::from_value(core).unwrap();
    assert_eq!(core.badges, [Badge::NotSaved, Badge::Unreadable]);
}
