//! `[tls]`: interception of HTTPS.

use std::path::PathBuf;
use std::time::Duration;

use crawlgate_policy::host::HostPattern;

use super::subtree::Subtree;
use super::*;

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
