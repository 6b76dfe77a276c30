//! Tests of `tools`.

mod call;
mod progress;
