//! The certificates of the test origins, and the test client's check of the gate's certificates.

use std::sync::{Arc, LazyLock};

use rcgen::{
    BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};

/// The fault of an origin's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certificate {
    /// No fault: issued by the test CA for the name that the client asks for.
    Trusted,
    /// Issued by an unknown CA.
    Untrusted,
    /// Expired in 2020.
    Expired,
    /// Issued for another host.
    OtherName,
    /// Signed by itself, as a CA: what `openssl req -x509` makes.
    SelfSigned,
}

static TRUSTED: LazyLock<(String, Issuer<'static, KeyPair>)> =
    LazyLock::new(|| new_ca("test origins' CA"));
static UNTRUSTED: LazyLock<(String, Issuer<'static, KeyPair>)> =
    LazyLock::new(|| new_ca("an untrusted CA"));

static SELF_SIGNED: LazyLock<(rcgen::Certificate, KeyPair)> = LazyLock::new(|| {
    let names = ["127.0.0.1", "localhost", "site.test"].map(str::to_owned);
    let mut params = CertificateParams::new(names).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap(), key)
});

/// Returns the certificate that signed itself, and its key.
pub(crate) fn self_signed_pem() -> (String, String) {
    let (certificate, key) = &*SELF_SIGNED;
    (certificate.pem(), key.serialize_pem())
}

/// The CA that the gates under test trust for origins.
pub(crate) fn origin_ca_pem() -> &'static str {
    &TRUSTED.0
}

/// A CA that signs nothing that they trust.
pub(crate) fn untrusted_ca_pem() -> &'static str {
    &UNTRUSTED.0
}

fn new_ca(name: &str) -> (String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    (pem, Issuer::new(params, key))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Mints a leaf certificate for every requested name.
#[derive(Debug)]
struct AnyName(Certificate);

impl AnyName {
    fn mint(&self, name: Option<&str>) -> CertifiedKey {
        let certified = |(leaf, key): (&rcgen::Certificate, &KeyPair)| {
            let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
            CertifiedKey::from_der(vec![leaf.der().clone()], key, &provider()).unwrap()
        };
        if self.0 == Certificate::SelfSigned {
            let (leaf, key) = &*SELF_SIGNED;
            return certified((leaf, key));
        }
        let (leaf, key) = self.issue(name);
        certified((&leaf, &key))
    }

    fn issue(&self, name: Option<&str>) -> (rcgen::Certificate, KeyPair) {
        let name = if self.0 == Certificate::OtherName {
            "elsewhere.test"
        } else {
            name.unwrap_or("127.0.0.1")
        };
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.use_authority_key_identifier_extension = true;
        if self.0 == Certificate::Expired {
            params.not_before = date_time_ymd(2019, 1, 1);
            params.not_after = date_time_ymd(2020, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let issuer = if self.0 == Certificate::Untrusted { &UNTRUSTED.1 } else { &TRUSTED.1 };
        (params.signed_by(&key, issuer).unwrap(), key)
    }
}

impl ResolvesServerCert for AnyName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::new(self.mint(hello.server_name())))
    }
}

/// Returns the TLS configuration of an origin.
pub(crate) fn origin_config(certificate: Certificate) -> Arc<ServerConfig> {
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap();
    Arc::new(config.with_no_client_auth().with_cert_resolver(Arc::new(AnyName(certificate))))
}

/// Returns a certificate of the test CA for this name and its key, as a server that is no part of a test reads them.
pub(crate) fn origin_pem(name: &str) -> (String, String) {
    let (leaf, key) = AnyName(Certificate::Trusted).issue(Some(name));
    (leaf.pem(), key.serialize_pem())
}

/// Returns a client configuration that trusts this CA and nothing else.
pub(crate) fn client_config(ca_pem: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

/// Returns a client configuration that trusts every certificate, for handshakes under a false name.
pub(crate) fn credulous_config() -> Arc<ClientConfig> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Credulous))
        .with_no_client_auth();
    Arc::new(config)
}

#[derive(Debug)]
struct Credulous;

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
