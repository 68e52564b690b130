mod dropped;

use std::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::verify::keys::Keys;
use crawlgate_record::{DropCause, Event};
use crawlgate_store::rotation::Rotation;
use crawlgate_store::{LogKey, StoredCheckpoint};
use crawlgate_system::clock::Moment;
use crawlgate_tlog::{Note, SEGMENT, Tree};

const NOON: Moment = Moment::from_millis(1_795_176_000_123);

/// A log as a store has it.
#[derive(Clone, Default)]
struct StoredLog {
    entries: Vec<(u64, Vec<u8>)>,
    roots: Vec<(u64, u64, Hash)>,
    checkpoints: Vec<StoredCheckpoint>,
    kept: Vec<Note>,
    written: Option<(u64, Hash)>,
}

fn key() -> LogKey {
    LogKey::generate(Some("log".parse().unwrap())).unwrap()
}

/// Returns the entry `n`; the fiftieth before the end says that retention has dropped those before `dropped`.
fn entry(n: u64, size: u64, dropped: u64) -> Vec<u8> {
    let mut entry = format!("entry {n}").into_bytes();
    if n + 50 == size {
        let (index, cause) = (dropped, DropCause::Keep);
        let kind = EventKind::Dropped { index, cause };
        entry.clear();
        Event { id: [1; 16], kind }.encode(&mut entry);
    }
    entry
}

/// Returns a whole log with checkpoints of these sizes. Retention has dropped the entries before `dropped`.
fn log(key: &LogKey, size: u64, checkpoints: &[u64], dropped: u64) -> StoredLog {
    let (mut tree, mut stored) = (Tree::new(), StoredLog::default());
    for n in 0..size {
        let entry = entry(n, size, dropped);
        if let Some(full) = tree.push(leaf_hash(&entry)) {
            stored.roots.push((n + 1 - BUNDLE, BUNDLE, full.bundle));
            let segment = full.segment.map(|root| (n + 1 - SEGMENT, SEGMENT, root));
            stored.roots.extend(segment);
        }
        stored.entries.push((n, entry));
        if checkpoints.contains(&tree.size()) {
            stored.checkpoints.push(StoredCheckpoint {
                size: tree.size(),
                time: NOON,
                note: key.checkpoint(tree.size(), tree.root()).to_string(),
            });
        }
    }
    stored.written = Some((size, tree.root()));
    stored.entries.retain(|(n, _)| *n >= dropped);
    stored
}

/// A thousand entries, with checkpoints within a bundle, at the end of one, and near the end.
fn stored(key: &LogKey) -> StoredLog {
    log(key, 1_000, &[300, 512, 900], 0)
}

/// The same, after retention has dropped two bundles.
fn pruned(key: &LogKey) -> StoredLog {
    log(key, 1_000, &[300, 512, 900], 512)
}

impl StoredLog {
    /// Makes the roots of bundles anew, and the places of entries, as an attacker without the key can.
    fn forge(&mut self) {
        let mut tree = Tree::new();
        self.roots.clear();
        for (n, (index, entry)) in self.entries.iter_mut().enumerate() {
            *index = n as u64;
            if let Some(full) = tree.push(leaf_hash(entry)) {
                self.roots.push((*index + 1 - BUNDLE, BUNDLE, full.bundle));
            }
        }
    }

    fn remove(&mut self, range: Range<u64>) {
        self.entries.retain(|(n, _)| !range.contains(n));
    }

    /// Cuts the end off, with its roots.
    fn cut(&mut self, size: u64) {
        self.remove(size..u64::MAX);
        self.roots.retain(|(first, count, _)| first + count <= size);
    }

    fn walk(&self, trusted: &[&LogKey]) -> (LogVerification, Vec<LogFault>) {
        let keys: Vec<_> = trusted.iter().map(|key| key.vkey()).collect();
        self.walk_by(keys.into())
    }

    fn walk_by(&self, keys: Keys) -> (LogVerification, Vec<LogFault>) {
        let known =
            Known { keys, checkpoints: &self.checkpoints, kept: &self.kept, written: self.written };
        let mut faults = Vec::new();
        let roots = self.roots.iter();
        let roots = roots.map(|(first, count, root)| Subtree::of(*first, *count, *root).unwrap());
        let mut verifier = LogVerifier::new(&known, roots, &mut faults);
        for (index, entry) in &self.entries {
            verifier.step(*index, entry, &mut faults);
        }
        let verification = verifier.end(&mut faults);
        (verification, faults)
    }

    #[track_caller]
    fn check(&self, name: &str, trusted: &[&LogKey], want: &[&str]) {
        let (_, faults) = self.walk(trusted);
        let faults: Vec<_> = faults.iter().map(LogFault::to_string).collect();
        assert_eq!(faults.len(), want.len(), "{name}: {faults:?}");
        for (fault, want) in faults.iter().zip(want) {
            assert!(fault.starts_with(want), "{name}: {fault}");
        }
    }
}

