//! Origins: the (scheme, host, port) that one robots.txt holds for.
//!
//! Two URLs share a robots.txt exactly if their origins are equal, so equality must be the server's own: hosts in
//! canonical spelling (lower case, Punycode, without a trailing dot, IP addresses in one notation) and default ports
//! left out. All state that belongs to a site is keyed by [`Origin`], and nothing else in the program interprets a host
//! name.

use std::fmt::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use url::Host;

use super::transfer_type::split_transfer_type;

/// The longest host name that DNS can carry, in octets (RFC 1035 section 2.3.4).
const MAX_HOST: usize = 253;

/// Room for the longest origin: `https://` + host + `:65535`.
const MAX_ORIGIN: usize = MAX_HOST + 16;

/// A scheme of origins that may carry a robots.txt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
    /// `ftp`
    Ftp,
}

impl Scheme {
    /// Returns the scheme as it stands in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Ftp => "ftp",
        }
    }

    /// Returns the scheme's default port.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
            Self::Ftp => 21,
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Http, Self::Https, Self::Ftp]
            .into_iter()
            .find(|scheme| name.eq_ignore_ascii_case(scheme.as_str()))
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A (scheme, host, port) in canonical form. Clones share one allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// `https://example.com` or `https://example.com:8443`; the other fields locate its parts.
    text: Arc<str>,
    host_end: u16,
    port: u16,
    scheme: Scheme,
}

impl Origin {
    /// Returns the origin of `host` and `port` (`None`: the scheme's default).
    ///
    /// `host` may have any spelling that URLs allow: any case, a trailing dot, Unicode, percent-encoding, an IPv6
    /// address with or without brackets, an IPv4 address in octal, hexadecimal or as one number.
    ///
    /// # Errors
    /// When the host is empty, too long or not a host, or the port is 0.
    pub fn new(scheme: Scheme, host: &str, port: Option<u16>) -> Result<Self, OriginError> {
        let port = port.unwrap_or(scheme.default_port());
        if port == 0 {
            return Err(OriginError::Port);
        }
        let mut text = Buffer::new();
        text.push(scheme.as_str())?;
        text.push("://")?;
        // The usual spelling of an IPv4 address is its canonical one.
        if is_plain(host) || host.parse::<Ipv4Addr>().is_ok() {
            text.push_lower(host.strip_suffix('.').unwrap_or(host))?;
        } else {
            text.push(&canonical(host)?)?;
        }
        let host_end = text.len;
        if port != scheme.default_port() {
            write!(text, ":{port}").map_err(|_| OriginError::Host)?;
        }
        Ok(Self {
            text: Arc::from(text.as_str()?),
            host_end: u16::try_from(host_end).map_err(|_| OriginError::Host)?,
            port,
            scheme,
        })
    }

    /// Splits an absolute URL into its origin and its path with query, as written.
    ///
    /// User information and the fragment are left out, and so is the transfer type of an `ftp` URL (`;type=i`), which is
    /// no part of the name that it asks for (RFC 1738 3.2.2). An empty path becomes `/`, and a path that begins with `?` or
    /// `;` gets a `/` in front, as in Google's library.
    ///
    /// # Errors
    /// When `url` is not absolute, its scheme is not `http`, `https` or `ftp`, or its authority is invalid.
    pub fn parse(url: &str) -> Result<(Self, String), OriginError> {
        let (scheme, rest) = url.split_once("://").ok_or(OriginError::NotAbsolute)?;
        let scheme = Scheme::from_name(scheme).ok_or(OriginError::Scheme)?;
        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let authority_end = rest.find(['/', '?']).unwrap_or(rest.len());
        let authority = rest.get(..authority_end).unwrap_or_default();
        // Browsers read a backslash as a slash, RFC 3986 knows no backslash: an authority with one is refused.
        if authority.contains('\\') {
            return Err(OriginError::Host);
        }
        let host_start = authority.rfind('@').map_or(0, |at| at + 1);
        let host_end = authority
            .get(host_start..)
            .and_then(|host| host.find(';'))
            .map_or(authority_end, |at| host_start + at);
        let (host, port) = split_port(rest.get(host_start..host_end).unwrap_or_default())?;
        let path = rest.get(host_end..).unwrap_or_default();
        let path = match scheme {
            Scheme::Ftp => split_transfer_type(path).0,
            Scheme::Http | Scheme::Https => path,
        };
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok((Self::new(scheme, host, port)?, format!("{slash}{path}")))
    }

    /// Returns the scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the host in canonical form: lower case, ASCII, no trailing dot, IPv6 in brackets.
    pub fn host(&self) -> &str {
        self.text.get(self.host_start()..usize::from(self.host_end)).unwrap_or_default()
    }

    /// Returns the port, also a default one.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns `host`, or `host:port` if the port is not the scheme's default.
    pub fn authority(&self) -> String {
        self.text.get(self.host_start()..).unwrap_or_default().to_owned()
    }

    /// Returns the URL of this origin's robots.txt (RFC 9309 section 2.3).
    pub fn robots_url(&self) -> String {
        format!("{}/robots.txt", self.text)
    }

