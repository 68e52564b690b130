use std::collections::HashMap;

use super::*;
use crawlgate_record::{Bounds, Decision, Entry, Rule, Url, Verdict, write_line};
use crawlgate_store::StoredDecision;
use crawlgate_system::clock::Moment;

/// Returns a denial without an override.
fn denial() -> Decision<'static> {
    let origin = "https://site.example";
    Decision {
        chain: (&["ExampleBot"][..]).into(),
        url: Url::of([origin.as_bytes(), b"/a/rather/long/path", b""], Some(origin)),
        rule: None,
        ..Decision::sample()
    }
}

/// Returns a decision as a store has it.
fn stored(decision: &Decision<'_>) -> StoredDecision {
    let (mut entry, mut record) = (Vec::new(), Vec::new());
    decision.encode(Bounds::CLIENTS, &mut entry);
    write_line(&Entry::read(&entry).unwrap(), &HashMap::new(), &mut record).unwrap();
    StoredDecision {
        seq: 1,
        time: Moment::from_millis(decision.time()),
        record: String::from_utf8(record).unwrap().trim_end().to_owned(),
        entry,
        bodies: Vec::new(),
        acknowledged: None,
    }
}

fn decision(mode: Mode, rule: Option<Rule<'_>>) -> StoredDecision {
    stored(&Decision { mode, rule, ..denial() })
}

/// Returns the identifier of these decisions.
fn id() -> String {
    denial().id_text()
}

/// Returns the entry as one of a log with a long name.
fn listed(entry: &StoredDecision) -> Listed {
    Listed { log: LONG.parse().unwrap(), entry: entry.clone() }
}

const LONG: &str = "logs.example.org/a-rather-long-place/fra-1";

fn rule() -> Rule<'static> {
    Rule { group: "*".into(), text: (&b"Disallow: /a"[..]).into(), line: 3 }
}

fn table(width: Option<usize>) -> LogPrinter {
    LogPrinter::new(Format::Table, false, width, false)
}

fn rows(width: Option<usize>, decision: &StoredDecision) -> String {
    let rows = table(width).rows(&[listed(decision)]).unwrap();
    String::from_utf8(rows).unwrap()
}

