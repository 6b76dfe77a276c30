//! The agent's state and its one loop: everything that comes in passes through here, also while a run waits.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::Value;

use super::PACE_VARIABLE;
use super::options::Options;
use super::record::Message;
use super::script::Repertoire;
use super::session::{Body, Session};

/// Pi's thinking levels.
pub const LEVELS: [&str; 7] = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];

/// What comes in.
#[derive(Debug)]
pub enum Input {
    /// A command, with its line end.
    Line(Vec<u8>),
    /// Nobody will say more: end.
    Eof,
    /// A signal to end with this exit code.
    Signal(u8),
    /// Output of a tool.
    Tool {
        /// Which tool call, counted.
        run: u64,
        /// The output.
        bytes: Vec<u8>,
    },
    /// A tool closed its output.
    ToolEnd {
        /// Which tool call, counted.
        run: u64,
    },
}

/// Why work is cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The run is aborted, the agent stays.
    Abort,
    /// The process ends with this code.
    Quit(u8),
}

/// An answer to an open dialog.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Text or a choice.
    Value(String),
    /// Yes or no.
    Confirmed(bool),
    /// Closed.
    Cancelled,
}

/// A model of the demo's own. Any other name is accepted and played by the first one.
#[derive(Clone, Debug)]
pub struct Model {
    pub provider: String,
    pub id: String,
    pub name: String,
    pub window: u64,
    /// Dollars per million tokens: input, output, cache read.
    pub price: (f64, f64, f64),
}

impl Model {
    /// The models to choose from.
    pub fn all() -> Vec<Self> {
        [
            ("swift", "Demo Swift", 128_000, (1.0, 5.0, 0.1)),
            ("deep", "Demo Deep", 200_000, (3.0, 15.0, 0.3)),
        ]
        .into_iter()
        .map(|(id, name, window, price)| Self {
            provider: "demo".to_owned(),
            id: id.to_owned(),
            name: name.to_owned(),
            window,
            price,
        })
        .collect()
    }

    /// The model of that name, or one that is called so.
    pub fn called(provider: Option<&str>, id: &str) -> Self {
        let known = Self::all();
        let same = |model: &&Self| model.id == id && provider.is_none_or(|p| p == model.provider);
        if let Some(model) = known.iter().find(same) {
            return model.clone();
        }
        Self {
            provider: provider.unwrap_or("demo").to_owned(),
            id: id.to_owned(),
            name: id.to_owned(),
            window: 128_000,
            price: (1.0, 5.0, 0.1),
        }
    }
}

/// Output of the tool call that runs now.
#[derive(Debug, Default)]
pub struct ToolText {
    /// Counts tool calls, so that late output of an earlier one is known as such.
    pub run: u64,
    pub bytes: Vec<u8>,
    pub ended: bool,
}

/// One scripted agent.
pub struct Agent {
    pub options: Options,
    pub repertoire: Repertoire,
    pub session: Session,
    pub model: Model,
    pub thinking: String,
    pub pace: f64,
    /// A run is going on.
    pub streaming: bool,
    /// A prompt that was accepted and not begun.
    pub start: Option<String>,
    /// Messages the model has not seen.
    pub steering: VecDeque<String>,
    pub follow_up: VecDeque<String>,
    /// Messages of the present run, for `agent_end`.
    pub messages: Vec<Message>,
    /// Aborts that are answered when the run has ended.
    pub aborts: Vec<Option<Value>>,
    /// The open dialog and its answer.
    pub dialog: Option<String>,
    pub answer: Option<Answer>,
    pub tool: ToolText,
    pub inbox: SyncSender<Input>,
    read: Receiver<Input>,
}

impl Agent {
    /// An agent with its session open.
    ///
    /// # Errors
    /// The session cannot be opened, or an embedded script is broken.
    pub fn new(
        options: Options,
        inbox: SyncSender<Input>,
        read: Receiver<Input>,
    ) -> io::Result<Self> {
        let session = Session::open(&options)?;
        // As Pi does; a folder that is gone is no reason not to go on.
        if let Some(cwd) = &session.cwd {
            let _ = std::env::set_current_dir(cwd);
        }
        let (model, level) = chosen_model(&options, &session);
        let thinking = options
            .thinking
            .clone()
            .or(level)
            .or_else(|| session.thinking.clone())
            .unwrap_or_else(|| "medium".to_owned());
        let pace = std::env::var(PACE_VARIABLE)
            .ok()
            .and_then(|text| text.parse::<f64>().ok())
            .filter(|pace| pace.is_finite() && (0.0..=100.0).contains(pace))
            .unwrap_or(1.0);
        let mut agent = Self {
            repertoire: Repertoire::load()?,
            model,
            thinking: known_level(&thinking).to_owned(),
            pace,
            streaming: false,
            start: None,
            steering: VecDeque::new(),
            follow_up: VecDeque::new(),
            messages: Vec::new(),
            aborts: Vec::new(),
            dialog: None,
            answer: None,
            tool: ToolText::default(),
            inbox,
            read,
            options,
            session,
        };
        agent.note_settings();
        Ok(agent)
    }

