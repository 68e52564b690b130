//! The chain of records, and its seals.
//!
//! The link of a record is the SHA-256 of the preceding link and the record's text, so the last link stands for every
//! record up to it, in their order. A process with write access to the store could forge the whole chain anew. Hence
//! the seals: at intervals a key outside the store signs the head of the chain, and a chain forged later does not pass
//! through the heads signed before.
//!
//! A seal proves that, without the key, no record before it was altered, removed or inserted since. It does not prove
//! that the records were true when they were written, nor that records after the last seal are complete, unless a copy
//! of the head is kept elsewhere.

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};

use super::{Sha256, StoreError, StoreErrorKind};
use crate::clock::Moment;
use crate::text::pem;

/// The link before the first record.
pub const GENESIS: Sha256 = [0; 32];

/// Returns the link of `record`, the text of a record without its line feed, after `previous`.
#[must_use]
pub fn link(previous: &Sha256, record: &[u8]) -> Sha256 {
    let mut context = Context::new(&SHA256);
    context.update(previous);
    context.update(record);
    array(context.finish().as_ref())
}

/// A signed head of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// The last sealed record; the seal covers everything up to it.
    pub seq: u64,
    /// The link of that record.
    pub hash: Sha256,
    /// Time of the seal.
    pub time: Moment,
    /// The start of the chain at that time: its first record, and the link before that record.
    pub start: (u64, Sha256),
    /// Ed25519 (RFC 8032) over all of that.
    pub signature: [u8; 64],
    /// The public key.
    pub key: [u8; 32],
}

impl Seal {
    /// Tells whether the key has signed the seal. The caller decides whether to trust the key.
    #[must_use]
    pub fn is_genuine(&self) -> bool {
        let message = message(self.seq, &self.hash, self.time, &self.start);
        UnparsedPublicKey::new(&ED25519, &self.key)
            .verify(&message, &self.signature)
            .is_ok()
    }
}

/// Returns the signed message: a name for its kind, then every number in network order.
fn message(seq: u64, hash: &Sha256, time: Moment, start: &(u64, Sha256)) -> Vec<u8> {
    let mut message = b"crawlgate seal 1\0".to_vec();
    message.extend_from_slice(&seq.to_be_bytes());
    message.extend_from_slice(hash);
    message.extend_from_slice(&time.as_millis().to_be_bytes());
    message.extend_from_slice(&start.0.to_be_bytes());
    message.extend_from_slice(&start.1);
    message
}

/// A range of records removed from the middle of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The first of the records.
    pub first: u64,
    /// The last of the records.
    pub last: u64,
    /// The link before the first record.
    pub before: Sha256,
    /// The link of the last record.
    pub after: Sha256,
    /// Time of the last removal.
    pub time: Moment,
    /// Proof that retention removed the records; `None` for records lost to damage.
    pub proof: Option<GapProof>,
}

/// A signature of retention on a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GapProof {
    /// Ed25519 (RFC 8032) over all fields of the gap.
    pub signature: [u8; 64],
    /// The public key.
    pub key: [u8; 32],
}

impl Gap {
    /// Tells whether the key has signed the gap. The caller decides whether to trust the key.
    #[must_use]
    pub fn is_genuine(&self) -> bool {
        let Some(GapProof { signature, key }) = &self.proof else {
            return false;
        };
        UnparsedPublicKey::new(&ED25519, key)
            .verify(&self.message(), signature)
            .is_ok()
    }

    /// Returns the signed message: a name for its kind, then every number in network order.
    fn message(&self) -> Vec<u8> {
        let mut message = b"crawlgate gap 1\0".to_vec();
        message.extend_from_slice(&self.first.to_be_bytes());
        message.extend_from_slice(&self.last.to_be_bytes());
        message.extend_from_slice(&self.before);
        message.extend_from_slice(&self.after);
        message.extend_from_slice(&self.time.as_millis().to_be_bytes());
        message
    }
}

