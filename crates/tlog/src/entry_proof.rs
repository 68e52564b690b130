//! The proof of one entry as a text: index, path and checkpoint (c2sp.org/tlog-proof@v1, text of July 2026).
//!
//! With the text, the entry and the key of the log a stranger checks without the log that the entry is in it. Witnesses
//! that have cosigned the checkpoint vouch for its time, and for one log that everyone sees.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

use super::checkpoint::{Checkpoint, CheckpointError, decimal};
use super::hash::{Hash, hash_from_text, hash_text};
use super::key::VerifierKey;
use super::note::{MAX_NOTE, Note};
use super::proof::{InclusionProof, ProofError};
use super::signature::Verified;
use super::tree::MAX_SIZE;

/// The first line.
const FORMAT: &str = "c2sp.org/tlog-proof@v1";

/// Hashes of the longest path.
const MAX_PATH: usize = 63;

/// The proof that an entry is in a log. `Display` writes the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryProof {
    /// Data of the application. No signature covers it.
    pub extra: Option<Vec<u8>>,
    /// The place of the entry in the log, from 0.
    pub index: u64,
    /// The siblings on the way from the leaf to the root.
    pub path: Vec<Hash>,
    /// The checkpoint with all its signatures.
    pub checkpoint: Note,
}

/// The reason why a text is no proof, or proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EntryProofError {
    /// The text is longer than a note may be.
    #[error("the proof has {0} octets, more than {MAX_NOTE}")]
    Long(usize),
    /// A line before the checkpoint is malformed, or missing.
    #[error("line {0} of the proof is malformed")]
    Line(usize),
    /// The checkpoint does not hold.
    #[error("the checkpoint of the proof: {0}")]
    Checkpoint(#[from] CheckpointError),
    /// The path does not lead from the entry to the root.
    #[error(transparent)]
    Path(#[from] ProofError),
}

impl EntryProof {
    /// Joins the proof of inclusion and the checkpoint of the same size.
    #[must_use]
    pub fn new(proof: InclusionProof, checkpoint: Note) -> Self {
        Self { extra: None, index: proof.index, path: proof.path, checkpoint }
    }

    /// Reads the text. The proof is still to be verified.
    ///
    /// # Errors
    /// When `Display` would write another text, or the limits are exceeded.
    pub fn parse(octets: &[u8]) -> Result<Self, EntryProofError> {
        if octets.len() > MAX_NOTE {
            return Err(EntryProofError::Long(octets.len()));
        }
        let bad_line = |line| move || EntryProofError::Line(line);
        let text = str::from_utf8(octets).map_err(|_| EntryProofError::Line(1))?;
        let (head, checkpoint) = text.split_once("\n\n").ok_or_else(bad_line(1))?;
        let mut lines = (1..).zip(head.split('\n')).peekable();
        lines.next_if(|(_, line)| *line == FORMAT).ok_or_else(bad_line(1))?;
        let extra = lines
            .next_if(|(_, line)| line.starts_with("extra "))
            .map(|(_, line)| {
                let encoded = line.strip_prefix("extra ").unwrap_or_default();
                STANDARD.decode(encoded).map_err(|_| EntryProofError::Line(2))
            })
            .transpose()?;
        let (number, line) = lines.next().ok_or_else(bad_line(2))?;
        let index = line.strip_prefix("index ").and_then(decimal);
        let index = index.filter(|index| *index < MAX_SIZE);
        let index = index.ok_or_else(bad_line(number))?;
        let mut path = Vec::new();
        for (number, line) in lines {
            let hash = hash_from_text(line).filter(|_| path.len() < MAX_PATH);
            path.push(hash.ok_or_else(bad_line(number))?);
        }
        let checkpoint = Note::parse(checkpoint.as_bytes()).map_err(CheckpointError::from)?;
        Ok(Self { extra, index, path, checkpoint })
    }

    /// Checks that the entry with this leaf hash is in the log, and returns the checkpoint with the signatures that hold.
    ///
    /// `keys` are the known keys of logs and witnesses, from another source than the proof. The caller compares the name
    /// of the log and decides how many cosignatures it wants.
    ///
    /// # Errors
    /// When the checkpoint does not hold, or the path does not lead from the entry to its root.
    pub fn verify<'k>(
        &self,
        leaf: &Hash,
        keys: &'k [VerifierKey],
    ) -> Result<(Checkpoint, Vec<Verified<'k>>), EntryProofError> {
        let (checkpoint, verified) = Checkpoint::open(&self.checkpoint, keys)?;
        let proof =
            InclusionProof { index: self.index, size: checkpoint.size, path: self.path.clone() };
        proof.verify(leaf, &checkpoint.root)?;
        Ok((checkpoint, verified))
    }
}

