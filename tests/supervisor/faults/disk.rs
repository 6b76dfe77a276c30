//! A disk that is full: agents go on, what could not be saved is said and saved later, and no
//! half-written file ever takes the place of a good one. (B101)

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pi_agents::client::{ErrorCode, Request};
use pi_agents::fleet::agent::Status;
use pi_agents::fleet::roster::{AgentView, Badge};
use serde_json::Value;

use super::super::fake_pi::{FAST_LADDER, find_file, pids, wait_idle};
use crate::support::core::{Core, World, serve};
use crate::support::fake::FakePi;
use crate::support::processes::signal;
use crate::support::wait;

/// Bytes of the disk.
const SIZE: &str = "1m";

/// A fake Pi's world in which one folder is a disk of its own, small, seen only by what runs in a
/// mount namespace that a process holds open.
pub struct SmallDisk<P = FakePi> {
    pub pi: P,
    work: PathBuf,
    holder: Child,
    folder: PathBuf,
}

impl SmallDisk {
    fn at(folder: impl Fn(&FakePi) -> PathBuf) -> Option<Self> {
        let pi = FakePi::new();
        let (folder, work) = (folder(&pi), pi.work());
        Self::around(pi, work, folder)
    }
}

impl<P: World> SmallDisk<P> {
    /// `None`, said aloud, where no disk may be mounted.
    #[allow(clippy::print_stderr, reason = "a test that proves nothing says so")]
    pub fn around(pi: P, work: PathBuf, folder: PathBuf) -> Option<Self> {
        let script = format!(
            "mount -t tmpfs -o size={SIZE},mode=700 none \"$0\" && touch \"$0/mounted\" && exec sleep 600"
        );
        // As root; else as root of a user namespace.
        for flags in ["-m", "-rm"] {
            let mut holder = pi
                .command("unshare")
                .args([flags, "sh", "-c", &script])
                .arg(&folder)
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .ok()?;
            let inside = inside(holder.id(), &folder.join("mounted"));
            let mounted = wait::wait_for("the mount, or its refusal", || {
                let ended = holder.try_wait().unwrap().is_some();
                (ended || inside.exists()).then_some(!ended)
            });
            if mounted {
                return Some(Self {
                    pi,
                    work,
                    holder,
                    folder,
                });
            }
        }
        eprintln!("skipped: no disk may be mounted here");
        None
    }

    /// A path as it is seen by what runs there.
    pub fn inside(&self, path: &Path) -> PathBuf {
        inside(self.holder.id(), path)
    }

    pub fn fill(&self) {
        let mut file = fs::File::create(self.filler()).unwrap();
        let mut block = vec![b'x'; 4096];
        while !block.is_empty() {
            if file.write_all(&block).is_err() {
                block.truncate(block.len() / 2);
            }
        }
    }

    pub fn empty(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.inside(&self.folder.join("filler"))
    }
}

impl SmallDisk {
    fn record(&self, row: &AgentView) -> Option<Value> {
        let state = self.inside(&self.pi.sandbox.state());
        let path = find_file(&state, &format!("{}.json", row.id))?;
        let text = fs::read(&path).unwrap();
        Some(serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{e}: {}", path.display())))
    }

    /// Waits until the record of an agent says what its row says.
    #[track_caller]
    fn wait_recorded(&self, core: &Core, name: &str) {
        wait::wait_for_or(
            "the record says what the row says",
            || {
                let row = core.agent(name);
                let record = self.record(&row)?;
                let same = record["status"] == serde_json::to_value(&row.status).unwrap()
                    && record["runs_ended"] == row.runs_ended;
                same.then_some(())
            },
            || {
                format!(
                    "{:#?}\n{:#?}",
                    core.agent(name),
                    self.record(&core.agent(name))
                )
            },
        );
    }

    fn log(&self) -> String {
        let logs = self.inside(&self.pi.sandbox.state()).join("pi-agents/logs");
        let files = fs::read_dir(logs).unwrap().flatten();
        files
            .map(|e| fs::read_to_string(e.path()).unwrap())
            .collect()
    }
}

impl<P> Drop for SmallDisk<P> {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn inside(pid: u32, path: &Path) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root{}", path.display()))
}

impl<P: World> World for SmallDisk<P> {
    fn command(&self, program: &str) -> Command {
        let mut command = self.pi.command("nsenter");
        let user = Path::new("/proc/self/ns/user").read_link().ok();
        let theirs = Path::new(&format!("/proc/{}/ns/user", self.holder.id())).read_link();
        if user != theirs.ok() {
            command.args(["-U", "--preserve-credentials"]);
        }
        command
            .args(["-m", "-t", &self.holder.id().to_string()])
            .args(["sh", "-c", "cd \"$0\" && exec \"$@\""])
            .arg(&self.work)
            .arg(program);
        command
    }
    fn env(&self) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        self.pi.env()
    }
    fn pi(&self) -> String {
        self.pi.pi()
    }
}