#[test]
fn an_unchanged_log_has_no_faults() {
    let key = key();
    for (dropped, stored) in [(0, stored(&key)), (512, pruned(&key))] {
        stored.check("unchanged", &[&key], &[]);
        let (verification, _) = stored.walk(&[&key]);
        let want = LogVerification {
            first: dropped,
            size: 1_000,
            root: stored.written.map(|(_, root)| root),
            signed: Some(900),
            agreeing: if dropped == 0 { 3 } else { 2 },
            differing: 0,
            unreached: if dropped == 0 { vec![] } else { vec![300] },
        };
        assert_eq!(verification, want);
    }
}

#[test]
fn each_change_of_a_log_is_found() {
    type Change = fn(&mut StoredLog, &LogKey);
    type Base = fn(&LogKey) -> StoredLog;
    type Case = (&'static str, Base, Change, &'static [&'static str]);
    let base: Base = stored;
    #[rustfmt::skip] // one row, one case
    let cases: &[Case] = &[
        ("an entry altered", base, |t, _| t.entries[600].1.push(b'!'), &["an entry of records 513 to 768 was altered"]),
        ("an entry altered, before a checkpoint within a bundle", base, |t, _| t.entries[5].1.clear(), &["an entry of records 1 to 256 was altered"]),
        ("entries of two bundles altered", base, |t, _| { t.entries[5].1.clear(); t.entries[260].1.clear(); }, &["an entry of records 1 to 256 was altered", "with record 300 the log is not what the checkpoint of 2026-11-20T12:00:00.123Z says: something from record 1 on", "an entry of records 257 to 512 was altered"]),
        ("an entry altered, roots made anew", base, |t, _| { t.entries[600].1.clear(); t.forge(); }, &["with record 900 the log is not what the checkpoint of 2026-11-20T12:00:00.123Z says: something from record 513 on", "with record 1000 the log is not what the state file"]),
        ("an entry altered, roots and state file made anew", base, |t, _| { t.entries[600].1.clear(); t.forge(); t.written = None; }, &["with record 900 the log is not what"]),
        ("an entry altered after the last root", base, |t, _| t.entries[800].1.clear(), &["with record 900 the log is not what", "with record 1000 the log is not what the state file"]),
        ("a stored root altered", base, |t, _| t.roots[1].2[0] ^= 1, &["the stored root of records 257 to 512 was altered"]),
        ("two stored roots altered", base, |t, _| { t.roots[0].2[0] ^= 1; t.roots[2].2[0] ^= 1; }, &["the stored root of records 1 to 256 was altered", "the stored root of records 513 to 768 was altered"]),
        ("two entries swapped", base, |t, _| { let one = t.entries[700].1.clone(); t.entries[700].1 = std::mem::replace(&mut t.entries[701].1, one); }, &["an entry of records 513 to 768 was altered"]),
        ("an entry put in", base, |t, _| { let one = t.entries[1].clone(); t.entries.insert(600, one); t.entries.iter_mut().zip(0..).for_each(|(one, n)| one.0 = n); }, &["an entry of records 513 to 768 was altered", "with record 900 the log", "with record 1000 the log"]),
        ("an entry twice", base, |t, _| { let one = t.entries[600].clone(); t.entries.insert(600, one); }, &["record 601 is there more than once"]),
        ("a bundle twice", base, |t, _| { let two: Vec<_> = t.entries[256..512].to_vec(); t.entries.splice(512..512, two); }, &["record 257 is there more than once"]),
        ("an entry taken out", base, |t, _| t.remove(600..601), &["record 601 is missing"]),
        ("an entry taken out, roots made anew", base, |t, _| { t.remove(600..601); t.forge(); }, &["with record 900 the log is not what", "record 1000 is missing: the state file"]),
        ("two bundles taken out", base, |t, _| t.remove(256..768), &["records 257 to 768 are missing"]),
        ("a bundle taken out with its root", base, |t, _| { t.remove(256..512); t.roots.remove(1); }, &["records 257 to 512 are missing"]),
        ("a bundle taken out, and its root altered", base, |t, _| { t.remove(256..512); t.roots[1].2[0] ^= 1; }, &["records 257 to 512 are missing", "with record 512 the log", "with record 1000 the log"]),
        ("an entry taken out after the last root", base, |t, _| t.remove(950..951), &["record 951 is missing"]),
        ("a far index", base, |t, _| t.entries[999].0 = u64::MAX - 1, &["records 1000 to 18446744073709551614 are missing"]),
        ("the end cut off", base, |t, _| t.cut(800), &["records 801 to 1000 are missing: the state file"]),
        ("the end cut off, to before a checkpoint", base, |t, _| { t.cut(800); t.written = None; }, &["records 801 to 900 are missing: the checkpoint of 2026-11-20T12:00:00.123Z speaks of 900"]),
        ("the end cut off, to before a root", base, |t, _| { t.remove(600..1_000); t.written = None; t.checkpoints.truncate(2); }, &["records 601 to 768 are missing: a stored root"]),
        ("all taken out", base, |t, _| t.entries.clear(), &["records before 769 are missing", "records 769 to 1000 are missing"]),
        ("all taken out, with the roots", base, |t, _| { t.entries.clear(); t.roots.clear(); }, &["records 1 to 1000 are missing"]),
        ("the front cut off", base, |t, _| t.remove(0..512), &["records before 513 are missing, and no entry says"]),
        ("the front cut off within a bundle", base, |t, _| t.remove(0..100), &["the roots of records 1 to 100 are missing", "records before 101 are missing, and no entry says"]),
        ("pruned, and more taken off the front", pruned, |t, _| t.remove(512..768), &["records before 769 are missing, and no entry says"]),
        ("pruned, and an entry altered", pruned, |t, _| t.entries[0].1.clear(), &["an entry of records 513 to 768 was altered"]),
        ("pruned, and a root altered", pruned, |t, _| t.roots[0].2[0] ^= 1, &["with record 512 the log is not what", "with record 1000 the log is not what the state file"]),
        ("pruned, and a root taken out", pruned, |t, _| { t.roots.remove(0); }, &["the roots of records 1 to 512 are missing"]),
        ("a signature altered", base, |t, _| { let at = t.checkpoints[1].note.len() - 10; let one = if t.checkpoints[1].note.as_bytes()[at] == b'A' { "B" } else { "A" }; t.checkpoints[1].note.replace_range(at..=at, one); }, &["the signature of the checkpoint of 2026-11-20T12:00:00.123Z, of 512 records, is not valid"]),
        ("the text of a checkpoint altered", base, |t, _| t.checkpoints[1].note = t.checkpoints[1].note.replace("512", "511"), &["the signature of the checkpoint"]),
        ("a checkpoint of another place", base, |t, _| t.checkpoints[1].size = 500, &["the checkpoint of 2026-11-20T12:00:00.123Z, of 500 records, is damaged or out of place"]),
        ("a checkpoint damaged", base, |t, _| t.checkpoints[1].note.clear(), &["the checkpoint of 2026-11-20T12:00:00.123Z, of 512 records, is damaged"]),
        ("a checkpoint of another key", base, |t, _| { let other = key(); t.checkpoints[1].note = other.checkpoint(512, [0; 32]).to_string(); }, &["1 checkpoints, the first of 512 records, are signed by no trusted key but by log"]),
        ("a second root for one size, signed", base, |t, key| { let mut other = t.checkpoints[1].clone(); other.note = key.checkpoint(512, [7; 32]).to_string(); t.checkpoints.insert(1, other); }, &["with record 512 the log is not what"]),
        ("the state file altered", base, |t, _| t.written = Some((1_000, [7; 32])), &["with record 1000 the log is not what the state file"]),
        ("a state file of an earlier size", base, |t, _| { let leaves: Vec<_> = t.entries[..700].iter().map(|one| leaf_hash(&one.1)).collect(); t.written = Some((700, Tree::root_of(&leaves))); }, &[]),
        // Only a checkpoint that was kept elsewhere reveals these.
        ("the end cut off, after the last checkpoint", base, |t, _| { t.cut(950); t.written = None; }, &[]),
        ("the end cut off with its checkpoints", base, |t, _| { t.cut(500); t.written = None; t.checkpoints.truncate(1); }, &[]),
        ("the end altered after the last checkpoint", base, |t, _| { t.entries[950].1.clear(); t.written = None; }, &[]),
    ];
    for (name, base, change, want) in cases {
        let key = key();
        let mut stored = base(&key);
        change(&mut stored, &key);
        stored.check(name, &[&key], want);
    }
}

#[test]
fn a_lost_bundle_leaves_the_rest_provable() {
    let key = key();
    let mut stored = stored(&key);
    stored.remove(256..512);
    let (verification, _) = stored.walk(&[&key]);
    assert_eq!((verification.signed, verification.agreeing), (Some(900), 2));
    assert_eq!(verification.unreached, [300], "within the lost bundle");
    assert_eq!(verification.root, stored.written.map(|(_, root)| root));
    stored.roots.remove(1);
    let (verification, _) = stored.walk(&[&key]);
    assert_eq!((verification.signed, verification.root), (None, None));
    assert_eq!(verification.unreached, [300, 512, 900]);
}

#[test]
fn a_loss_that_the_log_notes_is_told_and_a_lack_of_room_is_none() {
    let want = "record 4 says that 7 of 10 records are missing: the store had lost them";
    for (size, want) in [(None, &[][..]), (Some(10), &[want][..])] {
        let mut log = StoredLog::default();
        let kind = EventKind::Lost { count: 7, first: 1, last: 1, size };
        let mut lost = Vec::new();
        Event { id: [1; 16], kind }.encode(&mut lost);
        log.entries = (0..3).map(|n| (n, entry(n, 9, 0))).collect();
        log.entries.push((3, lost));
        log.check("a loss", &[], want);
    }
}

#[test]
fn a_kept_checkpoint_reveals_changes_without_another() {
    let key = key();
    let mut whole = stored(&key);
    let (size, root) = whole.written.take().unwrap();
    whole.kept.push(key.checkpoint(size, root));
    type Change = fn(&mut StoredLog);
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, Change, &[&str])] = &[
        ("nothing", |_| {}, &[]),
        ("the end cut off", |t| t.cut(950), &["records 951 to 1000 are missing: the checkpoint that was kept speaks of 1000"]),
        ("the end cut off with its checkpoints", |t| { t.cut(500); t.checkpoints.truncate(1); }, &["records 501 to 1000 are missing: the checkpoint that was kept"]),
        ("the end altered", |t| t.entries[950].1.clear(), &["with record 1000 the log is not what the checkpoint that was kept says: something from record 901 on"]),
        ("one of another key", |t| t.kept = vec![self::key().checkpoint(7, [0; 32])], &["1 checkpoints, the first of 7 records"]),
    ];
    for (name, change, want) in cases {
        let mut stored = whole.clone();
        change(&mut stored);
        stored.check(name, &[&key], want);
    }
}

