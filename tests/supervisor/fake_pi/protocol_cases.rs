//! Whole kinds of the cases between a child's pipes and the row: what it writes, when it asks, and
//! what it does not read.

use std::time::Duration;

use pi_agents::client::{AgentRef, ErrorCode, Reply, Request};
use pi_agents::fleet::agent::Status;
use pi_agents::fleet::roster::DialogAnswer;
use pi_agents::fleet::transcript::{EntryKind, Level, Outcome};
use serde_json::Value;

use super::{
    FAST_LADDER, agents_alive, case, is_failed, notices, pids, reason, wait_idle, wait_run_ends,
};
use crate::support::core::Core;
use crate::support::fake::FakePi;
use crate::support::wait;

const COMPLETED: Outcome = Outcome::Completed { cut: false };
const SEPARATORS: &str = "first\u{2028}second\u{2029}third\u{85}fourth";

#[test]
fn separators_in_records_lose_nothing_and_end_nothing() {
    // B001, R-Q-01
    for options in ["", "--chunk 1", "--chunk 3"] {
        let pi = FakePi::new()
            .options(options)
            .replay_lines(case("B001-u2028-u2029.rpc.jsonl").as_bytes());
        let core = Core::start(&pi);
        let name = core.spawn("go");
        wait_idle(&core, &name, 1);
        assert_eq!(core.texts(&name), [format!("{SEPARATORS} done")]);
        let outputs: Vec<String> = core
            .entries(&name)
            .into_iter()
            .filter_map(|e| match e.kind {
                EntryKind::Tool(tool) => Some(tool.output),
                _ => None,
            })
            .collect();
        assert_eq!(outputs, ["alpha\u{2028}beta\u{2029}gamma"], "{options}");
        assert_eq!(wait_run_ends(&core, &name, 1), [COMPLETED], "{options}");
        assert!(notices(&core, &name, Level::Warning).is_empty());
    }
}

#[test]
fn separators_in_messages_reach_the_child_as_one_line() {
    // B001: the other way round
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let text = format!("{SEPARATORS}\nfifth\r\nsixth\rend");
    let mut request = core.spawn_request(&text);
    request.label = Some(format!("label {SEPARATORS}"));
    let name = core.spawn_as(request);
    wait_idle(&core, &name, 1);
    core.send(&name, &text);
    wait_idle(&core, &name, 2);
    let prompts = pi.commands("prompt");
    assert!(prompts.iter().all(|p| p["message"] == text.as_str()));
    assert_eq!(prompts.len(), 2);
    assert!(pi.events("bad command").is_empty());
}

/// The note about lines that were no records.
fn skipped(core: &Core, name: &str) -> String {
    let notes = notices(core, name, Level::Warning);
    assert_eq!(notes.len(), 1, "{notes:?}");
    notes[0].clone()
}

#[test]
fn chatter_is_counted_wherever_it_comes() {
    // B003: the recording has 8 lines that are no records, and a blank one
    for options in ["", "--chunk 1", "--chunk 7"] {
        let pi = FakePi::new()
            .options(options)
            .replay_lines(case("B003-stdout-chatter.rpc.txt").as_bytes());
        let core = Core::start(&pi);
        let name = core.spawn("go");
        wait_idle(&core, &name, 1);
        let note = skipped(&core, &name);
        assert!(note.starts_with("8 lines"), "{options}: {note}");
        assert_eq!(core.texts(&name), ["clean answer after chatter"]);
    }
    // In the middle of a run, between runs and after the last one it is the same note.
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("fake:junk added 265 packages ;; say one");
    wait_idle(&core, &name, 1);
    assert!(skipped(&core, &name).starts_with("1 line of"));
    core.send(
        &name,
        "fake:junk null ;; junk \u{1b}[31m{\"type\": ;; say two",
    );
    wait_idle(&core, &name, 2);
    let note = skipped(&core, &name);
    assert!(note.starts_with("3 lines") && note.is_ascii(), "{note}");
    assert_eq!(core.texts(&name), ["one", "two"]);
}

#[test]
fn a_flood_of_chatter_is_one_note() {
    // B003: bounded
    let mut recording = String::new();
    for i in 0..20_000 {
        recording.push_str(&format!("npm http fetch GET 200 package-{i} {i}ms\n"));
    }
    recording.push_str(&case("B003-stdout-chatter.rpc.txt"));
    let pi = FakePi::new().replay_lines(recording.as_bytes());
    let core = Core::start(&pi);
    let name = core.spawn("go");
    wait_idle(&core, &name, 1);
    let note = skipped(&core, &name);
    assert!(
        note.starts_with("20008 lines") && note.len() < 200,
        "{note}"
    );
    assert!(core.entries(&name).len() < 10);
}

