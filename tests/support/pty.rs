//! A real terminal for a program under test: a pseudo-terminal with the program as leader of its
//! session, keys in, a screen out (parsed by vt100), and a terminal that answers questions.
//!
//! One thread reads and writes, without ever blocking, so a program that does not read cannot
//! stop its own output from being read. Nothing is timed: a test waits for what it wants to see.
//! The program starts through the fake Pi's helper role, which makes it the session's leader.

mod keys;
mod screen;

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

use screen::Replies;
pub use screen::Screen;

use super::example::ensure_example;
use super::sandbox::MARK;
use super::wait;

/// The program under test.
pub fn pi_agents() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_pi-agents"))
}

/// What the terminal is like.
#[derive(Clone, Debug)]
pub struct Setup {
    rows: u16,
    cols: u16,
    kitty: bool,
    mute: bool,
    background: (u8, u8, u8),
    in_shell: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            rows: 24,
            cols: 80,
            kitty: false,
            mute: false,
            background: (0x1e, 0x1e, 0x1e),
            in_shell: false,
        }
    }
}

impl Setup {
    /// A dark terminal of 80×24 without the kitty keyboard protocol.
    pub fn new() -> Self {
        Self::default()
    }

    /// Columns and rows.
    #[must_use]
    pub fn size(mut self, cols: u16, rows: u16) -> Self {
        (self.cols, self.rows) = (cols, rows);
        self
    }

    /// Speaks the kitty keyboard protocol when asked to.
    #[must_use]
    pub fn kitty(mut self) -> Self {
        self.kitty = true;
        self
    }

    /// Has a light background.
    #[must_use]
    pub fn light(mut self) -> Self {
        self.background = (0xfa, 0xfa, 0xfa);
        self
    }

    /// Answers no question at all.
    #[must_use]
    pub fn mute(mut self) -> Self {
        self.mute = true;
        self
    }

    /// Runs the program in a shell that looks at the terminal's settings before and after it:
    /// see [`Terminal::shell_report`].
    #[must_use]
    pub fn in_shell(mut self) -> Self {
        self.in_shell = true;
        self
    }

    /// Starts a program. Of the command its program, arguments, folder and *explicit* environment
    /// count; nothing else is inherited.
    pub fn start(self, command: &Command) -> Terminal {
        Terminal::start(self, command)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Shared {
    parser: Mutex<vt100::Parser<Replies>>,
    output: Mutex<Vec<u8>>,
    input: Mutex<VecDeque<u8>>,
    closing: AtomicBool,
    held: AtomicBool,
    wake: OwnedFd,
}

impl Shared {
    fn send(&self, bytes: &[u8]) {
        lock(&self.input).extend(bytes);
        let _ = write(&self.wake, b"x");
    }
}

/// A program in its terminal. Hung up and killed when dropped.
pub struct Terminal {
    shared: Arc<Shared>,
    master: Option<Arc<OwnedFd>>,
    thread: Option<JoinHandle<()>>,
    child: Child,
    setup: Setup,
    report: Option<tempfile::TempDir>,
    esc_sent: bool,
}

/// What the shell saw, see [`Setup::in_shell`].
#[derive(Debug, PartialEq, Eq)]
pub struct ShellReport {
    /// `stty -a` before.
    pub before: String,
    /// `stty -a` after.
    pub after: String,
    /// The program's exit code as the shell tells it (128 + signal).
    pub code: String,
}

const SHELL_SCRIPT: &str = r#"dir=$1; shift
stty -a >"$dir/before"
"$@"
echo $? >"$dir/code"
stty -a >"$dir/after"
"#;

impl Terminal {
    fn start(setup: Setup, command: &Command) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("a pseudo-terminal");
        grantpt(&master).expect("grantpt");
        unlockpt(&master).expect("unlockpt");
        let slave = ioctl_tiocgptpeer(&master, flags).expect("the other end");
        set_size(&master, setup.cols, setup.rows);
        let status = fcntl_getfl(&master).expect("flags");
        fcntl_setfl(&master, status | OFlags::NONBLOCK).expect("non-blocking");

        let report = setup
            .in_shell
            .then(|| tempfile::tempdir().expect("a folder"));
        let child = spawn(command, report.as_ref().map(tempfile::TempDir::path), slave);
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (woken, wake) = pipe_with(flags).expect("a pipe");
        let parser = vt100::Parser::new_with_callbacks(
            at_least_one(setup.rows),
            at_least_one(setup.cols),
            10_000,
            Replies::new(setup.kitty, setup.mute, setup.background),
        );
        let shared = Arc::new(Shared {
            parser: Mutex::new(parser),
            output: Mutex::default(),
            input: Mutex::default(),
            closing: AtomicBool::new(false),
            held: AtomicBool::new(false),
            wake,
        });
        let master = Arc::new(master);
        let thread = {
            let (shared, master) = (Arc::clone(&shared), Arc::clone(&master));
            std::thread::spawn(move || serve(&shared, &master, &woken))
        };
        Self {
            shared,
            master: Some(master),
            thread: Some(thread),
            child,
            setup,
            report,
            esc_sent: false,
        }
    }

    /// Process id of the program (of the shell, with [`Setup::in_shell`]).
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Types: plain text and named keys in angle brackets, `hello<enter><ctrl-x><alt-1><up>`.
    /// The names are at the top of `pty/keys.rs`. With the kitty protocol on, keys are encoded and
    /// released as it says.
    #[track_caller]
    pub fn keys(&mut self, text: &str) {
        for key in keys::parse(text) {
            // Esc and the next key in one read would be one Alt+key: people are never that fast.
            if self.esc_sent {
                self.wait_drained();
            }
            let bytes = self.look(|screen, replies| {
                key.encode(screen.application_cursor(), replies.keyboard_flags())
            });
            self.esc_sent = bytes == b"\x1b";
            self.shared.send(&bytes);
        }
    }

    /// Writes bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.shared.send(bytes);
    }

