//! Contents of certificates: the authority's own, read or made, and the leaves it signs.

use std::path::Path;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _, SerialNumber,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::constraints::{self, Constraints, Name};
use super::files::NewAuthority;
use super::{CaError, text};
use crawlgate_config::Subtree;
use crawlgate_config::places::AUTHORITY_NAME;
use crawlgate_system::clock::Moment;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// An authority lives for ten years: clients are told to trust it by hand, and seldom.
const AUTHORITY_LIFETIME: Duration = DAY.saturating_mul(3652);

/// Time that a client's clock may be behind ours.
pub(super) const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// The longest common name (RFC 5280, appendix A.1: `ub-common-name`). The host is in the SAN in any case.
const LONGEST_COMMON_NAME: usize = 64;

/// Makes a new authority: P-256, self-signed, able to sign leaves within `subtrees` but no further authority.
pub(super) fn create(now: Moment, subtrees: &[Subtree]) -> Result<NewAuthority, CaError> {
    let key = KeyPair::generate().map_err(CaError::signing)?;
    let id = text::colon_hex(&text::sha256(&key.subject_public_key_info()))
        .replace(':', "")
        .to_ascii_lowercase();
    let id = id.get(..8).unwrap_or_default();

    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("{AUTHORITY_NAME} {id}"));
    params.serial_number = Some(serial()?);
    // A day back: the machine that trusts it may be another one, with another clock.
    params.not_before = date_time(now - DAY)?;
    params.not_after = date_time(now + AUTHORITY_LIFETIME)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params.name_constraints = constraints::extension(subtrees);
    let certificate = params.self_signed(&key).map_err(CaError::signing)?;
    Ok(NewAuthority {
        certificate: crawlgate_text::pem("CERTIFICATE", certificate.der()).into_bytes(),
        key: key.serialize_pem().into_bytes(),
    })
}

/// Signs a leaf for `name`, with a subject if the name may stand in one.
pub(super) fn leaf(
    name: &Name,
    constraints: &Constraints,
    now: Moment,
    expires: Moment,
    key: &KeyPair,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<CertificateDer<'static>, CaError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    // OpenSSL applies the constraints on names to an address in the subject, and so refuses it.
    let may_be_named = name.address.is_none() || constraints.is_empty();
    if may_be_named && name.text.len() <= LONGEST_COMMON_NAME {
        params.distinguished_name.push(DnType::CommonName, name.text.as_str());
    }
    params.serial_number = Some(serial()?);
    params.subject_alt_names = vec![name.san()?];
    params.not_before = date_time(now - CLOCK_SKEW)?;
    params.not_after = date_time(expires)?;
    // Explicit: this adds the subject key identifier.
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // Equal to the authority's subject key identifier, or strict verifiers refuse it (RFC 5280, section 4.2.1.1).
    params.use_authority_key_identifier_extension = true;
    let leaf = params.signed_by(key, issuer).map_err(CaError::signing)?;
    Ok(leaf.into())
}

/// Reads a private key: PKCS #8, SEC 1 or PKCS #1.
pub(super) fn read_key(path: &Path, pem: &[u8]) -> Result<KeyPair, CaError> {
    let malformed = |why: String| CaError::Malformed { path: path.into(), why };
    let der = PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        let encrypted = memchr::memmem::find(pem, b"ENCRYPTED").is_some();
        malformed(if encrypted {
            "the key is encrypted, which is not supported (`openssl pkey` decrypts it)".to_owned()
        } else {
            format!("no private key in PEM form ({error})")
        })
    })?;
    KeyPair::try_from(&der).map_err(|error| malformed(format!("not a key that can sign ({error})")))
}

/// Reads the authority's certificate and the rest of its file.
pub(super) fn read_chain(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CaError> {
    let malformed = |why: String| CaError::Malformed { path: path.into(), why };
    let chain = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| malformed(format!("not a certificate in PEM form ({error})")))?;
    if chain.is_empty() {
        return Err(malformed("no certificate in PEM form".to_owned()));
    }
    Ok(chain)
}

/// The facts of the authority's certificate.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) subject: String,
    pub(super) not_before: Moment,
    pub(super) not_after: Moment,
    /// Only the public key, as its algorithm encodes it.
    pub(super) public_key: Vec<u8>,
    pub(super) spki_sha256: Vec<u8>,
    /// The hosts that the authority may sign for.
    pub(super) constraints: Constraints,
}

