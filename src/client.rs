//! Who uses the proxy: one client is one crawler, or one fleet of them, that somebody answers for.
//!
//! A client is what an operator describes in `[[client]]`; without any entry, and for whoever needs none, there is one
//! without a name. Requests are judged, paced, limited and recorded as their client's.
//!
//! - [`recognise`]: whose a request is
//! - [`passwords`]: whether a password is right, without a hash for each request
//! - [`account`]: what a client has had

pub mod account;
mod credentials;
pub mod passwords;
pub mod recognise;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use self::account::Account;
pub use self::recognise::{Clients, Memo, Stranger};
use crate::agent::{Chain, Source};
use crate::config::{ClientConfig, Conditions, Mode, ProfileName, Quota, Rate};
use crate::rep::ProductToken;

/// One client, as it is configured.
#[derive(Debug, Default, PartialEq)]
pub struct Client {
    /// Its name, in records and in everything that is counted; none for the implicit one.
    pub name: Option<Arc<str>>,
    /// As whom it is judged, most specific first; empty: as the instance or its User-Agent has it.
    pub product_tokens: Vec<ProductToken>,
    /// The User-Agent that robots.txt is fetched with for it, where that is not as for all others.
    pub user_agent: Option<Box<str>>,
    /// What it crawls for, in words.
    pub purpose: Option<Box<str>>,
    /// Whether its denials deny, where that is not as for all others.
    pub mode: Option<Mode>,
    /// What an unreachable robots.txt means for it, as published, where that is not as for all others.
    pub profile: Option<ProfileName>,
    /// How fast it may be, over all origins together; none: as fast as it likes.
    pub rate: Option<Rate>,
    /// How much it may have; none: as much as it likes.
    pub quota: Option<Quota>,
    /// Open connections; none: as for all others.
    pub max_connections: Option<usize>,
    /// Requests in flight; none: as for all others.
    pub max_requests: Option<usize>,
    /// By what it was recognised.
    pub conditions: Conditions,
    /// The identity that its product tokens make.
    pub chain: Option<Chain>,
    /// What it has had. It outlives a reload.
    pub account: Arc<Account>,
}

impl Client {
    /// As configured; what it has had stands in `account`.
    #[must_use]
    pub fn of(config: &ClientConfig, account: Arc<Account>) -> Client {
        let ClientConfig {
            name,
            conditions,
            product_tokens,
            user_agent,
            purpose,
            mode,
            profile,
            rate,
            quota,
            max_connections,
            max_requests,
        } = config;
        Client {
            name: Some(Arc::clone(name)),
            chain: Chain::new(product_tokens, Source::Client),
            conditions: conditions.clone(),
            product_tokens: product_tokens.clone(),
            user_agent: user_agent.clone(),
            purpose: purpose.clone(),
            mode: *mode,
            profile: *profile,
            rate: *rate,
            quota: *quota,
            max_connections: *max_connections,
            max_requests: *max_requests,
            account,
        }
    }

    /// Whether what it has is bounded over all origins.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.rate.is_some() || self.quota.is_some()
    }

    /// Whose turn, share and limits a request from `address` counts against.
    #[must_use]
    pub fn key(&self, address: IpAddr) -> ClientKey {
        match &self.name {
            Some(name) => ClientKey::Named(Arc::clone(name)),
            None => ClientKey::at(address),
        }
    }
}

/// What is known of whoever is connected, before a request says anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// From where; as a PROXY protocol header has it, where one was trusted.
    pub address: SocketAddr,
    /// The listener that it came to; none for one of `[listen] address`.
    pub listener: Option<Arc<str>>,
    /// What it has shown for itself in a TLS handshake, verified.
    pub certificate: Option<Arc<PeerCertificate>>,
    /// Nobody on the way can listen: it came over TLS, over the loopback interface or over a Unix socket. Only then may
    /// credentials be asked for.
    pub is_private: bool,
}

/// A client certificate whose chain was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// SHA-256 of the certificate (DER).
    pub sha256: [u8; 32],
    /// Its names: DNS names, addresses and URIs of the subjectAltName, in the order of the certificate.
    pub names: Vec<Box<str>>,
}

/// Who shares turns and limits: a client with a name is one, wherever it comes from; without, each address is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// The client of this name.
    Named(Arc<str>),
    /// Whoever comes from this address, or from this IPv6 network of 64 bits: a host has all of its addresses.
    At(IpAddr),
}

impl ClientKey {
    /// Of whoever comes from this address without a name.
    pub(crate) fn at(address: IpAddr) -> ClientKey {
        ClientKey::At(network_of(address))
    }
}

/// Returns the network that counts as one party: an IPv4 address, or the /64 of an IPv6 address.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            Ipv6Addr::from(network).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unnamed_are_told_apart_by_address_and_the_named_are_not() {
        let named = Client {
            name: Some("news".into()),
            ..Client::default()
        };
        let key = |client: &Client, address: &str| client.key(address.parse().expect(address));
        let nobody = Client::default();
        for (a, b, same) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::1", "2001:db8::2", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
        ] {
            assert_eq!(key(&nobody, a) == key(&nobody, b), same, "{a} and {b}");
            assert_eq!(key(&named, a), key(&named, b));
        }
    }
}
