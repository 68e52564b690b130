//! A person with write access to a store's file, but without the key.

use crawlgate_block::BlockWriter;
use crawlgate_tlog::{BUNDLE, Tree, leaf_hash, push_entry};
use rusqlite::params;

use super::test_store::TestStore;

/// The entries of a store, where they lie.
pub struct Forger {
    connection: rusqlite::Connection,
    /// All entries of the log.
    pub entries: Vec<Vec<u8>>,
}

impl Forger {
    /// Reads all entries.
    pub fn of(db: &TestStore) -> Forger {
        let records = db.ask(async |store| store.records(0, usize::MAX).await);
        let entries = records.unwrap().into_iter().map(|one| one.entry);
        Forger { connection: db.connection(), entries: entries.collect() }
    }

    /// Replaces octets of an entry, wherever they are in it, by as many others.
    pub fn replace(mut self, index: usize, from: &[u8], to: &[u8]) -> Forger {
        assert_eq!(from.len(), to.len());
        replace(&mut self.entries[index], from, to);
        self
    }

    /// Writes the entries as new ones are: all of them in the tail.
    pub fn into_tail(self) {
        self.connection.execute_batch("DELETE FROM block; DELETE FROM tail").unwrap();
        self.put_tail(0);
    }

    /// Writes the entries with a block of the first 256, in place of the one that is there. Its root stays as it is, or
    /// is made anew.
    pub fn into_block(self, with_new_root: bool) {
        let bundle = usize::try_from(BUNDLE).unwrap();
        let mut writer = BlockWriter::new().unwrap();
        for entry in &self.entries[..bundle] {
            writer.push(entry).unwrap();
        }
        let mut body = Vec::new();
        writer.finish(&mut body).unwrap();
        let leaves: Vec<_> = self.entries[..bundle].iter().map(|entry| leaf_hash(entry)).collect();
        let root = Tree::root_of(&leaves);
        let changed = match with_new_root {
            true => self.connection.execute(
                "UPDATE block SET body = ?1, roots = ?2 WHERE first = 0",
                params![body, root],
            ),
            false => self.connection.execute("UPDATE block SET body = ?1 WHERE first = 0", [body]),
        };
        assert_eq!(changed, Ok(1));
        self.connection.execute("DELETE FROM tail", []).unwrap();
        self.put_tail(bundle);
    }

    fn put_tail(&self, first: usize) {
        let mut frames = Vec::new();
        let rest = &self.entries[first..];
        for entry in rest {
            push_entry(&mut frames, entry).unwrap();
        }
        let times = rest.iter().map(|entry| crawlgate_record::time_of(entry));
        let times: Vec<i64> = times.map(|time| i64::try_from(time).unwrap()).collect();
        let (min, max) = (times.iter().min(), times.iter().max());
        let row = params![first as i64, rest.len() as i64, min, max, frames];
        self.connection.execute("INSERT INTO tail VALUES (?1, ?2, ?3, ?4, ?5)", row).unwrap();
    }
}

fn replace(octets: &mut [u8], from: &[u8], to: &[u8]) {
    let mut found = 0;
    for at in 0..=octets.len().saturating_sub(from.len()) {
        if octets[at..].starts_with(from) {
            octets[at..at + to.len()].copy_from_slice(to);
            found += 1;
        }
    }
    assert_ne!(found, 0, "the octets are not there");
}
