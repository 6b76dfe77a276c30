//! Whole kinds of the cases about births, ends and deaths, with processes.

use std::time::{Duration, Instant};

use pi_agents::client::{AgentRef, ErrorCode, FleetClient, Reply, Request, Update};
use pi_agents::control::client::connect;
use pi_agents::control::protocol::Role;
use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::ids::AgentId;
use pi_agents::fleet::transcript::{EntryKind, Outcome, TranscriptLog};
use rustix::process::Signal;

use super::{
    FAST_LADDER, agents_alive, case, find_file, is_failed, pids, reason, stopped_by_you, wait_idle,
    wait_run_ends,
};
use crate::support::core::{Core, PROGRAM};
use crate::support::fake::FakePi;
use crate::support::{processes, wait};

/// What the ladder and the sweep may take together; a machine with more to do than processors is given longer.
const BOUND: Duration = Duration::from_secs(5);

#[track_caller]
fn within_bound(began: Instant, what: &str) {
    let took = began.elapsed();
    assert!(took < BOUND || wait::crowded(), "{what}: {took:?}");
}

fn by_id(id: AgentId) -> AgentRef {
    AgentRef::Id(id)
}

/// Two agents at work, one of them in a tool, and three idle ones.
fn five(core: &Core) -> Vec<String> {
    let mut names = vec![core.spawn("fake:hang"), core.spawn("fake:tool sleep 300")];
    names.extend((0..3).map(|_| core.spawn("task")));
    for name in &names[..2] {
        core.wait_agent(name, "running", |a| a.status == Status::Running);
    }
    for name in &names[2..] {
        wait_idle(core, name, 1);
    }
    core.wait_entries(&names[1], "its tool runs", |e| {
        e.iter()
            .any(|e| matches!(e.kind, EntryKind::Tool(_)))
            .then_some(())
    });
    names
}

#[test]
fn a_core_that_is_told_to_end_leaves_no_process_and_every_session() {
    // B019, R-LIFE-08, R-LIFE-19: what Ctrl+C or a shutdown of the machine sends ends all of it; a
    // lost terminal ends nothing and orphans nobody
    for (to_guard, signal) in [
        (false, Signal::INT),
        (false, Signal::TERM),
        (true, Signal::INT),
        (true, Signal::TERM),
    ] {
        let what = format!("{signal:?}, guard: {to_guard}");
        let pi = FakePi::new();
        let mut core = Core::start(&pi);
        let names = five(&core);
        let sessions: Vec<_> = names
            .iter()
            .map(|name| core.agent(name).session_path.unwrap())
            .collect();
        let children = pids(&pi);
        for pid in [core.pid, core.guard.id()] {
            processes::signal(pid, Signal::HUP);
        }
        let owned = |pid: &u32| processes::find(*pid).is_some_and(|p| p.parent == core.pid);
        wait::stays("all work on", Duration::from_millis(200), || {
            children.len() == 5 && children.iter().all(owned)
        });
        let began = Instant::now();
        let whom = if to_guard { core.guard.id() } else { core.pid };
        processes::signal(whom, signal);
        wait::wait_until("nothing is left", || {
            agents_alive(&pi).is_empty() && pi.sandbox.processes().is_empty()
        });
        within_bound(began, &what);
        let code = core.guard.wait().unwrap();
        assert_eq!(code.code(), Some(0), "{what}: an end in order");
        for session in sessions {
            assert!(session.exists(), "{what}: {}", session.display());
        }
        // The next core knows all of them, and each can come back.
        let next = Core::start(&pi);
        for name in &names {
            let row = next.agent(name);
            let by = StopCause::Shutdown;
            assert_eq!(row.status, Status::Stopped { by }, "{what}");
        }
        next.send(&names[0], "back");
        next.wait_agent(&names[0], "idle", |a| a.status == Status::Idle);
    }
}

#[test]
fn a_stop_takes_along_whatever_was_started() {
    // B021, R-LIFE-07: every way to leave the group, and a child that ignores all but the kill
    for kind in ["holding", "setsid", "clean", "double", "stubborn"] {
        let pi = FakePi::new().options(&format!("--ignore-eof --ignore-term --grandchild {kind}"));
        let core = Core::start_with(&pi, FAST_LADDER);
        let name = core.spawn("fake:hang");
        let grandchild = pi.wait_events("grandchild", 1)[0]["pid"].as_u64().unwrap();
        let grandchild = u32::try_from(grandchild).unwrap();
        let began = Instant::now();
        assert_eq!(core.stop(&name), Reply::Stopped { was_live: true });
        within_bound(began, kind);
        assert!(
            !processes::alive(grandchild),
            "{kind}: gone with the answer"
        );
        assert_eq!(agents_alive(&pi), Vec::<String>::new(), "{kind}");
        core.wait_agent(&name, "stopped", stopped_by_you);
    }
}

