//! The log as the files of c2sp.org/tlog-tiles.

use std::collections::HashMap;
use std::sync::Arc;

use thiserror::Error;

use crawlgate_store::{Store, StoreError, StoreErrorKind, StoredRoot};
use crawlgate_tlog::{
    BUNDLE, ContentError, Hash, Prover, ProverError, Resource, SEGMENT, Tile, Tree, leaf_hash,
    push_entry,
};

/// The reason that a file of the log cannot be made.
#[derive(Debug, Error)]
pub enum TilesError {
    /// The store failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The store has lost records that retention has not dropped.
    #[error("records are missing after record {0}: `crawlgate store check` tells more")]
    Missing(u64),
    /// An entry does not fit the format.
    #[error("{0}")]
    Content(#[from] ContentError),
    /// The hashes do not lead to the tile.
    #[error("{0}")]
    Tree(ProverError<MissingHashes>),
}

impl TilesError {
    /// Tells whether the store has lost the records, or cannot read them.
    #[must_use]
    pub fn is_of_lost(&self) -> bool {
        match self {
            Self::Missing(_) => true,
            Self::Store(error) => error.kind == StoreErrorKind::Corrupt,
            Self::Content(_) | Self::Tree(_) => false,
        }
    }
}

/// Retention has dropped records, and the hashes that the tile needs with them.
#[derive(Debug, Error)]
#[error("the hashes of dropped records are needed, and gone")]
pub struct MissingHashes;

/// Returns the content of a tile or of a bundle of entries in the tree of `size` entries. `None` if the tree has none, or
/// retention has dropped its records.
///
/// # Errors
/// When the store fails or lacks records.
pub async fn content(
    store: &Arc<Store>,
    resource: Resource,
    size: u64,
) -> Result<Option<Vec<u8>>, TilesError> {
    let (Resource::Hashes(tile) | Resource::Entries(tile)) = resource else {
        return Ok(None);
    };
    let Some(needed) = tile.least_tree().filter(|needed| *needed <= size) else {
        return Ok(None);
    };
    if tile.level() == 0 {
        let Some(entries) = entries(store, tile).await? else {
            return Ok(None);
        };
        return Ok(Some(match resource {
            Resource::Entries(_) => bundle_of(&entries)?,
            _ => leaves_of(&entries).as_flattened().to_vec(),
        }));
    }
    let mut roots = Roots::of(&store.roots().await?);
    let unknown = roots.first_unknown();
    let is_of_tail = |tile: &Tile| tile.level() == 0 && tile.index() >= unknown;
    let is_full = |tile: &Tile| u64::from(tile.width()) == BUNDLE;
    for tile in Tile::all(needed).filter(|tile| is_of_tail(tile) && is_full(tile)) {
        let Some(entries) = entries(store, tile).await? else {
            return Ok(None);
        };
        roots.add_bundle(tile.index(), Tree::root_of(&leaves_of(&entries)));
    }
    // The tree that ends with this tile: its width there is the one that is asked for.
    let mut prover = Prover::new(needed, |tile: Tile| roots.hashes(tile));
    match prover.tile(tile) {
        Ok(hashes) => Ok(Some(hashes.as_flattened().to_vec())),
        Err(ProverError::Source(MissingHashes)) => Ok(None),
        Err(error) => Err(TilesError::Tree(error)),
    }
}

/// Returns the entries below a tile of level 0; `None` if retention has dropped them.
///
/// # Errors
/// When the store fails or lacks records.
pub async fn entries(store: &Arc<Store>, tile: Tile) -> Result<Option<Vec<Vec<u8>>>, TilesError> {
    let first = tile.index() * BUNDLE;
    let width = usize::from(tile.width());
    let is_dropped = async || store.extent().await.map(|extent| first < extent.first);
    if is_dropped().await? {
        return Ok(None);
    }
    let records = store.records(first, width).await?;
    let in_order = (first + 1..).zip(&records);
    let is_whole = records.len() == width && in_order.clone().all(|(seq, one)| one.seq == seq);
    match (is_whole, is_dropped().await?) {
        (true, _) => Ok(Some(records.into_iter().map(|one| one.entry).collect())),
        (false, true) => Ok(None),
        (false, false) => Err(TilesError::Missing(first)),
    }
}

/// Returns the leaf hashes of entries.
#[must_use]
pub fn leaves_of(entries: &[Vec<u8>]) -> Vec<Hash> {
    entries.iter().map(|entry| leaf_hash(entry)).collect()
}

/// Returns the content of the bundle of these entries.
///
/// # Errors
/// When an entry is longer than the format allows.
pub fn bundle_of(entries: &[Vec<u8>]) -> Result<Vec<u8>, ContentError> {
    let mut bundle = Vec::new();
    for entry in entries {
        push_entry(&mut bundle, entry)?;
    }
    Ok(bundle)
}

/// The hashes of levels 1 and 2: those that the store keeps, and those that a caller adds of the tail.
#[derive(Debug, Default)]
pub struct Roots {
    bundles: HashMap<u64, Hash>,
    segments: HashMap<u64, Hash>,
}

impl Roots {
    /// Takes the hashes that the store keeps.
    #[must_use]
    pub fn of(kept: &[StoredRoot]) -> Roots {
        let mut roots = Roots::default();
        for one in kept {
            match one.count {
                SEGMENT => roots.segments.insert(one.first / SEGMENT, one.root),
                _ => roots.bundles.insert(one.first / BUNDLE, one.root),
            };
        }
        roots
    }

    /// Returns the root of a bundle.
    #[must_use]
    pub fn bundle(&self, number: u64) -> Option<Hash> {
        self.bundles.get(&number).copied()
    }

    /// Adds the root of a bundle.
    pub fn add_bundle(&mut self, number: u64, root: Hash) {
        self.bundles.insert(number, root);
    }

    /// Returns the number of the first bundle behind all hashes that are here: it lies in the tail.
    fn first_unknown(&self) -> u64 {
        let bundles = self.bundles.keys().max().map_or(0, |last| last + 1);
        let segments = self.segments.keys().max().map_or(0, |last| last + 1);
        bundles.max(segments * (SEGMENT / BUNDLE))
    }

    /// Returns the hashes of a tile of level 1 or 2.
    ///
    /// # Errors
    /// When one is not here.
    pub fn hashes(&self, tile: Tile) -> Result<Vec<Hash>, MissingHashes> {
        let first = tile.index() * 256;
        let hashes = (first..first + u64::from(tile.width())).map(|index| match tile.level() {
            1 => self.bundle(index),
            _ => self.segment(index),
        });
        hashes.collect::<Option<_>>().ok_or(MissingHashes)
    }

    fn segment(&self, number: u64) -> Option<Hash> {
        let known = self.segments.get(&number).copied();
        known.or_else(|| {
            let bundles = number * 256..(number + 1) * 256;
            let bundles = bundles.map(|index| self.bundle(index));
            Some(Tree::root_of(&bundles.collect::<Option<Vec<_>>>()?))
        })
    }
}
