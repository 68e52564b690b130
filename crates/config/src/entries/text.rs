//! Single values as TOML writes them.

use std::{fmt::Display, path::Path, time::Duration};

use super::super::{
    format_bytes, format_duration,
    keys::{FOREVER, UNLIMITED},
};

/// Writes a path, or empty quotes for none.
pub(super) fn place(path: Option<&Path>) -> String {
    path.map_or_else(|| quoted(""), |path| quoted(path.display()))
}

/// Writes a text in TOML's quotes.
pub(super) fn quoted(text: impl Display) -> String {
    toml::Value::String(text.to_string()).to_string()
}

/// Writes a list of texts.
pub(super) fn texts(items: &[impl Display]) -> String {
    list(items, quoted)
}

/// Writes a list, each item with `write`.
pub(super) fn list<'i, T>(items: &'i [T], write: impl Fn(&'i T) -> String) -> String {
    let items: Vec<String> = items.iter().map(write).collect();
    format!("[{}]", items.join(", "))
}

/// Writes a duration with its units.
pub(super) fn span(duration: Duration) -> String {
    quoted(format_duration(duration))
}

/// Writes a span that may have no end.
pub(super) fn or_forever(span: Option<Duration>) -> String {
    span.map_or_else(|| quoted(FOREVER), self::span)
}

/// Writes a size with its unit, or a plain number if no unit divides it.
pub(super) fn size(bytes: u64) -> String {
    let text = format_bytes(bytes);
    if text.ends_with('B') {
        quoted(text)
    } else {
        text
    }
}

/// Writes a limit with `write`, if there is one.
pub(super) fn or_unlimited<T>(limit: Option<T>, write: impl Fn(T) -> String) -> String {
    limit.map_or_else(|| quoted(UNLIMITED), write)
}

/// Writes a number that may be whole, with its point.
pub(super) fn float(number: f64) -> String {
    toml::Value::Float(number).to_string()
}

/// Writes one of a few names.
pub(super) fn name<T: PartialEq>(names: &[(&'static str, T)], value: T) -> String {
    let found = names.iter().find(|(_, known)| *known == value);
    quoted(found.map_or("", |(name, _)| name))
}