/// Zombies among the children of a process.
fn zombies(of: u32) -> usize {
    let all = processes::all().into_iter();
    all.filter(|p| p.parent == of && p.state == 'Z').count()
}

#[test]
fn what_a_child_said_last_is_kept_and_its_end_is_seen_at_once() {
    // B023, R-LIFE-09: it exits right after its words, while a grandchild holds its outputs
    for (name, record, ends_as) in [
        (
            "settled",
            "{\"type\":\"agent_settled\",\"aborted\":false}",
            true,
        ),
        ("not settled", "", false),
        ("half a record", "{\"type\":\"agent_sett", false),
    ] {
        for code in [0, 3] {
            let long = "y".repeat(300_000);
            let recording = format!(
                r#"{{"type":"_replay","do":"wait","command":"prompt"}}
{{"type":"agent_start"}}
{{"type":"message_end","message":{{"role":"assistant","content":[{{"type":"text","text":"last words {long}"}}],"stopReason":"stop"}}}}
{{"type":"agent_end","messages":[],"willRetry":false}}
{record}
{{"type":"_replay","do":"exit","code":{code}}}
"#
            );
            let pi = FakePi::new()
                .options("--grandchild holding")
                .replay_lines(recording.as_bytes());
            let core = Core::start(&pi);
            let agent = core.spawn("task");
            pi.wait_events("end", 1);
            let began = Instant::now();
            let row = core.wait_agent(&agent, "not running", |a| !a.status.is_live());
            let took = began.elapsed();
            assert!(took < Duration::from_secs(1) || wait::crowded(), "{took:?}");
            let row = core.wait_agent(&row.name, "swept", |a| a.pid.is_none());
            let ends = wait_run_ends(&core, &agent, 1);
            assert_eq!(ends.len(), 1, "{name} {code}");
            if ends_as {
                assert_eq!(ends, [Outcome::Completed { cut: false }], "{name} {code}");
                assert_eq!(row.status, Status::Completed, "{name} {code}");
            } else {
                assert!(
                    reason(&row).contains(&format!("exit code {code}")),
                    "{row:?}"
                );
            }
            assert!(core.texts(&agent)[0].len() > 300_000, "{name} {code}");
            wait::wait_until("no zombie", || zombies(core.pid) == 0);
        }
    }
}

#[test]
fn a_child_that_is_frozen_or_deaf_in_a_run_is_stopped_in_time() {
    // B031
    for how in ["frozen", "reads no more", "ignores its abort"] {
        let pi = FakePi::new().options(match how {
            "reads no more" => "--read-lines 2 --ignore-eof --ignore-term",
            "ignores its abort" => "--ignore-abort --ignore-eof --ignore-term",
            _ => "",
        });
        let core = Core::start_with(&pi, FAST_LADDER);
        let name = core.spawn("fake:hang");
        let row = core.wait_agent(&name, "running", |a| a.status == Status::Running);
        let mut waiting = Vec::new();
        match how {
            "frozen" => processes::signal(row.pid.unwrap(), Signal::STOP),
            // An abort that nobody answers is in the way of nothing.
            "ignores its abort" => {
                waiting.push(core.ask_later(Request::Abort {
                    agent: by_id(row.id),
                }));
                pi.wait_log("the abort", |log| {
                    log.iter()
                        .any(|e| e["command"]["type"] == "abort")
                        .then_some(())
                });
            }
            _ => drop(pi.wait_events("stdin closed", 1)),
        }
        let began = Instant::now();
        for _ in 0..3 {
            waiting.push(core.ask_later(Request::Stop {
                agent: by_id(row.id),
            }));
        }
        for call in waiting {
            assert!(core.fetch(call).is_ok(), "{how}");
        }
        within_bound(began, how);
        core.wait_agent(&name, "stopped", stopped_by_you);
        assert_eq!(core.run_ends(&name), 1, "{how}");
        assert_eq!(agents_alive(&pi), Vec::<String>::new(), "{how}");
        // An agent nobody ever heard of is refused at once.
        let agent = by_id(AgentId::fresh());
        let unknown = core.ask(Request::Stop { agent }).unwrap_err();
        assert_eq!(unknown.code, ErrorCode::NotFound);
        assert_eq!(core.stop(&name), Reply::Stopped { was_live: false });
    }
}

