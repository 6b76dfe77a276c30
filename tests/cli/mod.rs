//! Tests of `cli`: the program as a shell sees it.

mod doctor;
mod exit_codes;
mod pi_verb;
mod real_pi;
mod usage;
mod verbs;

use std::process::Output;

use serde_json::Value;

use crate::support::core::{World, verb};

/// Runs a verb; gives exit code, stdout and stderr.
fn run(world: &impl World, args: &[&str]) -> (i32, String, String) {
    ended(&verb(world, args))
}

fn ended(output: &Output) -> (i32, String, String) {
    (
        output.status.code().expect("not by signal"),
        String::from_utf8(output.stdout.clone()).expect("UTF-8"),
        String::from_utf8(output.stderr.clone()).expect("UTF-8"),
    )
}

/// Runs a verb with `--json` and reads the one line it prints.
#[track_caller]
fn json(world: &impl World, args: &[&str]) -> (i32, Value) {
    let args = [args, &["--json"]].concat();
    let (code, out, err) = run(world, &args);
    assert_eq!(err, "", "{args:?}");
    assert_eq!(out.lines().count(), 1, "{args:?}: {out}");
    let value: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"));
    assert_eq!(value["version"], 1, "{value}");
    (code, value)
}
