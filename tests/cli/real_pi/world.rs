//! `pi-agents pi` with a real Pi and a scripted model.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::core::PROGRAM;
use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{ModelServer, Turn};
use crate::support::versions::Version;

/// The beginning of a task that brings the tools into play (R-TOOL-12).
pub const SKILL: &str = "/skill:pi-subagents-workflow";

/// See the module.
pub struct World {
    pub pi: HermeticPi,
    pub model: ModelServer,
}

impl World {
    pub fn new(version: Version) -> Self {
        let model = ModelServer::start();
        let pi = HermeticPi::new(version, &model);
        Self { pi, model }
    }

    /// `pi-agents pi` with these arguments.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.pi.command(PROGRAM);
        command
            .arg("pi")
            .args(args)
            .env("PI_AGENTS_PI", self.pi.pi_command());
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The parent lets an agent count, and repeats what it said.
    pub fn counts(&self, background: bool) {
        let task = json!({"prompt": "count the files", "label": "a part", "run_in_background": background});
        self.model.on(
            "the whole",
            [Turn::call("agent_spawn", task), Turn::say("all done")],
        );
        self.model
            .on("count the files", [Turn::say("there are 42 files")]);
    }

    /// What the parent's last request holds as results of tools.
    pub fn results(&self) -> Vec<String> {
        let requests = self.model.requests();
        let mut parents = requests.iter().rev();
        let last = parents.find(|r| r.first_user_text().contains("the whole"));
        last.expect("the parent asked").tool_results()
    }
}

/// Records of Pi's JSON mode.
pub fn records(stdout: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(stdout).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}
