//! Another extension that has a tool of ours (design §6, pi-facts §0): found beforehand where it can
//! be, and named where Pi ends for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pi_agents::fleet::agent::Status;
use pi_agents::supervisor::find_pi::{self, PiProblem};
use serde_json::{Value, json};

use crate::support::core::{Core, verb};
use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{ModelServer, Turn};
use crate::support::pty::Setup;
use crate::support::versions::Version;
use crate::support::wait;

use super::world::{SKILL, World};
use crate::cli::{ended, run};

/// An extension with these tools. It also writes down that a session began with it.
fn owner(tools: &[&str]) -> String {
    let tool = |name: &&str| {
        format!(
            "pi.registerTool({{ name: \"{name}\", label: \"x\", description: \"x\", \
             parameters: {{ type: \"object\", properties: {{}} }}, \
             execute: async () => ({{ content: [], details: {{}} }}) }});\n"
        )
    };
    let tools: String = tools.iter().map(tool).collect();
    format!(
        "import {{ writeFileSync }} from \"node:fs\";\nexport default function (pi) {{\n{tools}\
         pi.on(\"session_start\", () => writeFileSync(`${{process.env.TMPDIR}}/began`, \"\"));\n}}\n"
    )
}

/// Where an extension can come from.
#[derive(Clone, Copy, Debug)]
enum Place {
    Global,
    Project,
    Package,
    Setting,
}

const EVERYWHERE: [Place; 4] = [
    Place::Global,
    Place::Project,
    Place::Package,
    Place::Setting,
];

/// Puts it there; gives the file.
fn put(world: &World, from: Place, tools: &[&str]) -> PathBuf {
    let source = owner(tools);
    let write = |folder: PathBuf, name: &str| {
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(name);
        std::fs::write(&file, &source).unwrap();
        file
    };
    let sandbox = &world.pi.sandbox;
    let mut settings = world.pi.settings();
    let file = match from {
        Place::Global => write(sandbox.agent_dir().join("extensions"), "owns.ts"),
        Place::Project => {
            settings["defaultProjectTrust"] = json!("always");
            write(sandbox.work().join(".pi/extensions/owns"), "index.ts")
        }
        Place::Package => {
            let package = sandbox.root().join("package");
            let file = write(package.join("extensions"), "owns.js");
            let source = source_of(&file)
                .replace("export default function", "export default async function");
            std::fs::write(&file, source).unwrap();
            std::fs::write(
                package.join("package.json"),
                r#"{"name": "owner", "type": "module"}"#,
            )
            .unwrap();
            let output = world.run(&["install", package.to_str().unwrap()]);
            assert!(output.status.success(), "{output:?}");
            settings = world.pi.settings();
            file
        }
        Place::Setting => {
            let file = write(sandbox.home().join("mine"), "owns.ts");
            settings["extensions"] = json!([file.to_str().unwrap()]);
            file
        }
    };
    world.pi.write_settings(&settings);
    file
}

fn source_of(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap()
}

/// What doctor holds to be bad, each with its way out; and its exit code.
fn bad(world: &World) -> (i32, Vec<String>) {
    let output = verb(
        &world.pi,
        &["doctor", "--json", "--pi", &world.pi.pi_command()],
    );
    let (code, out, err) = ended(&output);
    assert_eq!(err, "");
    let value: Value = serde_json::from_str(&out).unwrap();
    let checks = value["checks"].as_array().unwrap();
    let bad = checks.iter().filter(|check| check["verdict"] == "bad");
    let text = |check: &Value| format!("{} {}", check["title"], check["fix"]);
    (code, bad.map(text).collect())
}

// R-OPS-02: wherever it is installed, and without a session of anybody.
#[test]
fn doctor_finds_the_owner_of_a_name_of_ours() {
    for (n, from) in EVERYWHERE.into_iter().enumerate() {
        let world = World::new(Version::ALL[n % 2]);
        let (code, found) = bad(&world);
        assert_eq!((code, found), (0, Vec::new()));
        let file = put(&world, from, &["agent_send", "other"]);
        let (code, found) = bad(&world);
        assert_eq!(code, 6, "{from:?}");
        assert_eq!(found.len(), 1, "{from:?}: {found:?}");
        for part in [
            "another extension has a tool named agent_send",
            file.to_str().unwrap(),
            "pi config",
        ] {
            assert!(found[0].contains(part), "{from:?}: {found:?}");
        }
        assert!(!world.pi.sandbox.tmp().join("began").exists(), "{from:?}");
        wait::wait_until("nothing runs", || world.pi.sandbox.processes().is_empty());
    }
}

