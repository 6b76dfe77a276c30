//! Tests of `fleet`.

mod interpret;
mod live;
mod log;
mod reducer;
mod robust;
