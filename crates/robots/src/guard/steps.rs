//! The single steps that servers take. Each returns another comparison form, or nothing if it changes nothing.

use memchr::{memchr, memchr2, memmem};

use super::Punctuation;
use super::octets::{self, without_final_space};
use super::octets::{escape, has_escape, parts, place};
use super::query::ESCAPED_SLASH;
use crate::path::{Unit, digit, is_encoded};

/// The number of times that escapes are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoding {
    Once,
    /// An escaped `%` before two hex digits begins an escape, too (`%252F`).
    Twice,
}

/// The treatment of empty segments when dot segments are resolved. Servers disagree on `/a//../b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Removed first: `/b`.
    MergeFirst,
    /// Removed last: `..` removes an empty segment, as in RFC 3986 section 5.2.4, which leaves `/a/b`.
    MergeLast,
    /// Kept: `/x//a/../b` becomes `/x//b`.
    Keep,
}

/// Tells whether decoding an octet's escape makes another character. `?`, `#` and `%` keep their escapes: once decoded
/// they would begin a query, a fragment or an escape. Characters that are always compared as escapes keep theirs, too.
const fn is_decoded(octet: u8) -> bool {
    !is_encoded(octet) & (octet != b'?') & (octet != b'#') & (octet != b'%')
}

/// The same in a query, where the separators of names and values keep their escapes: servers split a query before they
/// decode it.
const fn is_decoded_in_query(octet: u8) -> bool {
    is_decoded(octet) & (octet != b'&') & (octet != b'=') & (octet != b'+') & (octet != b';')
}

/// Tells whether decoding changes nothing.
pub(super) fn is_stable(form: &[u8], kept: Punctuation) -> bool {
    let (path, query) = parts(form);
    !octets::has_code_point(form)
        && !has_escape(path, |octet, _| is_decoded(octet) && !kept.holds(octet))
        && !has_escape(query, |octet, _| is_decoded_in_query(octet) && !kept.holds(octet))
}

/// Tells whether any step changes a form. Most escapes stand for spaces and other scripts, which no step changes.
pub(super) fn is_changed_by_a_step(form: &[u8]) -> bool {
    let (path, query) = parts(form);
    let begins_escape = |after: &[u8]| {
        let digits = after.first_chunk::<2>();
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    memchr(b';', path).is_some()
        || has_odd_segment(path)
        || query == b"?"
        || is_file_with_slash(form)
        || has_escape(path, |octet, after| {
            is_decoded(octet)
                || matches!(octet, b'\\' | b'?' | b'#')
                || octet == b'%' && begins_escape(after)
        })
        || has_escape(query, |octet, _| is_decoded_in_query(octet))
        || octets::is_changed(path, query)
}

/// Returns the form with its escapes decoded. The query is decoded only once: an escape encoded twice there is data. A slash
/// that it hides is marked.
pub(super) fn decoded(form: &[u8], decoding: Decoding, kept: Punctuation) -> Option<Vec<u8>> {
    memchr(b'%', form)?;
    let (path, query) = parts(form);
    let mut made = Vec::with_capacity(form.len());
    let in_path = |octet| (is_decoded(octet) && !kept.holds(octet)).then_some(octet);
    let in_query = |octet| match octet {
        b'/' if !kept.holds(octet) => Some(ESCAPED_SLASH),
        _ => (is_decoded_in_query(octet) && !kept.holds(octet)).then_some(octet),
    };
    let path_changes = decode(path, decoding, in_path, &mut made);
    let query_changes = decode(query, Decoding::Once, in_query, &mut made);
    (path_changes || query_changes).then_some(made)
}

fn decode(
    mut rest: &[u8],
    decoding: Decoding,
    decoded: impl Fn(u8) -> Option<u8>,
    made: &mut Vec<u8>,
) -> bool {
    let mut is_changed = false;
    while let Some((before, from)) = memchr(b'%', rest).and_then(|at| rest.split_at_checked(at)) {
        made.extend_from_slice(before);
        let Some((mut octet, mut after)) = escape(from) else {
            made.push(b'%');
            rest = from.get(1..).unwrap_or_default();
            continue;
        };
        if decoding == Decoding::Twice
            && octet == b'%'
            && let [high, low, behind @ ..] = after
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            (octet, after) = (high << 4 | low, behind);
            is_changed = true;
        }
        match decoded(octet) {
            Some(octet) => {
                is_changed = true;
                made.push(octet);
            }
            None => Unit::Escaped(octet).write(made),
        }
        rest = after;
    }
    made.extend_from_slice(rest);
    is_changed
}

