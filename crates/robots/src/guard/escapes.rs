//! The parts of a comparison form, and its escapes.

use memchr::{memchr, memchr_iter};

use crate::path::digit;

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
