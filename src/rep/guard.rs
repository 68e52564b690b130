//! The path guard's question: could the origin server read this path as another one?
//!
//! Many servers resolve dot segments and merge doubled slashes before they look at a path, so
//! `/a/../private` and `//private` may be answered with what `/private` disallows. A path is
//! therefore judged both as written and as it might be read. Being one reading too careful costs
//! nothing but a denial of a path that nobody writes by accident.

use super::path::before_fragment;

/// The path as a server might read it that merges slashes and removes dot segments, query kept;
/// `None` where that changes nothing.
///
/// - Dots count encoded too (`%2e`), and with parameters (`..;x`: Tomcat). A segment of nothing but
///   parameters (`;x`) is empty.
/// - `..` at the root stays at the root. A path that ends in a dot segment ends with a slash (RFC
///   3986 section 5.2.4).
/// - The query takes no part. `%2F` is no slash; [`readings`] knows of servers that disagree.
pub fn resolved(path_and_query: &[u8]) -> Option<Vec<u8>> {
    resolve(path_and_query, Order::MergeFirst)
}

/// All other readings of a path, each once; none for almost every path.
///
/// Servers disagree on `/a//../b`: those that merge slashes first read `/b`, those that follow RFC
/// 3986 to the letter and merge later, or not at all, `/a/b`. And some decode before they resolve, or take a backslash
/// for a slash: to them `/a/..%2fb` and `/a/..\b` are `/b`, too. An encoded slash that leaves nothing to resolve makes
/// no other path (RFC 9309 section 2.2.2: `%2F` is not `/`).
pub fn readings(path_and_query: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let [merged, literal] = both_orders(path_and_query);
    let [merged_decoded, literal_decoded] =
        slashes_decoded(path_and_query).map_or([None, None], |decoded| both_orders(&decoded));
    let merged_decoded = merged_decoded.filter(|one| Some(one) != merged.as_ref());
    merged
        .into_iter()
        .chain(literal)
        .chain(merged_decoded)
        .chain(literal_decoded)
}

fn both_orders(path_and_query: &[u8]) -> [Option<Vec<u8>>; 2] {
    let merged = resolve(path_and_query, Order::MergeFirst);
    let literal = merged
        .is_some()
        .then(|| resolve(path_and_query, Order::MergeLast))
        .flatten()
        .filter(|literal| merged.as_ref() != Some(literal));
    [merged, literal]
}

/// The path with a slash for each `%2F`, `%5C` and backslash, query kept; `None` where it has none of them.
fn slashes_decoded(path_and_query: &[u8]) -> Option<Vec<u8>> {
    let end = memchr::memchr2(b'?', b'#', path_and_query).unwrap_or(path_and_query.len());
    let (path, rest) = path_and_query.split_at_checked(end)?;
    let is_slash = |from: &[u8]| {
        matches!(
            from,
            [b'\\', ..] | [b'%', b'2', b'f' | b'F', ..] | [b'%', b'5', b'c' | b'C', ..]
        )
    };
    let mut found = memchr::memchr2_iter(b'\\', b'%', path);
    if !found.any(|place| path.get(place..).is_some_and(is_slash)) {
        return None;
    }
    let mut decoded = Vec::with_capacity(path_and_query.len());
    let mut left = path;
    while let [first, after @ ..] = left {
        left = if is_slash(left) {
            decoded.push(b'/');
            match first {
                b'%' => after.get(2..).unwrap_or_default(),
                _ => after,
            }
        } else {
            decoded.push(*first);
            after
        };
    }
    decoded.extend_from_slice(rest);
    Some(decoded)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    MergeFirst,
    MergeLast,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Segment {
    Empty,
    Dot,
    DotDot,
    Name,
}

fn resolve(path_and_query: &[u8], order: Order) -> Option<Vec<u8>> {
    let whole = before_fragment(path_and_query);
    let query_start = whole
        .iter()
        .position(|octet| *octet == b'?')
        .unwrap_or(whole.len());
    let (path, query) = whole.split_at_checked(query_start)?;
    let path = path.strip_prefix(b"/")?;
    // Nearly every path: no segment but the last is empty or begins like a dot segment. Compiles to
    // vector instructions.
    let is_suspect =
        |octet: u8| (octet == b'/') | (octet == b'.') | (octet == b'%') | (octet == b';');
    let suspects = whole.iter().zip(path).fold(false, |any, (before, octet)| {
        any | ((*before == b'/') & is_suspect(*octet))
    });
    if !suspects {
        return None;
    }
    let mut segments = path.split(|octet| *octet == b'/').peekable();
    let mut is_changed = false;
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut ends_in_folder = false;
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        let kind = classify(segment);
        ends_in_folder = is_last && kind != Segment::Name;
        is_changed |= match kind {
            Segment::Name => false,
            // The empty segment after a final slash is how a folder is written.
            Segment::Empty => !(is_last && segment.is_empty()),
            Segment::Dot | Segment::DotDot => true,
        };
        match kind {
            Segment::Name => kept.push(segment),
            Segment::Empty if order == Order::MergeLast => kept.push(b""),
            Segment::Empty | Segment::Dot => {}
            Segment::DotDot => {
                kept.pop();
            }
        }
    }
    if !is_changed {
        return None;
    }
    let mut form = Vec::with_capacity(whole.len());
    for segment in kept.iter().filter(|segment| !segment.is_empty()) {
        form.push(b'/');
        form.extend_from_slice(segment);
    }
    if ends_in_folder || form.is_empty() {
        form.push(b'/');
    }
    form.extend_from_slice(query);
    Some(form)
}

