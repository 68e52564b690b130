//! The path guard against models of servers: if a server reads a path as a disallowed one, the guard must deny the
//! path.
//!
//! A model repeats the steps of one server between the request line and the resource, in the server's own order and
//! independently of the guard. `tests/clients/guard` asks the servers themselves.

use crawlgate_robots::{ComparisonPath, GuardVerdict, Robots, RuleKind, Selection};
use proptest::prelude::*;

use super::checks::OPTIONS;

/// Returns the name of the resource that a server serves for a target; `None` if the server refuses it.
type Server = fn(&[u8]) -> Option<Vec<u8>>;

const SERVERS: &[(&str, Server)] = &[
    ("nginx", |target| {
        let name = once(before(target, b"?#"))?;
        Some(normal(&name, Empty::Merged))
    }),
    ("Apache, AllowEncodedSlashes On", |target| {
        let name = once(before(target, b"?"))?;
        Some(normal(&name, Empty::Merged))
    }),
    ("Tomcat", |target| {
        let bare = cut_parameters(before(target, b"?"));
        let name = once(&bare)?;
        Some(normal(&backslashes(&name), Empty::Merged))
    }),
    ("Jetty", |target| {
        // Jetty resolves before it decodes, and its file system resolves afterwards.
        let bare = cut_parameters(before(target, b"?"));
        let name = once(&normal(&bare, Empty::Kept))?;
        Some(normal(&name, Empty::Merged))
    }),
    ("Node, new URL and decodeURIComponent", |target| {
        let name = once(&url_path(target))?;
        Some(normal(&name, Empty::Merged))
    }),
    ("Node, decodeURIComponent and new URL", |target| Some(url_path(&once(target)?))),
    ("Express", |target| {
        let name = once(before(target, b"?"))?;
        Some(normal(&name, Empty::Merged))
    }),
    ("http.server", |target| {
        let name = once(before(before(target, b"?"), b"#"))?;
        let mut resource = normal(&name, Empty::Merged);
        // http.server ignores the slash that a final dot segment leaves.
        if !name.ends_with(b"/") && resource.len() > 1 {
            resource = resource.strip_suffix(b"/").map_or(resource.clone(), <[u8]>::to_vec);
        }
        Some(resource)
    }),
    ("WSGI, PATH_INFO as it is", |target| once(before(target, b"?"))),
    ("Go, ServeMux", |target| {
        let name = once(before(target, b"?"))?;
        Some(normal(&name, Empty::Merged))
    }),
    ("Bottle", |target| {
        let name = once(before(target, b"?"))?;
        let chunks = name.utf8_chunks().map(|chunk| chunk.valid());
        Some(normal(chunks.collect::<String>().as_bytes(), Empty::Merged))
    }),
    ("CherryPy", |target| {
        let name = once(before(target, b"?"))?;
        let of_latin1 = || name.iter().map(|octet| char::from(*octet)).collect();
        let name = str::from_utf8(&name).map_or_else(|_| of_latin1(), str::to_owned);
        Some(normal(name.as_bytes(), Empty::Merged))
    }),
    ("Jetty, code points", |target| {
        let bare = cut_parameters(before(target, b"?"));
        let name = String::from_utf8_lossy(&bare).into_owned();
        // The escapes of one octet are decoded afterwards, and those of a code point are no escapes then.
        let escapes = name.replace("%u002f", "%2F").replace("%u0061", "%61");
        Some(normal(&once(escapes.as_bytes())?, Empty::Merged))
    }),
    ("Node, decodeURIComponent and url.parse", |target| {
        let url = String::from_utf8(once(target)?).ok()?;
        let is_space = |one: char| one.is_whitespace() || one == '\u{feff}';
        Some(before(url.trim_matches(is_space).as_bytes(), b"?#").to_vec())
    }),
    ("h2o", |target| {
        let name = once(before(target, b"?"))?;
        Some(normal(before(&name, b"\0"), Empty::Merged))
    }),
    ("CivetWeb", |target| {
        let name = once(before(target, b"?"))?;
        let resolved = normal(&name, Empty::Merged);
        let segments = resolved.split(|octet| *octet == b'/');
        let bare = segments.map(|segment| {
            let dots = segment.iter().rev().take_while(|octet| **octet == b'.');
            &segment[..segment.len() - dots.count()]
        });
        Some(normal(&bare.collect::<Vec<_>>().join(&b'/'), Empty::Merged))
    }),
    ("two servers in a row that decode", |target| {
        let name = normal(&once(before(target, b"?"))?, Empty::Merged);
        Some(normal(&once(&name)?, Empty::Merged))
    }),
    ("a proxy that resolves, then Tomcat", |target| {
        let seen = normal(before(target, b"?"), Empty::Kept);
        let bare = cut_parameters(&seen);
        Some(normal(&once(&bare)?, Empty::Merged))
    }),
    ("Tomcat behind a proxy that decodes", |target| {
        let name = once(before(target, b"?"))?;
        Some(normal(&cut_parameters(&name), Empty::Merged))
    }),
];

