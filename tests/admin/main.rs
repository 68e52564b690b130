//! The admin side over HTTP: the real program with requests of people, programs and unidentified clients.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test fails by panicking, measures real time, and names what it skips"
)]

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod acts;
mod api;
mod api_decisions;
mod api_origins;
mod collected;
mod console;
mod door;
mod health;
mod live;
mod one_copy;
mod public_try;
mod roles;
mod schema;
mod schemathesis;
mod tlog;
mod tls;
mod users;
