//! The head of an answer over FTP, in the terms of HTTP.

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, IF_RANGE, LAST_MODIFIED, LOCATION,
    RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::body::Body;
use crawlgate_ftp::media_type;
use crawlgate_ftp::path::Name;
use crawlgate_ftp::range::Range;
use crawlgate_ftp::status::Refusal;
use crawlgate_system::clock::Moment;

/// An answer over FTP, as one of HTTP.
pub(super) type Response = http::Response<Body>;

/// The name of a file, and the replies about it that come before its octets.
pub(super) struct Facts<'a> {
    pub(super) name: &'a Name,
    /// The answer to SIZE.
    pub(super) size: Option<u64>,
    /// The answer to MDTM.
    pub(super) modified: Option<Moment>,
    /// The time of the answer.
    pub(super) now: Moment,
}

impl Facts<'_> {
    /// Returns the range that a request asks for. Without a known length, it is the whole file.
    pub(super) fn range(&self, headers: &HeaderMap) -> Range {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let (Some(field), Some(size)) = (text(RANGE), self.size) else {
            return Range::Whole;
        };
        // RFC 9110 13.1.5: a part of another version is of no use. There are no entity tags.
        if headers.contains_key(IF_RANGE) {
            let is_past = self.modified.is_some_and(|modified| modified < self.now);
            match (text(IF_RANGE), self.last_modified()) {
                (Some(asked), Some(modified)) if asked == modified && is_past => {}
                _ => return Range::Whole,
            }
        }
        Range::read(field, size)
    }

    /// Returns the answer with this body, which has `length` octets if that is known.
    pub(super) fn answer(&self, range: Range, length: Option<u64>, body: Body) -> Response {
        let mut response = of_body(StatusCode::OK, body);
        let headers = response.headers_mut();
        let media_type = media_type::of(self.name.as_bytes());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        if let Some(length) = length {
            headers.insert(CONTENT_LENGTH, length.into());
        }
        if let Some(size) = self.size {
            headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
            if let Range::Part { from, to } = range {
                insert(headers, CONTENT_RANGE, &format!("bytes {from}-{to}/{size}"));
            }
        }
        if let Some(modified) = self.last_modified() {
            insert(headers, LAST_MODIFIED, &modified);
        }
        if let Range::Part { .. } = range {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        response
    }

    /// Returns the answer to a request for a range behind the file.
    pub(super) fn unsatisfiable(&self) -> Response {
        let mut response = of_body(StatusCode::RANGE_NOT_SATISFIABLE, Body::none());
        if let Some(size) = self.size {
            insert(response.headers_mut(), CONTENT_RANGE, &format!("bytes */{size}"));
        }
        response
    }

    /// Returns the time of modification, which is never later than the answer (RFC 9110 8.8.2.1).
    fn last_modified(&self) -> Option<String> {
        let modified = self.modified?.min(self.now);
        Some(httpdate::fmt_http_date(modified.into()))
    }
}

/// Returns the answer for a directory: a page.
pub(super) fn page(body: Body) -> Response {
    let mut response = of_body(StatusCode::OK, body);
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, html);
    response
}

/// Returns the answer for the name of a directory without its slash. It redirects to the URL with the slash, so that
/// robots.txt judges the URL of the page that the crawler gets.
pub(super) fn moved(url: &str) -> Response {
    let mut response = of_body(StatusCode::MOVED_PERMANENTLY, Body::none());
    insert(response.headers_mut(), LOCATION, url);
    response
}

/// Returns the answer to a request that the server refuses, with the refusal beside it.
pub(super) fn refused(refusal: Refusal, has_body: bool) -> Response {
    let text = if has_body {
        format!("{} It replied: {}\n", refusal.sentence(), refusal.reply)
    } else {
        String::new()
    };
    let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = of_body(status, Body::text(Bytes::from(text)));
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response.extensions_mut().insert(refusal);
    response
}

fn of_body(status: StatusCode, body: Body) -> Response {
    let mut response = http::Response::new(body);
    *response.status_mut() = status;
    response
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modification_is_never_later_than_the_answer() {
        let name = Name::new(b"f".to_vec()).unwrap();
        for (modified, expected) in [
            (59_000, "Thu, 01 Jan 1970 00:00:59 GMT"),
            (60_000, "Thu, 01 Jan 1970 00:01:00 GMT"),
            (999_000, "Thu, 01 Jan 1970 00:01:00 GMT"),
        ] {
            let facts = Facts {
                name: &name,
                size: None,
                modified: Some(Moment::from_millis(modified)),
                now: Moment::from_millis(60_000),
            };
            let answer = facts.answer(Range::Whole, None, Body::none());
            assert_eq!(answer.headers().get(LAST_MODIFIED).unwrap(), expected);
        }
    }

    #[test]
    fn a_part_is_sent_of_the_version_that_is_asked_for() {
        let name = Name::new(b"f".to_vec()).unwrap();
        let part = Range::Part { from: 2, to: 5 };
        let date = b"Thu, 01 Jan 1970 00:00:00 GMT".as_slice();
        let (now, late) = (60_000, b"Thu, 01 Jan 1970 00:01:00 GMT".as_slice());
        #[rustfmt::skip] // one row, one case
        let cases = [
            (None, None, part),
            (None, Some(0), part),
            (Some(date), Some(0), part),
            (Some(date), Some(1000), Range::Whole),
            (Some(date), None, Range::Whole),
            (Some(b"\"tag\""), Some(0), Range::Whole),
            (Some(b"\xe9"), Some(0), Range::Whole),
            (Some(b"\xe9"), None, Range::Whole),
            (Some(late), Some(now), Range::Whole),
            (Some(late), Some(now + 1000), Range::Whole),
        ];
        for (if_range, modified, expected) in cases {
            let facts = Facts {
                name: &name,
                size: Some(10),
                modified: modified.map(Moment::from_millis),
                now: Moment::from_millis(now),
            };
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, HeaderValue::from_static("bytes=2-5"));
            if let Some(field) = if_range {
                headers.insert(IF_RANGE, HeaderValue::from_bytes(field).unwrap());
            }
            assert_eq!(facts.range(&headers), expected, "{if_range:?} {modified:?}");
        }
    }
}
