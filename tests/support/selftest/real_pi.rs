//! Real Pi with the scripted model, over pipes, no pi-agents in between.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::fake::FakePi;

use crate::support::hermetic_pi::{HermeticPi, MODEL};
use crate::support::model::{Gate, ModelServer, Outcome, Turn};
use crate::support::rpc::{last_answer, message_text};
use crate::support::versions::Version;
use crate::support::wait;

/// R-PI-06: both supported versions start and answer.
fn answers(version: Version) {
    let model = ModelServer::start();
    model.on(
        "greeting",
        [Turn::new()
            .thinking("Somebody says hello.")
            .text("Hello, dear friend.")
            .usage(123, 45)],
    );
    let pi = HermeticPi::new(version, &model);
    let mut rpc = pi.rpc(&["--session-id", "first", "--name", "Greeter"]);
    let state = rpc.request("get_state", json!({}));
    assert_eq!(state["success"], true, "{state}");
    let data = &state["data"];
    assert_eq!(data["model"]["provider"], "scripted");
    assert_eq!(data["model"]["id"], "s1");
    assert_eq!(data["sessionId"], "first");
    assert_eq!(data["sessionName"], "Greeter");
    let file = data["sessionFile"].as_str().unwrap().to_owned();
    assert!(file.starts_with(pi.sandbox.agent_dir().to_str().unwrap()));

    let records = rpc.run("a greeting, please");
    let answer = last_answer(&records);
    assert_eq!(message_text(answer), "Hello, dear friend.");
    assert_eq!(answer["content"][0]["type"], "thinking", "{answer}");
    assert_eq!(answer["stopReason"], "stop");
    assert_eq!(answer["usage"]["input"], 123);
    assert_eq!(answer["usage"]["output"], 45);
    assert!(std::path::Path::new(&file).exists());

    let asked = model.requests();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].first_user_text(), "a greeting, please");
    assert_eq!(asked[0].authorization.as_deref(), Some("Bearer dummy"));
    assert!(asked[0].tools().contains(&"bash".to_owned()));
    assert!(asked[0].system_text().contains("coding"));
    assert_eq!(asked[0].outcome, Outcome::Done);

    rpc.close_stdin();
    assert_eq!(rpc.wait_exit().code(), Some(0));
}

#[test]
fn newest_answers() {
    answers(Version::Newest);
}

#[test]
fn oldest_answers() {
    answers(Version::Oldest);
}

#[test]
fn a_tool_runs_and_its_result_reaches_the_model() {
    let model = ModelServer::start();
    model.on(
        "count",
        [
            Turn::new()
                .text("Let me see.")
                .tool("bash", json!({"command": "echo $((6 * 7)) from $PWD"}))
                .tool("bash", json!({"command": "echo $TZ"})),
            Turn::say("It is 42."),
        ],
    );
    let pi = HermeticPi::new(Version::Newest, &model);
    let mut rpc = pi.rpc(&["--model", MODEL]);
    let records = rpc.run("count something");
    assert_eq!(message_text(last_answer(&records)), "It is 42.");
    let requests = model.requests();
    let results = requests[1].tool_results();
    let here = format!("42 from {}", pi.work().display());
    assert_eq!(results.len(), 2);
    assert!(results[0].contains(&here), "{results:?}");
    assert!(results[1].contains("UTC"), "{results:?}");
}

