//! What the other extensions of a Pi session add to the launch of a child (R-PI-04): asked for before
//! the machine hears of a new agent, so that a rejected call has done nothing (R-TOOL-07); kept in
//! memory until the launch and no longer; taken out of what a child that fails at its start says.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use tokio::sync::oneshot;

use super::actor::{Actor, Event};
use super::progress::Origin;
use super::start::{LaunchAnswer, contributions};
use crate::client::host::Contributions;
use crate::client::{ErrorCode, Reply, RequestError};
use crate::fleet::history::Asked;
use crate::fleet::ids::{CallId, InstanceId};
use crate::fleet::machine::Input;

/// A request that was checked on disk and may enter the machine.
pub struct Checked {
    /// The request as an input.
    pub(super) input: Input,
    /// The same before defaults were filled in.
    pub(super) asked: Box<Asked>,
    /// The tool call it came from.
    pub(super) origin: Option<Origin>,
    /// Tools that the session does not know: refused, unless an extension that the launch brings along
    /// may have them (R-PI-10).
    pub(super) unknown: Option<RequestError>,
    /// Who asked.
    pub(super) call: CallId,
    /// The way back.
    pub(super) reply: oneshot::Sender<Result<Reply, RequestError>>,
}

/// Answers that wait for their launch.
#[derive(Default)]
pub(super) struct Extras(HashMap<InstanceId, Contributions>);

impl Extras {
    /// The answer for this process, as one that has just come. `None` = nobody was asked yet.
    pub(super) fn take(&mut self, instance: InstanceId) -> Option<LaunchAnswer> {
        let extra = self.0.remove(&instance)?;
        let (reply, answer) = oneshot::channel();
        let _ = reply.send(Ok(extra));
        Some(answer)
    }
}

impl Actor {
    /// Asks the session what its other extensions add, if a session asked for this agent.
    pub(super) fn checked(&mut self, checked: Checked) {
        let Input::Spawn { by, .. } = &checked.input else {
            return self.enter(checked);
        };
        // What the machine refuses need not be asked for.
        let hopeless = self.machine.refuses(&checked.input);
        let asked = (!hopeless).then(|| self.hosts.ask_launch(*by)).flatten();
        let Some(asked) = asked else {
            return self.enter(checked);
        };
        let events = self.events.clone();
        tokio::spawn(async move {
            let answer = contributions(Some(asked)).await;
            let checked = Box::new(checked);
            let _ = events.send(Event::Contributed { checked, answer }).await;
        });
    }

    pub(super) fn contributed(&mut self, checked: Checked, answer: Result<Contributions, String>) {
        let extra = match (answer, &checked.unknown) {
            (Ok(extra), Some(unknown)) if extra.extensions.is_empty() => Err(unknown.clone()),
            (Ok(extra), _) => Ok(extra),
            (Err(reason), _) => Err(RequestError::new(ErrorCode::StartFailed, reason)),
        };
        let extra = match extra {
            Ok(extra) => extra,
            Err(error) => {
                let _ = checked.reply.send(Err(error));
                return;
            }
        };
        if let Input::Spawn { instance, .. } = checked.input {
            let machine = &self.machine;
            self.extras.0.retain(|i, _| machine.is_to_start(*i));
            self.extras.0.insert(instance, extra);
        }
        self.enter(checked);
    }

    fn enter(&mut self, checked: Checked) {
        let Checked {
            input,
            asked,
            origin,
            unknown: _,
            call,
            reply,
        } = checked;
        self.calls.insert(call, reply);
        let spawned = match &input {
            Input::Spawn { agent, by, .. } => Some((*agent, *by)),
            _ => None,
        };
        self.input(input);
        // What the machine refused is no agent.
        if let Some((agent, by)) = spawned.filter(|(id, _)| self.machine.knows(*id)) {
            self.history.asked(agent, *asked);
            let waits = self.machine.waiting_call(agent) == Some(call);
            if let Some(origin) = origin.filter(|_| waits) {
                self.hosts.call_waits(by, call, agent, origin);
            }
        }
    }
}

/// Shortest text that is taken out: a shorter one stands in many words.
const LEAST: usize = 4;
/// What stands in its place.
const INSTEAD: &str = "(hidden)";

/// What was added to a launch, as it may come back in what the child complains about.
#[derive(Clone, Default)]
pub struct Hidden(Vec<String>);

impl Hidden {
    /// All of it, for a child that works in this folder.
    #[must_use]
    pub fn of(extra: &Contributions, cwd: &Path) -> Self {
        let mut all: Vec<String> = Vec::new();
        for extension in &extra.extensions {
            let path = cwd.join(extension);
            all.push(extension.clone());
            all.push(path.to_string_lossy().into_owned());
            all.push(plain(&path).to_string_lossy().into_owned());
            if let Ok(real) = path.canonicalize() {
                all.push(real.to_string_lossy().into_owned());
            }
        }
        for value in extra.env.values() {
            all.extend(value.lines().map(|line| line.trim().to_owned()));
        }
        all.retain(|text| text.len() >= LEAST);
        // The longer one first: a shorter one may be a part of it.
        all.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        Self(all)
    }

    /// The text without it.
    #[must_use]
    pub fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for hidden in &self.0 {
            if text.contains(hidden.as_str()) {
                text = Cow::Owned(text.replace(hidden.as_str(), INSTEAD));
            }
        }
        text
    }
}

/// The path without `.` and `..`, as programs print it; nothing is asked of the disk.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}
