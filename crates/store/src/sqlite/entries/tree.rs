//! Roots and proofs, from the roots that the database keeps and from the entries.

use rusqlite::{Connection, Transaction, params};

use super::super::engine::{Failure, Statements as _, hashes, integer, number};
use super::head::hole;
use super::read::{Blocks, Run, extent, run_of};
use crate::{Records, StoredRoot, failed};
use crawlgate_tlog::{
    BUNDLE, ConsistencyProof, Edge, Hash, InclusionProof, Prover, ProverError, SEGMENT, Tile, Tree,
    leaf_hash,
};

/// The function that returns the hashes of a tile.
type Source<'g> = Box<dyn FnMut(Tile) -> Result<Vec<Hash>, Failure> + 'g>;

/// The tree of some size over the entries of the database.
pub(crate) struct StoredTree<'c> {
    connection: &'c Connection,
    blocks: &'c Blocks,
}

impl<'c> StoredTree<'c> {
    pub(crate) fn new(connection: &'c Connection, blocks: &'c Blocks) -> Self {
        Self { connection, blocks }
    }

    /// Returns the root of the tree over the first `size` entries.
    pub(crate) fn root(&self, size: u64) -> Result<Hash, Failure> {
        self.prover(size)?.root().map_err(failure_of)
    }

    /// Returns the proof that the tree of this size holds an entry.
    pub(crate) fn inclusion(&self, index: u64, size: u64) -> Result<InclusionProof, Failure> {
        self.prover(size)?.inclusion(index).map_err(failure_of)
    }

    /// Returns the proof that a tree begins with an older one.
    pub(crate) fn consistency(&self, old: u64, new: u64) -> Result<ConsistencyProof, Failure> {
        let mut prover = self.prover(new)?;
        if let Some(edge) = self.edge(old)? {
            prover = prover.with_edge(&edge);
        }
        prover.consistency(old).map_err(failure_of)
    }

    /// Returns the hashes that a checkpoint needs once its entries, or the roots around it, are gone.
    pub(super) fn edge_of(
        &self,
        size: u64,
        unit: crawlgate_tlog::DropUnit,
    ) -> Result<Edge, Failure> {
        let (_, end) = extent(self.connection)?;
        let mut prover = Prover::new(end, |tile| self.tile(tile));
        if let Some(edge) = self.edge(size)? {
            prover = prover.with_edge(&edge);
        }
        prover.edge(size, unit).map_err(failure_of)
    }

