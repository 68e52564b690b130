//! The store keeps within its bound, and the bound drops evidence only for newer evidence.

use crate::{DecisionQuery, Pruned, Retention};

use super::*;

const MIB: u64 = 1024 * 1024;

/// Bounds the store from now on, and returns the amounts dropped until now.
async fn bound(store: &Store, most: u64) -> Pruned {
    let retention = Retention { keep: Some(Duration::from_secs(86_400)), max_size: Some(most) };
    let mut all = Pruned::default();
    loop {
        let step = store.prune(retention, NOON).await.unwrap();
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

#[tokio::test]
async fn names_without_end_push_out_no_decision_and_nothing_of_other_domains() {
    const MAX: u64 = 24 * MIB;
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    bound(&store, MAX).await;
    let text = "User-agent: *\nDisallow: /private\n";
    update_origin(&store, origin_update("site.example", successful(text, NOON), NOON)).await;
    let gone = origin_update("gone.other.example", crate::samples::absent(NOON), NOON);
    update_origin(&store, gone).await;
    let denial = Row { sha256: Some(digest(text)), ..ROW };
    record(&store, &vec![denial; 500]).await;
    for n in 0..120 {
        let time = NOON + Duration::from_secs(n);
        let host = format!("n{n}.wild.example");
        let file = successful(&noise(500_000, n), time);
        let sha256 = file.snapshot().map(|file| file.sha256);
        update_origin(&store, origin_update(&host, file, time)).await;
        let host = host.as_str();
        let row = Row { host, sha256, ..ROW };
        record(&store, &[row]).await;
        assert!(on_disk(&path) <= MAX, "{n}: {}", on_disk(&path));
    }
    let pruned = bound(&store, MAX).await;
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
    update_origin(&store, origin_update("n0.wild.example", again, time)).await;
    assert!(store.snapshot(first).await.unwrap().is_some());
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
}

#[tokio::test]
async fn a_text_that_many_domains_share_outlives_the_one_that_brought_it() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    bound(&store, 8 * MIB).await;
    let shared = "User-agent: *\nDisallow: /wp-admin/\n";
    for host in ["a.wild.example", "one.example", "two.example"] {
        update_origin(&store, origin_update(host, successful(shared, NOON), NOON)).await;
    }
    for n in 0..20 {
        let time = NOON + Duration::from_secs(n);
        let file = successful(&noise(200_000, n), time);
        update_origin(&store, origin_update(&format!("n{n}.wild.example"), file, time)).await;
    }
    for (host, want) in [("a.wild.example", false), ("one.example", true), ("two.example", true)] {
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
    const MAX: u64 = 2 * MIB;
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    bound(&store, MAX).await;
    for n in 0..3_000_u64 {
        let time = NOON + Duration::from_secs(n);
        let absent = crate::samples::absent(time);
        update_origin(&store, origin_update(&format!("n{n}.wild.example"), absent, time)).await;
    }
    assert!(on_disk(&path) <= MAX, "{}", on_disk(&path));
    let left = store.size().await.unwrap();
    assert!((100..1_000).contains(&left.origins), "{left:?}");
    let (newest, _) = Origin::parse("https://n2999.wild.example").unwrap();
    assert!(!store.origin(&newest).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_file_and_its_log_stay_within_the_bound_while_records_come() {
    for (most, batches, size) in [(2 * MIB, 150, 200), (6 * MIB, 24, 4_000)] {
        let (_folder, path) = place();
        let store = open(&path).unwrap();
        bound(&store, most).await;
        for batch in 0..batches {
            let paths: Vec<String> =
                (0..size).map(|n| format!("/{}", noise(60, batch * size + n))).collect();
            let of = |path| Row { path, ..ROW };
            let rows: Vec<Row<'_>> = paths.iter().map(|path| of(path)).collect();
            record(&store, &rows).await;
            let taken = on_disk(&path);
            assert!(taken <= most, "{batch}: {taken} of {most}");
        }
        let left = store.size().await.unwrap().decisions;
        let dropped = bound(&store, most).await;
        // Each drop is a record, too.
        assert!(dropped.decisions + left >= batches * size);
        assert!(dropped.decisions > 0, "{left}");
        assert_eq!(dropped.early, dropped.decisions, "none was old");
        assert!(left * 110 > most / 4, "{left}: no more than need be");
        assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
    }
}

#[tokio::test]
async fn a_log_held_by_a_reader_is_reported_and_our_pages_do_not_hold_it() {
    const MAX: u64 = 2 * MIB;
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    assert_eq!(bound(&store, MAX).await.long_log, 0);
    record(&store, &rows(10)).await;
    // A reader that has a page and asks for no other: `log --follow`, or an abandoned export.
    let follower = Store::open(&path, Access::Read, Synchronous::Normal).unwrap();
    let query = DecisionQuery { limit: 3, ..DecisionQuery::default() };
    assert_eq!(follower.decisions(query).await.unwrap().len(), 3);
    assert_eq!(follower.records(0, 3).await.unwrap().len(), 3);
    let fill = async || {
        for _ in 0..20 {
            record(&store, &rows(100)).await;
        }
    };
    fill().await;
    assert_eq!(bound(&store, MAX).await.long_log, 0);
    assert!(on_disk(&path) <= MAX);
    // A reader that stays within one transaction.
    let shell = shell(&path);
    shell.execute_batch("BEGIN; SELECT count(*) FROM tail").unwrap();
    fill().await;
    let octets = bound(&store, MAX).await.long_log;
    assert!(octets > 256 * 1024, "{octets}");
    shell.execute_batch("COMMIT").unwrap();
    assert_eq!(bound(&store, MAX).await.long_log, 0);
    assert!(on_disk(&path) <= MAX);
}
