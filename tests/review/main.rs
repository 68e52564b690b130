//! What was decided can be proven, reviewed, and not be changed without being found.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test may panic"
)]

mod case;
mod log;
mod replay;
mod shelf;
mod verify;
