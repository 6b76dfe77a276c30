//! The loop: waits for input, news, answers, signals and deadlines; draws.
//!
//! Queues: one answer per request and one connection at a time travel through a bounded channel;
//! its senders wait, nothing is dropped.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::{FleetClient, Reply, Request, RequestError, Update};

use super::app::{App, Attempt, Effect, Effects, Now, Settings};
use super::events::{Asked, Input, Signals};
use super::frame::{FrameClock, Urgency};
use super::keymap::Keymap;
use super::terminal::{self, Answers, Screen};
use super::theme::{Ground, Icons, Theme};
use super::update::{client, input};
use super::{Connector, ExitReason, RunOptions, StartProblem, TuiError, panes};

/// Answers that wait for the loop; their tasks wait when it is full.
const MAIL: usize = 64;

enum Mail {
    Answer(u64, Result<Reply, RequestError>),
    Connected(Result<Arc<dyn FleetClient>, StartProblem>),
    Asked(Answers),
}

struct Clock {
    start: Instant,
}

impl Clock {
    fn now(&self) -> Now {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX));
        Now {
            mono: u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX),
            wall,
        }
    }

    fn at(&self, mono: u64) -> Instant {
        self.start + Duration::from_millis(mono)
    }
}

/// Shows the screen until the person quits, the terminal goes or a signal comes. The first frame
/// is painted before `connect` is called.
///
/// # Errors
/// When there is no usable terminal, the options are wrong, or a stop at the end failed.
pub async fn run(options: RunOptions, connect: Connector) -> Result<ExitReason, TuiError> {
    terminal::check()?;
    let keymap = Keymap::new(&options.keys).map_err(TuiError::Keys)?;
    let depth = terminal::depth(|name| std::env::var(name).ok());
    let look = Look {
        source: options.theme.clone(),
        ascii: options.ascii,
        depth,
    };
    let theme = look.theme(Ground::Dark)?;
    let app = App::new(settings(options), keymap, theme);
    let signals = Signals::new().map_err(TuiError::Terminal)?;
    let screen = Screen::enter().map_err(TuiError::Terminal)?;
    let (mail_in, mail) = mpsc::channel(MAIL);
    let mut runner = Runner {
        app,
        look,
        screen,
        signals,
        input: Input::default(),
        clock: Clock {
            start: Instant::now(),
        },
        frames: FrameClock::default(),
        title: String::new(),
        connect,
        client: None,
        mail_in,
        mail,
        tasks: JoinSet::new(),
    };
    let end = Box::pin(runner.live()).await;
    runner.input.close();
    terminal::leave();
    let reason = match end {
        Ok(reason) => reason,
        // Writing fails when the terminal is gone: nothing is stopped (R-LIFE-19).
        Err(LoopEnd::Gone) => ExitReason::Detached,
        Err(LoopEnd::Panicked) => return Err(TuiError::Panicked),
    };
    if let ExitReason::Quit { stopped } = reason {
        runner.shut_down(stopped).await?;
    }
    runner.tasks.shutdown().await;
    Ok(reason)
}

fn settings(options: RunOptions) -> Settings {
    Settings {
        env: options.env,
        folder: options.folder,
        home: options.home,
        zone: jiff::tz::TimeZone::system(),
        owner: options.owner,
        still: options.reduced_motion,
        model: options.model,
        reconnects: options.reconnects,
    }
}

struct Look {
    source: Option<String>,
    ascii: bool,
    depth: super::theme::Depth,
}

impl Look {
    fn theme(&self, ground: Ground) -> Result<Theme, super::theme::ThemeError> {
        let theme = match &self.source {
            Some(source) => Theme::parse(source, ground, self.depth)?,
            None => Theme::load(ground, self.depth),
        };
        Ok(if self.ascii {
            theme.with_icons(Icons::ascii())
        } else {
            theme
        })
    }
}

enum LoopEnd {
    Gone,
    Panicked,
}

impl From<std::io::Error> for LoopEnd {
    fn from(_: std::io::Error) -> Self {
        Self::Gone
    }
}

