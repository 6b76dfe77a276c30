//! Tests of `fleet`.

mod cases;
mod interpret;
mod live;
mod log;
mod machine;
mod outbox;
mod reducer;
mod robust;
