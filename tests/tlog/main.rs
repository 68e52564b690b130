//! The transparency log from outside: against another implementation, and against damage.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod damage;
mod log;
mod oracle;
