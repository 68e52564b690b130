//! The local certificate authority, by which crawlgate answers a crawler that asks for HTTPS.
//!
//! To judge an HTTPS request, crawlgate ends the crawler's TLS session itself. It shows a certificate for the host
//! that the crawler asked for, signed by an authority that exists on this machine only and that the operator told the
//! crawler to trust. An [`Authority`] is that signer: loaded from its two files, or created on first use.
//!
//! Promises:
//! - The signing key stays in its file and in this process's memory. A key file that others may read is refused, and so
//!   is a pair of files that does not belong together.
//! - A certificate is short-lived, names one host, and passes the strictest verifiers in use (RFC 5280 as Python 3.13
//!   and `openssl verify -x509_strict` read it).
//! - A host is foreign data. One that is neither a DNS name nor an address gives an error, never a certificate; so does
//!   one outside the name constraints of the authority.
//!
//! Every certificate carries the same key, made at start and never written down: a handshake proves the authority's
//! signature over the name. A key per host would cost time and buy nothing, since one process would hold them all.
//!
//! - `files`: the two files, their lock, their modes
//! - `rotation`: from one authority to the next
//! - `certificate`: the contents of certificates, in and out
//! - `constraints`: the hosts that an authority may sign for
//! - `cache`: the ready-made TLS configurations, bounded

mod cache;
mod certificate;
mod constraints;
mod error;
mod files;
mod rotation;
pub mod text;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rcgen::{Issuer, KeyPair};
use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs as crypto},
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    server::{ResolvesServerCertUsingSni, ServerSessionMemoryCache},
    sign::{CertifiedKey, SigningKey, SingleCertAndKey},
};

use self::cache::{Cache, Validity};
use self::certificate::Facts;
pub use self::files::replace;
use self::files::{Contents, Pair};
pub use self::{error::CaError, rotation::TrustedCa};
use crate::constraints::Name;
use crawlgate_config::{Subtree, TlsConfig};
use crawlgate_system::clock::{Clock, Moment};
use crawlgate_system::metrics::{Counters, Registry};

/// Time before its expiry at which an authority should be followed by the next one.
const LAST_DAYS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// TLS 1.2 sessions remembered for clients without tickets. All others resume from their own memory.
const REMEMBERED_SESSIONS: usize = 1024;

/// A certificate authority that is ready to sign: its certificate, its key, and its TLS configurations.
pub struct Authority {
    /// The authority's certificate, then the rest of its file: sent after the leaf.
    chain: Vec<CertificateDer<'static>>,
    certificate_pem: String,
    facts: Facts,
    issuer: Issuer<'static, KeyPair>,
    leaf_key: KeyPair,
    leaf_signer: Arc<dyn SigningKey>,
    leaf_lifetime: Duration,
    /// The common part of all hosts' configurations, tickets included.
    base: ServerConfig,
    cache: Cache,
    minted: Counters,
    clock: Clock,
    certificate_path: PathBuf,
    key_path: PathBuf,
    next: Option<TrustedCa>,
    retired: Vec<TrustedCa>,
}

impl Authority {
    /// Loads the authority that `config` names, or creates it if neither of its files exists.
    ///
    /// Processes that start at the same moment agree on one pair of files.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load) and [`create`](Self::create); one file without the other is an error, too.
    pub fn load_or_create(config: &TlsConfig, clock: Clock) -> Result<Self, CaError> {
        let files = Pair::of(config);
        let contents =
            files.read_or_write(|| certificate::create(clock.now(), &config.name_constraints))?;
        Self::from_contents(config, clock, &contents)
    }

    /// Loads the authority that `config` names.
    ///
    /// # Errors
    ///
    /// If a file is missing, unreadable or malformed; if the key is open to others, or belongs to another certificate;
    /// if the certificate is not an authority's, or not valid now.
    pub fn load(config: &TlsConfig, clock: Clock) -> Result<Self, CaError> {
        let contents = Pair::of(config).read()?;
        Self::from_contents(config, clock, &contents)
    }

