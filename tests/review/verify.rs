//! `crawlgate audit`: finds changes to a store; the documentation lists those that it cannot find.

use std::time::Duration;

use crate::case::{Case, NOON};
use crate::shelf::{Said, Shelf, some_cases};

#[test]
fn a_decision_is_proven_and_its_evidence_shown() {
    let (shelf, ids) = Shelf::with(&some_cases());
    shelf.seal(NOON + Duration::from_secs(60));
    let said = shelf.run(&["audit", "verify", &ids[0]]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    let key = shelf.run(&["audit", "key"]).out;
    for part in [
        &format!("{} proven: the same decision follows", ids[0]),
        "deny, robots_disallow, at 2026-11-20T12:00:00.123Z",
        "GET https://site.example/secret/x?a=b",
        "ExampleBot, from 127.0.0.1:40000",
        "Disallow: /secret (line 6, of the group ExampleBot)",
        "https://site.example/robots.txt: successful, 200",
        "fetched 2026-11-20T11:00:00.123Z, fresh until 2026-11-20T13:00:00.123Z",
        "https://site.example/robots.txt → https://www.site.example/robots.txt",
        "record 1, linked to the seal of record 6",
        key.trim(),
        "·     5  User-agent: ExampleBot\n>     6  Disallow: /secret\n",
    ] {
        assert!(said.out.contains(part), "{part}\n{}", said.out);
    }
    assert!(!said.out.contains("# of the site"), "{}", said.out);
    assert!(
        shelf
            .run(&["audit", "verify", &ids[0], "--full"])
            .out
            .contains("1  # of the site")
    );
    assert!(
        !said.out.contains('\u{1b}'),
        "no colours where no terminal is"
    );

    let json = shelf
        .run(&["audit", "verify", &ids[0].to_lowercase(), "--json"])
        .json();
    assert_eq!(
        (&json["outcome"], &json["ok"], &json["seq"], &json["sealed"]),
        (&"proven".into(), &true.into(), &1.into(), &6.into())
    );
    assert_eq!(json["record"]["id"], ids[0].as_str());
    assert!(
        json["robots_txt"]
            .as_str()
            .unwrap()
            .starts_with("# of the site\n")
    );
}

#[test]
fn each_kind_of_decision_says_how_far_it_is_proven() {
    let (shelf, ids) = Shelf::with(&some_cases());
    let heads: Vec<_> = ids
        .iter()
        .map(|id| shelf.run(&["audit", "verify", id]))
        .collect();
    let first_lines: Vec<&str> = heads
        .iter()
        .map(|said| said.out.lines().next().unwrap().split_once(' ').unwrap().1)
        .collect();
    let proven = "proven: the same decision follows from what was kept";
    assert_eq!(first_lines[..5], [proven; 5]);
    assert!(
        first_lines[5].starts_with("attested, not proven: the URL's query was left out"),
        "{}",
        first_lines[5]
    );
    assert!(heads.iter().all(|said| said.code == 0), "{heads:?}");
    assert!(
        heads[0]
            .out
            .contains("record 1, linked to the last one; not sealed yet")
    );
}

#[test]
fn every_record_is_counted() {
    let (shelf, _) = Shelf::with(&some_cases());
    shelf.seal(NOON);
    shelf.put(&some_cases()[..2]);
    let said = shelf.run(&["audit", "verify", "--all"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    let head = shelf.run(&["audit", "head"]).out;
    for part in [
        "chain     8 records, 1 to 8, whole\n",
        &format!("head      {head}"),
        "sealed    up to record 6, last at 2026-11-20T12:00:05.123Z; 2 records after it are linked only\n",
        "decisions 7 proven, 1 attested only (1 redacted), 0 wrong\n",
    ] {
        assert!(said.out.contains(part), "{part}\n{}", said.out);
    }
    let json = shelf
        .run(&[
            "audit",
            "verify",
            "--all",
            "--json",
            "--since",
            "2026-11-20T12:00:03Z",
        ])
        .json();
    assert_eq!(
        (&json["records"], &json["proven"], &json["not_replayed"]),
        (&8.into(), &2.into(), &5.into())
    );
}

#[test]
fn an_empty_store_is_whole() {
    let shelf = Shelf::new();
    shelf.ask(async |_| ());
    let said = shelf.run(&["audit", "verify", "--all"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.out.contains("chain     no records, whole\n"),
        "{said:?}"
    );
}

/// Returns a store that was sealed after six records, with two more behind the seal.
fn sealed() -> Shelf {
    let (shelf, _) = Shelf::with(&some_cases());
    shelf.seal(NOON);
    shelf.put(&some_cases()[..2]);
    shelf
}

/// Computes all links again, as an attacker without the key would.
fn forge(shelf: &Shelf) {
    use crawlgate::store::chain::{GENESIS, link};
    let connection = shelf.connection();
    let mut statement = connection
        .prepare("SELECT seq, record FROM decision ORDER BY seq")
        .unwrap();
    let rows = statement.query_map([], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    });
    let rows: Vec<_> = rows.unwrap().map(Result::unwrap).collect();
    let mut hash = GENESIS;
    for (place, (seq, record)) in rows.into_iter().enumerate() {
        hash = link(&hash, record.as_bytes());
        let change = "UPDATE decision SET seq = ?1, hash = ?2 WHERE seq = ?3";
        connection
            .execute(change, (place as i64 + 1, hash, seq))
            .unwrap();
    }
}

#[test]
fn what_was_done_to_the_file_is_found() {
    type Attack = fn(&Shelf);
    #[rustfmt::skip] // one row, one case
    let attacks: &[(&str, Attack, &[&str])] = &[
        ("a record altered", |s| s.tamper("UPDATE decision SET record = replace(record, '/secret', '/sesame') WHERE seq = 1"),
            &["record 1 does not follow from the one before", "another decision follows from what was kept: reason"]),
        ("a record altered, and all links made anew", |s| { s.tamper("UPDATE decision SET record = replace(record, '127.0.0.1', '127.0.0.9') WHERE seq = 2"); forge(s); },
            &["at record 6 the chain is not what the seal of 2026-11-20T12:00:05.123Z says"]),
        ("a link altered", |s| s.tamper("UPDATE decision SET hash = zeroblob(32) WHERE seq = 3"),
            &["record 3 does not follow", "record 4 does not follow"]),
        ("a record taken out", |s| s.tamper("DELETE FROM decision WHERE seq = 3"), &["record 3 is missing"]),
        ("a record taken out, and all made anew", |s| { s.tamper("DELETE FROM decision WHERE seq = 3"); forge(s); },
            &["at record 6 the chain is not what the seal"]),
        ("the first record taken out", |s| s.tamper("DELETE FROM decision WHERE seq = 1"), &["records before 2 are missing, and no seal says"]),
        ("the end cut off, back to before the seal", |s| s.tamper("DELETE FROM decision WHERE seq > 4"),
            &["records 5 to 6 are missing: the seal of 2026-11-20T12:00:05.123Z speaks of record 6"]),
        ("two records swapped", |s| s.tamper("UPDATE decision SET seq = 99 WHERE seq = 2; UPDATE decision SET seq = 2 WHERE seq = 3; UPDATE decision SET seq = 3 WHERE seq = 99"),
            &["record 2 does not follow", "record 3 does not follow", "record 4 does not follow"]),
        ("a seal altered", |s| s.tamper("UPDATE seal SET time = time + 1"), &["the signature of the seal of record 6 is not valid"]),
        ("a robots.txt altered", other_file, &["the robots.txt that it rests on was altered"]),
        ("a robots.txt taken out", |s| s.tamper("PRAGMA foreign_keys = OFF; DELETE FROM snapshot"), &["the robots.txt that it rests on is not in the store"]),
        ("settings altered", |s| s.tamper("UPDATE policy SET text = replace(text, '\"path_guard\":true', '\"path_guard\":false')"), &["the settings that it rests on were altered"]),
        ("settings taken out", |s| s.tamper("DELETE FROM policy"), &["the settings that it rests on are not in the store"]),
        ("a record hidden from queries for its time", |s| s.tamper("UPDATE decision SET time = 0 WHERE seq = 2"), &["record 2", "the store finds it by another time than its own"]),
    ];
    for (name, attack, found) in attacks {
        let shelf = sealed();
        assert_eq!(
            shelf.run(&["audit", "verify", "--all"]).code,
            0,
            "{name}: before"
        );
        attack(&shelf);
        let said = shelf.run(&["audit", "verify", "--all"]);
        assert_eq!((said.code, said.err.as_str()), (1, ""), "{name}: {said:?}");
        for part in *found {
            assert!(said.out.contains(part), "{name}: {part}\n{}", said.out);
        }
        let json = shelf.run(&["audit", "verify", "--all", "--json"]);
        assert_eq!(
            (json.code, &json.json()["ok"]),
            (1, &false.into()),
            "{name}"
        );
    }
}

/// Replaces the text of each file with that of another.
fn other_file(shelf: &Shelf) {
    let text = b"User-agent: *\nDisallow: /\n# but not really\n";
    let body = zstd::bulk::compress(text, 3).unwrap();
    let change = "UPDATE snapshot SET body = ?1, bytes = ?2";
    shelf
        .connection()
        .execute(change, (body, text.len() as i64))
        .unwrap();
}

#[test]
fn verifying_one_decision_reports_its_own_faults() {
    let attack = |statement| {
        let (shelf, ids) = Shelf::with(&some_cases());
        shelf.seal(NOON);
        shelf.tamper(statement);
        ids.iter()
            .map(|id| shelf.run(&["audit", "verify", id]).code)
            .collect::<Vec<_>>()
    };
    // A record is proven by its own link, the one before it and the seal after it.
    let altered =
        "UPDATE decision SET record = replace(record, '127.0.0.1', '127.0.0.9') WHERE seq = 3";
    assert_eq!(attack(altered), [1, 1, 1, 0, 0, 0]);
    let gone = "DELETE FROM decision WHERE seq = 3";
    assert_eq!(attack(gone), [1, 1, 1, 1, 0, 0]);
    let tail = "DELETE FROM decision WHERE seq = 6";
    assert_eq!(attack(tail), [1; 6]);
}

#[test]
fn a_missing_decision_is_reported() {
    let (shelf, _) = Shelf::with(&some_cases());
    for id in ["01KB7W3Y5E000000000VY7H1Q2", "x"] {
        let said = shelf.run(&["audit", "verify", id]);
        assert_eq!(said.code, 1);
        assert!(
            said.out
                .starts_with(&format!("{id}: no such decision in the store")),
            "{said:?}"
        );
    }
}

/// Checks that the attacks that the chain does not detect are those in the documentation.
#[test]
fn undetected_attacks_are_documented() {
    type Attack = fn(&Shelf);
    #[rustfmt::skip] // one row, one case
    let attacks: &[(&str, Attack)] = &[
        ("the end cut off, after the last seal", |s| s.tamper("DELETE FROM decision WHERE seq > 6")),
        ("the end cut off, with its seal", |s| s.tamper("DELETE FROM decision WHERE seq > 4; DELETE FROM seal")),
    ];
    for (name, attack) in attacks {
        let shelf = sealed();
        let head = shelf.run(&["audit", "head"]).out;
        attack(&shelf);
        assert_eq!(shelf.run(&["audit", "verify", "--all"]).code, 0, "{name}");
        // Unless the operator has kept the head elsewhere.
        let said = shelf.run(&["audit", "verify", "--all", "--head", head.trim()]);
        assert_eq!(said.code, 1, "{name}");
        assert!(
            said.out
                .contains("are missing: the head that was kept speaks of record 8"),
            "{name}: {said:?}"
        );
    }
    let shelf = sealed();
    let ids = shelf.run(&["log", "--all", "--format", "jsonl"]).out;
    let first: serde_json::Value = serde_json::from_str(ids.lines().next().unwrap()).unwrap();
    shelf.run(&[
        "log",
        "ack",
        first["id"].as_str().unwrap(),
        "--note",
        "seen",
    ]);
    shelf.tamper("UPDATE acknowledgement SET note = 'not seen'");
    assert_eq!(
        shelf.run(&["audit", "verify", "--all"]).code,
        0,
        "a note is no evidence"
    );
}

#[test]
fn seals_are_believed_of_one_key() {
    let shelf = sealed();
    let key = shelf.run(&["audit", "key"]).out;
    assert_eq!(
        shelf
            .run(&["audit", "verify", "--all", "--key", key.trim()])
            .code,
        0
    );
    let file = shelf.directory().join("auditor.pub");
    std::fs::write(&file, &key).unwrap();
    assert_eq!(
        shelf
            .run(&["audit", "verify", "--all", "--key", file.to_str().unwrap()])
            .code,
        0
    );
    let other = "0".repeat(64);
    let said = shelf.run(&["audit", "verify", "--all", "--key", &other]);
    assert_eq!(said.code, 1);
    assert!(
        said.out.contains(&format!(
            "the seal of record 6 is of another key, {}",
            key.trim()
        )),
        "{said:?}"
    );
    let said = shelf.run(&["audit", "verify", "--all", "--key", "nowhere.pub"]);
    assert_eq!(
        (said.code, said.err.contains("--key nowhere.pub: ")),
        (2, true),
        "{said:?}"
    );

    // Without the key file, each seal is checked with the key that it names. A forger could name another: a fault.
    std::fs::remove_file(shelf.directory().join("crawlgate.seal.key")).unwrap();
    let said = shelf.run(&["audit", "verify", "--all"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.out
            .contains("believed of whatever key each seal names"),
        "{said:?}"
    );
}

#[test]
fn retention_is_no_fault() {
    use crawlgate::store::Retention;
    let shelf = sealed();
    let key = shelf.key();
    let retention = Retention {
        keep: Some(Duration::from_secs(1)),
        max_size: None,
    };
    let pruned = shelf.ask(async |store| {
        store
            .prune(retention, key, NOON + Duration::from_secs(4))
            .await
    });
    assert_eq!(pruned.unwrap().decisions, 3);
    let said = shelf.run(&["audit", "verify", "--all"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.out.contains("chain     5 records, 4 to 8, whole\n"),
        "{said:?}"
    );
    shelf.tamper("DELETE FROM decision WHERE seq = 4");
    let said = shelf.run(&["audit", "verify", "--all"]);
    assert!(
        said.out
            .contains("records before 5 are missing, and no seal says"),
        "{said:?}"
    );
}

#[test]
fn lines_about_the_log_itself_are_chained_and_no_decisions() {
    use crawlgate::store::Batch;
    let (shelf, _) = Shelf::with(&some_cases());
    let line = "{\"time\":\"2026-11-20T12:00:09.000Z\",\"event\":\"records_lost\",\"count\":3}\n";
    let batch = Batch {
        lines: line.into(),
        ..Batch::default()
    };
    shelf.ask(async |store| store.write(batch).await).unwrap();
    let said = shelf.run(&["audit", "verify", "--all"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("events    1 records_lost\n"), "{said:?}");
    assert!(shelf.run(&["audit", "head"]).out.starts_with("7:"));
}

#[test]
fn a_missing_store_is_reported() {
    let shelf = Shelf::new();
    for arguments in [
        &["audit", "verify", "--all"][..],
        &["audit", "head"],
        &["log"],
        &["log", "ack", "01KB7W3Y5E000000000VY7H1Q2", "--note", "x"],
    ] {
        let Said { code, out, err } = shelf.run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains("crawlgate.db"), "{arguments:?}: {err}");
        assert!(!shelf.file().exists(), "{arguments:?}");
    }
    std::fs::write(
        shelf.directory().join("config.toml"),
        "[store]\npath = \"\"\n",
    )
    .unwrap();
    let said = shelf.run(&["log"]);
    assert!(
        said.code == 2 && said.err.contains("[store] path is \"\""),
        "{said:?}"
    );
}

#[test]
fn many_records_are_walked_page_by_page() {
    let cases = some_cases();
    let many: Vec<Case> = (0..2_500)
        .map(|at| cases[at % cases.len()].clone())
        .collect();
    let (shelf, _) = Shelf::with(&many);
    shelf.seal(NOON);
    let json = shelf.run(&["audit", "verify", "--all", "--json"]).json();
    assert_eq!(
        (&json["records"], &json["sealed"], &json["wrong"]),
        (&2_500.into(), &2_500.into(), &0.into())
    );
}

/// Not a test but a measurement: `cargo test --release --test review -- --ignored --nocapture`.
#[test]
#[ignore = "it takes a minute"]
fn how_long_a_million_takes() {
    const MILLION: usize = 1_000_000;
    let shelf = Shelf::new();
    let cases = some_cases();
    let decided: Vec<_> = cases[..5].iter().map(Case::decide).collect();
    let of = |at: usize| (&cases[at % 5], &decided[at % 5]);
    shelf.put(&cases);
    for page in 0..MILLION / 5_000 {
        let mut batch = crawlgate::store::Batch::default();
        for at in 0..5_000 {
            let (case, decision) = of(page + at);
            batch
                .lines
                .extend_from_slice(case.record(decision).as_bytes());
            batch.lines.push(b'\n');
        }
        shelf.ask(async |store| store.write(batch).await).unwrap();
    }
    shelf.seal(NOON);
    for arguments in [
        &["audit", "verify", "--all"][..],
        &["log", "--summary", "rule"],
        &["log", "--path", "/nowhere"],
        &["log", "--limit", "1"],
    ] {
        let began = tokio::time::Instant::now();
        let said = shelf.run(arguments);
        println!("{arguments:?}: {:?}\n{}", began.elapsed(), said.out);
        assert_eq!(said.code, 0, "{said:?}");
    }
}
