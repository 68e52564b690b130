//! The collected copy of a log of another machine: a store that only `crawlgate collect` writes, and that has no private
//! key.
//!
//! The caller verifies: all that it files is covered by a checkpoint of the log, though a run that was cut off may not have
//! filed that checkpoint itself. This module files, as the store of a gate does.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Row, Transaction, params};

use super::engine::{Failure, Statements as _, hashes, integer, moment, time};
use super::entries::{Blocks, Head, StoredTree, Uses, append, checkpoint, extent, fold};
use super::notes::{MARK, is_collected};
use super::origin_update::packed;
use super::{agree, engine, objects, open, read, robots, rotations, write};
use crate::log_key::StoredCheckpoint;
use crate::public_keys;
use crate::rotation::Rotation;
use crate::state_file::End;
use crate::{Access, Entries, Object, ObjectKind, Sha256, StoreError, StoreErrorKind, failed};
use crawlgate_config::Synchronous;
use crawlgate_record::{Entry, EventKind};
use crawlgate_system::clock::Moment;
use crawlgate_tlog::{BUNDLE, Hash, Note, SEGMENT, Tree, VerifierKey};

/// Digests to remember, so that the database is not asked for each entry.
const MAX_KNOWN: usize = 65_536;

/// A body that entries name and the copy does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingBody {
    /// Its digest.
    pub sha256: Sha256,
    /// The kind of the object; `None` for the text of a robots.txt.
    pub kind: Option<ObjectKind>,
}

/// The collected copy of a log, open for writing.
#[derive(Debug)]
pub struct Collected {
    path: PathBuf,
    connection: Connection,
    head: Head,
    blocks: Blocks,
}

impl Collected {
    /// Opens the copy at `path`, and creates it if it is missing.
    ///
    /// # Errors
    /// When it cannot be opened, is damaged, or is no collected copy.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let at = |failure: Failure| failure.at(path);
        open::require(path, Access::Write)?;
        agree::refuse_foreign_log(path).map_err(at)?;
        let connection = open::made_ready(path, Synchronous::Full)?;
        let head = Head::read(&connection).map_err(at)?;
        if !is_collected(&connection).map_err(at)? {
            if head.size() > 0 {
                return Err(StoreErrorKind::Denied.at(
                    path,
                    "this is the store of a gate, not a collected copy; name another directory",
                ));
            }
            connection.run(MARK, []).map_err(at)?;
        }
        Ok(Self { path: path.to_owned(), connection, head, blocks: Blocks::default() })
    }

    /// Returns the number of records, and the root over them.
    #[must_use]
    pub fn end(&self) -> End {
        (self.head.size(), self.head.root())
    }

    /// Returns the tree over the records.
    #[must_use]
    pub fn tree(&self) -> Tree {
        self.head.tree()
    }

    /// Returns the index of the first record that is here.
    ///
    /// # Errors
    /// When the copy cannot be read.
    pub fn first(&self) -> Result<u64, StoreError> {
        self.read(|connection| Ok(extent(connection)?.0))
    }

    /// Returns the number of records that are here.
    ///
    /// # Errors
    /// When the copy cannot be read.
    pub fn kept(&self) -> Result<u64, StoreError> {
        self.read(read::kept)
    }

    /// Returns the latest time of a record.
    ///
    /// # Errors
    /// When the copy cannot be read.
    pub fn latest(&self) -> Result<Moment, StoreError> {
        let text = "SELECT max(coalesce((SELECT max(max_time) FROM block), 0), coalesce((SELECT max(max_time) FROM tail), 0))";
        self.read(|connection| connection.only(text, []).map(moment))
    }

    /// Returns the newest checkpoint.
    ///
    /// # Errors
    /// When the copy cannot be read.
    pub fn newest(&self) -> Result<Option<StoredCheckpoint>, StoreError> {
        self.read(checkpoint::last)
    }

    /// Returns the keys of the log that have replaced others.
    ///
    /// # Errors
    /// When the copy cannot be read.
    pub fn rotations(&self) -> Result<Vec<Rotation>, StoreError> {
        self.read(rotations::readable)
    }

    /// Returns the root over the first `size` records. `None` if these end before the first one that is here.
    ///
    /// # Errors
    /// When the copy cannot be read.
    pub fn root(&self, size: u64) -> Result<Option<Hash>, StoreError> {
        self.read(|connection| {
            let is_here = size > extent(connection)?.0;
            let tree = StoredTree::new(connection, &self.blocks);
            is_here.then(|| tree.root(size)).transpose()
        })
    }

    /// Returns the bodies that records name and that are not here.
    ///
    /// # Errors
    /// When the copy cannot be read.
    pub fn missing(&self) -> Result<Vec<MissingBody>, StoreError> {
        let text = "SELECT sha256, kind FROM object WHERE length(body) = 0 \
                    UNION ALL SELECT sha256, NULL FROM snapshot WHERE dropped IS NOT NULL";
        let body = |row: &Row<'_>| {
            let number: Option<i64> = row.get(1)?;
            let mut kinds = ObjectKind::ALL.into_iter();
            Ok(MissingBody {
                sha256: row.get(0)?,
                kind: number.map(|number| {
                    let found = kinds.find(|kind| integer(kind.number()) == number);
                    found.unwrap_or(ObjectKind::PolicySettings)
                }),
            })
        };
        self.read(|connection| connection.all(text, [], body))
    }

    fn read<T>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        question(&self.connection).map_err(|failure| failure.at(&self.path))
    }

    /// Begins to file. Nothing stays of it without [`Filing::commit`].
    ///
    /// # Errors
    /// When the copy cannot be written.
    pub fn begin(&mut self) -> Result<Filing<'_>, StoreError> {
        let Self { path, connection, head, .. } = self;
        let transaction = engine::begin(connection).map_err(|failure| failure.at(path))?;
        Ok(Filing {
            path,
            transaction,
            new: head.clone(),
            head,
            uses: Uses::default(),
            known: HashSet::new(),
        })
    }
}

