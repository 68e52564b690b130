//! The console: the real program, looked at as a browser would. `pages` asks for every page with plain HTTP; `browser` drives
//! headless Chromium, where there is one.
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

#[path = "../admin/desk.rs"]
#[allow(dead_code, reason = "it serves the tests of the API, too")]
mod desk;

mod browser;
mod pages;
mod self_test;
