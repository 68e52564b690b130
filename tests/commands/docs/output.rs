//! Printed output beside what a page quotes.

use std::collections::BTreeSet;

use serde_json::Value;

/// Forms of text that differ from run to run: `0` is a digit, `a` a letter, all else stands for itself.
const VOLATILE: [&str; 3] =
    ["0000-00-00T00:00:00.000Z", "0000-00-00 00:00:00", "aaa, 00 aaa 0000 00:00:00 GMT"];

/// Returns whether `printed` is what the page quotes. Times, ids, digests, ports and white space may differ, and `…` stands
/// for any text.
pub(crate) fn fits(quoted: &str, printed: &str) -> bool {
    let (quoted, printed) = (steady(quoted), steady(printed));
    let mut pieces = quoted.split('…');
    let Some(mut rest) = printed.strip_prefix(pieces.next().unwrap()) else {
        return false;
    };
    let mut is_open = false;
    for piece in pieces {
        is_open = true;
        let Some(at) = rest.find(piece) else {
            return false;
        };
        rest = &rest[at + piece.len()..];
    }
    rest.is_empty() || (is_open && quoted.ends_with('…'))
}

/// Replaces text that differs from run to run by the name of its kind, and drops white space.
fn steady(text: &str) -> String {
    let mut steady = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let form = VOLATILE.iter().find_map(|form| matched(rest, form));
        let length = if let Some(length) = form {
            steady.push('T');
            length
        } else if steady.ends_with("curl/") {
            steady.push('V');
            let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
            end.unwrap_or(rest.len()).max(letter.len_utf8())
        } else if letter.is_ascii_alphanumeric() {
            let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric());
            let word = &rest[..end.unwrap_or(rest.len())];
            steady.push_str(named(word, &steady));
            word.len()
        } else {
            if !letter.is_whitespace() {
                steady.push(letter);
            }
            letter.len_utf8()
        };
        rest = &rest[length..];
    }
    steady
}

/// Returns the name of a word's kind if such words differ from run to run, or else the word.
fn named<'a>(word: &'a str, before: &str) -> &'a str {
    let is_hex = word.bytes().all(|octet| octet.is_ascii_hexdigit());
    let is_id =
        word.len() == 26 && word.bytes().all(|o| o.is_ascii_uppercase() || o.is_ascii_digit());
    let (digits, unit) = word.split_at(word.len() - 1);
    let is_number =
        |text: &str| !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
    if is_id {
        "ID"
    } else if is_hex && word.len() >= 32 {
        "HEX"
    } else if is_number(word)
        && (before.ends_with("127.0.0.1:") || before.ends_with("content-length:"))
    {
        "N"
    } else if is_number(digits) && ["s", "m", "h", "d"].contains(&unit) {
        "SPAN"
    } else {
        word
    }
}

fn matched(text: &str, form: &str) -> Option<usize> {
    let start = text.get(..form.len())?;
    let fits = start.bytes().zip(form.bytes()).all(|(octet, form)| match form {
        b'0' => octet.is_ascii_digit(),
        b'a' if form != octet => octet.is_ascii_alphabetic(),
        _ => octet == form,
    });
    fits.then_some(form.len())
}

/// Returns the fields of a record, inner ones as `outer.inner`.
pub(crate) fn fields(record: &Value) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    for (name, value) in record.as_object().unwrap() {
        fields.insert(name.clone());
        let inner = value.as_object().into_iter().flatten();
        fields.extend(inner.map(|(inner, _)| format!("{name}.{inner}")));
    }
    fields
}

#[test]
fn only_what_differs_from_run_to_run_may_differ() {
    let page = "2026-11-20 17:10:33  01M7WZ0F01000000QV2AFQMCPZ  403 http://127.0.0.1:8000/ in 23h key be8b…\n";
    let real = "2026-11-22 06:05:34  01M80XR9H3000000KDT2Z9TS2Z 403 http://127.0.0.1:41234/ in 9h key be8b1612 (x)\n";
    assert!(fits(page, real));
    assert!(!fits(page, &real.replace("403", "200")));
    assert!(!fits("one\ntwo\n", "one\n"));
    assert!(!fits("one\n", "one\ntwo\n"));
    assert!(fits("by curl/7.88.1\n", "by curl/8.5.0\n"));
    assert!(fits("one\n…\nfour\n", "one\ntwo\nthree\nfour\n"));
    assert!(!fits("one\n…\nfour\n", "one\ntwo\nthree\nfour\nfive\n"));
    assert!(fits("date: Fri, 20 Nov 2026 17:10:33 GMT", "date: Sun, 22 Nov 2026 06:05:34 GMT"));
}
