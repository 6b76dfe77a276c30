//! The terminal: screen, keys, questions, settings, ends.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::support::pty::{Setup, Terminal};
use crate::support::sandbox::Sandbox;

fn command(sandbox: &Sandbox, program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(sandbox.env(None))
        .current_dir(sandbox.work());
    command
}

fn shell(sandbox: &Sandbox, setup: Setup, script: &str) -> Terminal {
    setup.start(&command(sandbox, "/bin/sh", &["-c", script]))
}

#[test]
fn a_shell_can_be_typed_into() {
    let sandbox = Sandbox::new();
    let mut terminal = Setup::new()
        .size(60, 10)
        .start(&command(&sandbox, "/bin/sh", &["-i"]));
    terminal.wait_until("a prompt", |screen| !screen.text().trim().is_empty());
    terminal.keys("echo $((6 * 7)) in $PWD<enter>");
    terminal.wait_text(&format!("42 in {}", sandbox.work().display()));
    terminal.keys("stty size<enter>");
    terminal.wait_text("10 60");
    terminal.resize(50, 12);
    terminal.keys("stty size<enter>");
    terminal.wait_text("12 50");
    terminal.keys("exit 3<enter>");
    assert_eq!(terminal.exit_status().code(), Some(3));
}

#[test]
fn the_program_leads_its_session_and_ctrl_c_reaches_it() {
    let sandbox = Sandbox::new();
    let mut terminal = shell(&sandbox, Setup::new(), "echo ready; exec sleep 60");
    terminal.wait_text("ready");
    let process = crate::support::processes::find(terminal.pid()).unwrap();
    assert_eq!((process.group, process.session), (process.pid, process.pid));
    terminal.keys("<ctrl-c>");
    assert_eq!(terminal.exit_status().signal(), Some(2));
}

#[test]
fn a_hang_up_ends_the_session() {
    let sandbox = Sandbox::new();
    let mut terminal = shell(&sandbox, Setup::new(), "echo ready; exec sleep 60");
    terminal.wait_text("ready");
    terminal.hang_up();
    assert_eq!(terminal.exit_status().signal(), Some(1));
}

/// Runs a script in a raw terminal, then takes as many bytes as are expected from its input.
#[track_caller]
fn assert_input(setup: Setup, script: &str, act: impl FnOnce(&mut Terminal), expected: &str) {
    let sandbox = Sandbox::new();
    let script = format!(
        "stty raw -echo; {script}; echo ready; head -c {} >taken; echo complete",
        expected.len()
    );
    let mut terminal = shell(&sandbox, setup, &script);
    terminal.wait_text("ready");
    act(&mut terminal);
    terminal.wait_text("complete");
    let taken = std::fs::read_to_string(sandbox.work().join("taken")).unwrap();
    assert_eq!(taken, expected);
}

#[test]
fn keys_arrive_as_a_terminal_sends_them() {
    assert_input(
        Setup::new(),
        "true",
        |terminal| {
            terminal.keys("a<enter><ctrl-x><alt-1><up><shift-tab><pageup><f1><ctrl-right><lt>");
            terminal.keys("<esc><esc>é");
        },
        "a\r\x18\x1b1\x1b[A\x1b[Z\x1b[5~\x1bOP\x1b[1;5C<\x1b\x1bé",
    );
    assert_input(
        Setup::new().kitty(),
        r"printf '\033[?1h\033[>3u'",
        |terminal| {
            terminal.keys("aA<enter><ctrl-x><esc:press><esc:repeat><esc:release>");
            terminal.keys("<up><shift-enter:press>");
        },
        "aA\r\x1b[120;5u\x1b[120;5:3u\x1b[27u\x1b[27;1:2u\x1b[27;1:3u\
         \x1bOA\x1b[1;1:3A\x1b[13;2u",
    );
}

