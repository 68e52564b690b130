//! Host names in the configuration, and patterns of them.

use std::fmt;

use crawlgate_robots::{Origin, Scheme};

/// Names a set of hosts: one host (`bank.example`), every host below one (`*.bank.example`, which leaves out
/// `bank.example` itself) or every host (`*`).
///
/// Hosts are compared as origins are: IDN as Punycode, without case, one trailing dot dropped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPattern(Pattern);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Pattern {
    Every,
    Exact(Box<str>),
    /// With its leading dot, so that `*.bank.example` does not match `mybank.example`.
    Below(Box<str>),
    /// `localhost`, all below it, and the loopback addresses.
    Loopback,
}

/// A text that is neither a host nor a pattern of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPatternError;

impl fmt::Display for HostPatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a host (\"bank.example\"), all below one (\"*.bank.example\") or \"*\", without port")
    }
}

impl std::error::Error for HostPatternError {}

impl HostPattern {
    /// The hosts that are this machine even if a name server disagrees (RFC 6761 6.3). No text names them.
    pub const LOOPBACK: HostPattern = HostPattern(Pattern::Loopback);

    /// Reads a pattern.
    ///
    /// # Errors
    /// When `text` is not a host name, an IP address, `*.` and a host name, or `*`.
    pub fn new(text: &str) -> Result<Self, HostPatternError> {
        if text == "*" {
            return Ok(Self(Pattern::Every));
        }
        let (below, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text),
        };
        let host = canonical_host(name).ok_or(HostPatternError)?;
        if !below {
            return Ok(Self(Pattern::Exact(host.into())));
        }
        if is_address(&host) {
            return Err(HostPatternError);
        }
        Ok(Self(Pattern::Below(format!(".{host}").into())))
    }

    /// Tells whether the pattern names `host`, a canonical host as `Origin::host` gives it; case and one trailing dot
    /// are ignored.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        match &self.0 {
            Pattern::Every => true,
            Pattern::Exact(name) => host.eq_ignore_ascii_case(name),
            Pattern::Loopback => is_loopback(host),
            Pattern::Below(suffix) => {
                // Octets, not characters: a host that is not ASCII matches nothing and must not split a character.
                let (host, suffix) = (host.as_bytes(), suffix.as_bytes());
                host.len() > suffix.len()
                    && host
                        .get(host.len() - suffix.len()..)
                        .is_some_and(|end| end.eq_ignore_ascii_case(suffix))
            }
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Pattern::Every => f.write_str("*"),
            Pattern::Exact(name) => f.write_str(name),
            Pattern::Below(suffix) => write!(f, "*{suffix}"),
            Pattern::Loopback => f.write_str("loopback"),
        }
    }
}

/// Tells whether a host without a trailing dot is this machine.
fn is_loopback(host: &str) -> bool {
    let is_name = |name: &str| {
        let name = name.rsplit('.').next().unwrap_or(name);
        name.eq_ignore_ascii_case("localhost")
    };
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let address = address.parse::<std::net::IpAddr>();
    address.map_or_else(|_| is_name(host), |address| address.to_canonical().is_loopback())
}

/// Returns the canonical spelling of a host; `None` if the text is no host.
pub fn canonical_host(name: &str) -> Option<String> {
    // Refuse parts of a larger form (URL, authority, pattern) here: a parser may forgive them.
    if name.is_empty() || name.contains(['*', '/', '@', '?', '#', ' ']) {
        return None;
    }
    let origin = Origin::new(Scheme::Https, name, None).ok()?;
    Some(origin.host().to_owned())
}

/// Tells whether a canonical host is an IP literal.
fn is_address(host: &str) -> bool {
    host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_many_names() {
        for (host, is_it) in [
            ("localhost", true),
            ("LOCALHOST.", true),
            ("a.localhost", true),
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("[::1]", true),
            ("[::ffff:127.0.0.1]", true),
            ("localhost.example", false),
            ("mylocalhost", false),
            ("128.0.0.1", false),
            ("[::2]", false),
            ("", false),
        ] {
            assert_eq!(HostPattern::LOOPBACK.matches(host), is_it, "{host}");
        }
    }

    #[test]
    fn patterns_match_the_hosts_they_name() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("the host itself", "bank.example", "bank.example", true),
            ("without case", "Bank.Example", "bANK.eXAMPLE", true),
            ("one trailing dot", "bank.example.", "bank.example.", true),
            ("an exact host is not its children", "bank.example", "www.bank.example", false),
            ("a child", "*.bank.example", "www.bank.example", true),
            ("a grandchild", "*.bank.example", "a.b.bank.example", true),
            ("below a host is not the host", "*.bank.example", "bank.example", false),
            ("the dot counts", "*.bank.example", "mybank.example", false),
            ("an empty label is no child", "*.bank.example", ".bank.example", false),
            ("IDN as Punycode", "*.bücher.example", "www.xn--bcher-kva.example", true),
            ("an address", "192.0.2.1", "192.0.2.1", true),
            ("everything", "*", "bank.example", true),
            ("a host in no alphabet of hosts", "*.example", "ü", false),
        ];
        for (name, pattern, host, want) in cases {
            let pattern = HostPattern::new(pattern).unwrap();
            assert_eq!(pattern.matches(host), want, "{name}");
        }
    }

    #[test]
    fn an_invalid_pattern_is_refused() {
        for text in [
            "",
            "*.",
            "*bank.example",
            "www.*.example",
            "https://bank.example",
            "bank.example/",
            "bank example",
            "user@bank.example",
            "*.192.0.2.1",
        ] {
            assert_eq!(HostPattern::new(text), Err(HostPatternError), "{text:?}");
        }
    }

    #[test]
    fn a_pattern_is_shown_as_it_is_read() {
        for text in ["*", "bank.example", "*.bank.example"] {
            assert_eq!(HostPattern::new(text).unwrap().to_string(), text);
        }
    }
}