#[test]
fn an_idle_agent_killed_from_outside_is_stopped_at_once() {
    // B031: dead already, known or not yet known to be
    let pi = FakePi::new();
    let core = Core::start(&pi);
    for known in [true, false] {
        let name = core.spawn("task");
        let row = wait_idle(&core, &name, 1);
        processes::signal(row.pid.unwrap(), Signal::KILL);
        if known {
            core.wait_agent(&name, "gone", |a| a.pid.is_none());
        }
        let began = Instant::now();
        core.stop(&name);
        within_bound(began, "a dead one");
        let row = core.wait_agent(&name, "gone", |a| a.pid.is_none());
        assert!(!row.status.is_live(), "{row:?}");
        assert_eq!(core.run_ends(&name), 1);
    }
}

#[test]
fn every_death_at_the_start_is_told_with_its_last_words() {
    // B033, R-LIFE-09
    let exit = |what: &str| format!("{{\"type\":\"_replay\",\"do\":\"exit\",{what}}}\n");
    let words = "{\"type\":\"_replay\",\"do\":\"stderr\",\"text\":\"first\\nError: no key för 界\\nHint: log in\\n\\n\"}\n";
    let after_prompt = "{\"type\":\"_replay\",\"do\":\"wait\",\"command\":\"prompt\"}\n";
    let manual = "{\"type\":\"_replay\",\"do\":\"manual_responses\"}\n";
    for (recording, reasons) in [
        (exit("\"code\":0"), vec!["exit code 0"]),
        (exit("\"signal\":\"ABRT\""), vec!["killed by signal 6"]),
        (exit("\"signal\":\"SEGV\""), vec!["killed by signal 11"]),
        (
            format!("{words}{}", exit("\"code\":1")),
            vec!["exit code 1", "Error: no key för 界"],
        ),
        // It was ready, and dies of its prompt before it answers it.
        (
            format!(
                "{manual}{{\"id\":\"$1\",\"type\":\"response\",\"command\":\"get_state\",\"success\":true,\"data\":{{\"isStreaming\":false,\"isCompacting\":false}}}}\n{after_prompt}{words}{}",
                exit("\"code\":9")
            ),
            vec!["exit code 9", "Error: no key för 界"],
        ),
    ] {
        let pi = FakePi::new().replay_lines(recording.as_bytes());
        let core = Core::start(&pi);
        let error = core
            .ask(Request::Spawn(core.spawn_request("task")))
            .unwrap_err();
        assert_eq!(error.code, ErrorCode::StartFailed);
        let fleet = core.wait_fleet("failed and gone", |f| {
            f.agents.len() == 1 && f.agents[0].pid.is_none() && is_failed(&f.agents[0])
        });
        core.watch_all();
        for word in reasons {
            assert!(error.message.contains(word), "{word}: {error}");
            assert!(reason(&fleet.agents[0]).contains(word), "{word}");
        }
        assert_eq!(fleet.agents[0].runs_ended, 0);
        assert_eq!(
            core.run_ends(&fleet.agents[0].name),
            0,
            "told by the error alone"
        );
        assert_eq!(pids(&pi).len(), 1, "not tried again");
    }
}

#[test]
fn an_aborted_run_is_not_completed_when_its_process_or_its_core_ends() {
    // B025
    let by = StopCause::Child;
    let pi = FakePi::new().replay_lines(case("B025-aborted-turn.rpc.jsonl").as_bytes());
    let core = Core::start(&pi);
    let name = core.spawn("task");
    let row = wait_idle(&core, &name, 1);
    processes::signal(row.pid.unwrap(), Signal::KILL);
    core.wait_agent(&name, "stopped", |a| a.status == Status::Stopped { by });
    assert_eq!(wait_run_ends(&core, &name, 1), [Outcome::Stopped { by }]);
    assert_eq!(core.texts(&name), ["partial thou"]);
    core.send(&name, "back");
    wait_run_ends(&core, &name, 2);
    core.wait_agent(&name, "idle", |a| {
        a.status == Status::Idle && a.runs_ended == 2
    });
    // The core is killed while the agent rests after an aborted run: its record knows.
    processes::signal(core.pid, Signal::KILL);
    core.wait_lost();
    drop(core);
    let next = Core::start(&pi);
    let row = next.agent(&name);
    assert_eq!(
        row.status,
        Status::Stopped { by },
        "the second run was aborted too"
    );
}

