//! The fields by which a response speaks of the use of its content, and the one by which this program tells what it
//! found.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};

use crawlgate_policy::Decision;
use crawlgate_text::DecisionId;
use crawlgate_usage::lines::{self, Lines};
use crawlgate_usage::{Purpose, Value};

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

/// Returns the lines of a response that speak of use.
pub fn lines(headers: &HeaderMap) -> Lines<'_> {
    let fields = headers.iter();
    lines::of(fields.map(|(name, value)| (name.as_str(), value.as_bytes())))
}

/// Returns the fields of an interim response without that field: nothing was found yet, and only this program speaks in it.
pub fn unstamped(headers: &HeaderMap) -> Cow<'_, HeaderMap> {
    match headers.contains_key(&STAMP) {
        false => Cow::Borrowed(headers),
        true => {
            let mut rest = headers.clone();
            rest.remove(&STAMP);
            Cow::Owned(rest)
        }
    }
}
