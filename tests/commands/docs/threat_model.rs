//! The threat model in `docs/threat-model.md`, against the sources: each row names a test, the tests exist, and so do the
//! modules. `SECURITY.md` repeats some of its rows in short.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::page::root;

/// A row of a table of attacks.
struct Row<'a> {
    /// The heading of the section: the party that attacks.
    party: &'a str,
    /// The attack, the defence and, in the whole table, the tests that show it.
    cells: Vec<&'a str>,
}

/// Returns the rows of the tables of attacks in a page.
fn rows(page: &str) -> Vec<Row<'_>> {
    let (mut party, mut is_of_attacks, mut rows) = ("", false, Vec::new());
    for line in page.lines() {
        let Some(row) = line.strip_prefix("| ") else {
            if let Some(heading) = line.strip_prefix('#') {
                party = heading.trim_start_matches('#').trim();
            }
            is_of_attacks &= line.starts_with('|');
            continue;
        };
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        if cells[0].ends_with("may try to") {
            is_of_attacks = true;
        } else if is_of_attacks {
            rows.push(Row { party, cells });
        }
    }
    rows
}

/// Returns the parts of a text that are written as code.
fn code_words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Appends all Rust sources under a directory of the repository.
fn sources(directory: &Path, into: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

/// Returns whether the sources have a test of this name.
fn is_test(sources: &str, name: &str) -> bool {
    let Some(at) = sources.find(&format!("fn {name}()")) else {
        return false;
    };
    // The attribute in front of the function makes it a test.
    let before = sources[..at].trim_end_matches("async ").trim_end();
    before.ends_with(']') && before[before.len().saturating_sub(60)..].contains("test")
}

/// Returns whether a word of code is the path of a module, such as `proxy::target`.
fn is_path(word: &str) -> bool {
    let is_name =
        |name: &str| name.bytes().all(|octet| matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    word.contains("::") && word.split("::").all(is_name)
}

#[test]
fn every_test_and_module_that_the_threat_model_names_is_there() {
    let root = root();
    let model = fs::read_to_string(root.join("docs/threat-model.md")).unwrap();
    let mut code = String::new();
    for directory in ["src", "crates", "tests"] {
        sources(&root.join(directory), &mut code);
    }
    let rows = rows(&model);
    assert!(rows.len() >= 100, "only {} rows", rows.len());
    let (mut names, mut missing) = (0, Vec::new());
    for row in &rows {
        assert_eq!(row.cells.len(), 3, "{:?}", row.cells);
        let tests: Vec<&str> = code_words(row.cells[2]).collect();
        assert!(!tests.is_empty(), "no test shows: {}", row.cells[0]);
        names += tests.len();
        missing.extend(tests.into_iter().filter(|name| !is_test(&code, name)));
    }
    assert!(names >= 300, "only {names} names");
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
    // The page names the module of a defence by its path, and a file has that path.
    let paths: BTreeSet<&str> = code_words(&model).filter(|word| is_path(word)).collect();
    assert!(paths.len() >= 12, "only {paths:?}");
    let is_module = |path: &&&str| {
        let (first, rest) = path.split_once("::").unwrap();
        let rest = format!("{}.rs", rest.replace("::", "/"));
        root.join(format!("crates/{first}/src")).join(&rest).is_file()
    };
    let missing: Vec<&&str> = paths.iter().filter(|path| !is_module(path)).collect();
    assert!(missing.is_empty(), "no such modules: {missing:#?}");
}

#[test]
fn the_threat_model_has_each_attack_of_the_page_on_security() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let (model, short) = (read("docs/threat-model.md"), read("SECURITY.md"));
    let known = rows(&model);
    let known: BTreeSet<(&str, &str)> = known.iter().map(|row| (row.party, row.cells[0])).collect();
    let short = rows(&short);
    assert!(short.len() >= 30, "only {} rows", short.len());
    for row in &short {
        let attack = (row.party, row.cells[0]);
        assert!(known.contains(&attack), "no such row: {attack:?}");
    }
}