fn before<'a>(text: &'a [u8], ends: &[u8]) -> &'a [u8] {
    let end = text.iter().position(|octet| ends.contains(octet));
    &text[..end.unwrap_or(text.len())]
}

/// Decodes every escape once; `None` if one is cut off.
fn once(text: &[u8]) -> Option<Vec<u8>> {
    let mut made = Vec::new();
    let mut rest = text;
    while let [first, after @ ..] = rest {
        rest = if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            made.push(u8::from_str_radix(digits, 16).ok()?);
            &after[2..]
        } else {
            made.push(*first);
            after
        };
    }
    Some(made)
}

fn cut_parameters(path: &[u8]) -> Vec<u8> {
    let segments = path.split(|octet| *octet == b'/');
    let bare: Vec<&[u8]> = segments.map(|segment| before(segment, b";")).collect();
    bare.join(&b'/')
}

fn backslashes(path: &[u8]) -> Vec<u8> {
    let slash = |octet: &u8| if *octet == b'\\' { b'/' } else { *octet };
    path.iter().map(slash).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Empty {
    Merged,
    Kept,
}

/// Resolves dot segments; a folder keeps its slash.
fn normal(path: &[u8], empty: Empty) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let segments: Vec<&[u8]> = path.split(|octet| *octet == b'/').skip(1).collect();
    for (at, segment) in segments.iter().enumerate() {
        let is_last = at + 1 == segments.len();
        match *segment {
            b"." => {}
            b".." => drop(kept.pop()),
            b"" if empty == Empty::Merged || is_last => {}
            name => kept.push(name),
        }
    }
    let last = segments.last().copied().unwrap_or_default();
    let mut made: Vec<u8> = kept.iter().flat_map(|name| [b"/", *name].concat()).collect();
    if matches!(last, b"" | b"." | b"..") || made.is_empty() {
        made.push(b'/');
    }
    made
}

/// Returns the URL Standard's path of a reference against an http base.
fn url_path(target: &[u8]) -> Vec<u8> {
    let is_space = |octet: &u8| *octet <= b' ';
    let end = target.iter().rposition(|octet| !is_space(octet));
    let url: Vec<u8> = target[..end.map_or(0, |at| at + 1)]
        .iter()
        .copied()
        .filter(|octet| !matches!(octet, b'\t' | b'\n' | b'\r'))
        .collect();
    let path = backslashes(before(&url, b"?#"));
    let path = if path.starts_with(b"//") {
        let behind: Vec<u8> = path.iter().copied().skip_while(|octet| *octet == b'/').collect();
        let host = before(&behind, b"/").len();
        behind[host..].to_vec()
    } else {
        path
    };
    // The URL Standard reads `%2e` as a dot.
    let dots = String::from_utf8_lossy(&path).replace("%2e", ".").replace("%2E", ".");
    normal(dots.as_bytes(), Empty::Kept)
}

/// Returns the plain URL of a resource.
fn canonical(resource: &[u8]) -> Vec<u8> {
    let mut url = Vec::new();
    for octet in resource {
        match octet {
            b'?' | b'#' | b'%' | b'\\' => url.extend(format!("%{octet:02X}").bytes()),
            _ => url.push(*octet),
        }
    }
    url
}

/// Returns the same URL with the query of a target. An empty query does not make another URL.
fn plain(resource: &[u8], target: &str) -> Vec<u8> {
    match target.split_once('?') {
        Some((_, query)) if !query.is_empty() => {
            [&canonical(resource)[..], b"?", query.as_bytes()].concat()
        }
        _ => canonical(resource),
    }
}

