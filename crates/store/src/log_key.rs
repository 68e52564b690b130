//! The key of the decision log: it signs checkpoints, and lies outside the store.
//!
//! A process with write access to the store could write the whole log anew. A [`StoredCheckpoint`] is a signed size and
//! root of the log (see [`crawlgate_tlog`]); a log written anew later does not lead to the roots that were signed before. It
//! proves that, without the key, no entry below its size was altered, removed or inserted since. It proves neither that
//! the entries were true when they were written, nor that entries after the last checkpoint are complete.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};

use super::{Sha256, StoreError, StoreErrorKind};
use crawlgate_system::atomic_file::{PrivateFileError, place, read_private, replace};
use crawlgate_system::clock::Moment;
use crawlgate_text::{hex, pem};
use crawlgate_tlog::{Checkpoint, KeyError, KeyKind, KeyName, Note, Signer, VerifierKey};

/// A signed size and root of the log, as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// Entries of the log.
    pub size: u64,
    /// Time of the signature by our own clock. No signature covers it.
    pub time: Moment,
    /// The signed note with all its signatures (c2sp.org/tlog-checkpoint).
    pub note: String,
}

impl StoredCheckpoint {
    /// Reads what the note says, without a look at its signatures.
    #[must_use]
    pub fn content(&self) -> Option<Checkpoint> {
        let note = Note::parse(self.note.as_bytes()).ok()?;
        Checkpoint::from_text(note.text())
    }

    /// Tells whether witnesses have added their lines. The lines are still to be verified.
    #[must_use]
    pub fn is_cosigned(&self) -> bool {
        self.cosignatures() > 0
    }

    /// Returns the number of lines that witnesses have added. The lines are still to be verified.
    #[must_use]
    pub fn cosignatures(&self) -> usize {
        // Several keys of the log may have signed, under its name.
        let log = self.note.lines().next();
        let lines = self.note.lines();
        let signatures = lines.filter_map(|line| line.strip_prefix("— "));
        let of_others = signatures.filter(|line| line.split(' ').next() != log);
        of_others.count()
    }

    /// Returns those of these witnesses that have cosigned it, each with the time at which it saw the log.
    #[must_use]
    pub fn cosigned<'k>(&self, witnesses: &'k [VerifierKey]) -> Vec<(&'k VerifierKey, Moment)> {
        let Ok(note) = Note::parse(self.note.as_bytes()) else {
            return Vec::new();
        };
        let held = note.holding(witnesses).into_iter();
        let seen = |seconds: u64| Moment::from_millis(seconds.saturating_mul(1_000));
        held.filter_map(|one| Some((one.key, seen(one.time?)))).collect()
    }

    /// Returns the time by which `quorum` of these witnesses have cosigned it, or `None` if fewer have.
    #[must_use]
    pub fn witnessed(&self, witnesses: &[VerifierKey], quorum: usize) -> Option<Moment> {
        // Most checkpoints have too few lines: no signature is verified then.
        if self.note.matches("\n— ").count() <= quorum {
            return None;
        }
        let mut times: Vec<Moment> = self.cosigned(witnesses).iter().map(|one| one.1).collect();
        times.sort_unstable();
        times.get(quorum.checked_sub(1)?).copied()
    }
}

/// Returns the newest checkpoint that `quorum` of these witnesses have cosigned, and the time by which they had.
#[must_use]
pub fn last_witnessed<'c>(
    checkpoints: &'c [StoredCheckpoint],
    witnesses: &[VerifierKey],
    quorum: usize,
) -> Option<(&'c StoredCheckpoint, Moment)> {
    let mut newest_first = checkpoints.iter().rev();
    newest_first.find_map(|one| Some((one, one.witnessed(witnesses, quorum)?)))
}

/// The key of the log, those that it has replaced, and the name under which they sign.
pub struct LogKey {
    /// The present key first.
    pair: Ed25519KeyPair,
    /// Earlier keys, the newest first.
    earlier: Vec<Ed25519KeyPair>,
    name: KeyName,
}

/// The line of a key's file that names the log, where its name does not follow from the key.
const NAME_LINE: &str = "log: ";

