//! The order of the rooms: each imports only rooms below it, and no two files import each other. The length of files: a
//! long one gives its reason. And failures: each has a type.
//!
//! Read from the `use` lines and paths of `src`; unit tests may import anything.

// A failed unwrap or index is a failed test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms, from the leaves up: first those of the crate `crawlgate-base`.
const ROOMS: &[&str] = &[
    "clock",
    "gcra",
    "retry",
    "descriptors",
    "metrics",
    "rep",
    "text",
    "ftp",
    "tlog",
    "whole_file",
    "agent",
    "usage",
    "robots",
    "policy",
    "signing",
    "config",
    "fleet",
    "ca",
    "client",
    "pace",
    "entry",
    "store",
    "version",
    "connection_limit",
    "held_writes",
    "gathered",
    "transit",
    "filtered",
    "http2_frames",
    "http2_body",
    "websocket",
    "socket",
    "trust",
    "audit",
    "egress",
    "witness",
    "ship",
    "cache",
    "telemetry",
    "explain",
    "gate",
    "proxy",
    "admin",
    "cli",
];

/// Arrows against the order, with the reason of each.
const EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "egress",
    "cache::fetch",
    "egress sends a robots.txt only by the permit that the fetch alone can make",
)];

/// A file of `src` as a module: `proxy::limits` for `proxy/limits.rs`, `rep::guard` for `base/rep/guard.rs`.
type Module = String;

/// The modules that each module names outside its unit tests.
fn imports() -> BTreeMap<Module, BTreeSet<Module>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&source, &mut files);
    let modules: BTreeMap<Module, PathBuf> = files
        .into_iter()
        .map(|file| (module(&source, &file), file))
        .filter(|(module, _)| !matches!(module.as_str(), "lib" | "main"))
        .collect();
    let named = modules.iter().map(|(module, file)| {
        let text = without_comments_and_tests(&fs::read_to_string(file).unwrap());
        let paths = paths(&text, module);
        let named = paths.iter().filter_map(|path| longest(path, &modules));
        (module.clone(), named.filter(|one| one != module).collect())
    });
    let is_test = |module: &str| module.split("::").any(|part| part == "tests");
    named.filter(|(module, _)| !is_test(module)).collect()
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

fn module(source: &Path, file: &Path) -> Module {
    let name = file.strip_prefix(source).unwrap().with_extension("");
    // The crates have one order of rooms.
    let name = name.strip_prefix("base").unwrap_or(&name);
    let parts = name.iter().map(|part| part.to_str().unwrap());
    parts
        .filter(|part| *part != "mod")
        .collect::<Vec<_>>()
        .join("::")
}

/// Leaves out comments, and the unit tests at the end of a file.
fn without_comments_and_tests(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..end].lines();
    let code = lines.map(|line| match line.trim_start().starts_with("//") {
        true => "",
        false => line.split(" // ").next().unwrap(),
    });
    code.collect::<Vec<_>>().join("\n")
}

/// The paths that a file names: those that begin with `crate::`, `super::` or `self::`.
fn paths(text: &str, module: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for begin in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(begin) {
            let goes_on = |before: char| before.is_alphanumeric() || before == '_' || before == ':';
            if !text[..at].ends_with(goes_on) {
                tree(&text[at..], &[], &mut found);
            }
        }
    }
    found
        .into_iter()
        .map(|path| absolute(&path, module))
        .collect()
}

/// Reads one tree of a `use`: `a::{b, c::d}` names `a::b` and `a::c::d`. Returns the rest of the text.
fn tree<'t>(text: &'t str, before: &[String], found: &mut Vec<Vec<String>>) -> &'t str {
    let mut path = before.to_vec();
    let mut rest = text.trim_start();
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            let mut inner = group;
            loop {
                inner = tree(inner, &path, found).trim_start();
                match inner.strip_prefix(',') {
                    Some(next) if !next.trim_start().starts_with('}') => inner = next,
                    Some(next) => return next.trim_start().trim_start_matches('}'),
                    None => return inner.strip_prefix('}').unwrap_or(inner),
                }
            }
        }
        let end = rest
            .find(|one: char| !one.is_alphanumeric() && one != '_')
            .unwrap_or(rest.len());
        path.push(rest[..end].to_owned());
        rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(next) => rest = next,
            None => break,
        }
    }
    found.push(path);
    match rest.strip_prefix(" as ") {
        Some(name) => name.trim_start_matches(|one: char| one.is_alphanumeric() || one == '_'),
        None => rest,
    }
}

