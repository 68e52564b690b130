//! One flipped bit in a row behind a decision is found, never believed, and mended.

use super::*;
use crate::state_file::state_file;
use crate::tests::has;
use crate::tests::{absent, unreachable};
use crawlgate_policy::overrides::{Action, OverrideId};

/// Flipped bits, beside those of the first row of each table.
const FLIPS: usize = 800;

/// Fills a store with states, fetches and overrides of each kind, without room between its rows: a flipped bit there
/// has no effect.
async fn packed(path: &Path) {
    let store = open(path).unwrap();
    let later = NOON + Duration::from_secs(60);
    for (host, first, second) in [
        ("a.example", successful("User-agent: *\nDisallow: /\n", NOON), None),
        ("b.example", absent(NOON), Some(unreachable(later))),
        ("c.example", unreachable(NOON), Some(unreachable(later))),
    ] {
        update_origin(&store, origin_update(host, first, NOON)).await;
        if let Some(second) = second {
            update_origin(&store, origin_update(host, second, later)).await;
        }
    }
    for (pattern, action) in [("/a", Action::Deny), ("/b", Action::Allow), ("/c", Action::Deny)] {
        let (origin, _) = Origin::parse("https://a.example").unwrap();
        let one = Override {
            id: OverrideId::Stored(0),
            origin,
            pattern: pattern.to_owned(),
            action,
            until: Some(later),
            by: "Ada".to_owned(),
            reason: "she asked".to_owned(),
            created: NOON,
            instance: None,
        };
        store.add_override(one).await.unwrap();
    }
    assert!(store.remove_override(OverrideId::Stored(3), "Ada".to_owned(), NOON).await.unwrap());
    drop(store);
    let shell = shell(path);
    shell.execute_batch("VACUUM").unwrap();
    shell.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

/// Returns the places of all bits of the rows of a table, which fits on one page.
fn bits(path: &Path, file: &[u8], table: &str) -> Vec<(usize, u8)> {
    let page = usize::from(u16::from_be_bytes([file[16], file[17]]));
    let root: usize = shell(path)
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?1",
            [table],
            |row| row.get::<_, i64>(0),
        )
        .unwrap()
        .try_into()
        .unwrap();
    let start = (root - 1) * page;
    assert!(matches!(file[start], 0x0a | 0x0d), "{table}: not a leaf");
    let content = usize::from(u16::from_be_bytes([file[start + 5], file[start + 6]]));
    let ignored = number_types(file, start);
    let octets = start + content..start + page;
    octets
        .filter(|at| !ignored.contains(at))
        .flat_map(|at| (0..8).map(move |bit| (at, bit)))
        .collect()
}

/// Returns the octets with the type of each row's number in the leaf of a table. The engine takes the number from elsewhere
/// and does not read them.
fn number_types(file: &[u8], start: usize) -> Vec<usize> {
    /// The kind of a leaf with numbers in its rows.
    const NUMBERED: u8 = 0x0d;
    if file[start] != NUMBERED {
        return Vec::new();
    }
    let number = |at: usize| usize::from(u16::from_be_bytes([file[at], file[at + 1]]));
    let after = |mut at: usize| {
        while file[at] & 0x80 != 0 {
            at += 1;
        }
        at + 1
    };
    let rows = 0..number(start + 3);
    // Length, number, length of the types.
    rows.map(|row| after(after(after(start + number(start + 8 + 2 * row))))).collect()
}

