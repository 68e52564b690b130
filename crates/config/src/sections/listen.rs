//! `[listen]`: the addresses where crawlers connect, and the networks that may.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::IpNet;

use super::*;

/// The address where crawlers connect.
pub const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8118);

section! {
    /// `[listen]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Listen "listen" {
        /// Addresses to listen on; empty only if there is a `[[listener]]`. Port 0 asks the system for a free one.
        addresses as "address": Vec<SocketAddr> = vec![DEFAULT_ADDRESS], one_or_list(socket_address), AtRestart;
        /// Networks that crawlers may connect from. Empty: any network that reaches an address.
        allow: Vec<IpNet> = Vec::new(), list(network()), AtRestart;
        /// True if the operator accepts an address that other machines reach without an `allow` list.
        open: bool = false, boolean(), AtRestart;
        /// True to offer HTTP/2 in the TLS sessions of crawlers: inside intercepted tunnels and on listeners with TLS.
        http2: bool = true, boolean(), AtReload;
    }
}

impl Listen {
    /// The advice about an address that [may not](Self::may_listen_on) be listened on.
    pub const EXPOSED: &str = "reachable from other machines; name the networks that may use it, \
        allow = [\"10.0.0.0/8\"], or let everybody in with open = true";

    /// Tells whether the settings limit who may connect to `address`; always true on the loopback interface.
    #[must_use]
    pub fn may_listen_on(&self, address: &SocketAddr) -> bool {
        may_reach(address, &self.allow, self.open)
    }

    /// Checks the section. Unless it `has_others`, a file that names no address would admit no crawler and is refused.
    pub(crate) fn check(&self, section: &mut Section<'_, '_>, has_others: bool) {
        let has_one = has_others || !self.addresses.is_empty();
        section.require(
            has_one,
            &["address"],
            "expected at least one address, or a [[listener]]",
        );
        let holds = self
            .addresses
            .iter()
            .all(|address| self.may_listen_on(address));
        section.require(holds, &["address"], Self::EXPOSED);
    }
}

/// Tells whether an address is on the loopback interface, or the settings limit who may connect to it.
pub(super) fn may_reach(address: &SocketAddr, allow: &[IpNet], open: bool) -> bool {
    address.ip().to_canonical().is_loopback() || open || !allow.is_empty()
}

/// An IP address and a port.
pub(super) fn socket_address() -> Form<SocketAddr> {
    text(|text: &str| {
        text.parse()
            .map_err(|_| "expected an IP address and a port: \"127.0.0.1:8118\", \"[::1]:8118\"")
    })
}

/// A network, or a single address.
pub(super) fn network() -> Form<IpNet> {
    text(|text: &str| {
        let address = text.parse::<IpAddr>().map(IpNet::from);
        address
            .or_else(|_| text.parse::<IpNet>().map(|network| network.trunc()))
            .map_err(|_| "expected a network: \"10.0.0.0/8\", \"2001:db8::/32\", \"192.0.2.7\"")
    })
}