/// What a viewer of its own is told about that agent until so many runs have ended: the numbers of
/// the entries that are ends of runs.
fn ends_seen(core: &Core, agent: AgentId, runs: usize) -> Vec<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = connect(&core.socket, Role::Viewer).await.unwrap();
        let agents = vec![agent];
        client.request(Request::Watch { agents }).await.unwrap();
        let mut log = TranscriptLog::new();
        loop {
            let batch = tokio::time::timeout(wait::limit(), client.updates());
            for update in batch.await.expect("news in time").expect("the core lives") {
                if let Update::Transcript { patch, .. } = update {
                    assert!(log.apply(patch), "nothing is missed");
                }
            }
            let ends: Vec<u64> = log
                .iter()
                .filter(|e| matches!(e.kind, EntryKind::RunEnd { .. }))
                .map(|e| e.seq)
                .collect();
            if ends.len() >= runs {
                return ends;
            }
        }
    })
}

#[test]
fn two_viewers_are_shown_the_same_one_end() {
    // B035, B037: the part that needs no parent session
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let go = pi.work().join("go");
    let names: Vec<String> = (0..3)
        .map(|_| core.spawn(&format!("fake:wait {}", go.display())))
        .collect();
    let ids: Vec<AgentId> = names.iter().map(|name| core.agent(name).id).collect();
    std::thread::scope(|scope| {
        let viewers: Vec<_> = ids
            .iter()
            .flat_map(|id| [*id; 2])
            .map(|id| {
                let core = &core;
                scope.spawn(move || ends_seen(core, id, 1))
            })
            .collect();
        std::fs::write(&go, "").unwrap();
        let seen: Vec<Vec<u64>> = viewers.into_iter().map(|v| v.join().unwrap()).collect();
        for pair in seen.chunks(2) {
            assert_eq!(pair[0], pair[1], "the same entry");
            assert_eq!(pair[0].len(), 1);
        }
    });
    for name in &names {
        let row = wait_idle(&core, name, 1);
        assert_eq!(row.runs_ended, 1);
        assert_eq!(core.run_ends(name), 1);
    }
}

#[test]
fn a_start_signals_nothing_of_another_core_and_nothing_by_number() {
    // B039, R-LIFE-07
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("fake:tool sleep 300");
    let row = core.wait_agent(&name, "running", |a| a.status == Status::Running);
    let tool = wait::wait_for("the tool runs", || {
        processes::descendants_of(row.pid.unwrap()).pop()
    });
    // Of the same account, with the number of a process that is another's now in every place where
    // a careless program would look.
    let mut bystander = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .unwrap();
    let number = bystander.id();
    let other = pi.work().join("other");
    std::fs::create_dir(&other).unwrap();
    let serve = || {
        let mut command = pi.command(PROGRAM);
        command.args(["serve", "--pi", &pi.pi_command()]);
        command.current_dir(&other);
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::piped());
        let mut guard = command.spawn().unwrap();
        let mut line = String::new();
        let stdout = guard.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let pid = u32::try_from(line["ready"]["pid"].as_u64().unwrap()).unwrap();
        (guard, pid)
    };
    let (mut guard, pid) = serve();
    processes::signal(guard.id(), Signal::KILL);
    processes::signal(pid, Signal::KILL);
    guard.wait().unwrap();
    wait::wait_until("the second core is gone", || !processes::alive(pid));
    let mut locks = 0;
    let own = std::fs::read_to_string(format!("/proc/{}/environ", row.pid.unwrap())).unwrap();
    for dir in [pi.sandbox.state(), pi.sandbox.runtime()] {
        for path in all_files(&dir) {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if path.extension().is_some_and(|e| e == "lock") && text.trim() == pid.to_string() {
                std::fs::write(&path, format!("{number}\n")).unwrap();
                locks += 1;
            }
        }
    }
    assert!(locks > 0, "the dead core left a lock with its number");
    // A record as well.
    let record = find_file(&pi.sandbox.state(), &format!("{}.json", row.id)).unwrap();
    let text = std::fs::read_to_string(&record).unwrap();
    let with = text.replacen('{', &format!("{{\"pid\":{number},"), 1);
    std::fs::write(&record, with).unwrap();
    let (mut guard, pid) = serve();
    // A start has swept before it says that it is ready, or soon after.
    wait::stays(
        "nothing of others is touched",
        Duration::from_millis(700),
        || tool.alive() && processes::alive(row.pid.unwrap()) && processes::alive(core.pid),
    );
    assert!(
        bystander.try_wait().unwrap().is_none(),
        "a number proves nothing"
    );
    assert!(
        own.contains("PI_AGENTS_INSTANCE="),
        "it carries its own core's mark"
    );
    assert_eq!(core.agent(&name).status, Status::Running);
    processes::signal(pid, Signal::TERM);
    guard.wait().unwrap();
    assert!(tool.alive(), "nor by the end of the other core");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

fn all_files(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(all_files(&path));
        } else {
            files.push(path);
        }
    }
    files
}
