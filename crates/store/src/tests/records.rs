//! Every engine keeps entries as they were written, in one signed log.

use super::*;
use crawlgate_tlog::{Checkpoint, Note, Tree, leaf_hash};

#[tokio::test]
async fn entries_are_kept_as_they_were_with_their_lines() {
    let store = engine();
    let mut batches = [Batch::default(), Batch::default()];
    for row in rows(3) {
        row.file(&mut batches[0]);
    }
    for row in rows(2) {
        row.file(&mut batches[1]);
    }
    let entries: Vec<Vec<u8>> =
        batches.iter().flat_map(|batch| batch.entries.iter().map(<[u8]>::to_vec)).collect();
    for batch in batches {
        store.write(batch).await.unwrap();
    }
    let records = store.records(0, 100).await.unwrap();
    assert_eq!(records.len(), 5);
    for (at, record) in records.iter().enumerate() {
        assert_eq!(record.seq, at as u64 + 1);
        assert_eq!(record.entry, entries[at]);
        assert!(record.record.starts_with("{\"time\":\"2026-11-20T12:00:0"));
    }
    assert_eq!(store.records(2, 2).await.unwrap(), records[2..4]);
    let size = store.size().await.unwrap();
    assert_eq!(size.decisions, 5);
    assert!(size.bytes > 1_000, "{size:?}");
}

#[tokio::test]
async fn a_batch_with_octets_that_are_no_entry_is_refused_as_a_whole() {
    let store = engine();
    let mut batch = ROW.batch();
    batch.entries.push(|out| out.extend_from_slice(b"nonsense"));
    batch.updates.push(origin_update("site.example", successful("", NOON), NOON));
    store.write(batch).await.unwrap_err();
    assert_eq!(store.records(0, 100).await.unwrap(), []);
    assert_eq!(store.origin(&origin("site.example")).await.unwrap(), []);
    // A later record begins the log.
    record(&store, &[ROW]).await;
    assert_eq!(store.records(0, 100).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_grown_log_is_signed() {
    let store = engine();
    let key = key();
    let sign = async |now| store.checkpoint(Arc::clone(&key), now).await.unwrap();
    assert_eq!(sign(NOON).await, None, "nothing to sign");
    record(&store, &rows(3)).await;
    let first = sign(NOON).await.unwrap();
    let note = Note::parse(first.note.as_bytes()).unwrap();
    let (checkpoint, _) = Checkpoint::open(&note, &[key.vkey()]).unwrap();
    let records = store.records(0, 100).await.unwrap();
    let leaves: Vec<_> = records.iter().map(|one| leaf_hash(&one.entry)).collect();
    assert_eq!((checkpoint.size, first.size), (3, 3));
    assert_eq!(checkpoint.root, Tree::root_of(&leaves));
    assert_eq!(sign(NOON + DAY).await, None, "signed");
    record(&store, &rows(1)).await;
    // A clock that was set back.
    let second = sign(NOON - DAY).await.unwrap();
    assert_eq!((second.size, second.time), (4, NOON));
    assert_eq!(store.checkpoints().await.unwrap(), [first, second]);
    for (index, leaf) in leaves.iter().enumerate() {
        let proof = store.inclusion(index as u64, 3).await.unwrap();
        assert_eq!(proof.verify(leaf, &checkpoint.root), Ok(()));
    }
}

#[tokio::test]
async fn what_people_do_is_in_the_log() {
    let store = engine();
    let ids = record(&store, &[ROW]).await;
    let note = Acknowledgement { time: NOON, by: "ann".to_owned(), note: "seen".to_owned() };
    assert!(acknowledge(&store, &ids[0], note).await);
    let asserted = Override {
        id: OverrideId::Stored(0),
        origin: origin("site.example"),
        pattern: "/private".to_owned(),
        action: Action::Allow,
        until: None,
        by: "bob".to_owned(),
        reason: "we may".to_owned(),
        created: NOON,
        instance: None,
    };
    let number = store.add_override(asserted).await.unwrap();
    assert!(store.remove_override(number, "eve".to_owned(), NOON).await.unwrap());
    let records = store.records(1, 100).await.unwrap();
    let lines: Vec<&str> = records.iter().map(|one| &*one.record).collect();
    let [seen, added, removed] = lines.as_slice() else { panic!("{lines:?}") };
    for (line, words) in [
        (seen, ["\"event\":\"acknowledged\"", "ann", "seen"]),
        (added, ["\"event\":\"override_added\"", "bob", "we may"]),
        (removed, ["\"event\":\"override_removed\"", "eve", "/private"]),
    ] {
        for word in words {
            assert!(line.contains(word), "{line} has no {word}");
        }
    }
}

#[tokio::test]
async fn objects_are_kept_once_by_their_digest_and_found_by_later_batches() {
    let row = Row { sha256: Some([7; 32]), ..ROW };
    let store = engine();
    let first = row.batch();
    let object = first.objects[0].clone();
    store.write(first).await.unwrap();
    assert_eq!(store.object(object.sha256).await.unwrap().as_deref(), Some(&*object.body));
    assert_eq!(store.object([0; 32]).await.unwrap(), None);
    let mut second = row.batch();
    second.objects.clear();
    store.write(second).await.unwrap();
    let records = store.records(0, 100).await.unwrap();
    assert_eq!(records.len(), 2);
    for one in records {
        let digest = format!("\"sha256\":\"{}\"", "07".repeat(32));
        assert!(one.record.contains(&digest), "{}", one.record);
    }
    // A record says that its object was lost.
    let mut orphan = Row { sha256: Some([8; 32]), ..ROW }.batch();
    orphan.objects.clear();
    store.write(orphan).await.unwrap();
    let orphan = store.records(2, 1).await.unwrap().remove(0);
    assert!(orphan.record.contains("\"robots\":null"), "{}", orphan.record);
    assert!(orphan.record.contains("\"missing\":\"the robots object"), "{}", orphan.record);
}
