//! What a person says to Pi beside it: installed copies, extensions and skills turned off, a Node
//! that is too old on the PATH.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::model::Turn;
use crate::support::versions::Version;

use super::world::{SKILL, World, records};

/// How often the parent was given the tool, and its skill told.
fn given(world: &World) -> (usize, usize) {
    let requests = world.model.requests();
    let parent = &requests[0];
    let tools = parent.tools();
    (
        tools.iter().filter(|name| *name == "agent_spawn").count(),
        parent
            .system_text()
            .matches("<name>pi-subagents-workflow</name>")
            .count(),
    )
}

// R-PI-18, design §6: installed for good as well, the bridge is there once.
#[test]
fn an_installed_copy_does_not_double_it() {
    for version in Version::ALL {
        let world = World::new(version);
        world.counts(false);
        let other = pi_agents::bridge::install(&world.pi.sandbox.data()).unwrap();
        let output = world.run(&["install", other.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{version:?}: {output:?}");
        let packages = world.pi.settings()["packages"].clone();
        assert_eq!(packages.as_array().map(Vec::len), Some(1), "{packages}");
        let output = world.run(&["--mode", "json", &format!("{SKILL} the whole")]);
        assert_eq!(output.status.code(), Some(0), "{version:?}: {output:?}");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!err.contains("conflict"), "{version:?}: {err}");
        assert_eq!(given(&world), (1, 1), "{version:?}");
        let records = records(&output.stdout);
        let ends = records.iter().filter(|r| r["type"] == "tool_execution_end");
        assert_eq!(
            ends.map(|r| r["isError"].clone()).collect::<Vec<Value>>(),
            [json!(false)]
        );
    }
}

// Pi's own words for it: discovery is off, what is named stays.
#[test]
fn without_extensions_the_bridge_is_the_only_one() {
    for version in Version::ALL {
        let world = World::new(version);
        world.counts(false);
        let installed = world.pi.sandbox.agent_dir().join("extensions");
        std::fs::create_dir_all(&installed).unwrap();
        std::fs::write(
            installed.join("other.ts"),
            "export default (pi) => { throw new Error(\"loaded\"); };",
        )
        .unwrap();
        let task = format!("{SKILL} the whole");
        let output = world.run(&["-p", &task]);
        assert_eq!(output.status.code(), Some(1), "{version:?}: {output:?}");
        for option in ["--no-extensions", "-ne"] {
            let output = world.run(&["-p", option, &task]);
            assert_eq!(output.status.code(), Some(0), "{version:?}: {output:?}");
            world.counts(false);
        }
        assert_eq!(given(&world), (1, 1), "{version:?}");
    }
}

// Who wants no skills gets none, ours included; the tools can still be asked for by name.
#[test]
fn without_skills_there_is_none_and_the_tools_come_by_name() {
    for version in Version::ALL {
        let world = World::new(version);
        world.model.on("nothing", [Turn::say("done")]);
        let output = world.run(&["-p", "--no-skills", "nothing of it"]);
        assert_eq!(output.status.code(), Some(0), "{version:?}: {output:?}");
        assert_eq!(given(&world), (0, 0), "{version:?}");

        let world = World::new(version);
        world.counts(false);
        let tools = "+agent_spawn,+agent_send,+agent_stop";
        let output = world.run(&["-p", "-ns", "--tools", tools, "the whole"]);
        assert_eq!(output.status.code(), Some(0), "{version:?}: {output:?}");
        assert_eq!(given(&world), (1, 0), "{version:?}");
        let results = world.results();
        assert!(results[0].starts_with("there are 42 files"), "{results:?}");
    }
}

// The tools that a person excludes stay away, whatever the skill says.
#[test]
fn an_excluded_tool_stays_away() {
    for version in Version::ALL {
        let world = World::new(version);
        world.model.on("the whole", [Turn::say("done")]);
        let task = format!("{SKILL} the whole");
        let output = world.run(&["-p", "--exclude-tools", "agent_spawn", &task]);
        assert_eq!(output.status.code(), Some(0), "{version:?}: {output:?}");
        assert_eq!(given(&world).0, 0, "{version:?}");
        assert!(
            world.model.requests()[0]
                .tools()
                .contains(&"agent_stop".to_owned())
        );
    }
}

// The good Node comes first also for what Pi starts itself (R-PI-06).
#[test]
fn a_node_that_is_too_old_is_passed_over() {
    let world = World::new(Version::Newest);
    world.counts(false);
    let bin = world.pi.sandbox.root().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let old = bin.join("node");
    std::fs::write(&old, "#!/bin/sh\necho v20.1.0\n").unwrap();
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = world.command(&["-p", &format!("{SKILL} the whole")]);
    let good = &world.pi.install.node_dir;
    let path = format!("{}:{}:/usr/bin:/bin", bin.display(), good.display());
    let output = command.env("PATH", path).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "all done");
}
