//! Tests of the arguments, the lists, and a removal.

use clap::Parser as _;

use super::*;
use crawlgate_store::Removed;

const NOW: Moment = Moment::from_millis(1_795_176_000_123); // 2026-11-20T12:00:00.123Z

fn parsed(words: &[&str]) -> Option<Override> {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: OverrideArgs,
    }
    let rest = ["--until", "2026-12-31", "--by", "Ada", "--reason", "a letter"];
    let words = ["crawlgate", "add"].iter().chain(words).chain(&rest);
    match Line::try_parse_from(words).ok()?.args.command {
        Command::Add(args) => new(&args, NOW).ok(),
        _ => None,
    }
}

#[test]
fn the_pattern_may_be_left_out() {
    let found = |words: &[&str]| {
        let one = parsed(words)?;
        Some((one.origin.to_string(), one.pattern, one.action))
    };
    let expected =
        |origin: &str, pattern: &str, action| Some((origin.to_owned(), pattern.to_owned(), action));
    use overrides::Action::{Allow, Deny};
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("the whole origin", &["https://a.example", "deny"][..], expected("https://a.example", "/", Deny)),
        ("some paths", &["https://a.example", "/p*.html$", "allow"], expected("https://a.example", "/p*.html$", Allow)),
        ("an origin in another spelling", &["HTTPS://A.example:443/", "deny"], expected("https://a.example", "/", Deny)),
        ("no action", &["https://a.example", "/p"], None),
        ("no scheme", &["a.example", "deny"], None),
        ("a URL", &["https://a.example/p", "deny"], None),
        ("an origin of files", &["ftp://a.example:21", "/pub/", "allow"], expected("ftp://a.example", "/pub/", Allow)),
        ("a scheme that is not forwarded", &["gopher://a.example", "deny"], None),
        ("a pattern that matches nothing", &["https://a.example", "p", "deny"], None),
    ];
    for (name, words, expected) in cases {
        assert_eq!(found(words), expected, "{name}");
    }
}

#[test]
fn lists_are_for_people_and_for_programs() {
    let one = Override {
        id: OverrideId::Stored(12),
        ..parsed(&["https://a.example", "/p", "deny"]).expect("valid")
    };
    let expired = Override {
        id: OverrideId::Configured(1),
        until: Some(NOW),
        reason: "\u{1b}[2J".to_owned(),
        ..one.clone()
    };
    let removed = Removed { asserted: one.clone(), time: NOW, by: "Grace".to_owned() };
    let all = [
        OverrideEntry::of(&one, NOW),
        OverrideEntry::of(&expired, NOW),
        OverrideEntry::of_removed(&removed, NOW),
    ];
    let text = table(&all, None);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[3].contains("removed 2026-11-20T12:00:00.123Z by Grace"), "{text}");
    assert!(
        lines[1].starts_with("12        deny    https://a.example  /p       2027-01-01T"),
        "{text}"
    );
    assert!(lines[2].contains("expired 2026-11-20T12:00:00.123Z"), "{text}");
    assert!(lines[2].contains("\\u{1b}[2J"), "{text}");
    let narrow = table(&all[..1], Some(20));
    assert!(narrow.lines().all(|line| line.chars().count() <= 20), "{narrow}");

    let text: Vec<u8> = all.iter().flat_map(terminal::json_line).collect();
    let text = String::from_utf8(text).expect("UTF-8");
    let objects: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(objects[0]["id"], "12");
    assert_eq!(objects[0]["created"], "2026-11-20T12:00:00.123Z");
    assert_eq!(objects[1]["id"], "config-1");
    assert!(objects[1]["created"].is_null());
    assert!(objects[1]["removed"].is_null());
    assert_eq!(objects[2]["removed"], "2026-11-20T12:00:00.123Z");
    assert_eq!(objects[2]["removed_by"], "Grace");
}

#[test]
fn a_removed_override_is_listed_and_not_removed_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = Config::default();
    config.store.path = Some(folder.path().join("crawlgate.db"));
    config.admin.socket = None;
    let one = parsed(&["https://a.example", "/p", "deny"]).expect("valid");
    let runtime = crate::small_runtime().expect("a runtime");
    runtime.block_on(async {
        let store = store::open(&config, Access::Write).expect("a store");
        let number = store.add_override(one).await.expect("added");
        let by = "Grace".to_owned();
        assert!(store.remove_override(number, by, NOW).await.expect("kept"));
        let again = remove(&number.to_string(), "Ada", &config, NOW).await;
        assert_eq!(
            again.expect_err("it is removed").to_string(),
            "override 1 was removed 2026-11-20T12:00:00.123Z by Grace already"
        );
        let unknown = remove("2", "Ada", &config, NOW).await;
        let unknown = unknown.expect_err("there is none").to_string();
        assert!(unknown.starts_with("2: no such override"), "{unknown}");
        assert_eq!(store.removed_overrides().await.expect("read").len(), 1);
        assert!(known(&config).await.expect("read").is_empty());
    });
}
