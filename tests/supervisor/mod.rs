//! Tests of `supervisor`.
