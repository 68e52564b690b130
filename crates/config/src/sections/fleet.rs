//! `[fleet]`: other instances that act as one gate with this one, by way of Valkey or Redis.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use super::*;

/// The longest name of an instance, a primary, a user or a prefix.
const NAME: usize = 128;

section! {
    /// `[fleet]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FleetConfig "fleet" {
        /// The engine; `None`: the sentinels name it, or this instance has no fleet.
        engine: Option<Endpoint> = None, unless("", service(|text| EngineAddress::from_str(text).map(|it| it.endpoint))), AtRestart;
        /// Sentinels that name the engine's primary.
        sentinels: Vec<Endpoint> = Vec::new(), one_or_list(|| service(Endpoint::from_str)), AtRestart;
        /// The name of the primary at the sentinels; set if there are sentinels.
        master: Option<String> = None, unless("", text(word)), AtRestart;
        /// True for TLS to the engine and to the sentinels.
        tls: bool = false, boolean(), AtRestart;
        /// The certificate that this instance shows to the engine, with its chain; `None`: none.
        cert: Option<PathBuf> = None, unless("", path()), AtRestart;
        /// The private key of that certificate; set if there is one.
        key: Option<PathBuf> = None, unless("", path()), AtRestart;
        /// The user at the engine; `None`: its default user.
        user: Option<String> = None, unless("", text(word)), AtRestart;
        /// The file with the password of that user; `None`: none.
        password_file: Option<PathBuf> = None, unless("", path()), AtRestart;
        /// The file with the key that the instances authenticate what lies in the engine by; set if there is an engine.
        key_file: Option<PathBuf> = None, unless("", path()), AtRestart;
        /// The name of this instance; `None`: the name of its decision log.
        name: Option<String> = None, unless("", text(word)), AtRestart;
        /// The first part of all names in the engine.
        prefix: String = "crawlgate".to_owned(), text(prefix), AtRestart;
        /// The time without an answer of the engine after which this instance forwards nothing.
        patience: Duration = secs(15), duration(secs(2)..=secs(3_600)), AtReload;
        /// The time for one answer of the engine.
        timeout: Duration = ONE_MS * 250, duration(ONE_MS * 10..=secs(1)), AtRestart;
    }
}

impl FleetConfig {
    /// Tells whether this instance belongs to a fleet.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.engine.is_some() || !self.sentinels.is_empty()
    }

    /// Takes over what the URL of the engine asks for. The key `tls` of the section comes after it.
    pub(crate) fn begin(&mut self, section: &Section<'_, '_>) {
        self.tls |= EngineAddress::of(section).is_some_and(|address| address.tls);
    }

    /// Checks the rules between its keys, and those with `[pace]` and `[store]`.
    pub(crate) fn check(
        &mut self,
        section: &mut Section<'_, '_>,
        is_per_address: bool,
        has_store: bool,
    ) {
        let address = EngineAddress::of(section);
        let has_tls = address.as_ref().is_some_and(|address| address.tls);
        let why = "the URL of the engine asks for TLS: leave tls = false out, or begin the URL with redis:// or valkey://";
        section.require(self.tls || !has_tls, &["tls"], why);
        let user = address.and_then(|address| address.user);
        let is_one = user.is_none() || self.user.is_none() || user == self.user;
        let why = "the URL of the engine names another user: leave one of them out";
        section.require(is_one, &["user"], why);
        let is_user = user.as_deref().is_none_or(|user| word(user).is_ok());
        let why = "the user in the URL has characters that no user has here";
        section.require(is_user, &["engine"], why);
        self.user = self.user.take().or(user);
        let (one, several) = (self.engine.is_some(), !self.sentinels.is_empty());
        let why = "the sentinels name the engine: set engine = \"\"";
        section.require(!(one && several), &["sentinels", "engine"], why);
        let why = "master is missing, the name under which the sentinels know the engine's primary";
        section.require(self.master.is_some() || !several, &["sentinels"], why);
        let are_both = self.cert.is_some() == self.key.is_some();
        let why = "a certificate and its private key belong together: set cert and key";
        section.require(are_both, &["cert", "key"], why);
        let why = "only TLS shows a certificate: set tls = true";
        section.require(self.tls || self.cert.is_none(), &["cert"], why);
        let (is_on, keys) = (self.is_on(), &["engine", "sentinels"]);
        let why = "key_file is missing, the key that all instances share; `crawlgate fleet key FILE` makes one";
        section.require(self.key_file.is_some() || !is_on, keys, why);
        let why = "[pace] per_address = true holds only on one machine, as each resolves names for itself; set it to false";
        section.require(!(is_on && is_per_address), keys, why);
        let why = "each instance keeps the states that it takes from others, but [store] path is \"\"; name a file there";
        section.require(has_store || !is_on, keys, why);
    }
}

/// A host and a port. [`Display`](fmt::Display) writes an IPv6 address in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// A name, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Endpoint {
    /// Takes over a host and a port that another program tells. `None` if the host is neither an address nor a name: it
    /// stands in commands for a shell.
    #[must_use]
    pub fn from_parts(host: String, port: u16) -> Option<Self> {
        let is_host = is_name(&host) || host.parse::<std::net::IpAddr>().is_ok();
        (is_host && port != 0).then_some(Self { host, port })
    }
}

/// Tells whether a text is a host's name, or an IPv4 address.
fn is_name(text: &str) -> bool {
    let is_in_names = |octet: u8| octet.is_ascii_alphanumeric() || b"-._".contains(&octet);
    !text.is_empty() && text.bytes().all(is_in_names)
}

