//! The fields by which a response speaks of the use of its content.

use std::sync::LazyLock;

use http::{HeaderMap, HeaderName};

use crate::usage::fields::{CONTENT_TYPE, NAMES};

/// The names of these fields, and the field by which one of them knows images.
static LINES: LazyLock<[HeaderName; NAMES.len() + 1]> = LazyLock::new(|| {
    std::array::from_fn(|at| {
        HeaderName::from_static(NAMES.get(at).copied().unwrap_or(CONTENT_TYPE))
    })
});

/// Returns their lines, in the order of the names. Empty, and nothing is allocated, where none speaks of use.
pub fn lines(headers: &HeaderMap) -> Vec<(&'static str, Vec<u8>)> {
    let (names, _) = LINES.split_at(NAMES.len());
    if !names.iter().any(|name| headers.contains_key(name)) {
        return Vec::new();
    }
    let all = LINES.iter().zip(NAMES.into_iter().chain([CONTENT_TYPE]));
    let lines = all.flat_map(|(field, name)| {
        let values = headers.get_all(field).iter();
        values.map(move |value| (name, value.as_bytes().to_vec()))
    });
    lines.collect()
}
