//! Failures: outside the commands, each has a type.

use std::fs;
use std::path::Path;

use crate::{collect, crates, module, without_comments_and_tests};

/// Returns the numbers of the lines on which a `Result` begins that fails by a `String`.
fn failures_without_a_type(text: &str) -> Vec<usize> {
    let results = text.match_indices("Result<");
    let untyped = results.filter(|(at, begin)| {
        let arguments = arguments(&text[at + begin.len()..]);
        matches!(&*arguments, [_, .., "String"])
    });
    untyped.map(|(at, _)| text[..at].matches('\n').count() + 1).collect()
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
        files.extend(of_crate.into_iter().map(|file| (module(&name, &source, &file), file)));
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
