//! Writes the log as the files of c2sp.org/tlog-tiles.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tempfile::NamedTempFile;

use super::{CheckResult, prove::tell};
use crate::Failure;
use crawlgate_config::Config;
use crawlgate_evidence::export::write::HeldCheckpoint;
use crawlgate_evidence::lost::{end_of_dropped, told};
use crawlgate_evidence::tiles::{MissingHashes, Roots, bundle_of, entries, leaves_of};
use crawlgate_evidence::verify::case::Trusted;
use crawlgate_store::{Records, Store};
use crawlgate_tlog::{BUNDLE, Hash, Prover, ProverError, Resource, Tile, Tree, leaf_hash};

/// The words that name the directory in messages.
const NAMED: &str = "`crawlgate audit tiles DIR`";

pub(super) const HELP: &str = "\
The files are `checkpoint`, `tile/L/N[.p/W]` and `tile/entries/N[.p/W]` of c2sp.org/tlog-tiles, open to their owner alone. \
Full tiles that are there and right stay, so a later run, or one after an interruption, writes what is new. The checkpoint \
comes last, once the tree leads to its root.

A directory with the checkpoint of another log, or of a tree that this log does not continue, is refused and stays as it is.

Entries that retention has dropped before they were written have no tiles: the tree is pruned on its left. Records that are lost are \
named, and have no tiles either.

Exit codes: 0 the directory holds the log of the newest checkpoint; 1 the log is not the one that was signed, or records of it are lost; 2 crawlgate \
itself failed.

Example:
  crawlgate audit tiles /srv/log";

#[derive(Args, Clone, Debug)]
pub(super) struct TilesArgs {
    /// The directory; it is made if it is not there
    dir: PathBuf,
    /// The trusted key of the log: a file, or what `crawlgate audit key` prints; repeat it if the key has changed
    /// [default: the key beside the store]
    #[arg(long, value_name = "FILE|KEY")]
    key: Vec<String>,
}

/// Writes the tree of the newest checkpoint.
pub(super) async fn write(
    args: &TilesArgs,
    store: &Arc<Store>,
    config: &Config,
) -> Result<CheckResult, Failure> {
    let trusted = Trusted::of_store(&args.key, config, store).await?;
    let Some(newest) = super::newest_trusted(store, &trusted).await? else {
        return Ok(CheckResult::Faults);
    };
    let size = newest.checkpoint.size;
    let held = (
        args.dir.as_path(),
        args.dir.join(Resource::Checkpoint.to_string()),
    );
    let held = HeldCheckpoint::read(held, &newest.checkpoint, &trusted.keys.all, NAMED);
    if let Some(held) = held? {
        held.require_continued(store, &newest.checkpoint).await?;
    }
    let mut roots = Roots::of(&store.roots().await?);
    let folder = Folder(&args.dir);
    let extent = store.extent().await?;
    let end_of_dropped = end_of_dropped(store, extent.first).await?;
    let Some(LeafTiles {
        last,
        mut dropped,
        lost,
    }) = write_bundles(store, &folder, (size, end_of_dropped), &mut roots).await?
    else {
        return Ok(CheckResult::Faults);
    };
    let mut prover = Prover::new(size, |tile: Tile| match tile.level() {
        0 => Ok(last.clone()),
        _ => roots.hashes(tile),
    });
    for tile in Tile::all(size).filter(|tile| tile.level() > 0) {
        match prover.tile(tile) {
            Ok(hashes) => folder.put(&Resource::Hashes(tile), hashes.as_flattened())?,
            // Of a dropped segment, the store keeps only the root.
            Err(ProverError::Source(MissingHashes)) => dropped += 1,
            Err(error) => return Err(error.into()),
        }
    }
    let root = prover.root()?;
    if root != newest.checkpoint.root {
        tell(&format!(
            "altered: the log of {size} records is not the one that was signed; the checkpoint is not written"
        ));
        return Ok(CheckResult::Faults);
    }
    let note = newest.note.to_string();
    folder.put(&Resource::Checkpoint, note.as_bytes())?;
    if dropped > 0 {
        tell(&format!(
            "{dropped} tiles are not written: retention has dropped their records"
        ));
    }
    for records in &lost {
        tell(&told(*records, "their tiles are not written"));
    }
    Ok(match lost.is_empty() {
        true => CheckResult::Clean,
        false => CheckResult::Faults,
    })
}

/// The tiles of level 0, written.
#[derive(Default)]
struct LeafTiles {
    /// The leaf hashes of the last bundle, if it is not full.
    last: Vec<Hash>,
    /// Number of tiles that retention has dropped.
    dropped: usize,
    /// Records that the store has lost.
    lost: Vec<Records>,
}

