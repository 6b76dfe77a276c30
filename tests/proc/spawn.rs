//! How children start.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use pi_agents::sys::process::{self, Signal};
use pi_agents::sys::{signals, spawn, user};

use super::stand_in::Reaped;
use crate::support::example::ensure_example;
use crate::support::wait::wait_until;

/// R-LIFE-01, R-LIFE-18: exactly the given environment, bytes included, in the given directory, in an own group.
#[test]
fn a_child_gets_exactly_what_it_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let odd = OsString::from_vec(b"no \xff utf-8".to_vec());
    let env = [
        (OsString::from("ODD"), odd),
        (OsString::from("PATH"), OsString::from("/usr/bin:/bin")),
    ];
    let args = ["-c", "env; pwd -P"].map(OsString::from);
    let output = spawn::command(OsStr::new("sh"), args, env, dir.path())
        .output()
        .unwrap();
    let mut lines: Vec<&[u8]> = output.stdout.split(|byte| *byte == b'\n').collect();
    // What the shell adds by itself.
    lines.retain(|line| {
        ![&b"PWD="[..], b"SHLVL=", b"_=", b"OLDPWD="]
            .iter()
            .any(|own| line.starts_with(own))
    });
    lines.retain(|line| !line.is_empty());
    lines.sort_unstable();
    let real = std::fs::canonicalize(dir.path()).unwrap();
    let mut expected: Vec<&[u8]> = vec![
        b"ODD=no \xff utf-8",
        b"PATH=/usr/bin:/bin",
        real.as_os_str().as_encoded_bytes(),
    ];
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

/// The program is looked up where the child will look, not where we would.
#[test]
fn a_program_is_found_in_the_path_of_the_given_environment() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let tool = dir.path().join("only-here");
    std::fs::write(&tool, "#!/bin/sh\nexit 5\n").unwrap();
    std::fs::set_permissions(&tool, PermissionsExt::from_mode(0o700)).unwrap();
    let env = [(OsString::from("PATH"), dir.path().as_os_str().to_owned())];
    let status = spawn::command(OsStr::new("only-here"), [], env, dir.path()).status();
    assert_eq!(status.unwrap().code(), Some(5));
    let status = spawn::command(OsStr::new("only-here"), [], [], dir.path()).status();
    assert_eq!(status.unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_group_or_a_session_of_its_own() {
    let me = process::read(std::process::id()).unwrap();
    let grouped = Reaped::sh("exec sleep 600");
    let row = process::read(grouped.0.id()).unwrap();
    assert_eq!((row.pgid, row.sid), (row.pid, me.sid));

    let mut command = Command::new("sleep");
    command.arg("600");
    spawn::new_session(&mut command);
    let session = Reaped::start(&mut command);
    let row = process::read(session.0.id()).unwrap();
    assert_eq!((row.pgid, row.sid), (row.pid, row.pid));
}

/// What a parent ignores or blocks must not make its children deaf.
#[test]
fn inherited_signal_settings_are_undone() {
    let output = Command::new(ensure_example("proc-harness"))
        .arg("deaf")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        let bits = line.split_whitespace().nth(1).unwrap();
        u64::from_str_radix(bits, 16).unwrap()
    };
    let (hup, usr1, term) = (1 << 0, 1 << 9, 1 << 14);
    // The usual way hands everything down ...
    assert_eq!(field("usual-SigIgn:") & (hup | usr1), hup | usr1, "{text}");
    assert_eq!(
        field("usual-SigBlk:") & (usr1 | term),
        usr1 | term,
        "{text}"
    );
    // ... ours nothing. (32 and 33 belong to the C library, which lets nobody change them.)
    let libc_own = 0b11 << 31;
    assert_eq!(field("ours-SigIgn:") & !libc_own, 0, "{text}");
    assert_eq!(field("ours-SigBlk:"), 0, "{text}");
}

#[test]
fn a_pipe_can_be_made_larger() {
    let mut child = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    let pipe = child.stdout.take().unwrap();
    assert_eq!(spawn::set_pipe_size(&pipe, 256 << 10), Some(256 << 10));
    // Beyond every limit: it stays as it is.
    assert_eq!(spawn::set_pipe_size(&pipe, 1 << 40), Some(256 << 10));
    child.wait().unwrap();
}

/// R-Q-03
#[test]
fn the_peer_of_a_socket_is_known() {
    let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
    assert_eq!(user::peer_uid(&here).unwrap(), user::uid());
    assert_eq!(user::peer(&there).unwrap().pid, Some(std::process::id()));
    assert!(user::peer_uid(&std::fs::File::open("/dev/null").unwrap()).is_err());
}

#[test]
fn an_exit_code_tells_the_signal() {
    let mut child = Reaped::sh("exec sleep 600");
    process::signal(child.id(), Signal::TERM).unwrap();
    let status = child.0.wait().unwrap();
    assert_eq!(
        (status.signal(), signals::exit_code(status)),
        (Some(15), 143)
    );
}

/// A number that stands for nothing or for no socket is not adopted.
#[test]
fn only_a_socket_is_adopted() {
    use std::os::fd::AsRawFd;
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(spawn::adopt_socket(file.as_raw_fd()).is_none());
    for number in [-1, 0, 1, 2, 999_999] {
        assert!(spawn::adopt_socket(number).is_none(), "{number}");
    }
    assert!(file.metadata().is_ok(), "the file is still ours");
}

/// R-TUI-12: a screen stops like any program at Ctrl+Z, goes on when continued, and keeps its own handler for a
/// stop that comes from outside.
#[test]
fn a_suspended_group_stops_and_goes_on() {
    let env = std::env::vars_os();
    let harness = ensure_example("proc-harness");
    let args = [OsString::from("suspend")];
    let mut command = spawn::command(harness.as_os_str(), args, env, std::path::Path::new("/"));
    let mut child = Reaped(command.stdout(Stdio::piped()).spawn().unwrap());
    let id = child.id();
    for _ in 0..2 {
        wait_until("it has stopped", || {
            process::read(id.pid).unwrap().state == 'T'
        });
        // Undoes the stop before it returns, so the next round cannot see this one's.
        process::signal(id, Signal::CONT).unwrap();
    }
    let mut said = String::new();
    let mut stdout = child.0.stdout.take().unwrap();
    std::io::Read::read_to_string(&mut stdout, &mut said).unwrap();
    assert_eq!(said, "suspending\ncontinued\nhandled\n".repeat(2));
    assert!(child.0.wait().unwrap().success());
}
