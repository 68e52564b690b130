//! `[tls]`: interception of HTTPS.
//!
//! [`Subtree`]: a domain or a network that constrains an authority.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::*;
use crawlgate_policy::host::{HostPattern, canonical_host};

section! {
    /// `[tls]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TlsConfig "tls" {
        /// The local CA's certificate, PEM. Created with its key when both are missing.
        ca_cert: PathBuf = PathBuf::new(), path(), AtRestart;
        /// The local CA's private key, PEM.
        ca_key: PathBuf = PathBuf::new(), path(), AtRestart;
        /// Validity of the certificates minted for intercepted hosts.
        leaf_lifetime: Duration = days(7), duration(secs(60)..=days(397)), AtRestart;
        /// Number of hosts with a cached certificate.
        leaf_cache: usize = 10_000, integer(1..=10_000_000), AtRestart;
        /// Hosts to tunnel without interception, if their robots.txt disallows nothing.
        tunnel: Vec<HostPattern> = Vec::new(), list(text(HostPattern::new)), AtReload;
        /// PEM files with CAs to trust for origins, besides the system's.
        extra_roots: Vec<PathBuf> = Vec::new(), one_or_list(path), AtRestart;
        /// The name constraints of a newly created CA (RFC 5280, section 4.2.1.10). They hold for its lifetime, and hosts
        /// outside are not intercepted. Empty: none.
        name_constraints: Vec<Subtree> = Vec::new(), list(text(Subtree::new)), AtRestart;
    }
}

impl TlsConfig {
    /// Checks the rule between its keys: a certificate without a key would pair the file's choice with the default path of
    /// another CA, and vice versa.
    pub(crate) fn check(section: &mut Section<'_, '_>) {
        let are_both = section.names("ca_cert") == section.names("ca_key");
        let why = "ca_cert and ca_key belong together: set both or neither";
        section.require(are_both, &["ca_cert", "ca_key"], why);
    }
}

/// A name constraint (RFC 5280, section 4.2.1.10): a domain and all below it, or a network.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subtree {
    /// A canonical domain: it and every host below it. Written with or without a leading dot.
    Domain(Box<str>),
    /// A network, or one address.
    Network(IpNet),
}

/// A text that is no [`Subtree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a domain, which stands for itself and all below it (\"example.com\", \".example\"), or a network \
     (\"10.0.0.0/8\", \"2001:db8::/32\", \"192.0.2.7\")"
)]
pub struct SubtreeError;

impl Subtree {
    /// Reads a subtree.
    ///
    /// # Errors
    /// When `text` is neither a domain nor a network.
    pub fn new(text: &str) -> Result<Self, SubtreeError> {
        if let Ok(network) = text.parse::<IpNet>() {
            return Ok(Self::Network(network.trunc()));
        }
        let name = text.strip_prefix('.').unwrap_or(text);
        let host = canonical_host(name).ok_or(SubtreeError)?;
        match host.trim_matches(['[', ']']).parse() {
            // As text with its brackets, an address would be a domain without hosts.
            Ok(address) if text == name => {
                Ok(Self::Network(IpNet::from(std::net::IpAddr::to_canonical(&address))))
            }
            Ok(_) => Err(SubtreeError),
            Err(_) => Ok(Self::Domain(host.into())),
        }
    }
}

impl fmt::Display for Subtree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Domain(domain) => f.write_str(domain),
            Self::Network(network) if network.prefix_len() == network.max_prefix_len() => {
                network.addr().fmt(f)
            }
            Self::Network(network) => network.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subtree_is_a_domain_or_a_network() {
        for (text, expected) in [
            ("example.com", Some("example.com")),
            (".Example.COM.", Some("example.com")),
            ("example", Some("example")),
            ("bücher.example", Some("xn--bcher-kva.example")),
            ("10.1.2.3/8", Some("10.0.0.0/8")),
            ("192.0.2.7", Some("192.0.2.7")),
            ("::1", Some("::1")),
            ("[::1]", Some("::1")),
            ("2001:db8::/32", Some("2001:db8::/32")),
            ("", None),
            (".", None),
            (".192.0.2.7", None),
            ("*.example.com", None),
            ("example.com:443", None),
            ("10.0.0.0/33", None),
            ("https://example.com", None),
        ] {
            let shown = Subtree::new(text).ok().map(|subtree| subtree.to_string());
            assert_eq!(shown.as_deref(), expected, "{text}");
        }
    }
}