#[test]
fn doctor_tells_what_stops_agents_from_what_stops_sessions() {
    for version in Version::ALL {
        let world = World::new(version);
        let file = put(&world, Place::Global, &["agent_spawn", "agent_stop"]);
        let (code, found) = bad(&world);
        assert_eq!((code, found.len()), (6, 1), "{found:?}");
        assert!(
            found[0].contains("tools named agent_spawn, agent_stop"),
            "{found:?}"
        );
        assert!(found[0].contains("other agents work"), "{found:?}");
        assert!(found[0].contains(file.to_str().unwrap()), "{found:?}");
        // And they do.
        world
            .model
            .on("count the files", [Turn::say("there are 42 files")]);
        let core = Core::start(&world.pi);
        let name = core.spawn("count the files");
        core.wait_agent(&name, "done", |a| a.runs_ended == 1);
        assert_eq!(core.texts(&name), ["there are 42 files"]);
    }
}

// Pi ends for an extension that does not load, whoever wrote it.
#[test]
fn doctor_names_an_extension_that_does_not_load() {
    for version in Version::ALL {
        let world = World::new(version);
        let folder = world.pi.sandbox.agent_dir().join("extensions");
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("broken.ts");
        std::fs::write(
            &file,
            "export default () => { throw new Error(\"no such luck\"); };",
        )
        .unwrap();
        let (code, found) = bad(&world);
        assert_eq!((code, found.len()), (6, 1), "{found:?}");
        for part in ["does not load", "broken.ts", "no such luck", "pi config"] {
            assert!(found[0].contains(part), "{found:?}");
        }
    }
}

