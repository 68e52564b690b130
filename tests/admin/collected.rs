//! Collected logs of other machines beside the log of this process: lists, decisions, proofs, exports and reports.

use std::fs;

use serde_json::Value;

use crate::support::admin_gate::problem;
use crate::support::collector::{Collector, denied, named};
use crate::support::{AdminGate, CrawlgateProcess, Origin, RULES};

/// A gate with a collection of two other logs.
struct Fleet {
    collector: Collector,
    own: AdminGate,
    others: [CrawlgateProcess; 2],
    origin: Origin,
    /// The denials, by time: of ams, fra-1, and the own log.
    ids: [String; 3],
}

impl Fleet {
    fn new() -> Self {
        let origin = Origin::with_rules(RULES);
        let others = [named("ams"), named("fra-1")];
        let first = denied(&others[0], &origin, "/private/a");
        let second = denied(&others[1], &origin, "/private/b");
        let collector = Collector::new();
        let place = collector.place();
        let own = AdminGate::with(|setup| {
            setup.set("audit", "checkpoint_every", "\"1s\"");
            setup.set("audit", "log_name", "\"logs.example/par\"");
            setup.set("audit", "collection", &format!("{place:?}"));
        });
        let third = denied(&own, &origin, "/private/c");
        let fleet = Self { collector, own, others, origin, ids: [first, second, third] };
        fleet.collector.collect_of(&fleet.others);
        fleet
    }

    /// Returns the log and the identifier of each decision of a page.
    #[track_caller]
    fn decisions(&self, query: &str) -> Vec<(String, String)> {
        told(&self.own.api(&format!("/decisions{query}")))
    }
}

fn told(page: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| (text(&item["log"]), text(&item["record"]["id"]))).collect()
}

#[test]
fn the_api_reads_the_logs_that_are_named() {
    let fleet = Fleet::new();
    let [a, b, c] = &fleet.ids;
    let of = |log: &str, id: &str| (format!("logs.example/{log}"), id.to_owned());
    let newest = [of("par", c), of("fra-1", b), of("ams", a)];
    assert_eq!(fleet.decisions(""), newest[..1], "its own by default");
    assert_eq!(fleet.decisions("?log=par"), newest[..1]);
    assert_eq!(fleet.decisions("?log=*"), newest);
    assert_eq!(fleet.decisions("?log=ams,fra-1"), newest[1..]);
    assert_eq!(fleet.decisions("?log=fra&verdict=deny"), newest[1..2]);
    assert_eq!(fleet.decisions("?log=*&path=/private/a"), newest[2..]);
    for order in ["newest", "oldest"] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let query = format!("/decisions?log=*&limit=1&order={order}{cursor}");
            let page = fleet.own.api(&query);
            found.extend(told(&page));
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
            assert!(found.len() < 5, "it ends");
        }
        if order == "oldest" {
            found.reverse();
        }
        assert_eq!(found, newest, "{order}");
    }
    let tallies = fleet.own.api("/tallies?log=*");
    assert_eq!(tallies["items"][0]["count"], 3);
    assert_eq!(fleet.own.api("/tallies")["items"][0]["count"], 1);

    let why = problem(&fleet.own.get(&format!("/api/v1/decisions/{b}")), 404);
    says!(why, "log=* looks for it in collected logs");
    for log in ["*", "fra-1"] {
        has!(fleet.own.api(&format!("/decisions/{b}?log={log}")), {"log": "logs.example/fra-1"});
        let evidence = fleet.own.api(&format!("/decisions/{b}/evidence?log={log}"));
        has!(evidence, {"ok": true, "held": "proven", "log": "logs.example/fra-1"});
    }
    let file = fleet.own.api(&format!("/decisions/{b}/proof?log=*"));
    assert_eq!(file["log"], "logs.example/fra-1");
    let place = fleet.collector.folder.path().join("evidence.json");
    fs::write(&place, file.to_string()).unwrap();
    let (_, key, _) = fleet.others[1].beside("audit", &["key"]);
    let words = ["verify-evidence", place.to_str().unwrap(), "--key", key.trim()];
    fleet.own.succeeds("audit", &words);

    let report = fleet.own.api("/report?since=1h&log=*");
    assert_eq!(report["summary"]["denied"], 3);
    assert_eq!(report["logs"].as_array().unwrap().len(), 3);
    assert_eq!(fleet.own.api("/report?since=1h")["summary"]["denied"], 1);

    let note = serde_json::json!({"by": "Ada", "note": "x"});
    let refused = fleet.own.post(&format!("/decisions/{b}/acknowledgement"), &note);
    problem(&refused, 404);
    let taken = fleet.own.post(&format!("/decisions/{c}/acknowledgement"), &note);
    assert_eq!(taken.status, 200, "{}", taken.text());
    for (log, status, said) in [
        ("par,london", 404, "there is no log of this name"),
        ("logs.", 404, "more than one log has this in its name"),
    ] {
        let why = problem(&fleet.own.get(&format!("/api/v1/decisions?log={log}")), status);
        says!(why, said);
    }
    // A log that grows is read further.
    let later = denied(&fleet.others[0], &fleet.origin, "/private/later");
    fleet.collector.collect_of(&fleet.others);
    assert_eq!(fleet.decisions("?log=*&limit=1"), [of("ams", &later)]);
}

