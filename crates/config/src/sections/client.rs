//! `[[client]]`: the clients of the proxy, the conditions that identify each, and its settings.
//!
//! An entry names conditions of up to four kinds: a password, source networks, listeners, certificates. Each kind must
//! match, by any of its values. An entry with a password never matches without it; an entry without any condition
//! matches everyone else and comes last.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use argon2::{ARGON2ID_IDENT, Params};
use ipnet::IpNet;

use crawlgate_origins::identity::{LONGEST_USER_AGENT, client_name, user_agent};
use crawlgate_origins::timing::ProfileName;
use crawlgate_policy::Mode;
use crawlgate_policy::overrides::words;
use crawlgate_robots::ProductToken;
use crawlgate_text::hex::{Hex, from_hex, hex};
use crawlgate_usage::Purposes;

use super::listener::network;
use super::robots::purposes;
use super::signing::{identity, known};
use super::*;

/// One `[[client]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientConfig {
    /// The name, in records and as the user name of credentials.
    pub name: Arc<str>,
    /// The conditions that identify the client.
    pub conditions: Conditions,
    /// Product tokens that judge the client, most specific first; empty: those of `[agent]` or of its User-Agent.
    pub product_tokens: Vec<ProductToken>,
    /// The User-Agent for fetching robots.txt for this client; none: its product token before `[robots] user_agent`.
    pub user_agent: Option<Box<str>>,
    /// The purpose of its crawl, in words.
    pub purpose: Option<Box<str>>,
    /// The purposes that its crawl declares; none: those of `[policy]`.
    pub purposes: Option<Purposes>,
    /// The `[[signing]]` of its requests; none: that of `[agent]`.
    pub signing: Option<Arc<str>>,
    /// The mode of its denials; none: that of `[policy]`.
    pub mode: Option<Mode>,
    /// The operator's reason for exempting it from what robots.txt disallows; none: it is not exempt.
    pub exempt: Option<Arc<str>>,
    /// The published profile for an unreachable robots.txt; none: the profile of `[robots]`.
    pub profile: Option<ProfileName>,
    /// The client's rate over all origins together; none: unlimited.
    pub rate: Option<Rate>,
    /// The client's quota; none: unlimited.
    pub quota: Option<Quota>,
    /// Open connections, at least 1; none: the limit of `[limits]`.
    pub max_connections: Option<usize>,
    /// Requests in flight, at least 1; none: the limit of `[limits]`.
    pub max_requests: Option<usize>,
}

pub(crate) const CLIENTS: Tables<ClientConfig> =
    Tables { name: "[client]", read: client, write: Keys::write };

table! {
    struct Keys of it: ClientConfig {
        name: Arc<str>, text(client_name), Some(it.name.clone());
        password: Hidden<PasswordHash>, secret(|text| PasswordHash::parse(text).map(Hidden::from)), it.conditions.password.as_ref().map(PasswordHash::hidden);
        networks: Vec<IpNet>, one_or_list(network), some(&it.conditions.networks);
        listeners: Vec<Arc<str>>, one_or_list(listener), some(&it.conditions.listeners);
        certificates: Vec<CertificateMatch>, one_or_list(|| text(CertificateMatch::parse)), some(&it.conditions.certificates);
        product_tokens: Vec<ProductToken>, one_or_list(|| text(ProductToken::new)), some(&it.product_tokens);
        user_agent: Box<str>, text(|text| user_agent(text, LONGEST_USER_AGENT)), it.user_agent.clone();
        purpose: Box<str>, text(|text| words(text).map(Box::from)), it.purpose.clone();
        purposes: Purposes, purposes(), it.purposes;
        signing: Arc<str>, identity(), it.signing.clone();
        mode: Mode, word(), it.mode;
        exempt: Arc<str>, text(|text| words(text).map(Arc::from)), it.exempt.clone();
        profile: ProfileName, word(), it.profile;
        requests_per_second: f64, number(1e-6..=1e6), it.rate.map(|rate| rate.requests_per_second);
        burst: u32, integer(1..=1_000_000), it.rate.map(|rate| rate.burst);
        quota: Quota, QUOTA, it.quota;
        connections: usize, integer(1..=1_000_000), it.max_connections;
        requests: usize, integer(1..=1_000_000), it.max_requests;
    }
}

