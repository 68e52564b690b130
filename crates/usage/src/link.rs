//! Licences in the Link field (RFC 8288): links of the relation `license` and the type of RSL.
//!
//! Lenient: a link that does not parse is passed over up to the next comma outside quotes, because Link serves many
//! other uses. A link with an `anchor` is about another resource.

use super::statement::{cut, trimmed};

/// The media type of RSL.
const RSL: &[u8] = b"application/rsl+xml";

/// Returns the targets of the licences in a field, as written.
pub(super) fn licenses(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = field;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            if let Some(target) = license(&mut rest) {
                return Some(target);
            }
        }
        None
    })
}

/// Takes a link off the rest of a field. Returns its target if it names a licence of RSL.
fn license<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (link, mut separator) = piece(rest);
    let target = target(trimmed(link)).filter(|_| separator == Some(b';'));
    let (mut relation, mut media_type, mut is_anchored) = (None, None, false);
    while separator == Some(b';') {
        let parameter;
        (parameter, separator) = piece(rest);
        let (name, value) = cut(parameter, b'=').unwrap_or((parameter, &[]));
        let (name, value) = (trimmed(name), trimmed(value));
        // Of a repeated parameter the first counts (RFC 8288 section 3).
        if name.eq_ignore_ascii_case(b"rel") {
            relation.get_or_insert(unquoted(value));
        } else if name.eq_ignore_ascii_case(b"type") {
            media_type.get_or_insert(unquoted(value));
        } else {
            is_anchored |= name.eq_ignore_ascii_case(b"anchor");
        }
    }
    let is_license = |one: &[u8]| one.eq_ignore_ascii_case(b"license");
    let mut relations = relation?.split(|octet| matches!(octet, b' ' | b'\t'));
    let is_rsl = media_type?.eq_ignore_ascii_case(RSL);
    target.filter(|_| is_rsl && !is_anchored && relations.any(is_license))
}

/// Returns the target of a link without its parameters.
fn target(link: &[u8]) -> Option<&[u8]> {
    let (target, behind) = cut(link.strip_prefix(b"<")?, b'>')?;
    behind.is_empty().then(|| trimmed(target))
}

/// Takes a piece off the rest of a field: up to the first comma or semicolon outside quotes and angle brackets, which is
/// returned, too. Quotes and brackets without an end reach to that of the field.
fn piece<'a>(rest: &mut &'a [u8]) -> (&'a [u8], Option<u8>) {
    let whole = *rest;
    let end = end(whole).unwrap_or(whole.len());
    let (piece, after) = whole.split_at_checked(end).unwrap_or((whole, &[]));
    *rest = after.get(1..).unwrap_or_default();
    (piece, after.first().copied())
}

/// Returns the place of the first comma or semicolon outside quotes and angle brackets.
fn end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match text.get(at)? {
            b',' | b';' => return Some(at),
            b'"' => at = end_of_quoted(text, at + 1)?,
            b'<' => at += memchr::memchr(b'>', text.get(at..)?)?,
            _ => {}
        }
        at += 1;
    }
}

/// Returns the place of the quote that ends a text that is quoted from this place on.
fn end_of_quoted(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        match text.get(at)? {
            b'"' => return Some(at),
            _ => at += 2,
        }
    }
}

/// Returns a value without its quotes. Neither word that is looked for needs an escape.
fn unquoted(value: &[u8]) -> &[u8] {
    let quoted = value.strip_prefix(b"\"");
    quoted.and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_has_its_relation_and_its_type() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[&str])] = &[
            ("<https://a.example/l>; rel=license; type=\"application/rsl+xml\"", &["https://a.example/l"]),
            ("<a>;REL=\"next License\";TYPE=application/RSL+xml", &["a"]),
            ("</s.css>; rel=preload, <a>; rel=license; type=\"application/rsl+xml\" , <b>;type=\"application/rsl+xml\";rel=license", &["a", "b"]),
            ("<a,b;c>; title=\"x, <y>; \\\" z\"; rel=license; type=\"application/rsl+xml\"", &["a,b;c"]),
            ("<a>; rel=license", &[]),
            ("<a>; rel=license; type=\"text/html\"", &[]),
            ("<a>; rel=license; rel=next; type=\"application/rsl+xml\"", &["a"]),
            ("<a>; rel=next; rel=license; type=\"application/rsl+xml\"", &[]),
            ("<a>; rel=license; type=\"application/rsl+xml\"; anchor=\"/b\"", &[]),
            ("<a>; rel=relicense; type=\"application/rsl+xml\"", &[]),
            ("a; rel=license; type=\"application/rsl+xml\"", &[]),
            ("<a; rel=license; type=\"application/rsl+xml\"", &[]),
            ("junk, <a>; rel=license; type=\"application/rsl+xml\"", &["a"]),
            ("<a> rel=license; type=\"application/rsl+xml\"", &[]),
            (",,,", &[]),
            ("", &[]),
        ];
        for (field, expected) in cases {
            let found = licenses(field.as_bytes()).map(String::from_utf8_lossy);
            assert_eq!(found.collect::<Vec<_>>(), *expected, "{field}");
        }
    }
}
