//! Several logs in one view: listed by time, found by an identifier, counted, verified and reported.
//! Page: `docs/copies.md`.

use std::fs::{self, File};

use serde_json::Value;

use super::export::vkey;
use crate::support::collector::{Collector, denied, named};
use crate::support::{CrawlgateProcess, Origin, RULES, eventually};

/// Two gates with three denials, the middle one of the second, collected in one place.
struct Fleet {
    collector: Collector,
    gates: [CrawlgateProcess; 2],
    origin: Origin,
    /// The denials, by time.
    ids: [String; 3],
}

impl Fleet {
    fn new() -> Self {
        let origin = Origin::with_rules(RULES);
        let gates = [named("ams"), named("fra-1")];
        let ids = [
            denied(&gates[0], &origin, "/private/a"),
            denied(&gates[1], &origin, "/private/b"),
            denied(&gates[0], &origin, "/private/c"),
        ];
        let fleet = Self { collector: Collector::new(), gates, origin, ids };
        fleet.collector.collect_of(&fleet.gates);
        fleet
    }

    #[track_caller]
    fn run(&self, command: &str, words: &[&str], code: i32) -> (String, String) {
        let (found, said, error) = self.collector.setup.run(command, words);
        assert_eq!(found, Some(code), "{words:?}: {said}{error}");
        (said, error)
    }
}

/// Returns the log and the identifier of each line.
fn listed(lines: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let lines = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        (text(&line["log"]), text(&line["id"]))
    });
    lines.collect()
}

#[test]
fn the_decisions_of_all_logs_are_one_list_by_time() {
    let fleet = Fleet::new();
    let [a, b, c] = &fleet.ids;
    let (ams, fra) = ("logs.example/ams", "logs.example/fra-1");
    let of = |log: &str, id: &str| (log.to_owned(), id.to_owned());
    let all = [of(ams, a), of(fra, b), of(ams, c)];
    type Listed = (String, String);
    #[rustfmt::skip] // one row, one case
    let cases: [(&[&str], &[Listed]); 9] = [
        (&["--log", "*"], &all),
        (&["--log", "ams,fra-1"], &all),
        (&["--log", "fra", "--log", "ams"], &all),
        (&["--instance", "*"], &all),
        (&["--log", "*", "--all"], &all),
        (&["--log", "*", "-n", "2"], &all[1..]),
        (&["--log", "*", "-n", "0"], &[]),
        (&["--log", "*", "--path", "/private/b"], &all[1..2]),
        (&["--log", "*", "--reason", "path_guard"], &[]),
    ];
    for (words, want) in cases {
        let words = [&["--json"], words].concat();
        let (said, _) = fleet.run("log", &words, 0);
        assert_eq!(listed(&said), want, "{words:?}");
    }
    // The line of the log itself follows behind the name.
    let (said, _) = fleet.run("log", &["--log", "*", "--json", "-n", "1"], 0);
    let (_, own, _) = fleet.gates[0].beside("log", &["show", c, "--json"]);
    let (_, rest) = said.split_once("\"logs.example/ams\",").unwrap();
    assert_eq!(format!("{{{rest}"), own);

    let (table, _) = fleet.run("log", &["--log", "*"], 0);
    let heading = table.lines().next().unwrap();
    let column = heading.find("LOG").unwrap();
    for (row, (log, id)) in table.lines().skip(1).zip(&all) {
        assert!(row.contains(id.as_str()), "{table}");
        assert!(row[column..].starts_with(log.as_str()), "{table}");
    }
    let (cells, _) = fleet.run("log", &["--log", "*", "--format", "csv"], 0);
    assert!(cells.starts_with("log,seq,time,id,"), "{cells}");
    says!(cells, "\nlogs.example/fra-1,");
    let (alone, _) = fleet.run("log", &["--log", "ams"], 0);
    lacks!(alone, "LOG", b.as_str());
    let (counts, _) = fleet.run("log", &["--log", "*", "--summary", "--json"], 0);
    let counts: Value = serde_json::from_str(counts.lines().next().unwrap()).unwrap();
    has!(counts, {"reason": "robots_disallow", "count": 3});
    let (events, _) = fleet.run("log", &["--log", "*", "--events", "--json"], 0);
    for log in [ams, fra] {
        let started = format!("{{\"log\":\"{log}\",\"time\":");
        let is_start = |line: &&str| line.starts_with(&started) && line.contains("\"started\"");
        assert_eq!(events.lines().filter(is_start).count(), 1, "{events}");
    }

    let (shown, _) = fleet.run("log", &["show", b, a, "--log", "*"], 0);
    says!(shown, "in the log logs.example/fra-1");
    says!(shown, "in the log logs.example/ams");
    let (shown, _) = fleet.run("log", &["show", b, "--json", "--log", "*"], 0);
    assert_eq!(listed(&shown), &all[1..2]);
    let (_, error) = fleet.run("log", &["show", "01M0", "--log", "*"], 2);
    says!(error, "no such decision");

    let file = fleet.collector.folder.path().join("all.db");
    let words = ["--log", "*", "--format", "sqlite", "-o"];
    let words = [&words[..], &[file.to_str().unwrap()]].concat();
    fleet.run("log", &words, 0);
    let table = rusqlite::Connection::open(&file).unwrap();
    let text = "SELECT log, id FROM decisions ORDER BY time";
    let mut rows = table.prepare(text).unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let rows: Vec<(String, String)> = rows.unwrap().map(Result::unwrap).collect();
    assert_eq!(rows, all);

    let sql = |logs: &str, text: &str, code| {
        let words = ["--log", logs, "--format", "csv", text];
        let (said, error) = fleet.run("sql", &words, code);
        said + &error
    };
    let said = sql("*", "SELECT log, id, seq FROM denials ORDER BY time", 0);
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("log,id,seq"), "{said}");
    for (line, (log, id)) in lines.by_ref().zip(&all) {
        let (row, seq) = line.rsplit_once(',').unwrap();
        assert_eq!(row, format!("{log},{id}"), "{said}");
        assert!(seq.parse::<u64>().unwrap() < 100, "{said}");
    }
    assert_eq!(lines.next(), None, "{said}");
    let counted = "SELECT log, count(*) AS n FROM decisions WHERE verdict = 'deny' GROUP BY log";
    let want = format!("log,n\r\n{ams},2\r\n{fra},1\r\n").replace('\r', "");
    assert_eq!(sql("ams,fra-1", counted, 0).replace('\r', ""), want);
    let alone = sql("fra-1", "SELECT * FROM denials", 0);
    assert!(alone.starts_with("seq,"), "{alone}");
    let error = sql("*", "SELECT * FROM origins", 2);
    says!(error, "only the views decisions and denials");
}

