//! Checkpoints: a signed note with the name, size and root of a log (c2sp.org/tlog-checkpoint@v1.0.0).

use std::fmt;

use thiserror::Error;

use super::hash::{Hash, hash_from_text, hash_text};
use super::key::{KeyKind, KeyName, VerifierKey};
use super::note::{Note, NoteError};
use super::signature::{Signer, Verified};
use super::tree::MAX_SIZE;

/// The size and root of a log, as its key has signed them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The name of the log, the first line of the note. It is the name of the signing key as well.
    pub origin: KeyName,
    /// Entries of the log.
    pub size: u64,
    /// The root of the tree over all of them.
    pub root: Hash,
}

/// The reason why a note is no checkpoint of a known log.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CheckpointError {
    /// The note does not hold.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// The text is not that of a checkpoint.
    #[error("the text is not name, size and root of a log")]
    Text,
    /// The signatures that hold are not of the log which the checkpoint names.
    #[error("no known key of {0} has signed the checkpoint")]
    Log(KeyName),
}

impl Checkpoint {
    /// Reads a note, checks the signatures of known keys, and returns the checkpoint with the signatures that hold.
    ///
    /// `keys` are the known keys of logs and witnesses. At least one Ed25519 key with the name of the log must have
    /// signed. The caller decides how many cosignatures it wants.
    ///
    /// # Errors
    /// When a known key has not made its signature, no key of the log has signed, or the text is no checkpoint.
    pub fn open<'k>(
        note: &Note,
        keys: &'k [VerifierKey],
    ) -> Result<(Self, Vec<Verified<'k>>), CheckpointError> {
        let verified = note.verify(keys)?;
        let checkpoint = Self::from_text(note.text()).ok_or(CheckpointError::Text)?;
        let origin = &checkpoint.origin;
        let is_log = |key: &VerifierKey| key.kind() == KeyKind::Ed25519 && key.name() == origin;
        if verified.iter().any(|one| is_log(one.key)) {
            Ok((checkpoint, verified))
        } else {
            Err(CheckpointError::Log(checkpoint.origin))
        }
    }

    /// Reads the text of a note, signed or not: name, size, root. Extension lines are allowed and left out.
    ///
    /// Returns `None` when the text is not that of a checkpoint.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        let (origin, size, root) = (lines.next()?, lines.next()?, lines.next()?);
        let checkpoint = Self {
            origin: origin.parse().ok()?,
            size: decimal(size).filter(|size| *size <= MAX_SIZE)?,
            root: hash_from_text(root)?,
        };
        lines.all(|line| !line.is_empty()).then_some(checkpoint)
    }
}

impl fmt::Display for Checkpoint {
    /// Writes the text to sign: three lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = hash_text(&self.root);
        writeln!(f, "{}\n{}\n{root}", self.origin, self.size)
    }
}

impl Signer<'_> {
    /// Signs the size and root of the log that has the name of this signer.
    ///
    /// The caller must not sign a tree that does not continue the last one it signed, nor one that it could still lose.
    /// For a second key of the log, it adds `second.sign(note.text())` to the note.
    #[must_use]
    pub fn checkpoint(&self, size: u64, root: Hash) -> Note {
        let origin = self.key().name().clone();
        let text = Checkpoint { origin, size, root }.to_string();
        let signature = self.sign(&text);
        Note::with(text, signature)
    }
}