/// Records and bodies on their way into a copy.
pub struct Filing<'c> {
    path: &'c Path,
    transaction: Transaction<'c>,
    /// The end of the copy with what is filed.
    new: Head,
    /// The end of the copy without it.
    head: &'c mut Head,
    uses: Uses,
    /// Digests of objects that are here, or noted as missing.
    known: HashSet<Sha256>,
}

impl Filing<'_> {
    /// Returns the number of records with those that are filed, and the root over them.
    #[must_use]
    pub fn end(&self) -> End {
        (self.new.size(), self.new.root())
    }

    /// Returns the root over the first `size` records, those that are filed among them.
    ///
    /// # Errors
    /// When the copy cannot be read.
    pub fn root(&self, size: u64) -> Result<Hash, StoreError> {
        let root = StoredTree::new(&self.transaction, &Blocks::default()).root(size);
        root.map_err(|failure| failure.at(self.path))
    }

    /// Begins an empty copy behind records that it does not have, of which these are the roots. `at` is the time of the
    /// record that follows.
    ///
    /// # Errors
    /// When the copy is not empty, or cannot be written.
    pub fn dropped_roots(
        &mut self,
        segments: &[Hash],
        bundles: &[Hash],
        at: Moment,
    ) -> Result<(), StoreError> {
        self.file(|this| {
            this.new = dropped_roots(&this.transaction, &this.new, (segments, bundles), at)?;
            Ok(())
        })
    }

    /// Files the roots of bundles in the place of the next records. `at` is the time of the record before. The records of the last,
    /// partial bundle go, with the checkpoints in it, because the first root takes their place, too.
    ///
    /// # Errors
    /// When the copy cannot be written.
    pub fn missing(&mut self, roots: &[Hash], at: Moment) -> Result<(), StoreError> {
        self.file(|this| missing(&this.transaction, &mut this.new, roots, at))
    }

    /// Returns the tree over the records, with those that are filed.
    #[must_use]
    pub fn tree(&self) -> Tree {
        self.new.tree()
    }

    /// Tells whether an object is here, or noted as missing.
    ///
    /// # Errors
    /// When the copy cannot be read.
    pub fn knows(&mut self, sha256: &Sha256) -> Result<bool, StoreError> {
        if self.known.contains(sha256) {
            return Ok(true);
        }
        let text = "SELECT 1 FROM object WHERE sha256 = ?1";
        let is_known = self.file(|this| this.transaction.has(text, [sha256]))?;
        if is_known {
            self.remember(*sha256);
        }
        Ok(is_known)
    }

    fn file<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let path = self.path;
        work(self).map_err(|failure| failure.at(path))
    }

    fn remember(&mut self, sha256: Sha256) {
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(sha256);
    }

    /// Files an object that a record of this time names, or notes that it is missing. `body` has the digest.
    ///
    /// # Errors
    /// When the copy cannot be written.
    pub fn object(
        &mut self,
        missing: MissingBody,
        body: Option<&[u8]>,
        at: Moment,
    ) -> Result<(), StoreError> {
        self.file(|this| object(&this.transaction, missing, body, at))?;
        self.remember(missing.sha256);
        Ok(())
    }

    /// Tells whether the text of a robots.txt is named and not here.
    ///
    /// # Errors
    /// When the copy cannot be read.
    pub fn lacks_text(&self, sha256: &Sha256) -> Result<bool, StoreError> {
        let is_dropped = robots::is_dropped(&self.transaction, *sha256);
        is_dropped.map_err(|failure| failure.at(self.path))
    }

    /// Files the text of a robots.txt that an object names. `body` has the digest.
    ///
    /// # Errors
    /// When the copy cannot be written.
    pub fn text(&mut self, sha256: &Sha256, body: &[u8]) -> Result<(), StoreError> {
        let text = "UPDATE snapshot SET bytes = ?2, body = ?3, dropped = NULL WHERE sha256 = ?1";
        self.file(|this| {
            let values = params![sha256, integer(body.len() as u64), packed(body)?];
            this.transaction.run(text, values).map(drop)
        })
    }

    /// Files the next records.
    ///
    /// # Errors
    /// When one is no entry, or the copy cannot be written.
    pub fn records(&mut self, entries: &Entries) -> Result<(), StoreError> {
        self.file(|this| {
            let (transaction, frames) = (&this.transaction, entries.frames());
            let mut effects = this.uses.begin();
            append(transaction, &mut this.new, frames, None, Some(&mut effects))?;
            let noted = effects.write(transaction, &[])?;
            this.uses.committed(noted);
            acknowledgements(transaction, entries)
        })
    }

    /// Files a checkpoint over the first `size` records; `at` is the time of the last record.
    ///
    /// # Errors
    /// When the copy cannot be written.
    pub fn checkpoint(&mut self, size: u64, note: &Note, at: Moment) -> Result<(), StoreError> {
        self.file(|this| checkpoint::put(&this.transaction, size, note, at).map(drop))
    }

    /// Files the replacement of the key of the log by the last record, if the checkpoint over it (`note`) proves that.
    ///
    /// # Errors
    /// When the copy cannot be read or written.
    pub fn rotation(
        &mut self,
        entry: Vec<u8>,
        note: &Note,
    ) -> Result<Option<Rotation>, StoreError> {
        self.file(|this| rotations::put(&this.transaction, entry, this.new.size(), note))
    }

    /// Sets the public keys that are trusted for the log from now on.
    ///
    /// # Errors
    /// When they cannot be written beside the copy.
    pub fn trust(&self, keys: &[VerifierKey]) -> Result<(), StoreError> {
        let set = public_keys::set_collected_keys(self.path, keys);
        set.map_err(|error| {
            let file = public_keys::collected_keys_file(self.path);
            failed(format!("{}: {error}", file.display()))
        })
    }

    /// Keeps what was filed.
    ///
    /// # Errors
    /// When the copy cannot be written. It is then as it was.
    pub fn commit(self) -> Result<(), StoreError> {
        let committed = self.transaction.commit();
        committed.map_err(|error| Failure::from(error).at(self.path))?;
        *self.head = self.new;
        Ok(())
    }
}

