//! What a child is started with: its command line and its environment.

use pi_agents::client::{EnvText, EnvVar, Reply, Request};
use pi_agents::fleet::agent::{Status, Thinking, ToolChoice};
use serde_json::{Value, json};

use super::wait_idle;
use crate::support::core::Core;
use crate::support::fake::FakePi;

pub(in crate::supervisor) fn var(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: EnvText::Text(name.to_owned()),
        value: EnvText::Text(value.to_owned()),
    }
}

/// The value after an option, from a logged command line.
fn value_of<'a>(argv: &'a Value, option: &str) -> Option<&'a str> {
    let words: Vec<&str> = argv
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w.as_str().unwrap())
        .collect();
    let at = words.iter().position(|w| *w == option)?;
    words.get(at + 1).copied()
}

#[test]
fn a_child_gets_its_own_identity_and_everything_else_unchanged() {
    // B098, R-LIFE-18, R-ID-03
    let pi = FakePi::new().with_env(
        "FAKE_PI_LOG_ENV",
        "EQUALS,EMPTY,UNI,BAD_UTF8,COLUMNS,LINES,NO_COLOR,LC_ALL",
    );
    let core = Core::start(&pi);
    let mut request = core.spawn_request("task");
    for (name, value) in [
        ("PI_SUBAGENT_AGENT_ID", "zoe-of-before"),
        ("PI_SUBAGENT_DEPTH", "3"),
        ("PI_SUBAGENT_MAX_DEPTH", "9"),
        ("PI_SESSION_ID", "stale-parent"),
        ("PI_SESSION_FILE", "/code/old/parent.jsonl"),
        ("PI_AGENTS_SOCKET", "/nonexistent/socket"),
        ("PI_AGENTS_TOKEN", "secret"),
        ("PI_AGENTS_INSTANCE", "someone:else"),
        ("PI_CODING_AGENT", "true"),
        ("AI_AGENT", "pi"),
        ("NODE_OPTIONS", "--require /code/does-not-exist.js"),
        ("TERM", ""),
        ("COLUMNS", "7"),
        ("LINES", "notanumber"),
        ("NO_COLOR", ""),
        ("LC_ALL", "C"),
        ("EMPTY", ""),
        ("EQUALS", "a=b=c"),
        ("UNI", "ünï界"),
    ] {
        request.env.push(var(name, value));
    }
    request.env.push(EnvVar {
        name: EnvText::Text("BAD_UTF8".into()),
        value: EnvText::Bytes {
            bytes: vec![b'x', 0xff, b'y'],
        },
    });
    let name = core.spawn_as(request);
    let env = pi.wait_events("start", 1)[0]["env"].clone();
    assert_eq!(env["PI_SUBAGENT_AGENT_ID"], name.as_str());
    assert_eq!(env["PI_SUBAGENT_DEPTH"], "1");
    assert_eq!(env["PI_SUBAGENT_MAX_DEPTH"], "1");
    assert!(
        env["PI_AGENTS_INSTANCE"]
            .as_str()
            .is_some_and(|v| v != "someone:else")
    );
    // Its own, for its bridge, which takes it out before anything else runs (R-ID-08).
    let token = env["PI_AGENTS_TOKEN"].as_str().unwrap();
    assert_eq!(token.len(), 32);
    for gone in [
        "PI_SESSION_ID",
        "PI_SESSION_FILE",
        "PI_AGENTS_SOCKET",
        "PI_AGENTS_GUARD",
        "COLUMNS",
        "LINES",
    ] {
        assert!(env.get(gone).is_none(), "{gone}: {env:#}");
    }
    for (kept, value) in [
        ("PI_CODING_AGENT", json!("true")),
        ("AI_AGENT", json!("pi")),
        ("NODE_OPTIONS", json!("--require /code/does-not-exist.js")),
        ("TERM", json!("")),
        ("NO_COLOR", json!("")),
        ("LC_ALL", json!("C")),
        ("EMPTY", json!("")),
        ("EQUALS", json!("a=b=c")),
        ("UNI", json!("ünï界")),
        ("BAD_UTF8", json!({"bytes": [b'x', 0xff, b'y']})),
    ] {
        assert_eq!(env[kept], value, "{kept}");
    }
}

#[test]
fn the_environment_is_the_askers_and_not_the_cores() {
    // R-LIFE-18
    let pi = FakePi::new().with_env("FAKE_PI_LOG_ENV", "ONLY_CORE,ONLY_ASKER");
    let core = Core::start_with(&pi, &[("ONLY_CORE", "1")]);
    let mut request = core.spawn_request("task");
    request.env.push(var("ONLY_ASKER", "1"));
    let name = core.spawn_as(request);
    wait_idle(&core, &name, 1);
    let start = &pi.events("start")[0];
    assert!(start["env"].get("ONLY_CORE").is_none());
    assert_eq!(start["env"]["ONLY_ASKER"], "1");
    assert_eq!(start["leads_group"], true, "R-LIFE-01");
    assert_eq!(start["cwd"], pi.work().to_str().unwrap());
}

