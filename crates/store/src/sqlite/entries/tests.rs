//! The log against a model in memory: every root and proof, and all counts, for entries appended in batches of any size.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::append::{append, fold};
use super::head::{Head, Memory};
use super::read::{Blocks, entry, extent, walk, with_ids};
use super::tree::StoredTree;
use super::{Uses, checkpoint, retention};
use crate::Sha256;
use crate::types::WEEK;
use crawlgate_record::samples::Dice;
use crawlgate_record::samples::dice::{self};
use crawlgate_record::{DropCause, Entry, Event, EventKind, Outline, id_of};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;
use crawlgate_tlog::{BUNDLE, Checkpoint, Note, SEGMENT, Signer, Tree, leaf_hash, push_entry};

const NOON: Moment = Moment::from_millis(1_795_176_000_000);

struct Log {
    connection: Connection,
    memory: Memory,
    blocks: Blocks,
    /// All entries that were ever appended.
    model: Vec<Vec<u8>>,
    /// Octets of the tail from which on it becomes blocks, if that is bounded.
    most: Option<u64>,
}

fn log() -> Log {
    log_on(Connection::open_in_memory().unwrap())
}

/// Creates the tables.
fn log_on(connection: Connection) -> Log {
    connection.execute_batch(super::TABLES).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE meta (name PRIMARY KEY, value);
             CREATE TABLE acknowledgement (seq INTEGER PRIMARY KEY);
             CREATE TABLE hourly (hour, mode, verdict, reason, count, PRIMARY KEY (hour, mode, verdict, reason));",
        )
        .unwrap();
    Log {
        connection,
        memory: Memory::default(),
        blocks: Blocks::default(),
        model: Vec::new(),
        most: None,
    }
}

fn begin(connection: &mut Connection) -> Transaction<'_> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap()
}

impl Log {
    /// Appends `count` entries of all kinds, a second apart. The database can hold the sums of their counts.
    fn put(&mut self, count: usize) {
        let mut dice = Dice(self.model.len() as u64 + 1);
        let is_countable = |entry: &Vec<u8>| {
            let counted = Outline::read(entry).unwrap().counted;
            counted.is_none_or(|one| one.count < 1 << 32)
        };
        self.put_of(count, || {
            let mut entries = std::iter::repeat_with(|| dice::entry(&mut dice));
            entries.find(is_countable).unwrap()
        });
    }

    /// Appends events, which cost little.
    fn put_events(&mut self, count: usize) {
        let kind = EventKind::Lost { count: 1, first: 2, last: 3, size: None };
        let mut entry = Vec::new();
        Event { id: [0; 16], kind }.encode(&mut entry);
        self.put_of(count, || entry.clone());
    }

    fn put_of(&mut self, count: usize, mut entry: impl FnMut() -> Vec<u8>) {
        let mut frames = Vec::new();
        let before = self.model.len();
        for _ in 0..count {
            let at = NOON + Duration::from_secs(self.model.len() as u64);
            let id = DecisionId::mint(at).octets();
            let mut entry = entry();
            let place = memchr::memmem::find(&entry, id_of(&entry).unwrap()).unwrap();
            entry[place..place + 16].copy_from_slice(&id);
            push_entry(&mut frames, &entry).unwrap();
            self.model.push(entry);
        }
        let transaction = begin(&mut self.connection);
        let mut head = self.memory.head(&transaction).unwrap();
        let uses = Uses::default();
        let mut effects = uses.begin();
        append(&transaction, &mut head, &frames, self.most, Some(&mut effects)).unwrap();
        let noted = effects.write(&transaction, &[]).unwrap();
        transaction.commit().unwrap();
        self.memory.committed(head);
        let mut named: BTreeMap<Sha256, u64> = BTreeMap::new();
        for entry in &self.model[before..] {
            let outline = Outline::read(entry).unwrap();
            for sha256 in outline.named.into_iter().flatten() {
                let week = named.entry(*sha256).or_default();
                *week = (outline.time / WEEK).max(*week);
            }
        }
        assert!(noted.iter().collect::<BTreeMap<_, _>>() == named.iter().collect());
    }

