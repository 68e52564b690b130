//! The order of the rooms: each imports only rooms below it, no two files import each other, and no circle of files grows. The
//! length of files: a long one gives its reason. And failures: each has a type.
//!
//! Cargo holds the order of the crates. Read from the `use` lines and paths of `src` and `crates`; unit tests may import
//! anything.

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

/// The rooms of each crate that has several, from the leaves up; a crate has the name of its folder, and the proxy none.
const ROOMS: &[(&str, &[&str])] = &[
    (
        "system",
        &["clock", "descriptors", "metrics", "retry", "whole_file"],
    ),
    ("turns", &["gcra", "fleet", "client", "pace"]),
    (
        "",
        &[
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
        ],
    ),
];

/// Arrows against the order, with the reason of each.
const EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "egress",
    "cache::fetch",
    "egress sends a robots.txt only by the permit that the fetch alone can make",
)];

/// A file as a module: `proxy::limits` for `src/proxy/limits.rs`, `robots::guard` for `crates/robots/src/guard.rs`.
type Module = String;

/// The crates of the workspace, by the names of their folders and with their sources. The proxy has no name.
fn crates() -> BTreeMap<String, PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = fs::read_dir(root.join("crates")).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path());
    let mut crates: BTreeMap<String, PathBuf> = folders
        .map(|folder| {
            let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
            (name, folder.join("src"))
        })
        .collect();
    assert!(crates.len() >= 8, "{crates:?}");
    crates.insert(String::new(), root.join("src"));
    crates
}

/// The modules of its crate that each module of a crate names outside its unit tests.
fn imports(name: &str, source: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut files = Vec::new();
    collect(source, &mut files);
    let modules: BTreeMap<Module, PathBuf> = files
        .into_iter()
        .map(|file| (module(name, source, &file), file))
        .filter(|(module, _)| !matches!(module.as_str(), "" | "main"))
        .collect();
    let named = modules.iter().map(|(module, file)| {
        let text = without_comments_and_tests(&fs::read_to_string(file).unwrap());
        let paths = paths(&text, name, module);
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

fn module(name: &str, source: &Path, file: &Path) -> Module {
    let path = file.strip_prefix(source).unwrap().with_extension("");
    let parts = path.iter().map(|part| part.to_str().unwrap());
    let parts = parts.filter(|part| !matches!(*part, "mod" | "lib"));
    let parts = std::iter::once(name).chain(parts);
    parts
        .filter(|part| !part.is_empty())
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
fn paths(text: &str, name: &str, module: &str) -> Vec<Vec<String>> {
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
        .map(|path| absolute(&path, name, module))
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
fn absolute(path: &[String], name: &str, module: &str) -> Vec<String> {
    let begin = match path[0].as_str() {
        "crate" => name,
        _ => module,
    };
    let parts = begin.split("::").filter(|part| !part.is_empty());
    let mut base: Vec<String> = parts.map(str::to_owned).collect();
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

/// The room of a module of the crate with this name.
fn room<'m>(name: &str, module: &'m str) -> &'m str {
    let inside = module.strip_prefix(name).unwrap();
    inside.trim_start_matches("::").split("::").next().unwrap()
}

fn is_excepted(from: &str, to: &str) -> bool {
    EXCEPTIONS
        .iter()
        .any(|(one, other, _)| (*one, *other) == (from, to))
}

#[test]
fn each_room_imports_only_rooms_below_it() {
    let crates = crates();
    let mut against = Vec::new();
    for (name, rooms) in ROOMS {
        let place = |room: &str| {
            let place = rooms.iter().position(|one| *one == room);
            place.unwrap_or_else(|| panic!("{room} has no place in the order of rooms"))
        };
        let mut all = imports(name, &crates[*name]);
        all.remove(*name);
        for (from, named) in all {
            for to in named.iter().filter(|to| *to != name) {
                let is_above = place(room(name, to)) > place(room(name, &from));
                if is_above && !is_excepted(&from, to) {
                    against.push(format!("{from} -> {to}"));
                }
            }
        }
    }
    assert_eq!(against, [""; 0], "arrows against the order of rooms");
}

#[test]
fn no_two_files_import_each_other() {
    let is_parent = |one: &str, other: &str| {
        other
            .strip_prefix(one)
            .is_some_and(|rest| rest.starts_with("::"))
    };
    let mut circles = Vec::new();
    for (name, source) in crates() {
        let all = imports(&name, &source);
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
    }
    assert_eq!(circles, [""; 0], "circles between two files");
}

/// The files of the largest circles: a crate that is not named has none of more than [`KNOT`] files. A number may fall, and
/// none may rise.
const CIRCLES: &[(&str, usize)] = &[];

/// Files that may import each other around a circle: a facade and its parts.
const KNOT: usize = 7;

/// Returns the files of the largest circle: those of which each leads to each other one by imports.
fn largest_circle(all: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<&Module> {
    let reached = |from: &'_ Module| {
        let (mut found, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(one) = open.pop() {
            for (to, _) in all[one].iter().filter_map(|to| all.get_key_value(to)) {
                if found.insert(to) {
                    open.push(to);
                }
            }
        }
        found
    };
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        all.keys().map(|from| (from, reached(from))).collect();
    let circle = |from: &&Module| -> BTreeSet<&Module> {
        let leads_back = |to: &&&Module| reached[**to].contains(*from);
        reached[*from].iter().filter(leads_back).copied().collect()
    };
    let circles = reached.keys().map(circle);
    circles.max_by_key(BTreeSet::len).unwrap_or_default()
}

#[test]
fn no_circle_of_files_grows() {
    let mut wrong = Vec::new();
    for (name, source) in crates() {
        let all = imports(&name, &source);
        let circle = largest_circle(&all);
        let known = CIRCLES.iter().find(|(one, _)| *one == name);
        let most = known.map_or(KNOT, |(_, most)| *most);
        if circle.len() > most || (known.is_some() && circle.len() < most) {
            let files = circle.into_iter().cloned().collect::<Vec<_>>();
            wrong.push(format!(
                "{name:?}: {} files, {most} named: {}",
                files.len(),
                files.join(" ")
            ));
        }
    }
    assert_eq!(wrong, [""; 0], "circles of files");
}

#[test]
fn the_exceptions_are_few_and_in_use() {
    assert!(EXCEPTIONS.len() <= 3);
    let all = imports("", &crates()[""]);
    for (from, to, why) in EXCEPTIONS {
        assert!(all[*from].contains(*to), "{from} -> {to} ({why}) is gone");
    }
}

#[test]
fn trees_of_paths_are_read() {
    let text =
        "use crate::{a::{B, c::D as E}, f};\nuse super::g::{self, H};\nlet x = crate::i::j(1);";
    let found: BTreeSet<String> = paths(text, "", "m::n")
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
    for folder in ["src", "crates", "tests", "benches"] {
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
    let mut files = Vec::new();
    for (name, source) in crates() {
        let mut of_crate = Vec::new();
        collect(&source, &mut of_crate);
        files.extend(
            of_crate
                .into_iter()
                .map(|file| (module(&name, &source, &file), file)),
        );
    }
    let mut wrong = Vec::new();
    for (module, file) in files {
        if module.starts_with("cli") || module.split("::").any(|part| part == "tests") {
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