struct Runner {
    app: App,
    look: Look,
    screen: Screen,
    signals: Signals,
    input: Input,
    clock: Clock,
    frames: FrameClock,
    title: String,
    connect: Connector,
    client: Option<Arc<dyn FleetClient>>,
    mail_in: mpsc::Sender<Mail>,
    mail: mpsc::Receiver<Mail>,
    /// Requests on their way and the connection being made; aborted at the end.
    tasks: JoinSet<()>,
}

/// What woke the loop.
enum Woke {
    Input(Option<std::io::Result<crossterm::event::Event>>),
    News(Option<Vec<Update>>),
    Mail(Mail),
    Signal(Asked),
    Deadline,
    Panicked,
}

impl Runner {
    async fn live(&mut self) -> Result<ExitReason, LoopEnd> {
        self.app.size = self.screen.size();
        self.draw()?;
        self.start_connecting(Attempt::First);
        self.ask_terminal();
        loop {
            let wake = self.next_wake();
            let woke = self.wait(wake).await;
            let now = self.clock.now();
            let effects = match woke {
                Woke::Panicked => return Err(LoopEnd::Panicked),
                Woke::Input(None | Some(Err(_))) => return Err(LoopEnd::Gone),
                Woke::Input(Some(Ok(event))) => input::event(&mut self.app, event, now),
                Woke::News(Some(batch)) => client::updates(&mut self.app, batch, now),
                Woke::News(None) => {
                    self.client = None;
                    client::lost(&mut self.app, now);
                    Effects::new()
                }
                Woke::Mail(mail) => self.take(mail, now),
                Woke::Signal(asked) => match asked {
                    Asked::HangUp => return Ok(ExitReason::Detached),
                    Asked::End(number) => return Ok(ExitReason::Signal(number)),
                    Asked::Suspend => vec![Effect::Suspend],
                    Asked::Continue => {
                        self.screen.again()?;
                        vec![Effect::Redraw]
                    }
                },
                Woke::Deadline => Effects::new(),
            };
            let mut effects = effects;
            if wake.is_some_and(|at| at <= now.mono) {
                effects.extend(self.app.tick(now));
            }
            effects.extend(client::settle(&mut self.app, now));
            for effect in effects {
                if let Some(reason) = self.act(effect).await? {
                    return Ok(reason);
                }
            }
            if let Some(urgency) = self.app.take_wish() {
                self.frames.request(urgency);
            }
            let now = self.clock.now();
            if self.frames.due(now.mono).is_some_and(|at| at <= now.mono) {
                self.draw()?;
            }
        }
    }

