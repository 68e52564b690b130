//! The shipped `config.toml` against the code.

use std::collections::BTreeSet;

use super::*;

/// The file at the top of the project, as shipped.
const SHIPPED: &str = include_str!("../../../../config.toml");

fn keys() -> BTreeSet<&'static str> {
    let entries = Config::default().entries();
    entries.into_iter().map(|entry| entry.key).collect()
}

#[test]
fn the_shipped_file_holds_the_defaults() {
    let shipped = parse(SHIPPED).expect("the shipped file is right");
    let want = Config {
        source: shipped.source.clone(),
        ..Config::default()
    };
    assert_eq!(shipped, want);
}

#[test]
fn the_shipped_file_names_every_key() {
    let mut named = BTreeSet::new();
    let mut section = String::new();
    for line in SHIPPED.lines() {
        let line = line.trim_start_matches("# ");
        let line = line.replace("[[", "[");
        let header = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        if let Some((name, _)) = header {
            section = name.to_owned();
            named.insert(name.to_owned());
        } else if let Some((key, _)) = line.split_once(" = ") {
            named.insert(format!("{section}.{key}"));
        }
    }
    for key in keys() {
        assert!(named.contains(key), "config.toml does not show {key}");
    }
}

#[test]
fn the_shipped_file_marks_the_keys_that_need_a_restart() {
    let mut section = "";
    for line in SHIPPED.lines() {
        let line = line.trim_start_matches("# ");
        if let Some((name, _)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            section = name;
        }
        let Some((key, rest)) = line.split_once(" = ") else {
            continue;
        };
        let key = format!("{section}.{key}");
        let entries = Config::default().entries();
        let Some(entry) = entries.into_iter().find(|entry| entry.key == key) else {
            continue;
        };
        let restart = entry.takes_effect == TakesEffect::AtRestart;
        assert_eq!(rest.contains("[restart]"), restart, "{key}");
    }
}
