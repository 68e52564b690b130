//! Fields about a body: its length, and those that must not stand in its trailer section.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;

use super::keep;
use super::known::Known;
use super::own::{PROXY_STATUS, remove_own_members};

/// Tells whether a response's framing can be passed on: no transfer coding but `chunked`, since any other would be
/// taken off the fields and left on the body, and one length, if any.
pub fn is_framed_plainly(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(TRANSFER_ENCODING).iter();
    match (values.next(), values.next()) {
        (None, _) => length(headers).is_ok(),
        (Some(value), None) => value.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// A Content-Length that is no number of digits, or several that differ (RFC 9110 8.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NoLength;

fn length(headers: &HeaderMap) -> Result<Option<u64>, NoLength> {
    let mut found = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        for text in value.as_bytes().split(|byte| *byte == b',') {
            let text = text.trim_ascii();
            let length = std::str::from_utf8(text)
                .ok()
                .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|text| text.parse::<u64>().ok())
                .ok_or(NoLength)?;
            if found.replace(length).is_some_and(|former| former != length) {
                return Err(NoLength);
            }
        }
    }
    Ok(found)
}

/// Writes a length once and without leading zeros: readers differ on anything else.
pub(super) fn normalize_content_length(headers: &mut HeaderMap) {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let is_one_number = match (values.next().map(HeaderValue::as_bytes), values.next()) {
        (Some(b"0"), None) => true,
        (Some(value @ [b'1'..=b'9', ..]), None) => value.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !is_one_number && let Ok(Some(length)) = length(headers) {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}

/// Removes fields that must not stand in trailers.
pub fn mend_trailers<E>(frame: &mut Option<Result<Frame<Bytes>, E>>) {
    if let Some(Ok(frame)) = frame
        && let Some(trailers) = frame.trailers_mut()
    {
        to_trailers(trailers);
    }
}

/// Removes fields that must not stand in a trailer section: those of framing, routing, authentication, control and
/// content format (RFC 9110 6.5.1), and those that only a proxy may set about itself.
pub(super) fn to_trailers(trailers: &mut HeaderMap) {
    let is_forbidden = |name: &HeaderName| {
        FORBIDDEN_TRAILERS.binary_search(&name.as_str()).is_ok()
            || Known::of(name) == Some(Known::TargetName)
    };
    if trailers.keys().any(is_forbidden) {
        keep(trailers, |name| !is_forbidden(name));
    }
    if trailers.contains_key(PROXY_STATUS) {
        remove_own_members(trailers);
    }
}

/// Sorted, for a binary search.
const FORBIDDEN_TRAILERS: [&str; 38] = [
    "age",
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "expect",
    "expires",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "retry-after",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::{fields, in_order, shown};
    use crate::fields::to_crawler;

    #[test]
    fn a_length_is_one_number_or_none() {
        for (lengths, expected) in [
            (&["5"][..], Some("5")),
            (&["0"], Some("0")),
            (&["0100"], Some("100")),
            (&["00"], Some("0")),
            (&["5, 5"], Some("5")),
            (&["5,05"], Some("5")),
            (&["5", "5"], Some("5")),
            (&["5", "6"], None),
            (&["5, 6"], None),
            (&["+5"], None),
            (&["-5"], None),
            (&["0x5"], None),
            (&["5 5"], None),
            (&["5,"], None),
            (&[""], None),
            (&["99999999999999999999"], None),
        ] {
            let lines: Vec<_> = lengths.iter().map(|length| ("Content-Length", *length)).collect();
            let mut headers = fields(&lines);
            assert_eq!(is_framed_plainly(&headers), expected.is_some(), "{lengths:?}");
            if let Some(expected) = expected {
                to_crawler(&mut headers);
                assert_eq!(shown(&headers), [format!("content-length: {expected}")], "{lengths:?}");
            }
        }
    }

    #[test]
    fn a_trailer_section_holds_no_field_that_frames_routes_or_proves() {
        assert!(FORBIDDEN_TRAILERS.is_sorted());
        let mut trailers = fields(&[
            ("X-Sum", "1"),
            ("Content-Length", "5"),
            ("Authorization", "x"),
            ("Digest", "2"),
            ("Set-Cookie", "a=1"),
            ("Host", "b"),
            ("ETag", "3"),
            ("X.Rewrite.Url", "/private"),
        ]);
        to_trailers(&mut trailers);
        assert_eq!(in_order(&trailers), ["x-sum: 1", "digest: 2", "etag: 3"]);
    }
}
