//! The proof that one entry is in the log: its path to the newest checkpoint that covers it.

use super::keys::Keys;
use crawlgate_store::StoredCheckpoint;
use crawlgate_tlog::{Checkpoint, InclusionProof, Note, ProofError, leaf_hash};

/// The newest trusted checkpoint that covers an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoveringCheckpoint {
    /// Name, size and root, as signed.
    pub checkpoint: Checkpoint,
    /// The note with all its signatures.
    pub note: Note,
}

impl CoveringCheckpoint {
    /// Returns the newest checkpoint that covers the entry `index` and that one of `keys` has signed; `None` if there is
    /// none. Damaged checkpoints, and those of other keys, do not count.
    #[must_use]
    pub fn of(index: u64, checkpoints: &[StoredCheckpoint], keys: &Keys) -> Option<Self> {
        Self::first_by(index, checkpoints, keys, |one| (false, one.size))
    }

    /// Returns the same, but rather an older checkpoint that witnesses have cosigned than a newer one without them: they
    /// vouch for it as the log by itself cannot.
    #[must_use]
    pub fn witnessed(index: u64, checkpoints: &[StoredCheckpoint], keys: &Keys) -> Option<Self> {
        Self::first_by(index, checkpoints, keys, |one| {
            (one.is_cosigned(), one.size)
        })
    }

    fn first_by(
        index: u64,
        checkpoints: &[StoredCheckpoint],
        keys: &Keys,
        rank: impl Fn(&StoredCheckpoint) -> (bool, u64),
    ) -> Option<Self> {
        let mut covering: Vec<_> = checkpoints.iter().filter(|one| one.size > index).collect();
        covering.sort_by_cached_key(|one| std::cmp::Reverse(rank(one)));
        covering.into_iter().find_map(|one| {
            let note = Note::parse(one.note.as_bytes()).ok()?;
            let (checkpoint, _) = Checkpoint::open(&note, &keys.at(one.size)).ok()?;
            (checkpoint.size == one.size).then_some(Self { checkpoint, note })
        })
    }

    /// Checks that the entry stands in the log where the proof says.
    ///
    /// # Errors
    /// When the path does not lead from the entry to the root of the checkpoint.
    pub fn verify(&self, entry: &[u8], proof: &InclusionProof) -> Result<(), ProofError> {
        // The path says nothing about the size: the signed one counts.
        let proof = InclusionProof {
            size: self.checkpoint.size,
            ..proof.clone()
        };
        proof.verify(&leaf_hash(entry), &self.checkpoint.root)
    }
}
