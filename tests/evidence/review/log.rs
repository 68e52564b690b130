//! `crawlgate log`: finds, counts and acknowledges decisions.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::case::{Case, NOON};
use super::test_store::{TestStore, some_cases};

/// Returns the ids in a list, in its order.
fn listed(db: &TestStore, arguments: &[&str]) -> Vec<String> {
    let said = db.run(&[&["log", "--format", "jsonl"], arguments].concat());
    let told = match said.out.is_empty() {
        true => "crawlgate: no decision that is kept meets all of these conditions\n",
        false => "",
    };
    assert_eq!((said.code, said.err.as_str()), (0, told), "{arguments:?}");
    let id = |line: &str| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        record["id"].as_str().unwrap().to_owned()
    };
    said.out.lines().map(id).collect()
}

#[test]
fn conditions_find_the_matching_decisions() {
    let (db, ids) = TestStore::with(&some_cases());
    db.run(&["log", "ack", &ids[3], "--note", "seen"]);
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &[&str], &[usize])] = &[
        ("nothing: all, oldest first", &[], &[0, 1, 2, 3, 4, 5]),
        ("the latest two", &["--limit", "2"], &[4, 5]),
        ("all", &["--all"], &[0, 1, 2, 3, 4, 5]),
        ("from a time on", &["--since", "2026-11-20T12:00:03Z"], &[3, 4, 5]),
        ("up to a time", &["--until", "2026-11-20T12:00:02Z"], &[0, 1]),
        ("a day, whole", &["--since", "2026-11-20", "--until", "2026-11-20"], &[0, 1, 2, 3, 4, 5]),
        ("another day", &["--until", "2026-11-19"], &[]),
        ("a verdict", &["--verdict", "deny"], &[0, 2, 3, 4]),
        ("a reason", &["--reason", "path_guard"], &[4]),
        ("an origin", &["--origin", "http://other.example:8080"], &[2]),
        ("a host", &["--origin", "Other.Example"], &[2]),
        ("an origin that was not asked", &["--origin", "http://other.example"], &[]),
        ("a path", &["--path", "/secret"], &[0]),
        ("a pattern", &["--path", "/*?a=b$"], &[0]),
        ("a crawler, whatever the case", &["--agent", "otherbot"], &[2, 3]),
        ("a client", &["--client", "127.0.0.1"], &[0, 1, 2, 3, 4, 5]),
        ("another client", &["--client", "127.0.0.2"], &[]),
        ("a mode", &["--mode", "report"], &[]),
        ("acknowledged", &["--acknowledged"], &[3]),
        ("unacknowledged denials", &["--unacknowledged", "--verdict", "deny"], &[0, 2, 4]),
        ("two conditions", &["--verdict", "deny", "--agent", "ExampleBot"], &[0, 4]),
    ];
    for (name, arguments, want) in cases {
        let want: Vec<String> = want.iter().map(|at| ids[*at].clone()).collect();
        assert_eq!(listed(&db, arguments), want, "{name}");
    }
}

#[test]
fn records_are_given_as_their_entries_say() {
    use std::collections::HashMap;

    use crawlgate_record::{Entry, write_line};
    let (db, ids) = TestStore::with(&some_cases());
    // The lines are made here from nothing but the stored octets.
    let connection = db.connection();
    let frames: Vec<u8> =
        connection.query_row("SELECT entries FROM tail", [], |row| row.get(0)).unwrap();
    let mut objects = connection.prepare("SELECT sha256, body FROM object").unwrap();
    let objects =
        objects.query_map([], |row| Ok((row.get::<_, [u8; 32]>(0)?, row.get(1)?))).unwrap();
    let objects: HashMap<[u8; 32], Vec<u8>> = objects.map(Result::unwrap).collect();
    let mut lines = Vec::new();
    let mut rest = &*frames;
    while let Some((length, more)) = rest.split_first_chunk::<2>() {
        let (entry, next) = more.split_at(u16::from_be_bytes(*length).into());
        write_line(&Entry::read(entry).unwrap(), &objects, &mut lines).unwrap();
        rest = next;
    }
    let kept = String::from_utf8(lines).unwrap();
    assert_eq!(db.run(&["log", "--format", "jsonl"]).out, kept);
    let third = kept.lines().nth(2).unwrap();
    let shown = db.run(&["log", "show", &ids[2], "--json"]).out;
    assert_eq!(shown, format!("{third}\n"));
}

