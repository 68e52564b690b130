//! The length of files.

use std::fs;
use std::path::Path;

use crate::collect;

/// Lines of code that a file may have without a reason.
const LONG: usize = 400;

/// The beginning of the sentence that gives the reason.
const BECAUSE: &str = "Longer than 400 lines of code because ";

/// Counts the lines that are neither blank nor comments.
fn lines_of_code(text: &str) -> usize {
    let lines = text.lines().map(str::trim_start);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// Tells whether the module doc has a sentence that gives a reason for the length.
fn gives_reason(text: &str) -> bool {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let doc = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    let mut before = doc.match_indices(BECAUSE).map(|(at, _)| doc[..at].trim_end());
    before.any(|before| before.is_empty() || before.ends_with('.'))
}

#[test]
fn a_long_file_gives_its_reason_and_no_other_does() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "crates", "tests", "benches"] {
        collect(&root.join(folder), &mut files);
    }
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let (lines, has_reason) = (lines_of_code(&text), gives_reason(&text));
        let name = file.strip_prefix(root).unwrap().display().to_string();
        if (lines > LONG) != has_reason {
            wrong.push(format!("{name}: {lines} lines of code, reason: {has_reason}"));
        }
    }
    wrong.sort_unstable();
    assert_eq!(wrong, [""; 0], "split by idea, or give the reason: {BECAUSE}…");
}

#[test]
fn lines_of_code_are_neither_blank_nor_comments() {
    let text = "//! Doc.\n\nuse a::b; // why\n    // a comment\nfn c() {\n    \n}\n";
    assert_eq!(lines_of_code(text), 3);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("a sentence", "//! A table.\n//!\n//! Longer than 400 lines of code because it is one\n//! table.\n", true),
        ("over two lines", "//! A table. Longer than 400 lines\n//! of code because it is one table.\n", true),
        ("none", "//! A table.\n", false),
        ("in the middle of a sentence", "//! It is Longer than 400 lines of code because of me.\n", false),
        ("in a comment", "//! A table.\n\n// Longer than 400 lines of code because it is one.\n", false),
    ];
    for (name, text, want) in cases {
        assert_eq!(gives_reason(text), want, "{name}");
    }
}
