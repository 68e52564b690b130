//! The commands of the program, and what the pages say of them: `check`, `ca`, `origins`, the files made from the command
//! line, and each block of the README and of `docs/`.
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

mod ca;
mod check;
mod command_line;
mod docs;
mod origins;
