//! A core that may open no more files: it says so, harms nobody, and works again afterwards.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use pi_agents::client::{ErrorCode, Reply, Request, RequestError};
use pi_agents::fleet::agent::Status;
use pi_agents::fleet::roster::Badge;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::super::fake_pi::{FAST_LADDER, find_file, is_failed, pids, reason, wait_idle};
use super::{message_with, others_alive, wait_recorded, with_options};
use crate::support::core::{Core, PROGRAM, verb};
use crate::support::fake::FakePi;
use crate::support::{processes, wait};

/// Takes the descriptors of a process away: it keeps those it has and gets no other.
pub struct NoFiles {
    pid: Pid,
    before: Rlimit,
}

impl NoFiles {
    pub fn of(pid: u32) -> Self {
        let id = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        // What is being closed just now would be free again in a moment.
        let mut open = descriptors(pid);
        let mut same = 0;
        wait::wait_until("its descriptors stay the same", || {
            std::thread::sleep(Duration::from_millis(10));
            let now = descriptors(pid);
            same = if now == open { same + 1 } else { 0 };
            open = now;
            same >= 5
        });
        let free = (0..).find(|number| !open.contains(number)).unwrap();
        let before = limit_of(pid);
        let limit = Rlimit {
            current: Some(free),
            ..before
        };
        prlimit(Some(id), Resource::Nofile, limit).unwrap();
        Self { pid: id, before }
    }
}

impl Drop for NoFiles {
    fn drop(&mut self) {
        let _ = prlimit(Some(self.pid), Resource::Nofile, self.before);
    }
}

/// The limit of another process.
fn limit_of(pid: u32) -> Rlimit {
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix("Max open files"));
    let numbers: Vec<&str> = line.unwrap().split_whitespace().collect();
    let number = |at: usize| numbers[at].parse().ok();
    Rlimit {
        current: number(0),
        maximum: number(1),
    }
}

fn descriptors(pid: u32) -> Vec<u64> {
    let dir = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let mut open: Vec<u64> = dir
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    open.sort_unstable();
    open
}

/// Processor time a process has used so far.
fn used(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

fn socket(pi: &FakePi) -> std::path::PathBuf {
    find_file(&pi.sandbox.runtime(), ".sock").expect("its socket")
}

fn says_why(error: &RequestError) {
    assert_eq!(error.code, ErrorCode::StartFailed, "{error}");
    assert!(error.message.contains("oo many open files"), "{error}");
    assert!(error.hint.is_some(), "what to do about it: {error:?}");
}

#[test]
fn without_files_starts_are_refused_and_running_agents_go_on() {
    // R-Q-02: what one agent lacks harms no other
    let pi = FakePi::new();
    let core = Core::start_with(&pi, FAST_LADDER);
    let idle = core.spawn("task");
    let stopped = core.spawn("task");
    let row = wait_idle(&core, &stopped, 1);
    wait_idle(&core, &idle, 1);
    core.stop(&stopped);
    let go = pi.work().join("go");
    let running = core.spawn(&format!("fake:wait {} ;; tool echo hello", go.display()));
    core.wait_agent(&running, "running", |a| a.status == Status::Running);

    let none = NoFiles::of(core.pid);
    // A new agent, a revival: refused with the reason.
    let spawn = |prompt: &str| core.ask(Request::Spawn(core.spawn_request(prompt)));
    says_why(&spawn("new").unwrap_err());
    says_why(&core.ask(core.send_request(&stopped, "back")).unwrap_err());
    // Who was there goes on: text, tools, messages.
    std::fs::write(go, "").unwrap();
    wait_idle(&core, &running, 1);
    core.send(&idle, "still there?");
    wait_idle(&core, &idle, 2);
    core.wait_fleet("the badge", |f| f.core.badges.contains(&Badge::NotSaved));
    drop(none);

    // All as before: what could not be saved is saved now, also that of agents nothing happens to.
    core.wait_fleet("no badge", |f| f.core.badges.is_empty());
    for name in [&idle, &running] {
        wait_recorded(&core, &pi, name);
    }
    let late = core.spawn("late");
    wait_idle(&core, &late, 1);
    core.send(&stopped, "back");
    let back = wait_idle(&core, &stopped, 2);
    assert_eq!(back.session_path, row.session_path);
    assert_eq!(pids(&pi).len(), 5, "no start happened twice");
}

#[test]
fn without_files_a_stop_still_leaves_nothing() {
    // R-LIFE-07: what cannot be looked at is not taken for dead
    let pi = FakePi::new();
    let core = Core::start_with(&pi, FAST_LADDER);
    let bystander = core.spawn("task");
    let bystander = wait_idle(&core, &bystander, 1).pid.unwrap();
    let stubborn = "--ignore-eof --ignore-term --grandchild stubborn";
    let request = with_options(
        core.spawn_request("fake:grandchild setsid ;; hang"),
        stubborn,
    );
    let name = core.spawn_as(request);
    pi.wait_events("grandchild", 2);
    let none = NoFiles::of(core.pid);
    let began = Instant::now();
    assert_eq!(core.stop(&name), Reply::Stopped { was_live: true });
    let took = began.elapsed();
    assert!(took < Duration::from_secs(3) || wait::crowded(), "{took:?}");
    assert_eq!(others_alive(&pi, &[bystander]), Vec::new());
    drop(none);
    core.send(&name, "back");
    core.wait_agent(&name, "back", |a| a.status == Status::Idle);
}

#[test]
fn without_files_a_client_waits_its_turn_and_the_core_does_not_spin() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("task");
    wait_idle(&core, &name, 1);
    let none = NoFiles::of(core.pid);
    // In the queue of the system, not accepted.
    let waiting = UnixStream::connect(socket(&pi)).unwrap();
    let before = used(core.pid);
    std::thread::sleep(Duration::from_millis(700));
    let spent = used(core.pid) - before;
    assert!(spent < Duration::from_millis(150), "{spent:?}");
    // Who is attached is served meanwhile.
    core.send(&name, "still there?");
    wait_idle(&core, &name, 2);
    drop(none);
    drop(waiting);
    let out = verb(&pi, &["ps", "--json"]);
    assert!(out.status.success(), "{out:?}");
    core.shutdown();
    wait::wait_until("nothing is left", || pi.sandbox.processes().is_empty());
}

