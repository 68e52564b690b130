//! Trusted roots: for the verification of origins, and as files for crawlers.
//!
//! A crawler behind crawlgate meets two kinds of certificates: ours, on intercepted hosts, and the origin's own, on
//! tunnelled hosts. Most programs that accept another authority accept one *file* that replaces all others, so
//! crawlgate gives them a bundle: the public roots, the operator's extra roots, and ours.
//!
//! The public roots are the system's. If the system has none (a bare container), Mozilla's list, compiled into the
//! program, replaces them.

mod diagnosis;
pub mod pem;
pub mod recipes;
mod truststore;
mod verifier;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustls::{
    RootCertStore,
    client::VerifierBuilderError,
    pki_types::{CertificateDer, pem::PemObject as _},
};

pub use self::pem::PemError;
pub use self::truststore::{TRUSTSTORE_PASSWORD, TRUSTSTORE_TYPE};
pub use self::verifier::Verifier;
pub use self::verifier::tls_fault;
use crawlgate_ca as ca;
use crawlgate_system::clock::Moment;
use crawlgate_text as text;

/// The certificates by which servers are verified.
#[derive(Debug)]
pub struct Trusted {
    roots: RootCertStore,
    /// The certificates of the operator's files, each of which a server may show itself.
    as_they_are: Vec<CertificateDer<'static>>,
}

/// Roots, and their source.
#[derive(Clone, Debug)]
pub struct Roots {
    certificates: Vec<CertificateDer<'static>>,
    source: RootSource,
}

/// The source of the public roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootSource {
    /// The system's store, or its replacement by `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    System,
    /// Mozilla's list, compiled into the program.
    Mozilla,
}

/// Returns the public roots. Unreadable ones of the system's store are logged and left out.
#[must_use]
pub fn public_roots() -> Roots {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "part of the system's certificate store cannot be read");
    }
    if found.certs.is_empty() {
        tracing::warn!("the system has no root certificates; using the compiled-in list");
        return Roots {
            certificates: webpki_root_certs::TLS_SERVER_ROOT_CERTS.to_vec(),
            source: RootSource::Mozilla,
        };
    }
    Roots { certificates: found.certs, source: RootSource::System }
}

/// Returns the certificates for the verification of origins: the public roots and those in the files `extra`.
///
/// # Errors
///
/// If a file of `extra` cannot be read, holds no certificate, or one that cannot be a root.
pub fn upstream_roots(extra: &[PathBuf]) -> Result<Trusted, TrustError> {
    let mut trusted = Trusted::none();
    // The system's store is foreign and large; an odd certificate in it must not keep the others from working.
    let public = public_roots().certificates;
    let (_, unusable) = trusted.roots.add_parsable_certificates(public);
    if unusable > 0 {
        tracing::debug!(unusable, "root certificates left out");
    }
    for path in extra {
        trusted.add_file(EXTRA, path)?;
    }
    Ok(trusted)
}

/// Returns only the roots in a file, for a service with a separate CA. `key` is the one that names the file.
///
/// # Errors
///
/// If the file cannot be read, holds no certificate, or one that cannot be a root.
pub fn roots_in(key: &'static str, path: &Path) -> Result<Trusted, TrustError> {
    let mut trusted = Trusted::none();
    trusted.add_file(key, path)?;
    Ok(trusted)
}

/// The key of further roots for origins.
const EXTRA: &str = "[tls] extra_roots";

/// Returns all faults of the files `extra`, while [`upstream_roots`] stops at the first one.
#[must_use]
pub fn faults(extra: &[PathBuf]) -> Vec<TrustError> {
    let mut trusted = Trusted::none();
    let added = extra.iter().map(|path| trusted.add_file(EXTRA, path));
    added.filter_map(Result::err).collect()
}

impl Trusted {
    fn none() -> Trusted {
        Trusted { roots: RootCertStore::empty(), as_they_are: Vec::new() }
    }

    fn add_file(&mut self, key: &'static str, path: &Path) -> Result<(), TrustError> {
        for certificate in read_certificates(key, path)? {
            self.roots
                .add(certificate.clone())
                .map_err(|error| TrustError::malformed(key, path, error.to_string()))?;
            self.as_they_are.push(certificate);
        }
        Ok(())
    }
}

impl Roots {
    /// Returns the certificates.
    #[must_use]
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }

    /// Returns the source of the public roots.
    #[must_use]
    pub const fn source(&self) -> RootSource {
        self.source
    }

    /// Adds the certificates in `files`.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or holds no certificate.
    pub fn with_files(mut self, files: &[PathBuf]) -> Result<Self, TrustError> {
        for path in files {
            self.certificates.extend(read_certificates(EXTRA, path)?);
        }
        Ok(self)
    }

    /// Writes these roots and the authorities `own` (PEM) to `path`, PEM: for variables such as `SSL_CERT_FILE`, which
    /// replace a program's other roots.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write_bundle(&self, path: &Path, own: &str) -> Result<(), TrustError> {
        let mut bundle = String::from(own);
        for certificate in &self.certificates {
            bundle.push_str(&text::pem("CERTIFICATE", certificate));
        }
        write_file(path, bundle.as_bytes())
    }

    /// Writes these roots and the authorities `own` to `path` as a Java truststore (type [`TRUSTSTORE_TYPE`], password
    /// [`TRUSTSTORE_PASSWORD`]), every entry dated `now`.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write_truststore(
        &self,
        path: &Path,
        own: &[CertificateDer<'_>],
        now: Moment,
    ) -> Result<(), TrustError> {
        let own = own.iter().enumerate().map(|(number, certificate)| {
            let name = match number {
                0 => "crawlgate".to_owned(),
                number => format!("crawlgate-{number}"),
            };
            (name, certificate.as_ref())
        });
        let entries = own.chain(
            self.certificates
                .iter()
                .enumerate()
                .map(|(number, certificate)| (format!("root-{number}"), certificate.as_ref())),
        );
        write_file(path, &truststore::jks(entries, now))
    }
}