impl Facts {
    /// Reads the first certificate of `chain` and checks that it may sign.
    pub(super) fn read(path: &Path, chain: &[CertificateDer<'_>]) -> Result<Self, CaError> {
        let certificate = parse(path, chain)?;
        let not_authority = |why| CaError::NotAuthority { path: path.into(), why };
        // RFC 5280, section 4.2.1.9: without CA:TRUE, the key must not verify certificate signatures.
        if !certificate.is_ca() {
            return Err(not_authority("its basicConstraints do not say CA:TRUE"));
        }
        // RFC 5280, section 4.2.1.3: present, it must assert keyCertSign.
        if let Ok(Some(usage)) = certificate.key_usage()
            && !usage.value.key_cert_sign()
        {
            return Err(not_authority("its keyUsage lacks keyCertSign"));
        }
        let Some(constraints) = Constraints::of(&certificate) else {
            return Err(not_authority("its nameConstraints are of a form that is not supported"));
        };
        let validity = certificate.validity();
        Ok(Self {
            subject: certificate.subject().to_string(),
            not_before: moment(validity.not_before.timestamp()),
            not_after: moment(validity.not_after.timestamp()),
            public_key: certificate.public_key().subject_public_key.data.to_vec(),
            spki_sha256: text::sha256(certificate.public_key().raw),
            constraints,
        })
    }

    /// Checks that the certificate may sign now.
    pub(super) fn check_validity(&self, path: &Path, now: Moment) -> Result<(), CaError> {
        if now >= self.not_after {
            return Err(CaError::Expired { path: path.into(), since: self.not_after });
        }
        if now < self.not_before {
            return Err(CaError::NotYetValid { path: path.into(), from: self.not_before });
        }
        Ok(())
    }

    /// Returns the signer for this certificate. Leaves must name their issuer octet for octet as it names itself (RFC
    /// 5280, section 4.1.2.4), so a subject that cannot be written back as it was read is refused here, not by the
    /// clients.
    pub(super) fn issuer(
        &self,
        path: &Path,
        chain: &[CertificateDer<'_>],
        key: KeyPair,
    ) -> Result<Issuer<'static, KeyPair>, CaError> {
        let malformed = || CaError::Malformed {
            path: path.into(),
            why: "its subject has a form that cannot be repeated in the certificates it signs"
                .to_owned(),
        };
        let certificate = parse(path, chain)?;
        if certificate.subject().iter().any(|part| part.iter().next().is_none()) {
            return Err(malformed());
        }
        let der = chain.first().ok_or_else(malformed)?;
        let issuer = Issuer::from_ca_cert_der(der, key).map_err(|_| malformed())?;
        let probe = leaf(
            &Name::parse("probe.invalid")?,
            &self.constraints,
            self.not_before,
            self.not_after,
            issuer.key(),
            &issuer,
        )?;
        let probe = parse(path, std::slice::from_ref(&probe))?.issuer().as_raw().to_vec();
        if probe != certificate.subject().as_raw() {
            return Err(malformed());
        }
        Ok(issuer)
    }
}

fn parse<'a>(path: &Path, chain: &'a [CertificateDer<'_>]) -> Result<X509Certificate<'a>, CaError> {
    chain
        .first()
        .and_then(|der| X509Certificate::from_der(der).ok())
        .map(|(_, certificate)| certificate)
        .ok_or_else(|| CaError::Malformed {
            path: path.into(),
            why: "the certificate cannot be read".to_owned(),
        })
}

/// Returns a random serial number: 16 octets, positive (RFC 5280, section 4.1.2.2).
fn serial() -> Result<SerialNumber, CaError> {
    let mut octets = [0; 16];
    aws_lc_rs::rand::fill(&mut octets).map_err(CaError::signing)?;
    if let Some(first) = octets.first_mut() {
        // Neither negative nor zero, and always of the same length.
        *first = *first & 0x3f | 0x40;
    }
    Ok(SerialNumber::from_slice(&octets))
}

fn date_time(moment: Moment) -> Result<OffsetDateTime, CaError> {
    let seconds = i64::try_from(moment.as_millis() / 1000).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds).map_err(CaError::signing)
}

/// Converts a time; one before 1970 becomes the epoch.
fn moment(seconds: i64) -> Moment {
    Moment::from_millis(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000))
}