#[test]
fn characters_cut_by_the_pipe_are_whole_at_every_size() {
    // B007
    let recording = case("B007-utf8-split.rpc.jsonl");
    let whole = recording
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|v| v["assistantMessageEvent"]["type"] == "text_end")
        .map(|v| {
            v["assistantMessageEvent"]["content"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .unwrap();
    for chunk in [1, 2, 3, 4095, 65536] {
        let pi = FakePi::new()
            .options(&format!("--chunk {chunk}"))
            .replay_lines(recording.as_bytes());
        let core = Core::start(&pi);
        let name = core.spawn("go");
        wait_idle(&core, &name, 1);
        assert!(core.texts(&name)[0] == whole, "chunks of {chunk}");
    }
}

#[test]
fn last_words_are_cut_at_a_character() {
    // B007: the bound of a line of stderr falls into every byte of a character
    for (ahead, letter) in [
        ("", "界"),
        ("a", "界"),
        ("ab", "界"),
        ("", "é"),
        ("a", "é"),
        ("abc", "😀"),
    ] {
        let line = format!("Error: {ahead}{}", letter.repeat(3000));
        let recording = format!(
            "{{\"type\":\"_replay\",\"do\":\"stderr\",\"text\":\"{line}\\n\"}}\n\
             {{\"type\":\"_replay\",\"do\":\"exit\",\"code\":3}}\n"
        );
        let pi = FakePi::new().replay_lines(recording.as_bytes());
        let core = Core::start(&pi);
        let error = core
            .ask(Request::Spawn(core.spawn_request("go")))
            .unwrap_err();
        assert!(error.message.contains(letter), "{error}");
        assert!(!error.message.contains('\u{fffd}'), "{error}");
    }
}

#[test]
fn a_message_is_a_prompt_that_steers_whatever_the_agent_does() {
    // B010, R-PI-07
    for options in ["", "--old", "--preflight 50"] {
        let pi = FakePi::new().options(options);
        let core = Core::start(&pi);
        let spawned = core.ask(Request::Spawn(core.spawn_request("task")));
        if options == "--old" {
            // A Pi that does not say what became of a prompt is refused, not believed (R-LIFE-03).
            assert_eq!(spawned.unwrap_err().code, ErrorCode::StartFailed);
            continue;
        }
        let Ok(Reply::Spawned { name, .. }) = spawned else {
            panic!("not started")
        };
        core.watch_all();
        wait_idle(&core, &name, 1);
        core.send(&name, "to an idle one");
        wait_idle(&core, &name, 2);
        core.send(&name, "fake:hang");
        core.wait_agent(&name, "running", |a| a.status == Status::Running);
        core.send(&name, "to a running one");
        core.stop(&name);
        core.send(&name, "to a stopped one");
        core.wait_agent(&name, "idle again", |a| a.status == Status::Idle);
        for bare in ["steer", "follow_up"] {
            assert!(pi.commands(bare).is_empty(), "{bare}");
        }
        let prompts = pi.commands("prompt");
        assert_eq!(prompts.len(), 5, "{prompts:#?}");
        assert!(prompts.iter().all(|p| p["streamingBehavior"] == "steer"));
    }
}

/// Processor time of a process so far, in clock ticks.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_child_that_closed_its_stdin_fails_alone_and_comes_back() {
    // B012: two commands are read; a short and a long message meet the broken pipe
    for text in ["hello".to_owned(), "x".repeat(3_000_000)] {
        let pi = FakePi::new();
        let core = Core::start_with(&pi, FAST_LADDER);
        let mut request = core.spawn_request("task");
        request.env.push(super::environment::var(
            "FAKE_PI_OPTS",
            "--read-lines 2 --ignore-eof",
        ));
        let name = core.spawn_as(request);
        let other = core.spawn("task");
        wait_idle(&core, &name, 1);
        wait_idle(&core, &other, 1);
        pi.wait_events("stdin closed", 1);
        let error = core.ask(core.send_request(&name, &text)).unwrap_err();
        assert_eq!(error.code, ErrorCode::Gone);
        let row = core.wait_agent(&name, "failed and gone", |a| {
            is_failed(a) && a.pid.is_none()
        });
        assert!(reason(&row).contains("takes no more input"), "{row:?}");
        // Nothing spins, and the other is well.
        let before = ticks(core.pid);
        wait::stays("nothing happens", Duration::from_millis(500), || {
            core.agent(&other).status == Status::Idle
        });
        assert!(ticks(core.pid) - before < 25, "a core at rest");
        core.send(&other, "still there?");
        wait_idle(&core, &other, 2);
        core.send(&name, "back");
        wait_idle(&core, &name, 2);
    }
}

#[test]
fn a_message_that_meets_the_death_of_its_child_is_answered_once() {
    // B012: the child is killed just before, at, or just after the write
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let other = core.spawn("fake:hang");
    let name = core.spawn("task");
    let mut runs = 1;
    wait_idle(&core, &name, runs);
    for round in 0_u64..12 {
        let pid = core
            .wait_agent(&name, "a process", |a| a.pid.is_some())
            .pid
            .unwrap();
        let message = core.send_request(&name, &format!("round {round}"));
        let sending = if round % 2 == 0 {
            crate::support::processes::signal(pid, rustix::process::Signal::KILL);
            core.ask_later(message)
        } else {
            let sending = core.ask_later(message);
            std::thread::sleep(Duration::from_micros(round * 200));
            crate::support::processes::signal(pid, rustix::process::Signal::KILL);
            sending
        };
        let answer = core.fetch(sending);
        if let Err(error) = &answer {
            assert_eq!(error.code, ErrorCode::Gone, "{error}");
        }
        // Whatever became of it, the next one revives the agent, and nothing is sent twice.
        core.wait_agent(&name, "the killed one is gone", |a| a.pid != Some(pid));
        core.send(&name, &format!("after {round}"));
        let row = core.wait_agent(&name, "idle", |a| {
            a.status == Status::Idle && a.pending.is_empty()
        });
        runs = row.runs_ended;
    }
    assert!(runs >= 13);
    assert_eq!(core.agent(&other).status, Status::Running);
    let prompts = pi.commands("prompt");
    for round in 0..12 {
        let wanted = format!("round {round}");
        let times = prompts.iter().filter(|p| p["message"] == *wanted).count();
        assert!(times <= 1, "{wanted}: {times}");
    }
    assert_eq!(agents_alive(&pi).len(), 2);
}

const MANUAL: &str = r#"{"type":"_replay","do":"manual_responses"}"#;
const STATE: &str = r#"{"id":"$1","type":"response","command":"get_state","success":true,"data":{"isStreaming":false,"isCompacting":false,"sessionId":"s","messageCount":0,"pendingMessageCount":0,"thinkingLevel":"off"}}"#;

fn answered(command: u8, disposition: &str) -> String {
    format!(
        r#"{{"id":"${command}","type":"response","command":"prompt","success":true,"data":{{"disposition":"{disposition}"}}}}"#
    )
}

fn run(text: &str) -> String {
    format!(
        r#"{{"type":"agent_start"}}
{{"type":"message_end","message":{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}],"stopReason":"stop"}}}}
{{"type":"agent_end","messages":[],"willRetry":false}}
{{"type":"agent_settled","aborted":false}}"#
    )
}