fn read_certificates(
    key: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let pem = fs::read(path).map_err(|source| TrustError::Unreadable {
        key,
        path: path.into(),
        source,
    })?;
    let certificates = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TrustError::malformed(key, path, error.to_string()))?;
    if certificates.is_empty() {
        return Err(TrustError::malformed(key, path, "no certificate in PEM form".to_owned()));
    }
    Ok(certificates)
}

/// Writes a file that others may read, in one step: a client that starts meanwhile reads the old file or the new one,
/// whole.
///
/// # Errors
///
/// If it cannot be written.
pub fn write_file(path: &Path, octets: &[u8]) -> Result<(), TrustError> {
    ca::replace(path, 0o644, octets)
        .map_err(|source| TrustError::Unwritable { path: path.into(), source })
}

/// A failure to read, write or use roots. The message names the file, and the configuration key that names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A file of roots cannot be read.
    #[error("{key}: cannot read {path}: {source}")]
    Unreadable {
        /// The key that names the file.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A bundle or truststore cannot be written.
    #[error("cannot write {path}: {source}")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file of roots does not hold root certificates.
    #[error("{key}: {path}: not root certificates: {why}")]
    Malformed {
        /// The key that names the file.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// The roots are readable, but TLS cannot be set up with them.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// There is no root to verify servers by.
    #[error("TLS cannot be set up: {0}")]
    Verifier(#[source] VerifierBuilderError),
}

impl TrustError {
    fn malformed(key: &'static str, path: &Path, why: String) -> Self {
        Self::Malformed { key, path: path.into(), why }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn extra_roots_are_added_and_unusable_ones_refused() {
        let directory = tempfile::tempdir().unwrap();
        let root = webpki_root_certs::TLS_SERVER_ROOT_CERTS.first().unwrap();
        let file = |name: &str, contents: &str| {
            let path = directory.path().join(name);
            fs::write(&path, contents).unwrap();
            path
        };
        let good = file("good.pem", &text::pem("CERTIFICATE", root));
        let plain = upstream_roots(&[]).unwrap().roots.len();
        let with_good = upstream_roots(std::slice::from_ref(&good)).unwrap();
        assert_eq!(with_good.roots.len(), plain + 1);
        assert_eq!(roots_in("[x] ca", &good).unwrap().roots.len(), 1);

        #[rustfmt::skip] // one row, one case
        let cases = [
            ("a missing file", directory.path().join("none.pem"), "cannot read"),
            ("a file without PEM", file("text.pem", "hello"), "no certificate"),
            ("PEM around rubbish", file("rubbish.pem", &text::pem("CERTIFICATE", b"rubbish")), "not root certificates"),
        ];
        for (name, path, says) in cases {
            let error = upstream_roots(std::slice::from_ref(&path)).unwrap_err().to_string();
            assert!(error.contains(says), "{name}: {error}");
            assert!(error.contains(path.to_str().unwrap()), "{name}: {error}");
            assert!(error.starts_with("[tls] extra_roots: "), "{name}: no key: {error}");
            let alone = roots_in("[x] ca", &path).unwrap_err().to_string();
            assert_eq!(alone, error.replace("[tls] extra_roots", "[x] ca"));
            let faults = faults(&[path, good.clone()]);
            let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
            assert_eq!(faults, [error], "{name}");
        }
        assert_eq!(faults(&[directory.path().join("1"), directory.path().join("2")]).len(), 2);
    }

    #[test]
    fn a_file_takes_its_place_whole_and_leaves_nothing_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let bundle = directory.path().join("bundle.pem");
        for octets in ["the first", "the second"] {
            write_file(&bundle, octets.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&bundle).unwrap(), octets);
        }
        let mode = fs::metadata(&bundle).unwrap().mode();
        assert_eq!(mode & 0o700, 0o600, "mode {mode:o}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        let nowhere = directory.path().join("none/bundle.pem");
        let error = write_file(&nowhere, b"").unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot write {}", nowhere.display())), "{error}");
    }

    #[test]
    fn a_bundle_holds_the_public_roots_the_extra_ones_and_ours() {
        let directory = tempfile::tempdir().unwrap();
        let extra = directory.path().join("extra.pem");
        fs::write(&extra, text::pem("CERTIFICATE", b"extra")).unwrap();
        let public = public_roots();
        let count = public.certificates().len();
        assert!(count > 10, "{count} public roots");
        let bundle = directory.path().join("bundle.pem");
        public
            .with_files(&[extra])
            .unwrap()
            .write_bundle(&bundle, &text::pem("CERTIFICATE", b"ours"))
            .unwrap();
        let read = read_certificates(EXTRA, &bundle).unwrap();
        assert_eq!(read.len(), count + 2);
        assert_eq!(read.first().unwrap().as_ref(), b"ours");
        assert_eq!(read.last().unwrap().as_ref(), b"extra");
    }
}