/// Returns a list that is no condition while it is empty.
fn some<T: Clone>(list: &[T]) -> Option<Vec<T>> {
    (!list.is_empty()).then(|| list.to_vec())
}

/// The name of a `[[listener]]`.
fn listener() -> Form<Arc<str>> {
    text_within(|text, cx| known(text, cx.listeners.as_deref(), "no [[listener]] has this name"))
}

/// Reads one `[[client]]`, after those in `before`.
fn client(
    table: &mut Section<'_, '_>,
    cx: &Context,
    before: &[ClientConfig],
) -> Option<ClientConfig> {
    let keys = Keys::read(table, cx);
    table.demand(&["name"]);
    // An empty list could mean a condition that never matches, or no condition: refuse it.
    let is_empty = [
        ("networks", keys.networks.as_ref().is_some_and(Vec::is_empty)),
        ("listeners", keys.listeners.as_ref().is_some_and(Vec::is_empty)),
        ("certificates", keys.certificates.as_ref().is_some_and(Vec::is_empty)),
    ];
    for (key, is_empty) in is_empty {
        let why = "expected at least one; leave the key out where it is no condition";
        table.require(!is_empty, &[key], why);
    }
    let conditions = Conditions {
        password: keys.password.map(|password| password.secret),
        networks: keys.networks.unwrap_or_default(),
        listeners: keys.listeners.unwrap_or_default(),
        certificates: keys.certificates.unwrap_or_default(),
    };
    let is_known = keys.exempt.is_none() || conditions.is_proof();
    let why = "too many could be this client: give it a password (`crawlgate client add`), certificates, or networks of at \
               most a /8 (IPv6: a /16)";
    table.require(is_known, &["exempt"], why);
    let has_rate = keys.requests_per_second.is_some() || !table.names("burst");
    table.require(has_rate, &["burst"], "it goes with requests_per_second");
    let rate = keys
        .requests_per_second
        .map(|requests_per_second| Rate { requests_per_second, burst: keys.burst.unwrap_or(1) });
    let is_new = is_new(before, |one| &one.name, &keys.name);
    table.require(is_new, &["name"], "another client has this name");
    let for_all = before.iter().find(|one| one.conditions.is_empty());
    let first = for_all.map_or("", |one| &*one.name);
    let why = format_args!(
        "never reached: {first:?}, before it, has no condition and fits everybody; put that one last"
    );
    table.require(for_all.is_none() || !table.names("name"), &["name"], why);
    Some(ClientConfig {
        name: keys.name?,
        conditions,
        product_tokens: keys.product_tokens.unwrap_or_default(),
        user_agent: keys.user_agent,
        purpose: keys.purpose,
        purposes: keys.purposes,
        signing: keys.signing,
        mode: keys.mode,
        exempt: keys.exempt,
        profile: keys.profile,
        rate,
        quota: keys.quota,
        max_connections: keys.connections,
        max_requests: keys.requests,
    })
}

/// The conditions that identify a client. Without any, every client matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The hash of the client's password.
    pub password: Option<PasswordHash>,
    /// The networks that the client may come from.
    pub networks: Vec<IpNet>,
    /// The `[[listener]]`s that the client may connect to.
    pub listeners: Vec<Arc<str>>,
    /// The certificates of which the client shows one in the TLS handshake.
    pub certificates: Vec<CertificateMatch>,
}

impl Conditions {
    /// Tells whether every client matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Conditions { password, networks, listeners, certificates } = self;
        password.is_none() && networks.is_empty() && listeners.is_empty() && certificates.is_empty()
    }

    /// Tells whether a request proves that it is the client's: by a secret, or by an address in a network of one operator
    /// (at most a /8 of IPv4, a /16 of IPv6). A listener proves nothing, as every peer that reaches it belongs to the
    /// client.
    #[must_use]
    pub fn is_proof(&self) -> bool {
        let is_narrow = |network: &IpNet| match network {
            IpNet::V4(network) => network.prefix_len() >= 8,
            IpNet::V6(network) => network.prefix_len() >= 16,
        };
        let are_narrow = !self.networks.is_empty() && self.networks.iter().all(is_narrow);
        self.password.is_some() || !self.certificates.is_empty() || are_narrow
    }
}

