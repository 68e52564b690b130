//! Every engine keeps records as they were written, in one sealed chain.

use super::*;

#[tokio::test]
async fn records_are_kept_as_lines_and_chained() {
    for (engine, store, _folder) in engines() {
        record(&*store, &rows(3)).await;
        record(&*store, &rows(2)).await;
        let links = store.links(0, 100).await.unwrap();
        assert_eq!(links.len(), 5);
        let mut hash = chain::GENESIS;
        for (at, link) in links.iter().enumerate() {
            assert_eq!(link.seq, at as u64 + 1, "{engine}");
            hash = chain::link(&hash, link.record.as_bytes());
            assert_eq!(link.hash, hash, "{engine}");
        }
        assert_eq!(store.links(2, 2).await.unwrap(), links[2..4]);
        let size = store.size().await.unwrap();
        assert_eq!(size.decisions, 5, "{engine}");
        assert!(size.bytes > 1_000, "{engine}: {size:?}");
    }
}

#[tokio::test]
async fn a_batch_with_octets_that_are_no_entry_is_refused_as_a_whole() {
    for (engine, store, _folder) in engines() {
        let mut batch = ROW.batch();
        batch.entries.push(|out| out.extend_from_slice(b"nonsense"));
        batch
            .landings
            .push(landing("site.example", successful("", NOON), NOON));
        store.write(batch).await.unwrap_err();
        assert_eq!(store.links(0, 100).await.unwrap(), [], "{engine}");
        assert_eq!(
            store.origin(&origin("site.example")).await.unwrap(),
            [],
            "{engine}"
        );
        // A later record still links.
        record(&*store, &[ROW]).await;
        assert_eq!(store.links(0, 100).await.unwrap().len(), 1, "{engine}");
    }
}

#[tokio::test]
async fn a_grown_chain_is_sealed() {
    for (engine, store, _folder) in engines() {
        let key = key();
        assert_eq!(
            store.seal(Arc::clone(&key), NOON).await.unwrap(),
            None,
            "nothing to seal"
        );
        record(&*store, &rows(3)).await;
        let seal = store.seal(Arc::clone(&key), NOON).await.unwrap().unwrap();
        let head = store.links(2, 1).await.unwrap().remove(0);
        assert_eq!((seal.seq, seal.hash), (3, head.hash), "{engine}");
        assert_eq!(seal.start, (1, chain::GENESIS), "{engine}");
        assert!(seal.is_genuine());
        assert_eq!(
            store.seal(Arc::clone(&key), NOON + DAY).await.unwrap(),
            None,
            "{engine}: sealed"
        );
        record(&*store, &rows(1)).await;
        assert!(store.seal(key, NOON + DAY).await.unwrap().is_some());
        assert_eq!(store.seals().await.unwrap().len(), 2, "{engine}");
    }
}

#[tokio::test]
async fn objects_are_kept_once_by_their_digest_and_found_by_later_batches() {
    let row = Row {
        sha256: Some([7; 32]),
        ..ROW
    };
    for (engine, store, _folder) in engines() {
        let first = row.batch();
        let object = first.objects[0].clone();
        store.write(first).await.unwrap();
        assert_eq!(
            store.object(object.sha256).await.unwrap().as_deref(),
            Some(&*object.body),
            "{engine}"
        );
        assert_eq!(store.object([0; 32]).await.unwrap(), None, "{engine}");
        // An entry that names what no batch has brought has no line.
        let mut orphan = Row {
            sha256: Some([8; 32]),
            ..ROW
        }
        .batch();
        orphan.objects.clear();
        let refused = store.write(orphan).await.unwrap_err();
        assert!(
            refused.message.contains("is missing"),
            "{engine}: {refused}"
        );
        let mut second = row.batch();
        second.objects.clear();
        store.write(second).await.unwrap();
        let links = store.links(0, 100).await.unwrap();
        assert_eq!(links.len(), 2, "{engine}");
        for link in links {
            let digest = format!("\"sha256\":\"{}\"", "07".repeat(32));
            assert!(link.record.contains(&digest), "{engine}: {}", link.record);
        }
    }
}