/// Returns a rule's value with its escapes decoded as those of a path are; `None` if that changes nothing.
///
/// `%2A` and `%24` stay: they mean characters, and match both spellings anyway. A piece between two stars, or behind
/// the last one, without a letter or digit (`/*%2F`) is about a spelling, not a resource: decoded, it would match
/// nearly everything.
///
/// A backslash in a rule's path becomes a slash: a server that takes one for the other serves one resource for both. A
/// `%uXXXX` becomes its character. The escapes of `kept` stay.
pub(in super::super) fn decoded_value(value: &[u8], kept: Punctuation) -> Option<Vec<u8>> {
    memchr2(b'%', b'\\', value)?;
    let read = octets::with_code_points(value);
    let mut is_changed = read.is_some();
    let value = read.as_deref().unwrap_or(value);
    let mut made = Vec::with_capacity(value.len());
    let mut is_query = false;
    for (at, piece) in value.split(|octet| *octet == b'*').enumerate() {
        if at > 0 {
            made.push(b'*');
        }
        let is_kept = |octet: u8| matches!(octet, b'*' | b'$') || kept.holds(octet);
        let start = made.len();
        let (path, query) = if is_query { (&b""[..], piece) } else { parts(piece) };
        is_query |= !query.is_empty();
        let mut changes = spell(
            path,
            |octet| match octet {
                b'\\' => Some(b'/'),
                _ => (is_decoded(octet) && !is_kept(octet)).then_some(octet),
            },
            &mut made,
        );
        changes |= spell(
            query,
            |octet| (is_decoded_in_query(octet) && !is_kept(octet)).then_some(octet),
            &mut made,
        );
        let says_something = |made: &[u8]| made.iter().any(u8::is_ascii_alphanumeric);
        if changes && at > 0 && !made.get(start..).is_some_and(says_something) {
            made.truncate(start);
            made.extend_from_slice(piece);
            changes = false;
        }
        is_changed |= changes;
    }
    is_changed.then_some(made)
}

/// Appends a part of a rule's value with some of its escapes decoded and the rest as written.
fn spell(mut rest: &[u8], decoded: impl Fn(u8) -> Option<u8>, made: &mut Vec<u8>) -> bool {
    let mut is_changed = false;
    while let Some((first, behind)) = rest.split_first() {
        // A raw backslash is the only raw octet that is compared as its escape and spelled differently here.
        let unit = escape(rest).or((*first == b'\\').then_some((b'\\', behind)));
        rest = match unit.and_then(|(octet, after)| Some((decoded(octet)?, after))) {
            Some((octet, after)) => {
                // An escape of an unreserved character means the same in both spellings.
                is_changed |= !(octet.is_ascii_alphanumeric() || b"-._~".contains(&octet));
                made.push(octet);
                after
            }
            None => {
                made.push(*first);
                behind
            }
        };
    }
    is_changed
}

/// Returns the form without the part behind a `;` in each segment.
pub(super) fn without_parameters(form: &[u8]) -> Option<Vec<u8>> {
    let (path, query) = parts(form);
    memchr(b';', path)?;
    let mut made = Vec::with_capacity(form.len());
    let mut rest = path;
    while let Some((before, from)) = memchr(b';', rest).and_then(|at| rest.split_at_checked(at)) {
        made.extend_from_slice(before);
        let end = memchr(b'/', from).unwrap_or(from.len());
        rest = from.get(end..).unwrap_or_default();
    }
    made.extend_from_slice(rest);
    made.extend_from_slice(query);
    Some(made)
}

/// Returns the form with a slash for each backslash.
pub(super) fn with_slashes(form: &[u8]) -> Option<Vec<u8>> {
    const BACKSLASH: &[u8; 3] = b"%5C";
    let (path, query) = parts(form);
    place(path, BACKSLASH)?;
    let mut made = Vec::with_capacity(form.len());
    let mut rest = path;
    while let Some((before, from)) = place(rest, BACKSLASH).and_then(|at| rest.split_at_checked(at))
    {
        made.extend_from_slice(before);
        made.push(b'/');
        rest = from.get(BACKSLASH.len()..).unwrap_or_default();
    }
    made.extend_from_slice(rest);
    made.extend_from_slice(query);
    Some(made)
}

/// Returns the form behind `//host`: the URL Standard reads two or more leading slashes as the start of an authority.
pub(super) fn without_authority(form: &[u8]) -> Option<Vec<u8>> {
    let (path, query) = parts(form);
    if !path.starts_with(b"//") {
        return None;
    }
    let host = path.iter().position(|octet| *octet != b'/')?;
    let behind = path.get(host..)?;
    let rest = memchr(b'/', behind).and_then(|at| behind.get(at..));
    Some([rest.unwrap_or(b"/"), query].concat())
}

