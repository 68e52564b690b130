//! Changes that a proxy makes to header and trailer fields: only fields that end here, or that name it (RFC 9110 7.6).
//!
//! Names keep their case, which hyper carries from message to message (`preserve_header_case`), and different names
//! keep their order; lines of one name stand together, where the first of them stood.

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, Entry, HOST, HeaderName, TE, TRANSFER_ENCODING, UPGRADE,
    USER_AGENT, VIA,
};
use http::{HeaderMap, HeaderValue, Version};
use http_body::Frame;

use super::respond;
use crate::egress::Way;
use crate::rep::Origin;

/// Our name in `Via`, and the setting to send it.
#[derive(Debug, Clone)]
pub struct Pseudonym {
    name: Box<str>,
    /// `1.1 name` and `1.0 name`.
    via: [HeaderValue; 2],
    signs: bool,
}

impl Pseudonym {
    /// Builds the name from a suffix that no other proxy on the way has, so that a loop differs from a chain; `signs`
    /// is `[upstream] via`.
    pub fn new(suffix: &str, signs: bool) -> Pseudonym {
        let suffix: String = suffix.chars().filter(char::is_ascii_alphanumeric).collect();
        let name = format!("crawlgate-{suffix}");
        let line = |version| {
            HeaderValue::try_from(format!("{version} {name}"))
                .unwrap_or(HeaderValue::from_static("1.1 crawlgate"))
        };
        Pseudonym {
            via: [line("1.1"), line("1.0")],
            name: name.into(),
            signs,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds us to the `Via` of a message that came by `version` (RFC 9110 7.6.3), if messages carry our name.
    pub fn sign(&self, headers: &mut HeaderMap, version: Version) {
        if !self.signs {
            return;
        }
        let [http_11, http_10] = &self.via;
        let ours = if version == Version::HTTP_10 {
            http_10
        } else {
            http_11
        };
        headers.append(VIA, ours.clone());
    }

    /// Tells whether the message has passed here before.
    pub fn has_signed(&self, headers: &HeaderMap) -> bool {
        headers.contains_key(VIA)
            && headers.get_all(VIA).iter().any(|line| {
                line.as_bytes()
                    .split(|byte| matches!(byte, b',' | b' ' | b'\t'))
                    .any(|word| word == self.name.as_bytes())
            })
    }
}

/// Octets of `Via` that are carried on: a circle is seen at its first turn.
const MOST_WAY: usize = 1024;

/// Returns the proxies that a message names as having passed it on, if any.
pub fn way(headers: &HeaderMap) -> Option<Way> {
    let lines = headers.get_all(VIA).iter();
    let lines: Vec<_> = lines.filter_map(|line| line.to_str().ok()).collect();
    let way = lines.join(", ");
    (1..=MOST_WAY).contains(&way.len()).then(|| Way::from(way))
}

/// A field that gets special treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Connection,
    KeepAlive,
    ProxyConnection,
    ProxyAuthorization,
    ProxyAuthenticate,
    Te,
    TransferEncoding,
    Upgrade,
    ContentLength,
    ProxyStatus,
    /// By these fields, frameworks (Symfony, Laminas, those behind IIS) let a request name another target than its
    /// request line does. The request line was judged.
    XOriginalUrl,
    XRewriteUrl,
}

/// Number of such fields.
const KNOWN: usize = 12;

impl Known {
    const ALL: [Known; KNOWN] = [
        Known::Connection,
        Known::KeepAlive,
        Known::ProxyConnection,
        Known::ProxyAuthorization,
        Known::ProxyAuthenticate,
        Known::Te,
        Known::TransferEncoding,
        Known::Upgrade,
        Known::ContentLength,
        Known::ProxyStatus,
        Known::XOriginalUrl,
        Known::XRewriteUrl,
    ];

