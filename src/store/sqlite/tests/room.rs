//! The store keeps within its bound, and the bound drops evidence only for newer evidence.

use crate::audit::verify::{ChainVerifier, Fault};
use crate::store::{DecisionQuery, Pruned, Retention};

use super::*;

const MIB: u64 = 1024 * 1024;

fn key() -> Arc<chain::SealingKey> {
    Arc::new(chain::SealingKey::generate().unwrap())
}

/// Bounds the store from now on, and returns the amounts dropped until now.
async fn bound(store: &Sqlite, most: u64, key: &Arc<chain::SealingKey>) -> Pruned {
    let retention = Retention {
        keep: Some(Duration::from_secs(86_400)),
        max_size: Some(most),
    };
    let mut all = Pruned::default();
    loop {
        let step = store.prune(retention, Arc::clone(key), NOON).await.unwrap();
        let more = step.more;
        all.add(step);
        if !more {
            return all;
        }
    }
}

/// Returns the octets of the files.
fn on_disk(path: &Path) -> u64 {
    let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    length(path) + length(&beside(path, "-wal"))
}

/// Returns a robots.txt that does not compress.
fn noise(octets: usize, seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let digit = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + (state % 90) as u8)
    };
    (0..octets).map(digit).collect()
}

fn digest(text: &str) -> Sha256 {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    digest.as_ref().try_into().unwrap()
}

async fn decisions(store: &Sqlite, client: &str) -> usize {
    let query = DecisionQuery {
        client: Some(client.to_owned()),
        limit: usize::MAX,
        ..DecisionQuery::default()
    };
    store.decisions(query).await.unwrap().len()
}

/// Returns the faults of the chain, walked from end to end as an auditor does.
async fn walked(store: &Sqlite, key: &chain::SealingKey) -> Vec<Fault> {
    let mut faults = Vec::new();
    let seals = store.seals().await.unwrap();
    let mut verifier = ChainVerifier::new(&seals, &[key.public()], None, &mut faults);
    verifier.admit(store.gaps(0, u64::MAX >> 1).await.unwrap());
    for link in store.links(0, usize::MAX >> 1).await.unwrap() {
        verifier.step(&link, &mut faults);
    }
    verifier.end(&mut faults);
    faults
}

#[tokio::test]
async fn names_without_end_push_out_no_decision_and_nothing_of_other_domains() {
    const MOST: u64 = 24 * MIB;
    let (_folder, path) = place();
    let (store, key) = (open(&path).unwrap(), key());
    bound(&store, MOST, &key).await;
    let text = "User-agent: *\nDisallow: /private\n";
    land(
        &store,
        landing("site.example", successful(text, NOON), NOON),
    )
    .await;
    let gone = landing(
        "gone.other.example",
        super::super::super::tests::absent(NOON),
        NOON,
    );
    land(&store, gone).await;
    let denial = Row {
        sha256: Some(digest(text)),
        ..ROW
    };
    record(&store, &vec![denial; 500]).await;
    for n in 0..120 {
        let time = NOON + Duration::from_secs(n);
        let host = format!("n{n}.wild.example");
        let file = successful(&noise(500_000, n), time);
        let sha256 = file.snapshot().map(|file| file.sha256);
        land(&store, landing(&host, file, time)).await;
        let host = host.as_str();
        let row = Row {
            host,
            sha256,
            ..ROW
        };
        record(&store, &[row]).await;
        assert!(on_disk(&path) <= MOST, "{n}: {}", on_disk(&path));
    }
    let pruned = bound(&store, MOST, &key).await;
    assert_eq!((pruned.decisions, pruned.early), (0, 0));
    assert!(pruned.origins > 0);
    assert_eq!(store.size().await.unwrap().decisions, 620);
    // The others keep their states, and their denials can be proven.
    for host in ["site.example", "gone.other.example"] {
        let url = format!("https://{host}");
        let (origin, _) = Origin::parse(&url).unwrap();
        assert!(!store.origin(&origin).await.unwrap().is_empty(), "{host}");
    }
    let kept = store.snapshot(digest(text)).await.unwrap();
    assert_eq!(kept.as_deref(), Some(text.as_bytes()));
    // The verification reports a dropped text as dropped, not as a fault.
    let first = digest(&noise(500_000, 0));
    assert_eq!(store.snapshot(first).await.unwrap(), None);
    assert!(store.is_dropped(first).await.unwrap());
    let last = digest(&noise(500_000, 119));
    assert!(store.snapshot(last).await.unwrap().is_some());
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
    // After another fetch, the text is present again.
    let time = NOON + Duration::from_secs(500);
    let again = successful(&noise(500_000, 0), time);
    land(&store, landing("n0.wild.example", again, time)).await;
    assert!(store.snapshot(first).await.unwrap().is_some());
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
}

