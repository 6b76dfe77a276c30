//! Whose environment an agent has, and what its shell can do with it.

use std::os::unix::ffi::OsStringExt;

use pi_agents::client::{EnvText, EnvVar, Request as Asked};
use pi_agents::fleet::agent::Status;
use serde_json::json;

use super::kit::{Lead, named};
use crate::support::model::Turn;
use crate::support::versions::Version;

// R-ID-08, R-Q-03: the shell of an agent has no proof of who it is, and a Pi in it is nobody: it has no tools of
// ours and cannot speak for the agent.
#[test]
fn a_pi_in_the_shell_of_an_agent_is_not_the_agent() {
    for version in Version::ALL {
        let mut lead = Lead::start(version);
        let package = pi_agents::bridge::install(&lead.parent.pi.sandbox.cache()).unwrap();
        let inner = format!(
            "env | grep -E '^(PI_AGENTS_TOKEN|PI_AGENTS_SOCKET)=' ; echo who $PI_SUBAGENT_AGENT_ID; \
             {} -p --extension {} --tools bash,agent_spawn,agent_send,agent_stop 'inner work' < /dev/null",
            lead.parent.pi.pi_command(),
            package.display()
        );
        lead.agent(
            "part one",
            [
                Turn::call("bash", json!({"command": inner})),
                Turn::say("it said so"),
            ],
        );
        lead.agent(
            "inner work",
            [
                Turn::call(
                    "agent_send",
                    json!({"to": "@parent", "message": "let me in?"}),
                ),
                Turn::say("inner done"),
            ],
        );
        lead.spawns("part one");
        let told = lead.wait_told(1);
        assert_eq!(told[0]["result"], "it said so");
        let of_agent = lead.parent.asked("part one");
        assert_eq!(
            of_agent[1].tool_results(),
            ["who max\ninner done\n"],
            "{version:?}"
        );
        let of_inner = lead.parent.asked("inner work");
        assert_eq!(of_inner[0].tools(), ["bash"], "{version:?}");
        assert!(!of_inner[0].system_text().contains("pi-subagents-workflow"));
        assert!(
            of_inner[1].tool_results()[0].contains("not found"),
            "{version:?}: {:?}",
            of_inner[1].tool_results()
        );
        lead.stays_quiet();
        assert_eq!(
            lead.told().len(),
            1,
            "{version:?}: nothing reached the parent"
        );
        assert_eq!(lead.row("zoe"), None);
    }
}

/// Changes Pi's own environment with each prompt, long after its core was started.
const CHANGES: &str = r#"
let prompts = 0;
export default function (pi) {
	pi.on("input", () => {
		prompts += 1;
		process.env.LATE = `after ${prompts}`;
		delete process.env.GONE;
	});
}
"#;

/// Variables a process began with.
fn environ(pid: u32) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    bytes.split(|b| *b == 0).map(<[u8]>::to_vec).collect()
}

// R-LIFE-18: an agent has the environment that its parent's Pi has when it asks: not the core's, and not that of
// a person who brings it back.
#[test]
fn an_agent_has_the_environment_of_its_parent() {
    for version in Version::ALL {
        let raw = std::ffi::OsString::from_vec(vec![b'a', 0xff, b'z']);
        let mut lead = Lead::open(version, |pi, command| {
            let path = pi.sandbox.root().join("changes.ts");
            std::fs::write(&path, CHANGES).unwrap();
            command
                .arg("--extension")
                .arg(path)
                .env("GONE", "there")
                .env("RAW", &raw)
                .env("WHOSE", "the host's");
        });
        // Its core is there and has what Pi began with.
        lead.row("max");
        lead.agent(
            "part one",
            [Turn::say("one"), Turn::say("two"), Turn::say("three")],
        );
        let seen = |lead: &Lead| {
            let pid = lead
                .wait_row("max", "idle", |a| a.status == Status::Idle)
                .pid;
            environ(pid.unwrap())
        };
        let value = |all: &[Vec<u8>], name: &str| {
            let prefix = format!("{name}=").into_bytes();
            let mut found = all.iter().filter(|v| v.starts_with(&prefix));
            let one = found.next().map(|v| v[prefix.len()..].to_vec());
            assert!(found.next().is_none(), "{name} stands there twice");
            one.map(|v| String::from_utf8_lossy(&v).into_owned())
        };
        let text = |t: &str| Some(t.to_owned());
        lead.spawns("part one");
        lead.wait_told(1);
        let all = seen(&lead);
        assert_eq!(value(&all, "LATE"), text("after 1"), "{version:?}");
        assert_eq!(value(&all, "GONE"), None, "{version:?}");
        assert_eq!(value(&all, "WHOSE"), text("the host's"));
        assert!(
            all.contains(&b"RAW=a\xffz".to_vec()),
            "bytes that are no text"
        );
        assert!(!lead.stops("max").error);
        assert!(!lead.sends("max", "again").error);
        let told = lead.wait_told(2);
        assert_eq!(told[1]["result"], "two");
        let all = seen(&lead);
        assert_ne!(
            value(&all, "LATE"),
            text("after 1"),
            "{version:?}: as it is now"
        );
        assert_eq!(value(&all, "GONE"), None, "{version:?}");
        assert!(!lead.stops("max").error);
        // A person brings it back.
        let var = |name: &str, value: &str| EnvVar {
            name: EnvText::Text(name.to_owned()),
            value: EnvText::Text(value.to_owned()),
        };
        let send = Asked::Send {
            agent: named("max"),
            text: "hello".to_owned(),
            env: vec![var("WHOSE", "a viewer's"), var("OF_A_VIEWER", "x")],
        };
        lead.asks_core(send).unwrap();
        let all = seen(&lead);
        assert_eq!(value(&all, "WHOSE"), text("the host's"), "{version:?}");
        assert_eq!(value(&all, "OF_A_VIEWER"), None, "{version:?}");
        assert_eq!(
            value(&all, "GONE"),
            None,
            "{version:?}: not what Pi began with"
        );
        assert!(value(&all, "LATE").is_some(), "{version:?}");
    }
}
