//! Verification of the log: its entries walked from end to end, in their order.
//!
//! Each entry is a leaf of one tree (see [`crawlgate_tlog`]). A [`LogVerifier`] hashes the entries, grows the tree, and
//! compares it with earlier statements about it: signed checkpoints, of the store and kept elsewhere, the state file, and
//! the roots of bundles and segments that the store keeps. It reads no store: the caller gives it everything.
//!
//! # Changes that a walk finds
//!
//! - an altered, inserted or moved entry, and one removed while others took its place: the root of its bundle differs
//!   and, if the stored root was made anew, the root at the next checkpoint;
//! - removed entries: a gap between indices; at the end, a checkpoint or a stored root names a larger tree; at the front,
//!   no entry says that retention has dropped them;
//! - an altered root, and an altered checkpoint.
//!
//! # Changes that it does not find
//!
//! - Entries removed from the end, or altered, after the last checkpoint, together with their roots and the state file. A
//!   checkpoint kept elsewhere reveals those below it.
//! - Entries that a process with access to the store appends as crawlgate does: the next checkpoint covers them. One may
//!   say that retention has dropped others.
//! - Changes by a holder of the key, or by crawlgate itself at the time, unless a checkpoint was kept elsewhere: a
//!   signature says that nothing was changed since, not that it was true.

mod anchors;
mod log_tree;
#[cfg(test)]
mod tests;

pub use self::anchors::Known;
pub use self::log_tree::Subtree;

use self::anchors::Anchors;
use self::log_tree::{LogTree, Taken};
use super::fault::{Anchor, LogFault};
use super::keys::Keys;
use crawlgate_record::{Entry, EventKind};
use crawlgate_tlog::{BUNDLE, ConsistencyProof, Hash, leaf_hash};

/// The result of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogVerification {
    /// The first entry present; in an empty store, the next one to come.
    pub first: u64,
    /// Entries of the log, those dropped by retention included.
    pub size: u64,
    /// The root over all of them; `None` if missing entries leave it unknown.
    pub root: Option<Hash>,
    /// The largest size that a trusted checkpoint confirms.
    pub signed: Option<u64>,
    /// Number of trusted checkpoints, of the store or kept elsewhere, that agree with the log.
    pub agreeing: u64,
    /// Number of those that do not.
    pub differing: u64,
    /// Sizes of trusted checkpoints that were not compared: they end among entries of which only roots are left.
    pub unreached: Vec<u64>,
}

/// A check of the log, entry by entry.
#[derive(Debug)]
pub struct LogVerifier {
    anchors: Anchors,
    log_tree: LogTree,
    keys: Keys,
    /// The first entry present.
    first: Option<u64>,
    /// The first entry that stayed when retention last dropped entries, as an entry says.
    dropped: u64,
    /// The first entry that stays, as the store has last said.
    learned: Option<u64>,
    /// True if entries were skipped.
    has_skipped: bool,
    /// The last index that came out of order.
    out_of_order: Option<u64>,
}

impl LogVerifier {
    /// Begins a walk that trusts only the keys of `known`. `dropped` has the roots of what retention has dropped.
    pub fn new(
        known: &Known<'_>,
        dropped: impl IntoIterator<Item = Subtree>,
        faults: &mut Vec<LogFault>,
    ) -> Self {
        let mut verifier = Self {
            anchors: Anchors::of(known, faults),
            log_tree: LogTree::default(),
            keys: known.keys.clone(),
            first: None,
            dropped: 0,
            learned: None,
            has_skipped: false,
            out_of_order: None,
        };
        verifier.expect(dropped);
        verifier.compare(faults);
        verifier
    }

    /// Takes stored roots, in any order, before the first entry below them.
    pub fn expect(&mut self, roots: impl IntoIterator<Item = Subtree>) {
        self.log_tree.expect(roots);
    }

    /// Takes the first entry that the store has now, with the roots below it: retention may drop entries while a walk
    /// continues. An entry must still say so.
    pub fn learn(&mut self, first: u64, dropped: impl IntoIterator<Item = Subtree>) {
        self.learned = self.learned.max(Some(first));
        self.log_tree.expect(dropped);
    }

