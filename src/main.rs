//! Entry point: reads the command line and hands over. Whether this process is a guard, a core or
//! anything else is decided here, before any thread exists.

use std::process::ExitCode;

fn main() -> ExitCode {
    pi_agents::cli::main()
}
