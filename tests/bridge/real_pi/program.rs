//! Which program the bridge starts when nothing in the environment names one: the path written down
//! in the configuration folder, then PATH.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::json;

use super::world::{Plan, World};
use crate::support::example::ensure_example;
use crate::support::model::Turn;
use crate::support::versions::Version;

/// A Pi that knows of no program but by the file, which `write` writes.
fn world(version: Version, write: impl FnOnce(&Path)) -> World {
    let plan = Plan::new(version).without("PI_AGENTS_BIN");
    let folder = plan.sandbox().config().join("pi-agents");
    std::fs::create_dir_all(&folder).unwrap();
    write(&folder.join("program"));
    plan.arg("--tools").arg("agent_spawn").start()
}

/// What the model is told when it wants an agent; Pi goes on afterwards.
#[track_caller]
fn told(mut world: World) -> String {
    let call = Turn::call("agent_spawn", json!({"prompt": "p", "label": "l"}));
    world.model.on("spawn", [call, Turn::say("a pity")]);
    let records = world.rpc.run("spawn");
    let ends = records.iter().find(|r| r["type"] == "tool_execution_end");
    assert_eq!(ends.unwrap()["isError"], true);
    let result = world.model.requests()[1].tool_results().remove(0);
    world.model.on("and now", [Turn::say("here I am")]);
    world.rpc.run("and now");
    world.rpc.close_stdin();
    assert_eq!(
        world.rpc.wait_exit().code(),
        Some(0),
        "{}",
        world.rpc.stderr()
    );
    assert_eq!(world.core.count(), 0);
    result
}

// Design §6, R-PI-12: whatever is there instead of a path is an error of the tool that says what to
// do, and Pi lives on.
#[test]
fn a_file_that_names_no_program_is_an_error_of_the_tool() {
    type Write = fn(&Path);
    let writes: [(&str, Write); 10] = [
        ("nothing", |_| {}),
        ("empty", |file| std::fs::write(file, "").unwrap()),
        ("blank", |file| std::fs::write(file, "\n/bin/sh\n").unwrap()),
        ("stale", |file| {
            std::fs::write(file, "/nowhere/pi-agents\n").unwrap()
        }),
        ("relative", |file| {
            std::fs::write(file, "bin/pi-agents").unwrap()
        }),
        ("a folder", |file| std::fs::write(file, "/tmp\n").unwrap()),
        ("no program", |file| {
            let text = file.with_file_name("text");
            std::fs::write(&text, "not for running").unwrap();
            std::fs::write(file, text.to_str().unwrap()).unwrap();
        }),
        ("no text", |file| {
            std::fs::write(file, b"/\xff\xfe\0\x01/pi-agents").unwrap()
        }),
        ("is a folder", |file| std::fs::create_dir(file).unwrap()),
        ("long", |file| {
            std::fs::write(file, "/a".repeat(1 << 20)).unwrap()
        }),
    ];
    for (n, (what, write)) in writes.into_iter().enumerate() {
        // Each costs a Pi: both versions in turns.
        let result = told(world(Version::ALL[n % 2], write));
        assert!(
            result.contains("pi-agents was not found"),
            "{what}: {result}"
        );
        assert!(result.contains("PI_AGENTS_BIN"), "{what}: {result}");
    }
}

// R-PI-12: reading it never waits.
#[test]
fn a_file_that_does_not_end_does_not_hold_pi_up() {
    let fifo = |file: &Path| {
        let made = std::process::Command::new("mkfifo").arg(file).status();
        assert!(made.unwrap().success());
    };
    let result = told(world(Version::Newest, fifo));
    assert!(result.contains("pi-agents was not found"), "{result}");
    let endless = |file: &Path| symlink("/dev/zero", file).unwrap();
    let result = told(world(Version::Oldest, endless));
    assert!(result.contains("pi-agents was not found"), "{result}");
}

// Design §6: a program that is none of ours says how it ended.
#[test]
fn a_program_that_is_another_one_is_named() {
    for version in Version::ALL {
        let other = |file: &Path| {
            let program = file.with_file_name("other");
            std::fs::write(
                &program,
                "#!/bin/sh\necho 'no such option: serve' >&2\nexit 3\n",
            )
            .unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
            std::fs::write(file, program.to_str().unwrap()).unwrap();
        };
        let result = told(world(version, other));
        assert!(
            result.contains("pi-agents/other ended with code 3"),
            "{result}"
        );
        assert!(result.contains("no such option: serve"), "{result}");
    }
}

// Design §6: the path that was written down is the one, and PATH is the last resort.
#[test]
fn the_written_path_comes_before_the_search() {
    let relay = ensure_example("bridge-relay");
    for version in Version::ALL {
        let written = |file: &Path| std::fs::write(file, format!("{}\n", relay.display())).unwrap();
        let world = world(version, written);
        world.core.joined(0);
    }
    let plan = Plan::new(Version::Newest).without("PI_AGENTS_BIN");
    let bin = plan.sandbox().root().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    symlink(&relay, bin.join("pi-agents")).unwrap();
    let folder = plan.sandbox().config().join("pi-agents");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("program"), "/nowhere/pi-agents\n").unwrap();
    let (mut command, core, _model, pi) = plan.command();
    let path = format!("{}:{}", bin.display(), pi.install.node_dir.display());
    command.env("PATH", path);
    let _rpc = crate::support::rpc::Rpc::start(command);
    core.joined(0);
}