    /// Creates a new authority in the files that `config` names. `force` replaces an existing one, which every client
    /// must then be told to trust anew.
    ///
    /// # Errors
    ///
    /// If a file exists and `force` is false, or cannot be written.
    pub fn create(config: &TlsConfig, clock: Clock, force: bool) -> Result<Self, CaError> {
        let contents = Pair::of(config)
            .write(force, || certificate::create(clock.now(), &config.name_constraints))?;
        Self::from_contents(config, clock, &contents)
    }

    fn from_contents(
        config: &TlsConfig,
        clock: Clock,
        contents: &Contents,
    ) -> Result<Self, CaError> {
        let pair = Pair::of(config);
        let key = certificate::read_key(&config.ca_key, &contents.key)?;
        let mut chain = certificate::read_chain(&config.ca_cert, &contents.certificate)?;
        let mut certificate_path = config.ca_cert.clone();
        let mut next = rotation::next(&pair, contents)?;
        let retired = rotation::retired(&pair, contents)?;
        // A rotation was cut short between its two renames.
        if let Some(moved) = next.take_if(|next| next.public_key() == key.public_key_raw()) {
            chain = vec![moved.certificate_der().clone()];
            certificate_path = moved.path().into();
        }
        let facts = Facts::read(&certificate_path, &chain)?;
        if facts.public_key != key.public_key_raw() {
            return Err(CaError::Mismatch {
                certificate: certificate_path,
                key: config.ca_key.clone(),
            });
        }
        facts.check_validity(&certificate_path, clock.now())?;
        let issuer = facts.issuer(&certificate_path, &chain, key)?;

        let provider = provider();
        let leaf_key = KeyPair::generate().map_err(CaError::signing)?;
        let leaf_signer = provider
            .key_provider
            .load_private_key(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(
                leaf_key.serialize_der(),
            )))
            .map_err(CaError::signing)?;
        Ok(Self {
            certificate_pem: chain
                .iter()
                .map(|der| crawlgate_text::pem("CERTIFICATE", der))
                .collect(),
            chain,
            facts,
            issuer,
            leaf_key,
            leaf_signer,
            leaf_lifetime: config.leaf_lifetime,
            base: base_config(provider)?,
            cache: Cache::new(config.leaf_cache),
            minted: Counters::one(),
            clock,
            certificate_path,
            key_path: config.ca_key.clone(),
            next,
            retired,
        })
    }

    /// Returns the TLS configuration that answers as `host`: a DNS name or an IP address, IPv6 with or without
    /// brackets.
    ///
    /// Made on first use, kept, and made anew well before its certificate expires. It speaks TLS 1.2 and 1.3, offers
    /// only `http/1.1` (ALPN), and takes no early data, which an attacker could replay. The chain it sends ends in
    /// the authority's own certificate, so that a client may trust by that certificate's key.
    ///
    /// # Errors
    ///
    /// If `host` cannot stand in a certificate, or the authority has expired since it was loaded.
    pub fn server_config(&self, host: &str) -> Result<Arc<ServerConfig>, CaError> {
        let now = self.clock.now();
        if let Some(ready) = self.cache.get(host, now) {
            return Ok(ready);
        }
        let (config, validity) = self.mint(host, now)?;
        Ok(self.cache.insert(host, config, validity, now))
    }

    /// Returns a configuration with a new certificate, and the time of its use.
    fn mint(&self, host: &str, now: Moment) -> Result<(Arc<ServerConfig>, Validity), CaError> {
        let (leaf, expires) = self.leaf(host, now)?;
        self.minted.add(0, 1);
        let mut chain = Vec::with_capacity(1 + self.chain.len());
        chain.push(leaf);
        chain.extend_from_slice(&self.chain);
        let certified = CertifiedKey::new(chain, Arc::clone(&self.leaf_signer));
        let mut config = self.base.clone();
        config.cert_resolver = Arc::new(SingleCertAndKey::from(certified));
        // A crawler may hold a connection for long, but it checks the certificate once, when it connects.
        let validity = Validity {
            from: now - certificate::CLOCK_SKEW,
            renew_at: expires - expires.since(now) / 4,
        };
        Ok((Arc::new(config), validity))
    }

    /// Returns a new certificate for `host` and its expiry, which is never after the authority's.
    fn leaf(&self, host: &str, now: Moment) -> Result<(CertificateDer<'static>, Moment), CaError> {
        if now >= self.facts.not_after {
            return Err(CaError::Expired {
                path: self.certificate_path.clone(),
                since: self.facts.not_after,
            });
        }
        let expires = (now + self.leaf_lifetime).min(self.facts.not_after);
        let name = Name::parse(host)?;
        let constraints = &self.facts.constraints;
        if !constraints.hold(&name) {
            return Err(CaError::Outside { host: name.text().to_owned() });
        }
        let leaf =
            certificate::leaf(&name, constraints, now, expires, &self.leaf_key, &self.issuer)?;
        Ok((leaf, expires))
    }

    /// Tells whether the authority's name constraints let it sign for `host`. [`server_config`](Self::server_config)
    /// refuses a text that is no host.
    #[must_use]
    pub fn covers(&self, host: &str) -> bool {
        let constraints = &self.facts.constraints;
        constraints.is_empty() || Name::parse(host).is_ok_and(|name| constraints.hold(&name))
    }

    /// Tells whether a TLS session can name `host`: a DNS name or an IP address. [`server_config`](Self::server_config) refuses
    /// others, and so does rustls, on either side.
    #[must_use]
    pub fn can_name(host: &str) -> bool {
        Name::parse(host).is_ok()
    }

    /// Returns the name constraints of the certificate: permitted domains and networks, then the excluded ones, each
    /// after "not". Empty: the authority may sign for any host.
    #[must_use]
    pub fn name_constraints(&self) -> Vec<String> {
        self.facts.constraints.shown()
    }

    /// Tells whether `subtrees` are equal to the certificate's constraints.
    #[must_use]
    pub fn is_held_to(&self, subtrees: &[Subtree]) -> bool {
        self.facts.constraints.are(subtrees)
    }

    /// Returns the authority that will sign next, during a rotation.
    #[must_use]
    pub const fn next(&self) -> Option<&TrustedCa> {
        self.next.as_ref()
    }

    /// Returns the authorities that clients should trust beside this one: the next one, and earlier ones that have not
    /// expired.
    pub fn other_trusted(&self) -> impl Iterator<Item = &TrustedCa> {
        let now = self.clock.now();
        let next = self.next.iter().filter(move |next| next.not_after() > now);
        next.chain(self.retired())
    }

    /// Returns the earlier authorities that have not expired.
    pub fn retired(&self) -> impl Iterator<Item = &TrustedCa> {
        let now = self.clock.now();
        self.retired.iter().filter(move |retired| {
            // After an interrupted rotation, the present authority may be among the retired ones.
            retired.not_after() > now
                && retired.certificate_der().as_ref() != self.certificate_der()
        })
    }

    /// Returns all certificates that clients should trust, PEM: this authority's, then the others'.
    #[must_use]
    pub fn trusted_pem(&self) -> String {
        let other_trusted = self.other_trusted();
        let other_trusted =
            other_trusted.map(|other| crawlgate_text::pem("CERTIFICATE", other.certificate_der()));
        std::iter::once(self.certificate_pem.clone()).chain(other_trusted).collect()
    }

    /// Returns the certificates that clients should trust, DER, without the rest of the certificate's file.
    #[must_use]
    pub fn trusted_der(&self) -> Vec<CertificateDer<'static>> {
        let other_trusted = self.other_trusted();
        let other_trusted = other_trusted.map(|other| other.certificate_der().clone());
        self.chain.first().cloned().into_iter().chain(other_trusted).collect()
    }

    /// Tells whether it is time for the next authority: this one expires within thirty days, and there is no next one
    /// yet.
    #[must_use]
    pub fn needs_successor(&self) -> bool {
        self.next.is_none() && self.clock.now() + LAST_DAYS >= self.facts.not_after
    }

    /// Tells whether `other`, loaded from the same files, has the same signer and the same trusted authorities.
    #[must_use]
    pub fn has_same_signer(&self, other: &Self) -> bool {
        self.chain == other.chain && self.trusted_der() == other.trusted_der()
    }

    /// Registers the metrics of signing.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "crawlgate_leaves_minted",
            "Certificates made for intercepted hosts",
            self.minted.clone(),
        );
    }

    /// Continues the counts of `former`.
    pub fn inherit_metrics(&mut self, former: &Self) {
        self.minted = former.minted.clone();
    }

    /// Returns the authority's certificate (and the rest of its file), PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Returns the authority's certificate, DER.
    #[must_use]
    pub fn certificate_der(&self) -> &[u8] {
        self.chain.first().map_or(&[], |der| der.as_ref())
    }

    /// Returns the SHA-256 fingerprint of the certificate as people compare it: `AA:BB:…`.
    #[must_use]
    pub fn fingerprint_sha256(&self) -> String {
        text::colon_hex(&text::sha256(self.certificate_der()))
    }

    /// Returns the SHA-256 of the certificate's SubjectPublicKeyInfo, base64, as Chromium's
    /// `--ignore-certificate-errors-spki-list` takes it.
    #[must_use]
    pub fn spki_sha256_base64(&self) -> String {
        BASE64_STANDARD.encode(&self.facts.spki_sha256)
    }

    /// Returns the authority's name, as certificates show it.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.facts.subject
    }

    /// Returns the moment from which the certificate is valid.
    #[must_use]
    pub const fn not_before(&self) -> Moment {
        self.facts.not_before
    }

    /// Returns the moment at which the certificate expires.
    #[must_use]
    pub const fn not_after(&self) -> Moment {
        self.facts.not_after
    }

    /// Returns the file of the certificate.
    #[must_use]
    pub fn certificate_path(&self) -> &Path {
        &self.certificate_path
    }

    /// Returns the file of the key.
    #[must_use]
    pub fn key_path(&self) -> &Path {
        &self.key_path
    }
}

