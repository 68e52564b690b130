//! The steps that servers take with octets that are no character of a plain path, and with escapes of characters.
//!
//! They apply to comparison forms, in which such octets always stand as escapes, and some of them to the values of rules.
//!
//! The parts of a comparison form, and its escapes.

use memchr::{memchr, memchr_iter};

use crate::path::{Unit, digit, is_unreserved};

/// Tells whether any step of this module changes a form.
pub(super) fn is_changed(path: &[u8], query: &[u8]) -> bool {
    !is_utf8(path)
        || has_final_dots(path)
        || has_escape(path, |octet, _| octet.is_ascii_control())
        || has_escape(query, |octet, _| is_break(octet))
        || has_code_point(path)
        || has_code_point(query)
        || [path, query].iter().any(|part| without_final_space(part).len() < part.len())
}

/// Tells whether a form holds a `%uXXXX`.
pub(super) fn has_code_point(form: &[u8]) -> bool {
    memchr_iter(b'%', form).any(|at| form.get(at..).and_then(code_point).is_some())
}

/// Tells whether the escapes of octets from 0x80 on form UTF-8.
fn is_utf8(mut rest: &[u8]) -> bool {
    while let Some(from) = memchr(b'%', rest).and_then(|at| rest.get(at..)) {
        rest = match escape(from) {
            Some((0..0x80, after)) => after,
            Some(_) => match character(from) {
                Some(after) => after,
                None => return false,
            },
            None => from.get(1..).unwrap_or_default(),
        };
    }
    true
}

/// Returns the rest behind the escapes of one UTF-8 character.
fn character(mut rest: &[u8]) -> Option<&[u8]> {
    let mut octets = [0; 4];
    for at in 0..octets.len() {
        let (octet, after) = escape(rest)?;
        *octets.get_mut(at)? = octet;
        rest = after;
        if str::from_utf8(octets.get(..=at)?).is_ok() {
            return Some(rest);
        }
    }
    None
}

/// Returns the form without the octets of its path that form no UTF-8, as Bottle reads it.
pub(super) fn without_strays(form: &[u8]) -> Option<Vec<u8>> {
    rewritten_path(form, |run, made| {
        for octet in run.utf8_chunks().flat_map(|chunk| chunk.valid().bytes()) {
            Unit::Escaped(octet).write(made);
        }
    })
}

/// Returns the form with its path read as ISO-8859-1, as CherryPy and Jetty read what is no UTF-8.
pub(super) fn of_latin1(form: &[u8]) -> Option<Vec<u8>> {
    rewritten_path(form, |run, made| {
        run.iter().for_each(|octet| write(char::from(*octet), made));
    })
}

/// Writes each run of octets from 0x80 on anew, if those of the path form no UTF-8.
fn rewritten_path(form: &[u8], mut write: impl FnMut(&[u8], &mut Vec<u8>)) -> Option<Vec<u8>> {
    let (path, query) = parts(form);
    if is_utf8(path) {
        return None;
    }
    let mut made = Vec::with_capacity(form.len());
    let mut run = Vec::new();
    let mut rest = path;
    while let Some((first, behind)) = rest.split_first() {
        if let Some((octet @ 0x80.., after)) = escape(rest) {
            run.push(octet);
            rest = after;
            continue;
        }
        write(&run, &mut made);
        run.clear();
        made.push(*first);
        rest = behind;
    }
    write(&run, &mut made);
    made.extend_from_slice(query);
    Some(made)
}

/// Writes a character as comparison forms spell it.
fn write(character: char, made: &mut Vec<u8>) {
    for octet in character.encode_utf8(&mut [0; 4]).bytes() {
        if is_unreserved(octet) {
            made.push(octet);
        } else {
            Unit::Escaped(octet).write(made);
        }
    }
}

/// Tells whether the URL Standard and Python's `urlsplit` remove an octet from a URL.
fn is_break(octet: u8) -> bool {
    matches!(octet, b'\t' | b'\n' | b'\r')
}

/// Returns the form without tabs and line ends.
pub(super) fn without_breaks(form: &[u8]) -> Option<Vec<u8>> {
    if !has_escape(form, |octet, _| is_break(octet)) {
        return None;
    }
    let mut made = Vec::with_capacity(form.len());
    let mut rest = form;
    while let Some((first, behind)) = rest.split_first() {
        rest = match escape(rest) {
            Some((octet, after)) if is_break(octet) => after,
            _ => {
                made.push(*first);
                behind
            }
        };
    }
    Some(made)
}

/// Returns the path before a NUL, where text ends in C, with the query behind it.
pub(super) fn before_nul(form: &[u8]) -> Option<Vec<u8>> {
    let (path, query) = parts(form);
    let end = place(path, b"%00")?;
    Some([path.get(..end)?, query].concat())
}

/// Returns the form with its `%uXXXX` as escapes of octets, as Jetty 9 and ASP read it. A server in front may have decoded
/// its `%`.
pub(super) fn with_code_points(form: &[u8]) -> Option<Vec<u8>> {
    if !has_code_point(form) {
        return None;
    }
    let mut made = Vec::with_capacity(form.len());
    let mut rest = form;
    while let Some((first, behind)) = rest.split_first() {
        rest = match code_point(rest) {
            Some((character, after)) => {
                write(character, &mut made);
                after
            }
            None => {
                made.push(*first);
                behind
            }
        };
    }
    Some(made)
}

