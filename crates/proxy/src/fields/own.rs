//! Fields in which only this program speaks for itself: `Proxy-Status` among the members of other proxies, and the field that
//! tells what a response says of the use of its content.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};

use crawlgate_policy::Decision;
use crawlgate_text::DecisionId;
use crawlgate_usage::lines::{self, Lines};
use crawlgate_usage::{Purpose, Value};

/// Our name in the field.
pub const NAME: &str = "crawlgate";

/// The field.
pub const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// Removes the members of `Proxy-Status` that name us: only we may speak for ourselves (RFC 9209 2).
///
/// Written by hand: members of other proxies pass octet for octet, but a parser of structured fields (RFC 9651) would
/// write them anew.
pub(super) fn remove_own_members(headers: &mut HeaderMap) {
    let names_us = |member: &[u8]| {
        let item = member.split(|byte| *byte == b';').next();
        let item = item.unwrap_or_default().trim_ascii();
        let item = item.strip_prefix(b"\"").unwrap_or(item);
        let item = item.strip_suffix(b"\"").unwrap_or(item);
        item.eq_ignore_ascii_case(NAME.as_bytes())
    };
    let lines = headers.get_all(PROXY_STATUS);
    let is_ours = |line: &HeaderValue| match members(line.as_bytes()) {
        Some(members) => members.into_iter().any(names_us),
        // Not a list: a reader may interpret it in any way.
        None => true,
    };
    if !lines.iter().any(is_ours) {
        return;
    }
    let kept: Vec<HeaderValue> = lines
        .iter()
        .filter_map(|line| {
            let mut members = members(line.as_bytes())?;
            members.retain(|member| !names_us(member));
            let line = members.join(&b", "[..]);
            (!line.is_empty()).then(|| HeaderValue::from_bytes(&line).ok())?
        })
        .collect();
    headers.remove(PROXY_STATUS);
    for line in kept {
        headers.append(PROXY_STATUS, line);
    }
}

/// Splits a list at the commas outside strings and inner lists. `None` if one of these does not end.
fn members(line: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut in_string, mut is_escaped, mut depth) = (false, false, 0_usize);
    let mut commas = vec![];
    for (at, byte) in line.iter().enumerate() {
        match (in_string, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => in_string = !in_string,
            (true, _) => {}
            (false, b'(') => depth += 1,
            (false, b')') => depth = depth.checked_sub(1)?,
            (false, b',') if depth == 0 => commas.push(at),
            (false, _) => {}
        }
    }
    if in_string || depth > 0 {
        return None;
    }
    let mut members = Vec::with_capacity(commas.len() + 1);
    let mut rest = line;
    for at in commas.into_iter().rev() {
        let (before, after) = rest.split_at(at);
        members.push(after.get(1..).unwrap_or_default().trim_ascii());
        rest = before;
    }
    members.push(rest.trim_ascii());
    members.reverse();
    Some(members)
}

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
    if headers.contains_key(&STAMP) {
        let mut rest = headers.clone();
        rest.remove(&STAMP);
        Cow::Owned(rest)
    } else {
        Cow::Borrowed(headers)
    }
}

#[cfg(test)]
mod tests {
    use crate::fields::body::to_trailers;
    use crate::fields::tests::{fields, in_order};
    use crate::fields::to_crawler;

    #[test]
    fn other_proxies_do_not_speak_for_us() {
        for (lines, expected) in [
            (&["crawlgate; error=http_request_denied"][..], &[][..]),
            (&["\"crawlgate\";a, b"], &["b"]),
            (
                &["a; x=\"crawlgate, \\\", crawlgate\", CrawlGate;b=1,c"],
                &["a; x=\"crawlgate, \\\", crawlgate\", c"],
            ),
            (
                &["(crawlgate a), crawlgate-far; error=x"],
                &["(crawlgate a), crawlgate-far; error=x"],
            ),
            (&["a ,  b;x"], &["a ,  b;x"]),
            (&["a", "crawlgate", "b"], &["a", "b"]),
            (&["a; x=\"no end, crawlgate"], &[]),
        ] {
            let lines: Vec<_> = lines.iter().map(|line| ("Proxy-Status", *line)).collect();
            let expected: Vec<_> =
                expected.iter().map(|line| format!("proxy-status: {line}")).collect();
            let mut headers = fields(&lines);
            to_crawler(&mut headers);
            assert_eq!(in_order(&headers), expected, "{lines:?}");
            let mut trailers = fields(&lines);
            to_trailers(&mut trailers);
            assert_eq!(in_order(&trailers), expected, "{lines:?}");
        }
    }
}
