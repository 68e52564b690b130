//! The verification of servers: by a chain to a trusted authority, or as a certificate that is trusted as it is.
//!
//! A certificate that stands in a file of roots, octet for octet, needs no issuer, and it may be that of an authority:
//! `openssl req -x509` makes such ones. Its validity and its names still count. Without subjectAltName, its common name is
//! the host's name, as such certificates often have no other.
//!
//! A failed verification ends in a [`TlsFault`] with its facts, inside the error of rustls: [`tls_fault`] takes it out.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, InvalidMessage, OtherError, PeerIncompatible,
    SignatureScheme,
};

use super::diagnosis::{self, Chain};
use super::{TrustError, Trusted};
use crawlgate_origins::access::tls_fault::TlsFault;

/// Verifies servers by [`Trusted`].
#[derive(Debug)]
pub struct Verifier {
    chains: Arc<WebPkiServerVerifier>,
    as_they_are: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// Returns a verifier that trusts these.
    ///
    /// # Errors
    ///
    /// If there is no root at all.
    pub fn new(
        trusted: Trusted,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<Verifier>, TrustError> {
        let roots = Arc::new(trusted.roots);
        let chains = WebPkiServerVerifier::builder_with_provider(roots, provider);
        Ok(Arc::new(Verifier {
            chains: chains.build().map_err(TrustError::Verifier)?,
            as_they_are: trusted.as_they_are,
        }))
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let is_end_entity = |one: &CertificateDer<'_>| **one == **end_entity;
        let verified = if self.as_they_are.iter().any(is_end_entity) {
            verify_as_it_is(end_entity, server_name, now)
        } else {
            let verified = self.chains.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
            let chain = || Chain::read(end_entity, intermediates);
            verified
                .map(drop)
                .map_err(|error| diagnosis::of_chain(&error, &chain(), diagnosis::moment(now)))
        };
        verified.map(|()| ServerCertVerified::assertion()).map_err(refusal)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let verified = self.chains.verify_tls12_signature(message, cert, dss);
        verified.map_err(|error| refusal(diagnosis::of_signature(&error, cert)))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let verified = self.chains.verify_tls13_signature(message, cert, dss);
        verified.map_err(|error| refusal(diagnosis::of_signature(&error, cert)))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// Verifies a certificate that is trusted without an issuer.
fn verify_as_it_is(
    end_entity: &CertificateDer<'_>,
    server_name: &ServerName<'_>,
    now: UnixTime,
) -> Result<(), TlsFault> {
    let chain = Chain::read(end_entity, &[]);
    if let Some(fault) = chain.not_valid_at(diagnosis::moment(now)) {
        return Err(fault);
    }
    let parsed = ParsedCertificate::try_from(end_entity)
        .map_err(|error| diagnosis::of_chain(&error, &chain, diagnosis::moment(now)))?;
    if verify_server_name(&parsed, server_name).is_ok() || chain.has_common_name(server_name) {
        return Ok(());
    }
    Err(chain.other_names())
}

fn refusal(fault: TlsFault) -> rustls::Error {
    rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(fault))))
}

/// Returns the fault that an error of a handshake with a server stands for.
#[must_use]
pub fn tls_fault(error: &rustls::Error) -> TlsFault {
    use rustls::Error as Tls;
    match error {
        Tls::InvalidCertificate(CertificateError::Other(OtherError(fault))) => {
            let fault = fault.downcast_ref::<TlsFault>();
            fault.cloned().unwrap_or(TlsFault::Certificate)
        }
        Tls::InvalidCertificate(_) => TlsFault::Certificate,
        Tls::NoCertificatesPresented => TlsFault::NoCertificate,
        Tls::UnsupportedNameType => TlsFault::ServerName,
        Tls::AlertReceived(alert) => TlsFault::Alert(u8::from(*alert)),
        Tls::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled,
        ) => TlsFault::Version,
        Tls::PeerIncompatible(_) => TlsFault::NoCommonAlgorithm,
        Tls::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => TlsFault::NotTls,
        _ => TlsFault::Protocol,
    }
}

#[cfg(test)]
mod tests;
