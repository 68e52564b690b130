//! The log as the files of c2sp.org/tlog-tiles: one by one, or all of them in a directory.

use std::sync::Arc;

use thiserror::Error;

use crate::destination::{Destination as _, DestinationError, Folder, Listener};
use crate::lost::{end_of_dropped, told};
use crate::slice::{Bundle, MissingHashes, Roots, leaves_of};
use crate::verify::keys::CoveringCheckpoint;
use crawlgate_store::{Records, Store, StoreError, StoredDecision};
use crawlgate_tlog::{
    BUNDLE, ContentError, Hash, Prover, ProverError, Resource, Tile, Tree, leaf_hash, push_entry,
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
    /// The directory cannot be written.
    #[error(transparent)]
    Destination(#[from] DestinationError),
}

impl TilesError {
    fn of_lost(error: Option<StoreError>, first: u64) -> Self {
        error.map_or(Self::Missing(first), Self::Store)
    }
}

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
    if tile.level() > 0 {
        // The tree that ends with this tile: its width there is the one that is asked for.
        return inner(&Roots::of(store, needed).await?, needed, tile);
    }
    let first = tile.index() * BUNDLE;
    match Bundle::read(store, first, tile.width().into()).await? {
        Bundle::Whole(records) => Ok(Some(leaf_file(resource, &records)?)),
        Bundle::Dropped => Ok(None),
        Bundle::Lost(error) => Err(TilesError::of_lost(error, first)),
    }
}

/// Returns the content of a file of level 0.
fn leaf_file(resource: Resource, records: &[StoredDecision]) -> Result<Vec<u8>, ContentError> {
    let Resource::Entries(_) = resource else {
        return Ok(leaves_of(records).as_flattened().to_vec());
    };
    let mut bundle = Vec::new();
    for record in records {
        push_entry(&mut bundle, &record.entry)?;
    }
    Ok(bundle)
}

/// Returns the content of a tile of a level above 0. `None` if a hash that it needs is gone.
fn inner(roots: &Roots, size: u64, tile: Tile) -> Result<Option<Vec<u8>>, TilesError> {
    match Prover::new(size, |tile| roots.hashes(tile)).tile(tile) {
        Ok(hashes) => Ok(Some(hashes.as_flattened().to_vec())),
        Err(ProverError::Source(MissingHashes)) => Ok(None),
        Err(error) => Err(TilesError::Tree(error)),
    }
}

/// Writes all files of the tree of a checkpoint into a directory, and then the checkpoint. Records without tiles, and a store that
/// contradicts the checkpoint, are told to `listener`; in the latter case the checkpoint is not written.
///
/// # Errors
/// When the store cannot be read, or the directory cannot be written.
pub async fn write(
    store: &Arc<Store>,
    folder: &Folder,
    CoveringCheckpoint { checkpoint, note }: &CoveringCheckpoint,
    listener: &mut dyn Listener,
) -> Result<(), TilesError> {
    let size = checkpoint.size;
    let roots = Roots::of(store, size).await?;
    let kept = store.extent().await?.first;
    let end_of_dropped = end_of_dropped(store, kept).await?;
    let (mut dropped, mut lost) = (0, Vec::new());
    for tile in Tile::all(size) {
        if tile.level() > 0 {
            match inner(&roots, size, tile)? {
                Some(content) => put(folder, Resource::Hashes(tile), &content).await?,
                // Of a dropped segment, the store keeps only the root.
                None => dropped += 1,
            }
            continue;
        }
        let (first, width) = (tile.index() * BUNDLE, u64::from(tile.width()));
        let root = roots.bundle(first);
        if root.is_some_and(|root| has(folder, tile, &root)) {
            continue;
        }
        match Bundle::read(store, first, width).await? {
            Bundle::Whole(records) => {
                if root.is_some_and(|root| root != Tree::root_of(&leaves_of(&records))) {
                    let first = first + 1;
                    listener.fault(&format!(
                        "altered: the records from {first} on are not those that were hashed"
                    ));
                    return Ok(());
                }
                for resource in [Resource::Entries(tile), Resource::Hashes(tile)] {
                    put(folder, resource, &leaf_file(resource, &records)?).await?;
                }
            }
            Bundle::Dropped if first < end_of_dropped => dropped += 1,
            // The tree continues by the root that is kept.
            Bundle::Lost(error) if root.is_none() => {
                return Err(TilesError::of_lost(error, first));
            }
            Bundle::Dropped | Bundle::Lost(_) => {
                lose(&mut lost, Records::at(first, first + width - 1));
            }
        }
    }
    if !roots.lead_to(checkpoint, kept.min(size - size % BUNDLE)) {
        listener.fault(&format!(
            "altered: the log of {size} records is not the one that was signed; the checkpoint is not written"
        ));
        return Ok(());
    }
    put(folder, Resource::Checkpoint, note.to_string().as_bytes()).await?;
    if dropped > 0 {
        listener.remark(&format!(
            "{dropped} tiles are not written: retention has dropped their records"
        ));
    }
    for records in lost {
        listener.fault(&told(records, "their tiles are not written"));
    }
    Ok(())
}

async fn put(folder: &Folder, file: Resource, content: &[u8]) -> Result<(), DestinationError> {
    folder.put(&file.to_string(), content).await
}

/// Tells whether both files of a bundle are there and right.
fn has(folder: &Folder, tile: Tile, root: &Hash) -> bool {
    let read = |file: Resource| folder.read(&file.to_string());
    let hashes = read(Resource::Hashes(tile)).and_then(|content| tile.hashes(&content).ok());
    let (Some(hashes), Some(content)) = (hashes, read(Resource::Entries(tile))) else {
        return false;
    };
    let entries = tile.entries(&content).unwrap_or_default();
    let leaves: Vec<Hash> = entries.into_iter().map(leaf_hash).collect();
    leaves == hashes && Tree::root_of(&hashes) == *root
}

/// Adds lost records to those that were found before.
fn lose(lost: &mut Vec<Records>, records: Records) {
    match lost.last_mut() {
        Some(before) if before.last + 1 == records.first => before.last = records.last,
        _ => lost.push(records),
    }
}