    fn head(&mut self) -> Head {
        self.memory.head(&self.connection).unwrap()
    }

    fn root(&self, size: u64) -> [u8; 32] {
        let leaves = self.model.iter().take(size as usize);
        let leaves: Vec<_> = leaves.map(|entry| leaf_hash(entry)).collect();
        Tree::root_of(&leaves)
    }

    fn counts(&self) -> (i64, i64, i64) {
        let count = |table: &str| {
            let text = format!("SELECT count(*) FROM {table}");
            self.connection.query_row(&text, [], |row| row.get(0)).unwrap()
        };
        (count("tail"), count("block"), count("segment"))
    }

    /// Returns the decisions of all batches, by hour and kind: as the database counts them, and as they are.
    fn hours(&self) -> [Vec<(i64, String, i64)>; 2] {
        let mut counted = self
            .connection
            .prepare(
                "SELECT hour, mode || ' ' || verdict || ' ' || reason, count FROM hourly ORDER BY 1, 2",
            )
            .unwrap();
        let counted = counted.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        let mut all: BTreeMap<(i64, String), i64> = BTreeMap::new();
        for entry in &self.model {
            let outline = Outline::read(entry).unwrap();
            let Some(one) = outline.counted else { continue };
            let kind = format!("{} {} {}", one.mode.as_str(), one.verdict.as_str(), one.reason);
            let hour = outline.time / 3_600_000 * 3_600_000;
            *all.entry((hour as i64, kind)).or_default() += one.count as i64;
        }
        let all = all.into_iter();
        [
            counted.unwrap().map(Result::unwrap).collect(),
            all.map(|((hour, kind), count)| (hour, kind, count)).collect(),
        ]
    }

    fn check(&mut self) {
        let [counted, all] = self.hours();
        assert_eq!(counted, all);
        let size = self.model.len() as u64;
        let head = self.head();
        let read = Head::read(&self.connection).unwrap();
        assert_eq!((head.size(), head.root()), (size, self.root(size)));
        assert_eq!((read.size(), read.root()), (size, head.root()));
        assert_eq!((read.tail, read.tail_octets), (head.tail, head.tail_octets));
        assert_eq!((&read.bundles, &read.segments), (&head.bundles, &head.segments));
        let (first, end) = extent(&self.connection).unwrap();
        assert_eq!(end, size);
        for newest_first in [false, true] {
            let mut seen = Vec::new();
            walk(&self.connection, &self.blocks, 0..=u64::MAX, newest_first, |index, entry| {
                assert_eq!(entry, self.model[index as usize], "{index}");
                seen.push(index);
                Ok(true)
            })
            .unwrap();
            if newest_first {
                seen.reverse();
            }
            assert!(seen.iter().copied().eq(first..size));
        }
    }
}

#[test]
fn batches_of_any_size_make_the_same_tree_and_give_back_each_entry() {
    let mut log = log();
    let sizes = [1, 2, 253, 255, 1, 700, 1_023, 1_024, 3_000, 90, 1_500, 5_000];
    for size in sizes {
        log.put(size);
        log.check();
    }
    let (_, blocks, segments) = log.counts();
    assert!(blocks > 3, "{blocks}");
    assert_eq!(segments, 0);
    let tree = StoredTree::new(&log.connection, &log.blocks);
    let size = log.model.len() as u64;
    for old in [1, 255, 256, 257, 1_024, 5_000, size] {
        assert_eq!(tree.root(old).unwrap(), log.root(old), "{old}");
        let proof = tree.consistency(old, size).unwrap();
        assert_eq!(proof.verify(&log.root(old), &log.root(size)), Ok(()));
    }
    for index in [0, 255, 256, 4_095, size - 1] {
        let proof = tree.inclusion(index, size).unwrap();
        let leaf = leaf_hash(&log.model[index as usize]);
        assert_eq!(proof.verify(&leaf, &log.root(size)), Ok(()));
        if let Ok(Entry::Decision(one)) = Entry::read(&log.model[index as usize]) {
            let id = DecisionId::from_octets(one.id);
            let found = with_ids(&log.connection, &log.blocks, &(id..=id), 2).unwrap();
            assert_eq!(found, [(index, log.model[index as usize].clone())]);
        }
        let same = entry(&log.connection, &log.blocks, index).unwrap();
        assert_eq!(same.as_ref(), Some(&log.model[index as usize]));
    }
    assert_eq!(entry(&log.connection, &log.blocks, size).unwrap(), None);
}

