//! Trailer sections: the fields that must not stand in one.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName};
use http_body::Frame;

use super::keep;
use super::known::Known;
use super::proxy_status::{PROXY_STATUS, remove_own_members};

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
    use crate::fields::tests::{fields, in_order};

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
