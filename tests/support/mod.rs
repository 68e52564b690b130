//! The test harness: a scripted [`Origin`], a [`CrawlgateProcess`] (the real program in a temporary directory), and a
//! [`Wire`], a client that sends exactly the octets of a test.
//!
//! Everything runs on loopback with ports that the kernel picks. Nothing waits by sleeping: a [`Latch`] holds origins,
//! and tests poll other processes up to a time limit.
//!
//! `CRAWLGATE_BIN` names another build of the program to test, a release build for example.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "every test crate compiles the whole harness and uses a part of it"
)]

/// Returns the value, or ends the test where it is `None`: what it needs is not installed, and that is said.
macro_rules! or_skip {
    ($installed:expr) => {
        match $installed {
            Some(installed) => installed,
            None => return,
        }
    };
}

/// Asserts that a JSON document has each of these values: `has!(record, {"status": 403, "rule.line": 2}, "{case}")`.
macro_rules! has {
    ($document:expr, {$($values:tt)*} $(, $($case:tt)+)?) => {{
        let case = String::new() $(+ &format!($($case)+))?;
        crate::support::has_values(&serde_json::json!($document), &serde_json::json!({$($values)*}), &case);
    }};
}

/// Asserts that a text has each of these parts: `says!(text, "one", "another"; "{case}")`.
macro_rules! says {
    ($text:expr, $($part:expr),+ $(,)? $(; $($case:tt)+)?) => {{
        let case = String::new() $(+ &format!($($case)+))?;
        match &$text {
            text => {
                let text: &str = text.as_ref();
                $(
                    let part = $part;
                    assert!(text.contains(part), "no {part:?} in {text} {case}");
                )+
            }
        }
    }};
}

/// Asserts likewise that a text has none of these parts.
macro_rules! lacks {
    ($text:expr, $($part:expr),+ $(,)? $(; $($case:tt)+)?) => {{
        let case = String::new() $(+ &format!($($case)+))?;
        match &$text {
            text => {
                let text: &str = text.as_ref();
                $(
                    let part = $part;
                    assert!(!text.contains(part), "{part:?} in {text} {case}");
                )+
            }
        }
    }};
}

pub(crate) mod admin_gate;
pub(crate) mod collector;
mod crawlgate_process;
mod engine;
pub(crate) mod frame_origin;
pub(crate) mod ftp;
mod http;
pub(crate) mod http2;
pub(crate) mod http2_frames;
pub(crate) mod http2_origin;
mod latch;
pub(crate) mod log;
mod origin;
pub(crate) mod peer;
pub(crate) mod pki;
mod reply;
mod sentinels;
mod wire;
pub(crate) mod witness;

pub(crate) use admin_gate::AdminGate;
pub(crate) use crawlgate_process::{CrawlgateProcess, Setup, program};
pub(crate) use engine::{Engine, EngineLink, Transfer, with_clock};
pub(crate) use http::{Head, Response};
pub(crate) use http2::Http2;
pub(crate) use latch::Latch;
pub(crate) use log::StoredLog;
pub(crate) use origin::{FullQueue, Origin, Seen};
pub(crate) use pki::{Certificate, client_config, origin_ca_pem, origin_pem};
pub(crate) use reply::Reply;
pub(crate) use sentinels::Sentinels;
pub(crate) use wire::Wire;

use std::time::{Duration, Instant};

use serde_json::Value;

/// The rules of most test origins.
pub(crate) const RULES: &str =
    "# the rules of a test\nUser-agent: *\nDisallow: /private\nAllow: /private/open\n";

/// The fields of the handshake of a WebSocket, and the empty line.
pub(crate) const WEBSOCKET: &str = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// The time after which a test counts as hung. Generous, because test machines are slow and shared.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Asserts the values of a JSON document by path: keys, and places in arrays, with dots between them.
#[track_caller]
pub(crate) fn has_values(document: &Value, values: &Value, case: &str) {
    for (path, value) in values.as_object().unwrap() {
        let found = path.split('.').try_fold(document, |at, key| match at {
            Value::Array(all) => all.get(key.parse::<usize>().ok()?),
            at => at.get(key),
        });
        let found = found.unwrap_or(&Value::Null);
        assert_eq!(found, value, "{path}: {case} {document}");
    }
}

/// Calls `probe` again and again until it returns a value; fails with `what` when [`PATIENCE`] is used up.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, probe)
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, || holds().then_some(()));
}

/// Does so for another time.
#[track_caller]
pub(crate) fn within<T>(limit: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(start.elapsed() < limit, "waited in vain for {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