/// The key that seals, kept outside the store.
pub struct SealingKey {
    pair: Ed25519KeyPair,
}

impl SealingKey {
    /// Returns a new key.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn generate() -> Result<Self, StoreError> {
        let pair = Ed25519KeyPair::generate().map_err(|_| no_key("no randomness for a new key"))?;
        Ok(Self { pair })
    }

    /// Loads the key from the file at `path` (PEM, PKCS #8), and creates the file if there is none.
    ///
    /// # Errors
    /// When the file cannot be read or written, is open to others, or holds no such key.
    pub fn load_or_create(path: &Path) -> Result<Self, StoreError> {
        match Self::load(path) {
            Err(error) if error.kind == StoreErrorKind::Missing => {}
            done => return done,
        }
        let key = Self::generate()?;
        let failed = |error: &dyn fmt::Display| {
            no_key(&format!(
                "{}: {error}; the key that seals the records is kept there, beside the store: \
                 let this user write there, or set [store] path to another place",
                path.display()
            ))
        };
        let pkcs8 = key.pair.to_pkcs8v1().map_err(|error| failed(&error))?;
        let made = fs::File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .and_then(|mut file| {
                io::Write::write_all(&mut file, pem("PRIVATE KEY", pkcs8.as_ref()).as_bytes())?;
                file.sync_all()?;
                sync_folder(path)
            });
        match made {
            Ok(()) => Ok(key),
            // Another process was faster: the store uses that key.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::load(path),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Loads the key from the file at `path`.
    ///
    /// # Errors
    /// When the file is missing, cannot be read, is open to others, or holds no such key.
    pub fn load(path: &Path) -> Result<Self, StoreError> {
        let told = |kind, what: &dyn fmt::Display, advice: &str| StoreError {
            kind,
            message: format!("{}: {what}; {advice}", path.display()),
        };
        let unreadable = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => told(
                StoreErrorKind::Missing,
                &"there is no key that seals the records",
                "it is made when the store is first written",
            ),
            _ => told(
                StoreErrorKind::Denied,
                &error,
                "the key that seals the records is kept there: let this user read it",
            ),
        };
        // Check before opening: opening a pipe would wait for ever.
        let found = fs::metadata(path).map_err(unreadable)?;
        if !found.is_file() {
            return Err(told(
                StoreErrorKind::Denied,
                &format!("this is {}", super::sqlite::kind_of(&found)),
                "the key that seals the records is kept there: move it away",
            ));
        }
        let file = fs::File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(told(
                StoreErrorKind::Denied,
                &format!("the key that seals the records is open to others (mode {mode:o})"),
                "chmod 600 it",
            ));
        }
        let mut text = String::new();
        file.take(1 << 16)
            .read_to_string(&mut text)
            .map_err(unreadable)?;
        let der = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).ok();
        let pair = der.and_then(|der| Ed25519KeyPair::from_pkcs8(der.secret_pkcs8_der()).ok());
        let pair = pair.ok_or_else(|| {
            told(
                StoreErrorKind::Corrupt,
                &"this is no Ed25519 key in PEM",
                "restore it; or, if it is lost, move it away: a new one is made then and seals from then on, and what the \
                 old one has sealed is checked with its public half (`crawlgate audit verify --key`, for each of them)",
            )
        })?;
        Ok(Self { pair })
    }

    /// Returns the public key, with which others check a seal.
    #[must_use]
    pub fn public(&self) -> [u8; 32] {
        array(self.pair.public_key().as_ref())
    }

    /// Seals the chain from `start` to its head, the link `hash` of record `seq`.
    #[must_use]
    pub fn seal(&self, seq: u64, hash: Sha256, start: (u64, Sha256), now: Moment) -> Seal {
        let signature = self.pair.sign(&message(seq, &hash, now, &start));
        Seal {
            seq,
            hash,
            time: now,
            start,
            signature: array(signature.as_ref()),
            key: self.public(),
        }
    }
}

