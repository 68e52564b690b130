//! The decision service: other proxies ask, the real program answers, and those proxies fetch a page only after an
//! allowing answer.
//!
//! nginx and Squid are the real programs, in the set-ups of the documentation. If one is not installed, its test names
//! it on stderr and passes; with `CRAWLGATE_REQUIRE_CLIENTS=1` it fails.
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

mod asking;
mod envoy;
mod helper;
mod nginx;
mod questions;
mod service;
mod squid;
mod usage;
