//! The trusted keys of a log, and the newest checkpoint that one of them has signed.

use crawlgate_store::StoredCheckpoint;
use crawlgate_store::rotation::Rotation;
use crawlgate_tlog::{Checkpoint, InclusionProof, Note, ProofError, VerifierKey, leaf_hash};

/// The trusted keys of a log. Where one has replaced another, the earlier one counts only for what was signed before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// The public halves, with the name of the log.
    pub all: Vec<VerifierKey>,
    replaced: Vec<ReplacedKey>,
}

/// A key that another one has replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReplacedKey {
    old: VerifierKey,
    new: VerifierKey,
    /// The number of the record that says so.
    seq: u64,
    /// The size from which on the old key counts no more.
    limit: u64,
}

impl ReplacedKey {
    fn is(&self, one: &Rotation) -> bool {
        self.seq == one.seq && self.old == one.old && self.new == one.new
    }
}

impl From<Vec<VerifierKey>> for Keys {
    fn from(all: Vec<VerifierKey>) -> Self {
        Self { all, replaced: Vec::new() }
    }
}

impl Keys {
    /// Takes over what rotations prove: a key that has replaced a trusted one, or that a trusted one has replaced, is a key
    /// of the same log.
    ///
    /// A key that was replaced leads to no other successor, and its predecessors count no longer than it does: a person who
    /// has only this key can sign such rotations.
    pub fn follow(&mut self, rotations: &[Rotation]) {
        loop {
            while rotations.iter().any(|one| self.go_back(one)) {}
            let next = rotations.iter().find(|one| {
                let is_present = self.limit(&one.old).is_none() && self.all.contains(&one.old);
                is_present && !self.all.contains(&one.new)
            });
            let Some(next) = next else { break };
            self.all.push(next.new.clone());
        }
        while self.shorten() {}
    }

    /// Takes over the key that a trusted one has replaced. False if that says nothing new.
    fn go_back(&mut self, one: &Rotation) -> bool {
        if !self.all.contains(&one.new) || self.replaced.iter().any(|known| known.is(one)) {
            return false;
        }
        if !self.all.contains(&one.old) {
            self.all.push(one.old.clone());
        }
        self.replaced.push(ReplacedKey {
            old: one.old.clone(),
            new: one.new.clone(),
            seq: one.seq,
            limit: one.seq,
        });
        true
    }

    /// Lets no key count longer than its successor. False if none does.
    fn shorten(&mut self) -> bool {
        let limit = |one: &ReplacedKey| {
            self.limit(&one.new).map_or(one.limit, |limit| limit.min(one.limit))
        };
        let limits: Vec<u64> = self.replaced.iter().map(limit).collect();
        let mut is_shorter = false;
        for (one, limit) in self.replaced.iter_mut().zip(limits) {
            is_shorter |= limit < one.limit;
            one.limit = limit;
        }
        is_shorter
    }

    /// Returns the size from which on a key counts no more, if another one has replaced it.
    fn limit(&self, key: &VerifierKey) -> Option<u64> {
        let limits = self.replaced.iter().filter(|one| one.old == *key);
        limits.map(|one| one.limit).min()
    }

    /// Returns the keys of which one must have signed a checkpoint of this size.
    #[must_use]
    pub fn at(&self, size: u64) -> Vec<VerifierKey> {
        let counts = |key: &&VerifierKey| self.limit(key).is_none_or(|limit| size < limit);
        self.all.iter().filter(counts).cloned().collect()
    }

    /// Returns the keys that no other one has replaced.
    pub fn present(&self) -> impl Iterator<Item = &VerifierKey> {
        self.all.iter().filter(|key| self.limit(key).is_none())
    }

    /// Tells whether a record that names these two keys is about this log, and the proof of it is missing.
    #[must_use]
    pub fn lacks_proof(&self, seq: u64, old: &str, new: &str) -> bool {
        let are = |one: &VerifierKey, other: &VerifierKey| {
            [one, other].map(ToString::to_string) == [old, new]
        };
        let is_ours = self.all.iter().map(ToString::to_string);
        let is_ours = is_ours.filter(|key| key == old || key == new).count() > 0;
        let mut replaced = self.replaced.iter();
        is_ours && !replaced.any(|one| one.seq == seq && are(&one.old, &one.new))
    }
}

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
        Self::first_by(index, checkpoints, keys, |one| (one.is_cosigned(), one.size))
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
        let proof = InclusionProof { size: self.checkpoint.size, ..proof.clone() };
        proof.verify(&leaf_hash(entry), &self.checkpoint.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_store::LogKey;
    use crawlgate_system::clock::Moment;

    #[test]
    fn a_trusted_key_leads_to_those_before_and_after_it() {
        let name = || Some("log".parse().unwrap());
        let [a, b, c, stranger] = [(); 4].map(|()| LogKey::generate(name()).unwrap().vkey());
        let rotation = |seq, old: &VerifierKey, new: &VerifierKey| Rotation {
            seq,
            time: Moment::from_millis(0),
            old: old.clone(),
            new: new.clone(),
            entry: Vec::new(),
            proof: String::new(),
        };
        let rotations = [rotation(10, &a, &b), rotation(20, &b, &c)];
        let sorted = |mut keys: Vec<VerifierKey>| {
            keys.sort_by_key(VerifierKey::id);
            keys
        };
        for known in [&a, &b, &c] {
            let mut keys = Keys::from(vec![known.clone()]);
            keys.follow(&rotations);
            let want = |keys: &[&VerifierKey]| sorted(keys.iter().copied().cloned().collect());
            for (size, by) in [
                (9, want(&[&a, &b, &c])),
                // From the record on, the new key must have signed.
                (10, want(&[&b, &c])),
                (19, want(&[&b, &c])),
                (20, want(&[&c])),
            ] {
                assert_eq!(sorted(keys.at(size)), by, "{size}");
            }
        }
        let mut keys = Keys::from(vec![stranger.clone()]);
        keys.follow(&rotations);
        assert_eq!(keys.at(30), std::slice::from_ref(&stranger));

        // A person who has only a replaced key signs rotations of it, to another key of that person and from one.
        let forged =
            [rotation(5, &a, &stranger), rotation(90, &stranger, &a), rotation(91, &a, &stranger)];
        for known in [vec![&c], vec![&b, &c], vec![&a, &c]] {
            // At once, in the worst order.
            let mut keys: Keys = known.iter().copied().cloned().collect::<Vec<_>>().into();
            keys.follow(&[&[forged[1].clone()], &rotations[..]].concat());
            assert_eq!(keys.at(20), std::slice::from_ref(&c));
            assert!(!keys.at(10).contains(&stranger));

            let mut keys = Keys::from(known.into_iter().cloned().collect::<Vec<_>>());
            keys.follow(&rotations);
            for one in &forged {
                keys.follow(std::slice::from_ref(one));
            }
            keys.follow(&forged);
            let all = [&forged[..], &rotations].concat();
            keys.follow(&all);
            assert_eq!(keys.at(20), std::slice::from_ref(&c));
            assert!(!keys.at(10).contains(&stranger) && !keys.at(10).contains(&a));
        }
        let mut keys = Keys::from(vec![c.clone()]);
        keys.follow(&[&forged[..], &rotations].concat());
        assert_eq!(keys.at(20), [c]);
    }
}
