//! The threat model in `SECURITY.md`, against the sources: the tests that it names exist, and so do the modules.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::page::root;

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

#[test]
fn every_test_and_module_that_the_threat_model_names_is_there() {
    let root = root();
    let model = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let mut code = String::new();
    for directory in ["src", "tests"] {
        sources(&root.join(directory), &mut code);
    }
    let rows = model.lines().filter(|line| line.starts_with('|'));
    let words = rows.flat_map(|row| row.rsplit('|').nth(1).unwrap_or_default().split('`'));
    // Test names are sentences.
    let names: BTreeSet<&str> = words
        .filter(|word| word.matches('_').count() >= 3)
        .collect();
    assert!(names.len() >= 60, "only {} names", names.len());
    let missing: Vec<&&str> = names
        .iter()
        .filter(|name| {
            let Some(at) = code.find(&format!("fn {name}()")) else {
                return true;
            };
            // The attribute in front of the function makes it a test.
            let before = code[..at].trim_end_matches("async ").trim_end();
            !before.ends_with(']') || !before[before.len().saturating_sub(60)..].contains("test")
        })
        .collect();
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
    // A defence is in a module, whose file has its name.
    let paths: BTreeSet<&str> = model
        .split('`')
        .filter(|word| {
            let is_name = |name: &str| {
                name.bytes()
                    .all(|octet| matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'_'))
            };
            word.contains("::") && word.split("::").all(is_name)
        })
        .collect();
    assert!(paths.len() >= 12, "only {paths:?}");
    let is_module = |path: &&&str| {
        let file = format!("{}.rs", path.replace("::", "/"));
        let mut crates = ["src", "src/base"].iter();
        crates.any(|folder| root.join(folder).join(&file).is_file())
    };
    let missing: Vec<&&str> = paths.iter().filter(|path| !is_module(path)).collect();
    assert!(missing.is_empty(), "no such modules: {missing:#?}");
}