    /// Pastes, in brackets if the program asked for them.
    pub fn paste(&mut self, text: &str) {
        let bracketed = self.look(|screen, _| screen.bracketed_paste());
        let bytes = if bracketed {
            format!("\x1b[200~{text}\x1b[201~")
        } else {
            text.replace('\n', "\r")
        };
        self.shared.send(bytes.as_bytes());
    }

    /// A click of the left button, counted from 0.
    #[track_caller]
    pub fn click(&mut self, row: u16, col: u16) {
        self.mouse(0, row, col, true);
        self.mouse(0, row, col, false);
    }

    /// One step of the wheel.
    #[track_caller]
    pub fn scroll(&mut self, row: u16, col: u16, up: bool) {
        self.mouse(if up { 64 } else { 65 }, row, col, true);
    }

    /// A mouse event: button code of xterm (0 left, 1 middle, 2 right, 32 added while moving, 64 and
    /// 65 wheel). The program must have asked for the mouse.
    #[track_caller]
    pub fn mouse(&mut self, button: u8, row: u16, col: u16, pressed: bool) {
        self.look(|screen, _| {
            assert_ne!(
                screen.mouse_protocol_mode(),
                vt100::MouseProtocolMode::None,
                "the program did not ask for the mouse"
            );
        });
        let end = if pressed { 'M' } else { 'm' };
        let event = format!("\x1b[<{button};{};{}{end}", col + 1, row + 1);
        self.shared.send(event.as_bytes());
    }

    /// The window gains or loses the focus.
    pub fn focus(&mut self, gained: bool) {
        self.shared.send(if gained { b"\x1b[I" } else { b"\x1b[O" });
    }

    /// Changes the size. Zero is allowed, as on hang-up.
    pub fn resize(&mut self, cols: u16, rows: u16) {
        lock(&self.shared.parser).set_size(at_least_one(rows), at_least_one(cols));
        (self.setup.cols, self.setup.rows) = (cols, rows);
        if let Some(master) = &self.master {
            set_size(master, cols, rows);
        }
    }

