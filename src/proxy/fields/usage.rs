//! The fields by which a response speaks of the use of its content, and the one by which this program tells what it
//! found.

use std::sync::LazyLock;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::policy::Decision;
use crate::text::DecisionId;
use crate::usage::fields::{CONTENT_TYPE, NAMES, ROBOTS_TAG};
use crate::usage::{Purpose, Value};

/// The names of these fields, and the field by which one of them knows images.
static LINES: LazyLock<[HeaderName; NAMES.len() + 1]> = LazyLock::new(|| {
    std::array::from_fn(|at| {
        HeaderName::from_static(NAMES.get(at).copied().unwrap_or(CONTENT_TYPE))
    })
});

/// The field that tells a crawler what was found, if the operator wants that.
static STAMP: HeaderName = HeaderName::from_static("crawlgate-usage");

/// Writes what was found into the fields of a response. Only this program speaks in that field.
pub fn stamp(headers: &mut HeaderMap, decision: &Decision, id: DecisionId) {
    let mut members = Vec::new();
    if let Some(usage) = &decision.usage {
        let known = usage.judged.combined.iter();
        members.extend(known.map(|(category, value)| {
            let word = if value == Value::Disallow { "n" } else { "y" };
            format!("{}={word}", category.as_str())
        }));
        let refused: Vec<&str> = usage.judged.refused.iter().map(Purpose::as_str).collect();
        if !refused.is_empty() {
            members.push(format!("refused=({})", refused.join(" ")));
        }
    }
    members.push(format!("id=\"{id}\""));
    headers.remove(&STAMP);
    if let Ok(value) = HeaderValue::from_str(&members.join(", ")) {
        headers.insert(STAMP.clone(), value);
    }
}

/// Returns their lines, in the order of the names. Empty, and nothing is allocated, where none speaks of use.
pub fn lines(headers: &HeaderMap) -> Vec<(&'static str, Vec<u8>)> {
    let (names, _) = LINES.split_at(NAMES.len());
    if !names.iter().any(|name| headers.contains_key(name)) {
        return Vec::new();
    }
    // The type of the content matters to X-Robots-Tag alone.
    let is_tagged = headers.contains_key(ROBOTS_TAG);
    let names = NAMES.into_iter().chain(is_tagged.then_some(CONTENT_TYPE));
    let all = LINES.iter().zip(names);
    let lines = all.flat_map(|(field, name)| {
        let values = headers.get_all(field).iter();
        values.map(move |value| (name, value.as_bytes().to_vec()))
    });
    lines.collect()
}
