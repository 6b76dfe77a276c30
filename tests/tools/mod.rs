//! Tests of `tools`.

mod progress;