/// Returns the form with an escaped `?` as the beginning of the query: one server decodes it, and the next one finds it
/// raw.
pub(super) fn with_query(form: &[u8]) -> Option<Vec<u8>> {
    let (path, query) = parts(form);
    let at = place(path, b"%3F")?;
    let (before, after) = (path.get(..at)?, path.get(at + 3..)?);
    Some([before, b"?", after, query].concat())
}

/// Returns the form up to an escaped `#`: one server decodes it, and the next one takes it for the start of a fragment.
pub(super) fn without_fragment(form: &[u8]) -> Option<Vec<u8>> {
    let (path, _) = parts(form);
    place(path, b"%23").and_then(|at| Some(path.get(..at)?.to_vec()))
}

/// Returns the path that a second server reads after the first has decoded it into a request line: the part before a
/// line feed, without an HTTP version and without white space at its end.
pub(super) fn without_line_end(form: &[u8]) -> Option<Vec<u8>> {
    let (path, _) = parts(form);
    let line = place(path, b"%0A").and_then(|at| path.get(..at))?;
    let version = [&b"HTTP/"[..], b"HTTP%2F"]
        .into_iter()
        .filter_map(|version| memmem::rfind(line, version))
        .max();
    let before = version.and_then(|at| line.get(..at)).unwrap_or(line);
    let bare = without_final_space(before);
    // Only white space separates a version from the path.
    Some(if bare.len() < before.len() { bare.to_vec() } else { line.to_vec() })
}

/// Returns the form without a final empty query (`?`).
pub(super) fn without_empty_query(form: &[u8]) -> Option<Vec<u8>> {
    let (path, query) = parts(form);
    (query == b"?").then(|| path.to_vec())
}

/// Returns the form without its final slash.
pub(super) fn without_final_slash(form: &[u8]) -> Option<Vec<u8>> {
    let (path, query) = parts(form);
    let bare = path.strip_suffix(b"/").filter(|bare| !bare.is_empty())?;
    Some([bare, query].concat())
}

/// Tells whether the path of a form ends in a slash behind a name with a suffix, such as a file's.
pub(super) fn is_file_with_slash(form: &[u8]) -> bool {
    let (path, _) = parts(form);
    let bare = path.strip_suffix(b"/").unwrap_or_default();
    let name = bare.rsplit(|octet| *octet == b'/').next().unwrap_or_default();
    let has_suffix = |name: &[u8]| memchr(b'.', name).is_some();
    name.get(1..).is_some_and(has_suffix) && name != b".."
}

/// Returns the form without dot segments and, depending on `order`, without empty segments. `..` at the root stays at
/// the root. A dot segment at the end leaves a slash in its place (RFC 3986 section 5.2.4).
pub(super) fn resolved(form: &[u8], order: Order) -> Option<Vec<u8>> {
    let (path, query) = parts(form);
    let inner = path.strip_prefix(b"/").filter(|_| has_odd_segment(path))?;
    let mut has_dots = false;
    let mut has_empty = false;
    let mut ends_in_slash = false;
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut segments = inner.split(|octet| *octet == b'/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            b"." | b".." => {
                has_dots = true;
                ends_in_slash = is_last;
                if segment == b".." {
                    kept.pop();
                }
            }
            // The empty segment after a final slash marks a folder.
            b"" if is_last => ends_in_slash = true,
            b"" => {
                has_empty = true;
                if order != Order::MergeFirst {
                    kept.push(segment);
                }
            }
            name => kept.push(name),
        }
    }
    if !has_dots && (!has_empty || order != Order::MergeFirst) {
        return None;
    }
    let mut made = Vec::with_capacity(form.len());
    for segment in kept {
        if order == Order::Keep || !segment.is_empty() {
            made.push(b'/');
            made.extend_from_slice(segment);
        }
    }
    if ends_in_slash || made.is_empty() {
        made.push(b'/');
    }
    made.extend_from_slice(query);
    Some(made)
}

/// Tells whether the last segment of the path is a dot segment.
pub(super) fn ends_in_dot_segment(form: &[u8]) -> bool {
    let (path, _) = parts(form);
    path.ends_with(b"/.") || path.ends_with(b"/..")
}

/// Tells whether any segment is empty or begins with a dot. Compiles to vector instructions.
fn has_odd_segment(path: &[u8]) -> bool {
    let after = path.get(1..).unwrap_or_default();
    path.iter().zip(after).fold(false, |any, (before, octet)| {
        any | ((*before == b'/') & ((*octet == b'/') | (*octet == b'.')))
    })
}