#[test]
fn a_refused_key_is_an_error_and_not_retried() {
    let model = ModelServer::start();
    model.queue([Turn::error(401, "Incorrect API key provided")]);
    let pi = HermeticPi::new(Version::Newest, &model);
    let mut rpc = pi.rpc(&[]);
    let records = rpc.run("anything");
    let answer = last_answer(&records);
    assert_eq!(answer["stopReason"], "error");
    let message = answer["errorMessage"].as_str().unwrap();
    assert!(message.starts_with("401"), "{message}");
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn a_broken_connection_is_retried() {
    let model = ModelServer::start();
    model.queue([
        Turn::say("Half of it").disconnect(),
        Turn::error(500, "overloaded"),
        Turn::say("All of it."),
    ]);
    let pi = HermeticPi::new(Version::Newest, &model);
    let mut rpc = pi.rpc(&[]);
    let records = rpc.run("anything");
    assert_eq!(message_text(last_answer(&records)), "All of it.");
    let retries = records.iter().filter(|r| r["type"] == "auto_retry_start");
    assert_eq!(retries.count(), 2);
}

#[test]
fn a_request_nobody_scripted_says_so() {
    let model = ModelServer::start();
    let pi = HermeticPi::new(Version::Newest, &model);
    let mut rpc = pi.rpc(&[]);
    let records = rpc.run("who answers this?");
    let error = last_answer(&records)["errorMessage"].as_str().unwrap();
    assert!(error.contains("no scripted answer"), "{error}");
    assert!(error.contains("who answers this?"), "{error}");
}

#[test]
fn a_gate_holds_the_answer_and_an_abort_is_seen() {
    let model = ModelServer::start();
    let gate = Gate::new();
    model.on(
        "alpha",
        [Turn::say("first half, ").gate(&gate).text("second half")],
    );
    model.on(
        "beta",
        [Turn::say("never ends").then(crate::support::model::Step::Hang)],
    );
    let pi = HermeticPi::new(Version::Newest, &model);
    let mut alpha = pi.rpc(&[]);
    let mut beta = pi.rpc(&[]);
    alpha.prompt("alpha");
    beta.prompt("beta");
    gate.wait_arrival("alpha's answer at the gate");
    alpha.wait_record("a first delta", |record| {
        record["assistantMessageEvent"]["type"] == "text_delta"
    });
    let settled = || {
        let records = alpha.records();
        records
            .iter()
            .any(|record| record["type"] == "agent_settled")
    };
    wait::stays("alpha waits", Duration::from_millis(200), || !settled());
    gate.open();
    let records = alpha.wait_settled(0);
    assert_eq!(
        message_text(last_answer(&records)),
        "first half, second half"
    );

    model.wait_first("beta");
    beta.wait_record("a first delta", |record| {
        record["assistantMessageEvent"]["type"] == "text_delta"
    });
    beta.request("abort", json!({}));
    let end = last_answer(&beta.records()).clone();
    assert_eq!(end["stopReason"], "aborted");
    model.wait_request("the connection is closed", |requests| {
        let mut all = requests.iter();
        let beta = all.find(|r| r.first_user_text() == "beta")?;
        (beta.outcome == Outcome::Abandoned).then_some(())
    });
}

#[test]
fn a_session_is_taken_up_again() {
    let model = ModelServer::start();
    model.on("remember", [Turn::say("Noted."), Turn::say("It was blue.")]);
    let pi = HermeticPi::new(Version::Newest, &model);
    let mut first = pi.rpc(&["--session-id", "again"]);
    first.run("remember blue");
    first.close_stdin();
    first.wait_exit();
    let mut second = pi.rpc(&["--session-id", "again"]);
    let records = second.run("which colour?");
    assert_eq!(message_text(last_answer(&records)), "It was blue.");
    assert_eq!(
        model.requests()[1].texts("user"),
        ["remember blue", "which colour?"]
    );
}

/// An object's keys in the order of the text, and those of the objects in it.
struct Keys(Vec<(String, Vec<String>)>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Keys;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    let below = serde_json::from_str(value.get());
                    let below = below.map_or(Vec::new(), |Keys(below)| below);
                    keys.push((key, below.into_iter().map(|(key, _)| key).collect()));
                }
                Ok(Keys(keys))
            }
        }
        from.deserialize_map(InOrder)
    }
}

/// What stands where in a stream: kinds of records in order, and for each kind its fields in order.
/// Values and how a text is cut into deltas do not count.
fn shape(lines: &[Vec<u8>]) -> (Vec<String>, Vec<String>) {
    let mut order: Vec<String> = Vec::new();
    let mut fields: Vec<String> = Vec::new();
    for line in lines {
        let record: Value = serde_json::from_slice(line).unwrap();
        let kind = |value: &Value| value["type"].as_str().unwrap_or_default().to_owned();
        let mut name = kind(&record);
        for part in ["assistantMessageEvent", "command"] {
            if let Some(text) = record[part]["type"].as_str().or(record[part].as_str()) {
                name = format!("{name} {text}");
            }
        }
        if let Some(role) = record["message"]["role"].as_str() {
            name = format!("{name} {role}");
        }
        if order.last() != Some(&name) {
            order.push(name.clone());
        }
        let Keys(keys) = serde_json::from_slice(line).unwrap();
        let below = |wanted: &str| {
            let found = keys.iter().find(|(key, _)| key == wanted);
            found.map_or(String::new(), |(_, below)| format!("({})", below.join(" ")))
        };
        let names: Vec<String> = keys
            .iter()
            .map(|(key, _)| match key.as_str() {
                "message" | "assistantMessageEvent" => format!("{key}{}", below(key)),
                _ => key.clone(),
            })
            .collect();
        let entry = format!("{name}: {}", names.join(" "));
        if !fields.contains(&entry) {
            fields.push(entry);
        }
    }
    fields.sort();
    (order, fields)
}

#[test]
fn the_fake_answers_in_the_same_shape() {
    let model = ModelServer::start();
    model.queue([
        Turn::say("Hello, dear friend."),
        Turn::call("bash", json!({"command": "echo out"})),
        Turn::say("done"),
        Turn::error(401, "no"),
    ]);
    let pi = HermeticPi::new(Version::Newest, &model);
    let fake = FakePi::new();
    let mut real = pi.rpc(&["--name", "Ann", "--session-id", "one"]);
    let mut like = fake.rpc(&["--name", "Ann", "--session-id", "one"]);
    for (rpc, prompts) in [
        (&mut real, ["hello", "a tool", "an error"]),
        (
            &mut like,
            [
                "fake:say Hello, dear friend.",
                "fake:tool echo out",
                "fake:error 401: no",
            ],
        ),
    ] {
        rpc.request("get_state", json!({}));
        for prompt in prompts {
            rpc.run(prompt);
        }
        rpc.request("get_session_stats", json!({}));
        rpc.request("abort", json!({}));
        rpc.request("no_such_command", json!({}));
    }
    let (real_order, real_fields) = shape(&real.lines());
    let (fake_order, fake_fields) = shape(&like.lines());
    // Whether a short command prints before it ends is a matter of time.
    let settled = |order: Vec<String>| -> Vec<String> {
        let kept = order.into_iter();
        kept.filter(|kind| kind != "tool_execution_update")
            .collect()
    };
    pretty_assertions::assert_eq!(settled(fake_order), settled(real_order));
    pretty_assertions::assert_eq!(fake_fields, real_fields);
}