impl FromStr for Endpoint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const ALLOWED: &str =
            "expected a host and a port: \"valkey.example:6379\", \"[2001:db8::7]:6379\"";
        let (host, port) = text.rsplit_once(':').ok_or(ALLOWED)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or(ALLOWED)?;
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match inner {
            Some(address) if address.parse::<std::net::Ipv6Addr>().is_ok() => address,
            None if is_name(host) => host,
            _ => return Err(ALLOWED),
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

/// The engine, as `[fleet] engine` names it: a host and a port, or a URL as other programs have it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EngineAddress {
    /// The host and the port.
    endpoint: Endpoint,
    /// True for a URL that asks for TLS.
    tls: bool,
    /// The user in a URL.
    user: Option<String>,
}

impl EngineAddress {
    /// Returns the address that the section names, if it is right.
    fn of(section: &Section<'_, '_>) -> Option<Self> {
        section.text("engine")?.parse().ok()
    }
}

/// The port of a URL that names none.
const PORT: u16 = 6_379;

impl FromStr for EngineAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const ALLOWED: &str = "expected a host and a port, or a URL: \"valkey.example:6379\", \"valkeys://valkey.example:6379\"; a \
                               URL begins with redis://, rediss://, valkey:// or valkeys://";
        let Some((scheme, rest)) = text.split_once("://") else {
            let endpoint = text.parse().map_err(|_| ALLOWED)?;
            return Ok(Self { endpoint, tls: false, user: None });
        };
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(ALLOWED),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !matches!(path, "" | "0") {
            return Err(
                "a fleet lies in database 0, and takes no options in the URL: end it behind the port",
            );
        }
        let (user, place) = match authority.rsplit_once('@') {
            None => (None, authority),
            Some((user, _)) if user.contains(':') => {
                return Err(
                    "a password does not belong in the URL: name its file in [fleet] password_file",
                );
            }
            Some((user, place)) => (Some(user.to_owned()).filter(|user| !user.is_empty()), place),
        };
        let has_port = place.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let endpoint = if has_port { place.parse() } else { format!("{place}:{PORT}").parse() };
        Ok(Self { endpoint: endpoint.map_err(|_| ALLOWED)?, tls, user })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Reads a name that stands in messages and, with others, in names in the engine.
fn word(text: &str) -> Result<String, &'static str> {
    let is_plain = |octet: u8| octet.is_ascii_graphic() && !b"{}\"\\".contains(&octet);
    if !text.is_empty() && text.len() <= NAME && text.bytes().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err(
            "expected at most 128 visible characters of ASCII, without braces, quotes and backslashes",
        )
    }
}

fn prefix(text: &str) -> Result<String, &'static str> {
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
    if !text.is_empty() && text.len() <= NAME && text.bytes().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err("expected 1 to 128 letters, digits, \"-\", \"_\" and \".\": \"crawlgate\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_host_and_a_port() {
        for (text, want) in [
            ("valkey.example:6379", Some(("valkey.example", 6379))),
            ("127.0.0.1:1", Some(("127.0.0.1", 1))),
            ("[2001:db8::7]:6379", Some(("2001:db8::7", 6379))),
            ("valkey.example", None),
            ("valkey.example:0", None),
            ("valkey.example:65536", None),
            (":6379", None),
            ("[]:6379", None),
            ("2001:db8::7:6379", None),
            ("user:secret@valkey.example:6379", None),
            ("redis://valkey.example:6379", None),
        ] {
            let read = text.parse::<Endpoint>().ok();
            let found = read.as_ref().map(|one| (one.host.as_str(), one.port));
            assert_eq!(found, want, "{text}");
            if let Some(read) = read {
                assert_eq!(read.to_string(), text);
            }
        }
    }

    #[test]
    fn an_engine_is_a_host_and_a_port_or_a_url() {
        #[rustfmt::skip] // one row, one case
        let rows = [
            ("valkey.example:6379", Some(("valkey.example:6379", false, None))),
            ("redis://valkey.example:6380", Some(("valkey.example:6380", false, None))),
            ("redis://valkey.example", Some(("valkey.example:6379", false, None))),
            ("rediss://valkey.example:6380/", Some(("valkey.example:6380", true, None))),
            ("valkey://127.0.0.1:1/0", Some(("127.0.0.1:1", false, None))),
            ("VALKEYS://[2001:db8::7]", Some(("[2001:db8::7]:6379", true, None))),
            ("valkeys://[2001:db8::7]:6380", Some(("[2001:db8::7]:6380", true, None))),
            ("rediss://crawlgate@valkey.example", Some(("valkey.example:6379", true, Some("crawlgate")))),
            ("rediss://crawlgate:secret@valkey.example", None),
            ("rediss://:secret@valkey.example", None),
            ("redis://valkey.example/1", None),
            ("redis://valkey.example?db=1", None),
            ("redis://valkey.example:0", None),
            ("redis://", None),
            ("http://valkey.example:6379", None),
            ("unix:///run/valkey.sock", None),
        ];
        for (text, want) in rows {
            let read = text.parse::<EngineAddress>().ok();
            let endpoint = read.as_ref().map(|one| one.endpoint.to_string());
            let found = read.as_ref().zip(endpoint.as_deref());
            let found = found.map(|(one, at)| (at, one.tls, one.user.as_deref()));
            assert_eq!(found, want, "{text}");
        }
    }

    #[test]
    fn a_told_host_is_an_address_or_a_name() {
        for (host, is_one) in [
            ("10.0.0.2", true),
            ("2001:db8::7", true),
            ("valkey-2.example", true),
            ("", false),
            ("x; rm -r ~", false),
            ("$(id)", false),
            ("a\nb", false),
        ] {
            assert_eq!(Endpoint::from_parts(host.to_owned(), 1).is_some(), is_one, "{host:?}");
        }
        assert_eq!(Endpoint::from_parts("valkey.example".to_owned(), 0), None);
    }
}
