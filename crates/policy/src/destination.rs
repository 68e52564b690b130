//! Destinations in the configuration: networks or hosts, each with or without a port, and ranges of ports.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::host::HostPattern;

/// A set of destinations to dial: the addresses of a network, or a host by name; at one port or at any.
///
/// Written as in a URL: `10.0.0.0/8`, `10.0.0.0/8:8080`, `::1`, `[fd00::/8]:8080`, `site.example`, `*.site.example:8443`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    place: Place,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    Network(IpNet),
    Host(HostPattern),
}

/// A text that is no [`Destination`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DestinationError;

impl fmt::Display for DestinationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "expected a network (\"10.0.0.0/8\", \"192.0.2.7\", \"::1\") or a host (\"site.example\", \"*.site.example\"), \
             alone or with a port (\"10.0.0.0/8:8080\", \"[::1]:8080\", \"site.example:8080\")",
        )
    }
}

impl std::error::Error for DestinationError {}

impl Destination {
    /// Reads a destination.
    ///
    /// # Errors
    /// When `text` is no destination. Nor is `*`: a rule for all addresses is written as two networks.
    pub fn new(text: &str) -> Result<Self, DestinationError> {
        if let Some(network) = network(text) {
            return Ok(Self::network(network, None));
        }
        if let Some((place, port)) = text.rsplit_once(':')
            && let Some(port) = port_number(port)
        {
            let bare = place.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            return match (bare, bare.or(Some(place)).and_then(network)) {
                // Without brackets, the port could be the address's last group.
                (None, Some(IpNet::V6(_))) => Err(DestinationError),
                (_, Some(network)) => Ok(Self::network(network, Some(port))),
                (Some(_), None) => Err(DestinationError),
                (None, None) => Self::host(place, Some(port)),
            };
        }
        Self::host(text, None)
    }

    fn network(network: IpNet, port: Option<u16>) -> Self {
        let place = Place::Network(network);
        Self { place, port }
    }

    fn host(text: &str, port: Option<u16>) -> Result<Self, DestinationError> {
        if text == "*" {
            return Err(DestinationError);
        }
        let host = HostPattern::new(text).map_err(|_| DestinationError)?;
        let shown = host.to_string();
        // Another spelling of an address: `[::1]`, `0x7f.1`.
        let place = match network(shown.trim_matches(['[', ']'])) {
            Some(network) => Place::Network(network),
            None => Place::Host(host),
        };
        Ok(Self { place, port })
    }

    /// Tells whether the set contains an address.
    #[must_use]
    pub fn holds_address(&self, address: IpAddr, port: u16) -> bool {
        self.has_port(port)
            && matches!(&self.place, Place::Network(network) if network.contains(&address))
    }

    /// Tells whether the set contains a name, a canonical host as `Origin::host` gives it.
    #[must_use]
    pub fn holds_host(&self, host: &str, port: u16) -> bool {
        self.has_port(port) && matches!(&self.place, Place::Host(pattern) if pattern.matches(host))
    }

    /// Tells whether the set consists of names, not of addresses.
    #[must_use]
    pub fn is_host(&self) -> bool {
        matches!(self.place, Place::Host(_))
    }

    /// Tells whether the set has one port only.
    #[must_use]
    pub fn names_port(&self) -> bool {
        self.port.is_some()
    }

    fn has_port(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }
}

/// Ports from one to another, both included. Written as a number or, in quotes, as two: `"8000-8999"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// All ports.
    pub const EVERY: Self = Self { first: 1, last: u16::MAX };

    /// Returns a range of one port.
    #[must_use]
    pub const fn one(port: u16) -> Self {
        Self { first: port, last: port }
    }

    /// Reads a port or a range; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (port_number(first.trim())?, port_number(last.trim())?);
        (first <= last).then_some(Self { first, last })
    }

    /// Tells whether the range contains `port`.
    #[must_use]
    pub fn holds(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// Returns the port of a range of one.
    #[must_use]
    pub fn single(self) -> Option<u16> {
        (self.first == self.last).then_some(self.first)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.single() {
            Some(port) => write!(f, "{port}"),
            None => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl std::str::FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, DestinationError> {
        Self::new(text)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.place, self.port) {
            (Place::Network(network), None) => write!(f, "{network}"),
            (Place::Network(network @ IpNet::V4(_)), Some(port)) => write!(f, "{network}:{port}"),
            (Place::Network(network), Some(port)) => write!(f, "[{network}]:{port}"),
            (Place::Host(host), None) => write!(f, "{host}"),
            (Place::Host(host), Some(port)) => write!(f, "{host}:{port}"),
        }
    }
}

/// Reads a network, or a single address.
fn network(text: &str) -> Option<IpNet> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    address.or_else(|_| text.parse::<IpNet>().map(|network| network.trunc())).ok()
}