fn classify(segment: &[u8]) -> Segment {
    let mut rest = segment;
    let mut dots = 0;
    loop {
        rest = match rest {
            [b'.', after @ ..] | [b'%', b'2', b'e' | b'E', after @ ..] => after,
            _ => break,
        };
        dots += 1;
    }
    match (dots, rest.first()) {
        (0, None | Some(b';')) => Segment::Empty,
        (1, None | Some(b';')) => Segment::Dot,
        (2, None | Some(b';')) => Segment::DotDot,
        _ => Segment::Name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_that_only_some_servers_see() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, &[&str])] = &[
            ("an encoded slash after dots", "/press/..%2fx", &["/x"]),
            ("dots and slash encoded", "/press/%2e%2e%2Fx", &["/x"]),
            ("a backslash", "/press/..\\x", &["/x"]),
            ("an encoded backslash", "/press/..%5cx", &["/x"]),
            ("an encoded backslash before dots", "/press%5C..%5Cx", &["/x"]),
            ("nothing but encoded slashes between", "/%2f%2e%2fx", &["/x"]),
            ("doubled by an encoded one", "/a/%2fb", &["/a/b"]),
            ("both ways", "/a//b/..%2fc", &["/a/b/..%2fc", "/a/c"]),
            ("no server reads it twice", "/a//b", &["/a/b"]),
            ("orders differ here, too", "/a//..%2fb", &["/a/..%2fb", "/b", "/a/b"]),
            ("the query is kept", "/a/..%2fb?c=%2f..\\", &["/b?c=%2f..\\"]),
            ("an escape cut off", "/a/..%2", &[]),
        ];
        for (name, path, expected) in cases {
            let found: Vec<Vec<u8>> = readings(path.as_bytes()).collect();
            let found: Vec<_> = found
                .iter()
                .map(|reading| String::from_utf8_lossy(reading))
                .collect();
            assert_eq!(found, *expected, "{name}: {path}");
        }
    }

    #[test]
    fn ours_readings() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, &[&str])] = &[
            ("nothing to resolve", "/a/b", &[]),
            ("a folder", "/a/", &[]),
            ("the root", "/", &[]),
            ("an empty path", "", &[]),
            ("a dot segment in the middle", "/a/./b", &["/a/b"]),
            ("a double dot segment in the middle", "/a/../private", &["/private"]),
            ("encoded dots", "/a/%2e%2E/private", &["/private"]),
            ("one dot encoded", "/a/.%2e/private", &["/private"]),
            ("a final double dot", "/a/b/..", &["/a/"]),
            ("a final dot", "/a/.", &["/a/"]),
            ("above the root", "/../../a", &["/a"]),
            ("nothing but dots", "/..", &["/"]),
            ("doubled slashes", "//private", &["/private"]),
            ("many slashes", "/a///b", &["/a/b"]),
            ("doubled slashes at the end", "/a//", &["/a/"]),
            ("nothing but slashes", "///", &["/"]),
            ("servers disagree on an empty segment before dots", "/a//../b", &["/b", "/a/b"]),
            ("dots with parameters", "/a/..;x=1/b", &["/b"]),
            ("a dot with parameters", "/a/.;x/b", &["/a/b"]),
            ("a segment of nothing but parameters", "/;x/private", &["/private"]),
            ("a name with parameters", "/a;x/b", &[]),
            ("the query is kept", "/a/../b?c", &["/b?c"]),
            ("the query is not resolved", "/a?b=/../c//d", &[]),
            ("the query of a resolved path neither", "//a?b=/../c//d", &["/a?b=/../c//d"]),
            ("the fragment is dropped", "//a#//b", &["/a"]),
            ("three dots are a name", "/a/.../b", &[]),
            ("a hidden file is a name", "/.well-known/x", &[]),
            ("dots within a name", "/a..b/..c/d../.e", &[]),
            ("an escape that is no dot", "/%2g%2e%2gx", &[]),
            ("an encoded slash and nothing to resolve", "/a%2Fb%5Cc", &[]),
            ("an encoded slash in the query", "/a?b=/..%2fc", &[]),
            ("an encoded slash in the fragment", "/a#/..%2fc", &[]),
            ("not a path", "*", &[]),
        ];
        for (name, path, expected) in cases {
            let found: Vec<Vec<u8>> = readings(path.as_bytes()).collect();
            let found: Vec<_> = found
                .iter()
                .map(|reading| String::from_utf8_lossy(reading))
                .collect();
            assert_eq!(found, *expected, "{name}: {path}");
            let first = resolved(path.as_bytes());
            assert_eq!(
                first.as_deref(),
                expected.first().map(|reading| reading.as_bytes()),
                "{name}: {path}"
            );
        }
    }
}
