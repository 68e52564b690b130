//! The facts behind a certificate that does not verify.
//!
//! webpki names the fault; the facts stand in the certificates, which are foreign and may be anything: what cannot be
//! parsed has no facts.

use rustls::CertificateError;
use rustls::OtherError;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::objects::{oid_registry, oid2sn};
use x509_parser::parse_x509_certificate;
use x509_parser::public_key::PublicKey;
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Name;

use crawlgate_origins::access::tls_fault::{Holder, Names, TlsFault, shown};
use crawlgate_system::clock::Moment;

/// The least size of an RSA key, in bits.
const LEAST_RSA: usize = 2048;

/// The certificates that a server has shown, as far as they can be parsed.
pub(super) struct Chain<'a> {
    /// `None`: it cannot be parsed.
    leaf: Option<X509Certificate<'a>>,
    issuers: Vec<X509Certificate<'a>>,
}

/// Returns a time of rustls as a moment.
pub(super) fn moment(time: UnixTime) -> Moment {
    Moment::from_millis(time.as_secs().saturating_mul(1000))
}

fn moment_of(time: &ASN1Time) -> Moment {
    let seconds = u64::try_from(time.timestamp()).unwrap_or_default();
    Moment::from_millis(seconds.saturating_mul(1000))
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    let (_, certificate) = parse_x509_certificate(der).ok()?;
    Some(certificate)
}

/// Returns the fault that webpki has found in a chain.
pub(super) fn of_chain(error: &rustls::Error, chain: &Chain<'_>, now: Moment) -> TlsFault {
    use CertificateError as Fault;
    let rustls::Error::InvalidCertificate(fault) = error else {
        return TlsFault::Certificate;
    };
    match fault {
        Fault::BadEncoding | Fault::UnhandledCriticalExtension => TlsFault::UnreadableCertificate,
        Fault::Expired
        | Fault::ExpiredContext { .. }
        | Fault::NotValidYet
        | Fault::NotValidYetContext { .. } => {
            chain.not_valid_at(now).unwrap_or(TlsFault::Certificate)
        }
        Fault::NotValidForName | Fault::NotValidForNameContext { .. } => chain.other_names(),
        Fault::UnknownIssuer => chain.unknown_issuer(),
        Fault::InvalidPurpose | Fault::InvalidPurposeContext { .. } => TlsFault::Purpose,
        Fault::Other(OtherError(error)) => match error.downcast_ref::<webpki::Error>() {
            Some(webpki::Error::CaUsedAsEndEntity) => chain.ca_as_leaf(),
            Some(
                webpki::Error::NameConstraintViolation
                | webpki::Error::PathLenConstraintViolated
                | webpki::Error::EndEntityUsedAsCa,
            ) => TlsFault::Constraints,
            Some(webpki::Error::UnsupportedCertVersion) => TlsFault::OldCertificate,
            Some(
                webpki::Error::UnsupportedCriticalExtension
                | webpki::Error::MalformedExtensions
                | webpki::Error::ExtensionValueInvalid
                | webpki::Error::MalformedDnsIdentifier,
            ) => TlsFault::UnreadableCertificate,
            _ => TlsFault::Certificate,
        },
        fault => chain.of_signature(fault),
    }
}

/// Returns the fault of a handshake's signature by the key of `leaf`.
pub(super) fn of_signature(error: &rustls::Error, leaf: &CertificateDer<'_>) -> TlsFault {
    of_chain(error, &Chain::read(leaf, &[]), Moment::default())
}

