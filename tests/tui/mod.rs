//! Tests of `tui`.
