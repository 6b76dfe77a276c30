//! Tests of `fleet`.

mod interpret;
mod live;
mod log;
mod machine;
mod outbox;
mod reducer;
mod robust;
