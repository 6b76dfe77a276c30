//! Everything together: a real Pi with the bridge, the real core, real Pis as its agents. What a
//! model received is read from the model server.

mod background;
mod branches;
mod dropping;
mod foreground;
mod hung_core;
mod killed;
mod kit;
mod look;
mod messages;
mod print;
mod progress;
mod questions;
mod refusals;
mod replaced;
mod revival;
mod secrets;
mod side_chat;
mod stops;
mod together;
mod told;

use std::process::Command;

use serde_json::{Value, json};

use crate::support::core::PROGRAM;
use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{ModelServer, Request};
use crate::support::rpc::Rpc;
use crate::support::versions::Version;

/// A real Pi with the bridge and the real core behind it.
pub(crate) struct Parent {
    pub(crate) rpc: Rpc,
    /// The model of the parent and of its agents.
    pub(crate) model: ModelServer,
    pub(crate) pi: HermeticPi,
}

impl Parent {
    pub(crate) fn start(version: Version) -> Self {
        Self::with(version, &[])
    }

    pub(crate) fn with(version: Version, env: &[(&str, &str)]) -> Self {
        Self::open(version, |_, command| {
            command.envs(env.iter().copied());
        })
    }

    /// With arguments, variables, or files of its own.
    pub(crate) fn open(version: Version, set: impl FnOnce(&HermeticPi, &mut Command)) -> Self {
        let model = ModelServer::start();
        let pi = HermeticPi::new(version, &model);
        let command = Self::command(&pi, set);
        Self {
            rpc: Rpc::start(command),
            model,
            pi,
        }
    }

    fn command(pi: &HermeticPi, set: impl FnOnce(&HermeticPi, &mut Command)) -> Command {
        Self::command_in(pi, &["--mode", "rpc"], set)
    }

    /// The command of a parent in one of Pi's modes.
    pub(crate) fn command_in(
        pi: &HermeticPi,
        mode: &[&str],
        set: impl FnOnce(&HermeticPi, &mut Command),
    ) -> Command {
        let package = pi_agents::bridge::install(&pi.sandbox.cache()).unwrap();
        let mut command = pi.command(&pi.install.pi);
        command
            .args(mode)
            .arg("--extension")
            .arg(package)
            .env("PI_AGENTS_BIN", PROGRAM)
            .env("PI_AGENTS_PI", pi.pi_command());
        set(pi, &mut command);
        command
    }

    /// Requests to the model that are the parent's: they carry this text of the user.
    pub(crate) fn asked(&self, marker: &str) -> Vec<Request> {
        let mut requests = self.model.requests();
        requests.retain(|r| r.first_user_text().contains(marker));
        requests
    }

    /// The results of agents among what a request holds.
    pub(crate) fn replies(request: &Request) -> Vec<Value> {
        let texts = request.texts("user");
        texts
            .iter()
            .filter_map(|text| serde_json::from_str::<Value>(text).ok())
            .filter(|value| value["kind"] == "final_reply")
            .collect()
    }
}

/// What `agent_spawn` is called with.
pub(crate) fn spawn(prompt: &str, background: bool) -> Value {
    json!({"prompt": prompt, "label": "a part", "run_in_background": background})
}
