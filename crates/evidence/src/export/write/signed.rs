//! The tree that a checkpoint has signed, from what the store keeps of it.
//!
//! An export holds for ever, so each entry is compared before it is written. The roots of bundles that the store keeps
//! must lead to the signed root; then the entries of each bundle must lead to its root.

use std::collections::HashMap;
use std::sync::Arc;

use super::WriteError;
use crate::export::Ground;
use crawlgate_store::{Store, StoreError, StoreErrorKind};
use crawlgate_tlog::{BUNDLE, Checkpoint, Hash, SEGMENT, Tree, leaf_hash};

/// The roots of bundles under a signed root.
#[derive(Debug)]
pub(super) struct SignedRoots {
    /// The roots below the first bundle that is exported.
    pub(super) ground: Ground,
    /// The roots of the bundles from there on. The last bundle may be a partial one.
    bundles: Vec<Hash>,
}

impl SignedRoots {
    /// Returns the roots from the bundle on that begins with the entry `start`. `None` if the store does not lead to the
    /// signed root.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) async fn of(
        store: &Arc<Store>,
        checkpoint: &Checkpoint,
        start: u64,
    ) -> Result<Option<Self>, WriteError> {
        let stored = store.roots().await?;
        let stored = stored.iter().map(|one| ((one.first, one.count), one.root));
        let roots = Roots {
            store,
            stored: stored.collect(),
            size: checkpoint.size,
        };
        let mut tree = Tree::new();
        let mut signed = Self {
            ground: Ground {
                first: start,
                segments: Vec::new(),
                bundles: Vec::new(),
            },
            bundles: Vec::new(),
        };
        while tree.size() + SEGMENT <= start {
            let Some(root) = roots.segment(tree.size()).await? else {
                return Ok(None);
            };
            tree.push_segment(root)?;
            signed.ground.segments.push(root);
        }
        while tree.size() < checkpoint.size {
            let at = tree.size();
            let root = match at + BUNDLE <= checkpoint.size {
                true => {
                    let Some(root) = roots.bundle(at).await? else {
                        return Ok(None);
                    };
                    tree.push_bundle(root)?;
                    root
                }
                false => {
                    let leaves = roots.leaves(at).await?;
                    if at + leaves.len() as u64 != checkpoint.size {
                        return Ok(None);
                    }
                    for leaf in &leaves {
                        tree.push(*leaf);
                    }
                    Tree::root_of(&leaves)
                }
            };
            match at < start {
                true => signed.ground.bundles.push(root),
                false => signed.bundles.push(root),
            }
        }
        Ok((tree.root() == checkpoint.root).then_some(signed))
    }

    /// Returns the roots of the bundles from `first` to before `end`, as far as they are known.
    pub(super) fn roots(&self, first: u64, end: u64) -> Vec<Hash> {
        let from = |index: u64| {
            let past = index.saturating_sub(self.ground.first) / BUNDLE;
            usize::try_from(past).unwrap_or(usize::MAX)
        };
        let bundles = self.bundles.get(from(first)..from(end));
        bundles.unwrap_or_default().to_vec()
    }

    /// Returns the root over the entries before `end`, the end of a bundle. `None` if it is not known.
    pub(super) fn root(&self, end: u64) -> Option<Hash> {
        let mut tree = self.ground.tree()?;
        for root in self.roots(self.ground.first, end) {
            tree.push_bundle(root).ok()?;
        }
        (tree.size() == end).then(|| tree.root())
    }

    /// Tells whether a bundle has these leaves: `first` is the index of its first entry.
    pub(super) fn has(&self, first: u64, leaves: &[Hash]) -> bool {
        let nth = first
            .checked_sub(self.ground.first)
            .map(|past| past / BUNDLE);
        let nth = nth.and_then(|nth| usize::try_from(nth).ok());
        let root = nth.and_then(|nth| self.bundles.get(nth));
        root.is_some_and(|root| *root == Tree::root_of(leaves))
    }
}

/// The roots that the store keeps, and those that follow from its entries.
struct Roots<'s> {
    store: &'s Arc<Store>,
    stored: HashMap<(u64, u64), Hash>,
    /// The size of the tree.
    size: u64,
}

impl Roots<'_> {
    /// Returns the root of the segment from `first` on. One that ends in the tail of the store has none stored.
    async fn segment(&self, first: u64) -> Result<Option<Hash>, StoreError> {
        if let Some(root) = self.stored.get(&(first, SEGMENT)) {
            return Ok(Some(*root));
        }
        let mut bundles = Vec::new();
        for at in (first..first + SEGMENT).step_by(BUNDLE as usize) {
            match self.bundle(at).await? {
                Some(root) => bundles.push(root),
                None => return Ok(None),
            }
        }
        Ok(Some(Tree::root_of(&bundles)))
    }

    /// Returns the root of the bundle from `first` on. One in the tail of the store has none stored.
    async fn bundle(&self, first: u64) -> Result<Option<Hash>, StoreError> {
        if let Some(root) = self.stored.get(&(first, BUNDLE)) {
            return Ok(Some(*root));
        }
        let leaves = self.leaves(first).await?;
        Ok((leaves.len() as u64 == BUNDLE).then(|| Tree::root_of(&leaves)))
    }

    /// Returns the leaf hashes of the bundle from `first` on, as far as there are entries below the size.
    async fn leaves(&self, first: u64) -> Result<Vec<Hash>, StoreError> {
        let count = self.size.saturating_sub(first).min(BUNDLE);
        let count = usize::try_from(count).unwrap_or(0);
        let entries = match self.store.records(first, count).await {
            // Without them, no root follows.
            Err(error) if error.kind == StoreErrorKind::Corrupt => Vec::new(),
            read => read?,
        };
        let in_order = (first + 1..)
            .zip(&entries)
            .take_while(|(seq, one)| one.seq == *seq);
        Ok(in_order.map(|(_, one)| leaf_hash(&one.entry)).collect())
    }
}