    /// Takes the next entry.
    pub fn step(&mut self, index: u64, entry: &[u8], faults: &mut Vec<LogFault>) {
        let size = self.log_tree.size();
        if index < size {
            let is_next = self.out_of_order.is_some_and(|last| index == last + 1);
            if !is_next {
                faults.push(LogFault::Order { index });
            }
            self.out_of_order = Some(index);
            return;
        }
        if index > size {
            let is_front = self.first.is_none() && !self.has_skipped;
            if !is_front && index > self.learned.unwrap_or(0) {
                let (from, to) = (size, index - 1);
                faults.push(LogFault::Gap { from, to });
            }
            let is_told = !is_front && index > self.learned.unwrap_or(0);
            self.pass(index, !is_told, faults);
        }
        self.first.get_or_insert(index);
        match event_of(entry) {
            Some(EventKind::Dropped { index, .. }) => self.dropped = self.dropped.max(index),
            Some(EventKind::Lost { count, size: Some(size), .. }) => {
                faults.push(LogFault::Lost { index, count, size });
            }
            Some(EventKind::KeyRotated { old, new, .. }) => {
                let seq = index + 1;
                let fault = LogFault::Rotation { seq };
                if self.keys.lacks_proof(seq, old, new) && !faults.contains(&fault) {
                    faults.push(fault);
                }
            }
            _ => {}
        }
        let taken = self.log_tree.push(leaf_hash(entry), faults);
        self.after(taken, faults);
    }

    /// Continues behind entries that the caller leaves out, by nothing but their stored roots. The index is the first of a
    /// bundle.
    pub fn skip_to(&mut self, index: u64, faults: &mut Vec<LogFault>) {
        self.has_skipped = true;
        if index > self.log_tree.size() {
            self.pass(index, true, faults);
        }
    }

    /// Passes missing entries, by stored roots.
    fn pass(&mut self, to: u64, are_roots_due: bool, faults: &mut Vec<LogFault>) {
        let from = self.log_tree.size();
        while self.log_tree.size() < to {
            let taken = self.log_tree.pass(to, faults);
            self.after(taken, faults);
        }
        if are_roots_due && !self.log_tree.is_known() {
            let to = to.saturating_sub(1);
            faults.push(LogFault::Roots { from, to });
        }
    }

    fn after(&mut self, taken: Taken, faults: &mut Vec<LogFault>) {
        let is_due = self.anchors.next().is_some_and(|next| next <= taken.size);
        if is_due {
            self.compare(faults);
        }
    }

    /// Compares the tree with all statements about its present size.
    fn compare(&mut self, faults: &mut Vec<LogFault>) {
        self.anchors.compare(&mut self.log_tree, faults);
    }

    /// Returns the number of entries so far, those dropped by retention included.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.log_tree.size()
    }

    /// Returns the largest size so far that a trusted checkpoint confirms.
    #[must_use]
    pub const fn signed(&self) -> Option<u64> {
        self.anchors.signed()
    }

    /// Returns the sizes of trusted checkpoints that the walk has passed without a comparison. [`bridge`](Self::bridge)
    /// compares one.
    pub fn unreached(&self) -> impl Iterator<Item = u64> {
        self.anchors.unreached()
    }

    /// Compares a checkpoint that the walk has passed. The proof leads from it to the records walked so far.
    pub fn bridge(&mut self, proof: &ConsistencyProof, faults: &mut Vec<LogFault>) {
        if let Some(root) = self.log_tree.root().filter(|_| proof.new == self.size()) {
            self.anchors.bridge(proof, &root, faults);
        }
    }

    /// Ends the walk.
    pub fn end(mut self, faults: &mut Vec<LogFault>) -> LogVerification {
        if self.first.is_none() && self.log_tree.end() > self.log_tree.size() && !self.has_skipped {
            // The store is empty: retention must have dropped every entry.
            let end = self.log_tree.end();
            self.pass(end, true, faults);
        }
        let size = self.log_tree.size();
        let read = self.first.unwrap_or(size);
        let stays = self.learned.unwrap_or(read);
        let first = read.max(stays);
        if stays > self.dropped && !self.has_skipped {
            faults.push(LogFault::Front { first: stays });
        }
        if stays < first && !self.has_skipped {
            // The store has them, and gives none of them.
            let (from, to) = (stays, first - 1);
            faults.push(LogFault::Gap { from, to });
        }
        self.log_tree.tell_doubts(faults);
        let larger = self.anchors.larger();
        let of_roots = (self.log_tree.end() > size).then(|| (self.log_tree.end(), Anchor::Roots));
        if let Some((named, by)) = larger.into_iter().chain(of_roots).max_by_key(|one| one.0) {
            faults.push(LogFault::Tail { size, named, by });
        }
        LogVerification {
            first,
            size,
            root: self.log_tree.root(),
            signed: self.anchors.signed(),
            agreeing: self.anchors.agreeing(),
            differing: self.anchors.differing(),
            unreached: self.anchors.unreached().collect(),
        }
    }
}

/// Returns the event of an entry that tells of lost or dropped entries, or of a new key.
fn event_of(entry: &[u8]) -> Option<EventKind<'_>> {
    // A look at two octets saves reading each entry: key 0, the kind.
    let [_, 0, 1 | 8 | 9, ..] = entry else {
        return None;
    };
    match Entry::read(entry) {
        Ok(Entry::Event(event)) => Some(event.kind),
        _ => None,
    }
}

/// Returns the first entry of the bundle that holds an entry.
const fn bundle_of(index: u64) -> u64 {
    index - index % BUNDLE
}