    /// Returns a maker of proofs in the tree over the first `size` entries. A size in a dropped part is possible at a
    /// checkpoint, which has kept its hashes.
    fn prover(&self, size: u64) -> Result<Prover<Source<'_>>, Failure> {
        let source: Source<'_> = Box::new(|tile| self.tile(tile));
        let prover = Prover::new(size, source);
        Ok(match self.edge(size)? {
            Some(edge) => prover.with_edge(&edge),
            None => prover,
        })
    }

    fn edge(&self, size: u64) -> Result<Option<Edge>, Failure> {
        let text = "SELECT edge FROM checkpoint WHERE size = ?1 AND edge IS NOT NULL";
        let edge: Option<Vec<u8>> = self.connection.value(text, [integer(size)])?;
        let Some(edge) = edge else {
            return Ok(None);
        };
        let edge = Edge::from_bytes(size, &edge);
        let wrong = || Failure::Damaged(format!("the checkpoint of {size} records is unreadable"));
        edge.map(Some).ok_or_else(wrong)
    }

    /// Returns the hashes of a tile, or more.
    fn tile(&self, tile: Tile) -> Result<Vec<Hash>, Failure> {
        match tile.level() {
            0 => self.leaves(tile.index() * BUNDLE),
            1 => self.bundles(tile.index()),
            _ => self.segments(tile.index() * 256, tile.width().into()),
        }
    }

    /// Returns the leaf hashes of a bundle, as far as there are entries.
    fn leaves(&self, first: u64) -> Result<Vec<Hash>, Failure> {
        let mut leaves = Vec::new();
        let mut at = first;
        while at < first + BUNDLE {
            let Some(placed) = run_of(self.connection, self.blocks, at)? else {
                break;
            };
            if matches!(placed.run, Run::Dropped) {
                return Err(failed(format!(
                    "{} were dropped from the store",
                    Records::new(first + 1, first + BUNDLE)
                ))
                .into());
            }
            let range = at..=first + BUNDLE - 1;
            let entries = placed.entries(&range)?;
            leaves.extend(entries.iter().map(|(_, entry)| leaf_hash(entry)));
            at = placed.first + placed.count;
        }
        Ok(leaves)
    }

    /// Returns the roots of the bundles of a segment, as far as there are whole ones.
    fn bundles(&self, segment: u64) -> Result<Vec<Hash>, Failure> {
        let (first, end) = (segment * SEGMENT, (segment + 1) * SEGMENT);
        let mut roots: Vec<Hash> = Vec::new();
        let text = "SELECT first, roots FROM block WHERE first >= ?1 AND first < ?2 ORDER BY first";
        let range = [integer(first), integer(end)];
        self.connection.each(text, range, |row| {
            let at = first + roots.len() as u64 * BUNDLE;
            let (more, rest) = hashes(row, 1)?;
            if number(row.get(0)?) != at || !rest.is_empty() {
                return Err(hole(at));
            }
            roots.extend(more);
            Ok(())
        })?;
        // The entries of the tail.
        let mut at = first + roots.len() as u64 * BUNDLE;
        while at < end {
            let leaves = self.leaves(at)?;
            if (leaves.len() as u64) < BUNDLE {
                break;
            }
            roots.push(Tree::root_of(&leaves));
            at += BUNDLE;
        }
        Ok(roots)
    }

    /// Returns the roots of segments, as far as there are whole ones.
    fn segments(&self, first: u64, count: u64) -> Result<Vec<Hash>, Failure> {
        let mut roots: Vec<Hash> = Vec::new();
        let text =
            "SELECT number, root FROM segment WHERE number >= ?1 AND number < ?2 ORDER BY number";
        let range = [integer(first), integer(first + count)];
        self.connection.each(text, range, |row| {
            let at = first + roots.len() as u64;
            if number(row.get(0)?) != at {
                return Err(hole(at * SEGMENT));
            }
            roots.push(row.get(1)?);
            Ok(())
        })?;
        // One that ends in the tail has no row yet.
        for segment in first + roots.len() as u64..first + count {
            let bundles = self.bundles(segment)?;
            if bundles.len() as u64 * BUNDLE < SEGMENT {
                break;
            }
            roots.push(Tree::root_of(&bundles));
        }
        Ok(roots)
    }
}

/// Keeps the hashes around each checkpoint in a part that goes, or becomes a block, which may be damaged one day. Where
/// it is damaged already, a checkpoint stays without them, and cannot be compared any more.
pub(super) fn keep_edges(
    transaction: &Transaction<'_>,
    tree: &StoredTree<'_>,
    (from, to): (u64, u64),
    kind: crawlgate_tlog::DropUnit,
) -> Result<(), Failure> {
    let text = "SELECT size FROM checkpoint WHERE size > ?1 AND size <= ?2 ORDER BY size";
    let range = [integer(from), integer(to)];
    let sizes: Vec<i64> = transaction.all(text, range, |row| Ok(row.get(0)?))?;
    for size in sizes {
        let edge = match tree.edge_of(number(size), kind) {
            Ok(edge) => edge.to_bytes(),
            Err(Failure::Damaged(_)) => continue,
            Err(failure) => return Err(failure),
        };
        let text = "UPDATE checkpoint SET edge = ?2 WHERE size = ?1";
        transaction.run(text, params![size, edge])?;
    }
    Ok(())
}

/// Returns the roots of bundles and segments in the tables.
pub(crate) fn roots(connection: &Connection) -> Result<Vec<StoredRoot>, Failure> {
    let text = "SELECT number, root FROM segment ORDER BY number";
    let mut all = connection.all(text, [], |row| {
        Ok(StoredRoot { first: number(row.get(0)?) * SEGMENT, count: SEGMENT, root: row.get(1)? })
    })?;
    let text = "SELECT first, roots FROM block ORDER BY first";
    connection.each(text, [], |row| {
        let first = number(row.get(0)?);
        let roots = (0..).zip(hashes(row, 1)?.0);
        all.extend(roots.map(|(nth, root)| StoredRoot {
            first: first + nth * BUNDLE,
            count: BUNDLE,
            root: *root,
        }));
        Ok(())
    })?;
    Ok(all)
}

fn failure_of(error: ProverError<Failure>) -> Failure {
    match error {
        ProverError::Source(failure) => failure,
        other => Failure::Damaged(format!("the tree over the records: {other}")),
    }
}
