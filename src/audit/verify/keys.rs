//! The trusted keys of a log.

use crate::store::rotation::Rotation;
use crate::tlog::VerifierKey;

/// The trusted keys of a log. Where one has replaced another, the earlier one counts only for what was signed before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// The public halves, with the name of the log.
    pub all: Vec<VerifierKey>,
    /// Keys that were replaced, each with the number of the record that says so.
    replaced: Vec<(VerifierKey, u64)>,
}

impl From<Vec<VerifierKey>> for Keys {
    fn from(all: Vec<VerifierKey>) -> Self {
        Self {
            all,
            replaced: Vec::new(),
        }
    }
}

impl Keys {
    /// Takes over what rotations prove: a key that has replaced a trusted one, or that a trusted one has replaced, is a key
    /// of the same log.
    pub fn follow(&mut self, rotations: &[Rotation]) {
        // A later rotation may lead to an earlier one.
        for one in rotations.iter().chain(rotations.iter().rev()) {
            let has = |key| self.all.contains(key);
            match (has(&one.old), has(&one.new)) {
                (true, false) => self.all.push(one.new.clone()),
                (false, true) => self.all.push(one.old.clone()),
                _ => {}
            }
        }
        let known = rotations.iter().filter(|one| self.all.contains(&one.old));
        self.replaced = known.map(|one| (one.old.clone(), one.seq)).collect();
    }

    /// Returns the keys of which one must have signed a checkpoint of this size.
    #[must_use]
    pub fn at(&self, size: u64) -> Vec<VerifierKey> {
        let is_replaced = |key: &VerifierKey| {
            let mut replaced = self.replaced.iter();
            replaced.any(|(one, seq)| one == key && *seq <= size)
        };
        let all = self.all.iter().filter(|key| !is_replaced(key));
        all.cloned().collect()
    }
}
