//! Changes that a proxy makes to header and trailer fields: only fields that end here, or that name it (RFC 9110 7.6).
//!
//! Names keep their case, which hyper carries from message to message (`preserve_header_case`), and different names
//! keep their order; lines of one name stand together, where the first of them stood.

mod body;
mod hops;
mod known;
pub mod own;
mod target_names;

use http::header::{
    CONNECTION, CONTENT_LENGTH, Entry, HOST, HeaderName, TE, TRANSFER_ENCODING, UPGRADE,
    USER_AGENT, VIA,
};
use http::{HeaderMap, HeaderValue};

use self::body::normalize_content_length;
pub use self::body::{is_framed_plainly, mend_trailers};
pub use self::hops::{Pseudonym, count_forward, support_logins, via_chain};
use self::known::{Found, Known};
use self::own::remove_own_members;
use crawlgate_robots::Origin;

/// Turns a crawler's fields into those for the origin. Returns whether the crawler asks, and may ask, to switch to
/// WebSocket; no other protocol is passed on, since requests in it could not be judged.
pub fn to_origin(headers: &mut HeaderMap, origin: &Origin, may_switch: bool) -> bool {
    let takes_trailers = lists(headers, &TE, b"trailers");
    let wants_websocket = may_switch
        && lists(headers, &CONNECTION, b"upgrade")
        && lists(headers, &UPGRADE, b"websocket");
    let found = strip(headers, |known| match known {
        Known::KeepAlive | Known::ProxyConnection | Known::ProxyAuthorization => false,
        Known::TargetName => false,
        Known::Connection => wants_websocket || takes_trailers,
        Known::Te => takes_trailers && !wants_websocket,
        Known::Upgrade => wants_websocket,
        // Framing has checked that it says `chunked`. The others are the origin's.
        Known::TransferEncoding
        | Known::ContentLength
        | Known::ProxyAuthenticate
        | Known::ProxyStatus => true,
    });
    if let Some((_, authority)) = origin.as_str().split_once("://") {
        set_host(headers, authority);
    }
    if found.has(Known::TransferEncoding) {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    if found.has(Known::ContentLength) {
        normalize_content_length(headers);
    }
    if wants_websocket {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    } else if takes_trailers {
        headers.insert(CONNECTION, HeaderValue::from_static("te"));
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    wants_websocket
}

/// Turns an origin's fields into those for the crawler.
pub fn to_crawler(headers: &mut HeaderMap) {
    // A Content-Length beside a Transfer-Encoding is void (RFC 9112 6.3).
    let is_coded = headers.contains_key(TRANSFER_ENCODING);
    let found = strip(headers, |known| match known {
        Known::Connection
        | Known::KeepAlive
        | Known::ProxyConnection
        | Known::ProxyAuthenticate
        | Known::Te
        | Known::Upgrade => false,
        Known::ContentLength => !is_coded,
        // It says `chunked` or is refused; hyper leaves it out if the crawler knows no chunks.
        Known::TransferEncoding | Known::ProxyAuthorization | Known::ProxyStatus => true,
        Known::TargetName => true,
    });
    if found.has(Known::ContentLength) && !is_coded {
        normalize_content_length(headers);
    }
    if found.has(Known::ProxyStatus) {
        remove_own_members(headers);
    }
}

/// Turns the fields of an origin's interim response or switch of protocols, which has no body, into those for the
/// crawler.
pub fn to_crawler_without_body(headers: &mut HeaderMap) {
    headers.remove(TRANSFER_ENCODING);
    headers.remove(CONTENT_LENGTH);
    to_crawler(headers);
}

/// Removes a User-Agent that `Connection` limits to this connection (RFC 9110 7.6.1): the origin never sees it, so it
/// identifies no crawler.
pub fn drop_nominated_agent(headers: &mut HeaderMap) {
    if lists(headers, &CONNECTION, b"user-agent") {
        headers.remove(USER_AGENT);
    }
}

/// Sets Host from the target; the crawler's own Host does not matter (RFC 9112 3.2.2).
fn set_host(headers: &mut HeaderMap, authority: &str) {
    let same = |value: &HeaderValue| value.as_bytes() == authority.as_bytes();
    match headers.entry(HOST) {
        Entry::Occupied(entry) if same(entry.get()) => {}
        entry => {
            let Ok(value) = HeaderValue::from_str(authority) else {
                return;
            };
            match entry {
                Entry::Occupied(mut entry) => drop(entry.insert(value)),
                Entry::Vacant(entry) => drop(entry.insert(value)),
            }
        }
    }
}

/// Removes the fields that are for this connection only: those that `Connection` lists on any of its lines, and the
/// known ones that are not kept. The others stay in their order.
fn strip(headers: &mut HeaderMap, is_kept: impl Fn(Known) -> bool) -> Found {
    // One look at each name is cheaper than a search for each rare field.
    let mut found = Found::default();
    let (mut dropped, mut first) = (0, None);
    for (place, name) in headers.keys().enumerate() {
        if let Some(known) = Known::of(name) {
            found.add(known);
            if !is_kept(known) {
                dropped += 1;
                first = first.or(Some(place));
            }
        }
    }
    let listed = if found.has(Known::Connection) { listed(headers) } else { Vec::new() };
    let Some(first) = first.or((!listed.is_empty()).then_some(0)) else {
        return found;
    };
    let have_names = !found.has(Known::TargetName);
    if listed.is_empty() && have_names && first + dropped == headers.keys_len() {
        // No other field follows that a removal could move.
        let dropped = Known::ALL.into_iter().filter(|known| found.has(*known) && !is_kept(*known));
        for name in dropped.filter_map(Known::name) {
            headers.remove(name);
        }
    } else {
        keep(headers, |name| Known::of(name).is_none_or(&is_kept) && !listed.contains(name));
    }
    found
}

/// Keeps the fields with these names, in their order; `HeaderMap::remove` would put the last one into the gap.
fn keep(headers: &mut HeaderMap, is_kept: impl Fn(&HeaderName) -> bool) {
    let all = std::mem::take(headers);
    headers.reserve(all.keys_len());
    let mut current = None;
    for (name, value) in all {
        if let Some(name) = name {
            current = is_kept(&name).then_some(name);
        }
        if let Some(name) = &current {
            headers.append(name.clone(), value);
        }
    }
}

/// Returns the names that `Connection` lists, except for its usual values.
fn listed(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter(|value| !matches!(value.as_bytes(), b"keep-alive" | b"close"))
        .flat_map(names)
        .filter_map(|name| HeaderName::from_bytes(name).ok())
        // Framing and addressing are never optional, whatever a crawler lists.
        .filter(|name| ![HOST, VIA].contains(name))
        .filter(|name| Known::of(name).is_none_or(|known| known == Known::TargetName))
        .collect()
}

fn lists(headers: &HeaderMap, field: &HeaderName, wanted: &[u8]) -> bool {
    headers
        .get_all(field)
        .iter()
        .any(|value| names(value).any(|name| name.eq_ignore_ascii_case(wanted)))
}

fn names(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value
        .as_bytes()
        .split(|byte| matches!(byte, b',' | b';'))
        .map(<[u8]>::trim_ascii)
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn fields(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers
                .append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        headers
    }

    pub(super) fn in_order(headers: &HeaderMap) -> Vec<String> {
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    pub(super) fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut lines = in_order(headers);
        lines.sort();
        lines
    }

    #[test]
    fn fields_that_end_here_are_not_passed_on() {
        let (origin, _) = Origin::parse("http://a.test:81/").unwrap();
        for (lines, expected, websocket) in [
            (&[("Host", "b.test"), ("X", "1")][..], &["host: a.test:81", "x: 1"][..], false),
            (
                &[
                    ("Connection", "close, X"),
                    ("Connection", "Y"),
                    ("X", "1"),
                    ("Y", "2"),
                    ("Z", "3"),
                ],
                &["host: a.test:81", "z: 3"],
                false,
            ),
            (
                &[("Connection", "host, content-length"), ("Content-Length", "3")],
                &["content-length: 3", "host: a.test:81"],
                false,
            ),
            (
                &[
                    ("Proxy-Authorization", "Basic x"),
                    ("Proxy-Connection", "keep-alive"),
                    ("Keep-Alive", "x"),
                ],
                &["host: a.test:81"],
                false,
            ),
            (
                &[("TE", "trailers, deflate;q=0.5")],
                &["connection: te", "host: a.test:81", "te: trailers"],
                false,
            ),
            (&[("TE", "gzip")], &["host: a.test:81"], false),
            (
                &[("Transfer-Encoding", "chunked")],
                &["host: a.test:81", "transfer-encoding: chunked"],
                false,
            ),
            (&[("Content-Length", "0100")], &["content-length: 100", "host: a.test:81"], false),
            (
                &[("Connection", "Upgrade"), ("Upgrade", "WebSocket")],
                &["connection: upgrade", "host: a.test:81", "upgrade: websocket"],
                true,
            ),
            (
                &[
                    ("Connection", "Upgrade, HTTP2-Settings"),
                    ("Upgrade", "h2c"),
                    ("HTTP2-Settings", "x"),
                ],
                &["host: a.test:81"],
                false,
            ),
            (&[("Upgrade", "websocket")], &["host: a.test:81"], false),
            (
                &[
                    ("X-Original-URL", "/private"),
                    ("X-Rewrite-URL", "/private"),
                    ("X_Original-URL", "/private"),
                    ("x_rewrite_url", "/private"),
                    ("X.Rewrite.Url", "/private"),
                    ("SCRIPT_NAME", "/open"),
                    ("Script-Name", "/open"),
                    ("X-Forwarded-Prefix", "/open"),
                    ("X-Original-Host", "b.test"),
                ],
                &["host: a.test:81"],
                false,
            ),
        ] {
            let mut headers = fields(lines);
            assert_eq!(to_origin(&mut headers, &origin, true), websocket, "{lines:?}");
            assert_eq!(shown(&headers), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_response_loses_the_fields_for_us() {
        let mut headers = fields(&[
            ("Connection", "x-hop, x-url"),
            ("X-Hop", "1"),
            ("X-Url", "/here"),
            ("X-Path", "/here"),
            ("Proxy-Authenticate", "Basic"),
            ("Transfer-Encoding", "chunked"),
            ("Content-Length", "3"),
            ("Trailer", "T"),
        ]);
        to_crawler(&mut headers);
        assert_eq!(shown(&headers), ["trailer: T", "transfer-encoding: chunked", "x-path: /here"]);
        to_crawler_without_body(&mut headers);
        assert_eq!(shown(&headers), ["trailer: T", "x-path: /here"]);
    }

    #[test]
    fn fields_that_stay_keep_their_order() {
        let (origin, _) = Origin::parse("http://a.test:81/").unwrap();
        for (lines, expected) in [
            (
                &[
                    ("Host", "b"),
                    ("Connection", "X"),
                    ("A", "1"),
                    ("X", "2"),
                    ("B", "3"),
                    ("A", "4"),
                    ("C", "5"),
                ][..],
                &["host: a.test:81", "a: 1", "a: 4", "b: 3", "c: 5"][..],
            ),
            (
                &[
                    ("Host", "b"),
                    ("Keep-Alive", "x"),
                    ("A", "1"),
                    ("TE", "trailers"),
                    ("B", "2"),
                    ("Connection", "close"),
                ],
                &["host: a.test:81", "a: 1", "te: trailers", "b: 2", "connection: te"],
            ),
            (
                &[
                    ("Transfer-Encoding", "Chunked"),
                    ("Connection", "keep-alive"),
                    ("Host", "b"),
                    ("A", "1"),
                ],
                &["transfer-encoding: chunked", "host: a.test:81", "a: 1"],
            ),
            (
                &[
                    ("B", "1"),
                    ("Host", "b"),
                    ("A", "2"),
                    ("Proxy-Connection", "x"),
                    ("Connection", "keep-alive"),
                ],
                &["b: 1", "host: a.test:81", "a: 2"],
            ),
        ] {
            let mut headers = fields(lines);
            to_origin(&mut headers, &origin, true);
            assert_eq!(in_order(&headers), expected, "{lines:?}");
        }
    }
}