#[tokio::test]
async fn a_text_that_many_domains_share_outlives_the_one_that_brought_it() {
    let (_folder, path) = place();
    let (store, key) = (open(&path).unwrap(), key());
    bound(&store, 8 * MIB, &key).await;
    let shared = "User-agent: *\nDisallow: /wp-admin/\n";
    for host in ["a.wild.example", "one.example", "two.example"] {
        land(&store, landing(host, successful(shared, NOON), NOON)).await;
    }
    for n in 0..20 {
        let time = NOON + Duration::from_secs(n);
        let file = successful(&noise(200_000, n), time);
        land(&store, landing(&format!("n{n}.wild.example"), file, time)).await;
    }
    for (host, want) in [
        ("a.wild.example", false),
        ("one.example", true),
        ("two.example", true),
    ] {
        let url = format!("https://{host}");
        let (origin, _) = Origin::parse(&url).unwrap();
        let known = store.origin(&origin).await.unwrap();
        assert_eq!(!known.is_empty(), want, "{host}");
    }
    assert!(store.snapshot(digest(shared)).await.unwrap().is_some());
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
}

#[tokio::test]
async fn states_without_a_text_have_a_bound_too() {
    const MOST: u64 = 2 * MIB;
    let (_folder, path) = place();
    let (store, key) = (open(&path).unwrap(), key());
    bound(&store, MOST, &key).await;
    for n in 0..3_000_u64 {
        let time = NOON + Duration::from_secs(n);
        let absent = super::super::super::tests::absent(time);
        land(&store, landing(&format!("n{n}.wild.example"), absent, time)).await;
    }
    assert!(on_disk(&path) <= MOST, "{}", on_disk(&path));
    let left = store.size().await.unwrap();
    assert!((100..1_000).contains(&left.origins), "{left:?}");
    let (newest, _) = Origin::parse("https://n2999.wild.example").unwrap();
    assert!(!store.origin(&newest).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_file_and_its_log_stay_within_the_bound_while_records_come() {
    for (most, batches, size) in [(2 * MIB, 200, 40), (8 * MIB, 60, 800)] {
        let (_folder, path) = place();
        let (store, key) = (open(&path).unwrap(), key());
        bound(&store, most, &key).await;
        for batch in 0..batches {
            record(&store, &rows(size)).await;
            let taken = on_disk(&path);
            assert!(taken <= most, "{batch}: {taken} of {most}");
        }
        let left = store.size().await.unwrap().decisions;
        let dropped = bound(&store, most, &key).await;
        assert_eq!(dropped.decisions + left, batches * size);
        assert_eq!(dropped.early, dropped.decisions, "none was old");
        assert_eq!(dropped.of.as_deref(), Some("client crawler-7"));
        assert!(left * 1_000 > most / 3, "{left}: no more than need be");
        assert_eq!(walked(&store, &key).await, []);
        assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
    }
}

/// Returns a record of the client without a name at `address`.
fn of(address: &'static str) -> Row<'static> {
    Row {
        client: address,
        name: None,
        ..ROW
    }
}

#[tokio::test]
async fn who_takes_most_gives_first_and_the_others_keep_what_they_have() {
    const MOST: u64 = 2 * MIB;
    let (_folder, path) = place();
    let (store, key) = (open(&path).unwrap(), key());
    bound(&store, MOST, &key).await;
    let (quiet, loud) = (of("192.0.2.1:4000"), of("192.0.2.2:4000"));
    record(&store, &vec![quiet.clone(); 100]).await;
    for n in 0..100 {
        // In between, so that the dropped records lie between kept ones.
        record(&store, std::slice::from_ref(&quiet)).await;
        record(&store, &vec![loud.clone(); 100]).await;
        if n % 10 == 0 {
            store.seal(Arc::clone(&key), NOON).await.unwrap();
        }
        assert!(on_disk(&path) <= MOST, "{n}");
    }
    assert_eq!(decisions(&store, "192.0.2.1").await, 200);
    let left = decisions(&store, "192.0.2.2").await;
    assert!((500..9_000).contains(&left), "{left}");
    let size = store.size().await.unwrap();
    assert_eq!(size.decisions, 200 + left as u64);
    assert_eq!(walked(&store, &key).await, []);
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
    let told = bound(&store, MOST, &key).await;
    assert_eq!(told.of.as_deref(), Some("address 192.0.2.2"));

    // Across a gap, an altered record is still found.
    store.seal(Arc::clone(&key), NOON).await.unwrap();
    drop(store);
    let gaps = "SELECT count(*) FROM gap";
    let gaps: i64 = shell(&path).query_row(gaps, [], |row| row.get(0)).unwrap();
    assert!((1..=200).contains(&gaps), "{gaps}");
    for (name, change) in [
        (
            "a record before a gap",
            "UPDATE decision SET record = replace(record, 'deny', 'allow') WHERE seq = (SELECT first - 1 FROM gap LIMIT 1)",
        ),
        (
            "a record behind a gap",
            "UPDATE decision SET record = replace(record, 'deny', 'allow') WHERE seq = (SELECT last + 1 FROM gap LIMIT 1)",
        ),
        (
            "a record taken out beside a gap",
            "DELETE FROM decision WHERE seq = (SELECT last + 1 FROM gap LIMIT 1)",
        ),
        (
            "and the gap made to cover it",
            "UPDATE gap SET last = last + 1, link_after = (SELECT hash FROM decision WHERE seq = last + 1) \
             WHERE first = (SELECT min(first) FROM gap);
             DELETE FROM decision WHERE seq = (SELECT last FROM gap LIMIT 1)",
        ),
        (
            "and without a signature",
            "UPDATE gap SET last = last + 1, signature = NULL, key = NULL, \
             link_after = (SELECT hash FROM decision WHERE seq = last + 1) WHERE first = (SELECT min(first) FROM gap);
             DELETE FROM decision WHERE seq = (SELECT last FROM gap LIMIT 1)",
        ),
    ] {
        let other = path.with_file_name("altered.db");
        fs::copy(&path, &other).unwrap();
        shell(&other).execute_batch(change).unwrap();
        let altered = open(&other).unwrap();
        assert_ne!(walked(&altered, &key).await, [], "{name}");
        drop(altered);
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(beside(&other, suffix));
        }
    }
}

#[tokio::test]
async fn addresses_without_end_do_not_have_a_share_each() {
    const MOST: u64 = 2 * MIB;
    let (_folder, path) = place();
    let (store, key) = (open(&path).unwrap(), key());
    bound(&store, MOST, &key).await;
    record(&store, &vec![of("192.0.2.1:4000"); 100]).await;
    for n in 0..80_u32 {
        let mut batch = Batch::default();
        for m in 0..100 {
            let address = format!("[2001:db8:{:x}:{:x}::1]:1", n, m);
            let address: &'static str = Box::leak(address.into_boxed_str());
            of(address).file(&mut batch);
        }
        Store::write(&store, batch).await.unwrap();
    }
    let parties: i64 = shell(&path)
        .query_row("SELECT count(*) FROM party", [], |row| row.get(0))
        .unwrap();
    assert!(parties <= 1_025, "{parties}");
    assert_eq!(decisions(&store, "192.0.2.1").await, 100);
    assert_eq!(walked(&store, &key).await, []);
}

#[tokio::test]
async fn a_log_held_by_a_reader_is_reported_and_our_pages_do_not_hold_it() {
    const MOST: u64 = 2 * MIB;
    let (_folder, path) = place();
    let (store, key) = (open(&path).unwrap(), key());
    assert_eq!(bound(&store, MOST, &key).await.long_log, 0);
    record(&store, &rows(10)).await;
    // A reader that has a page and asks for no other: `log --follow`, or an abandoned export.
    let follower = Sqlite::open(&path, Access::Read, Synchronous::Normal).unwrap();
    let query = DecisionQuery {
        limit: 3,
        ..DecisionQuery::default()
    };
    assert_eq!(follower.decisions(query).await.unwrap().len(), 3);
    assert_eq!(follower.links(0, 3).await.unwrap().len(), 3);
    let fill = async || {
        for _ in 0..20 {
            record(&store, &rows(100)).await;
        }
    };
    fill().await;
    assert_eq!(bound(&store, MOST, &key).await.long_log, 0);
    assert!(on_disk(&path) <= MOST);
    // A reader that stays within one transaction.
    let shell = shell(&path);
    shell
        .execute_batch("BEGIN; SELECT count(*) FROM decision")
        .unwrap();
    fill().await;
    let told = bound(&store, MOST, &key).await.long_log;
    assert!(told > 256 * 1024, "{told}");
    shell.execute_batch("COMMIT").unwrap();
    assert_eq!(bound(&store, MOST, &key).await.long_log, 0);
    assert!(on_disk(&path) <= MOST);
}
