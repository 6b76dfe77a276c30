//! A person at a screen: keys in, screen out, with clocks that only the test moves.
#![allow(dead_code, reason = "shared by several tests and an example")]

use std::sync::Arc;

use crossterm::event::{Event, KeyEvent, KeyEventKind, MouseButton, MouseEvent, MouseEventKind};
use futures_util::FutureExt;
use pi_agents::client::{FleetClient, Reply, RequestError};
use pi_agents::tui::ExitReason;
use pi_agents::tui::app::{App, Attempt, Effect, Now, Settings};
use pi_agents::tui::keymap::{Chord, Keymap};
use pi_agents::tui::panes;
use pi_agents::tui::theme::{Depth, Ground, Theme};
use pi_agents::tui::update::{client as news, input};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use super::fake_client::{FakeClient, NOON};

type Answer = Result<Reply, RequestError>;
type Waiting = std::pin::Pin<Box<dyn Future<Output = Answer>>>;

pub struct Desk {
    pub app: App,
    pub client: Arc<FakeClient>,
    pub now: Now,
    pub exit: Option<ExitReason>,
    pub connects: Vec<Attempt>,
    pub suspended: usize,
    waiting: Vec<(u64, Waiting)>,
    terminal: Terminal<TestBackend>,
}

pub fn settings() -> Settings {
    Settings {
        folder: "/home/you/shop".into(),
        home: Some("/home/you".into()),
        reconnects: true,
        ..Settings::default()
    }
}

impl Desk {
    /// A screen that is connected and drawn.
    pub fn new(client: FakeClient, width: u16, height: u16) -> Self {
        let mut desk = Self::starting(client, width, height);
        desk.connect();
        desk
    }

    /// A screen before anything is connected.
    pub fn starting(client: FakeClient, width: u16, height: u16) -> Self {
        let keymap = Keymap::new(&Default::default()).expect("the default keys are sound");
        let app = App::new(settings(), keymap, Theme::load(Ground::Dark, Depth::True));
        let mut desk = Self {
            app,
            client: Arc::new(client),
            now: Now {
                mono: 1_000_000,
                wall: NOON,
            },
            exit: None,
            connects: Vec::new(),
            suspended: 0,
            waiting: Vec::new(),
            terminal: Terminal::new(TestBackend::new(width, height)).unwrap(),
        };
        desk.app.size = (width, height);
        desk.draw();
        desk
    }

    pub fn connect(&mut self) {
        news::connected(&mut self.app);
        self.settle();
    }

    /// Everything that has to happen without time passing.
    pub fn settle(&mut self) {
        for _ in 0..100 {
            let effects = news::settle(&mut self.app, self.now);
            self.act(effects);
            let mut again = false;
            let mut still = Vec::new();
            for (number, mut answer) in std::mem::take(&mut self.waiting) {
                match answer.as_mut().now_or_never() {
                    Some(answer) => {
                        again = true;
                        let effects = news::reply(&mut self.app, number, answer, self.now);
                        self.act(effects);
                    }
                    None => still.push((number, answer)),
                }
            }
            self.waiting.extend(still);
            if matches!(self.app.link, pi_agents::tui::app::Link::Live) {
                let client = Arc::clone(&self.client);
                let batch = client.updates().now_or_never();
                match batch {
                    Some(Some(batch)) => {
                        again = true;
                        let effects = news::updates(&mut self.app, batch, self.now);
                        self.act(effects);
                    }
                    Some(None) => {
                        again = true;
                        news::lost(&mut self.app, self.now);
                    }
                    None => {}
                }
            }
            if !again && self.draw_wanted() {
                self.draw();
                // Drawing tells which panes there are.
                continue;
            }
            if !again {
                return;
            }
        }
        panic!("the screen does not come to rest");
    }

    fn draw_wanted(&mut self) -> bool {
        self.app.take_wish().is_some()
    }

    pub fn draw(&mut self) {
        let (app, now) = (&mut self.app, self.now);
        self.terminal
            .draw(|frame| panes::draw(app, frame, now))
            .unwrap();
    }

