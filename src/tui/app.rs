//! State of the screen. One writer (the loop in `mod.rs`); `update/` changes it and returns what
//! is to be asked of the core; `panes/` and `overlays/` draw it.
//!
//! Owns: what is selected, focused, typed, open and armed. Does not own: the fleet (a copy of what
//! the core said), the terminal, the client. No clock of its own: every function gets [`Now`].

use std::collections::{BTreeMap, HashMap};

use crate::client::Request;
use crate::fleet::agent::Status;
use crate::fleet::ids::AgentId;
use crate::fleet::roster::{AgentView, FleetSnapshot};

use super::StartProblem;
use super::action::Context;
use super::composer::Composer;
pub use super::effect::{Attempt, Call, Effect, Effects, Expected, Now, Place};
use super::frame::Urgency;
use super::keymap::Keymap;
use super::layout::Shape;
pub use super::settings::Settings;
use super::text::SafeText;
use super::theme::Theme;
use super::update::agent::AgentScreen;
use super::update::dialog::DialogForm;
use super::update::dispatch::Dispatch;
use super::update::fleet::Seen;
use super::update::form::Form;
use super::update::stop::{AbortKeys, StopKeys};
use super::update::stream::Streams;

/// A line about what was done last. Stays until the next key (screens.md §7).
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// Where it is shown.
    pub place: Place,
    /// Something went wrong.
    pub error: bool,
    /// What.
    pub text: SafeText,
    /// The way out.
    pub hint: Option<SafeText>,
    /// When it appeared, monotonic.
    pub since: u64,
}

/// A notice that came by itself is not taken away by a key already on its way.
pub const NOTICE_MIN_MS: u64 = 700;

/// The connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Link {
    /// Being made.
    Starting,
    /// Could not be made.
    Problem(StartProblem),
    /// There.
    Live,
    /// It ended by itself.
    Lost {
        /// When, Unix milliseconds.
        at: i64,
        /// Being made again.
        again: bool,
    },
}

/// Which screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screen {
    /// All agents.
    Fleet,
    /// One agent.
    Agent(AgentId),
}

/// Which part of the fleet screen takes the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// The list of agents.
    Roster,
    /// The conversation.
    Stream,
    /// The inbox.
    Inbox,
    /// The task line.
    Dispatch,
}

/// What lies over the screen.
#[derive(Clone, Debug)]
pub enum Overlay {
    /// The keys.
    Help {
        /// What is searched.
        query: Box<Composer>,
        /// First line shown.
        scroll: usize,
    },
    /// The question before quitting.
    Quit {
        /// When it opened or a key came last, monotonic: choosing needs a pause before it.
        since: u64,
    },
    /// The form for a new agent.
    Form,
}

/// What the last drawing showed that changes with time alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moving {
    /// A spinner.
    pub spinner: bool,
    /// An elapsed time that counts.
    pub elapsed: bool,
}

/// All of it.
pub struct App {
    /// Fixed things.
    pub settings: Settings,
    /// Keys.
    pub keymap: Keymap,
    /// Colours and icons.
    pub theme: Theme,
    /// Size of the screen.
    pub size: (u16, u16),
    /// The terminal may have lost what was drawn (a resize, even to the old size): the next frame
    /// is written whole.
    pub repaint: bool,
    /// Connection.
    pub link: Link,
    /// The fleet as the core said it last.
    pub fleet: Option<FleetSnapshot>,
    /// Conversations.
    pub streams: Streams,
    /// What was seen of each agent.
    pub seen: HashMap<AgentId, Seen>,
    /// Screen.
    pub screen: Screen,
    /// Focus of the fleet screen.
    pub focus: Focus,
    /// Selected agent of the fleet screen.
    pub selected: Option<AgentId>,
    /// When it was selected, monotonic.
    pub selected_at: u64,
    /// Selected agent of the inbox.
    pub inbox_at: usize,
    /// Was started here and is not in the list yet.
    pub expected: Option<Expected>,
    /// Older finished rows are shown too.
    pub show_finished: bool,
    /// The task line.
    pub dispatch: Dispatch,
    /// First line of the list that is shown.
    pub list_top: usize,
    /// The list shows the selected row, wherever it is scrolled to.
    pub list_pinned: bool,
    /// The form, kept when closed.
    pub form: Form,
    /// What is over the screen.
    pub overlay: Option<Overlay>,
    /// What is typed per agent, and more of the agent view.
    pub agents: HashMap<AgentId, AgentScreen>,
    /// Last line about what was done.
    pub notice: Option<Notice>,
    /// The stop key.
    pub stop: StopKeys,
    /// The abort key.
    pub abort: AbortKeys,
    /// The terminal reports key releases.
    pub releases: bool,
    /// The terminal window has the focus.
    pub window_focus: bool,
    /// Last key, monotonic.
    pub last_key: u64,
    /// What the last drawing showed moving.
    pub moving: Moving,
    /// Where things are on the screen, for the mouse.
    pub shape: Shape,
    calls: BTreeMap<u64, Call>,
    next_call: u64,
    wish: Option<Urgency>,
}