#[test]
fn a_segment_keeps_its_root_when_its_blocks_are_gone() {
    let mut log = log();
    for _ in 0..17 {
        log.put_events(4_000);
    }
    log.check();
    assert_eq!(log.counts().2, 1);
    let pair = crawlgate_tlog::samples::pair(1);
    let signer = Signer::new("log".parse().unwrap(), &pair);
    let mut roots = Vec::new();
    // Checkpoints at odd places, the last one beyond the segment.
    log.put_events(300);
    let transaction = begin(&mut log.connection);
    let head = log.memory.head(&transaction).unwrap();
    let sign = |(size, root)| signer.checkpoint(size, root);
    let signed = checkpoint::sign(&transaction, &head, sign, NOON).unwrap().unwrap();
    assert_eq!(checkpoint::sign(&transaction, &head, sign, NOON).unwrap(), None);
    for size in [3, 300, 4_096, 5_000, SEGMENT - 1, SEGMENT, SEGMENT + 100] {
        let root = Tree::root_of(&leaves(&log.model, size));
        let note = signer.checkpoint(size, root);
        transaction
            .execute(
                "INSERT INTO checkpoint (size, time, note) VALUES (?1, ?2, ?3)",
                rusqlite::params![size as i64, size as i64 * 86_400_000, note.to_string()],
            )
            .unwrap();
        roots.push((size, root));
    }
    transaction.commit().unwrap();
    let sizes: Vec<u64> =
        checkpoint::all(&log.connection).unwrap().iter().map(|one| one.size).collect();
    let mut known: Vec<u64> = roots.iter().map(|(size, _)| *size).collect();
    known.push(signed.size);
    assert_eq!(sizes, known);
    let note = Note::parse(signed.note.as_bytes()).unwrap();
    let (opened, _) = Checkpoint::open(&note, std::slice::from_ref(signer.key())).unwrap();
    let size = log.model.len() as u64;
    let root = log.root(size);
    assert_eq!((opened.size, opened.root), (size, root));
    // Two more of one day, one of them cosigned.
    for (size, cosigned) in [(4_998, 0), (4_999, 1)] {
        let root = Tree::root_of(&leaves(&log.model, size));
        let note = signer.checkpoint(size, root).to_string();
        let day = 5_000_i64 * 86_400_000;
        let row = rusqlite::params![size as i64, day, note, cosigned];
        let put = "INSERT INTO checkpoint (size, time, note, cosigned) VALUES (?1, ?2, ?3, ?4)";
        log.connection.execute(put, row).unwrap();
        if cosigned > 0 {
            roots.push((size, root));
        }
    }
    // The oldest blocks, one after the other.
    let mut ends = Vec::new();
    while let Some(oldest) = retention::oldest(&log.connection).unwrap() {
        let end = oldest.first + oldest.count;
        let transaction = begin(&mut log.connection);
        retention::drop_before(&transaction, &log.blocks, end).unwrap();
        transaction.commit().unwrap();
        log.memory.forget();
        ends.push(end);
        // Each proof unpacks blocks.
        if ends.len() % 4 != 1 && end < SEGMENT {
            continue;
        }
        let tree = StoredTree::new(&log.connection, &log.blocks);
        for (old, old_root) in &roots {
            let proof = tree.consistency(*old, size);
            let proof = proof.unwrap_or_else(|error| panic!("{old} below {end}: {error}"));
            assert_eq!(proof.verify(old_root, &root), Ok(()), "{old}");
        }
        if end < size {
            let proof = tree.inclusion(end, size).unwrap();
            let leaf = leaf_hash(&log.model[end as usize]);
            assert_eq!(proof.verify(&leaf, &log.root(size)), Ok(()));
        }
        log.check();
    }
    assert!(ends.contains(&SEGMENT) || ends.iter().any(|end| *end > SEGMENT), "{ends:?}");
    let left = checkpoint::all(&log.connection).unwrap();
    let is_left = |size| left.iter().any(|one| one.size == size);
    assert_eq!(
        [4_998, 4_999, 5_000].map(is_left),
        [false, true, true],
        "one of each day, and those that a witness has cosigned"
    );
    assert_eq!(log.counts().2, 1, "the segment stays");
    log.put(2_000);
    log.check();
}

