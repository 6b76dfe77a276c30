//! The command line: one subcommand per file; the only place that wires layers together.
