//! The form of an HTTP/2 request, where `h2` leaves it open (RFC 9113 8.2, 8.3).
//!
//! `h2` resets a stream with a connection-specific field, a `te` other than `trailers`, a missing, repeated or misplaced
//! pseudo-field, or DATA that disagrees with `content-length`; a name or value with an octet that no field has ends the
//! connection. `h2` leaves two readings of the authority and of the length, and white space around values; and the next
//! hop may speak HTTP/1.1. Pure.

use http::header::{CONTENT_LENGTH, COOKIE, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Request};

use super::super::framing::{Bounds, Violation};
use super::super::target;

/// Octets of a field line beside its name and value.
const LINE: usize = ": \r\n".len();

/// Checks the form of a request that came on HTTP/2.
///
/// # Errors
/// The fault of its form.
pub fn check<B>(request: &Request<B>, bounds: Bounds) -> Result<(), Violation> {
    let (uri, headers) = (request.uri(), request.headers());
    // The pseudo-fields are the request line.
    if headers.len() > bounds.fields {
        return Err(Violation::TooManyFields);
    }
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let target = path.len() + authority.len();
    if target > bounds.target {
        return Err(Violation::TargetTooLong);
    }
    check_values(headers, request.method().as_str().len() + target, bounds)?;
    // RFC 9113 8.3.1: no userinfo.
    if authority.contains('@') {
        return Err(Violation::Target);
    }
    // `h2` takes an empty scheme, which no URI has (RFC 3986 3.1).
    if uri.scheme_str().is_some_and(str::is_empty) {
        return Err(Violation::Target);
    }
    // `h2` drops the scheme of a request without an authority, so nothing could hold it against the connection's.
    if authority.is_empty() {
        return Err(Violation::Host);
    }
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => {}
        (Some(host), None) if target::is_same_authority(uri, host.as_bytes()) => {}
        (Some(_), _) => return Err(Violation::Host),
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    match (lengths.next(), lengths.next()) {
        (None, _) => {}
        (Some(_), None) if *request.method() == Method::CONNECT => {
            return Err(Violation::ConnectBody);
        }
        (Some(length), None) if is_number(length) => {}
        (Some(_), _) => return Err(Violation::ContentLength),
    }
    Ok(())
}

/// Checks the form of a trailer section.
///
/// # Errors
/// The fault of its form.
pub fn check_trailers(trailers: &HeaderMap, bounds: Bounds) -> Result<(), Violation> {
    if trailers.len() > bounds.fields {
        return Err(Violation::TooManyFields);
    }
    check_values(trailers, 0, bounds)
}

/// Checks the size of a section with these fields beside so many octets, counted as HTTP/1.1 writes them, and the
/// white space around their values (RFC 9113 8.2.1): the next hop may keep it or drop it.
fn check_values(fields: &HeaderMap, beside: usize, bounds: Bounds) -> Result<(), Violation> {
    let mut size = beside;
    for (name, value) in fields {
        size += name.as_str().len() + value.len() + LINE;
        if let (Some(first), Some(last)) = (value.as_bytes().first(), value.as_bytes().last())
            && (matches!(first, b' ' | b'\t') || matches!(last, b' ' | b'\t'))
        {
            return Err(Violation::Syntax);
        }
    }
    if size > bounds.head { Err(Violation::HeadTooLarge) } else { Ok(()) }
}

fn is_number(value: &HeaderValue) -> bool {
    let value = value.as_bytes();
    !value.is_empty() && value.len() < 20 && value.iter().all(u8::is_ascii_digit)
}

/// Joins the cookies of a request into one field, as a recipient that knows no HTTP/2 expects them (RFC 9113 8.2.3).
pub fn join_cookies(headers: &mut HeaderMap) {
    let mut crumbs = headers.get_all(COOKIE).iter();
    let (Some(first), Some(second)) = (crumbs.next(), crumbs.next()) else {
        return;
    };
    let mut joined = first.as_bytes().to_vec();
    for crumb in [second].into_iter().chain(crumbs) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(crumb.as_bytes());
    }
    // Parts that are values stay one when they are joined.
    if let Ok(joined) = HeaderValue::from_bytes(&joined) {
        headers.insert(COOKIE, joined);
    }
}