#[test]
fn many_starts_without_files_fail_one_by_one_and_free_their_places() {
    // R-PI-11: a start that failed holds no place in the queue
    let pi = FakePi::new();
    let core = Core::start_with(&pi, &[("PI_AGENTS_LAUNCH_SLOTS", "1")]);
    let first = core.spawn("task");
    wait_idle(&core, &first, 1);
    let before = descriptors(core.pid).len();
    let none = NoFiles::of(core.pid);
    let calls: Vec<_> = (0..8)
        .map(|_| core.ask_later(Request::Spawn(core.spawn_request("task"))))
        .collect();
    for call in calls {
        says_why(&core.fetch(call).unwrap_err());
    }
    let fleet = core.wait_fleet("none of them is starting", |f| {
        f.agents.iter().all(|a| !a.status.is_working())
    });
    for row in fleet.agents.iter().filter(|a| a.name != first) {
        assert!(
            is_failed(row) && reason(row).contains("open files"),
            "{row:#?}"
        );
    }
    drop(none);
    assert_eq!(descriptors(core.pid).len(), before, "none is lost");
    let late = core.spawn("late");
    wait_idle(&core, &late, 1);
    assert_eq!(pids(&pi).len(), 2);
}

#[test]
fn an_agent_that_was_refused_for_want_of_files_comes_back_with_a_message() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("task");
    wait_idle(&core, &name, 1);
    core.stop(&name);
    for _ in 0..3 {
        let none = NoFiles::of(core.pid);
        let refused = core
            .ask(message_with(&core, &name, "back", ""))
            .unwrap_err();
        says_why(&refused);
        drop(none);
    }
    core.send(&name, "back");
    wait_idle(&core, &name, 2);
    assert_eq!(processes::descendants_of(core.pid).len(), 1);
}

#[test]
fn a_core_opens_what_it_may_and_its_children_get_the_limit_of_before() {
    // design §9: 500 agents in one core; the usual limit of 1024 is too small for them
    let pi = FakePi::new();
    let script = "ulimit -Sn 300; exec \"$0\" serve --pi \"$1\"";
    let mut guard = pi
        .command("sh")
        .args(["-c", script, PROGRAM, &pi.pi_command()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(guard.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    let core = u32::try_from(ready["ready"]["pid"].as_u64().unwrap()).unwrap();
    let out = verb(&pi, &["spawn", "task"]);
    assert!(out.status.success(), "{out:?}");
    let child = pids(&pi)[0];
    let (of_core, of_child) = (limit_of(core), limit_of(child));
    let most = of_core.maximum.map_or(1 << 20, |most| most.min(1 << 20));
    assert_eq!(of_core.current, Some(most));
    assert_eq!(
        (of_child.current, of_child.maximum),
        (Some(300), of_core.maximum)
    );
    assert!(verb(&pi, &["shutdown"]).status.success());
    guard.wait().unwrap();
}
