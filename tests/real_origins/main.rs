//! Real servers as origins: nginx and nghttpx, with the protocols that they choose.
//!
//! If one is not installed, its tests name it on stderr and pass; with `CRAWLGATE_REQUIRE_CLIENTS=1` they fail.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test fails by panicking, measures real time, and names what it skips"
)]

#[path = "../support/mod.rs"]
mod support;

mod exchanges;
mod restarts;
mod servers;