#[test]
fn agents_go_on_while_nothing_can_be_saved_and_it_is_saved_when_there_is_room() {
    let Some(disk) = SmallDisk::at(|pi| pi.sandbox.state()) else {
        return;
    };
    let vars = [FAST_LADDER, &[("PI_AGENTS_LOG", "debug")]].concat();
    let core = Core::start_with(&disk, &vars);
    let [idle, stopped, untouched] = ["one", "two", "three"].map(|task| core.spawn(task));
    for name in [&idle, &stopped, &untouched] {
        wait_idle(&core, name, 1);
        disk.wait_recorded(&core, name);
    }
    let go = disk.pi.work().join("go");
    let running = core.spawn(&format!("fake:wait {} ;; tool echo hello", go.display()));
    core.wait_agent(&running, "running", |a| a.status == Status::Running);
    disk.wait_recorded(&core, &running);
    let before = disk.record(&core.agent(&idle)).unwrap();

    disk.fill();
    fs::write(go, "").unwrap();
    wait_idle(&core, &running, 1);
    core.wait_fleet("the badge", |f| f.core.badges.contains(&Badge::NotSaved));
    core.send(&idle, "still there?");
    wait_idle(&core, &idle, 2);
    core.stop(&stopped);
    assert_eq!(
        disk.record(&core.agent(&idle)).unwrap(),
        before,
        "the old one, whole"
    );
    let temporary = find_file(&disk.inside(&disk.pi.sandbox.state()), ".tmp-");
    assert_eq!(temporary, None);

    disk.empty();
    // Nothing happens to any of them any more, and yet all of it is saved.
    core.wait_fleet("no badge", |f| f.core.badges.is_empty());
    for name in [&idle, &stopped, &untouched, &running] {
        disk.wait_recorded(&core, name);
    }
    core.send(&stopped, "back");
    wait_idle(&core, &stopped, 2);
    // What did not fit into the log is cut off; what came later is on lines of its own.
    let log = disk.log();
    assert!(log.contains("agent record not written"), "{log}");
    for line in log.lines().filter(|l| !l.is_empty()) {
        let hour = line.get(..14).unwrap_or(line);
        assert!(hour.starts_with("20"), "{line:?}\n{log}");
        assert_eq!(line.matches(hour).count(), 1, "two in one: {line:?}");
    }
}

#[test]
fn a_core_that_dies_while_the_disk_is_full_leaves_records_that_are_old_but_good() {
    // design §2: nothing half-written; what is not known is `supervisor lost`
    let Some(disk) = SmallDisk::at(|pi| pi.sandbox.state()) else {
        return;
    };
    let core = Core::start(&disk);
    let name = core.spawn("task");
    wait_idle(&core, &name, 1);
    let working = core.spawn("fake:hang");
    core.wait_agent(&working, "running", |a| a.status == Status::Running);
    disk.wait_recorded(&core, &name);
    disk.wait_recorded(&core, &working);
    disk.fill();
    core.send(&name, "fake:hang");
    core.wait_fleet("the badge", |f| f.core.badges.contains(&Badge::NotSaved));
    signal(core.pid, rustix::process::Signal::KILL);
    core.wait_lost();
    drop(core);

    // Without room there is no core, and a reason.
    let (mut guard, line) = serve(&disk, &[]);
    let error = line["error"]["message"].as_str().unwrap();
    assert!(error.contains("No space left"), "{line}");
    let hint = line["error"]["hint"].as_str().unwrap_or(error);
    assert!(hint.contains("free space"), "{line}");
    assert_eq!(guard.wait().unwrap().code(), Some(1));
    disk.empty();
    let next = Core::start(&disk);
    // Its record is of before the message.
    assert_eq!(next.agent(&name).status, Status::Completed);
    assert_eq!(
        next.agent(&working).status,
        Status::Failed {
            reason: "supervisor lost".into()
        }
    );
    for name in [&name, &working] {
        next.send(name, "back");
        next.wait_agent(name, "back", |a| a.status == Status::Idle);
    }
    // Locks of cores that could not start are not left behind.
    let cores = disk
        .inside(&disk.pi.sandbox.state())
        .join("pi-agents/cores");
    let locks = fs::read_dir(&cores).unwrap().count();
    assert_eq!(locks, 1, "{cores:?}");
}

#[test]
fn a_new_agent_on_a_full_disk_is_refused_with_the_way_out() {
    let Some(disk) = SmallDisk::at(|pi| pi.sandbox.state()) else {
        return;
    };
    let core = Core::start(&disk);
    let first = core.spawn("task");
    wait_idle(&core, &first, 1);
    disk.fill();
    let error = core
        .ask(Request::Spawn(core.spawn_request("new")))
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::StartFailed);
    assert!(error.message.contains("No space left"), "{error}");
    assert_eq!(error.hint.as_deref(), Some("free space on that disk"));
    assert_eq!(pids(&disk.pi).len(), 1, "nothing was started");
    disk.empty();
    let fleet = core.wait_fleet("no badge", |f| {
        f.agents.len() == 2 && f.core.badges.is_empty()
    });
    let refused = fleet.agents.iter().find(|a| a.name != first).unwrap();
    core.watch_all();
    core.send(&refused.name, "now");
    wait_idle(&core, &refused.name, 1);
    disk.wait_recorded(&core, &refused.name);
}

#[test]
fn sessions_that_cannot_be_saved_end_their_agents_and_no_other() {
    // The child's own trouble: told in its words.
    let Some(disk) = SmallDisk::at(|pi| pi.sandbox.data()) else {
        return;
    };
    let core = Core::start_with(&disk, FAST_LADDER);
    let name = core.spawn("task");
    let row = wait_idle(&core, &name, 1);
    disk.fill();
    let refused = core.ask(Request::Spawn(core.spawn_request("new")));
    if let Err(error) = &refused {
        assert_eq!(error.code, ErrorCode::StartFailed);
        assert!(error.message.contains("No space left"), "{error}");
    }
    assert!(
        core.fleet().core.badges.is_empty(),
        "our own files are fine"
    );
    core.stop(&name);
    disk.empty();
    core.send(&name, "back");
    let back = core.wait_agent(&name, "back", |a| {
        a.status == Status::Idle && a.pid.is_some()
    });
    assert_eq!(back.session_path, row.session_path);
}
