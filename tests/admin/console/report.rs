//! The report, as a page and as files.

use crate::support::{AdminGate, Origin, RULES, eventually};

#[test]
fn a_report_is_shown_and_saved_as_files() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    let id = gate.deny(&origin, "/private/1");
    eventually("the decision to be stored", || {
        let answer = gate.get(&format!("/decisions/{id}"));
        (answer.status == 200).then_some(())
    });
    let file = |name: &str| {
        let answer = gate.get(&format!("/report/{name}?since=1h")).is(200);
        let disposition = answer.field("content-disposition");
        let attachment = format!("attachment; filename=\"{name}\"");
        assert_eq!(disposition.as_deref(), Some(&*attachment));
        answer.text()
    };
    let html = file("crawlgate-report.html");
    assert!(html.starts_with("<!doctype html>"), "{html}");
    assert!(html.contains(&id) && !html.contains("<script"), "{html}");
    let json: serde_json::Value = serde_json::from_str(&file("crawlgate-report.json")).unwrap();
    has!(json, {"format": "crawlgate-report@1", "summary.denied": 1, "reasons.0.example": id});
    has!(gate.api("/report?since=1h"), {"summary": json["summary"]});
    for (wrong, said) in
        [("since=now", "the span is empty"), ("since=soon", "not a time"), ("x=1", "x")]
    {
        for place in ["/report", "/report/crawlgate-report.html", "/api/v1/report"] {
            let answer = gate.get(&format!("{place}?{wrong}"));
            assert_eq!(answer.status, 400, "{place}?{wrong}");
            says!(answer.text(), said; "{place}?{wrong}");
        }
    }
}