fn asks(id: &str) -> String {
    format!(
        r#"{{"type":"extension_ui_request","id":"{id}","method":"confirm","title":"Deploy?","message":"now"}}
{{"type":"_replay","do":"wait_ui","id":"{id}"}}"#
    )
}

fn yes(core: &Core, name: &str, dialog: &str) -> Request {
    core.wait_agent(name, &format!("dialog {dialog} is open"), |a| {
        a.dialogs.iter().any(|d| d.id == dialog)
    });
    Request::Answer {
        agent: AgentRef::Name(name.to_owned()),
        dialog: dialog.to_owned(),
        answer: DialogAnswer::Confirmed(true),
    }
}

#[test]
fn a_command_that_asks_an_idle_agent_can_be_answered() {
    // B014: its prompt is held by the dialog, another message waits behind it, and the row is
    // published anew all the while
    let lines = [
        MANUAL.to_owned(),
        STATE.to_owned(),
        answered(2, "started"),
        run("one"),
        r#"{"type":"_replay","do":"wait","command":"prompt"}"#.to_owned(),
        // A person's command is looked up before it is sent.
        r#"{"type":"_replay","do":"wait","command":"get_commands"}"#.to_owned(),
        r#"{"id":"$3","type":"response","command":"get_commands","success":true,"data":{"commands":[{"name":"deploy","source":"extension"}]}}"#.to_owned(),
        r#"{"type":"_replay","do":"wait","command":"prompt"}"#.to_owned(),
        asks("command"),
        answered(4, "handled"),
        answered(5, "started"),
        run("two"),
        // A timer of an extension asks when nothing runs at all.
        asks("timer"),
    ];
    let pi = FakePi::new().replay_lines((lines.join("\n") + "\n").as_bytes());
    let core = Core::start(&pi);
    let name = core.spawn("task");
    wait_idle(&core, &name, 1);
    let command = core.ask_later(core.send_request(&name, "/deploy"));
    yes(&core, &name, "command");
    let next = core.ask_later(core.send_request(&name, "and then"));
    core.wait_agent(&name, "it waits", |a| a.pending.len() == 2);
    let row = core.agent(&name);
    assert_eq!(row.dialogs.len(), 1, "still open: {row:?}");
    core.ask(yes(&core, &name, "command")).unwrap();
    assert!(core.fetch(command).is_ok() && core.fetch(next).is_ok());
    wait_idle(&core, &name, 2);
    core.ask(yes(&core, &name, "timer")).unwrap();
    core.wait_agent(&name, "nothing is asked any more", |a| a.dialogs.is_empty());
    pi.wait_events("replay ended", 1);
    assert!(pi.events("dialog not answered").is_empty());
    assert_eq!(pi.commands("extension_ui_response").len(), 2);
    assert_eq!(pids(&pi).len(), 1);
}

