//! The log as the admin listener serves it to monitors.

use crawlgate_tlog::{Checkpoint, Note, Tile, Tree, leaf_hash};

use crate::api::decisions;
use crate::support::admin_gate::problem;
use crate::support::{AdminGate, Origin, RULES, StoredLog, eventually};

#[test]
fn the_log_is_served_as_tiles() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::with(|setup| setup.set("audit", "checkpoint_every", "\"1s\""));
    for path in ["/private/a", "/private/b"] {
        gate.deny(&origin, path);
    }
    decisions(&gate, "?verdict=deny", 2);
    let stored = || StoredLog::read(&gate.setup.dir().join("crawlgate.db"));
    let kept = stored();
    let least = kept.leaves.len() as u64;
    let (checkpoint, note) = eventually("a checkpoint over the denials", || {
        let answer = gate.ask("GET", "/tlog/checkpoint", "", "");
        let note = Note::parse(answer.text().as_bytes()).ok()?;
        let checkpoint = Checkpoint::from_text(note.text())?;
        (checkpoint.size >= least).then_some((checkpoint, note))
    });
    // Its reader trusts the key, and nothing else of what it gets.
    let (_, key, _) = gate.beside("audit", &["key"]);
    let keys = [key.trim().parse().unwrap()];
    assert!(Checkpoint::open(&note, &keys).is_ok(), "{}", note.text());
    let size = checkpoint.size;
    let width = size % 256;
    let get = |path: &str| gate.ask("GET", &format!("/tlog/{path}"), "", "");
    let hashes = get(&format!("tile/0/000.p/{width}"));
    let entries = get(&format!("tile/entries/000.p/{width}"));
    assert_eq!((hashes.status, entries.status), (200, 200), "{size}");
    let tile = Tile::all(size).next().unwrap();
    let hashes = tile.hashes(&hashes.body).unwrap();
    let entries = tile.entries(&entries.body).unwrap();
    let leaves: Vec<_> = entries.iter().map(|entry| leaf_hash(entry)).collect();
    assert_eq!(leaves, hashes);
    assert_eq!(Tree::root_of(&hashes), checkpoint.root);
    assert_eq!(hashes, stored().leaves[..hashes.len()]);
    let words = "tile/0/000 tile/0/001 tile/1/000.p/1 tile/entries/000.p/255 tile/0/0 tile/0/..%2f000 \
        crawlgate.db";
    for path in words.split(' ') {
        problem(&get(path), 404);
    }
}