/// A matcher of client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateMatch {
    /// The certificate with this SHA-256 of its DER.
    Sha256([u8; 32]),
    /// A certificate with this name in its subjectAltName, lower case.
    Name(Box<str>),
}

impl CertificateMatch {
    /// Reads `sha256:` and 64 hexadecimal digits, with or without colons between them, or a name.
    ///
    /// # Errors
    /// The allowed forms, when `text` is neither.
    pub fn parse(text: &str) -> Result<CertificateMatch, &'static str> {
        const EXPECTED: &str = "expected \"sha256:\" and the 64 digits of a certificate's fingerprint, or a name of its \
            subjectAltName: \"crawler.example\"";
        let Some(digits) = text.strip_prefix("sha256:") else {
            let plain = text.replace(':', "");
            let is_fingerprint =
                plain.len() == 64 && plain.bytes().all(|one| one.is_ascii_hexdigit());
            let is_name =
                !text.is_empty() && text.len() <= 1_024 && !text.contains(char::is_whitespace);
            return match is_name {
                _ if is_fingerprint => Err("a fingerprint needs \"sha256:\" before its digits"),
                true if text.contains('=') && !text.contains(':') => Err(
                    "the subject of a certificate (CN=...) is not read: write a name of its subjectAltName",
                ),
                true => Ok(CertificateMatch::Name(text.to_lowercase().into())),
                false => Err(EXPECTED),
            };
        };
        let sha256 = from_hex(&digits.replace(':', "")).ok_or(EXPECTED)?;
        Ok(CertificateMatch::Sha256(sha256))
    }
}

impl fmt::Display for CertificateMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateMatch::Name(name) => f.write_str(name),
            CertificateMatch::Sha256(sha256) => {
                write!(f, "sha256:{}", Hex(sha256))
            }
        }
    }
}

/// The rate of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Requests per second, above 0.
    pub requests_per_second: f64,
    /// Requests that may follow each other at once; at least 1.
    pub burst: u32,
}

/// The quota of a client in each span. Spans count from the Unix epoch, so that a day begins at midnight, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Requests sent to origins; none: unlimited.
    pub requests: Option<u64>,
    /// Octets of bodies, both ways; none: unlimited. The size of a request is known at its end, so requests in progress
    /// continue after the quota is spent.
    pub bytes: Option<u64>,
    /// The span, at least a second.
    pub per: Duration,
}

const QUOTA: Tables<Quota> = Tables { name: "client.quota", read: quota, write: QuotaKeys::write };

table! {
    struct QuotaKeys of quota: Quota {
        requests: u64, integer(1..=1 << 53), quota.requests;
        bytes: u64, bytes(1..=1 << 53), quota.bytes;
        per: Duration, duration(secs(1)..=days(366)), Some(quota.per);
    }
}

fn quota(table: &mut Section<'_, '_>, cx: &Context, _: &[Quota]) -> Option<Quota> {
    let QuotaKeys { requests, bytes, per } = QuotaKeys::read(table, cx);
    table.demand(&["per"]);
    let has_one = table.names("requests") || table.names("bytes");
    table.require(has_one, &["per"], "name requests, bytes or both");
    Some(Quota { requests, bytes, per: per? })
}

/// The hash of a password, as a PHC string of argon2id: `$argon2id$v=19$m=…,t=…,p=…$salt$hash`. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(Box<str>);

impl PasswordHash {
    /// Most KiB for checking a password: any client can make this process use them.
    const MAX_MEMORY: u32 = 256 * 1_024;
    /// Most passes over that memory.
    const MAX_PASSES: u32 = 16;
    /// Most lanes.
    const MAX_LANES: u32 = 16;