    /// Writes down what the command line changed.
    fn note_settings(&mut self) {
        if let Some(name) = self.options.name.clone()
            && self.session.name.as_ref() != Some(&name)
        {
            self.save(Body::Info { name: &name });
        }
        let model = (self.model.provider.clone(), self.model.id.clone());
        if self.session.model.as_ref() != Some(&model) {
            self.save(Body::Model {
                provider: &model.0,
                model_id: &model.1,
            });
        }
        if self.session.thinking.as_ref() != Some(&self.thinking) {
            let level = self.thinking.clone();
            self.save(Body::Thinking {
                thinking_level: &level,
            });
        }
    }

    /// Works until told to end; returns the exit code.
    pub fn serve(mut self) -> u8 {
        loop {
            let done = match self.start.take() {
                Some(prompt) => self.play(&prompt),
                None => match self.read.recv() {
                    Ok(input) => self.take(input),
                    Err(_) => Err(Stop::Quit(0)),
                },
            };
            if let Err(Stop::Quit(code)) = done {
                return code;
            }
        }
    }

    /// Waits, in seconds at a person's pace, and takes what comes in meanwhile.
    ///
    /// # Errors
    /// The run or the process is to end.
    pub fn pause(&mut self, seconds: f64) -> Result<(), Stop> {
        self.wait(Duration::from_secs_f64((seconds * self.pace).max(0.0)))
    }

    /// Waits in real time.
    ///
    /// # Errors
    /// The run or the process is to end.
    pub fn wait(&mut self, time: Duration) -> Result<(), Stop> {
        let deadline = Instant::now() + time;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.read.recv_timeout(left) {
                Ok(input) => self.take(input)?,
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(Stop::Quit(0)),
            }
        }
    }

    /// Waits for one input at most that long.
    ///
    /// # Errors
    /// The run or the process is to end.
    pub fn wait_for_input(&mut self, at_most: Duration) -> Result<(), Stop> {
        match self.read.recv_timeout(at_most) {
            Ok(input) => self.take(input),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(Stop::Quit(0)),
        }
    }

    fn take(&mut self, input: Input) -> Result<(), Stop> {
        match input {
            Input::Line(line) => self.command(&line),
            Input::Eof => Err(Stop::Quit(0)),
            Input::Signal(code) => Err(Stop::Quit(code)),
            Input::Tool { run, bytes } => {
                if run == self.tool.run {
                    self.tool.bytes.extend_from_slice(&bytes);
                }
                Ok(())
            }
            Input::ToolEnd { run } => {
                self.tool.ended |= run == self.tool.run;
                Ok(())
            }
        }
    }

    /// Writes one line to the supervisor.
    ///
    /// # Errors
    /// Nobody reads: the process ends.
    pub fn emit(&mut self, record: &impl Serialize) -> Result<(), Stop> {
        let mut line = serde_json::to_vec(record).map_err(|_| Stop::Quit(1))?;
        line.push(b'\n');
        let mut out = io::stdout().lock();
        out.write_all(&line)
            .and_then(|()| out.flush())
            .map_err(|_| Stop::Quit(1))
    }

    /// Appends to the session. What cannot be saved is complained about; the work goes on.
    pub fn save(&mut self, body: Body<'_>) -> Value {
        match self.session.append(body) {
            Ok(entry) => entry,
            Err(error) => {
                super::complain(&format!("Error: cannot write the session: {error}"));
                Value::Null
            }
        }
    }

    /// Appends a message to the session and to the run.
    pub fn keep(&mut self, message: &Message) {
        self.save(Body::Message { message });
        self.messages.push(message.clone());
    }
}

/// The model asked for, and the level behind its name (`deep:high`).
fn chosen_model(options: &Options, session: &Session) -> (Model, Option<String>) {
    let Some(asked) = options.model.as_deref() else {
        let model = match &session.model {
            Some((provider, id)) => Model::called(Some(provider), id),
            None => Model::called(Some("demo"), "swift"),
        };
        return (model, None);
    };
    let (name, level) = match asked.rsplit_once(':') {
        Some((name, level)) if LEVELS.contains(&level) => (name, Some(level.to_owned())),
        _ => (asked, None),
    };
    let model = match name.split_once('/') {
        Some((provider, id)) => Model::called(Some(provider), id),
        None => Model::called(None, name),
    };
    (model, level)
}

/// Pi takes any word for a level; what it does not know becomes `off`.
pub fn known_level(level: &str) -> &str {
    if LEVELS.contains(&level) {
        level
    } else {
        "off"
    }
}

/// Wall clock, Unix milliseconds.
pub fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|time| u64::try_from(time.as_millis()).ok())
        .unwrap_or(0)
}
