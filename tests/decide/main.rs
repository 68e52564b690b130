//! The decision service: other proxies ask, the real program answers, and what they fetch themselves is fetched only
//! after it has said so.
//!
//! nginx and Squid are the real ones, with the set-ups that the documentation shows. One that is not installed is named
//! on stderr and its test passes; with `CRAWLGATE_REQUIRE_CLIENTS=1` it fails.
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

mod desk;
mod envoy;
mod helper;
mod nginx;
mod peer;
mod service;
mod squid;
