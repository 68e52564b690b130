//! Every engine keeps records as they were written, in one sealed chain.

use super::*;

#[tokio::test]
async fn records_are_kept_octet_for_octet_and_chained() {
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
async fn a_batch_with_a_line_that_is_no_record_is_refused_as_a_whole() {
    for (engine, store, _folder) in engines() {
        let (_, mut lines) = ROW.line();
        lines.extend(b"nonsense\n");
        let batch = Batch {
            landings: vec![landing("site.example", successful("", NOON), NOON)],
            lines,
            ..Batch::default()
        };
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
