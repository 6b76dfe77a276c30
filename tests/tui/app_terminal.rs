//! The screen in a real terminal: modes, signals, suspension, panics, bytes (R-TUI-12, B052, B054,
//! B057, B066, B068, B102). The program is the preview example over a scripted fleet.

use std::ops::{Deref, DerefMut};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::example::ensure_example;
use crate::support::pty::{Setup, Terminal};
use crate::support::sandbox::Sandbox;
use crate::support::wait;

/// A terminal with the place its program runs in.
struct Desk {
    terminal: Terminal,
    _sandbox: Sandbox,
}

impl Deref for Desk {
    type Target = Terminal;
    fn deref(&self) -> &Terminal {
        &self.terminal
    }
}

impl DerefMut for Desk {
    fn deref_mut(&mut self) -> &mut Terminal {
        &mut self.terminal
    }
}

/// The program, with changes to its environment.
fn begin(setup: Setup, mode: &str, change: impl FnOnce(&mut Command)) -> Desk {
    let sandbox = Sandbox::new();
    let mut command = preview(&sandbox, mode);
    change(&mut command);
    Desk {
        terminal: setup.size(100, 30).start(&command),
        _sandbox: sandbox,
    }
}

fn preview(sandbox: &Sandbox, mode: &str) -> Command {
    let mut command = Command::new(ensure_example("tui-preview"));
    command
        .env_clear()
        .envs(sandbox.env(None))
        .env("PREVIEW", mode)
        .env("TERM", "xterm-256color")
        .env("COLORTERM", "truecolor")
        .env("TZ", "UTC");
    command
}

fn start(mode: &str) -> Desk {
    let mut terminal = begin(Setup::new(), mode, |_| {});
    terminal.wait_text("@max");
    terminal
}

/// Every mode a screen turns on is off again.
#[track_caller]
fn restored(terminal: &Terminal) {
    let output = String::from_utf8_lossy(&terminal.output()).into_owned();
    for (on, off) in [
        ("\x1b[?1049h", "\x1b[?1049l"),
        ("\x1b[?2004h", "\x1b[?2004l"),
        ("\x1b[?1004h", "\x1b[?1004l"),
        ("\x1b[?1003h", "\x1b[?1003l"),
        ("\x1b[?1006h", "\x1b[?1006l"),
        ("\x1b[?25l", "\x1b[?25h"),
        ("\x1b[>3u", "\x1b[<1u"),
        ("\x1b[22;2t", "\x1b[23;2t"),
    ] {
        assert!(output.contains(on), "{on:?} was never on");
        assert!(
            output.rfind(off) > output.rfind(on),
            "{off:?} is missing behind {on:?}"
        );
    }
    assert!(
        output.rfind("\x1b[?1049l") > output.rfind("\x1b[?1003l"),
        "the mouse is off before the screen is left"
    );
    assert_eq!(terminal.keyboard_flags(), 0);
}

/// The quit question asks for a pause before a key that chooses.
fn pause(terminal: &mut Terminal) {
    let window = std::time::Duration::from_millis(350);
    wait::stays("the question waits", window, || terminal.exited().is_none());
}

// A killed screen leaves the terminal in the alternate screen: entering does not empty it then.
#[test]
fn entering_empties_the_screen_before_the_first_frame() {
    let mut terminal = start("idle");
    let output = String::from_utf8_lossy(&terminal.output()).into_owned();
    let entered = output.find("\x1b[?1049h").expect("entered");
    let cleared = output[entered..].find("\x1b[2J").expect("cleared");
    let drawn = output[entered..].find("pi-agents").expect("drawn");
    assert!(cleared < drawn);
    terminal.send(b"q");
}

#[test]
fn quitting_gives_the_terminal_back_as_it_was() {
    let mut terminal = begin(Setup::new().in_shell(), "idle", |_| {});
    terminal.wait_text("@max");
    terminal.send(b"q");
    terminal.wait_text("stop all and quit");
    pause(&mut terminal);
    terminal.send(b"k");
    let report = terminal.shell_report();
    assert_eq!(report.before, report.after);
    assert!(!report.before.is_empty());
    restored(&terminal);
    assert!(terminal.screen_text().contains("end: Ok(Keep)"));
}

// B068
#[test]
fn agents_are_stopped_after_the_terminal_is_restored() {
    let mut terminal = start("idle");
    terminal.send(b"q");
    terminal.wait_text("stop all and quit");
    pause(&mut terminal);
    terminal.send(b"s");
    terminal.exit_status();
    let output = String::from_utf8_lossy(&terminal.output()).into_owned();
    let line = output.find("stopping 7 agents…").expect("said so");
    assert!(
        line > output.rfind("\x1b[?1049l").unwrap(),
        "on the ordinary screen"
    );
    assert!(output[line..].contains("end: Ok(Quit { stopped: 7 })"));
    restored(&terminal);
}

