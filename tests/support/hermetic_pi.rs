//! A real Pi that knows nothing of this machine: a [`Sandbox`], a pinned installation, and a
//! scripted model as its only provider.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use serde_json::{Value, json};

use super::model::ModelServer;
use super::pi_install::{PiInstall, real_pi};
use super::rpc::Rpc;
use super::sandbox::Sandbox;
use super::versions::Version;
use super::watchdog;

/// Name of the scripted provider in Pi's `models.json`.
pub const PROVIDER: &str = "scripted";

/// A model that thinks: the default.
pub const MODEL: &str = "scripted/s1";

/// A model that does not.
pub const PLAIN_MODEL: &str = "scripted/s2";

/// See the module.
pub struct HermeticPi {
    /// Its folders and mark.
    pub sandbox: Sandbox,
    /// Which Pi.
    pub install: PiInstall,
    _permit: Arc<Permit>,
}

impl HermeticPi {
    /// A Pi of that version that asks `model`. Holds one of the four permits for real Pis.
    pub fn new(version: Version, model: &ModelServer) -> Self {
        let install = real_pi(version);
        let permit = limit_pis();
        let pi = Self {
            sandbox: Sandbox::new(),
            install,
            _permit: permit,
        };
        pi.write("models.json", &models(&model.base_url()));
        // The default waits 2, 4 and 8 s between tries.
        pi.write_settings(&json!({
            "defaultProvider": PROVIDER,
            "defaultModel": "s1",
            "retry": {"baseDelayMs": 20},
            "quietStartup": true,
        }));
        pi
    }

    /// Replaces Pi's settings.
    pub fn write_settings(&self, settings: &Value) {
        self.write("settings.json", settings);
    }

    /// Pi's settings now.
    pub fn settings(&self) -> Value {
        let text = std::fs::read(self.sandbox.agent_dir().join("settings.json")).expect("settings");
        serde_json::from_slice(&text).expect("settings are JSON")
    }

    fn write(&self, name: &str, value: &Value) {
        let path = self.sandbox.agent_dir().join(name);
        std::fs::write(path, value.to_string()).expect("Pi's folder can be written");
    }

    /// The whole environment; PATH starts with the good Node. Use after `env_clear`.
    pub fn env(&self) -> Vec<(OsString, OsString)> {
        self.sandbox.env(Some(&self.install.node_dir))
    }

    /// What to give to `--pi`.
    pub fn pi_command(&self) -> String {
        self.install
            .pi
            .to_str()
            .expect("cache path is UTF-8")
            .into()
    }

    /// Where agents work.
    pub fn work(&self) -> PathBuf {
        self.sandbox.work()
    }

    /// A command of this world: nothing inherited, in the work folder.
    pub fn command(&self, program: impl Into<OsString>) -> Command {
        let mut command = Command::new(program.into());
        command
            .env_clear()
            .envs(self.env())
            .current_dir(self.work());
        command
    }

    /// Starts `pi --mode rpc` with more arguments, over pipes.
    pub fn rpc(&self, args: &[&str]) -> Rpc {
        let mut command = self.command(&self.install.pi);
        command.args(["--mode", "rpc"]).args(args);
        Rpc::start(command)
    }
}

fn models(base_url: &str) -> Value {
    let model = |id: &str, name: &str, reasoning: bool| {
        json!({
            "id": id,
            "name": name,
            "reasoning": reasoning,
            "input": ["text"],
            "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75},
            "contextWindow": 128_000,
            "maxTokens": 8192,
        })
    };
    json!({"providers": {PROVIDER: {
        "baseUrl": base_url,
        "api": "openai-completions",
        "apiKey": "dummy",
        "models": [model("s1", "Scripted One", true), model("s2", "Scripted Two", false)],
    }}})
}

/// How many tests with real Pis run at a time: each is a Node process with a third of a second
/// of start-up.
pub const PERMITS: usize = 4;

static FREE: Mutex<usize> = Mutex::new(PERMITS);
static FREED: Condvar = Condvar::new();

thread_local! {
    static MINE: std::cell::RefCell<Weak<Permit>> = const { std::cell::RefCell::new(Weak::new()) };
}

/// One of the permits; given back when dropped.
pub struct Permit(());

/// Waits for a permit. A test that holds one already gets the same again, so that two Pis in one
/// test cannot wait for each other.
pub fn limit_pis() -> Arc<Permit> {
    if let Some(mine) = MINE.with_borrow(Weak::upgrade) {
        return mine;
    }
    let pause = watchdog::paused();
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    while *free == 0 {
        free = FREED.wait(free).unwrap_or_else(PoisonError::into_inner);
    }
    *free -= 1;
    drop(free);
    drop(pause);
    let permit = Arc::new(Permit(()));
    MINE.set(Arc::downgrade(&permit));
    permit
}

impl Drop for Permit {
    fn drop(&mut self) {
        *FREE.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        FREED.notify_one();
    }
}
