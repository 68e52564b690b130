//! Certificates and private keys that the configuration names, in PEM form.

use std::fs::File;
use std::io::{self, Read as _};

use std::path::{Path, PathBuf};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crawlgate_system::atomic_file::exposed_mode;

/// Octets of a certificate or key file; a larger file is something else.
const LARGEST: u64 = 1 << 20;

/// Reads a chain and its private key, which belong together.
///
/// # Errors
/// When a file cannot be used, or they do not belong together.
pub fn certified(
    cert: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, PemError> {
    let chain = certificates("cert", cert)?;
    let parsed = private_key(key)?;
    // Checks that certificate and key belong together.
    CertifiedKey::from_der(chain, parsed, provider).map_err(|error| PemError::File {
        key: "key",
        path: key.to_owned(),
        why: format!("it does not go with the certificate in {}: {error}", cert.display()),
    })
}

/// Reads a private key that only its owner can read.
///
/// # Errors
/// When the file cannot be used.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    let pem = read("key", path)?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| PemError::File {
        key: "key",
        path: path.to_owned(),
        why: format!("no private key in PEM form: {error}"),
    })
}

/// Reads the certificates that the configuration names under `key`.
///
/// # Errors
/// When the file cannot be used.
pub fn certificates(
    key: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let failed = |why: String| PemError::File { key, path: path.to_owned(), why };
    let pem = read(key, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(failed("no certificate in PEM form".to_owned())),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Reads a file; refuses a private key that other users can read.
fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, PemError> {
    let failed =
        |error: io::Error| PemError::File { key, path: path.to_owned(), why: error.to_string() };
    let file = File::open(path).map_err(failed)?;
    let exposed = exposed_mode(&file.metadata().map_err(failed)?);
    if let Some(mode) = exposed.filter(|_| key == "key") {
        return Err(PemError::Exposed { path: path.to_owned(), mode });
    }
    let mut octets = Vec::new();
    file.take(LARGEST).read_to_end(&mut octets).map_err(failed)?;
    Ok(octets)
}

/// The reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PemError {
    /// A file cannot be read, or is not what it should be.
    #[error("{key} {path}: {why}")]
    File {
        /// The configuration key of the file.
        key: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// The key's file is open to other users.
    #[error("key {path}: others may read it (mode {mode:04o}); run: chmod 600 {path}")]
    Exposed {
        /// The path of the file.
        path: PathBuf,
        /// The file's permission bits.
        mode: u32,
    },
}
