//! Disks that are full, read-only or limited. Mounts need a namespace of their own: where the machine allows none,
//! those tests say so and the limit on file sizes stands in for them.

use std::process::{Command, Output};

use crate::support::example::ensure_example;

fn harness(mode: &str, before: &str, own_mounts: bool) -> Option<Output> {
    let harness = ensure_example("journal-harness");
    let dir = super::temp();
    let script = format!("{before} && exec \"$HARNESS\" {mode} \"$DIR\"");
    let run = |script: &str| {
        let mut command = Command::new(if own_mounts { "unshare" } else { "sh" });
        if own_mounts {
            if pi_agents::sys::user::uid() != 0 {
                command.arg("--map-root-user");
            }
            command.args(["--mount", "sh"]);
        }
        command.args(["-c", script]);
        command.env("HARNESS", &harness).env("DIR", dir.path());
        command.output()
    };
    if own_mounts && !run(before).is_ok_and(|output| output.status.success()) {
        return None;
    }
    Some(run(&script).unwrap())
}

#[track_caller]
#[allow(clippy::print_stdout)] // shown with --nocapture
fn is_good(output: Option<Output>) {
    let Some(output) = output else {
        println!("not played: no mounts of our own here");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said == "good\n", "{said}{error}");
}

#[test]
fn a_full_disk_is_survived() {
    // R-DELIV-05, R-LIFE-18
    is_good(harness(
        "full",
        "mount -t tmpfs -o size=128k none \"$DIR\"",
        true,
    ));
}

#[test]
fn a_read_only_disk_is_survived() {
    // R-DELIV-05, R-LIFE-18
    is_good(harness(
        "read-only",
        "chmod 700 \"$DIR\" && mount --bind \"$DIR\" \"$DIR\" && mount -o remount,bind,rw \"$DIR\"",
        true,
    ));
}

#[test]
fn a_file_that_may_not_grow_is_survived() {
    // R-DELIV-05, R-LIFE-18: a torn record on the disk, and no way to go on in this file
    is_good(harness("limited", "trap '' XFSZ && ulimit -S -f 8", false));
}

/// The library that makes a disk bad, and the variables for it.
fn bad_disk(before: &str) -> String {
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/supervisor/journal/bad_disk.c"
    );
    format!(
        "cc -shared -fPIC -o \"$DIR/bad_disk.so\" '{source}' -ldl && mkdir -p -m 700 \"$DIR/own\" && {before} \
         export BAD_DISK=\"$DIR/does\" LD_PRELOAD=\"$DIR/bad_disk.so\" DIR=\"$DIR/own\""
    )
}

#[test]
fn a_broken_disk_is_survived() {
    // R-DELIV-05, R-LIFE-18: EIO
    is_good(harness("broken", &bad_disk(""), false));
}

#[test]
fn a_disk_that_does_not_answer_holds_up_nothing() {
    // R-DELIV-05, R-PI-12
    is_good(harness("silent", &bad_disk(""), false));
}

#[test]
fn a_folder_of_somebody_else_is_survived() {
    // R-DELIV-05, R-LIFE-18: EACCES. Root may everything, so as somebody who is not root.
    if pi_agents::sys::user::uid() != 0 {
        return;
    }
    // The program is copied: where it lies, nobody else may look.
    let before = "cp \"$HARNESS\" \"$DIR/harness\" && mkdir -m 700 \"$DIR/closed\" && \
        mkdir -m 777 \"$DIR/ask\" && chmod 711 \"$DIR\" && \
        { (for i in $(seq 1000); do test -e \"$DIR/ask/let-us-in\" && break; sleep 0.02; done; \
         chown 65534:65534 \"$DIR/closed\") & \
        exec setpriv --reuid 65534 --regid 65534 --clear-groups -- \"$DIR/harness\" forbidden \"$DIR\"; }";
    is_good(harness("forbidden", before, false));
}