impl<'a> Chain<'a> {
    pub(super) fn read(leaf: &'a CertificateDer<'_>, issuers: &'a [CertificateDer<'_>]) -> Self {
        Chain { leaf: parse(leaf), issuers: issuers.iter().filter_map(parse).collect() }
    }

    fn all(&self) -> impl Iterator<Item = (Holder, &X509Certificate<'a>)> {
        let issuers = self.issuers.iter().map(|one| (Holder::Issuer, one));
        let leaf = self.leaf.iter().map(|one| (Holder::Origin, one));
        leaf.chain(issuers)
    }

    /// Returns the fault of the first certificate that is not valid at `now`.
    pub(super) fn not_valid_at(&self, now: Moment) -> Option<TlsFault> {
        self.all().find_map(|(holder, certificate)| {
            let validity = certificate.validity();
            let (from, until) = (moment_of(&validity.not_before), moment_of(&validity.not_after));
            match (now < from, now > until) {
                (true, _) => Some(TlsFault::NotYetValid(holder, from)),
                (_, true) => Some(TlsFault::Expired(holder, until)),
                _ => None,
            }
        })
    }

    /// Returns the fault that the certificate is for the names that it has.
    pub(super) fn other_names(&self) -> TlsFault {
        match &self.leaf {
            Some(leaf) => TlsFault::OtherNames(Names::of(names(leaf))),
            None => TlsFault::UnreadableCertificate,
        }
    }

    /// Tells whether the certificate has no other name than a common name, and that is the server's.
    pub(super) fn has_common_name(&self, server: &ServerName<'_>) -> bool {
        let Some(leaf) = &self.leaf else {
            return false;
        };
        let has_other_names = !matches!(leaf.subject_alternative_name(), Ok(None));
        let server = server.to_str();
        let server = server.strip_suffix('.').unwrap_or(&server);
        let mut common = leaf.subject().iter_common_name();
        let is_the_servers = common.any(|name| {
            let name = name.as_str();
            name.is_ok_and(|name| name.eq_ignore_ascii_case(server))
        });
        !has_other_names && is_the_servers
    }

    /// Returns the authority that a chain lacks: the issuer that was not sent, or the root that is not trusted.
    fn unknown_issuer(&self) -> TlsFault {
        let Some(leaf) = &self.leaf else {
            return TlsFault::UnreadableCertificate;
        };
        let mut last = leaf;
        // Each step goes to another certificate; a loop of names ends.
        for _ in 0..=self.issuers.len() {
            if is_self_issued(last) {
                let name = name_of(last.subject());
                return if std::ptr::eq(last, leaf) {
                    TlsFault::SelfSigned(name)
                } else {
                    TlsFault::UntrustedRoot(name)
                };
            }
            let issued = |one: &&X509Certificate<'_>| one.subject() == last.issuer();
            match self.issuers.iter().find(issued) {
                Some(issuer) => last = issuer,
                None => break,
            }
        }
        TlsFault::UnknownIssuer(name_of(last.issuer()))
    }

    fn ca_as_leaf(&self) -> TlsFault {
        match &self.leaf {
            Some(leaf) if is_self_issued(leaf) => TlsFault::SelfSigned(name_of(leaf.subject())),
            Some(leaf) => TlsFault::CaAsLeaf(name_of(leaf.subject())),
            None => TlsFault::UnreadableCertificate,
        }
    }

    /// Returns the fault of a signature: a short key, an old algorithm, or a false signature.
    fn of_signature(&self, fault: &CertificateError) -> TlsFault {
        let keys = self.all().filter_map(|(_, one)| rsa_bits(one));
        if let Some(bits) = keys.filter(|bits| *bits < LEAST_RSA).min() {
            return TlsFault::WeakKey(bits.try_into().unwrap_or_default());
        }
        if *fault == CertificateError::BadSignature {
            return TlsFault::BadSignature;
        }
        let algorithms: Vec<Box<str>> = self.all().map(|(_, one)| algorithm(one)).collect();
        let is_old = |name: &str| {
            let name = name.to_ascii_lowercase();
            ["sha1", "md5", "md2", "dsa-with"].iter().any(|old| name.contains(old))
        };
        let old = algorithms.iter().find(|name| is_old(name)).or(algorithms.first());
        old.map_or(TlsFault::Certificate, |name| TlsFault::SignatureAlgorithm(name.clone()))
    }
}

fn is_self_issued(certificate: &X509Certificate<'_>) -> bool {
    certificate.subject() == certificate.issuer()
}

fn name_of(name: &X509Name<'_>) -> Box<str> {
    shown(&name.to_string())
}

/// Returns the hosts that a certificate names.
fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(names)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let hosts = names.value.general_names.iter();
    hosts
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(octets) => {
                match (<[u8; 4]>::try_from(*octets), <[u8; 16]>::try_from(*octets)) {
                    (Ok(v4), _) => Some(std::net::IpAddr::from(v4).to_string()),
                    (_, Ok(v6)) => Some(std::net::IpAddr::from(v6).to_string()),
                    _ => None,
                }
            }
            _ => None,
        })
        .collect()
}

fn rsa_bits(certificate: &X509Certificate<'_>) -> Option<usize> {
    match certificate.public_key().parsed().ok()? {
        PublicKey::RSA(key) => Some(key.key_size()),
        _ => None,
    }
}

/// Returns the name of the algorithm that signed a certificate, or its number.
fn algorithm(certificate: &X509Certificate<'_>) -> Box<str> {
    let oid = &certificate.signature_algorithm.algorithm;
    match oid2sn(oid, oid_registry()) {
        Ok(name) => shown(name),
        Err(_) => shown(&oid.to_id_string()),
    }
}
