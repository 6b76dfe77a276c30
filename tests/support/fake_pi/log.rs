//! What the fake saw, one JSON object per line, appended to the file `FAKE_PI_LOG` names. Each
//! line is one write, so several fakes can share a file.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::Write;

use pi_agents::sys::process;
use serde_json::{Map, Value, json};

/// Variables that are logged besides `PI_*`; `FAKE_PI_LOG_ENV` adds others, separated by commas.
const LOGGED: &[&str] = &["PATH", "HOME", "TERM", "TZ", "AI_AGENT", "NODE_OPTIONS"];

/// The start: who, where, with what. Text that is not UTF-8 becomes `{"bytes":[...]}`.
pub(crate) fn start(argv: &[OsString]) {
    let more = std::env::var("FAKE_PI_LOG_ENV").unwrap_or_default();
    let mut env = Map::new();
    for (name, value) in std::env::vars_os() {
        let Some(name) = name.to_str() else { continue };
        let wanted = name.starts_with("PI_")
            || LOGGED.contains(&name)
            || more.split(',').any(|more| more == name);
        if wanted {
            env.insert(name.to_owned(), text(&value));
        }
    }
    let pid = std::process::id();
    // Group and session are 0 when their leader is outside of this pid namespace.
    let me = process::read(pid);
    let (group, session) = me.map_or((0, 0), |me| (me.pgid, me.sid));
    let cwd = std::env::current_dir().unwrap_or_default();
    event(
        "start",
        json!({
            "argv": argv.iter().map(|arg| text(arg)).collect::<Vec<_>>(),
            "env": env,
            "cwd": text(cwd.as_os_str()),
            "parent": rustix::process::getppid().map_or(0, |id| id.as_raw_nonzero().get()),
            "leads_group": group == pid,
            "session": session,
        }),
    );
}

/// Why it ended, in its own words, with its exit code.
pub(crate) fn end(cause: &str, code: i32) {
    event("end", json!({"cause": cause, "code": code}));
}

/// Anything else.
pub(crate) fn event(name: &str, more: Value) {
    let Some(path) = std::env::var_os("FAKE_PI_LOG") else {
        return;
    };
    write(&path, name, more);
}

/// As [`event`], for a process that has no environment left.
pub(crate) fn write(path: &OsStr, name: &str, more: Value) {
    let mut line = json!({"event": name, "pid": std::process::id()});
    if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
        line.extend(more);
    }
    let file = OpenOptions::new().append(true).create(true).open(path);
    if let Ok(mut file) = file {
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}

fn text(value: &OsStr) -> Value {
    use std::os::unix::ffi::OsStrExt;
    match value.to_str() {
        Some(text) => text.into(),
        None => json!({"bytes": value.as_bytes()}),
    }
}
