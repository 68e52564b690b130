//! The client that asks for a document of an origin.

use std::net::IpAddr;
use std::sync::Arc;

/// The client that asks. A fetch counts against it, also if it shares the state with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestingClient<'a> {
    /// The client of this name.
    Named(&'a Arc<str>),
    /// A client without a name, at this address.
    At(IpAddr),
}