#[test]
fn the_console_shows_collected_logs_and_changes_none() {
    let fleet = Fleet::new();
    let [a, b, c] = &fleet.ids;
    let page = |target: &str| {
        let answer = fleet.own.get(target);
        assert_eq!(answer.status, 200, "{target}: {}", answer.text());
        answer.text()
    };
    let own = page("/denials");
    says!(own, "<select id=\"log\" name=\"log\">");
    assert!(own.contains(&**c) && !own.contains(&**b), "{own}");
    assert!(!own.contains("<th scope=\"col\">Log</th>"), "{own}");
    let all = page("/denials?log=*");
    says!(all, "<th scope=\"col\">Log</th>");
    let links = [
        format!("/decisions/{c}\""),
        format!("/decisions/{b}?log=logs.example%2Ffra-1\""),
        format!("/decisions/{a}?log=logs.example%2Fams\""),
    ];
    let places = links.each_ref().map(|link| all.find(link));
    assert!(places.iter().all(Option::is_some), "{all}");
    assert!(places.is_sorted(), "the newest first: {all}");
    let counted = page("/denials?log=*&view=rule");
    says!(counted, ">3<span class=\"hidden\"> decisions</span></a>");
    says!(counted, "verdict=deny&#38;log=*&#38;");

    let shown = page(&format!("/decisions/{b}?log=logs.example%2Ffra-1"));
    says!(shown, "of the log logs.example/fra-1");
    says!(shown, "proven: the same decision");
    says!(shown, "collected from another machine");
    lacks!(shown, "<form method=\"post\""; "nothing can be changed");
    let file = format!("/decisions/{b}/evidence.json?log=logs.example%2Ffra-1");
    says!(shown, &file);
    let file: Value = serde_json::from_str(&page(&file)).unwrap();
    assert_eq!(file["log"], "logs.example/fra-1");
    let shown = page(&format!("/decisions/{c}?log=*"));
    assert!(shown.contains("/acknowledge\""), "its own can be: {shown}");
    assert_eq!(fleet.own.get(&format!("/decisions/{b}")).status, 404);

    let cells = page("/denials/export?format=csv&log=*");
    let mut lines = cells.lines();
    assert!(lines.next().unwrap().starts_with("log,seq,"), "{cells}");
    let logs: Vec<&str> = lines.map(|line| line.split(',').next().unwrap()).collect();
    let names = ["logs.example/ams", "logs.example/fra-1", "logs.example/par"];
    assert_eq!(logs, names, "the oldest first");
    let lines = page("/denials/export?format=jsonl");
    assert!(lines.starts_with("{\"time\":"), "{lines}");

    let report = page("/report?since=1h&log=*");
    for name in names {
        says!(report, &format!("<h3>{name}</h3>"));
    }
    let link = "/report/crawlgate-report.json?since=1h&#38;log=*";
    says!(report, link);
    let json = page("/report/crawlgate-report.json?since=1h&log=ams");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["logs"][0]["log"], "logs.example/ams");
}

#[test]
fn a_damaged_copy_is_told_and_harms_no_other() {
    let fleet = Fleet::new();
    let [a, b, c] = &fleet.ids;
    assert_eq!(fleet.decisions("?log=*").len(), 3);
    // Another file takes the place of one that is open.
    let place = fleet.collector.copy_of("fra-1");
    let aside = fleet.collector.folder.path().join("aside.db");
    fs::rename(&place, &aside).unwrap();
    fs::write(&place, "this is no store").unwrap();
    let page = fleet.own.api("/decisions?log=*");
    let ids: Vec<String> = told(&page).into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids, [c.clone(), a.clone()]);
    assert_eq!(page["faults"][0]["log"], "logs.example/fra-1");
    says!(page["faults"][0]["error"].as_str().unwrap(), "fra-1.db");
    assert!(page["next"].is_null(), "{page}");
    has!(fleet.own.api("/tallies?log=*"), {"faults.0.log": "logs.example/fra-1"});
    problem(&fleet.own.get("/api/v1/decisions?log=fra-1"), 503);
    let why = problem(&fleet.own.get(&format!("/api/v1/decisions/{b}?log=*")), 404);
    says!(why, "not searched: logs.example/fra-1");
    let report = fleet.own.api("/report?since=1h&log=*");
    assert_eq!(report["summary"]["denied"], 2);
    assert!(report["logs"][1]["unread"].is_string(), "{report}");
    let shown = fleet.own.get("/denials?log=*").text();
    says!(shown, "The log logs.example/fra-1 could not be read", &**a, &**c);
    let refused = fleet.own.get("/denials/export?format=csv&log=*");
    assert_eq!(refused.status, 503, "a file would not tell: {}", refused.text());
    assert_eq!(fleet.decisions("").len(), 1, "and its own is read");

    fs::remove_file(&place).unwrap();
    assert_eq!(fleet.decisions("?log=*").len(), 2);
    problem(&fleet.own.get("/api/v1/decisions?log=fra-1"), 404);
    fs::rename(&aside, &place).unwrap();
    assert_eq!(fleet.decisions("?log=*").len(), 3);
}

#[test]
fn without_a_collection_there_is_nothing_to_choose() {
    let gate = AdminGate::open();
    let page = gate.get("/denials").text();
    assert!(!page.contains("name=\"log\""), "{page}");
    let own = gate.api("/decisions?log=*");
    assert_eq!(own["items"].as_array().unwrap().len(), 0);
    let why = problem(&gate.get("/api/v1/decisions?log=fra-1"), 404);
    says!(why, "[audit] collection is \"\"");
    // A collection that is not there yet has no log.
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("not yet");
    let gate = AdminGate::with(|setup| setup.set("audit", "collection", &format!("{place:?}")));
    assert_eq!(gate.get("/denials?log=*").status, 200);
}