    /// Waits until the screen is as `seen` wants it; shows the screen when the deadline passes.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, seen: impl Fn(&Screen<'_>) -> bool) {
        self.wait_for(what, |screen| seen(screen).then_some(()));
    }

    /// Waits until `seen` finds something on the screen.
    #[track_caller]
    pub fn wait_for<T>(&mut self, what: &str, seen: impl Fn(&Screen<'_>) -> Option<T>) -> T {
        let shared = Arc::clone(&self.shared);
        wait::wait_for_or(
            what,
            || seen(&Screen::new(lock(&shared.parser).screen())),
            || self.describe(),
        )
    }

    /// Waits until `text` stands on the screen.
    #[track_caller]
    pub fn wait_text(&mut self, text: &str) {
        self.wait_until(&format!("{text:?} on the screen"), |screen| {
            screen.contains(text)
        });
    }

    /// Looks at the screen now.
    pub fn screen<T>(&self, look: impl FnOnce(&Screen<'_>) -> T) -> T {
        self.look(|screen, _| look(&Screen::new(screen)))
    }

    /// The screen now, rows without trailing blanks.
    pub fn screen_text(&self) -> String {
        self.screen(|screen| screen.text())
    }

    fn look<T>(&self, look: impl FnOnce(&vt100::Screen, &Replies) -> T) -> T {
        let parser = lock(&self.shared.parser);
        look(parser.screen(), parser.callbacks())
    }

    /// All bytes the program wrote.
    pub fn output(&self) -> Vec<u8> {
        lock(&self.shared.output).clone()
    }

    /// How many bytes it wrote: for "nothing is drawn while idle".
    pub fn output_len(&self) -> usize {
        lock(&self.shared.output).len()
    }

    /// What it put into the clipboard (OSC 52), decoded by nobody: base64.
    pub fn clipboard(&self) -> Vec<String> {
        self.look(|_, replies| replies.clipboard.clone())
    }

    /// The window title it set last.
    pub fn title(&self) -> Option<String> {
        self.look(|_, replies| replies.title.clone())
    }

    /// How often it rang the bell.
    pub fn bells(&self) -> usize {
        self.look(|_, replies| replies.bells)
    }

    /// The keyboard flags (kitty) in force; 0 after a program that cleans up.
    pub fn keyboard_flags(&self) -> u16 {
        self.look(|_, replies| replies.keyboard_flags())
    }

    /// The terminal's settings as text, for comparing before and after.
    pub fn settings(&self) -> String {
        let master = self.master.as_ref().expect("not hung up");
        let settings = tcgetattr(master).expect("settings");
        format!(
            "{:?} {:?} {:?} {:?} {:?}",
            settings.input_modes,
            settings.output_modes,
            settings.control_modes,
            settings.local_modes,
            settings.special_codes
        )
    }

    /// Waits until the program has read everything that was typed (in raw mode).
    #[track_caller]
    pub fn wait_drained(&mut self) {
        let Some(master) = self.master.clone() else {
            return;
        };
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let shared = Arc::clone(&self.shared);
        wait::wait_until("the program to read its keys", || {
            if !lock(&shared.input).is_empty() {
                return false;
            }
            let Ok(slave) = ioctl_tiocgptpeer(&master, flags) else {
                return true;
            };
            // A poll, because it first brings what was written at the one end to the other:
            // the number of bytes to read alone can still be 0 then.
            let mut slave = [PollFd::new(&slave, PollFlags::IN)];
            poll(&mut slave, Some(&Timespec::default())) == Ok(0)
        });
    }

    /// Takes in nothing of what the program prints, as after Ctrl+S, until it is let go again.
    pub fn hold(&mut self, hold: bool) {
        self.shared.held.store(hold, Ordering::SeqCst);
        let _ = write(&self.shared.wake, b"x");
    }

    /// The terminal goes away (closed window, dropped connection): SIGHUP for the session.
    pub fn hang_up(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        let _ = write(&self.shared.wake, b"x");
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.master = None;
    }

    /// The status, if it has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("own child")
    }

    /// Waits for the end; everything it wrote is on the screen then.
    #[track_caller]
    pub fn exit_status(&mut self) -> ExitStatus {
        let deadline = Instant::now() + wait::limit();
        let status = loop {
            if let Some(status) = self.exited() {
                break status;
            }
            assert!(
                Instant::now() < deadline,
                "the program does not end\n{}",
                self.describe()
            );
            std::thread::sleep(Duration::from_millis(5));
        };
        // A descendant may keep the terminal open; then what is there has to do.
        let patience = Instant::now() + Duration::from_secs(1);
        while self.thread.as_ref().is_some_and(|t| !t.is_finished()) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(2));
        }
        status
    }

    /// Waits for the end and gives what the shell saw.
    #[track_caller]
    pub fn shell_report(&mut self) -> ShellReport {
        self.exit_status();
        let dir = self.report.as_ref().expect("started with in_shell").path();
        let text = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        ShellReport {
            before: text("before"),
            after: text("after"),
            code: text("code").trim().to_owned(),
        }
    }

    fn describe(&mut self) -> String {
        let mut text = String::new();
        let line = "─".repeat(usize::from(self.setup.cols));
        let _ = writeln!(text, "┌{line}┐");
        for row in self.screen_text().lines() {
            let _ = writeln!(text, "│{row}");
        }
        let _ = writeln!(text, "└{line}┘");
        match self.exited() {
            Some(status) => {
                let signal = status.signal();
                let _ = writeln!(text, "the program has ended: {status} (signal {signal:?})");
            }
            None => text.push_str("the program runs\n"),
        }
        text
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.hang_up();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn at_least_one(size: u16) -> NonZeroU16 {
    NonZeroU16::new(size).unwrap_or(NonZeroU16::MIN)
}

fn set_size(master: &OwnedFd, cols: u16, rows: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(master, size).expect("the size can be set");
}

fn spawn(command: &Command, report: Option<&std::path::Path>, slave: OwnedFd) -> Child {
    let mut start = Command::new(ensure_example("fake-pi"));
    start.arg("--be-session");
    if let Some(dir) = report {
        start.args(["/bin/sh", "-c", SHELL_SCRIPT, "sh"]).arg(dir);
    }
    start.arg(command.get_program()).args(command.get_args());
    start.env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            start.env(name, value);
        }
    }
    assert!(
        command.get_envs().any(|(name, _)| name == OsStr::new(MARK)),
        "start programs with the environment of a sandbox"
    );
    if let Some(dir) = command.get_current_dir() {
        start.current_dir(dir);
    }
    let copy = |fd: &OwnedFd| fd.try_clone().expect("a copy of the descriptor");
    start.stdin(copy(&slave)).stdout(copy(&slave)).stderr(slave);
    // A test run in the background of a script ignores SIGINT, and so would everything it starts.
    pi_agents::sys::spawn::default_signals(&mut start);
    start.spawn().expect("the program can be started")
}

