//! Evidence files of a log that has replaced its key twice.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crawlgate_config::Config;
use crawlgate_evidence::bundle::{Checker, write};
use crawlgate_evidence::prove::Prover;
use crawlgate_evidence::verify::case::Trusted;
use crawlgate_evidence::verify::keys::Keys;
use crawlgate_store::rotation::RotationReason;
use crawlgate_store::{Access, Store, log_key, open, rotate_key};
use crawlgate_system::clock::Moment;
use crawlgate_tlog::{EntryProof, Note, Tree, VerifierKey, leaf_hash};

use super::peers::missing;
use super::stored::decisions;

const DAY: Duration = Duration::from_secs(86_400);

/// Writes the evidence of a record.
async fn evidence(store: &Store, config: &Config, seq: u64) -> String {
    let trusted = Trusted::of_store(&[], config, store).await.unwrap();
    let prover = Prover::of(seq, store, &trusted).await.unwrap();
    let record = store.records(seq - 1, 1).await.unwrap().remove(0);
    let shown = prover.show(&record, store).await.unwrap();
    let mut file = Vec::new();
    write(&prover.header(), &shown.exhibit, &mut file);
    String::from_utf8(file).unwrap()
}

fn is_proven(file: &str, key: &VerifierKey) -> bool {
    is_proven_by(file, vec![key.clone()].into())
}

fn is_proven_by(file: &str, keys: Keys) -> bool {
    let Ok(mut checker) = Checker::by(file.as_bytes(), keys, Vec::new()) else {
        return false;
    };
    matches!(checker.prove_next(), Ok(Some(_))) && matches!(checker.prove_next(), Ok(None))
}

/// Proves a file by Python; `None` without Python.
fn is_proven_by_python(file: &str, key: &VerifierKey) -> Option<bool> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evidence.json");
    fs::write(&path, file).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/verify-evidence.py");
    let output = Command::new("python3").arg(script).arg(path).arg(key.to_string()).output();
    let Ok(output) = output else {
        missing("python3");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || said.contains("Not proven"), "{said}");
    Some(output.status.success())
}

#[test]
fn a_reader_who_knows_one_key_of_the_log_needs_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("[store]\npath = '{}/crawlgate.db'\n", folder.path().display());
    let config = Config::parse(&text, &folder.path().join("config.toml")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let now = Moment::from_millis(1_795_176_000_000);
    let words = || RotationReason { by: "Grace".to_owned(), reason: "yearly".to_owned() };
    let (early, late, keys) = runtime.unwrap().block_on(async {
        let store: Arc<Store> = open(&config, Access::Write).unwrap();
        let held = log_key(&config).unwrap();
        store.write(decisions(1..2)).await.unwrap();
        store.checkpoint(Arc::clone(&held), now).await.unwrap();
        let early = evidence(&store, &config, 1).await;
        let first = rotate_key(&config, words(), now).await.unwrap();
        let second = rotate_key(&config, words(), now + DAY * 40).await.unwrap();
        store.write(decisions(2..3)).await.unwrap();
        let signed = store.checkpoint(held, now + DAY * 100).await.unwrap().unwrap();
        let note = Note::parse(signed.note.as_bytes()).unwrap();
        assert_eq!(note.signatures().len(), 1, "by the last key alone");
        let late = evidence(&store, &config, 4).await;
        (early, late, [first.old, first.new, second.new])
    });
    assert!(!early.contains("rotations") && is_proven(&early, &keys[0]));
    assert!(!is_proven(&early, &keys[2]), "it was made before");
    for key in &keys {
        assert!(is_proven(&late, key), "{late}");
        assert_ne!(is_proven_by_python(&late, key), Some(false));
    }
    let stranger = VerifierKey::new(keys[0].name().clone(), keys[0].kind(), [8; 32]);
    assert!(!is_proven(&late, &stranger));
    assert_ne!(is_proven_by_python(&late, &stranger), Some(true));

    // Without the proof of the new keys, or with an altered one, the old key proves nothing.
    let from = late.find("\"rotations\"").unwrap();
    let to = late[from..].find("\n  \"record\"").unwrap() + from;
    let without = format!("{}{}", &late[..from], &late[to..]);
    assert!(!is_proven(&without, &keys[0]) && is_proven(&without, &keys[2]));
    assert_ne!(is_proven_by_python(&without, &keys[0]), Some(true));
    for (nth, at) in (from..to - 1).step_by(5).enumerate() {
        let mut flipped = late.clone().into_bytes();
        flipped[at] ^= 1 << (nth % 7);
        let Ok(flipped) = String::from_utf8(flipped) else {
            continue;
        };
        assert!(!is_proven(&flipped, &keys[0]), "octet {at}: {flipped}");
        if nth % 97 == 0 {
            assert_ne!(is_proven_by_python(&flipped, &keys[0]), Some(true), "octet {at}");
        }
    }
}

#[tokio::test]
async fn a_person_who_has_a_replaced_key_alone_forges_no_evidence() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("[store]\npath = '{}/crawlgate.db'\n", folder.path().display());
    let config = Config::parse(&text, &folder.path().join("config.toml")).unwrap();
    let now = Moment::from_millis(1_795_176_000_000);
    let words = RotationReason { by: "Grace".to_owned(), reason: "stolen".to_owned() };
    let store: Arc<Store> = open(&config, Access::Write).unwrap();
    let stolen = log_key(&config).unwrap();
    store.write(decisions(1..2)).await.unwrap();
    store.checkpoint(Arc::clone(&stolen), now).await.unwrap();
    let early = evidence(&store, &config, 1).await;
    let rotation = rotate_key(&config, words, now).await.unwrap();
    store.write(decisions(2..3)).await.unwrap();
    let present = log_key(&config).unwrap();
    store.checkpoint(present, now + DAY * 40).await.unwrap();
    let late = evidence(&store, &config, 3).await;

    // The forger signs the same tree by the stolen key, and leaves the rotation out.
    let records = store.records(0, 9).await.unwrap();
    let leaves: Vec<_> = records.iter().map(|one| leaf_hash(&one.entry)).collect();
    let note = stolen.checkpoint(3, Tree::root_of(&leaves));
    let path = store.inclusion(2, 3).await.unwrap();
    let forged = serde_json::to_string(&EntryProof::new(path, note).to_string()).unwrap();
    let mut file: serde_json::Value = serde_json::from_str(&late).unwrap();
    file["proof"] = serde_json::from_str(&forged).unwrap();
    let with = file.to_string();
    file.as_object_mut().unwrap().remove("rotations");
    let without = file.to_string();
    assert!(is_proven(&without, &rotation.old), "the forgery is well made");

    let beside = Trusted::of(&[], &config).unwrap().keys;
    assert_eq!(beside.all, std::slice::from_ref(&rotation.new));
    let of_store = Trusted::of_store(&[], &config, &store).await.unwrap().keys;
    assert!(of_store.all.contains(&rotation.old));
    for keys in [beside, of_store.clone()] {
        assert!(!is_proven_by(&without, keys.clone()) && !is_proven_by(&with, keys.clone()));
        assert!(is_proven_by(&late, keys));
    }
    assert!(is_proven_by(&early, of_store), "it was made before");
}
