//! The store of a gate, read by programs that know nothing of crawlgate. Page: `docs/sql.md`.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::python::python_with;
use crate::support::{CrawlgateProcess, Origin, RULES};

/// Prints the rows of a statement as JSON.
const SCRIPT: &str = "\
import json, sqlite3, sys
store = sqlite3.connect('file:' + sys.argv[1] + '?mode=ro', uri=True)
store.row_factory = sqlite3.Row
print(json.dumps([dict(row) for row in store.execute(sys.argv[2])]))
";

/// Returns the rows of a statement, by Python and, where it is installed, by the shell of SQLite.
fn read(store: &Path, statement: &str) -> Option<Vec<Value>> {
    let python = python_with("sqlite3", "sqlite3")?;
    let rows = |command: &mut Command| {
        let output = command.arg(store).arg(statement).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        match output.stdout.trim_ascii() {
            b"" => Vec::new(),
            json => serde_json::from_slice::<Vec<Value>>(json).unwrap(),
        }
    };
    let found = rows(Command::new(python).args(["-c", SCRIPT]));
    if Command::new("sqlite3").arg("-version").output().is_ok() {
        let shell = rows(Command::new("sqlite3").args(["-readonly", "-json"]));
        assert_eq!(shell, found, "{statement}");
    }
    Some(found)
}

#[test]
fn any_program_reads_the_denials_and_the_rules_behind_them() {
    let mut gate = CrawlgateProcess::with(|setup| setup.set("log", "redact_query", "true"));
    let origin = Origin::with_rules(RULES);
    gate.passes(&origin.url("/open"));
    let url = origin.url("/private/diary?token=secret");
    let mut problems = Vec::new();
    for _ in 0..2 {
        problems.push(gate.denied(&gate.get(&url)));
    }
    gate.signal(Signal::TERM);
    assert!(gate.wait().success());
    let store = gate.setup.dir().join("crawlgate.db");
    let denials = or_skip!(read(&store, "SELECT * FROM denials ORDER BY seq"));
    let records: Vec<Value> = gate.records();
    let records: Vec<&Value> = records
        .iter()
        .filter(|record| record["verdict"] == "deny")
        .collect();
    assert_eq!((denials.len(), records.len()), (2, 2), "{denials:?}");
    for ((row, record), problem) in denials.iter().zip(&records).zip(&problems) {
        for (column, value) in [
            ("id", &problem["id"]),
            ("time", &record["time"]),
            ("reason", &json!("robots_disallow")),
            ("origin", &json!(origin.url(""))),
            ("url", &record["url"]),
            ("rule_text", &json!("Disallow: /private")),
            ("rule_line", &json!(3)),
            ("user_agent", &json!("TestBot/1.0")),
            ("agent", &json!("TestBot")),
            ("robots_state", &json!("successful")),
            ("robots_sha256", &record["robots"]["sha256"]),
            ("acknowledged_by", &Value::Null),
        ] {
            assert_eq!(&row[column], value, "{column}: {record}");
        }
        assert!(!row.to_string().contains("secret"), "{row}");
    }
    let (first, last) = (&records[0]["time"], &records[1]["time"]);
    let rules = read(&store, "SELECT * FROM rules").unwrap();
    let day = &first.as_str().unwrap()[..10];
    assert_eq!(
        rules,
        [json!({
            "day": day, "origin": origin.url(""), "rule": "Disallow: /private", "reason": "robots_disallow",
            "count": 2, "first": first, "last": last,
        })]
    );
}