/// Resolves `crate`, `super` and `self`.
fn absolute(path: &[String], module: &str) -> Vec<String> {
    let mut base: Vec<String> = match path[0].as_str() {
        "crate" => Vec::new(),
        _ => module.split("::").map(str::to_owned).collect(),
    };
    let ups = path.iter().take_while(|part| *part == "super").count();
    base.truncate(base.len().saturating_sub(ups));
    let own = path
        .iter()
        .filter(|part| !matches!(part.as_str(), "crate" | "super" | "self"));
    base.extend(own.cloned());
    base
}

/// The file that a path leads to: its longest beginning that is one.
fn longest(path: &[String], modules: &BTreeMap<Module, PathBuf>) -> Option<Module> {
    let mut beginnings = (1..=path.len()).rev().map(|parts| path[..parts].join("::"));
    beginnings.find(|one| modules.contains_key(one))
}

fn room(module: &str) -> &str {
    module.split("::").next().unwrap()
}

fn is_excepted(from: &str, to: &str) -> bool {
    EXCEPTIONS
        .iter()
        .any(|(one, other, _)| (*one, *other) == (from, to))
}

#[test]
fn each_room_imports_only_rooms_below_it() {
    let place = |room: &str| {
        let place = ROOMS.iter().position(|one| *one == room);
        place.unwrap_or_else(|| panic!("{room} has no place in the order of rooms"))
    };
    let mut against = Vec::new();
    for (from, named) in imports() {
        for to in named {
            if place(room(&to)) > place(room(&from)) && !is_excepted(&from, &to) {
                against.push(format!("{from} -> {to}"));
            }
        }
    }
    assert_eq!(against, [""; 0], "arrows against the order of rooms");
}

#[test]
fn no_two_files_import_each_other() {
    let all = imports();
    let is_parent = |one: &str, other: &str| {
        other
            .strip_prefix(one)
            .is_some_and(|rest| rest.starts_with("::"))
    };
    let mut circles = Vec::new();
    for (from, named) in &all {
        for to in named {
            let is_circle = from < to && all.get(to).is_some_and(|back| back.contains(from));
            // A module and its own part may name each other: the part is private to it.
            let is_part = is_parent(from, to) || is_parent(to, from);
            if is_circle && !is_part && !is_excepted(from, to) && !is_excepted(to, from) {
                circles.push(format!("{from} <-> {to}"));
            }
        }
    }
    assert_eq!(circles, [""; 0], "circles between two files");
}

#[test]
fn the_exceptions_are_few_and_in_use() {
    assert!(EXCEPTIONS.len() <= 3);
    let all = imports();
    for (from, to, why) in EXCEPTIONS {
        assert!(all[*from].contains(*to), "{from} -> {to} ({why}) is gone");
    }
}

#[test]
fn trees_of_paths_are_read() {
    let text =
        "use crate::{a::{B, c::D as E}, f};\nuse super::g::{self, H};\nlet x = crate::i::j(1);";
    let found: BTreeSet<String> = paths(text, "m::n")
        .iter()
        .map(|path| path.join("::"))
        .collect();
    let want = ["a::B", "a::c::D", "f", "i::j", "m::g", "m::g::H"];
    assert_eq!(found, want.map(str::to_owned).into());
}

/// Lines of code that a file may have without a reason.
const LONG: usize = 400;

/// The beginning of the sentence that gives the reason.
const BECAUSE: &str = "Longer than 400 lines of code because ";

