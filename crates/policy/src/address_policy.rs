//! Address policy: keeps requests out of the networks that only we can reach.
//!
//! A proxy runs inside its operator's networks, and crawlers tell it where to go; so do origins, by their redirects and
//! by the addresses of their names. The address policy keeps all of them on the public internet. It judges each
//! *address* before it is dialled, by any name. In order:
//!
//! 1. an address that this proxy listens on is never dialled;
//! 2. an address that the operator denies is not dialled;
//! 3. an address that the operator allows is dialled;
//! 4. an address of a special-purpose block ([`Class`]) is not dialled, any other is.
//!
//! A host that is allowed by *name* may lead anywhere except to a metadata service: the owner of the name chooses its
//! addresses, and a metadata service hands out credentials. Metadata services are allowed by address or not at all.
//!
//! Pure: no resolver, no sockets.

mod class;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::destination::{Destination, PortRange};
use crawlgate_robots::Origin;

pub use self::class::Class;
use self::class::{Kind, kind};

/// The addresses that names of this machine lead to.
const LOOPBACK_V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const LOOPBACK_V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// The address policy of a configuration.
#[derive(Clone, Debug, Default)]
pub struct AddressPolicy {
    allow: Vec<Destination>,
    deny: Vec<Destination>,
    connect_ports: Vec<PortRange>,
    /// The addresses that this proxy listens on.
    own: Vec<SocketAddr>,
    /// True if `deny` names a host, which is rare.
    denies_names: bool,
}

/// The reason that a destination is not dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prohibited {
    /// The address that it leads to, if known.
    pub address: Option<IpAddr>,
    /// The rule that prohibits it.
    pub by: ProhibitedBy,
}

impl Prohibited {
    /// Returns the error type of RFC 9209, section 2.3.
    #[must_use]
    pub fn error_type(self) -> &'static str {
        match self.by {
            ProhibitedBy::Port(_) | ProhibitedBy::OtherPort(_) => "http_request_denied",
            ProhibitedBy::Class(_) | ProhibitedBy::Denied | ProhibitedBy::Own => {
                "destination_ip_prohibited"
            }
        }
    }
}

/// Names of metadata services: Google, AWS, Azure, Alibaba, Tencent.
const METADATA_NAMES: [&str; 7] = [
    "metadata.google.internal",
    "metadata.goog",
    "metadata",
    "instance-data",
    "instance-data.ec2.internal",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
];

/// The rule that prohibits a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProhibitedBy {
    /// The address is not in the public internet.
    Class(Class),
    /// `[egress] deny`.
    Denied,
    /// This proxy listens there.
    Own,
    /// `[egress] connect_ports` does not name the port of a CONNECT.
    Port(u16),
    /// No scheme has this port, and this egress dials only the ports of schemes.
    OtherPort(u16),
}

impl fmt::Display for Prohibited {
    /// Writes the reason and the remedy, so that they can follow the origin.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(address) = self.address {
            write!(f, "leads to {address}, which ")?;
        }
        match self.by {
            ProhibitedBy::Class(class) => {
                write!(f, "is {class}; the operator can allow it")?;
                match (class, self.address) {
                    // A name of this machine leads to either address.
                    (Class::Loopback, _) => f.write_str(
                        ": [egress] allow = [\"127.0.0.0/8\", \"::1\"], or crawlgate run --allow 127.0.0.0/8 --allow ::1",
                    ),
                    (_, Some(address)) => write!(
                        f,
                        ": [egress] allow = [\"{address}\"], or crawlgate run --allow {address}"
                    ),
                    (_, None) => f.write_str(" by [egress] allow"),
                }
            }
            ProhibitedBy::Denied => f.write_str("is denied by [egress] deny"),
            ProhibitedBy::Own => f.write_str("is this proxy itself"),
            ProhibitedBy::Port(port) => write!(
                f,
                "is requested at port {port}, which CONNECT may not use; the operator can add it to \
                 [egress] connect_ports"
            ),
            ProhibitedBy::OtherPort(port) => {
                write!(f, "is requested at port {port}, which is not that of its scheme")
            }
        }
    }
}