impl LogKey {
    /// Returns a new key. Without a name, the log is named after the key.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn generate(name: Option<KeyName>) -> Result<Self, StoreError> {
        let pair = Ed25519KeyPair::generate().map_err(|_| no_key("no randomness for a new key"))?;
        Self::of(pair, Vec::new(), name)
    }

    fn of(
        pair: Ed25519KeyPair,
        earlier: Vec<Ed25519KeyPair>,
        name: Option<KeyName>,
    ) -> Result<Self, StoreError> {
        let name = match name {
            Some(name) => name,
            None => default_name(pair.public_key().as_ref())?,
        };
        Ok(Self { pair, earlier, name })
    }

    /// Returns a new key for the same log, which keeps the present keys as earlier ones.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub(crate) fn successor(&self) -> Result<Self, StoreError> {
        let copy = |pair: &Ed25519KeyPair| {
            let pkcs8 = pair.to_pkcs8v1();
            let pkcs8 = pkcs8.map_err(|error| no_key(&error.to_string()))?;
            let copy = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref());
            copy.map_err(|error| no_key(&error.to_string()))
        };
        let earlier = [&self.pair].into_iter().chain(&self.earlier).map(copy);
        let earlier = earlier.collect::<Result<_, _>>()?;
        let pair = Ed25519KeyPair::generate().map_err(|_| no_key("no randomness for a new key"))?;
        Self::of(pair, earlier, Some(self.name.clone()))
    }

    /// Writes the keys and the name of the log into a file, in the place of one that is there.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = format!("{NAME_LINE}{}\n", self.name);
        for pair in [&self.pair].into_iter().chain(&self.earlier) {
            let pkcs8 = pair.to_pkcs8v1().map_err(io::Error::other)?;
            text += &pem("PRIVATE KEY", pkcs8.as_ref());
        }
        replace(path, &text)
    }

    /// Loads the key from the file at `path` (PEM, PKCS #8), and creates the file if it is missing.
    ///
    /// # Errors
    /// When the file cannot be read or written, is open to others, or holds no such key.
    pub fn load_or_create(path: &Path, name: Option<KeyName>) -> Result<Self, StoreError> {
        match Self::load(path, name.clone()) {
            Err(error) if error.kind == StoreErrorKind::Missing => {}
            done => return done,
        }
        let key = Self::generate(name.clone())?;
        let failed = |error: &dyn fmt::Display| {
            no_key(&format!(
                "{}: {error}; the key that signs the log is kept there, beside the store: let this user write there, or \
                 set [store] path to another place",
                path.display()
            ))
        };
        let pkcs8 = key.pair.to_pkcs8v1().map_err(|error| failed(&error))?;
        match place(path, &pem("PRIVATE KEY", pkcs8.as_ref())) {
            Ok(true) => Ok(key),
            // Another process was faster: the store uses that key.
            Ok(false) => Self::load(path, name),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Loads the key from the file at `path`.
    ///
    /// # Errors
    /// When the file is missing, cannot be read, is open to others, or holds no such key.
    pub fn load(path: &Path, name: Option<KeyName>) -> Result<Self, StoreError> {
        let store_error = |kind: StoreErrorKind, what: &dyn fmt::Display, advice: &str| {
            kind.at(path, format_args!("{what}; {advice}"))
        };
        let text = read_private(path).map_err(|error| match error {
            PrivateFileError::Missing => store_error(
                StoreErrorKind::Missing,
                &"there is no key that signs the log",
                "it is made when the store is first written",
            ),
            PrivateFileError::NotAFile(kind) => store_error(
                StoreErrorKind::Denied,
                &format!("this is {}", super::sqlite::kind_of(kind)),
                "the key that signs the log is kept there: move it away",
            ),
            PrivateFileError::Exposed(mode) => store_error(
                StoreErrorKind::Denied,
                &format!("the key that signs the log is open to others (mode {mode:o})"),
                "chmod 600 it",
            ),
            PrivateFileError::Unreadable(error) => store_error(
                StoreErrorKind::Denied,
                &error,
                "the key that signs the log is kept there: let this user read it",
            ),
        })?;
        let pairs = PrivatePkcs8KeyDer::pem_slice_iter(text.as_bytes()).map(|der| {
            let der = der.ok()?;
            Ed25519KeyPair::from_pkcs8(der.secret_pkcs8_der()).ok()
        });
        let pairs: Option<Vec<_>> = pairs.collect();
        let mut pairs = pairs.unwrap_or_default().into_iter();
        let named = text.lines().find_map(|line| line.strip_prefix(NAME_LINE));
        let named = named.map(str::parse).transpose();
        let (Some(pair), Ok(named)) = (pairs.next(), named) else {
            return Err(store_error(
                StoreErrorKind::Corrupt,
                &"this is no Ed25519 key in PEM",
                "restore it; or, if it is lost, move it away: a new one is made then and signs from then on, and what the \
                 old one has signed is checked with its public half (`crawlgate audit verify --key`, for each of them)",
            ));
        };
        Self::of(pair, pairs.collect(), name.or(named))
    }

    /// Returns the name of the log.
    #[must_use]
    pub const fn name(&self) -> &KeyName {
        &self.name
    }

    /// Returns the public half with the name, with which others check a checkpoint.
    #[must_use]
    pub fn vkey(&self) -> VerifierKey {
        self.signer().key().clone()
    }

    /// Returns the signer of the log.
    #[must_use]
    pub fn signer(&self) -> Signer<'_> {
        Signer::new(self.name.clone(), &self.pair)
    }

    /// Returns the signers of all keys, the present one first.
    pub(crate) fn signers(&self) -> impl Iterator<Item = Signer<'_>> {
        let pairs = [&self.pair].into_iter().chain(&self.earlier);
        pairs.map(|pair| Signer::new(self.name.clone(), pair))
    }

    /// Returns the public halves of all keys, the present one first.
    #[must_use]
    pub fn vkeys(&self) -> Vec<VerifierKey> {
        self.signers().map(|signer| signer.key().clone()).collect()
    }

    /// Signs size and root of the log. See [`Signer::checkpoint`] for the duty of the caller.
    #[must_use]
    pub fn checkpoint(&self, size: u64, root: Sha256) -> Note {
        self.signer().checkpoint(size, root)
    }
}

