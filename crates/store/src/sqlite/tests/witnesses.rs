//! Cosignatures beside checkpoints, and witnesses that know more than the store.

use std::sync::Arc;

use super::*;
use crate::LogKey;
use crawlgate_tlog::Signature;
use crawlgate_tlog::samples::cosign;

#[tokio::test]
async fn a_cosignature_stands_with_its_checkpoint_once() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let key = Arc::new(LogKey::generate(None).unwrap());
    record(&store, &rows(3)).await;
    let signed = store.checkpoint(Arc::clone(&key), NOON).await.unwrap();
    let signed = signed.unwrap();
    assert!(!signed.is_cosigned());
    let text = signed.note.split("\n\n").next().unwrap().to_owned() + "\n";
    let (one, line) = cosign(&text, "one", 3, 7);
    let (_, later) = cosign(&text, "one", 3, 9);
    let (other, of_other) = cosign(&text, "other", 4, 8);
    for line in [&line, &later, &of_other, &of_other] {
        assert!(store.cosign(signed.size, line.clone()).await.unwrap());
    }
    assert!(!store.cosign(signed.size + 1, line.clone()).await.unwrap());
    let stored = store.checkpoints().await.unwrap().pop().unwrap();
    assert!(stored.is_cosigned());
    assert_eq!(stored.note, format!("{}{line}\n{of_other}\n", signed.note));
    let seen = |keys: &[_]| -> Vec<u64> {
        let seen = stored.cosigned(keys);
        seen.iter().map(|(_, time)| time.as_millis()).collect()
    };
    assert_eq!(seen(&[other.clone(), one.clone()]), [8_000, 7_000]);
    assert!(seen(&[key.vkey()]).is_empty(), "the log is no witness");
    // A line of the right name that does not hold is no cosignature.
    let mut octets = vec![0; 72];
    octets[7] = 1;
    let (size, false_one) = (signed.size, Signature::new(one.name().clone(), one.id(), octets));
    let note = format!("{}{false_one}\n", signed.note);
    shell(&path)
        .execute("UPDATE checkpoint SET note = ?2 WHERE size = ?1", (size as i64, note))
        .unwrap();
    let stored = store.checkpoints().await.unwrap().pop().unwrap();
    assert!(stored.cosigned(&[one, other]).is_empty());
}

#[tokio::test]
async fn nothing_is_signed_while_a_witness_knows_more() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let key = Arc::new(LogKey::generate(None).unwrap());
    record(&store, &rows(3)).await;
    let (log, other) = (key.name().clone(), "other".parse().unwrap());
    store.note_ahead("w", &log, Some(9)).await.unwrap();
    store.note_ahead("v", &log, Some(8)).await.unwrap();
    store.note_ahead("v", &log, Some(7)).await.unwrap();
    store.note_ahead("v", &other, Some(6)).await.unwrap();
    // Other processes know it, too.
    let beside = open(&path).unwrap();
    for store in [&store, &beside] {
        let refused = store.checkpoint(Arc::clone(&key), NOON).await.unwrap_err();
        let want = "the witness v knows one of 7 records";
        assert!(refused.message.contains(want), "{refused}");
    }
    assert_eq!(beside.ahead(&log).await.unwrap(), [("v".to_owned(), 7), ("w".to_owned(), 9)]);
    record(&store, &rows(3)).await;
    for witness in ["v", "w", "w"] {
        beside.note_ahead(witness, &log, None).await.unwrap();
    }
    assert_eq!(beside.ahead(&other).await.unwrap(), [("v".to_owned(), 6)]);
    let signed = store.checkpoint(key, NOON).await.unwrap();
    assert_eq!(signed.map(|one| one.size), Some(6), "of this log");
    assert_eq!(store.signed(0).await.unwrap(), 6);
    assert_eq!(beside.signed(3).await.unwrap(), 6);
}