#[test]
fn a_row_is_no_wider_than_the_terminal() {
    for width in 80..300 {
        for decision in [decision(Mode::Enforce, Some(rule())), decision(Mode::Report, None)] {
            let heading = String::from_utf8(table(Some(width)).heading().unwrap()).unwrap();
            let shown = heading + &rows(Some(width), &decision);
            assert!(shown.ends_with('\n'));
            for line in shown.lines() {
                assert!(line.chars().count() < width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn a_table_row_fits_the_width() {
    let decision = decision(Mode::Enforce, Some(rule()));
    assert_eq!(
        rows(Some(120), &decision),
        format!(
            "11-20 12:00:00  {}  robots_disallow     403     site.example/a/rather/long/path\n",
            id()
        )
    );
    assert_eq!(
        rows(Some(80), &decision),
        format!(
            "11-20 12:00:00  {}  robots_disallow     403\n    site.example/a/rather/long/path\n",
            id()
        )
    );
    assert_eq!(
        rows(None, &decision),
        format!(
            "2026-11-20 12:00:00  {}  robots_disallow     403                     ExampleBot          \
             https://site.example/a/rather/long/path  Disallow: /a (line 3)\n",
            id()
        )
    );
}

#[test]
fn a_failure_shows_its_status_and_error_and_looks_like_no_success() {
    let failed = |error: Option<&'static str>, status: Option<u16>| {
        let decision = stored(&Decision {
            verdict: Verdict::Allow,
            reason: "robots_allow",
            status,
            error: error.map(Into::into),
            ..denial()
        });
        let mut printer = LogPrinter::new(Format::Table, false, None, true);
        String::from_utf8(printer.rows(&[listed(&decision)]).unwrap()).unwrap()
    };
    let good = failed(None, Some(200));
    let bad = failed(Some("connection_refused"), Some(502));
    assert!(bad.contains("502 connection_refused"), "{bad}");
    let colour = |row: &str| row.split("robots_allow").next().unwrap().to_owned();
    assert_ne!(colour(&bad), colour(&good), "{bad}{good}");
    let left = failed(Some("client_closed"), None);
    assert!(left.contains("client_closed"), "{left}");
    assert_eq!(colour(&left), colour(&bad));
}

#[test]
fn a_path_is_seen_behind_any_host() {
    let origin = format!("https://{}", "h".repeat(60));
    for width in 80..300 {
        let decision = stored(&Decision {
            origin: Some(&origin),
            url: Url::of([origin.as_bytes(), b"/a/rather/long/path", b""], Some(&origin)),
            ..denial()
        });
        let shown = rows(Some(width), &decision);
        assert!(shown.contains("/a/rather"), "{width}: {shown}");
    }
    for (name, url, max, want) in [
        ("it fits", "a.example/b", 11, "a.example/b"),
        (
            "the path is cut where the host is short",
            "a.example/abcdefghijkl",
            19,
            "a.example/abcdefgh…",
        ),
        ("the host is cut where it is long", "https://long.example/ab", 20, "https://long.exa…/ab"),
        ("both are long", "long.example/abcdefghij", 10, "long…/abc…"),
        ("there is no path", "long.example", 5, "long…"),
    ] {
        assert_eq!(with_path(url, max), want, "{name}");
    }
}

#[test]
fn an_acknowledgement_is_shown() {
    let mut decision = decision(Mode::Report, None);
    decision.acknowledged = Some(crawlgate_store::Acknowledgement {
        time: Moment::default(),
        by: "Ada".to_owned(),
        note: "known".to_owned(),
    });
    let row = rows(None, &decision);
    assert!(row.ends_with("  - · seen by Ada: known\n"), "{row}");
    assert!(row.contains("  robots_disallow (report)  "), "{row}");
}

#[test]
fn a_record_that_cannot_be_read_is_reported() {
    let mut decision = decision(Mode::Enforce, Some(rule()));
    decision.entry.clear();
    assert!(rows(None, &decision).starts_with("record 1 cannot be read: "));
    let mut printer = LogPrinter::new(Format::Csv, false, None, false);
    let row = printer.rows(&[listed(&decision)]).unwrap();
    assert!(row.starts_with(b"1,,"), "{row:?}");
}

#[test]
fn an_event_is_a_row_of_its_time_its_name_and_its_line() {
    let record = r#"{"time":"2026-11-20T12:00:00.123Z","event":"override_removed","override":{"id":"1"},"by":"Ada\u001b"}"#;
    let event = StoredDecision { record: record.to_owned(), ..decision(Mode::Enforce, None) };
    let row = |width| {
        let mut printer = LogPrinter::new(Format::Table, true, width, false);
        let rows = printer.rows(&[listed(&event)]).unwrap();
        String::from_utf8(rows).unwrap()
    };
    let whole = "2026-11-20 12:00:00  override_removed     \"override\":{\"id\":\"1\"},\"by\":\"Ada\\u001b\"\n";
    assert_eq!(row(None), whole);
    for width in 60..100 {
        let row = row(Some(width));
        assert!(row.chars().count() <= width, "{width}: {row}");
        assert!(row.starts_with("2026-11-20 12:00:00  override_removed     \"over"), "{row}");
    }
    let mut printer = named(Format::Table, true, Some(100));
    let rows = String::from_utf8(printer.rows(&[listed(&event)]).unwrap()).unwrap();
    assert!(rows.chars().count() <= 100, "{rows}");
    let cells = "2026-11-20 12:00:00  logs.example.org/a-rather-l…  override_removed     \"over";
    assert!(rows.starts_with(cells), "{rows}");
}

/// Returns a printer with the names of logs.
fn named(format: Format, events: bool, width: Option<usize>) -> LogPrinter {
    let names = ["a", LONG].map(|name| name.parse().unwrap());
    LogPrinter::new(format, events, width, false).with_names(names.iter())
}

#[test]
fn each_row_names_its_log_if_there_are_several() {
    let decision = decision(Mode::Enforce, Some(rule()));
    let text = |format, events, width| {
        let mut printer = named(format, events, width);
        let heading = printer.heading().unwrap();
        let rows = printer.rows(&[listed(&decision)]).unwrap();
        String::from_utf8([heading, rows].concat()).unwrap()
    };
    for width in 80..300 {
        for line in text(Format::Table, false, Some(width)).lines() {
            assert!(line.chars().count() < width, "{width}: {line}");
        }
    }
    let table = text(Format::Table, false, None);
    let (heading, row) = table.split_once('\n').unwrap();
    assert_eq!(heading.find("LOG"), row.find(LONG), "{table}");
    assert_eq!(heading.find("REASON"), row.find("robots_"), "{table}");
    let narrow = text(Format::Table, false, Some(100));
    let last = narrow.lines().last().unwrap();
    assert!(
        last.starts_with("    logs.example.org/a-rather-l") && last.ends_with("/long/path"),
        "{narrow}"
    );
    let lines = text(Format::Jsonl, false, None);
    assert!(lines.starts_with(&format!("{{\"log\":\"{LONG}\",\"time\":\"2026")), "{lines}");
    let cells = text(Format::Csv, false, None);
    assert!(
        cells.starts_with("log,seq,time,") && cells.contains(&format!("\n{LONG},1,2026")),
        "{cells}"
    );
}
