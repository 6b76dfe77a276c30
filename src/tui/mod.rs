//! The screen: a viewer over `client::FleetClient`.
//!
//! `run` owns the loop: it reads input and news, lets `update` change the state, carries out the
//! effects and draws when something visible changed. It does not know how a core is started: the
//! caller gives it a [`Connector`]. The first frame is painted before anything is connected.

pub mod action;
pub mod app;
pub mod cards;
pub mod composer;
pub mod effect;
pub mod events;
pub mod frame;
pub mod keymap;
pub mod layout;
pub mod numbers;
pub mod overlays;
pub mod paint;
pub mod panes;
pub mod render;
pub mod rows;
pub mod settings;
pub mod terminal;
pub mod text;
pub mod theme;
pub mod update;
pub mod viewport;
pub mod widgets;
pub mod width;
pub mod wrap;

mod run;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub use app::Attempt;
pub use run::run;

use crate::client::{BoxFuture, Env, FleetClient, RequestError};

/// Makes a connection to a core: the first one, one more try, the demo, or again after a loss.
/// It is called on the screen's runtime, after the first frame.
pub type Connector = Arc<
    dyn Fn(Attempt) -> BoxFuture<'static, Result<Arc<dyn FleetClient>, StartProblem>> + Send + Sync,
>;

/// Why no core could be had, as the first-run screen shows it (screens.md §7).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartProblem {
    /// One line.
    pub title: String,
    /// What was looked at.
    pub checks: Vec<StartCheck>,
    /// The demo can be played.
    pub demo: bool,
    /// It makes sense to look again.
    pub again: bool,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartCheck {
    /// It is as it should be.
    pub ok: bool,
    /// What was found, one line.
    pub text: String,
    /// The exact commands that mend it, or advice, one line each.
    pub commands: Vec<String>,
}

/// How the screen is to be.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Environment for agents started here (R-LIFE-18).
    pub env: Env,
    /// Folder this is about, shown before the core says its own.
    pub folder: PathBuf,
    /// Home folder, written `~`.
    pub home: Option<PathBuf>,
    /// The core is ours: quitting stops it, or asks. `false` = quitting leaves it alone.
    pub owner: bool,
    /// Nothing spins.
    pub reduced_motion: bool,
    /// ASCII icons.
    pub ascii: bool,
    /// Model for new agents.
    pub model: Option<String>,
    /// Keys that differ from the defaults: action → keys.
    pub keys: BTreeMap<String, Vec<String>>,
    /// Source of a theme in Pi's format.
    pub theme: Option<String>,
    /// A lost core can be joined again through the connector.
    pub reconnects: bool,
}

/// How the screen ended. The terminal is restored in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// On purpose. The core was asked to end and did; so many agents were stopped.
    Quit {
        /// Live agents when it was decided.
        stopped: usize,
    },
    /// On purpose; the core goes on.
    Keep,
    /// On purpose, with nothing alive; the core goes on for others who look at it.
    Shared,
    /// The terminal went away. Nothing is stopped (R-LIFE-19).
    Detached,
    /// A signal. Nothing is stopped.
    Signal(i32),
    /// Quit after the core was lost.
    CoreLost,
    /// Quit before there was a core.
    NotStarted,
}

/// Why the screen could not be, or ended in disorder. The terminal is restored in every case.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// There is no terminal to draw on (B102). Nothing was written.
    #[error(transparent)]
    NoTerminal(#[from] terminal::NoTerminal),
    /// The configured keys are wrong.
    #[error("the keys of the configuration are wrong: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Keys(Vec<keymap::KeymapProblem>),
    /// The theme cannot be read.
    #[error("the theme cannot be read: {0}")]
    Theme(#[from] theme::ThemeError),
    /// The terminal could not be set up.
    #[error("the terminal could not be set up: {0}")]
    Terminal(#[source] std::io::Error),
    /// A thread panicked; its message is on the terminal.
    #[error("the screen ended by a fault of its own")]
    Panicked,
    /// The core did not stop its agents as it was told.
    #[error("not everything could be stopped: {0}")]
    Shutdown(RequestError),
}
