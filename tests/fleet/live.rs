use pi_agents::fleet::live::{Live, tool_line};
use pi_agents::fleet::roster::DialogKind;
use pi_agents::pi::event::{Parser, Record};
use serde_json::Value;

use crate::pi::traces::{case, replay, traces};

/// Feeds a stream and gives the activity after each change.
fn activities(live: &mut Live, bytes: &[u8]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    replay(bytes, 65_536, |record| {
        if live.feed(&record.unwrap(), 1000)
            && let Some(line) = &live.activity
            && all.last() != Some(line)
        {
            all.push(line.clone());
        }
    });
    all
}

fn feed(live: &mut Live, line: &str) -> bool {
    live.feed(&Parser::new().parse(line.as_bytes()).unwrap(), 1000)
}

#[test]
fn the_activity_says_what_is_going_on() {
    let of = |name: &str| activities(&mut Live::new(), &traces()[name]);
    let bash = of("bash_tool");
    assert_eq!(bash[0], "Let me list.");
    assert!(bash.contains(&"bash…".to_owned()), "{bash:#?}");
    assert!(
        bash.iter().any(|l| l.starts_with("bash: echo")),
        "{bash:#?}"
    );
    assert_eq!(bash.last().unwrap(), "The command printed three lines.");
    assert_eq!(of("thinking_text")[0], "thinking…");
    let retried = of("provider_500_forever");
    assert_eq!(retried, ["retrying 1/3", "retrying 2/3", "retrying 3/3"]);
    assert!(of("compact_threshold").contains(&"compacting…".to_owned()));
    // The tool that still runs when another one ends.
    let start = |id: &str, cmd: &str| {
        format!(
            r#"{{"type":"tool_execution_start","toolCallId":"{id}","toolName":"bash","args":{{"command":"{cmd}"}}}}"#
        )
    };
    let mut live = Live::new();
    feed(&mut live, &start("a", "first"));
    feed(&mut live, &start("b", "second"));
    feed(
        &mut live,
        r#"{"type":"tool_execution_end","toolCallId":"b","toolName":"bash","result":{}}"#,
    );
    assert_eq!(live.activity.as_deref(), Some("bash: first"));
    live.run_ended();
    assert_eq!(live.activity, None);
}

#[test]
fn only_the_first_line_of_a_text_is_an_activity() {
    let delta = |text: &str| {
        let delta = serde_json::to_string(text).unwrap();
        format!(
            r#"{{"type":"message_update","assistantMessageEvent":{{"type":"text_delta","contentIndex":0,"delta":{delta}}}}}"#
        )
    };
    let mut live = Live::new();
    assert!(!feed(&mut live, &delta("\n  ")));
    assert!(feed(&mut live, &delta(" Now ")));
    assert!(feed(&mut live, &delta("the plan:\n1. read")));
    assert!(
        !feed(&mut live, &delta(" more\n")),
        "nothing of the row changes any more"
    );
    assert_eq!(live.activity.as_deref(), Some("Now the plan:"));
}

