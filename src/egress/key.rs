//! The requests that may share a connection.

use std::sync::Arc;

use crate::rep::Origin;

/// The requests that may share a connection: those of one client to one origin, which always takes the same route.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    origin: Origin,
    /// The client's name, if clients are told apart: one client's requests cannot affect another's answers.
    client: Option<Arc<str>>,
}

impl Key {
    pub(super) fn new(origin: &Origin, client: Option<Arc<str>>) -> Key {
        Key {
            origin: origin.clone(),
            client,
        }
    }

    /// Returns the origin of the connection.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }
}