#[test]
fn each_log_is_verified_and_all_are_reported_together() {
    let fleet = Fleet::new();
    let [_, b, _] = &fleet.ids;
    let (said, _) = fleet.run("audit", &["verify", "--all", "--log", "*"], 0);
    for word in ["logs.example/ams\n", "logs.example/fra-1\n"] {
        says!(said, word);
    }
    assert_eq!(said.matches(", whole").count(), 2, "{said}");
    let keys = fleet.gates.each_ref().map(vkey);
    let words = ["verify", "--all", "--json", "--log", "*", "--key", &keys[0]];
    let words = [&words[..], &["--key", &keys[1]]].concat();
    let (said, _) = fleet.run("audit", &words, 0);
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    has!(lines, {
        "0.log": "logs.example/ams", "1.log": "logs.example/fra-1", "0.proven": 2, "1.proven": 1,
    });
    let (_, kept, _) = fleet.gates[1].beside("audit", &["checkpoint"]);
    let place = fleet.collector.folder.path().join("kept");
    fs::write(&place, kept).unwrap();
    let kept = ["verify", "--all", "--checkpoint", place.to_str().unwrap()];
    fleet.run("audit", &[&kept[..], &["--log", "*"]].concat(), 0);
    let words = [&kept[..], &["--log", "ams,ams"]].concat();
    let (_, error) = fleet.run("audit", &words, 2);
    says!(error, "this one belongs to the log logs.example/fra-1");

    let (said, _) = fleet.run("audit", &["verify", b, "--log", "*"], 0);
    says!(said, "proven: the same decision follows");
    let file = fleet.collector.folder.path().join("evidence.json");
    let file = file.to_str().unwrap();
    fleet.run("audit", &["prove", b, "--log", "*", "-o", file], 0);
    fleet.run("audit", &["verify-evidence", file, "--key", &keys[1]], 0);

    let words = ["--log", "*", "--since", "1h", "--json", "-"];
    let (said, _) = fleet.run("report", &words, 0);
    let report: Value = serde_json::from_str(&said).unwrap();
    has!(report, {"summary.denied": 3, "rules.0.count": 3, "exceptions.without_end": 2});
    for (log, proven) in [(0, 2), (1, 1)] {
        has!(report["logs"][log], {"verification.ok": true, "verification.proven": proven});
    }
    let (page, _) = fleet.run("report", &["--log", "*", "--since", "1h", "-o", "-"], 0);
    let not_shown = page.find("Claims that the log does not prove").unwrap();
    let proof = page.find("9. Verification").unwrap();
    assert!(not_shown < page.find("2. Requests").unwrap(), "{page}");
    for log in ["logs.example/ams", "logs.example/fra-1"] {
        assert!(page[proof..].contains(&format!("<h3>{log}</h3>")), "{page}");
    }

    // The key of the other log proves nothing of this one.
    let vkeys =
        ["ams", "fra-1"].map(|name| fleet.collector.copy_of(name).with_extension("log.vkey"));
    fs::copy(&vkeys[0], &vkeys[1]).unwrap();
    let (said, _) = fleet.run("audit", &["verify", "--all", "--log", "*"], 1);
    says!(said, "fault: ");
    let (said, _) = fleet.run("report", &words, 1);
    let report: Value = serde_json::from_str(&said).unwrap();
    let verified = |log: usize| &report["logs"][log]["verification"]["ok"];
    assert_eq!((verified(0), verified(1)), (&true.into(), &false.into()));
}

