//! A program for the tests of processes: a guard around any command, a stand-in for the core, and
//! what can only be seen in a process of its own (the log, the panic hook).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use pi_agents::guard::{self, GuardLink};
use pi_agents::sys::signals::{self, Signal};
use pi_agents::sys::{logging, panic};
use tokio::io::AsyncBufReadExt;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["guard", grace, limit, log, program, rest @ ..] => {
            let mut core = Command::new(program);
            core.args(rest);
            let options = guard::Options {
                grace: Duration::from_millis(grace.parse().unwrap()),
                limit: Duration::from_millis(limit.parse().unwrap()),
                log: Some(PathBuf::from(log)),
                ..guard::Options::default()
            };
            guard::run(core, &options)
        }
        ["core"] => core(),
        ["deaf"] => deaf(),
        ["suspend"] => suspend(),
        ["log", dir, name, count] => log(Path::new(dir), name, count.parse().unwrap()),
        ["panic", log] => panic_in_thread(Path::new(log)),
        other => panic!("what is {other:?}?"),
    }
}

/// Says `ready` on stdout, then does what the lines on stdin say. Ends with 0 at the end of stdin,
/// with 7 on SIGTERM; says `guard died` when that happens and goes on.
fn core() -> ExitCode {
    let link = GuardLink::from_env();
    assert!(std::env::var_os(guard::LINK_VARIABLE).is_none());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let code = runtime.block_on(obey(link));
    // Without waiting for the blocking read of stdin.
    runtime.shutdown_background();
    ExitCode::from(code)
}

async fn obey(link: Option<GuardLink>) -> u8 {
    use tokio::signal::unix::{SignalKind, signal};
    let handle = link.map(|link| link.into_tokio().unwrap());
    let mut term = signal(SignalKind::terminate()).unwrap();
    let mut lines = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    let mut children: Vec<Child> = Vec::new();
    let mut guarded = handle.is_some();
    match &handle {
        Some(handle) => println!("ready {}", handle.pid()),
        None => println!("ready unguarded"),
    }
    loop {
        tokio::select! {
            line = lines.next_line() => {
                let Some(line) = line.unwrap() else {
                    return 0;
                };
                match line.split_once(' ').unwrap_or((&line, "")) {
                    ("sh", script) => children.push(start(script)),
                    ("orphans", _) => println!("{}", orphans(handle.as_ref()).await),
                    ("exit", code) => return code.parse().unwrap(),
                    other => panic!("what is {other:?}?"),
                }
            }
            _ = term.recv() => return 7,
            () = guard_died(handle.as_ref()), if guarded => {
                guarded = false;
                println!("guard died");
            }
        }
    }
}

async fn guard_died(handle: Option<&guard::GuardHandle>) {
    match handle {
        Some(handle) => handle.died().await,
        None => std::future::pending().await,
    }
}

async fn orphans(handle: Option<&guard::GuardHandle>) -> String {
    match handle.unwrap().orphans().await {
        Ok(ids) => {
            let ids: String = ids.iter().map(|id| format!(" {id}")).collect();
            format!("orphans{ids}")
        }
        Err(error) => format!("error {:?}", error.kind()),
    }
}

/// A child as the core starts them: its own group, its stdin a pipe that the core holds.
fn start(script: &str) -> Child {
    let env = std::env::vars_os();
    let mut command = pi_agents::sys::spawn::command(
        "sh".as_ref(),
        ["-c".into(), script.into()],
        env,
        Path::new("/"),
    );
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Ignores and blocks signals, then shows what a child started the usual way and one started our
/// way have inherited. (No shell in between: some of them empty the mask themselves.)
fn deaf() -> ExitCode {
    signals::ignore(Signal::HUP).unwrap();
    signals::ignore(Signal::USR1).unwrap();
    let _blocked = signals::SignalFd::new(&[Signal::USR1, Signal::TERM]).unwrap();
    let args = ["-E", "^Sig(Ign|Blk):", "/proc/self/status"].map(std::ffi::OsString::from);
    let usual = Command::new("grep").args(&args).output().unwrap();
    let env = std::env::vars_os();
    let ours = pi_agents::sys::spawn::command("grep".as_ref(), args, env, Path::new("/"))
        .output()
        .unwrap();
    for (name, output) in [("usual", usual), ("ours", ours)] {
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            println!("{name}-{line}");
        }
    }
    ExitCode::SUCCESS
}

/// Suspends its group from a thread, twice, and says after each time whether its own handler is
/// still in place.
fn suspend() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let handler = runtime.spawn(async {
        use tokio::signal::unix::{SignalKind, signal};
        let mut stops = signal(SignalKind::from_raw(Signal::TSTP.as_raw())).unwrap();
        for _ in 0..2 {
            println!("suspending");
            tokio::task::block_in_place(signals::suspend_self_group).unwrap();
            println!("continued");
            rustix::process::kill_process(rustix::process::getpid(), Signal::TSTP).unwrap();
            stops.recv().await;
            println!("handled");
        }
    });
    runtime.block_on(handler).unwrap();
    ExitCode::SUCCESS
}

/// Logs `count` records of about a hundred bytes and says what the log said.
fn log(dir: &Path, name: &str, count: usize) -> ExitCode {
    let level = std::env::var("LEVEL");
    let logging = logging::init(dir, name, level.as_deref().unwrap_or("info"));
    println!(
        "file {:?} warning {}",
        logging.file,
        logging.warning.as_deref().unwrap_or("none")
    );
    for number in 0..count {
        tracing::info!(number, "{}", "x".repeat(64));
        tracing::debug!(number, "hidden");
    }
    ExitCode::SUCCESS
}

/// A panic in a thread while stderr is redirected, as under a screen.
fn panic_in_thread(log: &Path) -> ExitCode {
    panic::install(Some(log.to_owned()));
    panic::set_restore(|| println!("restored"));
    logging::redirect_stderr_to(log).unwrap();
    eprintln!("a library prints");
    let ended = std::thread::Builder::new()
        .name("painter".to_owned())
        .spawn(|| panic!("a bug"))
        .unwrap()
        .join();
    println!("joined {} panics {}", ended.is_err(), panic::count());
    ExitCode::SUCCESS
}
