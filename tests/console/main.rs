//! The console: the real program, seen as a browser sees it. `pages` requests every page with plain HTTP; `browser`
//! drives headless Chromium, if it is installed.
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

mod browser;
mod forms;
mod links;
mod outcomes;
mod pages;
mod report;
mod self_test;
mod usage;