impl fmt::Debug for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogKey").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Returns the place of a store's key: beside the store, `crawlgate.log.key` for `crawlgate.db`.
#[must_use]
pub fn log_key_file(store: &Path) -> PathBuf {
    store.with_extension("log.key")
}

/// Returns the place of a new key until it is in the place of the old one: `crawlgate.log.key.next` for `crawlgate.db`.
pub(crate) fn next_key_file(store: &Path) -> PathBuf {
    store.with_extension("log.key.next")
}

/// Returns the key with this public half, under the name of a log without a configured one.
pub(crate) fn default_key(public: [u8; 32]) -> Result<VerifierKey, StoreError> {
    let name = default_name(&public)?;
    Ok(VerifierKey::new(name, KeyKind::Ed25519, public))
}

/// Returns the name for a log that neither a key nor a checkpoint names.
pub(crate) fn unknown_name() -> Result<KeyName, StoreError> {
    "unknown".parse().map_err(|error: KeyError| no_key(&error.to_string()))
}

/// Returns the name of a log without a configured one: `crawlgate/` and the beginning of the public key's SHA-256.
fn default_name(public: &[u8]) -> Result<KeyName, StoreError> {
    let mut digits = hex(digest(&SHA256, public));
    digits.truncate(16);
    let name = format!("crawlgate/{digits}");
    name.parse().map_err(|error| no_key(&format!("{name}: {error}")))
}