impl fmt::Debug for Authority {
    /// Shows neither key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("subject", &self.facts.subject)
            .field("certificate_path", &self.certificate_path)
            .finish_non_exhaustive()
    }
}

/// Returns the cryptography towards crawlers: AES-128 before AES-256. The session is between two programs of one
/// operator and is as safe with either; the shorter key and the shorter hash cost less on every octet and every
/// handshake.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = crypto::default_provider();
    provider.cipher_suites.sort_by_key(|suite| {
        use rustls::CipherSuite as Suite;
        !matches!(
            suite.suite(),
            Suite::TLS13_AES_128_GCM_SHA256 | Suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        )
    });
    Arc::new(provider)
}

/// Returns the part of a configuration that is the same for all hosts.
fn base_config(provider: Arc<CryptoProvider>) -> Result<ServerConfig, CaError> {
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(CaError::signing)?
        .with_no_client_auth()
        // A placeholder: each host's configuration sets its own resolver.
        .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ignore_client_order = true;
    config.max_early_data_size = 0;
    // Hosts share tickets and sessions: one set of keys to rotate. A ticket is bound to the name it was made for.
    config.ticketer = crypto::Ticketer::new().map_err(CaError::signing)?;
    config.session_storage = ServerSessionMemoryCache::new(REMEMBERED_SESSIONS);
    // Each connection brings the ticket for the next one.
    config.send_tls13_tickets = 1;
    Ok(config)
}

#[cfg(test)]
mod tests;