/// Reads a decimal number that has no sign and no leading zero.
pub(super) fn decimal(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EMPTY_ROOT;
    use crate::tests::{cosign, pair, signer};

    #[test]
    fn the_published_checkpoint_is_read_and_written() {
        let note = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\
            — example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n\
            — witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n";
        let note = Note::parse(note.as_bytes()).unwrap();
        let checkpoint = Checkpoint::from_text(note.text()).unwrap();
        assert_eq!(checkpoint.origin.as_str(), "example.com/behind-the-sofa");
        assert_eq!(checkpoint.size, 20_852_163);
        assert_eq!(checkpoint.root[..3], [0x0a, 0xc5, 0x18]);
        assert_eq!(checkpoint.to_string(), note.text());
        assert_eq!(note.signatures().len(), 2);
    }

    #[test]
    fn a_text_that_is_no_checkpoint_is_refused() {
        let root = hash_text(&EMPTY_ROOT);
        let read = |text: &str| Checkpoint::from_text(text).map(|one| one.size);
        #[rustfmt::skip] // one row, one case
        let rows = [
            ("an empty log", format!("log\n0\n{root}\n"), Some(0)),
            ("the largest", format!("log\n{MAX_SIZE}\n{root}\n"), Some(MAX_SIZE)),
            ("extension lines", format!("log\n1\n{root}\nmore\nand more\n"), Some(1)),
            ("an empty extension line", format!("log\n1\n{root}\n\nmore\n"), None),
            ("an empty line at the end", format!("log\n1\n{root}\n\n"), None),
            ("no line feed", format!("log\n1\n{root}"), None),
            ("two lines", "log\n1\n".to_owned(), None),
            ("no name", format!("\n1\n{root}\n"), None),
            ("a space in the name", format!("a log\n1\n{root}\n"), None),
            ("no size", format!("log\n\n{root}\n"), None),
            ("a leading zero", format!("log\n01\n{root}\n"), None),
            ("a sign", format!("log\n+1\n{root}\n"), None),
            ("a negative size", format!("log\n-1\n{root}\n"), None),
            ("a size beyond 63 bits", format!("log\n{}\n{root}\n", MAX_SIZE + 1), None),
            ("a size beyond 64 bits", format!("log\n18446744073709551616\n{root}\n"), None),
            ("a short root", "log\n1\nAAAA\n".to_owned(), None),
            ("a space behind the root", format!("log\n1\n{root} \n"), None),
        ];
        for (name, text, want) in rows {
            assert_eq!(read(&text), want, "{name}");
        }
    }

    #[test]
    fn a_checkpoint_opens_with_a_key_of_its_log_alone() {
        let (pair, second) = (pair(1), pair(2));
        let (log, other) = (signer("log", &pair), signer("other", &second));
        let mut note = log.checkpoint(5, [7; 32]);
        note.push(other.sign(note.text())).unwrap();
        let (witness, cosignature) = cosign(note.text(), "witness", 3, 9);
        note.push(cosignature).unwrap();
        let open = |keys: &[&VerifierKey]| {
            let keys: Vec<_> = keys.iter().copied().cloned().collect();
            let opened = Checkpoint::open(&note, &keys);
            opened.map(|(checkpoint, verified)| (checkpoint.size, verified.len()))
        };
        let (log, other) = (log.key(), other.key());
        let no_log = Err(CheckpointError::Log("log".parse().unwrap()));
        assert_eq!(open(&[log]), Ok((5, 1)));
        assert_eq!(open(&[log, other, &witness]), Ok((5, 3)));
        assert_eq!(open(&[other]), no_log);
        assert_eq!(open(&[&witness]), no_log);
        assert_eq!(open(&[]), Err(NoteError::Unsigned.into()));
        // A witness that calls itself like the log is no log.
        let (namesake, cosignature) = cosign(note.text(), "log", 4, 9);
        let mut note = note.clone();
        note.push(cosignature).unwrap();
        let opened = Checkpoint::open(&note, std::slice::from_ref(&namesake));
        assert_eq!(opened.map(|_| ()), no_log.map(|_| ()));
    }

    #[test]
    fn a_note_that_is_no_checkpoint_does_not_open() {
        let pair = pair(1);
        let log = signer("log", &pair);
        let note = Note::sign("log\n5\n".to_owned(), &log).unwrap();
        let opened = Checkpoint::open(&note, std::slice::from_ref(log.key()));
        assert_eq!(opened.map(|_| ()), Err(CheckpointError::Text));
    }
}
