//! Upstream proxies in the configuration, and the hosts behind each.

use std::fmt;
use std::path::PathBuf;

use crawlgate_policy::host::HostPattern;
use crawlgate_robots::{Origin, Scheme};

use super::*;

/// `[[upstream.proxy]]`: the way to some hosts. The first entry that names a host decides; other hosts are reached
/// directly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The scheme of the requests that use this way; none: any.
    pub scheme: Option<Scheme>,
    /// The hosts.
    pub hosts: Vec<HostPattern>,
    /// The way.
    pub via: Via,
}

pub(super) const ROUTES: Tables<Route> =
    Tables { name: "[upstream.proxy]", read: route, write: RouteKeys::write };

table! {
    struct RouteKeys of route: Route [
        proxy = match &route.via {
            Via::Direct => None,
            Via::Proxy(proxy) => Some(proxy),
        },
        file = match proxy.map(|proxy| &proxy.credentials) {
            Some(Credentials::File(file)) => Some(file.clone()),
            _ => None,
        },
    ] {
        hosts: Vec<HostPattern>, one_or_list(|| text(HostPattern::new)), Some(route.hosts.clone());
        url: UpstreamProxy, secret(UpstreamProxy::parse), proxy.cloned();
        credentials_file: PathBuf, path(), file;
        direct: bool, boolean(), proxy.is_none().then_some(true);
    }
}

fn route(table: &mut Section<'_, '_>, cx: &Context, _: &[Route]) -> Option<Route> {
    let RouteKeys { hosts, url, credentials_file, direct } = RouteKeys::read(table, cx);
    table.demand(&["hosts"]);
    let is_one = table.names("url") != direct.unwrap_or_default();
    let keys = &["direct", "url", "hosts", "credentials_file"];
    let why = "name either the url of a proxy or direct = true";
    table.require(is_one, keys, why);
    let is_bare = (url.as_ref()).is_some_and(|proxy| proxy.credentials == Credentials::None);
    let why = "it goes with a url that holds no credentials itself";
    table.require(credentials_file.is_none() || is_bare, &["credentials_file"], why);
    let via = match (url, credentials_file) {
        (None, _) => Via::Direct,
        (Some(proxy), None) => Via::Proxy(proxy),
        (Some(proxy), Some(file)) => {
            Via::Proxy(UpstreamProxy { credentials: Credentials::File(file), ..proxy })
        }
    };
    Some(Route {
        // A file cannot set a scheme.
        scheme: None,
        hosts: hosts.unwrap_or_default(),
        via,
    })
}

/// A way to an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// No proxy.
    Direct,
    /// A proxy.
    Proxy(UpstreamProxy),
}

/// A proxy on the way to origins. The proxy resolves their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamProxy {
    /// The protocol to the proxy.
    pub protocol: ProxyProtocol,
    /// Its name or address, in canonical form (IPv6 in brackets).
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Our credentials at the proxy.
    pub credentials: Credentials,
}

crawlgate_text::spelled! {
    /// The protocol to an upstream proxy.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ProxyProtocol {
        /// HTTP/1.1 CONNECT (RFC 9110, section 9.3.6), for `http` origins too: so the proxy's own responses are never taken
        /// for the origin's.
        Http = "http",
        /// SOCKS 5 (RFC 1928, RFC 1929).
        Socks5 = "socks5",
    }
}

impl ProxyProtocol {
    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Socks5 => 1080,
        }
    }
}