/// Reads what the program writes, answers its questions, writes what the test types.
fn serve(shared: &Shared, master: &OwnedFd, woken: &OwnedFd) {
    let mut part = vec![0; 64 * 1024];
    while !shared.closing.load(Ordering::SeqCst) {
        let mut wanted = PollFlags::empty();
        if !shared.held.load(Ordering::SeqCst) {
            wanted |= PollFlags::IN;
        }
        if !lock(&shared.input).is_empty() {
            wanted |= PollFlags::OUT;
        }
        let mut fds = [
            PollFd::new(master, wanted),
            PollFd::new(woken, PollFlags::IN),
        ];
        if poll(&mut fds, None).is_err_and(|error| error != Errno::INTR) {
            return;
        }
        let seen = fds[0].revents();
        if fds[1].revents().contains(PollFlags::IN) {
            let _ = read(woken, &mut [0; 64]);
        }
        if seen.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            match read(master, &mut part) {
                Ok(0) => return,
                Ok(count) => printed(shared, &part[..count]),
                Err(Errno::AGAIN | Errno::INTR) => {}
                // EIO: nobody has the other end open any more.
                Err(_) => return,
            }
        }
        if seen.contains(PollFlags::OUT) {
            let mut input = lock(&shared.input);
            let (front, _) = input.as_slices();
            if let Ok(count) = write(master, front) {
                input.drain(..count);
            }
        }
    }
}

fn printed(shared: &Shared, bytes: &[u8]) {
    let mut parser = lock(&shared.parser);
    parser.process(bytes);
    let answers = parser.callbacks_mut().take_answers();
    drop(parser);
    lock(&shared.output).extend_from_slice(bytes);
    lock(&shared.input).extend(answers);
}