fn port_number(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_holds_what_it_names() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("a network", "10.0.0.0/8", "10.1.2.3", 80, true),
            ("beside it", "10.0.0.0/8", "11.0.0.0", 80, false),
            ("an address", "192.0.2.7", "192.0.2.7", 80, true),
            ("at its port", "10.0.0.0/8:8080", "10.1.2.3", 8080, true),
            ("at another port", "10.0.0.0/8:8080", "10.1.2.3", 80, false),
            ("an address with a port", "127.0.0.1:8080", "127.0.0.1", 8080, true),
            ("IPv6", "::1", "::1", 80, true),
            ("IPv6 at its port", "[::1]:8080", "::1", 8080, true),
            ("IPv6 at another port", "[::1]:8080", "::1", 80, false),
            ("a network of IPv6 at its port", "[fd00::/8]:80", "fd12::1", 80, true),
            ("IPv6 in brackets", "[::1]", "::1", 80, true),
            ("odd spelling", "0x7f.1", "127.0.0.1", 80, true),
            ("host bits are dropped", "10.1.2.3/8", "10.9.9.9", 80, true),
            ("a name is no address", "site.example", "192.0.2.7", 80, false),
        ];
        for (name, text, address, port, want) in cases {
            let destination = Destination::new(text).unwrap();
            let address = address.parse().unwrap();
            assert_eq!(destination.holds_address(address, port), want, "{name}");
        }
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("a host", "site.example", "site.example", 80, true),
            ("another", "site.example", "www.site.example", 80, false),
            ("below", "*.site.example", "www.site.example", 80, true),
            ("at its port", "*.site.example:8443", "www.site.example", 8443, true),
            ("at another port", "*.site.example:8443", "www.site.example", 443, false),
            ("a network is no name", "192.0.2.7", "192.0.2.7", 80, false),
        ];
        for (name, text, host, port, want) in cases {
            let destination = Destination::new(text).unwrap();
            assert_eq!(destination.holds_host(host, port), want, "{name}");
        }
    }

    #[test]
    fn a_destination_is_shown_as_it_is_read() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            "10.0.0.0/8", "10.0.0.0/8:8080", "fd00::/8", "[fd00::/8]:8080", "site.example", "*.site.example",
            "site.example:8080",
        ];
        for text in cases {
            assert_eq!(Destination::new(text).unwrap().to_string(), text);
        }
        for (text, shown) in [
            ("127.0.0.1", "127.0.0.1/32"),
            ("127.0.0.1:80", "127.0.0.1/32:80"),
            ("Site.Example.", "site.example"),
        ] {
            let read = Destination::new(text).unwrap();
            assert_eq!(read.to_string(), shown);
            assert_eq!(Destination::new(shown), Ok(read), "{shown}");
        }
    }

    #[test]
    fn a_range_of_ports_holds_both_its_ends() {
        let range = PortRange::parse("8000-8002").unwrap();
        for (port, is_in) in [(7999, false), (8000, true), (8002, true), (8003, false)] {
            assert_eq!(range.holds(port), is_in, "{port}");
        }
        assert_eq!(PortRange::parse("443"), Some(PortRange::one(443)));
        for text in ["", "-", "0", "1-", "-1", "2-1", "1-65536", "http", "1-2-3"] {
            assert_eq!(PortRange::parse(text), None, "{text:?}");
        }
        for text in ["443", "1-65535"] {
            assert_eq!(PortRange::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_invalid_destination_is_refused() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            "", "*", "*:80", ":80", "site.example:", "site.example:0", "site.example:65536", "site.example:http",
            "http://site.example", "site.example/", "10.0.0.0/33", "fd00::/8:80", "[site.example]:80", "[::1", "a b",
        ];
        for text in cases {
            assert_eq!(Destination::new(text), Err(DestinationError), "{text:?}");
        }
    }
}
