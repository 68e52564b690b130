use super::*;
use crate::audit::record::{RuleLine, tests::denial};

fn rule(text: &str) -> RuleLine<'_> {
    RuleLine {
        group: "*",
        text,
        line: 3,
    }
}

#[test]
fn an_empty_run_is_zeros() {
    let want = [
        "requests           0",
        "forwarded          0",
        "disallowed         0",
        "unreachable        0",
        "refused here       0",
        "deferred           0",
        "failed             0",
    ];
    let text = Summary::default().to_string();
    assert_eq!(text.lines().collect::<Vec<_>>(), want);
}

#[test]
fn a_run_is_summarised_by_reason_and_by_origin() {
    let summary = Summary::default();
    let mut record = denial();
    summary.count(&record);
    summary.count(&record);
    record.rule = Some(rule("Disallow: /\u{1b}[2J"));
    summary.count(&record);
    record.origin = Some("http://other.example:8080");
    (record.reason, record.rule) = ("robots_unreachable", None);
    summary.count(&record);
    (record.reason, record.origin) = ("misdirected", None);
    summary.count(&record);
    (record.verdict, record.reason) = ("defer", "paced");
    summary.count(&record);
    (record.verdict, record.error) = ("allow", Some("connection_refused"));
    summary.count(&record);
    (record.error, record.status) = (Some("client_closed"), None);
    summary.count(&record);
    record.status = Some(200);
    summary.count(&record);
    record.error = None;
    summary.count(&record);
    summary.count_forwarded();

    let want = [
        "requests          11",
        "forwarded          3",
        "disallowed         3  robots_disallow 3",
        "unreachable        1  status_503 1",
        "refused here       1  misdirected 1",
        "deferred           1  paced 1",
        "failed             2  connection_refused 1, client_closed 1",
        "most disallowed origins",
        "         3  https://site.example  Disallow: /private (and 1 more)",
        "unreachable origins",
        "         1  http://other.example:8080  status_503",
    ];
    assert_eq!(summary.to_string().lines().collect::<Vec<_>>(), want);
}

#[test]
fn requests_let_out_in_report_mode_are_counted_apart_and_by_outcome() {
    let summary = Summary::default();
    let mut record = denial();
    (record.mode, record.status) = ("report", Some(200));
    summary.count(&record);
    assert!(
        summary.has_denials(),
        "what would have been denied is worth a look"
    );
    record.error = Some("connection_refused");
    summary.count(&record);
    (record.verdict, record.reason, record.error) = ("defer", "paced", None);
    summary.count(&record);
    (record.verdict, record.reason) = ("allow", "no_rules");
    summary.count(&record);
    let want = [
        "requests           4",
        "forwarded          3",
        "disallowed         0",
        "unreachable        0",
        "refused here       0",
        "deferred           0",
        "failed             1  connection_refused 1",
        "reported           3  robots_disallow 2, paced 1 (sent all the same: report mode)",
        "most disallowed origins, had it been enforced",
        "         2  https://site.example  Disallow: /private",
    ];
    assert_eq!(summary.to_string().lines().collect::<Vec<_>>(), want);

    summary.count(&denial());
    let text = summary.to_string();
    assert!(
        text.contains("most disallowed origins, had all of it been enforced"),
        "{text}"
    );
}

#[test]
fn a_site_cannot_drive_the_terminal_or_fill_it() {
    let summary = Summary::default();
    let mut record = denial();
    let long = format!("Disallow: /\u{1b}[2J\u{202e}{}", "x".repeat(100));
    record.rule = Some(rule(&long));
    summary.count(&record);
    let text = summary.to_string();
    assert!(text.contains("Disallow: /\\u{1b}[2J\\u{202e}xx"), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    assert!(text.ends_with("xx…"), "{text}");
}

#[test]
fn origins_and_rules_are_bounded() {
    let summary = Summary::default();
    for number in 0..ORIGINS + 5 {
        let origin = format!("https://h{number}.example");
        let text = format!("Disallow: /{number}");
        let mut record = denial();
        record.rule = Some(rule(&text));
        record.origin = Some("https://often.example");
        summary.count(&record);
        record.origin = Some(&origin);
        summary.count(&record);
    }
    let rest = summary.rest.lock();
    assert_eq!(rest.origins.len(), ORIGINS);
    assert_eq!(rest.denied_elsewhere, 6);
    assert!(
        rest.origins
            .values()
            .flat_map(|Denials(kinds)| kinds)
            .all(|denials| denials.grounds.0.len() <= RULES)
    );
    drop(rest);
    let text = summary.to_string();
    assert!(
        text.contains("     10005  https://often.example  Disallow: /0 (and 7 more)"),
        "{text}"
    );
    assert!(text.ends_with("         6  further origins"), "{text}");
    assert_eq!(text.lines().count(), 8 + MAX_SHOWN + 1);
}
