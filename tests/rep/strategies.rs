//! Random files, rules, paths and crawlers, composed of pieces that are likely to matter.

use crawlgate_robots::ParseOptions;
use proptest::prelude::*;

use super::checks::OPTIONS;

/// Pieces of paths and patterns, chosen to collide: wildcards, escapes of each kind, and near escapes.
const PIECES: &[&str] = &[
    "/",
    "/",
    "a",
    "a",
    "b",
    "ab",
    "*",
    "*",
    "$",
    "%2A",
    "%2a",
    "%24",
    "%61",
    "%2f",
    "%",
    "%2",
    "2A",
    "24",
    "A",
    "?",
    ".",
    "ツ",
    " ",
    "%E3",
    "index.html",
    "/index.htm",
    "~",
    "%7E",
    "|",
];

/// Pieces of files: beginnings of lines, whole lines, and everything that may end or spoil one.
const SYNTAX: &[&[u8]] = &[
    b"\n",
    b"\n",
    b"\n",
    b"\r",
    b"\r\n",
    b"\nuser-agent: ",
    b"\nuser-agent: *",
    b"\nUser-Agent:a",
    b"\nuseragent a",
    b"\nuser agent: a1/2",
    b"\nallow: /",
    b"\nallow: ",
    b"\nallowed:/a",
    b"\ndisallow: /",
    b"\ndisallow:",
    b"\ndisallow /a",
    b"\nDissalow: *",
    b"\nsitemap: https://x/",
    b"\ncrawl-delay: 1",
    b"\nnoindex: /",
    b"allow",
    b"dis",
    b":",
    b":",
    b" ",
    b"\t",
    b"\x0B",
    b"\x0C",
    b"\0",
    b"#",
    b"\xEF\xBB\xBF",
    b"\xEF",
    b"\xC2\xA0",
    b"\xC2\x85",
    b"\xFF",
    b"*",
    b"$",
    b"/",
    b"/a",
    b"a",
    b"b",
    b"A",
    b"1",
    b".",
    b"-",
    b"%2A",
    b"%24",
    b"%61",
    b"index.html",
];

/// The tokens of crawlers that [`SYNTAX`] and [`lines`] name, and some others.
const TOKENS: &[&str] = &["a", "A", "b", "b9", "a1", "a1.", "ab", "x", "-", "a-b"];

fn written() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..9).prop_map(|pieces| pieces.concat())
}

pub(crate) fn value() -> impl Strategy<Value = String> {
    let start = prop::sample::select(&["/", "/", "/", "/", "*", ""][..]);
    (start, written()).prop_map(|(start, rest)| format!("{start}{rest}"))
}

pub(crate) fn path() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => written().prop_map(|rest| format!("/{rest}")),
        1 => written(),
        1 => Just("/robots.txt".to_owned()),
    ]
}

pub(crate) fn rule() -> impl Strategy<Value = String> {
    let field = prop::sample::select(&["allow", "disallow", "disallow", "Dissallow"][..]);
    (field, value()).prop_map(|(field, value)| format!("{field}: {value}"))
}

/// Generates paths that crowd together: few beginnings, few octets, many lengths.
pub(crate) fn crowded_path() -> impl Strategy<Value = String> {
    let start = prop::sample::select(&["/", "/shop/", "/aaaaaaaaaaaaaaaa"][..]);
    (start, "[ab]{0,40}").prop_map(|(start, rest)| format!("{start}{rest}"))
}

/// Generates rules for such paths, some with a star or a final dollar.
pub(crate) fn crowded_rule() -> impl Strategy<Value = String> {
    let field = prop::sample::select(&["allow", "disallow"][..]);
    let end = prop::sample::select(&["", "", "", "$", "*", "*ab", "*bab$"][..]);
    (field, crowded_path(), end).prop_map(|(field, path, end)| format!("{field}: {path}{end}"))
}

/// Generates lines of robots.txt, sensible and not.
pub(crate) fn lines() -> impl Strategy<Value = Vec<String>> {
    let name = prop::sample::select(
        &[
            "user-agent: *",
            "user-agent: a",
            "user-agent: b9",
            "user-agent: A/1.0",
            "user-agent: * and more",
            "user-agent:",
            "Useragent a",
            "sitemap: https://x/",
            "crawl-delay: 1",
            "",
            "x",
            "# x",
        ][..],
    );
    prop::collection::vec(prop_oneof![name.prop_map(str::to_owned), rule()], 0..16)
}

/// Generates an almost valid file: meaningful octets, in any order.
pub(crate) fn syntax() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        30 => prop::sample::select(SYNTAX).prop_map(<[u8]>::to_vec),
        1 => any::<u8>().prop_map(|octet| vec![octet]),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

pub(crate) fn chain() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(TOKENS), 0..4)
}

pub(crate) fn options() -> impl Strategy<Value = ParseOptions> {
    let limit = prop_oneof![3 => Just(OPTIONS.limit), 1 => 0_usize..300];
    (any::<bool>(), limit).prop_map(|(strict, limit)| ParseOptions { lenient: !strict, limit })
}
