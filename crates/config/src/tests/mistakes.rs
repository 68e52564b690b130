//! Messages about mistakes.

use super::*;

/// Returns the message for a text with faults, without the directory.
fn message(text: &str) -> String {
    let error = parse(text).expect_err("has a fault").to_string();
    error.replace("/etc/crawlgate/", "")
}

#[test]
fn each_mistake_is_reported_with_line_key_value_and_allowed_values() {
    let cases = include_str!("mistakes.txt").split("\n# ").skip(1);
    assert_eq!(cases.clone().count(), 107);
    for case in cases {
        let (name, case) = case.split_once('\n').unwrap();
        let (text, want) = case.split_once("\n> ").unwrap();
        let want = want.trim_end().replace("\n> ", "\n");
        assert_eq!(message(text), want, "{name}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once_in_the_order_of_the_file() {
    let text =
        "colour = 1\n[robots]\nprofil = 2\nhold = 3\njitter = 4\n[listen]\naddress = ['x', 'y']\n";
    let lines: Vec<String> = message(text)
        .lines()
        .filter_map(|line| line.split(": ").nth(1).map(str::to_owned))
        .collect();
    assert_eq!(
        lines,
        [
            "colour = 1",
            "[robots] profil = 2",
            "[robots] hold = 3",
            "[robots] jitter = 4",
            "[listen] address = 'x'",
            "[listen] address = 'y'",
        ]
    );
}

#[test]
fn a_syntax_error_is_reported_with_its_line() {
    let cases = [
        ("a value without quotes", "[robots]\nprofile = strict\n", 2),
        ("a key twice", "[robots]\nhold = '1s'\n\nhold = '2s'", 4),
        ("a section without end", "\n\n[robots\n", 3),
    ];
    for (name, text, line) in cases {
        let Err(ConfigError::Invalid { faults, .. }) = parse(text) else {
            panic!("{name}: accepted");
        };
        let first = faults.first().unwrap();
        assert_eq!(first.line, line, "{name}: {first}");
        assert!(first.message.starts_with("not TOML: "), "{name}: {first}");
        assert!(!first.message.contains('\n'), "{name}: one line");
    }
}

#[test]
fn addresses_of_this_machine_need_no_allow_list() {
    for (name, address, accepted) in [
        ("IPv4 loopback", "127.0.0.2:1", true),
        ("IPv6 loopback", "[::1]:1", true),
        ("IPv4 loopback in IPv6", "[::ffff:127.0.0.1]:1", true),
        ("every address", "[::]:1", false),
        ("a private address", "10.0.0.1:1", false),
    ] {
        let closed = format!("[listen]\naddress = '{address}'\n");
        assert_eq!(parse(&closed).is_ok(), accepted, "{name}");
        assert!(parse(&format!("{closed}open = true")).is_ok(), "{name}");
        assert!(parse(&format!("{closed}allow = ['10.0.0.0/8']")).is_ok(), "{name}");
    }
}