impl App {
    /// A screen before anything is known.
    #[must_use]
    pub fn new(settings: Settings, keymap: Keymap, theme: Theme) -> Self {
        Self {
            settings,
            keymap,
            theme,
            size: (80, 24),
            repaint: false,
            link: Link::Starting,
            fleet: None,
            streams: Streams::default(),
            seen: HashMap::new(),
            screen: Screen::Fleet,
            focus: Focus::Roster,
            selected: None,
            selected_at: 0,
            inbox_at: 0,
            expected: None,
            show_finished: false,
            dispatch: Dispatch::default(),
            list_top: 0,
            list_pinned: true,
            form: Form::default(),
            overlay: None,
            agents: HashMap::new(),
            notice: None,
            stop: StopKeys::default(),
            abort: AbortKeys::default(),
            releases: false,
            window_focus: true,
            last_key: 0,
            moving: Moving::default(),
            shape: Shape::default(),
            calls: BTreeMap::new(),
            next_call: 0,
            wish: Some(Urgency::Now),
        }
    }

    /// Asks for a frame.
    pub fn redraw(&mut self, urgency: Urgency) {
        self.wish = self.wish.max(Some(urgency));
    }

    /// Takes the wish for a frame.
    pub fn take_wish(&mut self) -> Option<Urgency> {
        self.wish.take()
    }

    /// Numbers a request and remembers what it is for.
    pub fn ask(&mut self, call: Call, request: Request) -> Effect {
        let number = self.next_call;
        self.next_call += 1;
        self.calls.insert(number, call);
        Effect::Request(number, request)
    }

    /// What an answered request was for.
    pub fn answered(&mut self, number: u64) -> Option<Call> {
        self.calls.remove(&number)
    }

    /// Requests without an answer.
    pub fn waiting(&self) -> impl Iterator<Item = &Call> {
        self.calls.values()
    }

    /// Agents in the core's order.
    pub fn all(&self) -> &[AgentView] {
        self.fleet.as_ref().map_or(&[], |fleet| &fleet.agents)
    }

    /// One agent.
    #[must_use]
    pub fn agent(&self, id: AgentId) -> Option<&AgentView> {
        self.all().iter().find(|agent| agent.id == id)
    }

    /// The agent whose conversation is on the screen or would be opened.
    #[must_use]
    pub fn current(&self) -> Option<AgentId> {
        match self.screen {
            Screen::Agent(id) => Some(id),
            Screen::Fleet => self.selected,
        }
    }

    /// The open question of the viewed agent.
    #[must_use]
    pub fn dialog(&self) -> Option<&DialogForm> {
        let Screen::Agent(id) = self.screen else {
            return None;
        };
        self.agents.get(&id)?.dialog.as_ref()
    }

    /// The same, to change it.
    pub fn dialog_mut(&mut self) -> Option<&mut DialogForm> {
        let Screen::Agent(id) = self.screen else {
            return None;
        };
        self.agents.get_mut(&id)?.dialog.as_mut()
    }

    /// Says something about what was done.
    pub fn say(&mut self, now: Now, place: Place, error: bool, text: &str, hint: Option<&str>) {
        self.notice = Some(Notice {
            place,
            error,
            text: SafeText::line(text),
            hint: hint.map(SafeText::line),
            since: now.mono,
        });
        self.redraw(Urgency::Soon);
    }

    /// Where something done now belongs.
    #[must_use]
    pub fn place(&self) -> Place {
        match (&self.overlay, self.screen) {
            (Some(Overlay::Form), _) => Place::Form,
            (_, Screen::Agent(id)) => Place::Agent(id),
            (_, Screen::Fleet) => Place::Fleet,
        }
    }

    /// Contexts of the keys, innermost first.
    #[must_use]
    pub fn contexts(&self) -> Vec<Context> {
        match &self.overlay {
            Some(Overlay::Quit { .. }) => return vec![Context::Quit],
            Some(Overlay::Help { .. }) => return vec![Context::Help, Context::Everywhere],
            Some(Overlay::Form) => return vec![Context::Form, Context::Everywhere],
            None => {}
        }
        self.contexts_below()
    }

    /// The same without what lies over the screen.
    #[must_use]
    pub fn contexts_below(&self) -> Vec<Context> {
        if matches!(self.link, Link::Problem(_)) {
            return vec![Context::Start, Context::Everywhere];
        }
        match self.screen {
            Screen::Agent(id) => {
                let focus = self.agents.get(&id).map(|agent| agent.focus);
                let inner = match (focus.unwrap_or_default(), self.dialog()) {
                    (super::update::agent::AgentFocus::Dialog, Some(dialog)) => {
                        if dialog.is_text() {
                            Context::DialogText
                        } else {
                            Context::Dialog
                        }
                    }
                    (super::update::agent::AgentFocus::Stream, _) => Context::Stream,
                    _ => Context::Composer,
                };
                vec![inner, Context::Agent, Context::Everywhere]
            }
            Screen::Fleet => match self.focus {
                Focus::Roster => vec![Context::Roster, Context::Fleet, Context::Everywhere],
                Focus::Stream => vec![Context::Stream, Context::Fleet, Context::Everywhere],
                Focus::Inbox => vec![Context::Inbox, Context::Fleet, Context::Everywhere],
                Focus::Dispatch => vec![Context::Dispatch, Context::Everywhere],
            },
        }
    }