impl SealingKey {
    /// Signs the removal of the records `first` to `last`, between the links `before` and `after`.
    #[must_use]
    pub fn gap(&self, first: u64, last: u64, before: Sha256, after: Sha256, now: Moment) -> Gap {
        let gap = Gap {
            first,
            last,
            before,
            after,
            time: now,
            proof: None,
        };
        let signature = array(self.pair.sign(&gap.message()).as_ref());
        let key = self.public();
        Gap {
            proof: Some(GapProof { signature, key }),
            ..gap
        }
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealingKey").finish_non_exhaustive()
    }
}

/// Returns the place of a store's key: beside the store, `crawlgate.seal.key` for `crawlgate.db`.
#[must_use]
pub fn key_file(store: &Path) -> PathBuf {
    store.with_extension("seal.key")
}

fn no_key(what: &str) -> StoreError {
    StoreError {
        kind: StoreErrorKind::Denied,
        message: what.to_owned(),
    }
}

/// Makes the names in the folder of `path` outlive a power cut.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Returns the octets as an array of their known length; cut or filled with zeros if the length differs.
fn array<const N: usize>(octets: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    for (to, from) in array.iter_mut().zip(octets) {
        *to = *from;
    }
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_depends_on_all_before_it() {
        let chain = |records: &[&str]| {
            records
                .iter()
                .fold(GENESIS, |head, record| link(&head, record.as_bytes()))
        };
        let head = chain(&["a", "b", "c"]);
        for (name, other) in [
            ("a changed one", chain(&["a", "B", "c"])),
            ("one taken out", chain(&["a", "c"])),
            ("one put in", chain(&["a", "b", "b", "c"])),
            ("another order", chain(&["b", "a", "c"])),
        ] {
            assert_ne!(head, other, "{name}");
        }
        let of_32_zero_octets = "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925";
        assert_eq!(crate::text::hex(link(&GENESIS, b"")), of_32_zero_octets);
    }

    #[test]
    fn a_seal_holds_for_the_sealed_content_alone() {
        let key = SealingKey::generate().unwrap();
        let seal = key.seal(7, [1; 32], (3, [2; 32]), Moment::from_millis(5));
        assert!(seal.is_genuine());
        type Forgery = fn(&mut Seal);
        let forgeries: [(&str, Forgery); 7] = [
            ("another head", |seal| seal.seq += 1),
            ("another link", |seal| seal.hash[0] ^= 1),
            ("another time", |seal| seal.time = Moment::from_millis(6)),
            ("another start", |seal| seal.start.0 += 1),
            ("another link before it", |seal| seal.start.1[31] ^= 1),
            ("another signature", |seal| seal.signature[0] ^= 1),
            ("another key", |seal| {
                seal.key = SealingKey::generate().unwrap().public();
            }),
        ];
        for (name, forge) in forgeries {
            let mut forged = seal.clone();
            forge(&mut forged);
            assert!(!forged.is_genuine(), "{name}");
        }
    }

    #[test]
    fn a_key_is_made_once_and_read_again_and_never_open_to_others() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = key_file(&folder.path().join("crawlgate.db"));
        assert!(path.ends_with("crawlgate.seal.key"));
        let missing = SealingKey::load(&path).unwrap_err();
        assert_eq!(missing.kind, StoreErrorKind::Missing);

        let made = SealingKey::load_or_create(&path).unwrap();
        let read = SealingKey::load_or_create(&path).unwrap();
        assert_eq!(made.public(), read.public());
        let mode = fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let exposed = SealingKey::load_or_create(&path).unwrap_err();
        assert!(exposed.message.contains("chmod 600"), "{exposed}");

        fs::remove_file(&path).unwrap();
        fs::write(&path, "nonsense").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let nonsense = SealingKey::load_or_create(&path).unwrap_err();
        assert_eq!(nonsense.kind, StoreErrorKind::Corrupt, "{nonsense}");
    }
}
