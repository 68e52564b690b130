//! Other programs read a directory that the library wrote: Go's `sumdb/note` and `sumdb/tlog`, Python's `tlog-scales`.
//!
//! Each verifies the checkpoint and its older ones, every tile, every entry, and the proofs; each makes the proofs from
//! the tiles again and compares. Then each finds a flipped bit in any of these files.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crawlgate_tlog::{EntryProof, Note, Resource, Tile, VerifierKey, hash_text, push_entry};
use tempfile::TempDir;

use super::log::Log;
use super::stored::TestStore;

/// Sizes with each form of an end, the last with three levels of tiles: the example of c2sp.org/tlog-tiles.
const SIZES: [usize; 7] = [1, 2, 255, 256, 257, 600, 70_000];

/// Writes the log as a directory: the checkpoint, all tiles and bundles, keys, older checkpoints, proofs.
fn write(log: &Log, size: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, content: &[u8]| put(folder.path(), name, content);
    let mut prover = log.prover(size);
    for tile in Tile::all(size as u64) {
        let hashes = prover.tile(tile).unwrap();
        put(&tile.to_string(), hashes.as_flattened());
        if tile.level() == 0 {
            let begin = tile.index() as usize * 256;
            let mut bundle = Vec::new();
            for entry in &log.entries[begin..begin + usize::from(tile.width())] {
                push_entry(&mut bundle, entry).unwrap();
            }
            put(&Resource::Entries(tile).to_string(), &bundle);
        }
    }
    drop(prover);
    vouch(folder.path(), log, size, log.keys(), |size| log.checkpoint(size));
    folder
}

/// Adds to the tree of a log: checkpoints with a cosignature, keys, older checkpoints, proofs.
fn vouch(
    folder: &Path,
    log: &Log,
    size: usize,
    [key, witness]: [VerifierKey; 2],
    checkpoint: impl Fn(usize) -> Note,
) {
    let put = |name: &str, content: &[u8]| put(folder, name, content);
    let mut prover = log.prover(size);
    let newest = checkpoint(size);
    put("checkpoint", newest.to_string().as_bytes());
    put("vkey", key.to_string().as_bytes());
    put("witness.vkey", witness.to_string().as_bytes());
    for index in [0, size / 3, size / 2, size - 1] {
        let proof = EntryProof::new(prover.inclusion(index as u64).unwrap(), newest.clone());
        put(&format!("proofs/{index}"), proof.to_string().as_bytes());
    }
    for old in [1, size.div_ceil(3), size.div_ceil(2), size - size / 256] {
        let proof = prover.consistency(old as u64).unwrap();
        let lines: String = proof.path.iter().map(|hash| hash_text(hash) + "\n").collect();
        put(&format!("older/{old}.checkpoint"), checkpoint(old).to_string().as_bytes());
        put(&format!("older/{old}.consistency"), lines.as_bytes());
    }
}

fn put(folder: &Path, name: &str, content: &[u8]) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Runs the verifier over whole directories, which pass, and over damaged ones, which do not.
fn verify(peer: impl Fn(&Path) -> Output) {
    let log = Log::new(70_000);
    let whole = |folder: &Path, size: usize| {
        let output = peer(folder);
        let told = String::from_utf8_lossy(&output.stdout);
        let failed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{size}: {failed}");
        let want = format!(
            "size {size}, entries {size}, proofs {}, older {}, cosigned 1\n",
            files(folder, "proofs", ""),
            files(folder, "older", ".checkpoint")
        );
        assert_eq!(told, want, "{failed}");
    };
    for size in SIZES {
        whole(write(&log, size).path(), size);
    }
    // What the program writes out of a store, with its own key.
    for size in [1, 600] {
        let mut db = TestStore::new();
        db.grow(size);
        db.written();
        let stored = Log::of(db.entries.clone());
        let key = db.key();
        let keys = [key.vkey(), stored.witness()];
        vouch(&db.folder(), &stored, size, keys, |size| {
            stored.cosigned(key.checkpoint(size as u64, stored.root(size)))
        });
        whole(&db.folder(), size);
    }
    let folder = write(&log, 600);
    #[rustfmt::skip] // one row, one file and octet
    let damages = [
        ("checkpoint", 40), // the root
        ("checkpoint", 150), // the signature of the log
        ("tile/0/001", 32 * 200 + 7),
        ("tile/0/002.p/88", 5),
        ("tile/1/000.p/2", 40),
        ("tile/entries/001", 1_000),
        ("proofs/200", 40),
        ("older/300.checkpoint", 40),
        ("older/300.consistency", 20),
    ];
    for (name, octet) in damages {
        let path = folder.path().join(name);
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        damaged[octet] ^= 1;
        fs::write(&path, damaged).unwrap();
        assert!(!peer(folder.path()).status.success(), "{name}, octet {octet}");
        fs::write(&path, whole).unwrap();
    }
    assert!(peer(folder.path()).status.success());
}

fn files(folder: &Path, name: &str, end: &str) -> usize {
    let entries = fs::read_dir(folder.join(name)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(end)).count()
}

#[test]
fn sumdb_of_go_verifies_a_log() {
    let Some(gopath) = env::var_os("CRAWLGATE_GOPATH") else {
        missing("Go with golang.org/x/mod (CRAWLGATE_GOPATH)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("peer");
    let built = Command::new("go")
        .args(["build", "-o"])
        .args([&program, &script("peer.go")])
        .env("GO111MODULE", "off")
        .env("GOPATH", gopath)
        .env("GOFLAGS", "")
        .env("GOCACHE", folder.path().join("cache"))
        .output();
    match built {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        Err(_) => return missing("Go"),
    }
    verify(|directory| Command::new(&program).arg(directory).output().unwrap());
}

#[test]
fn tlog_scales_verifies_a_log() {
    let python = env::var("CRAWLGATE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found =
        Command::new(&python).args(["-c", "import tlog_scales.reader, tlog_scales.tlog"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        return missing("Python with tlog-scales (CRAWLGATE_PYTHON)");
    }
    let script = script("peer.py");
    verify(|directory| {
        let mut command = Command::new(&python);
        command.arg(&script).arg(directory).output().unwrap()
    });
}

/// Names a program that is not installed; fails if all are required.
pub(crate) fn missing(name: &str) {
    let required = env::var("CRAWLGATE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
    assert!(!required, "{name} is missing");
    eprintln!("skipped: {name} is missing");
}

fn script(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/evidence/tlog");
    folder.join(name)
}
