//! The files of a report.

use super::*;

#[tokio::test]
async fn the_json_is_the_golden_one() {
    let mut report = report(&store(1).await, question()).await;
    report.about.release = "0.0.0";
    let json = String::from_utf8(report.json().unwrap()).unwrap();
    let golden = include_str!("golden.json");
    if std::env::var_os("CRAWLGATE_WRITE_GOLDEN").is_some() {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/src/report/tests/golden.json");
        std::fs::write(place, &json).unwrap();
    }
    for (nth, (line, want)) in json.lines().zip(golden.lines()).enumerate() {
        assert_eq!(line, want, "line {}", nth + 1);
    }
    assert_eq!(json.lines().count(), golden.lines().count());
}

#[tokio::test]
async fn foreign_text_stays_text_in_the_page() {
    let mut report = report(&store(1).await, question()).await;
    report.about.client = Some("\"><img src=x onerror=alert(1)>".to_owned());
    report.logs[0].verification = Some(Verification {
        ok: false,
        records: 1,
        signed: None,
        witnesses: 2,
        quorum: 2,
        witnessed: None,
        witnessed_at: None,
        proven: 0,
        attested: 0,
        wrong: 1,
        faults: vec!["</li><a href=https://evil.example>".to_owned()],
    });
    let page = report.html().unwrap();
    assert!(page.contains("alert(1)"), "the test's texts are on the page");
    for hostile in ["<script", "<img", "<b>", "<i>", "<a href", "\u{202e}"] {
        assert!(!page.contains(hostile), "{hostile}");
    }
    assert!(page.contains("\\u{202e}"));
    // Nothing is loaded, and only the JSON inside is linked.
    let tags = page.split('<').skip(1);
    let tags: Vec<&str> = tags.filter_map(|tag| tag.split('>').next()).collect();
    let links: Vec<&&str> = tags.iter().filter(|tag| tag.contains("href=")).collect();
    let [link] = &links[..] else {
        panic!("{links:?}");
    };
    let inside = "a download=\"report.json\" href=\"data:application/json;base64,";
    assert!(link.starts_with(inside), "{link}");
    for loads in ["src=", "srcset=", "style=", "onerror=", "action="] {
        let found = tags.iter().find(|tag| tag.contains(loads));
        assert_eq!(found, None, "{loads}");
    }
    let (_, style) = page.split_once("<style>").unwrap();
    let (style, _) = style.split_once("</style>").unwrap();
    assert!(!style.contains("url(") && !style.contains("@import"));
    let (_, json) = page.split_once("base64,").unwrap();
    let (json, _) = json.split_once('"').unwrap();
    use base64::Engine as _;
    let json = base64::engine::general_purpose::STANDARD.decode(json).unwrap();
    assert_eq!(json, report.json().unwrap());
    // The rows that are not proven stand first, and the verification last.
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    assert!(at("that the site answered so") < at("2. Requests"));
    assert!(at("8. Acknowledgements") < at("9. Verification"));
}

#[test]
fn what_is_not_proven_is_as_the_page_on_evidence_files_has_it() {
    let page = include_str!("../../../../../docs/evidence-files.md").replace(['*', '`'], "");
    for Claim { claim, proven } in NOT_SHOWN {
        let row = format!("| {claim} | {proven} |");
        assert!(page.contains(&row), "{row}");
    }
}
