//! Public keys that a command line names: by their text, or by a file.

use std::io;
use std::path::Path;

use crawlgate_store::log_key::LogKey;
use crawlgate_store::{StoreError, StoreErrorKind};
use crawlgate_tlog::{self as tlog, KeyKind, KeyName, VerifierKey};

/// A key of the log that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The named key cannot be read, or is another one's.
    #[error("{option} {fault}")]
    Named {
        /// The option.
        option: &'static str,
        /// The fault.
        fault: NamedKeyError,
    },
    /// The key beside the store cannot be read.
    #[error(transparent)]
    Own(#[from] StoreError),
}

/// The fault of a key that is given by its text or its file.
#[derive(Debug, thiserror::Error)]
pub enum NamedKeyError {
    /// The text is no key and no file that can be read.
    #[error("{named}: {malformed}; as a file: {error}")]
    Unreadable {
        /// The text.
        named: String,
        /// Its fault as a key.
        malformed: tlog::KeyError,
        /// Its fault as a file.
        error: io::Error,
    },
    /// The file holds no public key.
    #[error(
        "{0}: the file holds no public key: one line NAME+ID+BASE64, as `crawlgate audit key` prints it for a log, and \
         as the operator of a witness publishes it"
    )]
    NotPublic(String),
    /// The file holds the private key of a log, which cannot be read.
    #[error(transparent)]
    File(#[from] StoreError),
    /// The key is one of a log.
    #[error("{0}: this is the key of a log, not of a witness")]
    OfLog(String),
    /// The key is one of a witness.
    #[error("{0}: this is the key of a witness, not of a log")]
    OfWitness(String),
}

/// Returns the public keys of one kind, each given by its text, or by a file with its text or with the key of the log.
///
/// # Errors
/// When one cannot be read, or is of another kind.
pub fn named_keys(
    option: &'static str,
    named: &[String],
    kind: KeyKind,
    name: Option<KeyName>,
) -> Result<Vec<VerifierKey>, KeyError> {
    let read = |named: &String| {
        let key = public(named, name.clone())?;
        match (key.kind() == kind, key.kind()) {
            (true, _) => Ok(key),
            (false, KeyKind::Ed25519) => Err(NamedKeyError::OfLog(named.clone())),
            (false, _) => Err(NamedKeyError::OfWitness(named.clone())),
        }
    };
    let keys = named.iter().map(read).collect::<Result<_, _>>();
    keys.map_err(|fault| KeyError::Named { option, fault })
}

fn public(named: &str, name: Option<KeyName>) -> Result<VerifierKey, NamedKeyError> {
    let malformed = match named.parse::<VerifierKey>() {
        Ok(key) => return Ok(key),
        Err(malformed) => malformed,
    };
    let file = Path::new(named);
    let text = std::fs::read(file);
    let text = text.map_err(|error| NamedKeyError::Unreadable {
        named: named.to_owned(),
        malformed,
        error,
    })?;
    let text = String::from_utf8_lossy(&text);
    if let Ok(key) = text.trim().parse() {
        return Ok(key);
    }
    match LogKey::load(file, name) {
        Ok(key) => Ok(key.vkey()),
        // Only of a private key is it of use to say that it is open to others.
        Err(error) if error.kind == StoreErrorKind::Denied && text.contains("PRIVATE KEY") => {
            Err(error.into())
        }
        Err(_) => Err(NamedKeyError::NotPublic(named.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_public_key_is_told_from_a_private_one() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let private = folder.path().join("log.key");
        let key = LogKey::load_or_create(&private, None).unwrap();
        let pem = std::fs::read(&private).unwrap();
        let vkey = key.vkey().to_string();
        let file = folder.path().join("named");
        #[rustfmt::skip] // one row, one case
        let rows: [(&str, &[u8], u32, &str); 7] = [
            ("a public key", vkey.as_bytes(), 0o644, ""),
            ("the key of the log", &pem, 0o600, ""),
            ("the key of the log, open to others", &pem, 0o644, "chmod 600"),
            ("text", b"no key\n", 0o644, "holds no public key"),
            ("private text", b"no key\n", 0o600, "holds no public key"),
            ("other octets", b"\xff\0", 0o644, "holds no public key"),
            ("a damaged private key", b"-----BEGIN PRIVATE KEY-----\nAA\n", 0o600, "holds no public key"),
        ];
        for (name, content, mode, want) in rows {
            std::fs::write(&file, content).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let named = [file.to_str().unwrap().to_owned()];
            match named_keys("--key", &named, KeyKind::Ed25519, None) {
                Ok(keys) => assert!(want.is_empty() && keys == [key.vkey()], "{name}"),
                Err(error) => {
                    let error = error.to_string();
                    assert!(!want.is_empty() && error.contains(want), "{name}: {error}");
                    assert!(!error.contains("move it away"), "{name}: {error}");
                }
            }
        }
    }
}
