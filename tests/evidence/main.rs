//! The evidence: a log that is proven, reviewed, damaged and cut off, and the programs of others that read it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test fails by panicking, measures real time, and names what it skips"
)]

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod audit;
mod power_cut;
mod review;
mod store_damage;
mod tlog;