    /// Returns the origin for display, `https://example.com[:port]`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn host_start(&self) -> usize {
        self.scheme.as_str().len() + "://".len()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Origin({})", self.text)
    }
}

/// The reason why a text names no origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginError {
    /// No `scheme://` in front.
    NotAbsolute,
    /// A scheme that carries no robots.txt.
    Scheme,
    /// A host that is missing, too long or impossible.
    Host,
    /// A port that is not a number from 1 to 65535.
    Port,
}

impl fmt::Display for OriginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAbsolute => "not an absolute URL: it must begin with http://, https:// or ftp://",
            Self::Scheme => "the scheme must be http, https or ftp",
            Self::Host => "the host must be a domain name of at most 253 octets or an IP address (IPv6 in brackets)",
            Self::Port => "the port must be a number from 1 to 65535",
        })
    }
}

impl std::error::Error for OriginError {}

/// The text of an origin under construction, on the stack: every request needs an origin.
struct Buffer {
    octets: [u8; MAX_ORIGIN],
    len: usize,
}

impl Buffer {
    fn new() -> Self {
        Self { octets: [0; MAX_ORIGIN], len: 0 }
    }

    fn push(&mut self, text: &str) -> Result<(), OriginError> {
        let end = self.len + text.len();
        let room = self.octets.get_mut(self.len..end).ok_or(OriginError::Host)?;
        room.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }

    fn push_lower(&mut self, host: &str) -> Result<(), OriginError> {
        if host.len() > MAX_HOST {
            return Err(OriginError::Host);
        }
        let start = self.len;
        self.push(host)?;
        self.octets.get_mut(start..self.len).unwrap_or_default().make_ascii_lowercase();
        Ok(())
    }

    fn as_str(&self) -> Result<&str, OriginError> {
        let filled = self.octets.get(..self.len).unwrap_or_default();
        str::from_utf8(filled).map_err(|_| OriginError::Host)
    }
}

impl fmt::Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text).map_err(|_| fmt::Error)
    }
}

/// Tells whether a host is canonical except for case and a trailing dot: ASCII letters, digits, `-`, `_`, no empty
/// label, no Punycode (which needs validation), and no possible IPv4 address.
fn is_plain(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).as_bytes();
    let mut label_start = true;
    let mut first_of_label = 0;
    let mut before = 0;
    for &octet in host {
        match octet {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => {}
            // Two hyphens in a row mark `xn--` and similar labels.
            b'-' if before != b'-' => {}
            b'.' if !label_start => {}
            _ => return false,
        }
        if label_start {
            first_of_label = octet;
        }
        label_start = octet == b'.';
        before = octet;
    }
    // A last label that begins with a digit may be part of an address (`0x7f.1`).
    !label_start && !first_of_label.is_ascii_digit()
}

/// Returns the canonical form of any other host: the WHATWG URL standard's host parser (UTS 46, IPv4 spellings, IPv6
/// compression), restricted to names that a name server could answer for.
fn canonical(host: &str) -> Result<String, OriginError> {
    if let Ok(address) = host.parse::<Ipv6Addr>() {
        return Ok(Host::<String>::Ipv6(address).to_string());
    }
    match Host::parse(host).map_err(|_| OriginError::Host)? {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(&name);
            let octets =
                name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
            if !octets || name.len() > MAX_HOST || name.split('.').any(str::is_empty) {
                return Err(OriginError::Host);
            }
            Ok(name.to_owned())
        }
        address => Ok(address.to_string()),
    }
}

/// Splits `host[:port]`, with care for the colons of an IPv6 address. An empty port means the default one (RFC 3986
/// section 3.2.3).
fn split_port(text: &str) -> Result<(&str, Option<u16>), OriginError> {
    let bracket = text.rfind(']').map_or(0, |at| at + 1);
    let Some(colon) = text.get(bracket..).and_then(|tail| tail.rfind(':')) else {
        return Ok((text, None));
    };
    let (host, port) = text.split_at_checked(bracket + colon).ok_or(OriginError::Host)?;
    let digits = port.strip_prefix(':').unwrap_or(port);
    if digits.is_empty() {
        return Ok((host, None));
    }
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(OriginError::Port);
    }
    digits.parse().map(|port| (host, Some(port))).map_err(|_| OriginError::Port)
}

#[cfg(test)]
mod tests {
    // A failed unwrap is a failed test.
    use super::*;