#[test]
fn a_tool_is_named_with_the_argument_that_says_most() {
    for (name, args, want) in [
        (
            "bash",
            r#"{"timeout":5,"command":"npm test\nnpm run x"}"#,
            "bash: npm test",
        ),
        (
            "edit",
            r#"{"edits":[{"a":"b"}],"path":"src/a.rs"}"#,
            "edit: src/a.rs",
        ),
        (
            "mine",
            r#"{"n":{},"what":"this","else":"that"}"#,
            "mine: this",
        ),
        ("none", "{}", "none"),
        ("cut", r#"{"command":"abc"#, "cut"),
        ("list", "[1]", "list"),
        ("empty", "", "empty"),
    ] {
        assert_eq!(tool_line(name, args), want);
    }
    let long = tool_line("bash", &format!(r#"{{"command":"{}"}}"#, "ä".repeat(5000)));
    assert!(long.chars().count() <= 162, "{}", long.chars().count());
}

// Pi's own sums are the judge.
#[test]
fn usage_equals_pis_own_statistics() {
    for name in ["compact_manual", "state_queries"] {
        let mut live = Live::new();
        let mut checked = 0;
        replay(&traces()[name], 65_536, |record| {
            let record = record.unwrap();
            if let Record::Response(r) = &record
                && r.command == "get_session_stats"
            {
                let stats: Value = serde_json::from_str(&r.data).unwrap();
                assert_eq!(
                    live.usage.input,
                    stats["tokens"]["input"].as_u64().unwrap(),
                    "{name}"
                );
                assert_eq!(
                    live.usage.output,
                    stats["tokens"]["output"].as_u64().unwrap()
                );
                let cost = stats["cost"].as_f64().unwrap();
                assert!(
                    (live.usage.cost - cost).abs() < 1e-9,
                    "{} {cost}",
                    live.usage.cost
                );
                if let Some(tokens) = stats["contextUsage"]["tokens"].as_u64().filter(|t| *t > 0) {
                    assert_eq!(live.context.unwrap().tokens, tokens, "{name}");
                }
                checked += 1;
            }
            live.feed(&record, 0);
        });
        assert!(checked > 0, "{name}");
    }
    let mut live = Live::new();
    activities(&mut live, &traces()["simple_text"]);
    assert_eq!(live.context.unwrap().window, 128_000);
    assert_eq!(
        (live.model.as_deref(), live.thinking.as_deref()),
        (Some("scripted/s1"), Some("medium"))
    );
}

// B016
#[test]
fn b016_repetitions_count_once() {
    let mut live = Live::new();
    activities(&mut live, &case("B016"));
    assert_eq!(
        (live.tool_uses, live.usage.input, live.usage.output),
        (1, 100, 20)
    );
}

// B014
#[test]
fn b014_dialogs_open_and_close() {
    let mut live = Live::new();
    let mut parser = Parser::new();
    let mut opened = Vec::new();
    for line in case("B014")
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
    {
        live.feed(&parser.parse(line).unwrap(), 5000);
        for dialog in &live.dialogs {
            if !opened.contains(&dialog.id) {
                opened.push(dialog.id.clone());
            }
        }
        // The person answers what has no time limit.
        let open: Vec<_> = live
            .dialogs
            .iter()
            .filter(|d| d.timeout_ms.is_none())
            .cloned()
            .collect();
        for dialog in open {
            assert!(live.answered(&dialog.id));
            assert!(!live.answered(&dialog.id), "once");
        }
    }
    assert_eq!(opened, ["u2", "u3", "u4", "u5", "u10"]);
    assert_eq!(live.statuses, [("guard".to_owned(), "checking".to_owned())]);
    assert_eq!(live.next_expiry(), Some(5400));
    assert!(!live.expire(5399));
    assert!(live.expire(5400), "the timed one goes by itself");
    assert!(live.dialogs.is_empty() && live.next_expiry().is_none());
}

#[test]
fn dialogs_end_with_the_process_and_a_repeated_request_is_one() {
    let mut live = Live::new();
    let ask = r#"{"type":"extension_ui_request","id":"u","method":"select","title":"T","options":["A","B"]}"#;
    assert!(feed(&mut live, ask));
    assert!(!feed(&mut live, ask));
    let options = vec!["A".to_owned(), "B".to_owned()];
    assert_eq!(live.dialogs[0].kind, DialogKind::Select { options });
    live.run_ended();
    assert_eq!(live.dialogs.len(), 1, "nobody answered it");
    live.process_gone();
    assert!(live.dialogs.is_empty());
}

// R-PI-16
#[test]
fn statuses_come_change_and_go_and_one_is_never_shown() {
    let set = |key: &str, text: Option<&str>| {
        let text = text.map_or(String::new(), |t| format!(r#","statusText":"{t}""#));
        format!(
            r#"{{"type":"extension_ui_request","id":"s","method":"setStatus","statusKey":"{key}"{text}}}"#
        )
    };
    let mut live = Live::new();
    assert!(!feed(&mut live, &set("pi-subagent-msg", Some("secret"))));
    assert!(feed(&mut live, &set("a", Some("1"))));
    assert!(feed(&mut live, &set("b", Some("2"))));
    assert!(!feed(&mut live, &set("a", Some("1"))));
    assert!(feed(&mut live, &set("a", Some("3"))));
    assert_eq!(
        live.statuses,
        [("a".into(), "3".into()), ("b".into(), "2".into())]
    );
    assert!(feed(&mut live, &set("a", None)));
    assert!(!feed(&mut live, &set("a", None)));
    live.process_gone();
    assert!(live.statuses.is_empty());
}

#[test]
fn a_retry_is_shown_until_the_next_attempt() {
    let mut live = Live::new();
    let start = r#"{"type":"auto_retry_start","attempt":2,"maxAttempts":3,"delayMs":4000,"errorMessage":"429: slow\ndown"}"#;
    assert!(feed(&mut live, start));
    let retry = live.retry.clone().unwrap();
    assert_eq!(
        (retry.attempt, retry.max, retry.delay_ms, retry.since_ms),
        (2, 3, 4000, 1000)
    );
    assert_eq!(retry.error, "429: slow");
    assert!(feed(&mut live, r#"{"type":"agent_start"}"#));
    assert_eq!(live.retry, None);
}

// R-Q-01
#[test]
fn a_broken_extension_cannot_fill_the_memory() {
    let mut live = Live::new();
    for i in 0..1000 {
        feed(
            &mut live,
            &format!(
                r#"{{"type":"extension_ui_request","id":"{i}","method":"confirm","title":"T"}}"#
            ),
        );
        feed(
            &mut live,
            &format!(
                r#"{{"type":"extension_ui_request","id":"s","method":"setStatus","statusKey":"{i}","statusText":"x"}}"#
            ),
        );
    }
    assert!(live.dialogs.len() <= 64 && live.statuses.len() <= 64);
}
