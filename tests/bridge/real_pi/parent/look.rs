//! Looking at a world with a real parent from outside: its processes, its files, its viewers.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pi_agents::client::{AgentRef, FleetClient, Reply, Request, RequestError};
use pi_agents::control::client::connect;
use pi_agents::control::protocol::Role;
use serde_json::Value;

use super::Parent;
use crate::support::processes::Process;
use crate::support::sandbox::Sandbox;
use crate::support::wait;

/// A viewer of the core of a session, and what it was shown so far.
pub(crate) struct Viewer {
    _runtime: tokio::runtime::Runtime,
    shown: Arc<Mutex<String>>,
}

impl Viewer {
    #[track_caller]
    pub(crate) fn wait_shows(&self, text: &str) {
        wait::wait_until(&format!("a viewer to see {text}"), || {
            self.shown.lock().unwrap().contains(text)
        });
    }
}

impl Parent {
    /// Processes of its agents, and what those started.
    pub(crate) fn all_agents(&self) -> Vec<Process> {
        agents_of(&self.pi.sandbox)
    }

    /// Waits until nothing of that agent lives.
    #[track_caller]
    pub(crate) fn wait_ended(&self, name: &str) {
        wait::wait_for_or(
            &format!("nothing of @{name} to live"),
            || self.agents(name).is_empty().then_some(()),
            || {
                let left: Vec<_> = self.all_agents().iter().map(ToString::to_string).collect();
                left.join("\n")
            },
        );
    }

    /// The cores that run.
    pub(crate) fn cores(&self) -> Vec<Process> {
        let mut found = self.pi.sandbox.processes();
        found.retain(|process| {
            let has = |word: &str| process.args.iter().any(|arg| arg == word);
            has("serve") && has("--core")
        });
        found
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let mut found = files(&self.pi.sandbox.runtime());
        found.retain(|path| path.extension().is_some_and(|e| e == "sock"));
        found
    }

    /// Records of its agents.
    pub(crate) fn records_on_disk(&self) -> Vec<Value> {
        let folder = self.pi.sandbox.state().join("pi-agents/session-agents");
        let read = |path: PathBuf| serde_json::from_slice(&std::fs::read(path).ok()?).ok();
        files(&folder).into_iter().filter_map(read).collect()
    }

    /// Session files of its agents.
    pub(crate) fn agent_sessions(&self) -> Vec<PathBuf> {
        let mut found = files(&self.pi.sandbox.data());
        found.retain(|path| path.extension().is_some_and(|e| e == "jsonl"));
        found
    }

    /// What a person asks of the core of this session, as a viewer does.
    pub(crate) fn ask(&self, request: Request) -> Result<Reply, RequestError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        // A core that was killed leaves its socket behind.
        let client = wait::wait_for("a core that answers", || {
            let mut sockets = self.sockets().into_iter();
            sockets.find_map(|socket| runtime.block_on(connect(&socket, Role::Viewer)).ok())
        });
        runtime.block_on(Arc::new(client).request(request))
    }

    /// Somebody who looks on.
    pub(crate) fn viewer(&self) -> Viewer {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let client = wait::wait_for("a core that answers", || {
            let mut sockets = self.sockets().into_iter();
            sockets.find_map(|socket| runtime.block_on(connect(&socket, Role::Viewer)).ok())
        });
        let shown = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&shown);
        runtime.spawn(async move {
            while let Some(updates) = client.updates().await {
                seen.lock().unwrap().push_str(&format!("{updates:?}"));
            }
        });
        Viewer {
            _runtime: runtime,
            shown,
        }
    }

    /// A person stops an agent.
    pub(crate) fn person_stops(&self, name: &str) {
        let agent = AgentRef::Name(name.to_owned());
        self.ask(Request::Stop { agent }).unwrap();
    }

    /// Puts an extension where every Pi of this world finds it.
    pub(crate) fn extension(agent_dir: &Path, name: &str, source: &str) {
        let folder = agent_dir.join("extensions");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), source).unwrap();
    }

    /// Sends a prompt with which the tools become active.
    #[track_caller]
    pub(crate) fn begin(&mut self, text: &str) {
        let response = self
            .rpc
            .prompt(&format!("/skill:pi-subagents-workflow {text}"));
        assert_eq!(response["success"], true, "{response}");
    }

    /// The ends of tool calls so far.
    pub(crate) fn ends(&self) -> Vec<Value> {
        let mut records = self.rpc.records();
        records.retain(|r| r["type"] == "tool_execution_end");
        records
    }
}

/// Processes of agents, and what those started.
pub(crate) fn agents_of(sandbox: &Sandbox) -> Vec<Process> {
    let mut found = sandbox.processes();
    found.retain(|process| {
        let environ = std::fs::read(format!("/proc/{}/environ", process.pid));
        environ.is_ok_and(|e| memchr::memmem::find(&e, b"\0PI_SUBAGENT_AGENT_ID=").is_some())
    });
    found
}

/// All files below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found
}