/// Counts the lines that are neither blank nor comments.
fn lines_of_code(text: &str) -> usize {
    let lines = text.lines().map(str::trim_start);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

/// Tells whether the module doc has a sentence that gives a reason for the length.
fn gives_reason(text: &str) -> bool {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let doc = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    let mut before = doc
        .match_indices(BECAUSE)
        .map(|(at, _)| doc[..at].trim_end());
    before.any(|before| before.is_empty() || before.ends_with('.'))
}

#[test]
fn a_long_file_gives_its_reason_and_no_other_does() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "tests", "benches"] {
        collect(&root.join(folder), &mut files);
    }
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let (lines, has_reason) = (lines_of_code(&text), gives_reason(&text));
        let name = file.strip_prefix(root).unwrap().display().to_string();
        if (lines > LONG) != has_reason {
            wrong.push(format!(
                "{name}: {lines} lines of code, reason: {has_reason}"
            ));
        }
    }
    wrong.sort_unstable();
    assert_eq!(
        wrong, [""; 0],
        "split by idea, or give the reason: {BECAUSE}…"
    );
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

/// Returns the numbers of the lines on which a `Result` begins that fails by a `String`.
fn failures_without_a_type(text: &str) -> Vec<usize> {
    let results = text.match_indices("Result<");
    let untyped = results.filter(|(at, begin)| {
        let arguments = arguments(&text[at + begin.len()..]);
        matches!(&*arguments, [_, .., "String"])
    });
    untyped
        .map(|(at, _)| text[..at].matches('\n').count() + 1)
        .collect()
}

/// Returns the arguments of a type, from behind its `<` up to the `>` that closes it.
fn arguments(text: &str) -> Vec<&str> {
    let (mut all, mut begin, mut depth, mut before) = (Vec::new(), 0, 0, ' ');
    for (at, one) in text.char_indices() {
        match one {
            '>' if before == '-' => {} // an arrow
            '>' | ',' if depth == 0 => {
                all.push(text[begin..at].trim());
                begin = at + 1;
                if one == '>' {
                    break;
                }
            }
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth -= 1,
            _ => {}
        }
        before = one;
    }
    all.retain(|argument| !argument.is_empty()); // behind the last comma
    all
}

#[test]
fn no_failure_outside_the_commands_is_a_text_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = root.join("src");
    let mut files = Vec::new();
    collect(&source, &mut files);
    let mut wrong = Vec::new();
    for file in files {
        let module = module(&source, &file);
        if room(&module) == "cli" || module.split("::").any(|part| part == "tests") {
            continue;
        }
        let text = without_comments_and_tests(&fs::read_to_string(&file).unwrap());
        let name = file.strip_prefix(root).unwrap().display().to_string();
        let lines = failures_without_a_type(&text).into_iter();
        wrong.extend(lines.map(|line| format!("{name}:{line}")));
    }
    wrong.sort_unstable();
    assert_eq!(
        wrong, [""; 0],
        "Result<…, String>: give the failure a type, with its facts as fields"
    );
}

#[test]
fn failures_by_a_text_are_found_in_each_form() {
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &str, &[usize])] = &[
        ("one line", "\nfn a() -> Result<(), String> {}\n", &[2]),
        ("several lines", "type A<T> =\n    Result<\n        T,\n        String,\n    >;", &[2]),
        ("arguments inside", "Result<(Vec<A<B>>, Option<C>), String>", &[1]),
        ("one in another", "Result<Vec<(String, Result<A, String>)>, E>", &[1]),
        ("a function", "Result<Box<dyn Fn(A) -> B>, String>", &[1]),
        ("a future", "Pin<Box<dyn Future<Output = Result<T, String>> + Send>>", &[1]),
        ("a type of its own", "Result<String, StringError>", &[]),
        ("a success alone", "io::Result<String>", &[]),
        ("a list of texts", "Result<(), Vec<String>>", &[]),
    ];
    for (name, text, want) in cases {
        assert_eq!(failures_without_a_type(text), *want, "{name}");
    }
}