impl LeafTiles {
    /// Notes that the records of a tile are lost.
    fn lose(&mut self, tile: Tile) {
        let first = tile.index() * BUNDLE + 1;
        let last = first + u64::from(tile.width()) - 1;
        match self
            .lost
            .last_mut()
            .filter(|before| before.last + 1 == first)
        {
            Some(before) => before.last = last,
            None => self.lost.push(Records::new(first, last)),
        }
    }
}

/// Writes the tiles of level 0 with their entries, and adds the roots of full ones to `roots`. Returns `None` once a
/// bundle is found altered.
async fn write_bundles(
    store: &Arc<Store>,
    folder: &Folder<'_>,
    (size, end_of_dropped): (u64, u64),
    roots: &mut Roots,
) -> Result<Option<LeafTiles>, Failure> {
    let mut bottom = LeafTiles::default();
    for tile in Tile::all(size).filter(|tile| tile.level() == 0) {
        // The bundle may be full by now: its root is not that of its beginning, which the checkpoint ends with.
        let is_full = u64::from(tile.width()) == BUNDLE;
        let known = roots.bundle(tile.index()).filter(|_| is_full);
        let leaves = match known.and_then(|root| folder.whole(tile, &root)) {
            Some(leaves) => leaves,
            None => match entries(store, tile).await {
                Ok(Some(entries)) => folder.bundle(tile, &entries, known.as_ref())?,
                Ok(None) if tile.index() * BUNDLE < end_of_dropped => {
                    bottom.dropped += 1;
                    continue;
                }
                Ok(None) => {
                    bottom.lose(tile);
                    continue;
                }
                // The tree continues by the root that is kept.
                Err(error) if known.is_some() && error.is_of_lost() => {
                    bottom.lose(tile);
                    continue;
                }
                Err(error) => return Err(error.into()),
            },
        };
        let root = Tree::root_of(&leaves);
        if known.is_some_and(|known| known != root) {
            let first = tile.index() * BUNDLE + 1;
            tell(&format!(
                "altered: the records from {first} on are not those that were hashed"
            ));
            return Ok(None);
        }
        match is_full {
            true => roots.add_bundle(tile.index(), root),
            false => bottom.last = leaves,
        }
    }
    Ok(Some(bottom))
}

/// The directory of the files.
struct Folder<'p>(&'p Path);

impl Folder<'_> {
    /// Returns the leaf hashes of a full bundle, if both of its files are there and right.
    fn whole(&self, tile: Tile, root: &Hash) -> Option<Vec<Hash>> {
        let read = |file: Resource| fs::read(self.0.join(file.to_string())).ok();
        let hashes = tile.hashes(&read(Resource::Hashes(tile))?).ok()?;
        let content = read(Resource::Entries(tile))?;
        let entries = tile.entries(&content).ok()?;
        let is_right = entries
            .iter()
            .map(|entry| leaf_hash(entry))
            .eq(hashes.iter().copied());
        (is_right && Tree::root_of(&hashes) == *root).then_some(hashes)
    }

    /// Writes the two files of a bundle, unless it is altered; returns its leaf hashes.
    fn bundle(
        &self,
        tile: Tile,
        entries: &[Vec<u8>],
        root: Option<&Hash>,
    ) -> Result<Vec<Hash>, Failure> {
        let leaves = leaves_of(entries);
        if root.is_some_and(|root| *root != Tree::root_of(&leaves)) {
            return Ok(leaves);
        }
        let bundle = bundle_of(entries)?;
        self.put(&Resource::Entries(tile), &bundle)?;
        self.put(&Resource::Hashes(tile), leaves.as_flattened())?;
        Ok(leaves)
    }

    /// Puts a file in its place as a whole, unless it is there already.
    fn put(&self, file: &Resource, content: &[u8]) -> Result<(), Failure> {
        let path = self.0.join(file.to_string());
        let failed = |error: &dyn Display| format!("{}: {error}", path.display());
        if fs::read(&path).is_ok_and(|found| found == content) {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(self.0);
        let written = || -> io::Result<NamedTempFile> {
            fs::create_dir_all(folder)?;
            let mut beside = NamedTempFile::new_in(folder)?;
            beside.write_all(content)?;
            Ok(beside)
        };
        let beside = written().map_err(|error| failed(&error))?;
        let placed = beside.persist(&path);
        Ok(placed.map(drop).map_err(|error| failed(&error.error))?)
    }
}
