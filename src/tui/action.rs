//! The one table of what keys can do. It feeds the keymap, the footers, the `?` help, docs/keys.md
//! and assets/keymap.toml; tests compare the generated files and look for key conflicts.
//!
//! To add a key action: one row here, one handler in `update/`. Nothing else.

use std::fmt::Write as _;

use super::app::{App, Effects, Now};
use super::update::{agent, dialog, dispatch, fleet, form, overlay, stream};

/// Where a key works. A screen has a stack of these, innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// Under everything; letters work where no text field has the focus.
    Everywhere,
    /// The fleet screen, whichever pane has the focus.
    Fleet,
    /// The list of agents.
    Roster,
    /// A conversation that has the focus.
    Stream,
    /// The inbox.
    Inbox,
    /// The line that starts and messages agents.
    Dispatch,
    /// The screen of one agent.
    Agent,
    /// The message field of that screen.
    Composer,
    /// A question of an agent with choices.
    Dialog,
    /// A question of an agent with a text field.
    DialogText,
    /// The form for a new agent.
    Form,
    /// The help.
    Help,
    /// The question before quitting.
    Quit,
    /// The screen shown when nothing could be started.
    Start,
}

impl Context {
    /// All of them, in the order of the help.
    pub const ALL: [Self; 14] = [
        Self::Everywhere,
        Self::Fleet,
        Self::Roster,
        Self::Stream,
        Self::Inbox,
        Self::Dispatch,
        Self::Agent,
        Self::Composer,
        Self::Dialog,
        Self::DialogText,
        Self::Form,
        Self::Help,
        Self::Quit,
        Self::Start,
    ];

    /// What a person calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Everywhere => "Everywhere",
            Self::Fleet => "Fleet",
            Self::Roster => "Agents",
            Self::Stream => "Conversation",
            Self::Inbox => "Inbox",
            Self::Dispatch => "Task line",
            Self::Agent => "Agent view",
            Self::Composer => "Message field",
            Self::Dialog => "Question",
            Self::DialogText => "Question with a text field",
            Self::Form => "New agent",
            Self::Help => "Help",
            Self::Quit => "Quit",
            Self::Start => "First run",
        }
    }

    /// True where typed characters are text.
    #[must_use]
    pub fn is_text(self) -> bool {
        match self {
            Self::Dispatch | Self::Composer | Self::DialogText | Self::Form | Self::Help => true,
            Self::Everywhere
            | Self::Fleet
            | Self::Roster
            | Self::Stream
            | Self::Inbox
            | Self::Agent
            | Self::Dialog
            | Self::Quit
            | Self::Start => false,
        }
    }
}

/// Something that holds now, or not.
pub type Holds = fn(&App) -> bool;

/// One thing a person can do with a key.
pub struct Action {
    /// Name in the configuration.
    pub id: &'static str,
    /// One line for help and documents.
    pub doc: &'static str,
    /// Word in the footer; empty = not shown there.
    pub hint: &'static str,
    /// Where it works.
    pub contexts: &'static [Context],
    /// Default keys, the shown one first.
    pub keys: &'static [&'static str],
    /// A held key does it again and again.
    pub repeats: bool,
    /// It would do something now; where it would not, the key falls through.
    pub offered: fn(&App) -> bool,
    /// The footer may name it now (besides being offered).
    pub hinted: fn(&App) -> bool,
    /// When it does something else, and the word for that.
    pub other: Option<(Holds, &'static str)>,
    /// Does it.
    pub run: fn(&mut App, Now) -> Effects,
}

impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Action({})", self.id)
    }
}

fn always(_: &App) -> bool {
    true
}

const fn row(
    id: &'static str,
    keys: &'static [&'static str],
    contexts: &'static [Context],
    hint: &'static str,
    doc: &'static str,
    run: fn(&mut App, Now) -> Effects,
) -> Action {
    Action {
        id,
        doc,
        hint,
        contexts,
        keys,
        repeats: false,
        offered: always,
        hinted: always,
        other: None,
        run,
    }
}

impl Action {
    const fn when(mut self, offered: fn(&App) -> bool) -> Self {
        self.offered = offered;
        self
    }

    const fn hint_when(mut self, hinted: fn(&App) -> bool) -> Self {
        self.hinted = hinted;
        self
    }

    const fn or_hint(mut self, when: Holds, hint: &'static str) -> Self {
        self.other = Some((when, hint));
        self
    }

    /// Word in the footer for what it would do now.
    #[must_use]
    pub fn hint_now(&self, app: &App) -> &'static str {
        match self.other {
            Some((when, hint)) if when(app) => hint,
            _ => self.hint,
        }
    }

    const fn held(mut self) -> Self {
        self.repeats = true;
        self
    }
}

