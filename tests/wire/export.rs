//! The log as immutable files: written beside a running gate, continued, and refused where it is another log's.
//! Page: `docs/copies.md`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};
use crawlgate_block::Block;
use crawlgate_record::{Basis, Entry};
use crawlgate_store::objects_of;
use crawlgate_tlog::{Checkpoint, Note, Tree, leaf_hash};
use rustix::process::Signal;

use crate::support::collector::deny;
use crate::support::{CrawlgateProcess, Origin, RULES, Setup};

pub(super) fn gate() -> CrawlgateProcess {
    CrawlgateProcess::with(|setup: &mut Setup| setup.set("audit", "checkpoint_every", "\"1s\""))
}

fn export(gate: &CrawlgateProcess, words: &[&str]) -> (Option<i32>, String) {
    let (code, said, error) = gate.beside("audit", &[&["export"], words].concat());
    assert_eq!(said, "");
    (code, error)
}

/// Returns each file with its content, inode and mode.
fn files(folder: &Path) -> BTreeMap<String, (Vec<u8>, u64, u32)> {
    let mut found = BTreeMap::new();
    for place in ["", "entries", "objects", "robots", "checkpoints"] {
        for file in fs::read_dir(folder.join(place)).unwrap() {
            let file = file.unwrap();
            if file.file_type().unwrap().is_file() {
                let facts = file.metadata().unwrap();
                let name = format!("{place}/{}", file.file_name().into_string().unwrap());
                let content = fs::read(file.path()).unwrap();
                let mode = facts.permissions().mode() & 0o777;
                found.insert(name, (content, facts.ino(), mode));
            }
        }
    }
    found
}

/// Reads an export as a stranger does who has the files and the key of the log. Returns the number of entries.
#[track_caller]
fn verified(folder: &Path, vkey: &str) -> u64 {
    let files = files(folder);
    let (mut entries, mut at) = (Vec::new(), 0);
    let of = |place: &'static str| files.iter().filter(move |(name, _)| name.starts_with(place));
    for (name, (content, ..)) in of("entries/") {
        let name = name.strip_prefix("entries/").unwrap();
        let (first, end) = name.strip_suffix(".cgb").unwrap().split_once('-').unwrap();
        let (first, end): (u64, u64) = (first.parse().unwrap(), end.parse().unwrap());
        assert_eq!(first, at, "{name}");
        let block = Block::read(content.as_slice()).unwrap();
        assert_eq!(block.len() as u64, end - first, "{name}");
        for place in 0..block.len() {
            let mut entry = Vec::new();
            block.entry(place, &mut entry).unwrap();
            entries.push(entry);
        }
        at = end;
    }
    let keys = [vkey.parse().unwrap()];
    let mut last = 0;
    for (name, (content, ..)) in of("checkpoints/") {
        let note = Note::parse(content).unwrap();
        let (checkpoint, _) = Checkpoint::open(&note, &keys).unwrap();
        assert_eq!(*name, format!("checkpoints/{:020}", checkpoint.size));
        let below = &entries[..usize::try_from(checkpoint.size).unwrap()];
        let leaves: Vec<_> = below.iter().map(|entry| leaf_hash(entry)).collect();
        assert_eq!(Tree::root_of(&leaves), checkpoint.root, "{name}");
        last = checkpoint.size;
    }
    assert_eq!(last, at, "a checkpoint covers all");
    let body = |place: &str, sha256: &[u8]| {
        let digits: String = sha256.iter().map(|octet| format!("{octet:02x}")).collect();
        let (content, ..) = &files[&format!("{place}/{digits}.zst")];
        let body = zstd::bulk::decompress(content, 1 << 20).unwrap();
        assert_eq!(digest(&SHA256, &body).as_ref(), sha256);
        body
    };
    let mut texts = 0;
    for entry in &entries {
        for (kind, sha256) in objects_of(&Entry::read(entry).unwrap()) {
            let object = body("objects", sha256);
            if kind.name() == "basis"
                && let Some(sha256) = Basis::read(&object).unwrap().sha256
            {
                assert_eq!(body("robots", sha256), RULES.as_bytes());
                texts += 1;
            }
        }
    }
    assert!(texts > 0);
    assert!(files.values().all(|(_, _, mode)| *mode == 0o600), "open to others");
    at
}