impl AddressPolicy {
    /// Builds the policy from `config`, for a proxy that listens on `own`.
    #[must_use]
    pub fn new(
        allow: Vec<Destination>,
        deny: Vec<Destination>,
        connect_ports: Vec<PortRange>,
        own: Vec<SocketAddr>,
    ) -> AddressPolicy {
        AddressPolicy {
            denies_names: deny.iter().any(Destination::is_host),
            allow,
            deny,
            connect_ports,
            own,
        }
    }

    /// Returns the addresses that this proxy listens on.
    #[must_use]
    pub fn own(&self) -> &[SocketAddr] {
        &self.own
    }

    /// Returns the same policy for a proxy that listens on `own`, too.
    #[must_use]
    pub fn listening_on(&self, own: &[SocketAddr]) -> AddressPolicy {
        let mut policy = self.clone();
        policy.own.extend_from_slice(own);
        policy
    }

    /// Checks an origin before its name is resolved: a literal address completely, a name only against `deny`.
    /// `is_local` tells whether an address belongs to this machine.
    ///
    /// # Errors
    /// The reason that it is not dialled.
    pub fn check_origin(
        &self,
        origin: &Origin,
        is_local: impl Fn(IpAddr) -> bool,
    ) -> Result<(), Prohibited> {
        let host = origin.host();
        match literal(host) {
            Some(address) => self.check(host, SocketAddr::new(address, origin.port()), is_local),
            None => self.check_name(host, origin.port()),
        }
    }

    /// Checks that the operator does not deny a name.
    ///
    /// # Errors
    /// When it is denied.
    pub fn check_name(&self, host: &str, port: u16) -> Result<(), Prohibited> {
        let is_denied = |rule: &Destination| rule.holds_host(host, port);
        if self.denies_names && self.deny.iter().any(is_denied) {
            return Err(Prohibited { address: None, by: ProhibitedBy::Denied });
        }
        Ok(())
    }

