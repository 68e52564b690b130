//! The decision log of a store as it lies on the disk: each row of the log is read, and each root is made anew from the
//! entries.

use std::collections::HashSet;
use std::path::Path;

use crawlgate_block::Block;
use crawlgate_record::{Entry, id_of};
use crawlgate_store::state_file;
use crawlgate_tlog::{BUNDLE, Checkpoint, EMPTY_ROOT, Hash, Note, Tree, leaf_hash};
use rusqlite::{Connection, OpenFlags, Row};

fn number(row: &Row<'_>, column: usize) -> u64 {
    let number: i64 = row.get(column).unwrap();
    number.try_into().unwrap()
}

/// The log of a store.
pub(crate) struct StoredLog {
    /// The hashes of the entries.
    pub(crate) leaves: Vec<Hash>,
    /// The root of the tree at each size, from 0.
    roots: Vec<Hash>,
    /// The identifiers of decisions.
    pub(crate) decisions: HashSet<String>,
    /// Entries in blocks.
    pub(crate) packed: u64,
    /// The sizes that are signed.
    pub(crate) signed: Vec<u64>,
}

impl StoredLog {
    /// Reads a log that has dropped nothing. Fails unless it is whole: rows without gaps, canonical entries, bundles,
    /// checkpoints and the state file with the roots of these entries.
    #[track_caller]
    pub(crate) fn read(store: &Path) -> Self {
        // Before the rows: the file is never ahead of them.
        let state = state_file::read(store).unwrap();
        let connection =
            Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        // One view of all tables, while others write.
        connection.execute_batch("BEGIN").unwrap();
        let mut log = Self {
            leaves: Vec::new(),
            roots: vec![EMPTY_ROOT],
            decisions: HashSet::new(),
            packed: 0,
            signed: Vec::new(),
        };
        let mut tree = Tree::new();
        log.blocks(&connection, &mut tree);
        log.tail(&connection, &mut tree);
        let mut checkpoints =
            connection.prepare("SELECT size, note FROM checkpoint ORDER BY size").unwrap();
        let mut rows = checkpoints.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let (size, note): (u64, String) = (number(row, 0), row.get(1).unwrap());
            let note = Note::parse(note.as_bytes()).unwrap();
            let checkpoint = Checkpoint::from_text(note.text()).unwrap();
            assert_eq!(checkpoint.size, size);
            assert_eq!(checkpoint.root, log.root(size), "what was signed at {size}");
            log.signed.push(size);
        }
        if let Some((state, _)) = state {
            for (size, root) in [state.signed, state.written] {
                assert_eq!(root, log.root(size), "the state file at {size}");
            }
        }
        log
    }

    fn blocks(&mut self, connection: &Connection, tree: &mut Tree) {
        let mut blocks = connection
            .prepare("SELECT first, count, roots, body FROM block ORDER BY first")
            .unwrap();
        let mut rows = blocks.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let (first, count) = (number(row, 0), number(row, 1));
            let (roots, body): (Vec<u8>, Vec<u8>) = (row.get(2).unwrap(), row.get(3).unwrap());
            assert_eq!(first, self.size(), "a block is missing, or out of place");
            let block = Block::read(body).unwrap();
            for place in 0..block.len() {
                let mut entry = Vec::new();
                block.entry(place, &mut entry).unwrap();
                self.push(&entry, tree);
            }
            assert_eq!((first + count, count % BUNDLE), (self.size(), 0));
            let leaves = &self.leaves[usize::try_from(first).unwrap()..];
            let made: Vec<u8> = leaves.chunks(BUNDLE as usize).flat_map(Tree::root_of).collect();
            assert_eq!(roots, made, "the roots of the block at {first}");
            self.packed += count;
        }
    }

    fn tail(&mut self, connection: &Connection, tree: &mut Tree) {
        let mut tail =
            connection.prepare("SELECT first, count, entries FROM tail ORDER BY first").unwrap();
        let mut rows = tail.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let (first, count) = (number(row, 0), number(row, 1));
            let frames: Vec<u8> = row.get(2).unwrap();
            assert_eq!(first, self.size(), "a row is missing, or out of place");
            let mut rest = frames.as_slice();
            while let Some((length, behind)) = rest.split_first_chunk::<2>() {
                let (entry, behind) = behind.split_at(u16::from_be_bytes(*length).into());
                self.push(entry, tree);
                rest = behind;
            }
            assert_eq!((first + count, rest.len()), (self.size(), 0));
        }
    }

    fn push(&mut self, entry: &[u8], tree: &mut Tree) {
        if let Entry::Decision(_) = Entry::read(entry).unwrap() {
            let id = crawlgate_evidence::DecisionId::from_octets(*id_of(entry).unwrap());
            let is_new = self.decisions.insert(id.to_string());
            assert!(is_new, "{id} is there twice");
        }
        let leaf = leaf_hash(entry);
        let _ = tree.push(leaf);
        self.leaves.push(leaf);
        self.roots.push(tree.root());
    }

    /// Returns the number of entries.
    pub(crate) fn size(&self) -> u64 {
        self.roots.len() as u64 - 1
    }

    /// Returns the root of the first `size` entries, which must be there.
    #[track_caller]
    pub(crate) fn root(&self, size: u64) -> Hash {
        let roots = &self.roots;
        let root = roots.get(usize::try_from(size).unwrap());
        *root.unwrap_or_else(|| panic!("entries behind {} are missing: {size}", self.size()))
    }
}