    fn act(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Request(number, request) => {
                    let client = Arc::clone(&self.client);
                    let answer = async move { client.request(request).await };
                    self.waiting.push((number, Box::pin(answer)));
                }
                Effect::Connect(attempt) => self.connects.push(attempt),
                Effect::Suspend => self.suspended += 1,
                Effect::Redraw => {}
                Effect::Exit(reason) => self.exit = Some(reason),
            }
        }
    }

    pub fn event(&mut self, event: Event) {
        let effects = input::event(&mut self.app, event, self.now);
        self.act(effects);
        self.settle();
    }

    fn key(&mut self, name: &str, kind: KeyEventKind) {
        let chord: Chord = name.parse().expect("a key");
        let mut event = KeyEvent::new(chord.code, chord.mods);
        event.kind = kind;
        self.event(Event::Key(event));
    }

    /// Presses keys one after another, a millisecond apart.
    pub fn press(&mut self, names: &str) {
        for name in names.split_whitespace() {
            self.now.mono += 1;
            self.key(name, KeyEventKind::Press);
        }
    }

    pub fn repeat(&mut self, name: &str) {
        self.key(name, KeyEventKind::Repeat);
    }

    pub fn release(&mut self, name: &str) {
        self.key(name, KeyEventKind::Release);
    }

    pub fn type_text(&mut self, text: &str) {
        for c in text.chars() {
            self.now.mono += 1;
            let event = KeyEvent::new(
                crossterm::event::KeyCode::Char(c),
                crossterm::event::KeyModifiers::NONE,
            );
            self.event(Event::Key(event));
        }
    }

    pub fn paste(&mut self, text: &str) {
        self.event(Event::Paste(text.to_owned()));
    }

    pub fn mouse(&mut self, kind: MouseEventKind, x: u16, y: u16) {
        self.event(Event::Mouse(MouseEvent {
            kind,
            column: x,
            row: y,
            modifiers: crossterm::event::KeyModifiers::NONE,
        }));
    }

    /// A click on the first cell of a text.
    pub fn click(&mut self, text: &str) {
        let (x, y) = self.find(text).unwrap_or_else(|| {
            panic!("{text:?} is not on the screen:\n{}", self.text());
        });
        self.mouse(MouseEventKind::Down(MouseButton::Left), x, y);
    }

    pub fn resize(&mut self, width: u16, height: u16) {
        self.terminal.backend_mut().resize(width, height);
        self.event(Event::Resize(width, height));
    }

    /// Lets time pass as the loop does: it wakes only where something is due.
    pub fn wait(&mut self, ms: u64) {
        let end = self.now.mono + ms;
        for _ in 0..10_000 {
            let wake = self.app.next_wake(self.now).filter(|at| *at <= end);
            let Some(at) = wake else {
                break;
            };
            self.pass(at.max(self.now.mono));
            let effects = self.app.tick(self.now);
            self.act(effects);
            self.settle();
            if at == end {
                break;
            }
        }
        self.pass(end);
        self.settle();
    }

    fn pass(&mut self, mono: u64) {
        self.now.wall += i64::try_from(mono - self.now.mono).unwrap();
        self.now.mono = mono;
    }

    pub fn buffer(&self) -> &Buffer {
        self.terminal.backend().buffer()
    }

    /// The screen as lines, blanks at the end cut.
    pub fn lines(&self) -> Vec<String> {
        super::screen::lines(self.buffer())
    }

    pub fn text(&self) -> String {
        self.lines().join("\n")
    }

    pub fn find(&self, text: &str) -> Option<(u16, u16)> {
        self.lines().iter().enumerate().find_map(|(y, line)| {
            let at = line.find(text)?;
            let x = line[..at].chars().count();
            Some((u16::try_from(x).unwrap(), u16::try_from(y).unwrap()))
        })
    }

    #[track_caller]
    pub fn sees(&self, text: &str) {
        assert!(
            self.text().contains(text),
            "{text:?} is not on the screen:\n{}",
            self.text()
        );
    }

    #[track_caller]
    pub fn misses(&self, text: &str) {
        assert!(
            !self.text().contains(text),
            "{text:?} is on the screen:\n{}",
            self.text()
        );
    }

    /// The last line: the keys.
    pub fn keys(&self) -> String {
        self.lines().last().cloned().unwrap_or_default()
    }

    /// Where the real cursor is, if it is shown.
    pub fn cursor(&mut self) -> Option<(u16, u16)> {
        use ratatui::backend::Backend;
        let backend = self.terminal.backend_mut();
        let at = backend.get_cursor_position().unwrap();
        backend.cursor_visible().then_some((at.x, at.y))
    }
}
