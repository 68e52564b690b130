//! A private key that signs requests, and the thumbprint that names it.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use thiserror::Error;

use crawlgate_system::atomic_file::{PrivateFileError, place, read_private};
use crawlgate_text::pem;

/// Thumbprints of keys that are printed in standards, so that everyone has them: RFC 9421 B.1.4, RFC 8037 A.1 (test 1 of
/// RFC 8032, too), RFC 8410 10.3, and tests 2 and 3 of RFC 8032 7.1.
const PRINTED: [&str; 5] = [
    "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U",
    "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
    "3YZxBJ12jO3n_mXt_q-j_Z-TFP1vt-NiI3OCf-fEnHQ",
    "FtIu-VbGrfe_KB6CH7GNwODB72MNxj_ml11dEvO-7kk",
    "FVV5umTuau890q59V-4Ga_R6qWb7ON_ivJc4EjvCwTM",
];

/// An Ed25519 key with its public names.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    thumbprint: Arc<str>,
    public: Box<str>,
}

/// The reason that a file gives no key.
#[derive(Debug, Error)]
pub enum KeyFault {
    /// The file cannot be read, or others can read it.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// The file has something else.
    #[error(
        "this is no Ed25519 key in PEM (-----BEGIN PRIVATE KEY-----); `crawlgate signing new` makes one"
    )]
    Malformed,
    /// The file has several keys.
    #[error("there is more than one key in this file; give each a file of its own")]
    Several,
    /// The key is known to everyone.
    #[error(
        "this key is printed in a standard, so everyone can sign with it; `crawlgate signing new` makes one"
    )]
    Printed,
    /// There is no randomness for a new key.
    #[error("the system gives no randomness for a new key")]
    NoRandomness,
    /// A new key cannot be written.
    #[error("it cannot be written: {0}")]
    Unwritten(io::Error),
    /// There is a file already.
    #[error("there is a file already, which is left as it is; move it away, or name another one")]
    Exists,
}

impl SigningKey {
    /// Reads a key from PEM (PKCS #8, version 1 or 2).
    ///
    /// # Errors
    /// When the text has no key, several ones, or one that is printed in a standard.
    pub fn from_pem(text: &str) -> Result<SigningKey, KeyFault> {
        let pairs = PrivatePkcs8KeyDer::pem_slice_iter(text.as_bytes()).map(|der| {
            let der = der.ok()?;
            Ed25519KeyPair::from_pkcs8(der.secret_pkcs8_der()).ok()
        });
        let pairs: Option<Vec<_>> = pairs.collect();
        let mut pairs = pairs.unwrap_or_default().into_iter();
        let key = SigningKey::of(pairs.next().ok_or(KeyFault::Malformed)?);
        if pairs.next().is_some() {
            return Err(KeyFault::Several);
        }
        if PRINTED.contains(&&**key.thumbprint()) { Err(KeyFault::Printed) } else { Ok(key) }
    }

    /// Loads a key from a file that only its owner can read.
    ///
    /// # Errors
    /// When the file cannot be read, is open to others, or holds no usable key.
    pub fn load(path: &Path) -> Result<SigningKey, KeyFault> {
        SigningKey::from_pem(&read_private(path)?)
    }

    /// Makes a new key, and a file for it that only its owner can read.
    ///
    /// # Errors
    /// When there is such a file already, or it cannot be written.
    pub fn create(path: &Path) -> Result<SigningKey, KeyFault> {
        let pair = Ed25519KeyPair::generate().map_err(|_| KeyFault::NoRandomness)?;
        // Version 1, which OpenSSL reads, too.
        let pkcs8 = pair.to_pkcs8v1().map_err(|_| KeyFault::NoRandomness)?;
        match place(path, &pem("PRIVATE KEY", pkcs8.as_ref())) {
            Ok(true) => Ok(SigningKey::of(pair)),
            Ok(false) => Err(KeyFault::Exists),
            Err(error) => Err(KeyFault::Unwritten(error)),
        }
    }

    /// Returns the key of a pair, whatever it is.
    pub(super) fn of(pair: Ed25519KeyPair) -> SigningKey {
        let public = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
        // The required members in lexicographic order (RFC 7638, section 3; RFC 8037, section 2).
        let jwk = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{public}"}}"#);
        let thumbprint = URL_SAFE_NO_PAD.encode(digest(&SHA256, jwk.as_bytes()));
        SigningKey { pair, thumbprint: thumbprint.into(), public: public.into() }
    }

    /// Returns the name of the key: the SHA-256 of its JWK, base64url (RFC 8037, A.3).
    #[must_use]
    pub fn thumbprint(&self) -> &Arc<str> {
        &self.thumbprint
    }

    /// Returns the public half, base64url: `x` of its JWK.
    #[must_use]
    pub fn public(&self) -> &str {
        &self.public
    }

    /// Signs octets.
    #[must_use]
    pub fn sign(&self, octets: &[u8]) -> [u8; 64] {
        let mut signature = [0; 64];
        // An Ed25519 signature has this length.
        signature.copy_from_slice(self.pair.sign(octets).as_ref());
        signature
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("thumbprint", &self.thumbprint).finish_non_exhaustive()
    }
}