fn dropped_roots(
    transaction: &Transaction<'_>,
    head: &Head,
    (segments, bundles): (&[Hash], &[Hash]),
    at: Moment,
) -> Result<Head, Failure> {
    if head.size() > 0 {
        return Err(failed("the copy has records already").into());
    }
    for (number, root) in (0..).zip(segments) {
        let text = "INSERT INTO segment VALUES (?1, ?2, ?3, ?3, NULL, NULL)";
        transaction.run(text, params![integer(number), root, time(at)])?;
    }
    if !bundles.is_empty() {
        dropped_block(transaction, segments.len() as u64 * SEGMENT, bundles, at)?;
    }
    Head::read(transaction)
}

/// Files a block without its entries, of which these are the roots of the bundles.
fn dropped_block(
    transaction: &Transaction<'_>,
    first: u64,
    bundles: &[Hash],
    at: Moment,
) -> Result<(), Failure> {
    let count = integer(bundles.len() as u64 * BUNDLE);
    let text = "INSERT INTO block VALUES (?1, ?2, ?3, ?3, 0, ?4, NULL)";
    let values = params![integer(first), count, time(at), bundles.as_flattened()];
    transaction.run(text, values).map(drop)
}

/// Files the roots of bundles behind the last whole bundle of the log. The records behind that go.
fn missing(
    transaction: &Transaction<'_>,
    head: &mut Head,
    roots: &[Hash],
    at: Moment,
) -> Result<(), Failure> {
    fold(transaction, head, u64::MAX)?;
    let mut first = head.size() / BUNDLE * BUNDLE;
    for text in [
        "DELETE FROM tail WHERE first >= ?1",
        "DELETE FROM acknowledgement WHERE seq > ?1",
        // A checkpoint in the middle of the bundle cannot be compared without its leaves.
        "DELETE FROM checkpoint WHERE size > ?1",
    ] {
        transaction.run(text, [integer(first)])?;
    }
    let mut left = roots;
    while !left.is_empty() {
        let to_segment = (SEGMENT - first % SEGMENT) / BUNDLE;
        let count = usize::try_from(to_segment).unwrap_or(left.len());
        let (now, behind) = left.split_at(count.min(left.len()));
        dropped_block(transaction, first, now, at)?;
        (first, left) = (first + now.len() as u64 * BUNDLE, behind);
        if first.is_multiple_of(SEGMENT) {
            segment(transaction, first - SEGMENT)?;
        }
    }
    *head = Head::read(transaction)?;
    Ok(())
}

