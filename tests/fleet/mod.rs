//! Tests of `fleet`.

mod interpret;
mod live;
mod log;
mod machine;
mod reducer;
mod robust;
