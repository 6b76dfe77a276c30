//! Entry point.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|arg| arg == "demo-agent") {
        return pi_agents::demo::run(args.collect());
    }
    ExitCode::SUCCESS
}
