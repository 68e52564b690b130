//! The modules that a module names: the paths that begin with `crate::`, `super::` or `self::`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Module, collect, module, without_comments_and_tests};

/// The modules of its crate that each module of a crate names outside its unit tests.
pub(crate) fn imports(name: &str, source: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut files = Vec::new();
    collect(source, &mut files);
    let modules: BTreeMap<Module, PathBuf> = files
        .into_iter()
        .map(|file| (module(name, source, &file), file))
        .filter(|(module, _)| !matches!(module.as_str(), "" | "main"))
        .collect();
    let texts = modules.iter().map(|(module, file)| {
        let text = without_comments_and_tests(&fs::read_to_string(file).unwrap());
        (module, text)
    });
    let texts: BTreeMap<&Module, String> = texts.collect();
    let passed_on: BTreeMap<&Module, Vec<Vec<String>>> = texts
        .iter()
        .map(|(module, text)| (*module, paths(&passed_on(text), name, module)))
        .collect();
    let named = texts.iter().map(|(module, text)| {
        let paths = paths(text, name, module).into_iter();
        let named = paths.filter_map(|path| leads_to(path, &modules, &passed_on));
        let named = named.filter(|one| one != *module);
        ((*module).clone(), named.collect())
    });
    let is_test = |module: &str| module.split("::").any(|part| part == "tests");
    named.filter(|(module, _)| !is_test(module)).collect()
}

/// The paths that a file names: those that begin with `crate::`, `super::` or `self::`. A visibility names none.
fn paths(text: &str, name: &str, module: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let text = &text.replace("pub(in ", "pub(in :");
    for begin in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(begin) {
            let goes_on = |before: char| before.is_alphanumeric() || before == '_' || before == ':';
            if !text[..at].ends_with(goes_on) {
                tree(&text[at..], &[], &mut found);
            }
        }
    }
    found.into_iter().map(|path| absolute(&path, name, module)).collect()
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
        let end = rest.find(|one: char| !one.is_alphanumeric() && one != '_').unwrap_or(rest.len());
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
    let own = path.iter().filter(|part| !matches!(part.as_str(), "crate" | "super" | "self"));
    base.extend(own.cloned());
    base
}

/// The statements by which a module passes on names of its parts.
fn passed_on(text: &str) -> String {
    let uses = text.match_indices("use self::").filter(|(at, _)| {
        let line = text[..*at].rsplit('\n').next().unwrap();
        line.starts_with("pub")
    });
    let statements = uses.map(|(at, _)| text[at..].split(';').next().unwrap());
    statements.map(|statement| format!("{statement};\n")).collect()
}

/// The file that a path leads to: its longest beginning that is one, or the part of that file which it passes on.
fn leads_to(
    mut path: Vec<String>,
    modules: &BTreeMap<Module, PathBuf>,
    passed_on: &BTreeMap<&Module, Vec<Vec<String>>>,
) -> Option<Module> {
    loop {
        let mut parts = (1..=path.len()).rev();
        let (module, rest) = parts.find_map(|parts| {
            let module = path[..parts].join("::");
            let (module, _) = modules.get_key_value(&module)?;
            Some((module, &path[parts..]))
        })?;
        let found = rest.first().and_then(|name| {
            let names = passed_on[module].iter();
            let mut found = names.filter(|path| path.last() == Some(name));
            found.next().filter(|found| found.len() > path.len() - rest.len() + 1)
        });
        match found {
            Some(found) => path = found.iter().chain(&rest[1..]).cloned().collect(),
            None => return Some(module.clone()),
        }
    }
}

#[test]
fn trees_of_paths_are_read() {
    let text = "use crate::{a::{B, c::D as E}, f};\nuse super::g::{self, H};\npub(in super::super) use crate::i::j(1);";
    let found: BTreeSet<String> =
        paths(text, "", "m::n").iter().map(|path| path.join("::")).collect();
    let want = ["a::B", "a::c::D", "f", "i::j", "m::g", "m::g::H"];
    assert_eq!(found, want.map(str::to_owned).into());
}