use Context::{
    Agent, Composer, Dialog, DialogText, Dispatch, Everywhere, Fleet, Form, Help, Inbox, Quit,
    Roster, Start, Stream,
};

/// Every action. Order = order in the footers and, within a context, in the help.
#[rustfmt::skip]
pub static TABLE: &[Action] = &[
    // Questions
    row("dialog-choose", &["enter"], &[Dialog], "answer", "Answer with the marked choice", dialog::choose),
    row("dialog-1", &["1"], &[Dialog], "", "Answer with choice 1", |a, n| dialog::number(a, n, 0)),
    row("dialog-2", &["2"], &[Dialog], "", "Answer with choice 2", |a, n| dialog::number(a, n, 1)),
    row("dialog-3", &["3"], &[Dialog], "", "Answer with choice 3", |a, n| dialog::number(a, n, 2)),
    row("dialog-4", &["4"], &[Dialog], "", "Answer with choice 4", |a, n| dialog::number(a, n, 3)),
    row("dialog-5", &["5"], &[Dialog], "", "Answer with choice 5", |a, n| dialog::number(a, n, 4)),
    row("dialog-6", &["6"], &[Dialog], "", "Answer with choice 6", |a, n| dialog::number(a, n, 5)),
    row("dialog-7", &["7"], &[Dialog], "", "Answer with choice 7", |a, n| dialog::number(a, n, 6)),
    row("dialog-8", &["8"], &[Dialog], "", "Answer with choice 8", |a, n| dialog::number(a, n, 7)),
    row("dialog-9", &["9"], &[Dialog], "", "Answer with choice 9", |a, n| dialog::number(a, n, 8)),
    row("dialog-yes", &["y"], &[Dialog], "yes", "Answer yes", dialog::yes).when(dialog::is_confirm),
    row("dialog-no", &["n"], &[Dialog], "no", "Answer no", dialog::no).when(dialog::is_confirm),
    row("dialog-down", &["down", "j"], &[Dialog], "", "Mark the next choice", |a, _| dialog::mark(a, 1)).held(),
    row("dialog-up", &["up", "k"], &[Dialog], "", "Mark the previous choice", |a, _| dialog::mark(a, -1)).held(),
    row("dialog-send", &["enter"], &[DialogText], "answer", "Answer with the typed text", dialog::send_text),
    row("dialog-newline", &["alt+enter", "shift+enter", "ctrl+j"], &[DialogText], "", "New line in the answer", dialog::newline).when(dialog::is_editor),
    row("dialog-cancel", &["esc"], &[Dialog, DialogText], "cancel", "Close the question without an answer", dialog::cancel),

    // Message field
    row("send", &["enter"], &[Composer], "send", "Send the message", agent::send).when(agent::has_text),
    row("newline", &["alt+enter", "shift+enter", "ctrl+j"], &[Composer], "newline", "New line in the message", agent::newline).hint_when(agent::has_text),
    row("abort", &["esc"], &[Agent], "esc abort run", "Abort the run of the agent: press twice, the agent stays. Else back to the fleet", agent::escape).hint_when(agent::is_running),
    row("back", &["left", "h"], &[Agent], "back", "Back to the fleet; from the message field when nothing is typed", agent::back),

    // Fleet
    row("new-agent", &["n"], &[Fleet], "new", "Type a task for a new agent", dispatch::focus).hint_when(App::has_core),
    row("open", &["enter", "right", "l"], &[Roster, Inbox], "open", "Open the agent", fleet::open).when(fleet::has_target),
    row("message", &["s"], &[Fleet], "send", "Write a message to the agent", fleet::message).when(fleet::has_target).hint_when(App::has_core),
    row("stop", &["ctrl+x"], &[Fleet, Dispatch, Agent], "stop", "Stop the agent: press twice within two seconds", agent::stop_key).when(agent::can_stop).hint_when(dispatch::is_not_typed),
    row("next-waiting", &["w"], &[Fleet, Stream], "next waiting", "Go to the next agent that waits for you or has news", fleet::next_waiting).when(fleet::anything_waits),
    row("reconnect", &["r"], &[Fleet, Stream], "reconnect", "Start or join the core again", fleet::reconnect).when(fleet::can_reconnect),
    row("show-finished", &["a"], &[Fleet], "all", "Show or fold away the older finished agents", fleet::toggle_finished).when(fleet::folds_finished),
    row("next-pane", &["tab"], &[Fleet], "panes", "Go to the next pane", fleet::next_pane).when(fleet::has_panes),
    row("previous-pane", &["shift+tab"], &[Fleet], "", "Go to the previous pane", fleet::previous_pane).when(fleet::has_panes),
    row("down", &["down", "j"], &[Roster, Inbox], "", "Next row", |a, n| fleet::step(a, n, 1)).held(),
    row("up", &["up", "k"], &[Roster, Inbox], "", "Previous row", |a, n| fleet::step(a, n, -1)).held(),
    row("page-down", &["pgdn"], &[Roster, Inbox], "", "A page of rows down", |a, n| fleet::page(a, n, 1)).held(),
    row("page-up", &["pgup"], &[Roster, Inbox], "", "A page of rows up", |a, n| fleet::page(a, n, -1)).held(),
    row("first", &["home"], &[Roster, Inbox], "", "First row", |a, n| fleet::edge(a, n, false)),
    row("last", &["end"], &[Roster, Inbox], "", "Last row", |a, n| fleet::edge(a, n, true)),

    // Task line
    row("dispatch-start", &["enter"], &[Dispatch], "start", "Start an agent on the task, or send the message to @name", dispatch::start).or_hint(dispatch::is_message, "send"),
    row("dispatch-open", &["alt+enter", "shift+enter"], &[Dispatch], "start and open", "Start an agent on the task and open it", dispatch::start_and_open).or_hint(dispatch::is_message, "send and open"),
    row("dispatch-form", &["tab"], &[Dispatch], "options", "Complete the name of an agent, or open the form with all options", dispatch::options),
    row("dispatch-newline", &["ctrl+j"], &[Dispatch], "", "New line in the task", dispatch::newline),
    row("dispatch-older", &["up"], &[Dispatch], "", "The task typed before", dispatch::older).when(dispatch::at_top).held(),
    row("dispatch-newer", &["down"], &[Dispatch], "", "The task typed after", dispatch::newer).when(dispatch::recalling).held(),
    row("dispatch-leave", &["esc"], &[Dispatch], "leave", "Leave the line; what was typed stays", dispatch::leave),

    // Agent view
    row("switch-focus", &["tab"], &[Agent], "switch", "Between message, question and conversation", agent::next_focus),

    // Conversation
    row("fold-all", &["ctrl+o"], &[Fleet, Agent], "fold all", "Fold or unfold everything", stream::fold_all).when(stream::has_stream),
    row("fold", &["enter", "space"], &[Stream], "fold", "Fold or unfold the marked entry", stream::fold),
    row("entry-down", &["down", "j"], &[Stream], "", "Mark the next entry", |a, n| stream::select(a, n, 1)).held(),
    row("entry-up", &["up", "k"], &[Stream], "", "Mark the previous entry", |a, n| stream::select(a, n, -1)).held(),
    row("scroll-page-down", &["pgdn"], &[Stream, Agent], "", "Scroll a page down", |a, n| stream::page(a, n, 1)).held(),
    row("scroll-page-up", &["pgup"], &[Stream, Agent], "", "Scroll a page up", |a, n| stream::page(a, n, -1)).held(),
    row("scroll-down", &["ctrl+down"], &[Fleet, Agent], "", "Scroll the conversation a line down", |a, n| stream::lines(a, n, 1)).held(),
    row("scroll-up", &["ctrl+up"], &[Fleet, Agent], "", "Scroll the conversation a line up", |a, n| stream::lines(a, n, -1)).held(),
    row("scroll-start", &["home"], &[Stream], "", "To the start of the conversation", |a, n| stream::edge(a, n, false)),
    row("scroll-end", &["end"], &[Stream], "", "To the end, and follow it", |a, n| stream::edge(a, n, true)),
    row("agent-scroll-start", &["ctrl+home"], &[Agent, Fleet], "", "To the start of the conversation from anywhere", |a, n| stream::edge(a, n, false)),
    row("agent-scroll-end", &["ctrl+end"], &[Agent, Fleet], "", "To the end of the conversation from anywhere", |a, n| stream::edge(a, n, true)),
    row("stream-open", &["right", "l"], &[Stream], "", "Open the agent", stream::open).when(fleet::on_fleet),
    row("stream-leave", &["left", "h", "esc"], &[Stream], "", "Back to the list of agents", fleet::focus_roster).when(fleet::on_fleet),
    row("inbox-leave", &["left", "h", "esc"], &[Inbox], "", "Back to the list of agents", fleet::focus_roster),

    // New agent
    row("form-start", &["enter"], &[Form], "start", "Start the agent", form::start),
    row("form-next", &["tab"], &[Form], "fields", "Next field", |a, n| form::step(a, n, 1)).held(),
    row("form-previous", &["shift+tab"], &[Form], "", "Previous field", |a, n| form::step(a, n, -1)).held(),
    row("form-down", &["down"], &[Form], "", "Next field, or next line of the task", |a, n| form::step(a, n, 1)).when(form::at_bottom).held(),
    row("form-up", &["up"], &[Form], "", "Previous field, or previous line of the task", |a, n| form::step(a, n, -1)).when(form::at_top).held(),
    row("form-right", &["right"], &[Form], "change", "Next choice", |a, n| form::change(a, n, 1)).when(form::on_choice).held(),
    row("form-left", &["left"], &[Form], "", "Previous choice", |a, n| form::change(a, n, -1)).when(form::on_choice).held(),
    row("form-newline", &["alt+enter", "shift+enter", "ctrl+j"], &[Form], "", "New line in the task", form::newline).when(form::on_task),
    row("form-close", &["esc"], &[Form], "close, kept as draft", "Close the form; what was typed stays", form::close),

    // Help, quit, first run
    row("help-close", &["esc", "f1"], &[Help], "close", "Close the help", overlay::close),
    row("help-down", &["down"], &[Help], "", "Scroll the help down", |a, _| overlay::scroll(a, 1)).held(),
    row("help-up", &["up"], &[Help], "", "Scroll the help up", |a, _| overlay::scroll(a, -1)).held(),
    row("help-page-down", &["pgdn"], &[Help], "", "A page of the help down", |a, _| overlay::scroll(a, 10)).held(),
    row("help-page-up", &["pgup"], &[Help], "", "A page of the help up", |a, _| overlay::scroll(a, -10)).held(),
    row("quit-keep", &["k"], &[Quit], "keep running in the background", "Quit, the agents go on in the background", overlay::quit_keep),
    row("quit-stop", &["s"], &[Quit], "stop all and quit", "Stop every agent and quit", overlay::quit_stop),
    row("quit-stay", &["esc", "enter", "ctrl+c"], &[Quit], "stay", "Do not quit", overlay::close),
    row("start-demo", &["d"], &[Start], "demo", "Play the built-in demo", overlay::start_demo).when(overlay::demo_offered),
    row("start-again", &["r"], &[Start], "check again", "Look again whether everything is there", overlay::start_again).when(overlay::again_offered),

    // Everywhere
    row("help", &["?", "f1"], &[Everywhere], "help", "Show every key; type to search", overlay::help),
    row("quit", &["q", "ctrl+c"], &[Everywhere], "quit", "Quit, or ask what happens to live agents", overlay::quit),
    row("suspend", &["ctrl+z"], &[Everywhere], "", "Put pi-agents into the background of the shell", overlay::suspend),
    row("redraw", &["ctrl+l"], &[Everywhere], "", "Draw the screen again", overlay::redraw),
];

