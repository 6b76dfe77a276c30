//! How deep agents may go (R-ID-03, R-ID-07): what a person wishes, and what children are given of it.

use serde_json::json;

use crate::support::core::{Core, verb};
use crate::support::model::Turn;
use crate::support::rpc::Rpc;
use crate::support::versions::Version;

use super::world::{SKILL, World};
use crate::cli::ended;

/// The wish in its two places: a variable of the root, the file.
fn wish(world: &World, n: usize) -> Vec<(&'static str, &'static str)> {
    if n == 0 {
        return vec![("PI_SUBAGENT_MAX_DEPTH", "3")];
    }
    let folder = world.pi.sandbox.config().join("pi-agents");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), "[agents]\nmax_depth = 3\n").unwrap();
    Vec::new()
}

/// What a child that would like to start an agent is given, and what its shell is told.
fn child_of_the_whole(world: &World) -> (Vec<String>, String) {
    world.model.on(
        "count the files",
        [
            Turn::call(
                "bash",
                json!({"command": "env | grep ^PI_SUBAGENT | sort | tr '\\n' ' '"}),
            ),
            Turn::say("there are 42 files"),
        ],
    );
    let output = "PI_SUBAGENT_AGENT_ID=max PI_SUBAGENT_DEPTH=1 PI_SUBAGENT_MAX_DEPTH=1";
    let last = world
        .model
        .wait_request("the child's second request", |all| {
            let mut of_child = all
                .iter()
                .filter(|r| r.first_user_text().contains("count the files"));
            of_child.nth(1).cloned()
        });
    let results = last.tool_results();
    assert!(results[0].starts_with(output), "{results:?}");
    (last.tools(), last.system_text())
}

// R-ID-07, R-TOOL-06: a wish for more is noted, and no child is offered what it cannot do.
#[test]
fn a_wish_for_more_levels_promises_nothing() {
    for (n, version) in Version::ALL.into_iter().enumerate() {
        let world = World::new(version);
        let env = wish(&world, n);
        let task = json!({"prompt": "count the files", "label": "a part"});
        world.model.on(
            "the whole",
            [Turn::call("agent_spawn", task), Turn::say("all done")],
        );
        let mut command = world.command(&["--mode", "rpc"]);
        command.envs(env);
        let mut rpc = Rpc::start(command);
        let parent = rpc.send("prompt", json!({"message": format!("{SKILL} the whole")}));
        let (tools, system) = child_of_the_whole(&world);
        rpc.response(&parent);
        rpc.wait_settled(0);
        assert!(tools.contains(&"agent_send".to_owned()), "{tools:?}");
        assert!(
            !tools.contains(&"agent_spawn".to_owned()),
            "{version:?}: {tools:?}"
        );
        assert!(
            !tools.contains(&"agent_stop".to_owned()),
            "{version:?}: {tools:?}"
        );
        assert!(!system.contains("pi-subagents-workflow"), "{version:?}");
        let results = world.results();
        assert!(results[0].starts_with("there are 42 files"), "{results:?}");
    }
}

// R-ID-07: the same for the agents of a person.
#[test]
fn a_persons_core_notes_it_too() {
    let world = World::new(Version::Newest);
    let core = Core::start_with(&world.pi, &[("PI_SUBAGENT_MAX_DEPTH", "2")]);
    let name = core.spawn("count the files");
    let (tools, _) = child_of_the_whole(&world);
    assert!(!tools.contains(&"agent_spawn".to_owned()), "{tools:?}");
    core.wait_agent(&name, "done", |a| a.runs_ended == 1);
    core.shutdown();
}

// R-ID-07: a limit that makes no sense is an error of the tool that names the variable; Pi goes on.
#[test]
fn a_limit_that_makes_no_sense_is_named() {
    for (version, limit) in Version::ALL.into_iter().zip(["deep", "0"]) {
        let world = World::new(version);
        world.counts(false);
        // Said at once where nothing has to be started first.
        let mut command = world.command(&["-p", "x"]);
        let output = command
            .env("PI_SUBAGENT_MAX_DEPTH", limit)
            .output()
            .unwrap();
        let (code, _, err) = ended(&output);
        assert_eq!(code, 2, "{err}");
        assert!(
            err.contains("PI_SUBAGENT_MAX_DEPTH") && err.contains(limit),
            "{err}"
        );
        // A Pi that has the bridge by itself.
        let package = pi_agents::bridge::install(&world.pi.sandbox.cache()).unwrap();
        let mut command = world.pi.command(&world.pi.install.pi);
        command
            .args(["-p", &format!("{SKILL} the whole"), "-e"])
            .arg(package)
            .env("PI_AGENTS_BIN", crate::support::core::PROGRAM)
            .env("PI_SUBAGENT_MAX_DEPTH", limit);
        let (code, out, _) = ended(&command.output().unwrap());
        assert_eq!((code, out.trim()), (0, "all done"), "{version:?}");
        let results = world.results();
        assert!(results[0].contains("PI_SUBAGENT_MAX_DEPTH"), "{results:?}");
    }
}

// R-OPS-02: it is not silently less than what was asked for.
#[test]
fn doctor_says_what_becomes_of_it() {
    let world = World::new(Version::Newest);
    for (limit, note) in [("1", false), ("3", true)] {
        let mut command = world.pi.command(crate::support::core::PROGRAM);
        command
            .args(["doctor", "--pi", &world.pi.pi_command()])
            .env("PI_SUBAGENT_MAX_DEPTH", limit);
        let (code, out, _) = ended(&command.output().unwrap());
        assert_eq!(code, 0, "{out}");
        assert_eq!(
            out.contains("agents.max_depth is 3 and works as 1"),
            note,
            "{out}"
        );
    }
    let (code, ..) = ended(&verb(
        &world.pi,
        &["doctor", "--pi", &world.pi.pi_command()],
    ));
    assert_eq!(code, 0);
}