/// Our credentials at an upstream proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// No credentials.
    None,
    /// A user and a password in the URL.
    Inline {
        /// The name.
        user: String,
        /// The password.
        password: Secret,
    },
    /// The credentials on this file's first line: `user:password`.
    File(PathBuf),
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the text, for the one place that needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl UpstreamProxy {
    /// Reads the URL of a proxy: `http://proxy.example:3128`, `socks5://user:password@192.0.2.1`. Percent-encoded
    /// credentials are decoded.
    ///
    /// # Errors
    /// The allowed form, when `url` has another. The error does not repeat the URL, which may hold a password.
    pub fn parse(url: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "expected the URL of a proxy: \"http://proxy.example:3128\", \"socks5://proxy.example:1080\"";
        let (scheme, rest) = url.split_once("://").ok_or(EXPECTED)?;
        let protocol = [ProxyProtocol::Http, ProxyProtocol::Socks5]
            .into_iter()
            .find(|known| scheme.eq_ignore_ascii_case(known.as_str()))
            .ok_or(EXPECTED)?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return Err(EXPECTED);
        }
        let (user_info, place) = match authority.rsplit_once('@') {
            Some((user_info, place)) => (Some(user_info), place),
            None => (None, authority),
        };
        // The port as written: a URL of `http` would drop port 80, which is not the default here.
        let (origin, _) = Origin::parse(&format!("http://{place}/")).map_err(|_| EXPECTED)?;
        let has_port = place.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|octet| octet.is_ascii_digit())
        });
        let credentials = match user_info {
            None => Credentials::None,
            Some(user_info) => {
                let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
                let decoded = |text| decode(text).ok_or("its credentials are not UTF-8 text");
                let (user, password) = (decoded(user)?, decoded(password)?);
                check_credentials(&user, &password)?;
                Credentials::Inline { user, password: Secret::new(password) }
            }
        };
        debug_assert_eq!(origin.scheme(), Scheme::Http);
        Ok(Self {
            protocol,
            host: origin.host().to_owned(),
            port: if has_port { origin.port() } else { protocol.default_port() },
            credentials,
        })
    }
}

/// Checks that both protocols can carry a name and a password.
///
/// # Errors
/// The reason why they cannot.
pub fn check_credentials(user: &str, password: &str) -> Result<(), &'static str> {
    let fits = |text: &str| text.len() <= 255 && !text.contains(char::is_control);
    if user.is_empty() {
        Err("its user name is empty")
    } else if user.contains(':') {
        Err("a user name holds no colon")
    } else if !fits(user) || !fits(password) {
        Err("user name and password hold at most 255 octets each, and no control characters")
    } else {
        Ok(())
    }
}

/// Decodes percent-encoding (RFC 3986, section 2.1); a lone `%` stays.
fn decode(text: &str) -> Option<String> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = (first == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped {
            Some(octet) => {
                octets.push(octet);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                octets.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(octets).ok()
}

impl fmt::Display for UpstreamProxy {
    /// Writes its URL, without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.protocol.as_str())?;
        if let Credentials::Inline { user, .. } = &self.credentials {
            write!(f, "{user}:***@")?;
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_proxy_is_read_and_shown_without_its_password() {
        use ProxyProtocol::{Http, Socks5};
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("http://proxy.example:3128", Http, "proxy.example", 3128, None),
            ("HTTP://Proxy.Example:3128/", Http, "proxy.example", 3128, None),
            ("http://proxy.example", Http, "proxy.example", 80, None),
            ("socks5://proxy.example", Socks5, "proxy.example", 1080, None),
            ("socks5://proxy.example:80", Socks5, "proxy.example", 80, None),
            ("socks5://[::1]", Socks5, "[::1]", 1080, None),
            ("socks5://[::1]:9050", Socks5, "[::1]", 9050, None),
            ("http://u:p@192.0.2.1:8080", Http, "192.0.2.1", 8080, Some(("u", "p"))),
            ("http://u:p:q%40%zz@a.example:1", Http, "a.example", 1, Some(("u", "p:q@%zz"))),
            ("http://u@a.example:1", Http, "a.example", 1, Some(("u", ""))),
        ];
        for (url, protocol, host, port, credentials) in cases {
            let proxy = UpstreamProxy::parse(url).unwrap();
            assert_eq!((proxy.protocol, &*proxy.host, proxy.port), (protocol, host, port), "{url}");
            let found = match &proxy.credentials {
                Credentials::Inline { user, password } => Some((&**user, password.reveal())),
                _ => None,
            };
            assert_eq!(found, credentials, "{url}");
            if let Some((user, password)) = credentials {
                assert!(proxy.to_string().contains(&format!("{user}:***@")), "{proxy}");
                for shown in [proxy.to_string(), format!("{proxy:?}")] {
                    assert!(password.len() < 2 || !shown.contains(password), "{url}: {shown}");
                }
            }
        }
    }

    #[test]
    fn an_invalid_proxy_url_is_refused_and_not_repeated() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            "", "proxy.example:3128", "https://proxy.example", "socks4://proxy.example", "http://", "http://:3128",
            "http://proxy.example:99999", "http://proxy.example/path", "http://proxy.example:0", "http://:secret@a.example",
            "http://a%3Ab:secret@a.example", "http://a%0D%0Ab:secret@a.example", "http://%ff:secret@a.example",
        ];
        for url in cases {
            let error = UpstreamProxy::parse(url).expect_err(url);
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
