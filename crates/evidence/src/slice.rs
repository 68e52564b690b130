//! Slices of the log out of the store: bundles with their records, the tree above them, and the bodies that entries name.
//!
//! An export, tiles and evidence files hold for ever, so nothing that a damaged or altered store has may come into them. A bundle
//! is read as a whole or not at all, the [`Roots`] must lead to the root that a checkpoint has signed, and a body must have its digest.

use std::collections::HashMap;

use aws_lc_rs::digest::{SHA256, digest};
use thiserror::Error;

use crate::export::Ground;
use crawlgate_record::Digest;
use crawlgate_store::{Store, StoreError, StoreErrorKind, StoredDecision};
use crawlgate_tlog::{BUNDLE, Checkpoint, Hash, SEGMENT, Tile, Tree, leaf_hash};

/// The records of a bundle, or of its first part.
#[derive(Debug)]
pub(crate) enum Bundle {
    /// All of them.
    Whole(Vec<StoredDecision>),
    /// Retention has dropped them.
    Dropped,
    /// The store lacks some, or fails to read them.
    Lost(Option<StoreError>),
}

impl Bundle {
    /// Reads the `count` records from the index `first` on.
    ///
    /// # Errors
    /// When the store cannot be read for another reason than damage.
    pub(crate) async fn read(store: &Store, first: u64, count: u64) -> Result<Self, StoreError> {
        let is_dropped = async || store.extent().await.map(|extent| first < extent.first);
        if is_dropped().await? {
            return Ok(Self::Dropped);
        }
        let length = usize::try_from(count.min(BUNDLE)).unwrap_or(0);
        let error = match store.records(first, length).await {
            Ok(records) => {
                let in_order = (first + 1..).zip(&records).all(|(seq, one)| one.seq == seq);
                if in_order && records.len() == length {
                    return Ok(Self::Whole(records));
                }
                None
            }
            Err(error) if error.kind == StoreErrorKind::Corrupt => Some(error),
            Err(error) => return Err(error),
        };
        // Retention may have dropped them just now.
        Ok(if is_dropped().await? { Self::Dropped } else { Self::Lost(error) })
    }
}

/// Returns the leaf hashes of records.
pub(crate) fn leaves_of(records: &[StoredDecision]) -> Vec<Hash> {
    records.iter().map(|one| leaf_hash(&one.entry)).collect()
}

/// A hash that is asked for is gone, with the records that retention has dropped, or with damaged ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the hashes of dropped records are needed, and gone")]
pub struct MissingHashes;

/// The roots in the tree of some size: those that the store keeps, and those that follow from its last entries.
#[derive(Debug)]
pub(crate) struct Roots {
    size: u64,
    /// By the first entry and the number of entries, of bundles and segments.
    known: HashMap<(u64, u64), Hash>,
    /// The leaf hashes of the last bundle, if it is not full.
    last: Vec<Hash>,
}

impl Roots {
    /// Reads the roots. Those of records that cannot be read are left out.
    ///
    /// # Errors
    /// When the store cannot be read for another reason than damage.
    pub(crate) async fn of(store: &Store, size: u64) -> Result<Self, StoreError> {
        let kept = store.roots().await?;
        // Behind them lies the tail, of which the store keeps no roots.
        let tail = kept.iter().map(|one| one.first + one.count).max();
        let mut roots = Self {
            size,
            known: kept.into_iter().map(|one| ((one.first, one.count), one.root)).collect(),
            last: Vec::new(),
        };
        // The last bundle may be full by now: its root is not that of its beginning, with which this tree ends.
        let whole = size - size % BUNDLE;
        for first in (tail.unwrap_or(0).min(whole)..size).step_by(BUNDLE as usize) {
            let count = (size - first).min(BUNDLE);
            let Bundle::Whole(records) = Bundle::read(store, first, count).await? else {
                continue;
            };
            let leaves = leaves_of(&records);
            if count < BUNDLE {
                roots.last = leaves;
            } else {
                roots.known.insert((first, BUNDLE), Tree::root_of(&leaves));
            }
        }
        Ok(roots)
    }

    /// Returns the root of the bundle that begins with an entry. The last one may be a part.
    pub(crate) fn bundle(&self, first: u64) -> Option<Hash> {
        if first + BUNDLE > self.size {
            let is_whole = first + self.last.len() as u64 == self.size && !self.last.is_empty();
            return is_whole.then(|| Tree::root_of(&self.last));
        }
        self.known.get(&(first, BUNDLE)).copied()
    }

    /// Returns the roots of the bundles from `first` to before `end`. `None` if one is not known.
    pub(crate) fn bundles(&self, first: u64, end: u64) -> Option<Vec<Hash>> {
        let bundles = (first..end).step_by(BUNDLE as usize);
        bundles.map(|first| self.bundle(first)).collect()
    }

    /// Returns the root of the segment that begins with an entry.
    fn segment(&self, first: u64) -> Option<Hash> {
        let known = self.known.get(&(first, SEGMENT)).copied();
        known.or_else(|| Some(Tree::root_of(&self.bundles(first, first + SEGMENT)?)))
    }

    /// Returns the roots below the first entry of a bundle. `None` if one is not known.
    pub(crate) fn ground(&self, first: u64) -> Option<Ground> {
        let segments = first - first % SEGMENT;
        let all = (0..segments).step_by(SEGMENT as usize);
        Some(Ground {
            first,
            segments: all.map(|first| self.segment(first)).collect::<Option<_>>()?,
            bundles: self.bundles(segments, first)?,
        })
    }

    /// Returns the root over the entries before `end`, by the bundles from `start` on and by what is below it. `None` if one is not known.
    pub(crate) fn root(&self, start: u64, end: u64) -> Option<Hash> {
        let mut tree = self.ground(start)?.tree()?;
        let whole = end - end % BUNDLE;
        for root in self.bundles(start, whole)? {
            tree.push_bundle(root).ok()?;
        }
        if whole < end {
            for leaf in &self.last {
                tree.push(*leaf);
            }
        }
        (tree.size() == end).then(|| tree.root())
    }

    /// Tells whether the bundles from `start` on, with what is below it, lead to a signed root.
    pub(crate) fn lead_to(&self, checkpoint: &Checkpoint, start: u64) -> bool {
        self.root(start, checkpoint.size) == Some(checkpoint.root)
    }

    /// Returns the hashes of a tile of level 0, if it is the last, 1 or 2: what a [`Prover`](crawlgate_tlog::Prover) asks for.
    ///
    /// # Errors
    /// When one is not known.
    pub(crate) fn hashes(&self, tile: Tile) -> Result<Vec<Hash>, MissingHashes> {
        let first = tile.index() * 256;
        let hashes = (first..first + u64::from(tile.width())).map(|index| match tile.level() {
            0 => None,
            1 => self.bundle(index * BUNDLE),
            _ => self.segment(index * SEGMENT),
        });
        hashes.collect::<Option<_>>().ok_or(MissingHashes)
    }
}

/// Returns a body that the store has given, if it has its digest. `None` if the store lacks it or cannot read it.
///
/// # Errors
/// When the store cannot be read for another reason than damage.
pub(crate) fn whole_body(
    body: Result<Option<Vec<u8>>, StoreError>,
    sha256: &Digest,
) -> Result<Option<Vec<u8>>, StoreError> {
    match body {
        Err(error) if error.kind == StoreErrorKind::Corrupt => Ok(None),
        body => Ok(body?.filter(|body| digest(&SHA256, body).as_ref() == sha256)),
    }
}
