//! Tests of `proc`.
