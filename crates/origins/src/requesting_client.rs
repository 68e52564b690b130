//! The client that asks for a document of an origin.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// The client that asks. A fetch counts against it, also if it shares the state with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestingClient<'a> {
    /// The client of this name.
    Named(&'a Arc<str>),
    /// A client without a name, at this address.
    At(IpAddr),
}

/// The unit of turns and limits: a client with a name is one unit at all its addresses; without a name, each address is
/// one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientKey {
    /// The client of this name.
    Named(Arc<str>),
    /// Unnamed clients at this address, or in this IPv6 network of 64 bits: one host has all of its addresses.
    At(IpAddr),
}

impl ClientKey {
    /// Returns the key of the client that asks for a document.
    pub fn of(requester: RequestingClient<'_>) -> ClientKey {
        match requester {
            RequestingClient::Named(name) => ClientKey::Named(Arc::clone(name)),
            RequestingClient::At(address) => ClientKey::at(address),
        }
    }

    /// Returns this client as one that asks.
    pub fn requester(&self) -> RequestingClient<'_> {
        match self {
            ClientKey::Named(name) => RequestingClient::Named(name),
            ClientKey::At(address) => RequestingClient::At(*address),
        }
    }

    /// Returns the key of unnamed clients at this address.
    pub fn at(address: IpAddr) -> ClientKey {
        ClientKey::At(network_of(address))
    }
}

/// Returns the network that counts as one client: an IPv4 address, or the /64 of an IPv6 address.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            Ipv6Addr::from(network).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}
