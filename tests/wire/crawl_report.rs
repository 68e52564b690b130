//! Reports on a span, written beside a running gate. Page: `docs/reports.md`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::support::{CrawlgateProcess, Origin, RULES};

/// Starts a gate with one denial and one failure in its store.
fn gate() -> (CrawlgateProcess, Origin) {
    let (gate, site) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let url = site.url("/private");
    assert_eq!(gate.get(&url).status, 403);
    let record = gate.record("the denial", |record| record["url"] == url);
    let id = record["id"].as_str().unwrap().to_owned();
    gate.beside_until("log", &["show", &id], |told| !told.is_empty());
    (gate, site)
}

#[test]
fn a_report_tells_of_a_denial_and_of_its_proof() {
    let (gate, site) = gate();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (html, json, csv) = (path("report.html"), path("report.json"), path("all.csv"));
    let words = ["--since", "1h", "-o", &html, "--json", &json];
    let all = [&words[..], &["--origins-csv", &csv, "--by", "Ada & Bob"]].concat();
    let (code, out, error) = gate.beside("report", &all);
    assert_eq!((code, &*out, &*error), (Some(0), "", ""));
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["format"], "crawlgate-report@1");
    let count = |name: &str| report["summary"][name].as_u64().unwrap();
    assert_eq!((count("requests"), count("denied")), (1, 1));
    assert_eq!(count("judged_within_24h"), 1);
    assert_eq!(report["rules"][0]["rule"], "Disallow: /private");
    has!(report["robots"]["fetches"], {"count": 1, "successful": 1});
    has!(report, {"logs.0.verification.ok": true, "logs.0.verification.proven": 1});
    let page = fs::read_to_string(&html).unwrap();
    says!(page, "by Ada &#38; Bob", "No fault was found.");
    let mode = fs::metadata(&html).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "open to its owner alone");
    let origin = site.url("");
    let csv = fs::read_to_string(csv).unwrap();
    let row = format!("{},1,0,0,1,1,0,0,0,0,", origin.trim_end_matches('/'));
    says!(csv, &row);

    // Files that exist stay, unless told otherwise; nothing is written then.
    fs::write(&html, "mine").unwrap();
    let (_, error) = gate.ends(2, "report", &words);
    says!(error, "report.html exists already; name another file");
    assert_eq!(fs::read_to_string(&html).unwrap(), "mine");
    let forced = [&words[..], &["--force", "--no-verify"]].concat();
    assert_eq!(gate.beside("report", &forced).0, Some(0));
    let page = fs::read_to_string(&html).unwrap();
    says!(page, "The log was not verified for this report.");

    let out = gate.succeeds("report", &["--since", "1h", "--no-verify", "--json", "-"]);
    let again: Value = serde_json::from_str(&out).unwrap();
    has!(again, {"summary": report["summary"], "logs.0.verification": null});
}

#[test]
fn the_name_of_a_report_tells_its_format() {
    let (gate, _site) = gate();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = folder.path().join(name);
        let words = ["--since", "1h", "--no-verify", "-o", path.to_str().unwrap()];
        let (code, _, error) = gate.beside("report", &words);
        (code, error, fs::read(path).ok())
    };
    let (code, error, file) = write("report.JSON");
    assert_eq!((code, &*error), (Some(0), ""));
    let report: Value = serde_json::from_slice(&file.unwrap()).unwrap();
    assert_eq!(report["summary"]["denied"], 1);
    for name in ["report.html", "report", "report-2026.10"] {
        let (code, error, file) = write(name);
        assert_eq!(code, Some(0), "{name}: {error}");
        assert!(file.unwrap().starts_with(b"<!doctype html>"), "{name}");
    }
    for (name, way) in [
        ("r.pdf", "print it into such a file"),
        ("r.CSV", "--origins-csv FILE"),
        ("r.txt", "-o REPORT.html or -o REPORT.json"),
    ] {
        let (code, error, file) = write(name);
        assert_eq!((code, file), (Some(2), None), "{name}");
        says!(error, "a report is HTML or JSON", way);
    }
}

