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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;
    use crate::store::LogKey;

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
        assert_eq!(keys.at(30), [stranger]);
    }
}
