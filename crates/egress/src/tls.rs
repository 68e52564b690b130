//! TLS with origins.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::ClientConfig;

use super::key::Protocols;
use crawlgate_trust::{self as trust, TrustError, Trusted, Verifier};

/// Number of origins with resumable TLS sessions.
const RESUMABLE: usize = 4096;

/// TLS settings by the protocols that they offer.
#[derive(Debug)]
pub(super) struct Tls {
    /// None at all, which means HTTP/1.1.
    silent: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
    both: Arc<ClientConfig>,
    /// `[upstream] http2`
    offers: AtomicBool,
}

impl Tls {
    pub(super) fn new(silent: ClientConfig, offers: bool) -> Tls {
        let offering = |protocols: &[&[u8]]| {
            let mut config = silent.clone();
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        };
        Tls {
            http1: offering(&[HTTP_11]),
            both: offering(&[HTTP_2, HTTP_11]),
            silent: Arc::new(silent),
            offers: AtomicBool::new(offers),
        }
    }

    /// Offers HTTP/2 from now on, or does not.
    pub(super) fn offer(&self, http2: bool) {
        self.offers.store(http2, Ordering::Relaxed);
    }

    /// Tells whether HTTP/2 is offered.
    pub(super) fn offers_http2(&self) -> bool {
        self.offers.load(Ordering::Relaxed)
    }

    /// Returns the settings that offer these protocols.
    pub(super) fn offering(&self, protocols: Protocols) -> Arc<ClientConfig> {
        Arc::clone(match protocols {
            _ if !self.offers_http2() => &self.silent,
            Protocols::Http1 | Protocols::WebSocket => &self.http1,
            Protocols::Shared | Protocols::New => &self.both,
        })
    }
}

/// Names of protocols in TLS (RFC 7301).
const HTTP_11: &[u8] = b"http/1.1";
pub(super) const HTTP_2: &[u8] = b"h2";

/// Returns the TLS settings for connections to origins, which verify certificates by the system's roots and these.
pub fn tls_config(extra_roots: &[PathBuf]) -> Result<rustls::ClientConfig, TrustError> {
    tls_config_of(trust::upstream_roots(extra_roots)?)
}

/// Returns TLS settings that verify certificates only by these roots.
pub fn tls_config_of(trusted: Trusted) -> Result<rustls::ClientConfig, TrustError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = Verifier::new(trusted, Arc::clone(&provider))?;
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TrustError::from)?
        .dangerous() // the name of rustls for any verifier but its own
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::in_memory_sessions(RESUMABLE);
    Ok(config)
}
