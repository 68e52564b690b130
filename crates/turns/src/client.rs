//! The proxy's clients: one client is one crawler, or one fleet of crawlers, that one operator is responsible for.
//!
//! An operator describes a client in `[[client]]`; without any entry, all requests belong to one client without a name.
//! Each request is judged, paced, limited and recorded as its client's.
//!
//! - [`recognise`]: the client of a request
//! - [`passwords`]: password checks, without a hash for each request
//! - `credentials`: the user and the password in a field
//! - [`account`]: the client's usage, in this process or over all instances of a fleet

pub mod account;
pub mod credentials;
#[cfg(test)]
mod identities;
pub mod passwords;
pub mod recognise;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use self::account::ClientAccount;
pub use self::recognise::{AuthCache, AuthError, Clients};
use crawlgate_config::{ClientConfig, Conditions, Mode, ProfileName, Quota, Rate};
use crawlgate_origins::identity::Crawler;
use crawlgate_origins::requesting_client::RequestingClient;
pub use crawlgate_origins::requesting_client::{ClientKey, network_of};
use crawlgate_policy::agent::{Agent, Chain, Source};
use crawlgate_robots::ProductToken;
use crawlgate_usage::Purposes;

/// One client, as it is configured.
#[derive(Debug, Default, PartialEq)]
pub struct Client {
    /// Its name, in records and in metrics; none for the implicit client.
    pub name: Option<Arc<str>>,
    /// Product tokens that it is judged by, most specific first; empty: those of the instance or of its User-Agent.
    pub product_tokens: Vec<ProductToken>,
    /// The User-Agent for its robots.txt fetches, if it differs from the general one.
    pub user_agent: Option<Box<str>>,
    /// The purpose of its crawl, in words.
    pub purpose: Option<Box<str>>,
    /// The purposes that its crawl declares, by itself or by the general setting.
    pub purposes: Purposes,
    /// The `[[signing]]` of its requests, if it differs from the general one.
    pub signing: Option<Arc<str>>,
    /// The `[[signing]]` of its requests, its own or the general one; none: they are not signed.
    pub signed_as: Option<Arc<str>>,
    /// Its mode (whether denials are enforced), if it differs from the general one.
    pub mode: Option<Mode>,
    /// The operator's reason for exempting it from what robots.txt disallows; none: it is not exempt.
    pub exempt: Option<Arc<str>>,
    /// Its published profile for an unreachable robots.txt, if it differs from the general one.
    pub profile: Option<ProfileName>,
    /// Its request rate over all origins together; none: unlimited.
    pub rate: Option<Rate>,
    /// Its quota; none: unlimited.
    pub quota: Option<Quota>,
    /// Open connections; none: the general limit.
    pub max_connections: Option<usize>,
    /// Requests in flight; none: the general limit.
    pub max_requests: Option<usize>,
    /// The conditions that recognised it.
    pub conditions: Conditions,
    /// The chain that its product tokens make.
    pub chain: Option<Chain>,
    /// Its usage so far, which outlives a reload.
    pub account: Arc<ClientAccount>,
}

impl Client {
    /// Returns the crawler that a request of this client is judged as.
    #[must_use]
    pub fn crawler<'a>(&'a self, agent: &'a Agent) -> Crawler<'a> {
        // A client without its own User-Agent, identity or tokens shares what is fetched for all others.
        let has_own =
            !agent.tokens.is_empty() || self.user_agent.is_some() || self.signing.is_some();
        Crawler::new(self.name.as_ref().filter(|_| has_own), &agent.tokens)
    }

    /// Builds the client from its configuration. `general` has the purposes and the identity of clients that name none;
    /// `account` holds its usage so far.
    #[must_use]
    pub fn of(config: &ClientConfig, general: &Client, account: Arc<ClientAccount>) -> Client {
        let ClientConfig {
            name,
            conditions,
            product_tokens,
            user_agent,
            purpose,
            purposes,
            signing,
            mode,
            exempt,
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
            purposes: purposes.unwrap_or(general.purposes),
            signing: signing.clone(),
            signed_as: signing.clone().or_else(|| general.signed_as.clone()),
            mode: *mode,
            exempt: exempt.clone(),
            profile: *profile,
            rate: *rate,
            quota: *quota,
            max_connections: *max_connections,
            max_requests: *max_requests,
            account,
        }
    }

    /// Tells whether a rate or quota limits the client over all origins.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.rate.is_some() || self.quota.is_some()
    }

    /// Returns this client, at `address`, as one that asks for a document.
    #[must_use]
    pub fn requester(&self, address: IpAddr) -> RequestingClient<'_> {
        match &self.name {
            Some(name) => RequestingClient::Named(name),
            None => RequestingClient::At(address),
        }
    }

    /// Returns the key that a request from `address` counts against, for turns, shares and limits.
    #[must_use]
    pub fn key(&self, address: IpAddr) -> ClientKey {
        match &self.name {
            Some(name) => ClientKey::Named(Arc::clone(name)),
            None => ClientKey::at(address),
        }
    }
}

/// The facts about a connected peer, before its first request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its address, taken from a trusted PROXY protocol header if there is one.
    pub address: SocketAddr,
    /// The listener that accepted it; none for one of `[listen] address`.
    pub listener: Option<Arc<str>>,
    /// The verified certificate from its TLS handshake.
    pub certificate: Option<Arc<PeerCertificate>>,
    /// True if the connection cannot be overheard: it uses TLS, the loopback interface or a Unix socket. Only such a
    /// peer may be asked for credentials.
    pub is_private: bool,
}

/// A client certificate with a verified chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// SHA-256 of the certificate (DER).
    pub sha256: [u8; 32],
    /// Its names: DNS names, addresses and URIs of the subjectAltName, in the order of the certificate.
    pub names: Vec<Box<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unnamed_are_told_apart_by_address_and_the_named_are_not() {
        let named = Client { name: Some("news".into()), ..Client::default() };
        let key = |client: &Client, address: &str| client.key(address.parse().expect(address));
        let unnamed = Client::default();
        for (a, b, same) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::1", "2001:db8::2", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
        ] {
            assert_eq!(key(&unnamed, a) == key(&unnamed, b), same, "{a} and {b}");
            assert_eq!(key(&named, a), key(&named, b));
        }
    }
}