    /// Reads a PHC string.
    ///
    /// # Errors
    /// The allowed form, when `text` is something else, or would take too much to check.
    pub fn parse(text: &str) -> Result<PasswordHash, &'static str> {
        const EXPECTED: &str = "expected the hash of a password, \"$argon2id$…\", as `crawlgate client add` and `crawlgate admin user add` make it";
        let hash = argon2::PasswordHash::new(text).map_err(|_| EXPECTED)?;
        if hash.algorithm != ARGON2ID_IDENT || hash.hash.is_none() || hash.salt.is_none() {
            return Err(EXPECTED);
        }
        let params = Params::try_from(&hash).map_err(|_| EXPECTED)?;
        if params.m_cost() > Self::MAX_MEMORY
            || params.t_cost() > Self::MAX_PASSES
            || params.p_cost() > Self::MAX_LANES
        {
            return Err("a hash that takes more than 256 MiB, 16 passes or 16 lanes to check");
        }
        Ok(PasswordHash(text.into()))
    }

    /// Returns the PHC string, for the one place that needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the hash with its digest, which stands for it.
    pub(super) fn hidden(&self) -> Hidden<PasswordHash> {
        Hidden::new(self, self.digest())
    }

    /// Returns eight digits that tell one hash from another and lead to no password.
    #[must_use]
    pub fn digest(&self) -> String {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, self.0.as_bytes());
        digest.as_ref().get(..4).map(hex).unwrap_or_default()
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_origins::identity::client_name;

    #[test]
    fn a_certificate_is_named_by_fingerprint_or_by_name() {
        let digits = "0123456789abcdef".repeat(4);
        let colons: Vec<&str> =
            digits.as_bytes().chunks(2).map(|c| std::str::from_utf8(c).expect("digits")).collect();
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("digits", format!("sha256:{digits}"), Some(format!("sha256:{digits}"))),
            ("digits with colons", format!("sha256:{}", colons.join(":").to_uppercase()), Some(format!("sha256:{digits}"))),
            ("a name", "Crawler.example".into(), Some("crawler.example".into())),
            ("a URI", "spiffe://example/crawler".into(), Some("spiffe://example/crawler".into())),
            ("digits without sha256:", digits.clone(), None),
            ("a fingerprint as openssl prints it", colons.join(":").to_uppercase(), None),
            ("a subject", "CN=crawler".to_owned(), None),
            ("a URI with a query", "https://a.example/?b=c".into(), Some("https://a.example/?b=c".into())),
            ("too few digits", format!("sha256:{}", &digits[2..]), None),
            ("an odd digit", format!("sha256:{}", &digits[1..]), None),
            ("no digits", format!("sha256:{}zz", &digits[2..]), None),
            ("nothing", String::new(), None),
            ("two words", "a b".into(), None),
        ];
        for (name, text, want) in cases {
            let read = CertificateMatch::parse(&text).ok().map(|read| read.to_string());
            assert_eq!(read, want, "{name}");
        }
    }

    #[test]
    fn a_hash_is_argon2id_with_bounded_cost() {
        let salt = "c29tZXNhbHRzb21lc2FsdA";
        let hash = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY";
        let phc = |kind: &str, cost: &str| format!("${kind}$v=19${cost}${salt}${hash}");
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("as we make it", phc("argon2id", "m=19456,t=2,p=1"), true),
            ("another kind", phc("argon2i", "m=19456,t=2,p=1"), false),
            ("another algorithm", "$2b$12$abcdefghijklmnopqrstuv".into(), false),
            ("too much memory", phc("argon2id", "m=1048576,t=2,p=1"), false),
            ("too many passes", phc("argon2id", "m=19456,t=99,p=1"), false),
            ("no hash", format!("$argon2id$v=19$m=19456,t=2,p=1${salt}"), false),
            ("a password", "sesame".into(), false),
            ("nothing", String::new(), false),
        ];
        for (name, text, right) in cases {
            let read = PasswordHash::parse(&text);
            assert_eq!(read.is_ok(), right, "{name}");
            if let Ok(read) = read {
                assert_eq!(format!("{read:?}"), "***");
                assert!(!text.contains(&read.digest()));
            }
        }
    }

    #[test]
    fn a_name_is_plain() {
        let long = "x".repeat(65);
        for (text, right) in [
            ("news", true),
            ("fleet-7_b.c", true),
            ("News", false),
            ("a b", false),
            ("a:b", false),
            ("ä", false),
            ("", false),
            (&*long, false),
        ] {
            assert_eq!(client_name(text).is_ok(), right, "{text:?}");
        }
    }
}
