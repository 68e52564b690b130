//! The whole program on the wire: every case starts the real gate, scripts an origin, sends octets, and asserts
//! three things: what the crawler got, what the decision log says, and what the origin saw.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and measures real time"
)]

#[path = "../support/mod.rs"]
mod support;

mod access;
mod bodies;
mod bypass;
mod evidence;
mod failures;
mod fields;
mod flight;
mod framing;
mod gone;
mod kill;
mod laboratory;
mod life;
mod limits;
mod memory;
mod opaque;
mod overrides;
mod proof;
mod report;
mod requests;
mod run;
mod streaming;
mod strict;
mod tunnels;
mod verdicts;
mod walls;
