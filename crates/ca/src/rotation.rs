//! From one authority to the next, without a day on which a client trusts neither.
//!
//! A client learns of an authority when a person installs it, so the next one must be there for a while before it
//! signs. A rotation has two steps, days apart:
//!
//! 1. *Begin*: the next authority is made beside the current one (`ca.next.crt`, `ca.next.key`). From now on every
//!    bundle names both; the current one signs.
//! 2. *Finish*: the next one takes the current one's place and signs. The old certificate stays in the bundles until it
//!    expires (`ca.old.crt`), for what it signed is still in use; the old key is gone.
//!
//! Each file appears or moves in one step, and at every moment, power cut included, the files hold an authority that
//! can sign: between the two renames of the second step the key in force belongs to `ca.next.crt`, and a reader takes
//! that certificate.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;

use super::{
    Authority, CaError,
    certificate::{self, Facts},
    files::{self, Access, CA_CERT, CA_KEY, Contents, Pair},
    text,
};
use crawlgate_config::TlsConfig;
use crawlgate_system::atomic_file::folder;
use crawlgate_system::clock::{Clock, Moment};

/// Time for which clients can learn of the next authority before it signs.
const OVERLAP: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// An authority that does not sign, but is to be trusted beside the one that does.
#[derive(Debug)]
pub struct TrustedCa {
    path: PathBuf,
    certificate: CertificateDer<'static>,
    facts: Facts,
    since: Moment,
}

impl TrustedCa {
    /// Returns the file of the certificate.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the certificate, DER.
    #[must_use]
    pub fn certificate_der(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Returns the SHA-256 fingerprint of the certificate as people compare it: `AA:BB:…`.
    #[must_use]
    pub fn fingerprint_sha256(&self) -> String {
        text::colon_hex(&text::sha256(&self.certificate))
    }

    /// Returns the SHA-256 of the certificate's SubjectPublicKeyInfo, base64.
    #[must_use]
    pub fn spki_sha256_base64(&self) -> String {
        BASE64_STANDARD.encode(&self.facts.spki_sha256)
    }

    /// Returns the moment at which the certificate expires.
    #[must_use]
    pub const fn not_after(&self) -> Moment {
        self.facts.not_after
    }

    /// Returns the time since which clients could learn of the next authority.
    #[must_use]
    pub const fn since(&self) -> Moment {
        self.since
    }

    /// Returns the earliest time at which the next authority may take over.
    #[must_use]
    pub fn ready_at(&self) -> Moment {
        self.since + OVERLAP
    }

    pub(super) fn public_key(&self) -> &[u8] {
        &self.facts.public_key
    }

    fn read(
        path: &Path,
        certificate: CertificateDer<'static>,
        since: Moment,
    ) -> Result<Self, CaError> {
        let facts = Facts::read(path, std::slice::from_ref(&certificate)).map_err(beside(path))?;
        Ok(Self { path: path.into(), certificate, facts, since })
    }
}

/// Returns the next authority, if the files hold one.
pub(super) fn next(pair: &Pair<'_>, contents: &Contents) -> Result<Option<TrustedCa>, CaError> {
    let Some((pem, since)) = &contents.next else {
        return Ok(None);
    };
    let path = &pair.next_certificate;
    let chain = certificate::read_chain(path, pem).map_err(beside(path))?;
    let first = chain.into_iter().next();
    first.map(|certificate| TrustedCa::read(path, certificate, *since)).transpose()
}

/// Returns the earlier authorities.
pub(super) fn retired(pair: &Pair<'_>, contents: &Contents) -> Result<Vec<TrustedCa>, CaError> {
    let Some(pem) = &contents.retired else {
        return Ok(Vec::new());
    };
    let path = &pair.retired;
    let chain = certificate::read_chain(path, pem).map_err(beside(path))?;
    chain
        .into_iter()
        .map(|certificate| TrustedCa::read(path, certificate, Moment::from_millis(0)))
        .collect()
}

impl Authority {
    /// Makes the next authority beside the current one, which continues to sign. The authority returned knows both.
    ///
    /// # Errors
    ///
    /// If there is no current authority that can sign, if a rotation is under way, or if a file cannot be written.
    pub fn begin_rotation(config: &TlsConfig, clock: Clock) -> Result<Self, CaError> {
        let pair = Pair::of(config);
        let _lock = pair.lock_to_write()?;
        let contents = pair.read_unlocked()?;
        let current = Self::from_contents(config, clock.clone(), &contents)?;
        if contents.next.is_some() {
            return Err(match current.next {
                Some(_) => CaError::Rotating { path: pair.next_certificate },
                None => CaError::Interrupted { path: pair.next_certificate },
            });
        }
        let made = certificate::create(clock.now(), &config.name_constraints)?;
        // The key first: without a certificate it means nothing, and the next attempt replaces it.
        files::write(CA_KEY, &pair.next_key, 0o600, &made.key)?;
        files::write(CA_CERT, &pair.next_certificate, 0o644, &made.certificate)?;
        Self::from_contents(config, clock, &pair.read_unlocked()?)
    }

