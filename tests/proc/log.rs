//! R-OPS-05 and R-TUI-12: the log file and the panic hook, in processes of their own.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

use pi_agents::sys::logging::CappedFile;

use crate::support::example::ensure_example;

fn harness(args: &[&str], level: Option<&str>) -> Output {
    let mut command = Command::new(ensure_example("proc-harness"));
    command.args(args).env_remove("LEVEL");
    if let Some(level) = level {
        command.env("LEVEL", level);
    }
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn log(dir: &Path, count: usize, level: Option<&str>) -> (String, String) {
    let dir = dir.to_str().unwrap();
    let output = harness(&["log", dir, "core.log", &count.to_string()], level);
    assert!(output.status.success());
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn records_go_to_one_private_file_and_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("state").join("logs");
    let (said, error) = log(&logs, 3, None);
    let file = logs.join("core.log");
    assert_eq!(said, format!("file Some({file:?}) warning none\n"));
    assert_eq!(error, "");
    let content = std::fs::read_to_string(&file).unwrap();
    assert_eq!(content.matches("INFO").count(), 3, "{content}");
    assert!(
        !content.contains("hidden") && !content.contains('\u{1b}'),
        "{content}"
    );
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(&logs).unwrap().mode() & 0o777, 0o700);
    // A second process goes on at the end.
    log(&logs, 2, None);
    assert_eq!(
        std::fs::read_to_string(&file)
            .unwrap()
            .matches("INFO")
            .count(),
        5
    );
}

#[test]
fn the_level_is_the_one_given() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("core.log");
    log(dir.path(), 1, Some("debug"));
    assert!(std::fs::read_to_string(&file).unwrap().contains("hidden"));
    std::fs::remove_file(&file).unwrap();
    log(dir.path(), 1, Some("error"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "");
    let (said, _) = log(dir.path(), 1, Some("a=b=c"));
    assert!(said.contains("`a=b=c` is not a log level"), "{said}");
    assert!(std::fs::read_to_string(&file).unwrap().contains("INFO"));
}

/// Holds for root too: a file where the folder should be.
#[test]
fn a_log_that_cannot_be_written_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let blocked = dir.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    let (said, error) = log(&blocked, 3, None);
    assert!(
        said.starts_with("file None warning no log: cannot write"),
        "{said}"
    );
    assert!(said.contains("file/core.log"), "{said}");
    assert_eq!(error, "");
}

#[test]
fn a_full_log_is_rotated_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.log");
    let old = dir.path().join("a.log.1");
    let log = CappedFile::open(dir.path(), &path, 1000).unwrap();
    for number in 0..95 {
        writeln!(&log, "{number:099}").unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() <= 1000);
    }
    let last = |path: &Path| {
        std::fs::read_to_string(path)
            .unwrap()
            .lines()
            .last()
            .unwrap()
            .to_owned()
    };
    assert_eq!(last(&path), format!("{:099}", 94));
    assert_eq!(last(&old), format!("{:099}", 89));
    assert_eq!(std::fs::metadata(&old).unwrap().len(), 1000);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    // What was there before counts.
    let again = CappedFile::open(dir.path(), &path, 550).unwrap();
    writeln!(&again, "{}", "x".repeat(99)).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 100);
}

/// As it is after a turn whose second half failed (no descriptor was free), or when somebody took the file away.
#[test]
fn a_log_that_was_moved_away_is_begun_anew_at_its_cap() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.log");
    let log = CappedFile::open(dir.path(), &path, 1000).unwrap();
    writeln!(&log, "{:099}", 0).unwrap();
    std::fs::rename(&path, dir.path().join("a.log.1")).unwrap();
    for number in 1..30 {
        writeln!(&log, "{number:099}").unwrap();
    }
    let length = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(length(&path) <= 1000);
    assert!(length(&dir.path().join("a.log.1")) <= 1000);
    let content = std::fs::read_to_string(&path).unwrap();
    assert_eq!(content.lines().last(), Some(format!("{:099}", 29).as_str()));
}

/// R-TUI-12: first the terminal, then the log, then one line that names it, on the real stderr.
#[test]
fn a_panic_gives_the_terminal_back_and_names_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("view.log");
    let output = harness(&["panic", log.to_str().unwrap()], None);
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), "restored\njoined true panics 1\n");
    let line = format!(
        "pi-agents: internal error; details are in {}\n",
        log.display()
    );
    assert_eq!(text(&output.stderr), line);
    let content = std::fs::read_to_string(&log).unwrap();
    assert!(content.starts_with("a library prints\n"), "{content}");
    for part in [
        "panic in thread 'painter'",
        "a bug",
        "harness.rs",
        "std::panic",
    ] {
        assert!(content.contains(part), "{part} is not in {content}");
    }
    assert_eq!(std::fs::metadata(&log).unwrap().mode() & 0o777, 0o600);
}