#[tokio::test]
async fn no_flipped_bit_of_a_state_a_fetch_or_an_override_is_silent() {
    let (_folder, path) = place();
    packed(&path).await;
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
    let whole = open(&path).unwrap();
    let known = async |store: &Store| {
        let mut known = Vec::new();
        for host in ["a.example", "b.example", "c.example"] {
            let (origin, _) = Origin::parse(&format!("https://{host}")).unwrap();
            known.push(store.origin(&origin).await);
        }
        known
    };
    let (before, overrides) = (known(&whole).await, whole.overrides().await.unwrap());
    drop(whole);
    let file = fs::read(&path).unwrap();
    let all: Vec<_> = ["origin", "fetch", "override"]
        .iter()
        .flat_map(|table| bits(&path, &file, table))
        .collect();
    assert!(all.len() > 8_000, "{}", all.len());
    let other = path.with_file_name("flipped.db");
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut silent = Vec::new();
    for flip in 0..FLIPS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let (at, bit) = all[usize::try_from(state % all.len() as u64).unwrap()];
        let mut flipped = file.clone();
        flipped[at] ^= 1 << bit;
        fs::write(&other, &flipped).unwrap();
        fs::copy(state_file(&path), state_file(&other)).unwrap();
        if repair::check(&other).is_ok_and(|faults| faults.is_empty()) {
            silent.push((at, bit));
            continue;
        }
        // Every row read is as it was written, or unreadable.
        if let Ok(store) = Store::open(&other, Access::Read, Synchronous::Normal) {
            for (now, then) in known(&store).await.into_iter().zip(&before) {
                assert!(
                    now.is_err() || now == Ok(Vec::new()) || now == *then,
                    "{at}, {bit}: {now:?}"
                );
            }
            if let Ok(now) = store.overrides().await {
                assert_eq!(now, overrides, "{at}, {bit}");
            }
        }
        if flip % 40 == 0 {
            repair::rebuild(&other, NOON + Duration::from_millis(flip as u64)).unwrap();
            assert_eq!(repair::check(&other).unwrap(), repair::Faults::default(), "{at}, {bit}");
        }
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(beside(&other, suffix));
        }
    }
    assert_eq!(silent, [], "of {FLIPS}");
}

#[tokio::test]
async fn what_is_damaged_is_dropped_as_the_message_says() {
    let (_folder, path) = place();
    packed(&path).await;
    shell(&path)
        .execute_batch(
            "UPDATE origin SET fresh_until = fresh_until + 1000 WHERE origin = 'https://a.example';
             UPDATE fetch SET result = 'unavailable' WHERE origin = 'https://b.example';
             UPDATE override SET action = 'allow' WHERE number = 1;
             UPDATE override SET removed = NULL WHERE number = 3",
        )
        .unwrap();
    let faults = repair::check(&path).unwrap().damaged.join("\n");
    for way_out in [
        "crawlgate origins forget https://a.example",
        "crawlgate origins forget https://b.example",
        "crawlgate override remove 1 ",
        "crawlgate override remove 3 ",
    ] {
        assert!(faults.contains(way_out), "{way_out}: {faults}");
    }
    let store = open(&path).unwrap();
    let error = store.overrides().await.unwrap_err();
    has(&error.message, "crawlgate override remove 1 ");
    for host in ["a.example", "b.example"] {
        let (origin, _) = Origin::parse(&format!("https://{host}")).unwrap();
        assert!(store.forget(&origin, None).await.unwrap(), "{host}");
    }
    for number in [1, 3] {
        let by = "Ada".to_owned();
        assert!(store.remove_override(OverrideId::Stored(number), by, NOON).await.unwrap());
    }
    assert_eq!(store.overrides().await.unwrap().len(), 1);
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
}

#[tokio::test]
async fn another_kind_of_file_in_a_files_place_is_named() {
    let (_folder, path) = place();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let pipe = |path: &Path| {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap();
    };
    let key = log_key_file(&path);
    type Put<'a> = &'a dyn Fn(&Path);
    let cases: [(&str, Put<'_>); 2] =
        [("a directory", &|path| fs::create_dir(path).unwrap()), ("a named pipe", &pipe)];
    for (name, put) in cases {
        put(&path);
        for error in [
            repair::check(&path).map(drop).unwrap_err(),
            repair::rebuild(&path, NOON).map(drop).unwrap_err(),
            open(&path).map(drop).unwrap_err(),
        ] {
            assert!(error.message.contains(name), "{error}");
        }
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        put(&key);
        let error = LogKey::load_or_create(&key, None).unwrap_err();
        assert!(error.message.contains(name), "{error}");
        let _ = fs::remove_file(&key).or_else(|_| fs::remove_dir(&key));
    }
}