    /// Checks that a name may be sent to an upstream proxy, which resolves it itself. Refuses the names that the operator
    /// denies, `localhost` (RFC 6761, section 6.3) unless it is allowed, and metadata services, which only an address
    /// allows.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn check_unseen(&self, host: &str, port: u16) -> Result<(), Prohibited> {
        self.check_name(host, port)?;
        if METADATA_NAMES.contains(&host) {
            return Err(Prohibited { address: None, by: ProhibitedBy::Class(Class::Metadata) });
        }
        let is_localhost = host == "localhost" || host.ends_with(".localhost");
        if is_localhost && !self.allow.iter().any(|rule| rule.holds_host(host, port)) {
            return Err(Prohibited { address: None, by: ProhibitedBy::Class(Class::Loopback) });
        }
        Ok(())
    }

    /// Checks that an upstream proxy may be dialled at `address`. The operator has named it, which allows
    /// special-purpose addresses; but not crawlgate itself, and not denied addresses.
    ///
    /// # Errors
    /// The reason that it may not.
    pub fn check_proxy(
        &self,
        host: &str,
        address: SocketAddr,
        is_local: impl Fn(IpAddr) -> bool,
    ) -> Result<(), Prohibited> {
        match self.check(host, address, is_local) {
            Err(Prohibited { by: ProhibitedBy::Class(_), .. }) => Ok(()),
            judged => judged,
        }
    }

    /// Checks that `host` may be dialled at `address`, which it is or resolves to. `is_local` tells whether an address
    /// belongs to this machine.
    ///
    /// # Errors
    /// The reason that it may not.
    pub fn check(
        &self,
        host: &str,
        address: SocketAddr,
        is_local: impl Fn(IpAddr) -> bool,
    ) -> Result<(), Prohibited> {
        self.check_address(host, address.ip(), address.port(), &is_local)
            .map_err(|by| Prohibited { address: Some(address.ip()), by })
    }

    fn check_address(
        &self,
        host: &str,
        address: IpAddr,
        port: u16,
        is_local: &impl Fn(IpAddr) -> bool,
    ) -> Result<(), ProhibitedBy> {
        let kind = kind(address);
        if let Kind::Is(v4) = kind {
            return self.check_address(host, v4.into(), port, is_local);
        }
        if self.is_own(address, port, is_local) {
            return Err(ProhibitedBy::Own);
        }
        let holds =
            |rule: &Destination| rule.holds_address(address, port) || rule.holds_host(host, port);
        if self.deny.iter().any(holds) {
            return Err(ProhibitedBy::Denied);
        }
        if let Kind::SentTo(places) = kind {
            return self.check_translated(host, address, places, port, is_local);
        }
        let is_allowed = |rule: &Destination| match kind {
            Kind::Special(Class::Metadata) => rule.holds_address(address, port),
            _ => holds(rule),
        };
        match kind {
            Kind::Special(class) if !self.allow.iter().any(is_allowed) => {
                Err(ProhibitedBy::Class(class))
            }
            _ => Ok(()),
        }
    }

    /// A NAT64 address may embed several IPv4 candidates. All real candidates must be allowed, and at least one must be
    /// real. An operator who allows the translator's address allows special-purpose addresses behind it, and nothing
    /// else.
    fn check_translated(
        &self,
        host: &str,
        address: IpAddr,
        places: [Ipv4Addr; 4],
        port: u16,
        is_local: &impl Fn(IpAddr) -> bool,
    ) -> Result<(), ProhibitedBy> {
        let is_allowed = (self.allow.iter()).any(|rule| rule.holds_address(address, port));
        let mut leads_somewhere = is_allowed;
        for place in places {
            // An address that begins with 0 is no destination: the prefix is shorter.
            if place.octets().first() == Some(&0) {
                continue;
            }
            leads_somewhere = true;
            match self.check_address(host, place.into(), port, is_local) {
                Err(ProhibitedBy::Class(_)) if is_allowed => {}
                judged => judged?,
            }
        }
        if leads_somewhere { Ok(()) } else { Err(ProhibitedBy::Class(Class::Unspecified)) }
    }

    /// Tells whether this proxy listens at this address. A wildcard listener listens on every address of the machine.
    fn is_own(&self, address: IpAddr, port: u16, is_local: &impl Fn(IpAddr) -> bool) -> bool {
        self.own.iter().any(|own| {
            own.port() == port
                && (own.ip().to_canonical() == address
                    || address.is_unspecified()
                    || (own.ip().is_unspecified() && is_local(address)))
        })
    }

    /// Tells whether `allow` opens this port at each of these addresses.
    #[must_use]
    pub fn opens(&self, addresses: &[IpAddr], port: u16) -> bool {
        let is_open = |address: &IpAddr| {
            let mut rules = self.allow.iter();
            rules.any(|rule| rule.holds_address(*address, port))
        };
        !addresses.is_empty() && addresses.iter().all(is_open)
    }

    /// Checks that a CONNECT may ask for this origin's port: `connect_ports` names it, or an entry of `allow` opens it
    /// for this host. An allowed address is allowed at every port, as it is for `http`, and so is a name of this
    /// machine if its addresses are allowed (RFC 6761 6.3). Other names are not resolved yet: an entry has to name
    /// their port.
    ///
    /// # Errors
    /// When it may not.
    pub fn check_connect(&self, origin: &Origin) -> Result<(), Prohibited> {
        let (host, port) = (origin.host(), origin.port());
        if self.connect_ports.iter().any(|range| range.holds(port)) {
            return Ok(());
        }
        let is_local_name = host == "localhost" || host.ends_with(".localhost");
        let addresses: &[IpAddr] = match literal(host) {
            Some(address) => &[address],
            None if is_local_name => &[LOOPBACK_V4, LOOPBACK_V6],
            None => &[],
        };
        let is_open = |rule: &Destination| {
            let holds = |address: &IpAddr| rule.holds_address(*address, port);
            addresses.iter().any(holds) || (rule.names_port() && rule.holds_host(host, port))
        };
        if self.allow.iter().any(is_open) {
            return Ok(());
        }
        Err(Prohibited { address: None, by: ProhibitedBy::Port(port) })
    }
}

/// Returns the address that a canonical host is, if it is one.
pub fn literal(host: &str) -> Option<IpAddr> {
    match host.as_bytes().first()? {
        b'[' => host.trim_matches(['[', ']']).parse().ok().map(|v6: std::net::Ipv6Addr| v6.into()),
        b'0'..=b'9' => host.parse().ok().map(|v4: std::net::Ipv4Addr| v4.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