// What is not trusted is not loaded: it is in nobody's way.
#[test]
fn an_owner_in_a_project_that_is_not_trusted_is_in_nobodys_way() {
    for version in Version::ALL {
        let world = World::new(version);
        put(&world, Place::Project, &["agent_send"]);
        let mut settings = world.pi.settings();
        settings["defaultProjectTrust"] = json!("never");
        world.pi.write_settings(&settings);
        assert_eq!(bad(&world), (0, Vec::new()));
        world.counts(false);
        let output = world.run(&["-p", &format!("{SKILL} the whole")]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        // With trust for this one time it is.
        let output = world.run(&["-p", "--approve", "the whole"]);
        assert_eq!(output.status.code(), Some(6), "{output:?}");
    }
}

// It is said before Pi is started, with the way out; and the way out works.
#[test]
fn pi_is_not_started_into_it() {
    for (n, from) in EVERYWHERE.into_iter().enumerate() {
        let world = World::new(Version::ALL[n % 2]);
        let file = put(&world, from, &["agent_stop"]);
        world.counts(false);
        let task = format!("{SKILL} the whole");
        let (code, out, err) = ended(&world.run(&["-p", &task]));
        assert_eq!((code, &*out), (6, ""), "{from:?}: {err}");
        let expected = format!(
            "pi-agents: another extension has a tool named agent_stop\n  It is {}\n",
            file.display()
        );
        assert!(err.starts_with(&expected), "{from:?}: {err}");
        assert!(err.contains("\n    pi config\n"), "{err}");
        assert!(
            err.contains("\n    PI_AGENTS_PI='pi --no-extensions' pi-agents pi\n"),
            "{err}"
        );
        let output = world.run(&["-p", "--no-extensions", &task]);
        assert_eq!(output.status.code(), Some(0), "{from:?}: {output:?}");
        let help = world.run(&["--help"]);
        assert_eq!(help.status.code(), Some(0), "{from:?}");
    }
}

// The way out holds for the agents as well: they are run by the same Pi with the same words.
#[test]
fn the_way_out_holds_for_the_agents_too() {
    for version in Version::ALL {
        let world = World::new(version);
        put(&world, Place::Global, &["agent_send", "agent_spawn"]);
        world.counts(false);
        let mut command = world.command(&["-p", &format!("{SKILL} the whole")]);
        let pi = format!("'{}' --no-extensions", world.pi.pi_command());
        let (code, out, err) = ended(&command.env("PI_AGENTS_PI", pi).output().unwrap());
        assert_eq!((code, out.trim()), (0, "all done"), "{version:?}: {err}");
        let results = world.results();
        assert!(results[0].starts_with("there are 42 files"), "{results:?}");
    }
}

// What cannot be seen beforehand is Pi's own error.
#[test]
fn what_hides_its_name_is_left_to_pi() {
    for version in Version::ALL {
        let world = World::new(version);
        let file = put(&world, Place::Global, &["agent_stop"]);
        let hidden =
            source_of(&file).replace("\"agent_stop\"", "[\"agent\", \"stop\"].join(\"_\")");
        std::fs::write(&file, hidden).unwrap();
        let (code, _, err) = ended(&world.run(&["-p", "the whole"]));
        assert_eq!(code, 1, "{err}");
        assert!(err.contains("Tool \"agent_stop\" conflicts with"), "{err}");
        // Doctor asks Pi, and is not deceived.
        assert_eq!(bad(&world).1.len(), 1);
    }
}

// A child that ends for it says which extension, which tool, what to do.
#[test]
fn an_agent_that_does_not_start_for_it_names_the_owner() {
    for version in Version::ALL {
        let world = World::new(version);
        let core = Core::start(&world.pi);
        let file = put(&world, Place::Global, &["agent_send"]);
        let (code, _, err) = run(&world.pi, &["spawn", "count the files"]);
        assert_eq!(code, 6, "{err}");
        let reason = format!(
            "another extension has a tool named agent_send; turn it off (pi config) or remove it: {}",
            file.display()
        );
        assert!(err.contains(&reason), "{version:?}: {err}");
        core.wait_agent("max", "the reason in its row", |row| {
            row.status
                == Status::Failed {
                    reason: reason.clone(),
                }
        });
    }
}

// The first screen: named before anything is started, checked again with `r`.
#[test]
fn the_first_screen_names_the_owner() {
    for version in Version::ALL {
        let world = World::new(version);
        let file = put(&world, Place::Global, &["agent_send"]);
        let mut command = world.pi.command(crate::support::core::PROGRAM);
        command.args(["--pi", &world.pi.pi_command()]);
        let mut terminal = Setup::new().size(100, 30).start(&command);
        terminal.wait_text("another extension has a tool named agent_send");
        terminal.wait_text(file.to_str().unwrap());
        terminal.wait_text("pi config");
        terminal.wait_text("r check again");
        std::fs::remove_file(&file).unwrap();
        terminal.keys("r");
        terminal.wait_text("type a task for a new agent");
        terminal.keys("<esc>q");
        assert!(terminal.exit_status().success());
    }
}

// The screen's own way out.
#[test]
fn the_first_screen_is_passed_without_extensions() {
    let world = World::new(Version::Newest);
    put(&world, Place::Global, &["agent_send"]);
    let mut command = world.pi.command(crate::support::core::PROGRAM);
    let pi = format!("'{}' --no-extensions", world.pi.pi_command());
    command.args(["--pi", &pi]);
    let mut terminal = Setup::new().size(100, 30).start(&command);
    terminal.wait_text("type a task for a new agent");
    terminal.keys("<esc>q");
    assert!(terminal.exit_status().success());
}

// Pi that does not answer, or is none, is no answer about extensions.
#[test]
fn a_pi_that_cannot_be_asked_is_no_finding() {
    let model = ModelServer::start();
    let pi = HermeticPi::new(Version::Newest, &model);
    let env = pi.env();
    let mut found = find_pi::find(Some(&pi.pi_command()), &env).unwrap();
    let bridge = pi_agents::bridge::install(&pi.sandbox.cache()).unwrap();
    let limit = Duration::from_millis(1);
    let ask = |found: &find_pi::PiFound, limit| {
        find_pi::ask_for_clashes_within(found, &env, &pi.work(), &bridge, &[], limit)
    };
    let error = ask(&found, limit).unwrap_err();
    assert!(error.to_string().contains("did not end"), "{error}");
    found.argv = vec!["/bin/true".into()];
    assert!(ask(&found, find_pi::LOAD_TIMEOUT).is_err());
    found.argv = vec!["/nowhere".into()];
    assert!(ask(&found, find_pi::LOAD_TIMEOUT).is_err());
    wait::wait_until("nothing runs", || pi.sandbox.processes().is_empty());
}

// One problem for each extension, in words for both ways of choosing Pi.
#[test]
fn two_owners_are_both_named() {
    let world = World::new(Version::Newest);
    let first = put(&world, Place::Global, &["agent_spawn"]);
    let second = put(&world, Place::Setting, &["agent_stop", "agent_send"]);
    let env = world.pi.env();
    let found = find_pi::find(Some(&world.pi.pi_command()), &env).unwrap();
    let bridge = pi_agents::bridge::install(&world.pi.sandbox.cache()).unwrap();
    let work = world.pi.work();
    let problems = find_pi::ask_for_clashes(&found, &env, &work, &bridge, &[]).unwrap();
    let owners: Vec<_> = problems
        .iter()
        .map(|problem| match problem {
            PiProblem::SameTool { extension, tools } => (extension.clone(), tools.len()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(owners.len(), 2, "{problems:?}");
    assert!(owners.contains(&(first.clone(), 1)) && owners.contains(&(second.clone(), 2)));
    let (code, _, err) = ended(&world.run(&["-p", "the whole"]));
    assert_eq!(code, 6);
    assert!(
        err.contains(first.to_str().unwrap()) && err.contains(second.to_str().unwrap()),
        "{err}"
    );
}
