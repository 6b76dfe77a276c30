//! What the bridge starts instead of pi-agents in its tests: says who it is to the test at
//! `PI_AGENTS_TEST_CORE`, then connects its stdio with it. Ends when either end closes.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(socket) = std::env::var_os("PI_AGENTS_TEST_CORE") else {
        let _ = writeln!(std::io::stderr(), "no test is listening");
        return ExitCode::from(3);
    };
    let mut stream = match UnixStream::connect(&socket) {
        Ok(stream) => stream,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "the test cannot be reached: {error}");
            return ExitCode::from(3);
        }
    };
    let names: Vec<String> = std::env::vars_os()
        .map(|(name, _)| name.to_string_lossy().into_owned())
        .collect();
    let hello = serde_json::json!({"relay": {
        "pid": std::process::id(),
        "args": std::env::args().skip(1).collect::<Vec<_>>(),
        "env": names,
    }});
    if writeln!(stream, "{hello}").is_err() {
        return ExitCode::from(3);
    }
    let mut to_test = stream.try_clone().expect("a second handle");
    std::thread::spawn(move || {
        copy(&mut std::io::stdin(), &mut to_test);
        let _ = to_test.shutdown(Shutdown::Write);
    });
    copy(&mut stream, &mut std::io::stdout());
    ExitCode::SUCCESS
}

fn copy(from: &mut impl Read, to: &mut impl Write) {
    let mut piece = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        if to.write_all(&piece[..count]).is_err() || to.flush().is_err() {
            break;
        }
    }
}
