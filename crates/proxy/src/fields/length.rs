//! The length of a body, as the fields of its message state it.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::{fields, shown};
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
            let lines: Vec<_> = lengths
                .iter()
                .map(|length| ("Content-Length", *length))
                .collect();
            let mut headers = fields(&lines);
            assert_eq!(
                is_framed_plainly(&headers),
                expected.is_some(),
                "{lengths:?}"
            );
            if let Some(expected) = expected {
                to_crawler(&mut headers);
                assert_eq!(
                    shown(&headers),
                    [format!("content-length: {expected}")],
                    "{lengths:?}"
                );
            }
        }
    }
}