fn no_key(what: &str) -> StoreError {
    StoreErrorKind::Denied.error(what.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crawlgate_tlog::{Checkpoint, EMPTY_ROOT};

    #[test]
    fn a_key_is_made_once_and_read_again_and_never_open_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = log_key_file(&folder.path().join("crawlgate.db"));
        assert!(path.ends_with("crawlgate.log.key"));
        let missing = LogKey::load(&path, None).unwrap_err();
        assert_eq!(missing.kind, StoreErrorKind::Missing);

        let made = LogKey::load_or_create(&path, None).unwrap();
        let read = LogKey::load_or_create(&path, None).unwrap();
        assert_eq!(made.vkey(), read.vkey());
        let mode = fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);

        let named = Some("logs.example.org/fra-1".parse().unwrap());
        let named = LogKey::load(&path, named).unwrap();
        assert_eq!(named.vkey().public(), made.vkey().public());
        assert_eq!(named.vkey().name().as_str(), "logs.example.org/fra-1");

        type Change = fn(&Path);
        #[rustfmt::skip] // one row, one case
        let rows: [(&str, Change, StoreErrorKind, &str); 4] = [
            ("open to others", |path| mode_of(path, 0o644), StoreErrorKind::Denied, "chmod 600"),
            ("nonsense", |path| { fs::write(path, "nonsense").unwrap(); mode_of(path, 0o600); }, StoreErrorKind::Corrupt, "restore it"),
            ("empty", |path| fs::write(path, "").unwrap(), StoreErrorKind::Corrupt, "restore it"),
            ("a folder", |path| { fs::remove_file(path).unwrap(); fs::create_dir(path).unwrap(); }, StoreErrorKind::Denied, "move it away"),
        ];
        for (name, change, kind, advice) in rows {
            change(&path);
            let error = LogKey::load_or_create(&path, None).unwrap_err();
            assert_eq!(error.kind, kind, "{name}");
            assert!(error.message.contains(advice), "{name}: {error}");
        }
    }

    fn mode_of(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_checkpoint_is_witnessed_by_as_many_as_the_quorum() {
        let key = LogKey::generate(Some("log".parse().unwrap())).unwrap();
        let checkpoint = |size, by: &[(&str, u8, u64)]| {
            let mut note = key.checkpoint(size, [7; 32]);
            for (name, seed, time) in by {
                let line = crawlgate_tlog::samples::cosign(note.text(), name, *seed, *time).1;
                note.push(line).unwrap();
            }
            StoredCheckpoint { size, time: Moment::from_millis(0), note: note.to_string() }
        };
        let vkey = |name, seed| crawlgate_tlog::samples::cosign("log\n", name, seed, 1).0;
        let known = [vkey("a", 1), vkey("b", 2), vkey("c", 3)];
        let all = [
            checkpoint(1, &[("a", 1, 30), ("b", 2, 10), ("c", 3, 20)]),
            checkpoint(2, &[("b", 2, 50), ("a", 1, 40)]),
            // A stranger, and a namesake with another key.
            checkpoint(3, &[("c", 3, 60), ("stranger", 4, 60), ("a", 9, 60)]),
            checkpoint(4, &[]),
        ];
        let last = |quorum| {
            let found = last_witnessed(&all, &known, quorum);
            found.map(|(one, time)| (one.size, time.as_millis() / 1_000))
        };
        let found = [0, 1, 2, 3, 4].map(last);
        let want = [None, Some((3, 60)), Some((2, 50)), Some((1, 30)), None];
        assert_eq!(found, want);
        assert_eq!(last_witnessed(&all, &[], 1), None);
    }

    #[test]
    fn a_log_without_a_name_is_named_after_its_key() {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        let key = LogKey::of(pair, Vec::new(), None).unwrap();
        let of_key = hex(digest(&SHA256, key.vkey().public()));
        assert_eq!(key.name().as_str(), format!("crawlgate/{}", &of_key[..16]));
        let note = key.checkpoint(0, EMPTY_ROOT);
        let keys = [key.vkey().to_string().parse().unwrap()];
        let (checkpoint, _) = Checkpoint::open(&note, &keys).unwrap();
        assert_eq!((&checkpoint.origin, checkpoint.size), (key.name(), 0));
        let other = LogKey::generate(None).unwrap();
        assert_ne!(other.name(), key.name());
        let shown = format!("{key:?}");
        assert!(shown.ends_with(", .. }") && !shown.contains("pair"), "{shown}");
    }
}