#[test]
fn a_child_that_asks_before_it_is_ready_can_be_answered() {
    // B014
    let lines = [
        MANUAL.to_owned(),
        asks("start"),
        STATE.to_owned(),
        answered(2, "started"),
        run("one"),
    ];
    let pi = FakePi::new().replay_lines((lines.join("\n") + "\n").as_bytes());
    let core = Core::start(&pi);
    let spawning = core.ask_later(Request::Spawn(core.spawn_request("task")));
    let fleet = core.wait_fleet("it asks", |f| {
        f.agents.first().is_some_and(|a| !a.dialogs.is_empty())
    });
    assert_eq!(fleet.agents[0].status, Status::Starting);
    let name = fleet.agents[0].name.clone();
    core.ask(yes(&core, &name, "start")).unwrap();
    assert!(core.fetch(spawning).is_ok());
    core.watch_all();
    wait_idle(&core, &name, 1);
}

#[test]
fn of_answers_at_once_one_is_sent() {
    // B014
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("fake:ask confirm Really?");
    let row = core.wait_agent(&name, "it asks", |a| a.dialogs.len() == 1);
    let dialog = row.dialogs[0].id.clone();
    let calls: Vec<_> = (0..8)
        .map(|_| core.ask_later(yes(&core, &name, &dialog)))
        .collect();
    let good = calls.into_iter().filter_map(|c| core.fetch(c).ok()).count();
    assert_eq!(good, 1);
    wait_idle(&core, &name, 1);
    assert_eq!(pi.commands("extension_ui_response").len(), 1);
}

#[test]
fn a_dialog_of_a_dead_or_stopped_child_is_gone_and_nothing_is_sent() {
    // B014
    let pi = FakePi::new();
    let core = Core::start(&pi);
    for how in ["stop", "kill", "abort"] {
        let name = core.spawn("fake:ask confirm Really?");
        let row = core.wait_agent(&name, "it asks", |a| a.dialogs.len() == 1);
        match how {
            "stop" => drop(core.stop(&name)),
            "kill" => {
                crate::support::processes::signal(row.pid.unwrap(), rustix::process::Signal::KILL)
            }
            _ => {
                let agent = AgentRef::Name(name.clone());
                core.ask(Request::Abort { agent }).unwrap();
            }
        }
        core.wait_agent(&name, "nothing is asked", |a| {
            a.dialogs.is_empty() && a.runs_ended == 1
        });
        let late = core.ask(Request::Answer {
            agent: AgentRef::Name(name.clone()),
            dialog: row.dialogs[0].id.clone(),
            answer: DialogAnswer::Confirmed(true),
        });
        assert_eq!(late.unwrap_err().code, ErrorCode::NotFound, "{how}");
    }
    assert!(pi.commands("extension_ui_response").is_empty());
}
