//! What is fixed for the life of a screen.

use std::path::PathBuf;

use crate::client::Env;

/// Fixed for the life of the screen.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Environment for agents started here.
    pub env: Env,
    /// The folder, shown until the core says its own.
    pub folder: PathBuf,
    /// The home folder, written `~`.
    pub home: Option<PathBuf>,
    /// Zone for times of day.
    pub zone: jiff::tz::TimeZone,
    /// Quitting stops the core.
    pub owner: bool,
    /// Nothing spins.
    pub still: bool,
    /// Model for new agents; `None` = Pi's default.
    pub model: Option<String>,
    /// A core that was lost can be reconnected.
    pub reconnects: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            env: Env::new(),
            folder: PathBuf::new(),
            home: None,
            zone: jiff::tz::TimeZone::UTC,
            owner: true,
            still: false,
            model: None,
            reconnects: false,
        }
    }
}