    #[test]
    fn hosts_have_one_spelling() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("lower case", "WWW.Example.COM", "www.example.com"),
            ("one trailing dot is dropped", "example.com.", "example.com"),
            ("an underscore is a letter", "a_b.example.com", "a_b.example.com"),
            ("Punycode for Unicode", "www.exämple.com", "www.xn--exmple-cua.com"),
            ("Punycode stays", "WWW.XN--exmple-cua.com", "www.xn--exmple-cua.com"),
            ("two hyphens that are no Punycode", "a--b.example", "a--b.example"),
            ("an ideographic full stop is a dot", "example。com", "example.com"),
            ("full width letters are letters", "ｅxample.com", "example.com"),
            ("percent-encoded", "ex%61mple.com", "example.com"),
            ("an IPv4 address", "127.0.0.1", "127.0.0.1"),
            ("with a trailing dot", "127.0.0.1.", "127.0.0.1"),
            ("in hexadecimal, short", "0x7f.1", "127.0.0.1"),
            ("as one number", "2130706433", "127.0.0.1"),
            ("in octal", "0177.0.0.01", "127.0.0.1"),
            ("a label of digits inside", "1.2.example.com", "1.2.example.com"),
            ("an IPv6 address", "[0:0:0:0:0:0:0:1]", "[::1]"),
            ("upper case", "[2001:DB8::A]", "[2001:db8::a]"),
            ("without brackets", "2001:db8:0::a", "[2001:db8::a]"),
            ("a single label", "localhost", "localhost"),
        ];
        for (name, written, expected) in cases {
            let origin = Origin::new(Scheme::Http, written, None);
            assert_eq!(origin.as_ref().map(Origin::host), Ok(expected), "{name}: {written}");
            assert_eq!(origin, Origin::new(Scheme::Http, expected, Some(80)), "{name}: equal");
        }
    }

    #[test]
    fn a_text_that_is_not_a_host_is_refused() {
        let long = "a.".repeat(126) + "com";
        let longest = "a.".repeat(125) + "com";
        assert!(Origin::new(Scheme::Https, &longest, Some(65535)).is_ok(), "253 octets and a port");
        let hosts = [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a b",
            "a/b",
            "a@b",
            "a:b",
            "a\\b",
            "a%00b",
            "a%2Fb",
            "[::1",
            "::1]",
            "[::g]",
            "[fe80::1%25eth0]",
            "1.2.3.4.5",
            "256.0.0.1",
            "0x100000000",
            "a,b",
            "a*b",
            "a;b",
            "a\tb",
            "xn--a.com",
            &long,
        ];
        for host in hosts {
            assert_eq!(Origin::new(Scheme::Http, host, None), Err(OriginError::Host), "{host:?}");
        }
        assert_eq!(Origin::new(Scheme::Http, "a", Some(0)), Err(OriginError::Port));
    }

    #[test]
    fn urls_split_into_origin_and_path() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("a path", "http://a.example/b?c", "http://a.example", "/b?c"),
            ("scheme in upper case", "HTTPS://a.example/", "https://a.example", "/"),
            ("default port", "https://a.example:443/", "https://a.example", "/"),
            ("the other scheme's port", "http://a.example:443/", "http://a.example:443", "/"),
            ("empty port", "http://a.example:/", "http://a.example", "/"),
            ("ftp", "ftp://a.example:21/b", "ftp://a.example", "/b"),
            ("ftp with a transfer type", "ftp://a.example/b;type=i", "ftp://a.example", "/b"),
            ("ftp with nothing but one", "ftp://a.example/;TYPE=D", "ftp://a.example", "/"),
            ("ftp with an unknown one", "ftp://a.example/b;type=x", "ftp://a.example", "/b;type=x"),
            ("http with a parameter", "http://a.example/b;type=i", "http://a.example", "/b;type=i"),
            ("user information", "http://user:p@ss@a.example:81/", "http://a.example:81", "/"),
            ("a password with a semicolon", "http://u;p@a.example/b", "http://a.example", "/b"),
            ("an address as user information", "http://b.example:80@a.example/", "http://a.example", "/"),
            ("fragment", "http://a.example/b#c", "http://a.example", "/b"),
            ("fragment at once", "http://a.example#@b.example", "http://a.example", "/"),
            ("google: an empty path", "http://a.example", "http://a.example", "/"),
            ("google: a query at once", "http://a.example?b@c/d", "http://a.example", "/?b@c/d"),
            ("google: parameters at once", "http://a.example;b?c", "http://a.example", "/;b?c"),
            ("IPv6", "http://[::1]:8080/a:b", "http://[::1]:8080", "/a:b"),
            ("the path stays as written", "http://a.example//%61/../ツ", "http://a.example", "//%61/../ツ"),
        ];
        for (name, url, origin, path) in cases {
            let (found, rest) = Origin::parse(url).unwrap();
            assert_eq!((found.to_string().as_str(), rest.as_str()), (origin, path), "{name}");
            assert_eq!(found.robots_url(), format!("{origin}/robots.txt"), "{name}");
            assert_eq!(format!("{}://{}", found.scheme(), found.authority()), origin, "{name}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_url_is_refused() {
        let cases = [
            ("/a", OriginError::NotAbsolute),
            ("example.com", OriginError::NotAbsolute),
            ("gopher://a/", OriginError::Scheme),
            ("://a/", OriginError::Scheme),
            ("http:///a", OriginError::Host),
            ("http://a\\@b/", OriginError::Host),
            ("http://a b/", OriginError::Host),
            ("http://a:b/", OriginError::Port),
            ("http://a:+80/", OriginError::Port),
            ("http://a:65536/", OriginError::Port),
            ("http://a:0/", OriginError::Port),
        ];
        for (url, expected) in cases {
            assert_eq!(Origin::parse(url), Err(expected), "{url}");
        }
    }
}