#[test]
fn checkpoints_of_an_earlier_key_count_once_the_key_is_named() {
    let (earlier, present) = (key(), key());
    let mut stored = stored(&earlier);
    let (size, root) = stored.written.unwrap();
    stored.checkpoints.push(StoredCheckpoint {
        size,
        time: NOON,
        note: present.checkpoint(size, root).to_string(),
    });
    let of_key = "3 checkpoints, the first of 300 records, are signed by no trusted key";
    stored.check("the present one alone", &[&present], &[of_key]);
    stored.check("both", &[&present, &earlier], &[]);
    let none = "4 checkpoints, the first of 300 records, are signed by no trusted key";
    stored.check("none", &[], &[none]);
    let (verification, _) = stored.walk(&[&present]);
    assert_eq!((verification.signed, verification.agreeing), (Some(1_000), 1));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_flipped_bit_is_told_or_harmless(at: u64, bit in 0..8_u32, part in 0..4_u8, is_pruned: bool) {
        let key = LogKey::generate(Some("log".parse().unwrap())).unwrap();
        let whole = if is_pruned { pruned(&key) } else { stored(&key) };
        let (before, none) = whole.walk(&[&key]);
        prop_assert_eq!(none, []);
        let mut stored = whole.clone();
        let pick = |count: usize| at as usize % count;
        let flip = |octets: &mut [u8]| {
            let at = (at >> 20) as usize % octets.len();
            octets[at] ^= 1 << bit;
        };
        match part {
            0 => { let at = pick(stored.entries.len()); flip(&mut stored.entries[at].1); }
            1 => { let at = pick(stored.roots.len()); flip(&mut stored.roots[at].2); }
            2 => {
                let at = pick(stored.checkpoints.len());
                let mut octets = stored.checkpoints[at].note.clone().into_bytes();
                flip(&mut octets);
                stored.checkpoints[at].note = String::from_utf8_lossy(&octets).into_owned();
            }
            _ => {
                let mut root = stored.written.unwrap().1;
                flip(&mut root);
                stored.written = Some((1_000, root));
            }
        }
        let (after, faults) = stored.walk(&[&key]);
        prop_assert!(!faults.is_empty(), "harmless: {before:?} {after:?}");
    }
}

#[test]
fn a_replaced_key_vouches_for_nothing_later() {
    let (old, new) = (key(), key());
    let rotation = Rotation {
        seq: 20,
        time: NOON,
        old: old.vkey(),
        new: new.vkey(),
        entry: Vec::new(),
        proof: String::new(),
    };
    let mut stored = log(&old, 40, &[10, 30], 0);
    let of_new = log(&new, 40, &[20, 40], 0).checkpoints;
    stored.checkpoints.extend(of_new);
    stored.checkpoints.sort_by_key(|one| one.size);
    for known in [&old, &new] {
        let mut keys = Keys::from(vec![known.vkey()]);
        keys.follow(std::slice::from_ref(&rotation));
        let (verification, faults) = stored.walk_by(keys);
        assert_eq!((verification.signed, verification.agreeing), (Some(40), 3), "{faults:?}");
        let [LogFault::Key { size: 30, count: 1, .. }] = &faults[..] else {
            panic!("{faults:?}");
        };
    }
}
