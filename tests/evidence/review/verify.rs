//! `crawlgate audit`: finds changes to a store; the documentation lists those that it cannot find.

use std::time::Duration;

use super::case::{Case, NOON};
use super::test_store::{ProgramOutput, TestStore, many_cases, some_cases};

#[test]
fn a_decision_is_proven_and_its_evidence_shown() {
    let (db, ids) = TestStore::with(&some_cases());
    db.sign(NOON + Duration::from_secs(60));
    let said = db.run(&["audit", "verify", &ids[0]]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    let key = db.run(&["audit", "key"]).out;
    for part in [
        &format!("{} proven: the same decision follows", ids[0]),
        "deny, robots_disallow, at 2026-11-20T12:00:00.123Z",
        "GET https://site.example/secret/x?a=b",
        "ExampleBot, from 127.0.0.1:40000",
        "Disallow: /secret (line 6, of the group ExampleBot)",
        "https://site.example/robots.txt: successful, 200",
        "fetched 2026-11-20T11:00:00.123Z, fresh until 2026-11-20T13:00:00.123Z",
        "https://site.example/robots.txt → https://www.site.example/robots.txt",
        "record 1, in the log of 6 records signed by ",
        key.trim(),
        "·     5  User-agent: ExampleBot\n>     6  Disallow: /secret\n",
    ] {
        assert!(said.out.contains(part), "{part}\n{}", said.out);
    }
    assert!(!said.out.contains("# of the site"), "{}", said.out);
    assert!(db.run(&["audit", "verify", &ids[0], "--full"]).out.contains("1  # of the site"));
    lacks!(said.out, '\u{1b}'; "no colours where no terminal is");

    let json = db.run(&["audit", "verify", &ids[0].to_lowercase(), "--json"]).json();
    has!(json, {
        "outcome": "proven", "ok": true, "seq": 1, "signed": 6, "record.id": ids[0].as_str(),
    });
    assert!(json["robots_txt"].as_str().unwrap().starts_with("# of the site\n"));
}

#[test]
fn each_kind_of_decision_says_how_far_it_is_proven() {
    let (db, ids) = TestStore::with(&some_cases());
    let heads: Vec<_> = ids.iter().map(|id| db.run(&["audit", "verify", id])).collect();
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
    says!(heads[0].out, "record 1; no checkpoint covers it yet");
}

#[test]
fn every_record_is_counted() {
    let (db, _) = TestStore::with(&some_cases());
    db.sign(NOON);
    db.put(&some_cases()[..2]);
    let said = db.run(&["audit", "verify", "--all"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    for part in [
        "log       8 records, 1 to 8, whole\n",
        " of 8 records\n",
        "signed    up to record 6, last at 2026-11-20T12:00:00.123Z; 2 records after it are not signed yet\n",
        "          1 checkpoints agree, 0 do not; trusted is ",
        "decisions 7 proven, 1 attested only (1 redacted), 0 wrong\n",
    ] {
        assert!(said.out.contains(part), "{part}\n{}", said.out);
    }
    let json =
        db.run(&["audit", "verify", "--all", "--json", "--since", "2026-11-20T12:00:03Z"]).json();
    has!(json, {"records": 8, "proven": 2, "not_replayed": 5});
}

#[test]
fn a_witness_that_knows_more_than_the_store_is_told() {
    let (db, _) = TestStore::with(&some_cases());
    db.sign(NOON);
    let verify = ["audit", "verify", "--all"];
    let want = "NO CHECKPOINT IS SIGNED ANY MORE: the witness w1 knows one of 9 records";
    for (ahead, is_told) in [(None, false), (Some(9), true)] {
        let name = db.key().name().clone();
        db.ask(async |store| store.note_ahead("w1", &name, ahead).await).unwrap();
        let said = db.run(&verify);
        assert_eq!((said.code, said.out.contains(want)), (0, is_told), "{said:?}");
        let json = db.run(&[&verify[..], &["--json"]].concat()).json();
        let told = ahead.map(|size| serde_json::json!({"name": "w1", "size": size}));
        let told: Vec<serde_json::Value> = told.into_iter().collect();
        assert_eq!(json["ahead"], serde_json::json!(told), "{json}");
    }
}

#[test]
fn an_empty_store_is_whole() {
    let db = TestStore::new();
    db.ask(async |_| ());
    let said = db.run(&["audit", "verify", "--all"]);
    assert_eq!(said.code, 0, "{said:?}");
    says!(said.out, "log       no records, whole\n");
}

#[test]
fn a_missing_decision_is_reported() {
    let (db, _) = TestStore::with(&some_cases());
    for (id, told) in [
        ("01KB7W3Y5E000000000VY7H1Q2", "no such decision in the store"),
        ("7ZZ", "no such decision in the store"),
        ("x", "not the beginning of an identifier"),
        ("no-id", "not the beginning of an identifier"),
    ] {
        let said = db.run(&["audit", "verify", id]);
        assert_eq!(said.code, 1);
        assert!(said.out.starts_with(&format!("{id}: {told}")), "{said:?}");
    }
}

/// Retention drops whole blocks. The roots that it leaves prove what stays, and lead from old checkpoints to new ones.
#[test]
fn retention_is_no_fault() {
    const DAY: Duration = Duration::from_secs(86_400);
    let (db, ids) = TestStore::with(&many_cases(300));
    db.sign(NOON);
    let old = db.keep_checkpoint("old");
    // A month later.
    let later = NOON + DAY * 30;
    let of_later = many_cases(20).into_iter().map(|case| Case { asked: later, ..case });
    db.put(&of_later.collect::<Vec<_>>());
    db.sign(later);
    assert_eq!(db.prune(DAY * 7, later), 256);
    let verify = ["audit", "verify", "--all", "--checkpoint"];
    let verify = || db.run(&[&verify[..], &[old.to_str().unwrap()]].concat());
    let said = verify();
    assert_eq!(said.code, 0, "{said:?}");
    // The entry that tells of the dropped ones is the last.
    let kept = "log       65 records, 257 to 321, whole\n";
    says!(said.out, kept, "3 checkpoints agree, 0 do not", "events    1 dropped\n");
    for (id, code) in [(&ids[255], 1), (&ids[256], 0)] {
        assert_eq!(db.run(&["audit", "verify", id]).code, code);
    }
    // More is gone than the entry says.
    db.tamper("DELETE FROM tail WHERE first = (SELECT min(first) FROM tail)");
    let said = verify();
    assert_eq!(said.code, 1, "{said:?}");
    let want = "are missing, and no entry says that retention has dropped them";
    assert!(said.out.contains(want), "{said:?}");
}

#[test]
fn lines_about_the_log_itself_are_proven_and_no_decisions() {
    use crawlgate_evidence::DecisionId;
    use crawlgate_record::{Event, EventKind};
    use crawlgate_store::Batch;
    let (db, _) = TestStore::with(&some_cases());
    let event = Event {
        id: DecisionId::mint(NOON).octets(),
        kind: EventKind::Lost { count: 3, first: 0, last: 0, size: None },
    };
    let mut batch = Batch::default();
    batch.entries.push(|out| event.encode(out));
    db.ask(async |store| store.write(batch).await).unwrap();
    let said = db.run(&["audit", "verify", "--all"]);
    assert_eq!(said.code, 0, "{said:?}");
    says!(said.out, "events    1 records_lost\n", "7 records, 1 to 7, whole\n");
}

#[test]
fn a_missing_store_is_reported() {
    let db = TestStore::new();
    for arguments in [
        &["audit", "verify", "--all"][..],
        &["audit", "checkpoint"],
        &["log"],
        &["log", "ack", "01KB7W3Y5E000000000VY7H1Q2", "--note", "x"],
    ] {
        let ProgramOutput { code, out, err } = db.run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains("crawlgate.db"), "{arguments:?}: {err}");
        assert!(!db.file().exists(), "{arguments:?}");
    }
    std::fs::write(db.directory().join("config.toml"), "[store]\npath = \"\"\n").unwrap();
    let said = db.run(&["log"]);
    says!(said.ends(2).err, "[store] path is \"\"");
}

#[test]
fn many_records_are_walked_page_by_page() {
    let cases = some_cases();
    let many: Vec<Case> = (0..2_500).map(|at| cases[at % cases.len()].clone()).collect();
    let (db, _) = TestStore::with(&many);
    db.sign(NOON);
    let json = db.run(&["audit", "verify", "--all", "--json"]).json();
    has!(json, {"records": 2_500, "signed": 2_500, "wrong": 0});
}

/// Not a test but a measurement: `cargo test --release --test evidence review:: -- --ignored --nocapture`.
#[test]
#[ignore = "it takes a minute"]
fn how_long_a_million_takes() {
    const MILLION: usize = 1_000_000;
    let db = TestStore::new();
    let cases = some_cases();
    let decided: Vec<_> = cases[..5].iter().map(Case::decide).collect();
    let of = |at: usize| (&cases[at % 5], &decided[at % 5]);
    db.put(&cases);
    for page in 0..MILLION / 5_000 {
        let mut batch = crawlgate_store::Batch::default();
        for at in 0..5_000 {
            let (case, decision) = of(page + at);
            case.file(decision, &mut batch);
        }
        db.ask(async |store| store.write(batch).await).unwrap();
    }
    db.sign(NOON);
    for arguments in [
        &["audit", "verify", "--all"][..],
        &["log", "--summary", "rule"],
        &["log", "--path", "/nowhere"],
        &["log", "--limit", "1"],
    ] {
        let began = tokio::time::Instant::now();
        let said = db.run(arguments);
        println!("{arguments:?}: {:?}\n{}", began.elapsed(), said.out);
        assert_eq!(said.code, 0, "{said:?}");
    }
}
