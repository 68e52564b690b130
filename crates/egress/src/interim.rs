//! The bound on interim responses.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderMap;
use tokio::task::AbortHandle;

/// Most interim responses before one final response.
const MAX_INTERIM: usize = 64;

/// Most octets of them.
const MAX_INTERIM_OCTETS: usize = 65_536;

/// The bound on the interim responses of one connection's exchange. hyper reports them from the connection's task.
#[derive(Debug)]
pub(super) struct InterimBound {
    count: AtomicUsize,
    octets: AtomicUsize,
    /// Ends the connection.
    connection: AbortHandle,
}

impl InterimBound {
    pub(super) fn new(connection: AbortHandle) -> InterimBound {
        InterimBound { count: AtomicUsize::new(0), octets: AtomicUsize::new(0), connection }
    }

    /// Starts the count for a new exchange.
    pub(super) fn begin(&self) {
        self.count.store(0, Ordering::Relaxed);
        self.octets.store(0, Ordering::Relaxed);
    }

    /// Counts an interim response with these fields; one above the bound ends the connection.
    pub(super) fn holds(&self, fields: &HeaderMap) -> bool {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.octets.fetch_add(octets(fields), Ordering::Relaxed);
        let is_exceeded = self.is_exceeded();
        if is_exceeded {
            self.connection.abort();
        }
        !is_exceeded
    }

    /// Ends the connection at once, with an upload that is under way.
    pub(super) fn end_connection(&self) {
        self.connection.abort();
    }

    /// Tells whether there were too many.
    pub(super) fn is_exceeded(&self) -> bool {
        self.count.load(Ordering::Relaxed) > MAX_INTERIM
            || self.octets.load(Ordering::Relaxed) > MAX_INTERIM_OCTETS
    }
}

/// The interim responses of one stream.
#[derive(Debug, Default)]
pub(super) struct InterimCount {
    count: usize,
    octets: usize,
}

impl InterimCount {
    /// Counts an interim response with these fields, and tells whether it is within the bound.
    pub(super) fn holds(&mut self, fields: &HeaderMap) -> bool {
        self.count += 1;
        self.octets += octets(fields);
        self.count <= MAX_INTERIM && self.octets <= MAX_INTERIM_OCTETS
    }
}

fn octets(fields: &HeaderMap) -> usize {
    let octets = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        name.as_str().len() + value.len() + ": \r\n".len()
    };
    fields.iter().map(octets).sum()
}
