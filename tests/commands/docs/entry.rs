//! The tables of an entry's keys in `docs/evidence-files.md`, against the source.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::page::root;

/// Returns the constants of an entry's keys, and the kinds of events by number, as the source has them.
fn of_entries() -> (BTreeSet<u8>, BTreeMap<u8, String>) {
    let source =
        |name: &str| fs::read_to_string(root().join("crates/record/src").join(name)).unwrap();
    let decision = source("decision.rs");
    let (_, keys) = decision.split_once("pub mod key {").unwrap();
    let (keys, _) = keys.split_once("\n}").unwrap();
    let key = |line: &str| line.split_once(" = ")?.1.strip_suffix(';')?.parse().ok();
    let keys: BTreeSet<u8> = keys.lines().filter_map(key).collect();
    let (mut numbers, mut names) = (BTreeMap::new(), BTreeMap::new());
    for line in source("event.rs").lines() {
        let Some((variant, value)) = line.split_once(" => ") else {
            continue;
        };
        let variant = variant.trim().trim_end_matches(" { .. }").trim_end_matches("(_)");
        match value.trim_end_matches(',').parse::<u8>() {
            Ok(number) => drop(numbers.insert(variant.to_owned(), number)),
            Err(_) => {
                drop(names.insert(variant.to_owned(), value.trim_matches(['"', ',']).to_owned()));
            }
        }
    }
    let kinds = numbers.into_iter();
    (keys, kinds.map(|(variant, number)| (number, names[&variant].clone())).collect())
}

/// Returns the numbers in a text.
fn numbers(text: &str) -> BTreeSet<u8> {
    let parts = text.split(|one: char| !one.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

#[test]
fn the_tables_of_an_entry_have_every_key_and_every_kind_of_event() {
    let page = fs::read_to_string(root().join("docs/evidence-files.md")).unwrap();
    let (_, entry) = page.split_once("## The entry\n").unwrap();
    let (decision, rest) = entry.split_once("### Other events\n").unwrap();
    let (events, _) = rest.split_once("### Texts\n").unwrap();
    let columns = |text: &str| -> Vec<Vec<String>> {
        let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| k"));
        let cells =
            rows.map(|row| row.split(" | ").map(|cell| cell.trim_matches(['|', ' ']).to_owned()));
        cells.map(Iterator::collect).collect()
    };
    let (keys, kinds) = of_entries();
    assert!(keys.len() >= 60 && kinds.len() >= 13, "{keys:?} {kinds:?}");
    let of_decisions = columns(decision);
    let mut told: BTreeSet<u8> = of_decisions.iter().flat_map(|row| numbers(&row[0])).collect();
    assert!(told.iter().all(|key| *key < 40), "{told:?}");
    let mut named = BTreeMap::new();
    for row in columns(events) {
        told.extend(numbers(&row[2]).into_iter().filter(|key| *key >= 40));
        let names = row[1].split(", ").map(|name| name.trim_matches('`').to_owned());
        named.extend(numbers(&row[0]).into_iter().zip(names));
    }
    assert_eq!(told, keys);
    assert_eq!(named, kinds);
}
