//! What a session is told of a foreground call that waits.

use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::roster::{AgentView, RetryView, Subtree, UsageTotals};
use pi_agents::tools::progress::{
    Moment, Progress, TAIL_BYTES, TAIL_LINES, TEXT_BYTES, TEXT_LINES, counters, status,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::tui::sample::{agent, dialog};

fn running(activity: Option<&str>) -> AgentView {
    AgentView {
        activity: activity.map(str::to_owned),
        usage: UsageTotals {
            input: 1000,
            output: 250,
            cost: 0.5,
            ..UsageTotals::default()
        },
        session_path: Some("/s/a.jsonl".into()),
        ..agent("max", "Check CI configuration", Status::Running)
    }
}

fn of(agent: &AgentView, reply: &str) -> Progress {
    told(agent, reply, Subtree::default())
}

fn told(agent: &AgentView, reply: &str, below: Subtree) -> Progress {
    Progress::of(&Moment {
        call: "call_1",
        agent,
        below,
        reply,
    })
}

#[test]
fn it_says_what_the_agent_does_and_what_it_has_cost() {
    // R-TOOL-19: operation, elapsed, usage, tail, the id of the call
    let progress = of(
        &running(Some("bash: npm test")),
        "I will run the tests first.",
    );
    assert_eq!(
        progress.content,
        "@max running · bash: npm test\nI will run the tests first."
    );
    assert_eq!(
        progress.details(12_300, 1_796_040_200_000),
        json!({
            "agent_id": "max",
            "label": "Check CI configuration",
            "call": "call_1",
            "status": "running",
            "operation": "bash: npm test",
            "model": "anthropic/sonnet",
            "thinking": "high",
            "tail": "I will run the tests first.",
            "tail_cut": false,
            "tool_uses": 3,
            "usage": {"input": 1000, "output": 250, "cache_read": 0, "cache_write": 0, "cost": 0.5},
            "session_path": "/s/a.jsonl",
            "elapsed_ms": 12_300,
            "since_ms": 1_796_040_200_000_i64,
        })
    );
}

#[test]
fn every_state_has_its_word() {
    // R-TOOL-19, screens.md §1
    let words = |change: &dyn Fn(&mut AgentView)| {
        let mut view = running(None);
        change(&mut view);
        (status(&view), of(&view, "").content)
    };
    let text = |text: &str| text.to_owned();
    assert_eq!(
        words(&|a| a.status = Status::Queued),
        ("queued", text("@max queued"))
    );
    assert_eq!(
        words(&|a| a.status = Status::Starting),
        ("starting", text("@max starting"))
    );
    assert_eq!(words(&|_| ()), ("running", text("@max running · working…")));
    assert_eq!(
        words(&|a| a.dialogs.push(dialog("Allow rm -rf build/?"))),
        ("asks", text("@max asks · Allow rm -rf build/?"))
    );
    let retrying = |a: &mut AgentView| {
        a.activity = Some("retrying 2/3".into());
        a.retry = Some(RetryView {
            attempt: 2,
            max: 3,
            delay_ms: 4000,
            since_ms: 0,
            error: "429".into(),
        });
    };
    assert_eq!(words(&retrying), ("retrying", text("@max retrying · 2/3")));
    assert_eq!(
        words(&|a| a.closing = true),
        ("stopping", text("@max stopping"))
    );
    let by = StopCause::You;
    for (state, word) in [
        (Status::Idle, "idle"),
        (Status::Completed, "completed"),
        (Status::Stopped { by }, "stopped"),
        (Status::Failed { reason: "x".into() }, "failed"),
    ] {
        assert_eq!(words(&|a| a.status = state.clone()).0, word);
    }
}

#[test]
fn time_alone_is_nothing_new() {
    // R-TOOL-19: nothing is sent when nothing changed
    let a = of(&running(Some("bash: ls")), "text");
    let later = AgentView {
        rev: 99,
        since_ms: 0,
        ..running(Some("bash: ls"))
    };
    assert_eq!(a, of(&later, "text"));
    assert_ne!(a, of(&running(Some("bash: pwd")), "text"));
    assert_ne!(a, of(&running(Some("bash: ls")), "text more"));
    let used = AgentView {
        tool_uses: 4,
        ..running(Some("bash: ls"))
    };
    assert_ne!(a, of(&used, "text"));
}

#[test]
fn the_reply_is_not_said_twice() {
    // The line of the row is the beginning of the reply while that is being written.
    let text = of(&running(Some("There are 42 fil…")), "There are 42 files.");
    assert_eq!(text.content, "@max running\nThere are 42 files.");
    assert_eq!(text.operation.as_deref(), Some("There are 42 fil…"));
}

#[test]
fn only_the_end_of_a_long_reply_is_told() {
    // R-TOOL-19: bounded in lines and in bytes
    let reply: String = (1..=200).map(|n| format!("line {n}\n")).collect();
    let progress = of(&running(Some("bash: ls")), &reply);
    let lines: Vec<&str> = progress.tail.lines().collect();
    assert_eq!(lines.len(), TAIL_LINES);
    assert_eq!((lines[0], *lines.last().unwrap()), ("line 181", "line 200"));
    assert!(progress.tail_cut);
    let shown: Vec<&str> = progress.content.lines().collect();
    assert_eq!(shown.len(), 1 + TEXT_LINES);
    assert_eq!((shown[1], shown[5]), ("line 196", "line 200"));
    let one = of(&running(None), &"ä".repeat(1_000_000));
    assert!(one.tail.len() <= TAIL_BYTES && one.tail.len() > TAIL_BYTES - 2);
    assert!(one.tail_cut);
    // Exactly as much as fits is not cut.
    let lines = vec!["x"; TAIL_LINES].join("\n");
    assert!(!of(&running(None), &lines).tail_cut);
    assert!(of(&running(None), &format!("{lines}\nx")).tail_cut);
    assert_eq!(of(&running(None), "  \n\n").tail, "");
}

#[test]
fn nothing_of_the_child_can_act_on_the_terminal() {
    // R-TUI-10
    let mut view = running(Some("bash: \u{1b}]52;c;aGk=\u{7}rm\n-rf"));
    view.spec.label = "a\u{1b}[2Jb\nc".into();
    view.model = Some(format!("\u{202e}{}", "m".repeat(100_000)));
    let progress = of(&view, "\u{1b}[31mred\u{1b}[0m\u{7}");
    assert_eq!(progress.operation.as_deref(), Some("bash: rm -rf"));
    assert_eq!(progress.label, "ab c");
    assert_eq!(progress.tail, "red");
    assert!(progress.model.as_ref().is_some_and(|m| m.len() < 200));
}

#[test]
fn the_agents_below_are_counted_without_the_agent_itself() {
    // R-ID-05, R-TOOL-19
    let below = Subtree {
        agents: 5,
        working: 1,
        idle: 1,
        done: 1,
        failed: 1,
        stopped: 1,
        ..Subtree::default()
    };
    assert_eq!(
        counters(&below),
        ["done 2/5", "1 running", "1 failed", "1 stopped"]
    );
    let progress = told(&running(Some("agent_spawn: x")), "", below);
    assert_eq!(
        progress.content,
        "@max running · agent_spawn: x · done 2/5 · 1 running · 1 failed · 1 stopped"
    );
    let details = progress.details(0, 0);
    assert_eq!(details["below"]["agents"], 5);
    let alone = of(&running(None), "").details(0, 0);
    assert_eq!(alone["below"], Value::Null);
}

proptest! {
    #[test]
    fn whatever_comes_it_is_bounded_and_clean(
        reply in "(\\PC|\u{1b}|\\[|\n|\r|\u{7}|\u{2028}){0,200}",
        doing in "\\PC{0,400}",
        times in 1_usize..100,
    ) {
        let reply = reply.repeat(times);
        let progress = of(&running(Some(&doing)), &reply);
        let control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        prop_assert!(!progress.tail.contains(control) && !progress.content.contains(control));
        prop_assert!(progress.tail.len() <= TAIL_BYTES);
        prop_assert!(progress.tail.lines().count() <= TAIL_LINES);
        prop_assert!(progress.content.lines().count() <= TEXT_LINES + 1);
        prop_assert!(progress.content.len() <= TEXT_BYTES + 1000);
        // Shown lines are the last of the reply, so far as they are whole.
        if let Some(last) = progress.tail.lines().last() {
            let clean = pi_agents::fleet::plain::plain(reply.trim_end()).into_owned();
            let whole = clean.trim_end_matches('\n').lines().last().unwrap_or_default();
            prop_assert!(whole.ends_with(last) || last.len() >= TAIL_BYTES - 4 || progress.tail_cut);
        }
    }
}
