//! Tests of `fleet`.

mod cases;
mod history;
mod interpret;
mod lifecycle_page;
mod live;
mod log;
mod machine;
mod outbox;
mod plain;
mod reducer;
mod robust;
