//! The account of what led to a state (R-OPS-01 `explain`): its bounds, what it tells, what it never
//! does, and how it reads.

mod account;
mod bounds;
mod page;