    /// The text field that takes typed characters now.
    pub fn field(&mut self) -> Option<&mut Composer> {
        let inner = self.contexts().first().copied();
        match inner {
            Some(Context::Help) => match &mut self.overlay {
                Some(Overlay::Help { query, .. }) => Some(query),
                Some(Overlay::Quit { .. } | Overlay::Form) | None => None,
            },
            Some(Context::Form) => self.form.field(),
            Some(Context::Dispatch) => Some(&mut self.dispatch.line),
            Some(Context::Composer) => match self.screen {
                Screen::Agent(id) => Some(&mut self.agents.entry(id).or_default().draft),
                Screen::Fleet => None,
            },
            Some(Context::DialogText) => self.dialog_mut().map(|dialog| &mut dialog.field),
            _ => None,
        }
    }

    /// Somebody else is attached to the core too.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.fleet.as_ref().is_some_and(|f| f.core.attached > 1)
    }

    /// Numbers of agents by state: running (also queued and starting), asking, idle, failed,
    /// stopped, completed.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for agent in self.all() {
            // Each agent counts once: one that asks waits for somebody and does not run.
            if !agent.dialogs.is_empty() && agent.status.is_live() {
                counts.asks += 1;
                continue;
            }
            match agent.status {
                Status::Queued | Status::Starting | Status::Running => counts.running += 1,
                Status::Idle => counts.idle += 1,
                Status::Completed => counts.done += 1,
                Status::Failed { .. } => counts.failed += 1,
                Status::Stopped { .. } => counts.stopped += 1,
            }
        }
        counts
    }

    /// The next moment at which something has to happen without an event; `None` = never.
    /// Frames that were asked for are not part of it.
    #[must_use]
    pub fn next_wake(&self, now: Now) -> Option<u64> {
        let mut wake = self.stop.deadline();
        let mut sooner = |at: Option<u64>| {
            if let Some(at) = at {
                wake = Some(wake.map_or(at, |w| w.min(at)));
            }
        };
        sooner(self.abort.deadline());
        sooner(self.read_deadline());
        if self.moving.spinner && !self.settings.still {
            sooner(Some(super::frame::next_tick(
                now.mono,
                super::frame::SPIN_MS,
            )));
        }
        if self.moving.elapsed || (self.moving.spinner && self.settings.still) {
            sooner(Some(super::frame::next_tick(now.mono, 1000)));
        }
        wake
    }

    /// When the selected row counts as read.
    #[must_use]
    pub fn read_deadline(&self) -> Option<u64> {
        let id = self.selected?;
        (self.screen == Screen::Fleet
            && self.shape.stream_visible()
            && self.overlay.is_none()
            && self.window_focus
            && self.agent(id).is_some_and(|agent| self.is_unread(agent)))
        .then_some(self.selected_at + READ_MS)
    }

    /// Time passed: acts on deadlines and asks for the frames of moving things.
    pub fn tick(&mut self, now: Now) -> Effects {
        let mut effects = Effects::new();
        if let Some(id) = self.stop.tick(now.mono) {
            effects.extend(super::update::agent::stop(self, now, id));
        }
        if self.stop.changed() | self.abort.tick(now.mono) {
            self.redraw(Urgency::Soon);
        }
        if self.read_deadline().is_some_and(|at| at <= now.mono) {
            if let Some(id) = self.selected {
                self.mark_seen(id);
            }
            self.redraw(Urgency::Soon);
        }
        if self.moving != Moving::default() {
            self.redraw(Urgency::Soon);
        }
        effects
    }

    /// The spinner's frame; `None` = nothing may move.
    #[must_use]
    pub fn spin(&self, now: Now) -> Option<usize> {
        (!self.settings.still)
            .then(|| usize::try_from(now.mono / super::frame::SPIN_MS).unwrap_or(0))
    }

    /// Something can be asked of a core, or soon.
    #[must_use]
    pub fn has_core(&self) -> bool {
        matches!(self.link, Link::Live | Link::Starting)
    }

    /// True when the core is not there: what is shown is what was.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self.link, Link::Lost { .. })
    }
}

/// A row that was on the screen this long has been read.
pub const READ_MS: u64 = 1500;

/// Agents by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Working: queued, starting or running, without an open question.
    pub running: usize,
    /// With an open question.
    pub asks: usize,
    /// Resident without a run.
    pub idle: usize,
    /// Completed and gone.
    pub done: usize,
    /// Failed.
    pub failed: usize,
    /// Stopped.
    pub stopped: usize,
}

impl Counts {
    /// With a process.
    #[must_use]
    pub fn live(&self) -> usize {
        self.running + self.asks + self.idle
    }
}
