//! Every mode of Pi has the tools, and they work.

use rustix::process::Signal;
use serde_json::json;

use crate::support::model::Turn;
use crate::support::processes;
use crate::support::pty::Setup;
use crate::support::rpc::{Rpc, last_answer, message_text};
use crate::support::versions::Version;
use crate::support::wait;

use super::world::{SKILL, World, records};

// R-PI-01, R-TOOL-12: a print has the tools, and waits for its agent.
#[test]
fn a_print_lets_an_agent_work() {
    for version in Version::ALL {
        let world = World::new(version);
        world.counts(false);
        let output = world.run(&["-p", &format!("{SKILL} the whole")]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{version:?}: {output:?}");
        assert_eq!(text.trim(), "all done", "{version:?}");
        let results = world.results();
        assert!(results[0].starts_with("there are 42 files"), "{results:?}");
        let tools = world.model.requests()[0].tools();
        for name in ["agent_spawn", "agent_send", "agent_stop"] {
            let count = tools.iter().filter(|tool| *tool == name).count();
            assert_eq!(count, 1, "{version:?}: {name} in {tools:?}");
        }
        // R-PI-02: nothing of it is left.
        wait::wait_until("nothing runs", || world.pi.sandbox.processes().is_empty());
    }
}

// R-PI-01, R-DELIV-09: the same in JSON, where the records are all there is.
#[test]
fn json_lets_an_agent_work() {
    for version in Version::ALL {
        let world = World::new(version);
        world.counts(false);
        let output = world.run(&["--mode", "json", &format!("{SKILL} the whole")]);
        assert_eq!(output.status.code(), Some(0), "{version:?}: {output:?}");
        let records = records(&output.stdout);
        assert_eq!(message_text(last_answer(&records)), "all done");
        let end = records
            .iter()
            .find(|r| r["type"] == "tool_execution_end")
            .unwrap();
        assert_eq!(end["isError"], false, "{version:?}: {end}");
        assert_eq!(end["result"]["details"]["status"], "completed");
        let results = world.results();
        assert!(results[0].starts_with("there are 42 files"), "{results:?}");
        wait::wait_until("nothing runs", || world.pi.sandbox.processes().is_empty());
    }
}

// R-PI-17: where the process ends with its answer, a background agent ends with it, and that is said.
#[test]
fn a_background_agent_ends_with_a_process_that_answers_once() {
    for version in Version::ALL {
        for mode in [&["-p"][..], &["--mode", "json"]] {
            let world = World::new(version);
            world.model.on("count the files", [Turn::hang()]);
            world.counts(true);
            let task = format!("{SKILL} the whole");
            let output = world.run(&[mode, &[&task]].concat());
            assert_eq!(output.status.code(), Some(0), "{version:?}: {output:?}");
            let results = world.results();
            let told = "This process ends after its answer, and the agent ends with it";
            assert!(results[0].contains("@max has started"), "{results:?}");
            assert!(
                results[0].contains(told),
                "{version:?}, {mode:?}: {results:?}"
            );
            wait::wait_until("nothing runs", || world.pi.sandbox.processes().is_empty());
        }
    }
}

// R-PI-17: a session that goes on says nothing of the kind, and hears of its agent.
#[test]
fn rpc_has_the_tools_and_hears_of_its_agents() {
    for version in Version::ALL {
        let world = World::new(version);
        world.counts(true);
        world.model.on("the whole", [Turn::say("thank you")]);
        let mut rpc = Rpc::start(world.command(&["--mode", "rpc"]));
        rpc.run(&format!("{SKILL} the whole"));
        let results = world.results();
        assert!(!results[0].contains("ends after its answer"), "{results:?}");
        world.model.wait_request("the reply of the agent", |all| {
            let told = |r: &crate::support::model::Request| {
                let texts = r.texts("user");
                texts.iter().any(|t| t.contains("there are 42 files"))
            };
            all.iter()
                .any(|r| r.first_user_text().contains("the whole") && told(r))
                .then_some(())
        });
        rpc.close_stdin();
        assert_eq!(rpc.wait_exit().code(), Some(0), "{}", rpc.stderr());
        wait::wait_until("nothing runs", || world.pi.sandbox.processes().is_empty());
    }
}

// Signals and what the program is told by its parent are Pi's: pi-facts §1.
#[test]
fn exit_codes_are_pis_own() {
    for version in Version::ALL {
        let world = World::new(version);
        let output = world.run(&["--bogus-flag"]);
        assert_eq!(output.status.code(), Some(1));
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(err.contains("Unknown option: --bogus-flag"), "{err}");
        let output = world.run(&["--version"]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            (output.status.code(), said.trim()),
            (Some(0), version.number())
        );
        for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
            let mut rpc = Rpc::start(world.command(&["--mode", "rpc"]));
            rpc.request("get_state", json!({}));
            processes::signal(rpc.pid(), signal);
            let status = rpc.wait_exit();
            assert_eq!(status.code(), Some(code), "{version:?}");
        }
        wait::wait_until("nothing runs", || world.pi.sandbox.processes().is_empty());
    }
}

// R-PI-01: Pi's own screen in a real terminal.
#[test]
fn the_screen_has_the_tools_and_gives_the_terminal_back() {
    for version in Version::ALL {
        let world = World::new(version);
        world.counts(false);
        let mut terminal = Setup::new()
            .size(100, 30)
            .in_shell()
            .start(&world.command(&[]));
        terminal.wait_text("s1");
        terminal.keys(&format!("{SKILL} the whole<enter>"));
        terminal.wait_text("all done");
        let results = world.results();
        assert!(results[0].starts_with("there are 42 files"), "{results:?}");
        terminal.keys("<ctrl-d>");
        let report = terminal.shell_report();
        assert_eq!(report.code, "0");
        assert_eq!(report.before, report.after);
        wait::wait_until("nothing runs", || world.pi.sandbox.processes().is_empty());
    }
}