/// Names the framing of a body of unknown length as HTTP/1.1 does: without either field a request has no body there,
/// whatever the method (RFC 9112 6.3), and the origin would be sent the request without it.
pub fn frame(headers: &mut HeaderMap, has_ended: bool) {
    if !has_ended && !headers.contains_key(CONTENT_LENGTH) {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { head: 256, target: 64, fields: 8 };

    fn request(method: &str, uri: &str, fields: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn a_request_with_two_readings_is_refused() {
        let long = format!("https://a.test/{}", "x".repeat(64));
        let large = "y".repeat(256);
        let many = [("x", "y"); 9];
        let url = "https://a.test/x";
        for (name, method, uri, fields, expected) in [
            ("plain", "GET", url, &[][..], None),
            ("the same host", "GET", url, &[("host", "A.test:443")], None),
            ("another host", "GET", url, &[("host", "b.test")], Some(Violation::Host)),
            ("another port", "GET", url, &[("host", "a.test:8443")], Some(Violation::Host)),
            (
                "two hosts",
                "GET",
                url,
                &[("host", "a.test"), ("host", "a.test")],
                Some(Violation::Host),
            ),
            ("no authority", "GET", "/x", &[], Some(Violation::Host)),
            ("a host alone", "GET", "/x", &[("host", "a.test")], Some(Violation::Host)),
            ("a space before a value", "GET", url, &[("x", " y")], Some(Violation::Syntax)),
            ("a tab after a value", "GET", url, &[("x", "y\t")], Some(Violation::Syntax)),
            ("a space in a value", "GET", url, &[("x", "y z")], None),
            ("an empty value", "GET", url, &[("x", "")], None),
            ("a large field", "GET", url, &[("x", &large)], Some(Violation::HeadTooLarge)),
            ("userinfo", "GET", "https://u@a.test/x", &[], Some(Violation::Target)),
            ("a long target", "GET", &long, &[], Some(Violation::TargetTooLong)),
            ("many fields", "GET", url, &many, Some(Violation::TooManyFields)),
            ("a length", "POST", url, &[("content-length", "12")], None),
            (
                "two lengths",
                "POST",
                url,
                &[("content-length", "12"), ("content-length", "12")],
                Some(Violation::ContentLength),
            ),
            (
                "a signed length",
                "POST",
                url,
                &[("content-length", "+1")],
                Some(Violation::ContentLength),
            ),
            ("a tunnel", "CONNECT", "a.test:443", &[], None),
            (
                "a tunnel with a body",
                "CONNECT",
                "a.test:443",
                &[("content-length", "1")],
                Some(Violation::ConnectBody),
            ),
        ] {
            let found = check(&request(method, uri, fields), BOUNDS);
            assert_eq!(found.err(), expected, "{name}");
        }
    }

    #[test]
    fn trailers_have_the_form_of_fields() {
        for (value, expected) in [
            ("1", None),
            ("1 ", Some(Violation::Syntax)),
            (&*"1".repeat(256), Some(Violation::HeadTooLarge)),
        ] {
            let trailers = request("GET", "/", &[("x", value)]).headers().clone();
            assert_eq!(check_trailers(&trailers, BOUNDS).err(), expected);
        }
    }

    #[test]
    fn a_body_of_unknown_length_names_its_framing() {
        for (lines, has_ended, expected) in [
            (&[][..], true, None),
            (&[], false, Some("chunked")),
            (&[("content-length", "5")], false, None),
            (&[("content-length", "0")], true, None),
        ] {
            let mut headers = request("GET", "/", lines).headers().clone();
            frame(&mut headers, has_ended);
            let found = headers.get(TRANSFER_ENCODING);
            assert_eq!(found.map(HeaderValue::as_bytes), expected.map(str::as_bytes));
        }
    }

    #[test]
    fn crumbs_become_one_cookie() {
        for (crumbs, expected) in [
            (&[][..], &[][..]),
            (&["a=1"], &["a=1"]),
            (&["a=1", "b=2", "c=3; d=4"], &["a=1; b=2; c=3; d=4"]),
        ] {
            let fields: Vec<_> = crumbs.iter().map(|crumb| ("cookie", *crumb)).collect();
            let mut headers = request("GET", "/", &fields).headers().clone();
            join_cookies(&mut headers);
            let found: Vec<_> = headers.get_all(COOKIE).iter().collect();
            assert_eq!(found, expected, "{crumbs:?}");
        }
    }
}