fn is_denied(rules: &[String], target: &[u8], with_guard: bool) -> bool {
    let text = format!("user-agent: *\n{}\n", rules.join("\n"));
    let rules = Robots::parse(text.as_bytes(), OPTIONS).rules(Selection::Global);
    let path = ComparisonPath::new(target);
    let is_disallowed = rules.verdict(&path).is_some_and(|rule| rule.kind == RuleKind::Disallow);
    is_disallowed || with_guard && !matches!(rules.guard(&path), GuardVerdict::Allowed)
}

const SPELLING: &[&str] = &[
    "/",
    "/",
    "/",
    "a",
    "b",
    "c.x",
    "a/b",
    ".",
    "..",
    "/./",
    "/../",
    "//",
    "%2F",
    "%2f",
    "%5C",
    "\\",
    "%252F",
    "%2e",
    "%252e",
    ";",
    ";p=1",
    "%3B",
    "%61",
    "%2561",
    "..;",
    "?",
    "?q",
    ":",
    "%3A",
    "@",
    "%40",
    "%25",
    "%",
    "/;x/",
    "%80",
    "%C3%A9",
    "%E9",
    "%09",
    "%0D",
    "%00",
    "%01",
    "%u002f",
    "%u0061",
    "./",
    "%EF%BB%BF",
];

prop_compose! {
    fn target()(pieces in prop::collection::vec(prop::sample::select(SPELLING), 0..10)) -> String {
        format!("/{}", pieces.concat())
    }
}

fn rule() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        4 => "(/(a|b|c\\.x)){1,3}[/$]?",
        1 => "/(a|b)\\*[ab]\\$?",
        1 => "/\\*\\.x\\$?",
        1 => "/(a:b|b@a)",
        1 => "/(a|b)é/?",
        1 => Just("/".to_owned()),
        1 => "//a/b",
    ];
    (prop::bool::weighted(0.3), value).prop_map(|(allows, value)| {
        let field = if allows { "allow" } else { "disallow" };
        format!("{field}: {value}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_path_that_a_server_reads_as_a_disallowed_one_is_denied(
        rules in prop::collection::vec(rule(), 1..5),
        target in target(),
        escaped in prop::collection::vec(any::<bool>(), 5),
    ) {
        // The author may have written reserved characters as their escapes.
        let spelled: Vec<String> = rules.iter().zip(&escaped).map(|(rule, is_escaped)| {
            let (field, value) = rule.split_once(": ").unwrap();
            let (first, rest) = value.split_at(1);
            match *is_escaped && !value.contains('*') {
                true => format!("{field}: {first}{}", rest.replace('/', "%2F").replace(':', "%3a").replace('@', "%40")),
                false => rule.clone(),
            }
        }).collect();
        for (server, serve) in SERVERS {
            let Some(resource) = serve(target.as_bytes()).filter(|name| name.starts_with(b"/")) else {
                continue;
            };
            if is_denied(&rules, &plain(&resource, &target), false) {
                prop_assert!(
                    is_denied(&rules, target.as_bytes(), true) && is_denied(&spelled, target.as_bytes(), true),
                    "{server} serves {} for {target} {spelled:?}", String::from_utf8_lossy(&resource)
                );
            }
        }
    }
}

#[test]
fn without_the_guard_every_server_is_fooled() {
    // Otherwise the property above would prove nothing about the guard.
    let rules =
        ["disallow: /a/b".to_owned(), "disallow: /c.x$".to_owned(), "disallow: /café".to_owned()];
    let spellings = [
        "/a%2Fb",
        "/a/./b",
        "/a;x/b",
        "//h/a/b",
        "/a%252Fb",
        "/x/..;/a/b",
        "/x/..%2Fa/b",
        "/c.x/.",
        "/x/../a/b",
        "/a%3Bx/b",
        "/a%80/b",
        "/a%u002fb",
        "/a./b",
        "/c.x%00",
        "/c.x%EF%BB%BF",
        "/caf%E9",
    ];
    for (server, serve) in SERVERS {
        let passed = spellings.iter().filter(|target| {
            let resource = serve(target.as_bytes());
            resource.is_some_and(|resource| is_denied(&rules, &canonical(&resource), false))
                && !is_denied(&rules, target.as_bytes(), false)
        });
        assert!(passed.count() > 0, "{server}");
    }
}