/// Returns the character of the `%uXXXX` that `rest` begins with, and the rest behind it.
fn code_point(rest: &[u8]) -> Option<(char, &[u8])> {
    let behind = rest.strip_prefix(b"%")?;
    let behind = behind.strip_prefix(b"25").unwrap_or(behind);
    let [b'u' | b'U', digits @ ..] = behind else {
        return None;
    };
    let (digits, after) = digits.split_first_chunk::<4>()?;
    let add = |value, octet: &u8| Some(value << 4 | u32::from(digit(*octet)?));
    let value = digits.iter().try_fold(0, add)?;
    Some((char::from_u32(value)?, after))
}

/// Tells whether a segment other than a dot segment ends in a dot.
fn has_final_dots(path: &[u8]) -> bool {
    path.split(|octet| *octet == b'/').any(|segment| without_dots(segment).len() < segment.len())
}

/// Returns a segment without the dots at its end. Dot segments stay.
fn without_dots(segment: &[u8]) -> &[u8] {
    let mut bare = segment;
    if segment == b"." || segment == b".." {
        return segment;
    }
    while let Some(before) = bare.strip_suffix(b".") {
        bare = before;
    }
    bare
}

/// Returns the form without dots at the end of its segments, as CivetWeb and Windows read it.
pub(super) fn without_final_dots(form: &[u8]) -> Option<Vec<u8>> {
    let (path, query) = parts(form);
    if !has_final_dots(path) {
        return None;
    }
    let segments: Vec<&[u8]> = path.split(|octet| *octet == b'/').map(without_dots).collect();
    let mut made = segments.join(&b'/');
    made.extend_from_slice(query);
    Some(made)
}

/// Returns the form without white space and controls at the end of its path.
pub(super) fn without_space_of_path(form: &[u8]) -> Option<Vec<u8>> {
    let (path, query) = parts(form);
    let bare = without_final_space(path);
    (bare.len() < path.len()).then(|| [bare, query].concat())
}

/// Returns the form without white space and controls at the end of its query.
pub(super) fn without_space_of_query(form: &[u8]) -> Option<Vec<u8>> {
    let (path, query) = parts(form);
    let bare = without_final_space(query);
    (bare.len() < query.len()).then(|| [path, bare].concat())
}

/// Returns a text without the escaped white space and controls at its end.
///
/// Servers that read a line as Latin-1 split it at two octets that are parts of characters in UTF-8. A run of those
/// octets is white space unless another octet from 0x80 on precedes it.
pub(super) fn without_final_space(text: &[u8]) -> &[u8] {
    let mut bare = text;
    let mut rest = text;
    loop {
        if let Some(before) = before_final_space(rest) {
            (bare, rest) = (before, before);
            continue;
        }
        match last_octets(rest, 1) {
            Some((before, [0x85 | 0xA0, _, _])) => rest = before,
            Some((_, [octet, _, _])) if octet >= 0x80 => return bare,
            _ => return rest,
        }
    }
}

/// Returns what precedes the escaped white space, control or U+FEFF at the end of a text.
fn before_final_space(text: &[u8]) -> Option<&[u8]> {
    (1..=3).find_map(|count| {
        let (before, octets) = last_octets(text, count)?;
        let mut characters = str::from_utf8(octets.get(..count)?).ok()?.chars();
        let (one, None) = (characters.next()?, characters.next()) else {
            return None;
        };
        (one.is_whitespace() || one.is_ascii_control() || one == '\u{feff}').then_some(before)
    })
}

/// Returns the octets of the last `count` escapes of a text that ends in so many, and what precedes them.
fn last_octets(text: &[u8], count: usize) -> Option<(&[u8], [u8; 3])> {
    let (before, mut rest) = text.split_at_checked(text.len().checked_sub(3 * count)?)?;
    let mut octets = [0; 3];
    for octet in octets.iter_mut().take(count) {
        (*octet, rest) = escape(rest)?;
    }
    Some((before, octets))
}

/// Returns a rule's value with its octets from 0x80 on read as ISO-8859-1, unless they are UTF-8.
pub(in super::super) fn latin1_value(value: &[u8]) -> Option<Vec<u8>> {
    value.iter().find(|octet| matches!(octet, b'%' | 0x80..))?;
    // Raw octets and escapes, as paths hold them.
    let mut octets = Vec::with_capacity(value.len());
    let mut made = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((first, behind)) = rest.split_first() {
        let (octet, after) = escape(rest).unwrap_or((*first, behind));
        octets.push(octet);
        match octet {
            0x80.. => write(char::from(octet), &mut made),
            _ => made.extend_from_slice(rest.get(..rest.len() - after.len()).unwrap_or_default()),
        }
        rest = after;
    }
    str::from_utf8(&octets).is_err().then_some(made)
}

/// Splits a form into its path and its query with the `?`.
pub(super) fn parts(form: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr(b'?', form).unwrap_or(form.len());
    form.split_at_checked(end).unwrap_or((form, b""))
}

/// Returns the octet of the escape that `rest` begins with, and the rest behind it.
pub(super) fn escape(rest: &[u8]) -> Option<(u8, &[u8])> {
    let [b'%', high, low, after @ ..] = rest else {
        return None;
    };
    Some((digit(*high)? << 4 | digit(*low)?, after))
}

/// Returns the first place of an escape.
pub(super) fn place(text: &[u8], escape: &[u8; 3]) -> Option<usize> {
    memchr_iter(b'%', text).find(|at| text.get(*at..).is_some_and(|rest| rest.starts_with(escape)))
}

/// Tells whether the text holds an escape that satisfies `is_it`, which gets its octet and the rest behind it.
pub(super) fn has_escape(text: &[u8], is_it: impl Fn(u8, &[u8]) -> bool) -> bool {
    memchr_iter(b'%', text)
        .filter_map(|at| escape(text.get(at..)?))
        .any(|(octet, after)| is_it(octet, after))
}
