use super::*;
use crate::grounds::tests::unreachable;
use crawlgate_record::Rule;

fn rule(text: &str) -> Rule<'_> {
    Rule { group: "*".into(), text: text.as_bytes().into(), line: 3 }
}

/// Counts a decision about an origin that is unreachable.
fn count(summary: &Summary, decision: &Decision<'_>) {
    let state = unreachable();
    let grounds = Grounds { robots: Some((&state, None)), ..Grounds::default() };
    summary.count(decision, &grounds);
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
    let mut record = Decision::sample();
    count(&summary, &record);
    count(&summary, &record);
    record.rule = Some(rule("Disallow: /\u{1b}[2J"));
    count(&summary, &record);
    record.origin = Some("http://other.example:8080");
    (record.reason, record.rule) = ("robots_unreachable", None);
    count(&summary, &record);
    (record.reason, record.origin) = ("misdirected", None);
    count(&summary, &record);
    (record.verdict, record.reason) = (Verdict::Defer, "paced");
    count(&summary, &record);
    (record.verdict, record.error) = (Verdict::Allow, Some("connection_refused".into()));
    count(&summary, &record);
    (record.error, record.status) = (Some("client_closed".into()), None);
    count(&summary, &record);
    record.status = Some(200);
    count(&summary, &record);
    record.error = None;
    count(&summary, &record);
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
    let mut record = Decision::sample();
    (record.mode, record.status) = (Mode::Report, Some(200));
    count(&summary, &record);
    assert!(summary.has_denials(), "what would have been denied is worth a look");
    record.error = Some("connection_refused".into());
    count(&summary, &record);
    (record.verdict, record.reason, record.error) = (Verdict::Defer, "paced", None);
    count(&summary, &record);
    (record.verdict, record.reason) = (Verdict::Allow, "no_rules");
    count(&summary, &record);
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

    count(&summary, &Decision::sample());
    let text = summary.to_string();
    assert!(text.contains("most disallowed origins, had all of it been enforced"), "{text}");
}

#[test]
fn a_site_cannot_drive_the_terminal_or_fill_it() {
    let summary = Summary::default();
    let mut record = Decision::sample();
    let long = format!("Disallow: /\u{1b}[2J\u{202e}{}", "x".repeat(100));
    record.rule = Some(rule(&long));
    count(&summary, &record);
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
        let mut record = Decision::sample();
        record.rule = Some(rule(&text));
        record.origin = Some("https://often.example");
        count(&summary, &record);
        record.origin = Some(&origin);
        count(&summary, &record);
    }
    let rest = summary.rest.lock();
    assert_eq!(rest.origins.len(), ORIGINS);
    assert_eq!(rest.denied_elsewhere, 6);
    assert!(
        rest.origins.values().flat_map(|Denials(kinds)| kinds).all(|denials| denials
            .grounds
            .0
            .len()
            <= RULES)
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