// B066
#[test]
fn signals_end_the_screen_and_restore_it() {
    for (signal, name, end) in [
        (libc_signal("TERM"), "TERM", "end: Ok(Signal(15))"),
        (libc_signal("INT"), "INT", "end: Ok(Signal(2))"),
        (libc_signal("HUP"), "HUP", "end: Ok(Detached)"),
    ] {
        let mut terminal = start("");
        let pid = rustix::process::Pid::from_raw(i32::try_from(terminal.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        terminal.exit_status();
        restored(&terminal);
        assert!(terminal.screen_text().contains(end), "{name}");
    }
}

fn libc_signal(name: &str) -> rustix::process::Signal {
    use rustix::process::Signal;
    match name {
        "TERM" => Signal::TERM,
        "INT" => Signal::INT,
        _ => Signal::HUP,
    }
}

// R-LIFE-19
#[test]
fn a_terminal_that_goes_away_ends_the_screen() {
    let mut terminal = start("");
    terminal.hang_up();
    let status = terminal.exit_status();
    assert_eq!(status.signal(), None, "it ended by itself: {status}");
    assert!(status.success(), "{status}");
}

// B066
#[test]
fn a_panic_in_a_thread_or_in_the_loop_restores_the_terminal_first() {
    for mode in ["panic-thread", "panic-loop"] {
        let mut terminal = begin(Setup::new(), mode, |_| {});
        terminal.exit_status();
        restored(&terminal);
        let output = String::from_utf8_lossy(&terminal.output()).into_owned();
        let message = output.find("internal error").expect("a message");
        assert!(message > output.rfind("\x1b[?1049l").unwrap(), "{mode}");
    }
}

#[test]
fn ctrl_z_gives_the_shell_its_terminal_and_fg_brings_the_screen_back() {
    let sandbox = Sandbox::new();
    let mut shell = Command::new("sh");
    shell
        .arg("-i")
        .env_clear()
        .envs(sandbox.env(None))
        .env("PREVIEW", "idle")
        .env("TERM", "xterm-256color")
        .env("PS1", "prompt> ")
        .env("ENV", "/dev/null")
        .env("PATH", "/usr/bin:/bin");
    let mut terminal = Setup::new().size(100, 30).start(&shell);
    terminal.wait_text("prompt>");
    let program = ensure_example("tui-preview");
    terminal.send(format!("{}\r", program.display()).as_bytes());
    terminal.wait_text("n new");
    terminal.send(b"n");
    terminal.wait_text("new agent ·");
    terminal.send(b"a draft");
    terminal.wait_text("› a draft");
    terminal.send(b"\x1a");
    terminal.wait_until("the shell's own screen", |screen| {
        !screen.text().contains("a draft") && screen.text().contains("Stopped")
    });
    restored(&terminal);
    terminal.send(b"echo hello from $PS1\r");
    terminal.wait_text("hello from prompt>");
    terminal.send(b"fg\r");
    terminal.wait_text("› a draft");
    terminal.send(b"!");
    terminal.wait_text("› a draft!");
    terminal.send(b"\x1b");
    terminal.wait_text("n new");
    terminal.send(b"q");
    terminal.wait_text("stop all and quit");
    pause(&mut terminal);
    terminal.send(b"k");
    terminal.wait_text("end: Ok(Keep)");
    restored(&terminal);
}

#[test]
fn ctrl_z_without_a_shell_says_so_and_goes_on() {
    let mut terminal = start("idle");
    terminal.send(b"\x1a");
    terminal.wait_text("there is no shell to go back to");
    terminal.send(b"?");
    terminal.wait_text("type to search");
}

// B052
#[test]
fn an_idle_screen_writes_nothing_and_does_not_wake() {
    let mut terminal = start("idle");
    // The questions to the terminal, and the mark of a read row, are over.
    terminal.wait_until("the screen to be quiet", |_| true);
    std::thread::sleep(Duration::from_secs(2));
    let (bytes, wakes) = (terminal.output_len(), switches(terminal.pid()));
    wait::stays("no byte and no wake-up", Duration::from_secs(2), || {
        terminal.output_len() == bytes && switches(terminal.pid()) == wakes
    });
}

/// How often the threads of a process went to sleep.
fn switches(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok())
        .filter_map(|status| {
            let line = status
                .lines()
                .find(|line| line.starts_with("voluntary_ctxt_switches"))?;
            line.split_whitespace().last()?.parse::<u64>().ok()
        })
        .sum()
}

// B052
#[test]
fn a_spinner_writes_little_and_at_most_eight_times_a_second() {
    let terminal = start("running");
    std::thread::sleep(Duration::from_secs(1));
    let before = frames(&terminal);
    let bytes = terminal.output_len();
    std::thread::sleep(Duration::from_secs(2));
    let (frames, bytes) = (frames(&terminal) - before, terminal.output_len() - bytes);
    assert!((8..=20).contains(&frames), "{frames} frames in two seconds");
    assert!(
        bytes / frames.max(1) < 200,
        "{bytes} bytes in {frames} frames"
    );
}

fn frames(terminal: &Terminal) -> usize {
    let output = String::from_utf8_lossy(&terminal.output()).into_owned();
    output.matches("\x1b[?2026h").count()
}

// B054
#[test]
fn colours_are_those_the_terminal_announced() {
    let mut terminal = begin(Setup::new(), "idle", |command| {
        command.env_remove("COLORTERM");
    });
    terminal.wait_text("@max");
    let output = String::from_utf8_lossy(&terminal.output()).into_owned();
    assert!(!output.contains("38;2;") && output.contains("38;5;"));

    let mut terminal = begin(Setup::new(), "idle", |command| {
        command.env("NO_COLOR", "1");
    });
    terminal.wait_text("@max");
    let output = String::from_utf8_lossy(&terminal.output()).into_owned();
    for sgr in output.split("\x1b[").filter_map(|part| {
        let end = part.find(|c: char| !(c.is_ascii_digit() || c == ';'))?;
        part[end..].starts_with('m').then(|| &part[..end])
    }) {
        for number in sgr.split(';').filter(|number| !number.is_empty()) {
            assert!(
                matches!(number.parse(), Ok(0..=29_u32 | 39 | 49 | 59)),
                "a colour: {sgr:?}"
            );
        }
    }
    terminal.wait_text("‖ @max");
}

#[test]
fn the_first_frame_comes_before_a_core_and_keys_typed_early_count() {
    for mute in [false, true] {
        let setup = if mute {
            Setup::new().mute()
        } else {
            Setup::new()
        };
        let mut terminal = begin(setup, "never", |_| {});
        terminal.wait_text("starting…");
        terminal.send(b"nearly there");
        terminal.wait_text("› early there");
        terminal.send(b"\x03");
        terminal.exit_status();
        assert!(terminal.screen_text().contains("end: Ok(NotStarted)"));
    }
}

// B057
#[test]
fn one_ctrl_x_of_a_terminal_that_reports_releases_stops_nothing() {
    let mut terminal = begin(Setup::new().kitty(), "idle", |_| {});
    terminal.wait_text("@max");
    wait::wait_until("the keyboard protocol", || terminal.keyboard_flags() == 3);
    for once in [
        &b"\x1b[120;5u\x1b[120;5:3u"[..],
        b"\x1b[120;5u\x1b[120;5:2u\x1b[120;5:2u\x1b[120;5:3u",
    ] {
        terminal.send(once);
        terminal.wait_text("press ctrl+x again to stop @max");
        terminal.wait_until("the window to be over", |screen| {
            !screen.text().contains("press ctrl+x")
        });
    }
    assert!(!terminal.screen_text().contains("stopped by you · "));
    let before = terminal.screen_text().matches("stopped").count();
    terminal.send(b"\x1b[120;5u\x1b[120;5:3u\x1b[120;5u\x1b[120;5:3u");
    terminal.wait_until("a stopped agent", |screen| {
        screen.text().matches("stopped").count() > before
    });
}

#[test]
fn two_ctrl_x_of_an_old_terminal_stop_once() {
    let mut terminal = start("idle");
    terminal.wait_drained();
    terminal.send(b"\x18");
    terminal.wait_text("press ctrl+x again to stop @max");
    terminal.send(b"\x18");
    terminal.wait_text("stopped by you");
}

// B102
#[test]
fn without_a_terminal_there_is_a_message_and_no_escape_byte() {
    let sandbox = Sandbox::new();
    let output = preview(&sandbox, "idle")
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("NotATerminal"), "{text}");
    assert!(!output.stdout.contains(&0x1b));

    let mut terminal = begin(Setup::new(), "idle", |command| {
        command.env("TERM", "dumb");
    });
    terminal.exit_status();
    assert!(terminal.screen_text().contains("Dumb"));
    assert!(!terminal.output().contains(&0x1b));
}

#[test]
fn the_title_has_the_counts_and_light_ground_is_noticed() {
    let mut dark = start("");
    dark.wait_until("a title", |_| true);
    wait::wait_until("the counts in the title", || {
        dark.title()
            .is_some_and(|title| title.contains("1 waiting · 2 running"))
    });
    let mut light = begin(Setup::new().light(), "idle", |_| {});
    light.wait_text("@max");
    let dark_text = "38;2;".to_owned();
    wait::wait_until("colours for a light ground", || {
        let output = String::from_utf8_lossy(&light.output()).into_owned();
        // The whole screen was drawn a second time, in other colours.
        output.matches("pi-agents").count() >= 2 && output.contains(&dark_text)
    });
}