/// The action with this id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Action> {
    TABLE.iter().find(|action| action.id == id)
}

/// Text of docs/keys.md.
#[must_use]
pub fn keys_document() -> String {
    let mut out = String::from(
        "# Keys\n\n\
         Generated from the action table (`src/tui/action.rs`); a test compares it, and\n\
         `UPDATE_GENERATED=1 cargo test` writes it again. Letter keys work where no text field has the focus.\n\
         Names of actions are the names used in `assets/keymap.toml`, a reference: no file of yours changes keys.\n",
    );
    for context in Context::ALL {
        let rows: Vec<&Action> = TABLE
            .iter()
            .filter(|action| action.contexts.first() == Some(&context))
            .collect();
        if rows.is_empty() {
            continue;
        }
        let _ = write!(
            out,
            "\n## {}\n\n| keys | what it does | action | also in |\n|---|---|---|---|\n",
            context.name()
        );
        for action in rows {
            let keys: Vec<String> = action.keys.iter().map(|key| format!("`{key}`")).collect();
            let also: Vec<&str> = action
                .contexts
                .iter()
                .skip(1)
                .map(|context| context.name())
                .collect();
            let _ = writeln!(
                out,
                "| {} | {} | `{}` | {} |",
                keys.join(" "),
                action.doc,
                action.id,
                also.join(", ")
            );
        }
    }
    out
}

/// Text of assets/keymap.toml: the defaults as data, for reference; nothing reads it.
#[must_use]
pub fn keymap_reference() -> String {
    let mut out = String::from(
        "# The default keys, as a reference. Generated from src/tui/action.rs; a test compares it.\n\
         # No file changes keys: the program reads neither this one nor one of yours.\n\
         # action = [keys], the one shown in footers first.\n",
    );
    for context in Context::ALL {
        let rows: Vec<&Action> = TABLE
            .iter()
            .filter(|action| action.contexts.first() == Some(&context))
            .collect();
        if rows.is_empty() {
            continue;
        }
        let _ = write!(out, "\n# {}\n", context.name());
        for action in rows {
            let keys: Vec<String> = action.keys.iter().map(|key| format!("{key:?}")).collect();
            let _ = writeln!(
                out,
                "# {}\n{} = [{}]",
                action.doc,
                action.id,
                keys.join(", ")
            );
        }
    }
    out
}