#[test]
fn a_table_is_for_people() {
    let (db, ids) = TestStore::with(&some_cases());
    let said = db.run(&["log", "--limit", "1", "--verdict", "deny"]);
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[0].starts_with("TIME                 ID"), "{said:?}");
    let want = format!(
        "2026-11-20 12:00:04  {}  path_guard          403                     ExampleBot          https://site.example/x/../secret  Disallow: /secret (line 6)",
        ids[4]
    );
    assert_eq!(lines[1..], [want]);
}

#[test]
fn text_of_crawlers_does_no_harm() {
    let mut case = some_cases().swap_remove(0);
    case.agent = "ExampleBot".to_owned();
    case.path = "/secret/\u{202e}x".to_owned();
    let (db, ids) = TestStore::with(&[case]);
    let by = "=HYPERLINK(\"http://evil.example\")";
    let said = db.run(&["log", "ack", &ids[0], "--by", by, "--note", "a \"note\",\nof two lines"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert_eq!(said.out.lines().count(), 1, "{}", said.out);
    let table = db.run(&["log"]).out;
    assert!(table.contains("/secret/\\u{202e}x") && table.lines().count() == 2, "{table}");
    let sheet = db.run(&["log", "--format", "csv"]).out;
    let mut reader = csv::Reader::from_reader(sheet.as_bytes());
    let names = reader.headers().unwrap().clone();
    let row = reader.records().next().unwrap().unwrap();
    let cell = |name: &str| row.get(names.iter().position(|found| found == name).unwrap()).unwrap();
    assert_eq!((cell("id"), cell("line"), cell("seq")), (ids[0].as_str(), "6", "1"));
    assert_eq!(cell("acknowledged_by"), format!("'{by}"), "a formula is made text");
    assert_eq!(cell("note"), "a \"note\",\\nof two lines");
}

#[test]
fn an_acknowledgement_names_a_person() {
    let (db, ids) = TestStore::with(&some_cases());
    let said = db.run(&["log", "ack", &ids[0], &ids[1].to_lowercase(), "--note", "known"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    for id in &ids[..2] {
        let shown = db.run(&["log", "show", id]).out;
        assert!(
            shown.starts_with(&format!("{id}\n")) && shown.contains("seen by   ada at "),
            "{shown}"
        );
        says!(shown, ": known\n");
    }
    let missing = "01KB7W3Y5E000000000VY7H1Q2";
    let said = db.run(&["log", "ack", missing, &ids[2], "--note", "known"]);
    assert_eq!(said.code, 2);
    assert!(said.err.starts_with(&format!("crawlgate: {missing}: no such decision")), "{said:?}");
    assert_eq!(listed(&db, &["--acknowledged"]), ids[..3], "the others are done");
    let without_name =
        db.command(&["log", "ack", &ids[0], "--note", "x"]).env_remove("USER").output().unwrap();
    assert!(String::from_utf8_lossy(&without_name.stderr).contains("--by NAME"));
}

#[test]
fn all_decisions_of_a_condition_are_acknowledged_at_once() {
    let (db, ids) = TestStore::with(&some_cases());
    let ack = |arguments: &[&str]| {
        let fixed = ["log", "ack", "--note", "known"];
        db.run(&[&fixed[..], arguments].concat())
    };
    let acknowledged = || listed(&db, &["--acknowledged"]);
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("neither", &[][..], "neither an id nor a condition"),
        ("both", &[&*ids[0], "--verdict", "deny"][..], "exclude each other"),
        ("a condition that makes no sense", &["--reason", "none"][..], "--reason none"),
        ("those that are acknowledged", &["--acknowledged"][..], "--replace puts"),
        (
            "no terminal to ask at",
            &["--verdict", "deny"][..],
            "4 decisions meet the conditions without an acknowledgement; nothing is acknowledged yet: --yes",
        ),
    ];
    for (name, arguments, says) in rows {
        let said = ack(arguments);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{name}");
        assert!(said.err.contains(says), "{name}: {said:?}");
        assert_eq!(acknowledged(), Vec::<String>::new(), "{name}");
    }
    assert_eq!(ack(&[&ids[0], "--by", "Grace"]).code, 0);

    let said = ack(&["--verdict", "deny", "--origin", "site.example", "--yes"]);
    assert_eq!(
        (said.code, said.out.as_str(), said.err.as_str()),
        (0, "2 decisions acknowledged by ada: known\n", "")
    );
    let denied = [&ids[0], &ids[3], &ids[4]].map(Clone::clone);
    assert_eq!(acknowledged(), denied);
    let kept = db.run(&["log", "show", &ids[0]]).out;
    says!(kept, "seen by   Grace at ");
    let again = ack(&["--verdict", "deny", "--origin", "site.example", "--yes"]);
    assert_eq!(
        (again.code, again.out.as_str()),
        (0, "0 decisions meet the conditions without an acknowledgement\n")
    );

    // Those of ada say the same already.
    let origin = ["--verdict", "deny", "--origin", "site.example"];
    let replaced = ack(&[&origin[..], &["--replace", "--yes"]].concat());
    assert_eq!(replaced.out, "1 decision acknowledged by ada: known\n", "{replaced:?}");
    let kept = db.run(&["log", "show", &ids[0]]).out;
    says!(kept, "seen by   ada at ");
    let events = db.run(&["log", "--events", "--format", "jsonl"]).out;
    let count = events.matches("\"event\":\"acknowledged\"").count();
    assert_eq!(count, 4, "each is a record of the log: {events}");
}

#[test]
fn decisions_are_counted() {
    let (db, _) = TestStore::with(&some_cases());
    let table =
        |key: &[&str]| db.run(&[&["log", "--verdict", "deny", "--summary"], key].concat()).out;
    let by_reason = table(&[]);
    let lines: Vec<&str> = by_reason.lines().collect();
    assert_eq!(
        lines,
        [
            "       COUNT  FIRST                LAST                 REASON",
            "           3  2026-11-20 12:00:00  2026-11-20 12:00:03  robots_disallow",
            "           1  2026-11-20 12:00:04  2026-11-20 12:00:04  path_guard",
        ]
    );
    assert!(table(&["origin"]).contains(
        "           3  2026-11-20 12:00:00  2026-11-20 12:00:04  https://site.example\n"
    ));
    assert!(table(&["rule"]).contains("https://site.example  Disallow: /secret\n"));
    let first = db
        .run(&[
            "log",
            "--summary",
            "rule",
            "--verdict",
            "deny",
            "--limit",
            "1",
            "--format",
            "jsonl",
        ])
        .json();
    let want = serde_json::json!({"origin": "https://site.example", "rule": "Disallow: /secret", "count": 2,
        "first": "2026-11-20T12:00:00.123Z", "last": "2026-11-20T12:00:04.123Z"});
    assert_eq!(first, want);
    let sheet = db.run(&["log", "--summary", "origin", "--format", "csv"]).out;
    assert!(sheet.starts_with("count,first,last,origin\r\n5,"), "{sheet}");
}

#[test]
fn new_decisions_are_followed() {
    let (db, ids) = TestStore::with(&some_cases());
    let mut child = db
        .command(&["log", "--follow", "--limit", "1", "--verdict", "deny", "--format", "jsonl"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().contains(&ids[4]), "the latest denial first");
    for round in 0..3 {
        let new = db.put(&some_cases()[..2]);
        says!(next(), &new[0]; "then each new one, and no allowance: round {round}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let cases = some_cases();
    let many: Vec<Case> = (0..3_000).map(|at| cases[at % cases.len()].clone()).collect();
    let (db, _) = TestStore::with(&many);
    for arguments in [&["log", "--all"][..], &["log", "--follow", "--limit", "3000"]] {
        let mut child =
            db.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        drop(out);
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), output.stderr.as_slice()),
            (Some(0), &b""[..]),
            "{arguments:?}"
        );
    }
    assert_eq!(listed(&db, &["--all"]).len(), 3_000);
    assert_eq!(listed(&db, &["--limit", "1200"]), listed(&db, &["--all"])[1_800..]);
    assert_eq!(listed(&db, &["--limit", "700", "--path", "/open"]).len(), 700);
}

#[test]
fn mistakes_get_a_clear_message() {
    let (db, _) = TestStore::with(&[Case { now: NOON, ..some_cases().swap_remove(0) }]);
    #[rustfmt::skip] // one row, one case
    let rows = [
        (&["log", "--since", "soon"][..], "crawlgate: --since soon: not a time"),
        (&["log", "--reason", "no"], "crawlgate: --reason no: it is one of robots_allow"),
        (&["log", "show", "x"], "crawlgate: x: not the beginning of an identifier"),
        (&["log", "ack", "x"], "error: the following required arguments were not provided:\n  --note"),
        (&["audit", "verify"], "error: the following required arguments were not provided"),
        (&["audit", "verify", "--all", "--checkpoint", "nowhere"], "crawlgate: --checkpoint nowhere: "),
    ];
    for (arguments, says) in rows {
        let said = db.run(arguments);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{arguments:?}");
        assert!(said.err.starts_with(says), "{arguments:?}: {said:?}");
    }
}
