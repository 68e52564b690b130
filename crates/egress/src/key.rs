//! The requests that may share a connection.

use std::sync::Arc;

use crawlgate_robots::Origin;

/// The requests that may share a connection: those of one client to one origin, which always takes the same route.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    origin: Origin,
    /// The client's name, if clients are told apart: one client's requests cannot affect another's answers.
    client: Option<Arc<str>>,
    /// The number of the crawler connection's pin, if the connection belongs only to that.
    pin: Option<u64>,
}

impl Key {
    pub(super) fn new(origin: &Origin, client: Option<Arc<str>>) -> Key {
        Key {
            origin: origin.clone(),
            client,
            pin: None,
        }
    }

    /// Returns the key of the pinned connection with this number.
    pub(super) fn pinned(&self, number: u64) -> Key {
        Key {
            pin: Some(number),
            ..self.clone()
        }
    }

    /// Tells whether a pinned connection has this key.
    pub(super) fn is_pinned(&self) -> bool {
        self.pin.is_some()
    }

    /// Tells whether this is the key of a pinned connection for requests with that other key.
    pub(super) fn is_pin_of(&self, other: &Key) -> bool {
        self.origin == other.origin && self.client == other.client
    }

    /// Returns the origin of the connection.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }
}
