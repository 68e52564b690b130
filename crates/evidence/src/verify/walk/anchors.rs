//! Earlier statements about the log: checkpoints, of the store and kept elsewhere, and the state file.

use std::collections::BTreeMap;

use super::super::fault::{Anchor, LogFault};
use super::super::keys::Keys;
use super::log_tree::{Agreement, LogTree};
use crawlgate_store::StoredCheckpoint;
use crawlgate_tlog::{
    Checkpoint, CheckpointError, ConsistencyProof, Hash, Note, NoteError, VerifierKey,
};

/// Statements about the log to compare it with.
#[derive(Clone, Debug, Default)]
pub struct Known<'a> {
    /// The trusted keys of the log. Without any, no checkpoint is trusted.
    pub keys: Keys,
    /// The checkpoints of the store.
    pub checkpoints: &'a [StoredCheckpoint],
    /// Checkpoints that were kept elsewhere.
    pub kept: &'a [Note],
    /// Size and root of the log as the state file says.
    pub written: Option<(u64, Hash)>,
}

/// A size of the log and its root.
#[derive(Clone, Copy, Debug)]
struct Claim {
    size: u64,
    root: Hash,
    by: Anchor,
}

#[derive(Debug)]
pub(super) struct Anchors {
    /// Claims about sizes to come, the next one last.
    claims: Vec<Claim>,
    /// Signed claims that the walk passed without a comparison.
    passed: Vec<Claim>,
    /// Contradictions since the last claim that agreed.
    strayed: Vec<Anchor>,
    signed: Option<u64>,
    agreeing: u64,
    differing: u64,
}

impl Anchors {
    pub(super) fn of(known: &Known<'_>, faults: &mut Vec<LogFault>) -> Self {
        let mut claims = Vec::with_capacity(known.checkpoints.len() + known.kept.len() + 1);
        // One sentence about all checkpoints of one unknown key.
        let mut unknown_keys: BTreeMap<(String, bool), (u64, u64)> = BTreeMap::new();
        let mut open = |note: &Note, size: u64, by| {
            let claim = match Checkpoint::open(note, &known.keys.at(size)) {
                Ok((checkpoint, _)) if checkpoint.size == size => {
                    Claim { size, root: checkpoint.root, by }
                }
                Ok(_) | Err(CheckpointError::Text) => return Some(LogFault::Note { size, by }),
                Err(CheckpointError::Note(NoteError::Invalid(_))) => {
                    return Some(LogFault::Signature { size, by });
                }
                Err(CheckpointError::Note(_) | CheckpointError::Log(_)) => {
                    let signature = note.signatures().first();
                    let name = signature.map_or("", |signature| signature.name().as_str());
                    let is_renamed = is_renamed(note, &known.keys.at(size));
                    let unknown = (name.to_owned(), is_renamed);
                    let (_, count) = unknown_keys.entry(unknown).or_insert((size, 0));
                    *count += 1;
                    return None;
                }
            };
            claims.push(claim);
            None
        };
        for one in known.checkpoints {
            let (size, by) = (one.size, Anchor::Checkpoint(one.time));
            faults.extend(match Note::parse(one.note.as_bytes()) {
                Ok(note) => open(&note, size, by),
                Err(_) => Some(LogFault::Note { size, by }),
            });
        }
        for note in known.kept {
            let checkpoint = Checkpoint::from_text(note.text());
            let size = checkpoint.map_or(0, |checkpoint| checkpoint.size);
            faults.extend(open(note, size, Anchor::Kept));
        }
        let unknown_keys = unknown_keys.into_iter();
        faults.extend(unknown_keys.map(|((name, is_renamed), (size, count))| LogFault::Key {
            name,
            size,
            count,
            is_renamed,
        }));
        let written = known.written.map(|(size, root)| Claim { size, root, by: Anchor::Written });
        claims.extend(written);
        claims.sort_by_key(|claim| std::cmp::Reverse(claim.size));
        Self {
            claims,
            passed: Vec::new(),
            strayed: Vec::new(),
            signed: None,
            agreeing: 0,
            differing: 0,
        }
    }

    /// Returns the size of the next claim.
    pub(super) fn next(&self) -> Option<u64> {
        self.claims.last().map(|claim| claim.size)
    }

    /// Compares the claims about the present size, and puts those about smaller ones aside.
    pub(super) fn compare(&mut self, log_tree: &mut LogTree, faults: &mut Vec<LogFault>) {
        let size = log_tree.size();
        while let Some(claim) = self.claims.pop_if(|claim| claim.size <= size) {
            let agreement =
                if claim.size == size { log_tree.ask(&claim.root) } else { Agreement::Unknown };
            match agreement {
                Agreement::Unknown if claim.by.is_signed() => self.passed.push(claim),
                Agreement::Unknown => {}
                Agreement::Entries | Agreement::Roots if claim.by.is_signed() => {
                    log_tree.settle(agreement, faults);
                    self.agree(size);
                }
                // The state file is not signed, so it confirms nothing.
                Agreement::Entries | Agreement::Roots => {}
                Agreement::Neither => {
                    if claim.by.is_signed() {
                        log_tree.settle(agreement, faults);
                    }
                    self.differ(claim, faults);
                }
            }
        }
    }

    fn agree(&mut self, size: u64) {
        self.strayed.clear();
        self.signed = self.signed.max(Some(size));
        self.agreeing += 1;
    }

    /// Tells of the first contradiction of each kind: once the log has another root, so do all larger sizes.
    fn differ(&mut self, claim: Claim, faults: &mut Vec<LogFault>) {
        let Claim { size, by, .. } = claim;
        self.differing += u64::from(by.is_signed());
        if !self.strayed.iter().any(|earlier| earlier.is_same_kind(by)) {
            self.strayed.push(by);
            let good = self.signed.unwrap_or_default();
            faults.push(LogFault::Anchor { size, good, by });
        }
    }

    /// Compares a claim that was put aside, by a proof that the present tree continues it.
    pub(super) fn bridge(
        &mut self,
        proof: &ConsistencyProof,
        root: &Hash,
        faults: &mut Vec<LogFault>,
    ) {
        let is_meant = |claim: &mut Claim| claim.size == proof.old;
        let claims: Vec<Claim> = self.passed.extract_if(.., is_meant).collect();
        for claim in claims {
            match proof.verify(&claim.root, root) {
                Ok(()) => self.agree(claim.size),
                Err(_) => self.differ(claim, faults),
            }
        }
    }

    /// Returns the claim about the largest size, of those that the log does not reach.
    pub(super) fn larger(&self) -> Option<(u64, Anchor)> {
        self.claims.first().map(|claim| (claim.size, claim.by))
    }

    pub(super) fn unreached(&self) -> impl Iterator<Item = u64> {
        self.passed.iter().map(|claim| claim.size)
    }

    pub(super) const fn signed(&self) -> Option<u64> {
        self.signed
    }

    pub(super) const fn agreeing(&self) -> u64 {
        self.agreeing
    }

    pub(super) const fn differing(&self) -> u64 {
        self.differing
    }
}

/// Tells whether one of the keys signed a checkpoint under the name that its first signature has.
fn is_renamed(note: &Note, keys: &[VerifierKey]) -> bool {
    let Some(signature) = note.signatures().first() else {
        return false;
    };
    let renamed =
        |key: &VerifierKey| VerifierKey::new(signature.name().clone(), key.kind(), *key.public());
    let renamed: Vec<VerifierKey> = keys.iter().map(renamed).collect();
    Checkpoint::open(note, &renamed).is_ok()
}
