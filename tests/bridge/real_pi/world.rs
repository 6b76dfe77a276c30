//! A Pi with the bridge, a scripted core and a scripted model.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::bridge::scripted_core::{Connection, Script, ScriptedCore, content};
use crate::support::example::ensure_example;
use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{ModelServer, Request};
use crate::support::rpc::Rpc;
use crate::support::versions::Version;

/// See the module.
pub struct World {
    /// Pi.
    pub rpc: Rpc,
    /// The core.
    pub core: ScriptedCore,
    /// The model.
    pub model: ModelServer,
    /// Its folders.
    pub pi: HermeticPi,
}

/// What is about to be started.
pub struct Plan {
    pi: HermeticPi,
    model: ModelServer,
    script: Script,
    args: Vec<String>,
    env: Vec<(String, String)>,
    /// `None` = Pi's own screen.
    mode: Option<&'static str>,
}

impl Plan {
    /// A Pi of that version with the bridge of this program.
    pub fn new(version: Version) -> Self {
        let model = ModelServer::start();
        let pi = HermeticPi::new(version, &model);
        let package = pi_agents::bridge::install(&pi.sandbox.cache()).unwrap();
        let relay = ensure_example("bridge-relay");
        let plan = Self {
            pi,
            model,
            script: Script::default(),
            args: Vec::new(),
            env: Vec::new(),
            mode: Some("rpc"),
        };
        plan.env("PI_AGENTS_BIN", relay.to_str().unwrap())
            .extension(&package)
    }

    /// With a core of this kind.
    pub fn script(mut self, script: Script) -> Self {
        self.script = script;
        self
    }

    /// With another argument.
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// With another extension.
    pub fn extension(self, path: &Path) -> Self {
        self.arg("--extension").arg(path.to_str().unwrap())
    }

    /// With an extension of this source.
    pub fn source(self, name: &str, source: &str) -> Self {
        let path = self.pi.sandbox.root().join(name);
        std::fs::write(&path, source).unwrap();
        self.extension(&path)
    }

    /// With a variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Without a variable.
    pub fn without(mut self, name: &str) -> Self {
        self.env.retain(|(there, _)| there != name);
        self
    }

    /// In another of Pi's modes.
    pub fn mode(mut self, mode: &'static str) -> Self {
        self.mode = Some(mode);
        self
    }

    /// In Pi's own screen.
    pub fn screen(mut self) -> Self {
        self.mode = None;
        self
    }

    /// Its folders.
    pub fn sandbox(&self) -> &crate::support::sandbox::Sandbox {
        &self.pi.sandbox
    }

    /// Where the core will listen.
    pub fn socket(&self) -> PathBuf {
        self.pi.sandbox.runtime().join("core")
    }

    /// The command, and the core it will find.
    pub fn command(self) -> (Command, ScriptedCore, ModelServer, HermeticPi) {
        let core = ScriptedCore::start(&self.pi.sandbox.runtime(), self.script);
        let mut command = self.pi.command(&self.pi.install.pi);
        command
            .args(self.mode.map(|mode| ["--mode", mode]).into_iter().flatten())
            .args(&self.args)
            .env("PI_AGENTS_TEST_CORE", core.socket())
            .envs(self.env);
        (command, core, self.model, self.pi)
    }

    /// Starts it.
    pub fn start(self) -> World {
        let (command, core, model, pi) = self.command();
        World {
            rpc: Rpc::start(command),
            core,
            model,
            pi,
        }
    }
}

impl World {
    /// A Pi of that version with a core that works, connected.
    pub fn joined(version: Version) -> (Self, Arc<Connection>) {
        let world = Plan::new(version).start();
        let connection = world.core.joined(0);
        (world, connection)
    }

    /// Entries of the session file.
    pub fn saved(&mut self) -> Vec<Value> {
        let state = self.rpc.request("get_state", json!({}));
        let path = state["data"]["sessionFile"].as_str().unwrap();
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// Which of these deliveries a request to the model carries, in its order. Also proves that the text
/// is the exact one.
pub fn deliveries(request: &Request, ids: &[&str]) -> Vec<String> {
    let texts = request.texts("user");
    let of = |text: &String| {
        let mut all = ids.iter();
        all.find(|id| *text == content(id))
            .map(|id| (*id).to_owned())
    };
    texts.iter().filter_map(of).collect()
}