    fn next_wake(&self) -> Option<u64> {
        let now = self.clock.now();
        match (self.frames.due(now.mono), self.app.next_wake(now)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    async fn wait(&mut self, wake: Option<u64>) -> Woke {
        let clock = &self.clock;
        let client = self.client.clone();
        tokio::select! {
            biased;
            () = terminal::panicked() => Woke::Panicked,
            asked = self.signals.next() => Woke::Signal(asked),
            event = self.input.next() => Woke::Input(event),
            Some(mail) = self.mail.recv() => Woke::Mail(mail),
            // The deadline comes before the news: a flood must not keep frames from being drawn.
            () = sleep_until(wake.map(|at| clock.at(at))) => Woke::Deadline,
            news = updates(client.as_ref()) => Woke::News(news),
        }
    }

    fn take(&mut self, mail: Mail, now: Now) -> Effects {
        match mail {
            Mail::Answer(number, answer) => client::reply(&mut self.app, number, answer, now),
            Mail::Connected(Ok(core)) => {
                self.client = Some(core);
                client::connected(&mut self.app);
                Effects::new()
            }
            Mail::Connected(Err(problem)) => {
                client::problem(&mut self.app, problem, now);
                Effects::new()
            }
            Mail::Asked(answers) => {
                self.app.releases |= answers.releases;
                if answers.light == Some(true)
                    && let Ok(theme) = self.look.theme(Ground::Light)
                {
                    self.app.theme = theme;
                    self.app.streams.forget_drawings();
                    self.app.redraw(Urgency::Soon);
                }
                self.input.open(&answers.typed);
                Effects::new()
            }
        }
    }

    async fn act(&mut self, effect: Effect) -> Result<Option<ExitReason>, LoopEnd> {
        match effect {
            Effect::Request(number, request) => self.start_request(number, request),
            Effect::Connect(attempt) => self.start_connecting(attempt),
            Effect::Suspend => self.suspend().await?,
            Effect::Redraw => {
                self.screen.forget()?;
                self.app.redraw(Urgency::Now);
            }
            Effect::Exit(reason) => return Ok(Some(reason)),
        }
        Ok(None)
    }

    fn start_request(&mut self, number: u64, request: Request) {
        let client = self.client.clone();
        let mail = self.mail_in.clone();
        self.tasks.spawn(async move {
            let answer = match client {
                Some(client) => client.request(request).await,
                None => Err(RequestError::new(
                    crate::client::ErrorCode::Disconnected,
                    "there is no core",
                )),
            };
            let _ = mail.send(Mail::Answer(number, answer)).await;
        });
        while self.tasks.try_join_next().is_some() {}
    }

    fn start_connecting(&mut self, attempt: Attempt) {
        let connecting = (self.connect)(attempt);
        let mail = self.mail_in.clone();
        self.tasks.spawn(async move {
            let made = connecting.await;
            let _ = mail.send(Mail::Connected(made)).await;
        });
    }

    /// Asks the terminal about itself; keys are read from the end of that on.
    fn ask_terminal(&mut self) {
        let mail = self.mail_in.clone();
        self.tasks.spawn(async move {
            let answers = tokio::task::spawn_blocking(terminal::ask)
                .await
                .unwrap_or_default();
            let _ = mail.send(Mail::Asked(answers)).await;
        });
    }

    async fn suspend(&mut self) -> Result<(), LoopEnd> {
        let was_open = self.input.is_open();
        self.input.close();
        terminal::leave();
        let stopped = terminal::suspend();
        self.screen.again()?;
        if was_open {
            self.input.open(&[]);
        }
        if stopped {
            self.signals.forget_own().await;
        } else {
            let place = self.app.place();
            let now = self.clock.now();
            self.app
                .say(now, place, true, "there is no shell to go back to", None);
        }
        self.app.redraw(Urgency::Now);
        Ok(())
    }

    fn draw(&mut self) -> Result<(), LoopEnd> {
        let now = self.clock.now();
        if std::mem::take(&mut self.app.repaint) {
            self.screen.forget()?;
        }
        self.app.size = self.screen.size();
        let app = &mut self.app;
        self.screen.draw(|frame| panes::draw(app, frame, now))?;
        self.frames.drew(now.mono);
        let title = panes::title(&self.app);
        if title.as_str() != self.title {
            self.screen.title(&title)?;
            self.title = title.as_str().to_owned();
        }
        Ok(())
    }

    /// Ends the core and everything it started. The terminal is restored already (B068): what is
    /// written here is on the ordinary screen.
    async fn shut_down(&mut self, live: usize) -> Result<(), TuiError> {
        let Some(client) = self.client.clone() else {
            return Ok(());
        };
        if live > 0 {
            let agents = if live == 1 { "agent" } else { "agents" };
            let _ = writeln!(std::io::stdout(), "stopping {live} {agents}…");
        }
        tokio::select! {
            answer = client.request(Request::Shutdown) => match answer {
                Ok(_) => Ok(()),
                // The core may be gone before its answer is through: that is what was asked.
                Err(error) if error.code == crate::client::ErrorCode::Disconnected => Ok(()),
                Err(error) => Err(TuiError::Shutdown(error)),
            },
            asked = self.signals.next() => {
                tracing::info!(?asked, "interrupted while agents were being stopped");
                Ok(())
            }
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn updates(client: Option<&Arc<dyn FleetClient>>) -> Option<Vec<Update>> {
    match client {
        Some(client) => client.updates().await,
        None => std::future::pending().await,
    }
}