/// Files the row of the segment from `first` on. All its blocks are there. It has no index: a search reads the blocks.
fn segment(transaction: &Transaction<'_>, first: u64) -> Result<(), Failure> {
    let mut bundles: Vec<Hash> = Vec::new();
    let text = "SELECT roots FROM block WHERE first >= ?1 ORDER BY first";
    transaction.each(text, [integer(first)], |row| {
        bundles.extend(hashes(row, 0)?.0);
        Ok(())
    })?;
    let text = "INSERT INTO segment SELECT ?1, ?2, min(min_time), max(max_time), NULL, NULL FROM block WHERE first >= ?3";
    let (number, root) = (integer(first / SEGMENT), Tree::root_of(&bundles));
    let values = params![number, root, integer(first)];
    transaction.run(text, values).map(drop)
}

/// Files an object in the place of a row that notes it as missing, or that row.
fn object(
    transaction: &Transaction<'_>,
    missing: MissingBody,
    body: Option<&[u8]>,
    at: Moment,
) -> Result<(), Failure> {
    let kind = missing.kind.unwrap_or(ObjectKind::Basis);
    let Some(body) = body else {
        objects::note_lost(transaction, &missing.sha256, kind, at)?;
        return Ok(());
    };
    // A new row, so that the text it names is expected.
    let text = "DELETE FROM object WHERE sha256 = ?1 RETURNING used";
    let used = transaction.value(text, [missing.sha256])?;
    let used = used.map_or(at, |used| moment(used).max(at));
    objects::add(transaction, &Object::new(kind, body), used)
}

/// Notes the acknowledgements among entries, by which decisions are searched.
fn acknowledgements(transaction: &Transaction<'_>, entries: &Entries) -> Result<(), Failure> {
    for octets in entries.iter() {
        let Ok(Entry::Event(event)) = Entry::read(octets) else {
            continue;
        };
        if let EventKind::Acknowledged { index, by, note } = event.kind {
            let at = Moment::from_millis(event.time());
            write::note_acknowledged(transaction, index, at, (by.kept, note.kept))?;
        }
    }
    Ok(())
}