impl fmt::Display for EntryProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FORMAT}")?;
        if let Some(extra) = &self.extra {
            writeln!(f, "extra {}", STANDARD.encode(extra))?;
        }
        writeln!(f, "index {}", self.index)?;
        for hash in &self.path {
            writeln!(f, "{}", hash_text(hash))?;
        }
        write!(f, "\n{}", self.checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{cosign, leaves, pair, prover, signer};
    use crate::{NoteError, Tree};

    /// Returns the proof of entry 2 of 5, cosigned, and the known keys.
    fn example() -> (EntryProof, Vec<VerifierKey>) {
        let pair = pair(1);
        let log = signer("log", &pair);
        let leaves = leaves(5);
        let mut note = log.checkpoint(5, Tree::root_of(&leaves));
        let (witness, cosignature) = cosign(note.text(), "witness", 3, 9);
        note.push(cosignature).unwrap();
        let proof = EntryProof::new(prover(&leaves).inclusion(2).unwrap(), note);
        (proof, vec![log.key().clone(), witness])
    }

    #[test]
    fn a_proof_is_written_read_and_verified() {
        let (mut proof, keys) = example();
        for extra in [None, Some(vec![]), Some(b"extra".to_vec())] {
            proof.extra = extra;
            let text = proof.to_string();
            let read = EntryProof::parse(text.as_bytes()).unwrap();
            assert_eq!((&read, read.to_string()), (&proof, text));
            let (checkpoint, verified) = read.verify(&leaves(5)[2], &keys).unwrap();
            assert_eq!((checkpoint.size, verified.len()), (5, 2));
        }
        let (lines, checkpoint) = proof
            .to_string()
            .split_once("\n\n")
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap();
        let mut lines = lines.lines();
        assert_eq!(lines.next(), Some("c2sp.org/tlog-proof@v1"));
        assert_eq!(lines.next(), Some("extra ZXh0cmE="));
        assert_eq!(lines.next(), Some("index 2"));
        assert_eq!(lines.count(), 3);
        assert!(checkpoint.starts_with("log\n5\n"), "{checkpoint}");
    }

    #[test]
    fn a_proof_of_another_entry_or_log_does_not_hold() {
        let (proof, keys) = example();
        let leaves = leaves(5);
        let verify = |proof: &EntryProof, leaf: &Hash, keys| proof.verify(leaf, keys).map(|_| ());
        let wrong_root = Err(EntryProofError::Path(ProofError::Root));
        assert_eq!(verify(&proof, &leaves[2], &keys), Ok(()));
        assert_eq!(verify(&proof, &leaves[3], &keys), wrong_root);
        let mut moved = proof.clone();
        moved.index = 3;
        assert_eq!(verify(&moved, &leaves[2], &keys), wrong_root);
        moved.index = 5;
        let beyond = ProofError::OutOfTree { index: 5, size: 5 };
        assert_eq!(verify(&moved, &leaves[2], &keys), Err(beyond.into()));
        let unsigned = CheckpointError::Note(NoteError::Unsigned);
        assert_eq!(verify(&proof, &leaves[2], &[]), Err(unsigned.into()));
    }

    #[test]
    fn a_text_in_any_other_form_is_refused() {
        let text = example().0.to_string();
        let hash = hash_text(&[9; 32]);
        let long = format!("index 2\n{}", format!("{hash}\n").repeat(MAX_PATH - 2));
        let line = EntryProofError::Line;
        #[rustfmt::skip] // one row, one case
        let rows = [
            ("nothing", String::new(), line(1)),
            ("another version", text.replace("@v1", "@v2"), line(1)),
            ("a space before", format!(" {text}"), line(1)),
            ("carriage returns", text.replace('\n', "\r\n"), line(1)),
            ("no index", text.replace("index 2\n", ""), line(2)),
            ("a leading zero", text.replace("index 2", "index 02"), line(2)),
            ("no number", text.replace("index 2", "index "), line(2)),
            ("a number beyond 63 bits", text.replace("index 2", &format!("index {MAX_SIZE}")), line(2)),
            ("extra data without base64", text.replace("index 2", "extra !\nindex 2"), line(2)),
            ("extra data twice", text.replace("index 2", "extra AA==\nextra AA==\nindex 2"), line(3)),
            ("extra data behind the index", text.replace("index 2", "index 2\nextra AA=="), line(3)),
            ("a short hash", text.replace("index 2", "index 2\nAAAA"), line(3)),
            ("too many hashes", text.replace("index 2\n", &long), line(2 + MAX_PATH + 1)),
            ("no checkpoint", text.split_inclusive("\n\n").next().unwrap().to_owned(), EntryProofError::Checkpoint(NoteError::Form.into())),
            ("a checkpoint without signatures", text.split("\n— ").next().unwrap().to_owned(), EntryProofError::Checkpoint(NoteError::Form.into())),
            ("too long", "x".repeat(MAX_NOTE + 1), EntryProofError::Long(MAX_NOTE + 1)),
        ];
        for (name, text, why) in rows {
            assert_eq!(EntryProof::parse(text.as_bytes()), Err(why), "{name}");
        }
        assert_eq!(EntryProof::parse(b"\xff"), Err(line(1)));
    }
}
