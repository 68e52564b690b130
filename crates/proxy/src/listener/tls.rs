//! TLS between crawlers and a listener: the listener's certificate, and the client certificates that it wants.

use std::error::Error;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::crypto::aws_lc_rs as crypto;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crawlgate_ca::Authority;
use crawlgate_config::{ClientAuthority, ClientCert, ListenerCertificate, ListenerTls};
use crawlgate_trust::pem::{PemError, certificates, certified, private_key};
use crawlgate_turns::client::PeerCertificate;

/// Names of a client certificate that count; more are left out.
const MAX_NAMES: usize = 64;

/// Builds the TLS settings of a listener.
pub(super) fn config(
    tls: &ListenerTls,
    authority: &Arc<Authority>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(crypto::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(TlsError::refused)?;
    let builder = match &tls.clients {
        None => builder.with_no_client_auth(),
        Some(ClientAuthority { file, demand }) => {
            let roots = Arc::new(roots(file)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
            let verifier = match demand {
                ClientCert::Required => verifier,
                ClientCert::Optional => verifier.allow_unauthenticated(),
            };
            let verifier = verifier.build().map_err(|error| PemError::File {
                key: "client_ca",
                path: file.clone(),
                why: error.to_string(),
            })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let resolver: Arc<dyn ResolvesServerCert> = match &tls.certificate {
        ListenerCertificate::Files { cert, key } => {
            Arc::new(SingleCertAndKey::from(certified(cert, key, &provider)?))
        }
        ListenerCertificate::Minted(names) => {
            for name in names {
                authority.server_config(name).map_err(TlsError::refused)?;
            }
            Arc::new(Minted { authority: Arc::clone(authority), names: names.clone() })
        }
    };
    let mut config = builder.with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.max_early_data_size = 0;
    Ok(Arc::new(config))
}

/// Builds the TLS settings of a listener only for HTTP/1.1, which shows this certificate and asks for no client
/// certificate.
///
/// # Errors
/// When a file cannot be used.
pub fn http1_config(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(crypto::default_provider());
    let certified = certified(cert, key, &provider)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(TlsError::refused)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.max_early_data_size = 0;
    Ok(Arc::new(config))
}

/// Returns all faults of a certificate's file and its key's.
pub fn certificate_faults(cert: &Path, key: &Path) -> Vec<PemError> {
    let each = [certificates("cert", cert).err(), private_key(key).err()];
    let faults: Vec<PemError> = each.into_iter().flatten().collect();
    if faults.is_empty() {
        certified(cert, key, &crypto::default_provider()).err().into_iter().collect()
    } else {
        faults
    }
}

/// Returns all faults of the named files.
pub(super) fn faults(tls: &ListenerTls) -> Vec<PemError> {
    let mut faults = match &tls.certificate {
        ListenerCertificate::Files { cert, key } => certificate_faults(cert, key),
        ListenerCertificate::Minted(_) => Vec::new(),
    };
    let clients = tls.clients.as_ref();
    faults.extend(clients.and_then(|clients| roots(&clients.file).err()));
    faults
}

/// Returns the verified certificate that a crawler showed in its handshake, if any.
pub fn certificate(session: &ServerConnection) -> Option<PeerCertificate> {
    let der = session.peer_certificates()?.first()?;
    let hash = digest(&SHA256, der);
    let sha256 = <[u8; 32]>::try_from(hash.as_ref()).ok()?;
    // The verifier has accepted a certificate that this reader cannot parse; only its fingerprint identifies it.
    let names = match X509Certificate::from_der(der) {
        Ok((_, certificate)) => names(&certificate),
        Err(_) => Vec::new(),
    };
    Some(PeerCertificate { sha256, names })
}

fn names(certificate: &X509Certificate<'_>) -> Vec<Box<str>> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let names = extension.value.general_names.iter();
    let names = names.filter_map(|name| match name {
        GeneralName::DNSName(name) | GeneralName::URI(name) => Some((*name).into()),
        GeneralName::IPAddress(octets) => address(octets).map(|ip| ip.to_string().into()),
        _ => None,
    });
    names.take(MAX_NAMES).collect()
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        return Some(octets.into());
    }
    <[u8; 16]>::try_from(octets).ok().map(IpAddr::from)
}

/// Certificates of the local CA, minted anew before they expire.
#[derive(Debug)]
struct Minted {
    authority: Arc<Authority>,
    names: Vec<String>,
}

impl Minted {
    /// Returns the name to show: the one that is asked for. No client asks for an address (RFC 6066 section 3), so a
    /// client that asks for no name gets the first address, if there is one.
    fn name(&self, asked: Option<&str>) -> Option<&String> {
        let found = match asked {
            Some(asked) => self.names.iter().find(|name| asked.eq_ignore_ascii_case(name)),
            None => self.names.iter().find(|name| name.parse::<IpAddr>().is_ok()),
        };
        found.or(self.names.first())
    }
}

impl ResolvesServerCert for Minted {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = self.name(hello.server_name())?;
        let config = self.authority.server_config(name).ok()?;
        config.cert_resolver.resolve(hello)
    }
}

fn roots(file: &Path) -> Result<RootCertStore, PemError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("client_ca", file)? {
        roots.add(certificate).map_err(|error| PemError::File {
            key: "client_ca",
            path: file.to_owned(),
            why: error.to_string(),
        })?;
    }
    Ok(roots)
}

/// Reason that a listener has no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, is not what it should be, or is open to others.
    #[error(transparent)]
    File(#[from] PemError),
    /// The certificate or the settings cannot be used.
    #[error("{0}")]
    Refused(Box<dyn Error + Send + Sync>),
}

impl TlsError {
    fn refused(error: impl Into<Box<dyn Error + Send + Sync>>) -> TlsError {
        TlsError::Refused(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_asks_gets_the_name_and_others_the_address() {
        let places = tempfile::tempdir().expect("a directory");
        let config = crawlgate_config::TlsConfig {
            ca_cert: places.path().join("ca.crt"),
            ca_key: places.path().join("ca.key"),
            ..crawlgate_config::Config::default().tls
        };
        let clock = crawlgate_system::clock::Clock::system();
        let authority = Authority::load_or_create(&config, clock).expect("an authority");
        let names = |names: &[&str]| Minted {
            authority: Arc::new(
                Authority::load(&config, crawlgate_system::clock::Clock::system()).expect("it"),
            ),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        drop(authority);
        let both = names(&["proxy.example", "other.example", "192.0.2.1"]);
        let without = names(&["proxy.example"]);
        for (minted, asked, want) in [
            (&both, Some("other.example"), "other.example"),
            (&both, Some("OTHER.example"), "other.example"),
            (&both, Some("none.example"), "proxy.example"),
            (&both, None, "192.0.2.1"),
            (&without, None, "proxy.example"),
        ] {
            let got = minted.name(asked).map(String::as_str);
            assert_eq!(got, Some(want), "{asked:?}");
        }
    }

    #[test]
    fn an_address_reads_as_people_write_it() {
        for (octets, want) in [
            (&[192, 0, 2, 7][..], Some("192.0.2.7")),
            (&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], Some("2001:db8::1")),
            (&[1, 2, 3], None),
        ] {
            let got = address(octets).map(|address| address.to_string());
            assert_eq!(got.as_deref(), want, "{octets:?}");
        }
    }
}
