//! The order of the rooms, and no circle has many files. The length of files: a long one gives its reason. And failures: each
//! has a type.
//!
//! Read from the sources of `crates`; unit tests may import anything.

// A failed unwrap or index is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod circles;
mod failures;
mod imports;
mod length;
mod rooms;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A file as a module: `robots::guard` for `crates/robots/src/guard.rs`.
type Module = String;

/// The crates of the workspace, by the names of their folders and with their sources.
fn crates() -> BTreeMap<String, PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = fs::read_dir(root.join("crates")).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path());
    let crates: BTreeMap<String, PathBuf> = folders
        .map(|folder| {
            let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
            (name, folder.join("src"))
        })
        .collect();
    assert!(crates.len() >= 8, "{crates:?}");
    crates
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // Cargo marks its target directories, such as that of a crate in benches, with this file.
        if path.join("CACHEDIR.TAG").exists() {
            continue;
        }
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
}

fn module(name: &str, source: &Path, file: &Path) -> Module {
    let path = file.strip_prefix(source).unwrap().with_extension("");
    let parts = path.iter().map(|part| part.to_str().unwrap());
    let parts = parts.filter(|part| !matches!(*part, "mod" | "lib"));
    let parts = std::iter::once(name).chain(parts);
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("::")
}

/// Leaves out comments, and the unit tests at the end of a file.
fn without_comments_and_tests(text: &str) -> String {
    let tests =
        ["mod tests {", "pub(crate) mod tests {"].map(|tests| format!("#[cfg(test)]\n{tests}"));
    let ends = tests.iter().filter_map(|tests| text.find(tests));
    let end = ends.min().unwrap_or(text.len());
    let lines = text[..end].lines();
    let code = lines.map(|line| match line.trim_start().starts_with("//") {
        true => "",
        false => line.split(" // ").next().unwrap(),
    });
    code.collect::<Vec<_>>().join("\n")
}