fn leaves(model: &[Vec<u8>], size: u64) -> Vec<[u8; 32]> {
    model.iter().take(size as usize).map(|entry| leaf_hash(entry)).collect()
}

#[test]
fn a_drop_is_an_entry_of_its_own_and_old_tails_become_blocks() {
    let mut log = log();
    log.put(600);
    assert_eq!(log.counts(), (1, 0, 0));
    let transaction = begin(&mut log.connection);
    let mut head = log.memory.head(&transaction).unwrap();
    fold(&transaction, &mut head, u64::MAX).unwrap();
    let oldest = retention::oldest(&transaction).unwrap().unwrap();
    assert_eq!((oldest.first, oldest.count), (0, 2 * BUNDLE));
    retention::drop_before(&transaction, &log.blocks, 2 * BUNDLE).unwrap();
    let kind = EventKind::Dropped { index: 2 * BUNDLE, cause: DropCause::Keep };
    super::super::log::event(&transaction, &mut head, NOON, kind).unwrap();
    transaction.commit().unwrap();
    log.memory.committed(head);
    let octets = entry(&log.connection, &log.blocks, 600).unwrap().unwrap();
    let read = crawlgate_record::Entry::read(&octets).unwrap();
    let crawlgate_record::Entry::Event(event) = read else { panic!("{read:?}") };
    let kind = EventKind::Dropped { index: 512, cause: DropCause::Keep };
    assert_eq!(event.kind, kind);
    log.model.push(octets);
    log.check();
    assert_eq!(log.counts(), (2, 1, 0));
}

#[test]
fn a_tail_becomes_blocks_wherever_its_rows_end() {
    let mut log = log();
    // The last bundle ends in a row, at its end, and in the batch itself.
    for (before, last) in [(700, 5), (507, 5), (400, 212), (0, 1_024), (3, 1_300)] {
        log.most = None;
        for _ in 0..before / 100 {
            log.put(100);
        }
        log.put(before % 100);
        log.most = Some(1);
        log.put(last);
        log.check();
        assert!(log.head().tail_count() < BUNDLE, "{before} and {last}");
    }
}

#[test]
fn two_processes_append_to_one_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let open = || Connection::open(&path).unwrap();
    let mut first = log_on(open());
    let mut second = log();
    second.connection = open();
    for (n, count) in [5, 300, 1, 1_100, 4_000, 7, 2_000, 260, 3_900, 90].into_iter().enumerate() {
        let (one, other) =
            if n % 2 == 0 { (&mut first, &mut second) } else { (&mut second, &mut first) };
        one.put(count);
        other.model = one.model.clone();
        one.check();
        other.check();
    }
}
