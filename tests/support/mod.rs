//! The laboratory of the wire tests: an [`Origin`] that misbehaves as it is told, a [`Gate`] (the real program in
//! a directory of its own), and a [`Wire`], a client that sends exactly the octets a test writes.
//!
//! Everything runs on loopback with ports that the kernel picks. Nothing waits by sleeping: origins are
//! held by a [`Latch`], and what happens in another process is polled for with a bound.
//!
//! `CRAWLGATE_BIN` names another build of the program to test, a release build for example.
#![allow(
    dead_code,
    unused_imports,
    reason = "every test crate compiles the whole laboratory and uses its share"
)]

mod gate;
mod http;
mod latch;
mod origin;
mod pki;
mod reply;
mod wire;

pub(crate) use gate::{Gate, Setup, program};
pub(crate) use http::{Head, Response};
pub(crate) use latch::Latch;
pub(crate) use origin::{FullQueue, Origin, Seen};
pub(crate) use pki::{Certificate, client_config, origin_ca_pem};
pub(crate) use reply::Reply;
pub(crate) use wire::Wire;

use std::time::{Duration, Instant};

/// The rules of most test origins.
pub(crate) const RULES: &str =
    "# the rules of a test\nUser-agent: *\nDisallow: /private\nAllow: /private/open\n";

/// How long anything may take before a test calls it hung. Generous, because test machines are slow and shared.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Asks `probe` again and again until it has a value; fails naming `what` when [`PATIENCE`] is used up.
pub(crate) fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
