//! The state of a connection.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

use tokio::sync::Notify;

/// The state of a connection, shared with the task that moves its octets.
#[derive(Debug, Default)]
pub(super) struct Status {
    /// The origin's first SETTINGS are there.
    pub(super) is_settled: AtomicBool,
    /// It takes no further stream.
    pub(super) is_over: AtomicBool,
    /// A request on it got the head of its response.
    pub(super) has_answered: AtomicBool,
    /// The origin broke the rules of HTTP/2 on it.
    pub(super) is_broken: AtomicBool,
    /// The last stream that the origin has processed, as its GOAWAY says; 0 before one.
    pub(super) last_stream: AtomicU32,
    /// Exchanges on it.
    pub(super) exchanges: AtomicUsize,
    /// Asks for a PING at once.
    pub(super) probe: Notify,
}
