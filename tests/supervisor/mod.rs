//! Tests of `supervisor`.

mod find_pi;