#[test]
fn forwarded_requests_without_a_record_are_counted_at_once_or_shown_as_unknown() {
    let gate = CrawlgateProcess::with(|setup| setup.set("log", "decisions", "\"denied\""));
    let site = Origin::with_rules(RULES);
    let dead = Origin::http();
    dead.stop();
    for n in 0..4 {
        assert_eq!(gate.get(&site.url(&format!("/open/{n}"))).status, 200);
    }
    for n in 0..2 {
        assert_eq!(gate.get(&site.url(&format!("/private/{n}"))).status, 403);
    }
    assert_eq!(gate.get(&dead.url("/x")).status, 502);
    let report = |words: &[&str], output: &[&str]| {
        let words = [&["--since", "1h", "--no-verify"][..], words, output].concat();
        gate.succeeds("report", &words)
    };
    let json = |words: &[&str]| -> Value {
        serde_json::from_str(&report(words, &["--json", "-"])).unwrap()
    };
    let all = json(&[]);
    let summary = &all["summary"];
    for (name, count) in [
        ("requests", 7),
        ("forwarded", 4),
        ("forwarded_without_record", 4),
        ("denied", 3),
        ("disallowed", 2),
        ("unreachable", 1),
        ("refused_here", 0),
        ("judged", 2),
        ("judged_within_24h", 2),
    ] {
        assert_eq!(summary[name], count, "{name}: {summary}");
    }
    has!(all, {"days.0.forwarded": 4, "clients.rows.0.forwarded": 4});
    // Their origin is on no record.
    for list in [&all["origins"]["most_asked"], &all["product_tokens"]["rows"]] {
        let row = &list[0];
        has!(row, {"requests": null, "forwarded": null});
        assert!(row["denied"].as_u64() > Some(0), "{row}");
    }
    has!(json(&["--origin", &site.url("")]), {"summary.forwarded": null, "summary.denied": 2});
    // The counts are told once: a second report has the same.
    assert_eq!(json(&[])["summary"], all["summary"]);
    let page = report(&[], &["-o", "-"]);
    says!(page, "7 requests: 4 were forwarded and answered");
    let unknown = "<td class=\"number\" data-head=\"Forwarded\">unknown</td>";
    says!(page, unknown);
    assert!(page.contains("Of the 4 that were forwarded without a record, this is unknown."));
    let csv = report(&[], &["--origins-csv", "-"]);
    let origin = site.url("");
    let row = format!("{},,,0,2,2,0,0,0,0,", origin.trim_end_matches('/'));
    says!(csv, &row);
}

#[test]
fn a_report_about_nothing_is_refused_in_words() {
    let (gate, _site) = gate();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    let file = file.to_str().unwrap();
    let missing = format!("{file}/in/no/folder.html");
    let within = folder.path().to_str().unwrap();
    #[rustfmt::skip] // one row, one case
    let cases: [(&[&str], &str); 10] = [
        (&["--since", "1h", "--until", "2h"], "the span is empty; begin it before its end"),
        (&["--since", "now", "--until", "now"], "the span is empty"),
        (&["--since", "soon"], "--since soon: not a time"),
        (&["--since", "1h", "--client", "stranger"], "stranger: no record from"),
        (&["--since", "1h", "--origin", "other.example"], "other.example: no record from"),
        (&["--since", "2020-01-01", "--until", "2020-01-31"], "nothing was recorded from 2020-01-01T00:00:00.000Z to 2020-02-01T00:00:00.000Z; the log keeps records from 20"),
        (&["--since", "1h", "--json", within, "--force"], "this is a directory; name a file in it"),
        (&["--since", "1h", "--json", &missing], "No such file or directory"),
        (&["--since", "1h", "--json", file], "named twice; give each file a name of its own"),
        (&["--since", "1h", "--key", "no-key"], "no-key"),
    ];
    for (words, said) in cases {
        let words = [words, &["-o", file]].concat();
        let (code, out, error) = gate.beside("report", &words);
        assert_eq!((code, &*out), (Some(2), ""), "{words:?}: {error}");
        assert!(error.contains(said), "{words:?}: {error}");
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 0, "{words:?}");
    }
    let both = ["--since", "1h", "-o", "-", "--json", "-"];
    let (_, error) = gate.ends(2, "report", &both);
    says!(error, "only one of the files can be the standard output");
}