pub(super) fn vkey(gate: &CrawlgateProcess) -> String {
    gate.beside("audit", &["key"]).1.trim().to_owned()
}

#[test]
fn the_log_is_written_as_files_and_continued() {
    let gate = gate();
    let origin = Origin::with_rules(RULES);
    deny(&gate, &origin, &["/private/a", "/private/b"]);
    let elsewhere = tempfile::tempdir().unwrap();
    let folder = elsewhere.path().join("new/log");
    let to = ["--to", folder.to_str().unwrap()];
    assert_eq!(export(&gate, &to), (Some(0), String::new()));
    let first = verified(&folder, &vkey(&gate));
    let before = files(&folder);

    deny(&gate, &origin, &["/private/c"]);
    assert_eq!(export(&gate, &to), (Some(0), String::new()));
    let second = verified(&folder, &vkey(&gate));
    assert!(first < second);
    let after = files(&folder);
    for (name, file) in &before {
        assert_eq!(after.get(name), Some(file), "{name} has changed");
    }
    // A run that was interrupted after the entries, and left a temporary file.
    let newest = folder.join(format!("checkpoints/{second:020}"));
    fs::remove_file(&newest).unwrap();
    fs::write(folder.join("entries/.tmpx"), "half").unwrap();
    deny(&gate, &origin, &["/private/d"]);
    assert_eq!(export(&gate, &to), (Some(0), String::new()));
    fs::remove_file(folder.join("entries/.tmpx")).unwrap();
    assert!(verified(&folder, &vkey(&gate)) > second);
    assert_eq!(gate.get(&origin.url("/private/e")).status, 403);
}

#[test]
fn a_directory_of_another_log_is_refused() {
    let (mut one, other) = (gate(), gate());
    let origin = Origin::with_rules(RULES);
    deny(&one, &origin, &["/private/a"]);
    deny(&other, &origin, &["/private/a"]);
    let elsewhere = tempfile::tempdir().unwrap();
    let to = ["--to", elsewhere.path().to_str().unwrap()];

    // An older copy of the store, to which the log in the directory is unknown.
    one.signal(Signal::TERM);
    one.wait();
    let copy = tempfile::tempdir().unwrap();
    let carry = |from: &Path, to: &Path| {
        for file in ["crawlgate.db", "crawlgate.log.key", "crawlgate.log.state"] {
            fs::copy(from.join(file), to.join(file)).unwrap();
        }
    };
    carry(one.setup.dir(), copy.path());
    one.start_again();
    deny(&one, &origin, &["/private/b", "/private/c"]);
    assert_eq!(export(&one, &to).0, Some(0));
    let before = files(elsewhere.path());

    let (code, said) = export(&other, &to);
    assert_eq!(code, Some(2), "{said}");
    for word in ["this belongs to the log crawlgate/", "name another directory"] {
        says!(said, word);
    }
    one.signal(Signal::TERM);
    one.wait();
    for file in ["crawlgate.db-wal", "crawlgate.db-shm"] {
        drop(fs::remove_file(one.setup.dir().join(file)));
    }
    carry(copy.path(), one.setup.dir());
    let (code, said) = export(&one, &to);
    assert_eq!(code, Some(2), "{said}");
    says!(said, "the store is an older copy");

    // Another log of as many records, under the same key.
    one.start_again();
    deny(&one, &origin, &["/private/x", "/private/y", "/private/z", "/private/w"]);
    let (code, said) = export(&one, &to);
    assert_eq!(code, Some(2), "{said}");
    says!(said, "does not continue the one in it");
    let after = files(elsewhere.path());
    assert_eq!(before, after, "nothing is written");

    let strange = tempfile::tempdir().unwrap();
    fs::write(strange.path().join("log.json"), "{}").unwrap();
    let (code, said) = export(&one, &["--to", strange.path().to_str().unwrap()]);
    assert_eq!(code, Some(2), "{said}");
    says!(said, "this is no export of crawlgate");
}