#[test]
fn every_label_arrives_as_a_name_and_never_as_an_option() {
    // B048, R-LIFE-01
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/render/B048-labels.json");
    let cases: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let labels: Vec<String> = serde_json::from_value(cases["labels"].clone()).unwrap();
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let mut calls = Vec::new();
    for label in labels {
        let mut request = core.spawn_request("the task itself");
        request.label = Some(label.clone());
        calls.push((label, core.ask_later(Request::Spawn(request))));
    }
    let mut started = 0;
    for (label, call) in calls {
        match core.fetch(call) {
            Ok(Reply::Spawned { .. }) => started += 1,
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert!(label.contains('\0'), "{label:?}: {error}"),
        }
    }
    let fleet = core.wait_fleet("all idle", |f| {
        f.agents.len() == started && f.agents.iter().all(|a| a.status == Status::Idle)
    });
    let starts = pi.events("start");
    assert_eq!(starts.len(), started);
    for row in &fleet.agents {
        let label = &row.spec.label;
        assert!(
            !label.contains(['\n', '\t', '\0']) && label.chars().count() <= 80,
            "{label:?}"
        );
        assert!(!label.trim().is_empty(), "a usable row: {label:?}");
        let start = starts
            .iter()
            .find(|s| s["pid"] == row.pid.unwrap())
            .unwrap();
        let argv = &start["argv"];
        assert_eq!(value_of(argv, "--mode"), Some("rpc"), "{argv}");
        let named = value_of(argv, "--name").unwrap();
        assert!(
            !named.is_empty() && named.chars().count() <= 80 && !named.contains('\n'),
            "{named:?}"
        );
        // One of each option: no label became one.
        let count = |option: &str| {
            argv.as_array()
                .unwrap()
                .iter()
                .filter(|w| *w == option)
                .count()
        };
        assert_eq!(count("--session-dir"), 1);
        let dashes = usize::from(named == "--model");
        assert_eq!(count("--model"), dashes, "{argv}");
    }
    let named = |wanted: &str| {
        starts
            .iter()
            .any(|s| value_of(&s["argv"], "--name") == Some(wanted))
    };
    for wanted in [
        "-rf",
        "--model",
        "@parent",
        "../../etc/passwd",
        "line1 line2 tab",
        "the task itself",
    ] {
        assert!(named(wanted), "{wanted:?} is not among the names");
    }
}

#[test]
fn a_label_of_control_characters_still_gives_a_name() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let mut request = core.spawn_request("task");
    request.label = Some("\u{7}\u{1b}".into());
    core.spawn_as(request);
    let argv = pi.wait_events("start", 1)[0]["argv"].clone();
    let named = value_of(&argv, "--name");
    assert_ne!(named, Some(""), "{argv}");
}

#[test]
fn what_was_asked_for_is_on_the_command_line_at_every_start() {
    // R-TOOL-05, R-LIFE-17, R-DELIV-12
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let mut request = core.spawn_request("task");
    request.model = Some("fake/one".into());
    request.thinking = Some(Thinking::Low);
    request.tools = ToolChoice::Only(vec!["read".into(), "bash".into()]);
    let name = core.spawn_as(request);
    let row = wait_idle(&core, &name, 1);
    let saved = row.session_path.unwrap();
    assert!(saved.starts_with(pi.sandbox.data()), "{saved:?}");
    core.stop(&name);
    core.send(&name, "back");
    wait_idle(&core, &name, 2);
    for start in pi.events("start") {
        let argv = &start["argv"];
        assert_eq!(value_of(argv, "--model"), Some("fake/one"));
        assert_eq!(value_of(argv, "--thinking"), Some("low"));
        assert_eq!(value_of(argv, "--tools"), Some("read,bash,agent_send"));
        assert!(
            value_of(argv, "--append-system-prompt")
                .unwrap()
                .contains("final reply")
        );
        assert!(!argv.to_string().contains("--approve"), "R-PI-13");
    }
    assert_eq!(
        value_of(&pi.events("start")[1]["argv"], "--session"),
        saved.to_str()
    );
}

#[test]
fn no_tools_and_a_model_that_does_not_exist() {
    // R-TOOL-05, R-PI-10, R-TOOL-04
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let mut request = core.spawn_request("task");
    request.tools = ToolChoice::Only(Vec::new());
    core.spawn_as(request);
    let argv = pi.wait_events("start", 1)[0]["argv"].clone();
    assert_eq!(value_of(&argv, "--tools"), Some("agent_send"), "{argv}");
    let mut request = core.spawn_request("task");
    request.model = Some("fake/onne".into());
    let error = core.ask(Request::Spawn(request)).unwrap_err();
    assert!(error.message.contains("onne"), "{error}");
    assert_eq!(
        pi.commands("prompt").len(),
        1,
        "the task was not given to another model"
    );
}