    fn of(name: &HeaderName) -> Option<Known> {
        Some(match name.as_str() {
            "connection" => Known::Connection,
            "keep-alive" => Known::KeepAlive,
            "proxy-connection" => Known::ProxyConnection,
            "proxy-authorization" => Known::ProxyAuthorization,
            "proxy-authenticate" => Known::ProxyAuthenticate,
            "te" => Known::Te,
            "transfer-encoding" => Known::TransferEncoding,
            "upgrade" => Known::Upgrade,
            "content-length" => Known::ContentLength,
            "proxy-status" => Known::ProxyStatus,
            // CGI and WSGI fold `_` and `-` together.
            "x-original-url" | "x_original_url" | "x-original_url" | "x_original-url" => {
                Known::XOriginalUrl
            }
            "x-rewrite-url" | "x_rewrite_url" | "x-rewrite_url" | "x_rewrite-url" => {
                Known::XRewriteUrl
            }
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Known::Connection => "connection",
            Known::KeepAlive => "keep-alive",
            Known::ProxyConnection => "proxy-connection",
            Known::ProxyAuthorization => "proxy-authorization",
            Known::ProxyAuthenticate => "proxy-authenticate",
            Known::Te => "te",
            Known::TransferEncoding => "transfer-encoding",
            Known::Upgrade => "upgrade",
            Known::ContentLength => "content-length",
            Known::ProxyStatus => "proxy-status",
            Known::XOriginalUrl => "x-original-url",
            Known::XRewriteUrl => "x-rewrite-url",
        }
    }
}

/// Turns a crawler's fields into those for the origin. Returns whether the crawler asks, and may ask, to switch to
/// WebSocket; no other protocol is passed on, since requests in it could not be judged.
pub fn to_origin(headers: &mut HeaderMap, origin: &Origin, may_switch: bool) -> bool {
    let takes_trailers = lists(headers, &TE, b"trailers");
    let wants_websocket = may_switch
        && lists(headers, &CONNECTION, b"upgrade")
        && lists(headers, &UPGRADE, b"websocket");
    let found = strip(headers, |known| match known {
        Known::KeepAlive | Known::ProxyConnection | Known::ProxyAuthorization => false,
        Known::XOriginalUrl | Known::XRewriteUrl => false,
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
        write_length_anew(headers);
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
        Known::XOriginalUrl | Known::XRewriteUrl => true,
    });
    if found.has(Known::ContentLength) && !is_coded {
        write_length_anew(headers);
    }
    if found.has(Known::ProxyStatus) {
        speak_for_ourselves(headers);
    }
}

/// Turns the fields of an origin's interim response or switch of protocols, which has no body, into those for the
/// crawler.
pub fn to_crawler_without_body(headers: &mut HeaderMap) {
    headers.remove(TRANSFER_ENCODING);
    headers.remove(CONTENT_LENGTH);
    to_crawler(headers);
}

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

/// Removes a User-Agent that `Connection` limits to this connection (RFC 9110 7.6.1): the origin never sees it, so it
/// identifies no crawler.
pub fn drop_nominated_agent(headers: &mut HeaderMap) {
    if lists(headers, &CONNECTION, b"user-agent") {
        headers.remove(USER_AGENT);
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
fn write_length_anew(headers: &mut HeaderMap) {
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

/// Removes the members of `Proxy-Status` that name us: only we may speak for ourselves (RFC 9209 2).
///
/// Written by hand: members of other proxies pass octet for octet, but a parser of structured fields (RFC 9651) would
/// write them anew.
fn speak_for_ourselves(headers: &mut HeaderMap) {
    let names_us = |member: &[u8]| {
        let item = member.split(|byte| *byte == b';').next();
        let item = item.unwrap_or_default().trim_ascii();
        let item = item.strip_prefix(b"\"").unwrap_or(item);
        let item = item.strip_suffix(b"\"").unwrap_or(item);
        item.eq_ignore_ascii_case(respond::NAME.as_bytes())
    };
    let lines = headers.get_all(respond::PROXY_STATUS);
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
    headers.remove(respond::PROXY_STATUS);
    for line in kept {
        headers.append(respond::PROXY_STATUS, line);
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

/// Removes fields that must not stand in a trailer section: those of framing, routing, authentication, control and
/// content format (RFC 9110 6.5.1), and those that only a proxy may set about itself.
pub fn to_trailers(trailers: &mut HeaderMap) {
    let is_forbidden = |name: &HeaderName| {
        FORBIDDEN_TRAILERS.binary_search(&name.as_str()).is_ok()
            || matches!(
                Known::of(name),
                Some(Known::XOriginalUrl | Known::XRewriteUrl)
            )
    };
    if trailers.keys().any(is_forbidden) {
        keep(trailers, |name| !is_forbidden(name));
    }
    if trailers.contains_key(respond::PROXY_STATUS) {
        speak_for_ourselves(trailers);
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

/// Known fields of a message, before it was stripped.
#[derive(Debug, Clone, Copy, Default)]
struct Found([bool; KNOWN]);

impl Found {
    fn has(self, known: Known) -> bool {
        self.0.get(known as usize).copied().unwrap_or_default()
    }

    fn add(&mut self, known: Known) {
        if let Some(found) = self.0.get_mut(known as usize) {
            *found = true;
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
    let listed = match found.has(Known::Connection) {
        true => listed(headers),
        false => Vec::new(),
    };
    let Some(first) = first.or((!listed.is_empty()).then_some(0)) else {
        return found;
    };
    let has_one_spelling = !found.has(Known::XOriginalUrl) && !found.has(Known::XRewriteUrl);
    if listed.is_empty() && has_one_spelling && first + dropped == headers.keys_len() {
        // No other field follows that a removal could move.
        for known in Known::ALL {
            if found.has(known) && !is_kept(known) {
                headers.remove(known.name());
            }
        }
    } else {
        keep(headers, |name| match Known::of(name) {
            Some(known) => is_kept(known),
            None => !listed.contains(name),
        });
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
        .filter(|name| ![HOST, VIA].contains(name) && Known::of(name).is_none())
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

/// Removes fields that must not stand in trailers.
pub fn mend_trailers<E>(frame: &mut Option<Result<Frame<Bytes>, E>>) {
    if let Some(Ok(frame)) = frame
        && let Some(trailers) = frame.trailers_mut()
    {
        to_trailers(trailers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                value.parse().unwrap(),
            );
        }
        headers
    }

    fn in_order(headers: &HeaderMap) -> Vec<String> {
        headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect()
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut lines = in_order(headers);
        lines.sort();
        lines
    }

    #[test]
    fn fields_that_end_here_are_not_passed_on() {
        let (origin, _) = Origin::parse("http://a.test:81/").unwrap();
        for (lines, expected, websocket) in [
            (
                &[("Host", "b.test"), ("X", "1")][..],
                &["host: a.test:81", "x: 1"][..],
                false,
            ),
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
                &[
                    ("Connection", "host, content-length"),
                    ("Content-Length", "3"),
                ],
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
            (
                &[("Content-Length", "0100")],
                &["content-length: 100", "host: a.test:81"],
                false,
            ),
            (
                &[("Connection", "Upgrade"), ("Upgrade", "WebSocket")],
                &[
                    "connection: upgrade",
                    "host: a.test:81",
                    "upgrade: websocket",
                ],
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
                    ("X-Original-Host", "b.test"),
                ],
                &["host: a.test:81", "x-original-host: b.test"],
                false,
            ),
        ] {
            let mut headers = fields(lines);
            assert_eq!(
                to_origin(&mut headers, &origin, true),
                websocket,
                "{lines:?}"
            );
            assert_eq!(shown(&headers), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_response_loses_the_fields_for_us() {
        let mut headers = fields(&[
            ("Connection", "x-hop"),
            ("X-Hop", "1"),
            ("Proxy-Authenticate", "Basic"),
            ("Transfer-Encoding", "chunked"),
            ("Content-Length", "3"),
            ("Trailer", "T"),
        ]);
        to_crawler(&mut headers);
        assert_eq!(
            shown(&headers),
            ["trailer: T", "transfer-encoding: chunked"]
        );
        to_crawler_without_body(&mut headers);
        assert_eq!(shown(&headers), ["trailer: T"]);
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
                &[
                    "host: a.test:81",
                    "a: 1",
                    "te: trailers",
                    "b: 2",
                    "connection: te",
                ],
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
            let expected: Vec<_> = expected
                .iter()
                .map(|line| format!("proxy-status: {line}"))
                .collect();
            let mut headers = fields(&lines);
            to_crawler(&mut headers);
            assert_eq!(in_order(&headers), expected, "{lines:?}");
            let mut trailers = fields(&lines);
            to_trailers(&mut trailers);
            assert_eq!(in_order(&trailers), expected, "{lines:?}");
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
        ]);
        to_trailers(&mut trailers);
        assert_eq!(in_order(&trailers), ["x-sum: 1", "digest: 2", "etag: 3"]);
    }

    #[test]
    fn without_via_nothing_is_signed_and_our_name_is_still_known() {
        let (silent, loud) = (Pseudonym::new("ab12", false), Pseudonym::new("ab12", true));
        let mut headers = fields(&[("A", "1")]);
        silent.sign(&mut headers, Version::HTTP_11);
        assert_eq!(in_order(&headers), ["a: 1"]);
        loud.sign(&mut headers, Version::HTTP_11);
        assert!(silent.has_signed(&headers));
    }

    #[test]
    fn a_loop_is_seen_and_a_chain_is_not() {
        let (ours, other) = (Pseudonym::new("ab12", true), Pseudonym::new("cd34", true));
        let mut headers = fields(&[("Via", "1.1 proxy, 1.0 fred (crawlgate)")]);
        other.sign(&mut headers, Version::HTTP_10);
        assert!(!ours.has_signed(&headers));
        ours.sign(&mut headers, Version::HTTP_11);
        assert!(ours.has_signed(&headers) && other.has_signed(&headers));
    }
}