#[test]
fn a_command_for_one_log_names_those_to_choose_from() {
    let fleet = Fleet::new();
    let id = &*fleet.ids[0];
    #[rustfmt::skip] // one row, one case
    let cases: [(&str, &[&str]); 8] = [
        ("store", &["check"]),
        ("store", &["size"]),
        ("audit", &["key"]),
        ("audit", &["checkpoint"]),
        ("audit", &["export", "--to", "x"]),
        ("audit", &["prove", "--since", "1h"]),
        ("audit", &["fork", "--reason", "x"]),
        ("log", &["ack", id, "--note", "x", "--by", "Ada"]),
    ];
    for (command, words) in cases {
        for log in ["*", "ams,fra-1"] {
            let words = [words, &["--log", log]].concat();
            let (_, error) = fleet.run(command, &words, 2);
            assert!(
                error.contains("needs exactly one log; name one with --log: logs.example/ams, logs.example/fra-1"),
                "{command} {words:?}: {error}"
            );
        }
    }
}

#[test]
fn a_damaged_copy_is_named_and_the_others_are_read() {
    let fleet = Fleet::new();
    let [a, b, c] = &fleet.ids;
    fs::write(fleet.collector.copy_of("fra-1"), "this is no store").unwrap();
    let (said, error) = fleet.run("log", &["--log", "*", "--json"], 2);
    let ids: Vec<String> = listed(&said).into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids, [a.clone(), c.clone()]);
    says!(error, "logs.example/fra-1: ");
    says!(error, "the list lacks these logs: logs.example/fra-1");
    let (said, error) = fleet.run("log", &["show", a, "--log", "*"], 0);
    assert!(said.contains(a.as_str()) && error.contains("fra-1: "), "{said}{error}");
    let (_, error) = fleet.run("log", &["show", b, "--log", "*"], 2);
    says!(error, "fra-1: ", "no such decision");
    let (said, error) = fleet.run("audit", &["verify", "--all", "--log", "*"], 2);
    says!(said, "log       ", ", whole");
    says!(error, "these logs could not be verified: logs.example/fra-1");
    let words = ["--log", "*", "--since", "1h", "--json", "-"];
    let (said, error) = fleet.run("report", &words, 1);
    says!(error, "logs.example/fra-1: ");
    let report: Value = serde_json::from_str(&said).unwrap();
    has!(report, {"summary.denied": 2, "logs.0.verification.ok": true});
    assert!(report["logs"][1]["unread"].is_string(), "{said}");
    let file = fleet.collector.folder.path().join("all.db");
    let words = ["--log", "*", "--format", "sqlite", "-o"];
    fleet.run("log", &[&words[..], &[file.to_str().unwrap()]].concat(), 2);
    assert!(!file.exists(), "a file would not tell that a log is missing");
}

#[test]
fn the_own_log_of_a_gate_stands_among_the_collected_ones() {
    let fleet = Fleet::new();
    let mut own = named("par");
    let id = denied(&own, &fleet.origin, "/private/own");
    own.setup.set("audit", "collection", &format!("{:?}", fleet.collector.place()));
    let said = own.succeeds("log", &["--log", "*", "--json"]);
    let want = [&fleet.ids[..], std::slice::from_ref(&id)].concat();
    let ids: Vec<String> = listed(&said).into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids, want);
    let (_, said, _) = own.beside("log", &["--log", "par", "--json"]);
    assert!(said.starts_with("{\"time\":") && said.contains(&id), "{said}");

    // Its own log may be collected, too: it is there once.
    let from = fleet.collector.export_of(&own, "three");
    fleet.collector.collect(&[&from], &["--trust-new"], 0);
    let later = denied(&own, &fleet.origin, "/private/later");
    let (_, said, _) = own.beside("log", &["--log", "*", "--json"]);
    let ids: Vec<String> = listed(&said).into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids, [&want[..], &[later]].concat());
    let said = own.succeeds("audit", &["verify", "--all", "--log", "*"]);
    assert_eq!(said.matches(", whole").count(), 3, "{said}");
}

#[test]
fn a_list_follows_what_is_collected() {
    let fleet = Fleet::new();
    let place = fleet.collector.folder.path().join("followed");
    let mut command = fleet.collector.setup.command("log");
    command.args(["--log", "*", "--follow", "--json", "-n", "1"]);
    command.stdout(File::create(&place).unwrap());
    let mut child = command.spawn().unwrap();
    let followed = |count: usize| {
        eventually("the followed decisions", || {
            let said = fs::read_to_string(&place).unwrap();
            (said.matches('\n').count() == count).then(|| listed(&said))
        })
    };
    assert_eq!(followed(1)[0].1, fleet.ids[2]);
    let later = denied(&fleet.gates[1], &fleet.origin, "/private/later");
    fleet.collector.collect_of(&fleet.gates);
    assert_eq!(followed(2)[1], ("logs.example/fra-1".to_owned(), later));
    child.kill().unwrap();
    child.wait().unwrap();
}
