//! Tests of `pi`.