#[test]
fn two_escs_are_two_reads() {
    let sandbox = Sandbox::new();
    // One read of what is there, then another.
    let script =
        "stty raw -echo; echo ready; for i in 1 2; do dd bs=64 count=1 2>/dev/null | wc -c; done";
    let mut terminal = shell(&sandbox, Setup::new(), script);
    terminal.wait_text("ready");
    terminal.keys("<esc><esc>");
    terminal.wait_until("one byte each", |screen| {
        let numbers = screen.text().replace("ready", "");
        numbers.split_whitespace().collect::<Vec<_>>() == ["1", "1"]
    });
}

#[test]
fn questions_are_answered() {
    let ask = r"printf '\033[H\033[6n\033[c\033]11;?\033\\\033[?u\033[18t'";
    assert_input(
        Setup::new().kitty().size(100, 24),
        ask,
        |_| (),
        "\x1b[1;1R\x1b[?62;22c\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\\x1b[?0u\x1b[8;24;100t",
    );
    assert_input(
        Setup::new().light(),
        ask,
        |_| (),
        "\x1b[1;1R\x1b[?62;22c\x1b]11;rgb:fafa/fafa/fafa\x1b\\\x1b[8;24;80t",
    );
    assert_input(Setup::new().mute(), ask, |terminal| terminal.keys("x"), "x");
}

#[test]
fn modes_are_followed() {
    assert_input(
        Setup::new().kitty(),
        r"printf '\033[?1049h\033[?2004h\033[?1000h\033[?1006h\033[?1h\033[>3u'
          printf '\033]2;a title\007\033]52;c;aGk=\007\007'",
        |terminal| {
            assert!(terminal.screen(|screen| screen.alternate()));
            assert_eq!(terminal.title().as_deref(), Some("a title"));
            assert_eq!(terminal.clipboard(), ["aGk="]);
            assert_eq!(terminal.bells(), 1);
            assert_eq!(terminal.keyboard_flags(), 3);
            terminal.paste("x\ny");
            terminal.click(4, 9);
            terminal.scroll(0, 0, false);
        },
        "\x1b[200~x\ny\x1b[201~\x1b[<0;10;5M\x1b[<0;10;5m\x1b[<65;1;1M",
    );
}

#[test]
fn settings_are_compared_by_a_shell_around_the_program() {
    let sandbox = Sandbox::new();
    let clean = Setup::new().in_shell();
    let mut terminal = shell(&sandbox, clean.clone(), "stty -echo; stty echo; exit 4");
    let report = terminal.shell_report();
    assert_eq!(report.before, report.after);
    assert!(report.before.contains("icanon"), "{report:?}");
    assert_eq!(report.code, "4");
    let mut terminal = shell(&sandbox, clean, "stty -echo raw");
    let report = terminal.shell_report();
    assert_ne!(report.before, report.after);
}

#[test]
fn much_output_and_much_input_do_not_block_each_other() {
    let sandbox = Sandbox::new();
    let script =
        "stty raw -echo; echo ready; head -c 1 >taken; seq 1 60000; head -c 300000 | wc -c";
    let mut terminal = shell(&sandbox, Setup::new(), script);
    terminal.wait_text("ready");
    terminal.paste(&"p".repeat(300_001));
    terminal.wait_text("300000");
    assert!(terminal.output_len() > 300_000);
}

#[test]
fn a_failed_wait_shows_the_screen() {
    // In a process of its own, because only there the deadline can be short.
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact"])
        .arg("support::selftest::terminal::waits_in_vain")
        .env("PI_AGENTS_TEST_TIMEOUT", "0.3")
        .env_remove("RUST_BACKTRACE")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut said).unwrap();
    stdout.read_to_string(&mut said).unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(
        said.contains("in vain for: \"never\" on the screen"),
        "{said}"
    );
    assert!(said.contains("│what is there"), "{said}");
}

#[test]
#[ignore = "fails on purpose, for a_failed_wait_shows_the_screen"]
fn waits_in_vain() {
    let sandbox = Sandbox::new();
    let mut terminal = shell(&sandbox, Setup::new(), "echo what is there; exec sleep 60");
    terminal.wait_text("what is there");
    terminal.wait_text("never");
}