    /// Puts the next authority in the current one's place. `force` does so even if clients had less than a week to
    /// learn of it.
    ///
    /// # Errors
    ///
    /// If there is no next authority, if it is too early or it cannot sign, or if a file cannot be moved.
    pub fn finish_rotation(config: &TlsConfig, clock: Clock, force: bool) -> Result<Self, CaError> {
        let pair = Pair::of(config);
        let _lock = pair.lock_to_write()?;
        let contents = pair.read_unlocked()?;
        let not_rotating = || CaError::NotRotating { path: pair.next_certificate.clone() };
        let next = next(&pair, &contents)?.ok_or_else(not_rotating)?;
        let now = clock.now();
        let key = certificate::read_key(pair.key, &contents.key)?;
        if !next.is_of(&key) {
            // Move nothing before the next authority is known to work.
            next.facts.check_validity(&next.path, now)?;
            let (key, _) = files::read(&pair.next_key, Access::Private)?;
            if !next.is_of(&certificate::read_key(&pair.next_key, &key)?) {
                return Err(CaError::Mismatch { certificate: next.path, key: pair.next_key });
            }
            if !force && now < next.ready_at() {
                return Err(CaError::TooEarly { since: next.since(), from: next.ready_at() });
            }
            retire(&pair, &contents, now)?;
            rename(CA_KEY, &pair.next_key, pair.key)?;
        }
        rename(CA_CERT, &pair.next_certificate, pair.certificate)?;
        Self::from_contents(config, clock, &pair.read_unlocked()?)
    }

    /// Drops the next authority.
    ///
    /// # Errors
    ///
    /// If it signs already, because finishing was cut short, or if a file cannot be removed.
    pub fn cancel_rotation(config: &TlsConfig) -> Result<(), CaError> {
        let pair = Pair::of(config);
        let _lock = pair.lock_to_write()?;
        let contents = pair.read_unlocked()?;
        let key = certificate::read_key(pair.key, &contents.key)?;
        // An unreadable one can be dropped.
        if let Ok(Some(next)) = next(&pair, &contents)
            && next.is_of(&key)
        {
            return Err(CaError::Interrupted { path: next.path });
        }
        // The certificate first: without it the key means nothing.
        pair.remove_beside([&pair.next_certificate, &pair.next_key])
    }
}

impl TrustedCa {
    fn is_of(&self, key: &KeyPair) -> bool {
        self.public_key() == key.public_key_raw()
    }
}

/// Adds the current certificate to those of earlier authorities, and leaves out expired ones.
fn retire(pair: &Pair<'_>, contents: &Contents, now: Moment) -> Result<(), CaError> {
    let current = certificate::read_chain(pair.certificate, &contents.certificate)?;
    let mut pem = String::new();
    let before = retired(pair, contents)?;
    let valid = before.iter().filter(|retired| retired.not_after() > now);
    let before = valid.map(TrustedCa::certificate_der);
    for certificate in
        before.filter(|before| current.first() != Some(before)).chain(current.first())
    {
        pem.push_str(&crawlgate_text::pem("CERTIFICATE", certificate));
    }
    files::write(CA_CERT, &pair.retired, 0o644, pem.as_bytes())?;
    sync(CA_CERT, &pair.retired)
}

/// Moves a file durably: later steps must not happen before a power cut can no longer undo it.
fn rename(key: &'static str, from: &Path, to: &Path) -> Result<(), CaError> {
    fs::rename(from, to).map_err(|error| CaError::io(key, "replace", to, error))?;
    sync(key, to)
}

fn sync(key: &'static str, path: &Path) -> Result<(), CaError> {
    let directory = folder(path);
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| CaError::io(key, "write", directory, error))
}

/// Wraps a fault of a file beside the authority, because its remedy differs from that of a fault of the authority.
fn beside(path: &Path) -> impl Fn(CaError) -> CaError + '_ {
    |error| match error {
        CaError::Malformed { why, .. } => CaError::Beside { path: path.into(), why },
        CaError::NotAuthority { why, .. } => CaError::Beside {
            path: path.into(),
            why: format!("it holds a certificate that may not sign others ({why})"),
        },
        error => error,
    }
}

#[cfg(test)]
mod tests;
