//! What a proxy does to header fields: nothing, but for those that end here (RFC 9110 7.6).

use http::header::{
    CONNECTION, CONTENT_LENGTH, Entry, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    TE, TRANSFER_ENCODING, UPGRADE, USER_AGENT, VIA,
};
use http::{HeaderMap, HeaderValue, Version};

use crate::rep::Origin;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Our name in `Via` and `Proxy-Status`.
#[derive(Debug, Clone)]
pub struct Pseudonym {
    name: Box<str>,
    /// `1.1 name` and `1.0 name`.
    via: [HeaderValue; 2],
}

impl Pseudonym {
    /// From a suffix that no other proxy on the way has, so that a loop is told from a chain.
    pub fn new(suffix: &str) -> Pseudonym {
        let suffix: String = suffix.chars().filter(char::is_ascii_alphanumeric).collect();
        let name = format!("crawlgate-{suffix}");
        let line = |version| {
            HeaderValue::try_from(format!("{version} {name}"))
                .unwrap_or(HeaderValue::from_static("1.1 crawlgate"))
        };
        Pseudonym {
            via: [line("1.1"), line("1.0")],
            name: name.into(),
        }
    }

    /// Adds us to the message's way (RFC 9110 7.6.3), which it came by `version`.
    pub fn sign(&self, headers: &mut HeaderMap, version: Version) {
        let [http_11, http_10] = &self.via;
        let ours = if version == Version::HTTP_10 {
            http_10
        } else {
            http_11
        };
        headers.append(VIA, ours.clone());
    }

    /// Whether the message has passed here before.
    pub fn has_signed(&self, headers: &HeaderMap) -> bool {
        headers.contains_key(VIA)
            && headers.get_all(VIA).iter().any(|line| {
                line.as_bytes()
                    .split(|byte| matches!(byte, b',' | b' ' | b'\t'))
                    .any(|word| word == self.name.as_bytes())
            })
    }
}

/// Turns a crawler's fields into those for the origin. Returns whether the crawler asks, and may ask, to switch to
/// WebSocket; no other protocol is passed on, since nothing could be judged in it.
pub fn to_origin(headers: &mut HeaderMap, origin: &Origin, may_switch: bool) -> bool {
    let takes_trailers = headers
        .get_all(TE)
        .iter()
        .any(|value| names(value).any(|name| name.eq_ignore_ascii_case(b"trailers")));
    let wants_websocket = may_switch
        && lists(headers, &CONNECTION, b"upgrade")
        && lists(headers, &UPGRADE, b"websocket");
    let is_chunked = headers.contains_key(TRANSFER_ENCODING);
    strip(headers);
    headers.remove(PROXY_AUTHORIZATION);
    if let Some((_, authority)) = origin.as_str().split_once("://") {
        set_host(headers, authority);
    }
    if is_chunked {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
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
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    strip(headers);
    headers.remove(PROXY_AUTHENTICATE);
    // hyper has seen to it that all members of a list are one number (RFC 9110 8.6).
    if let Some(length) = headers.get(CONTENT_LENGTH)
        && let Some((first, _)) = length.to_str().unwrap_or_default().split_once(',')
        && let Ok(first) = HeaderValue::from_str(first.trim())
    {
        headers.insert(CONTENT_LENGTH, first);
    }
}

/// Whether a response's transfer coding is one that ends here: `chunked`, or none. Any other would be taken off the
/// fields and left on the body.
pub fn is_framed_plainly(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(TRANSFER_ENCODING).iter();
    match (values.next(), values.next()) {
        (None, _) => true,
        (Some(value), None) => value.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// Removes a User-Agent that `Connection` makes one for this connection only (RFC 9110 7.6.1): the origin never sees it, so
/// it identifies nobody.
pub fn drop_nominated_agent(headers: &mut HeaderMap) {
    if lists(headers, &CONNECTION, b"user-agent") {
        headers.remove(USER_AGENT);
    }
}

/// The target names the host; what the crawler's own Host says does not matter (RFC 9112 3.2.2).
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

/// Removes the fields that are for this connection only: those that `Connection` lists, on all of its
/// lines, and those that everybody knows.
fn strip(headers: &mut HeaderMap) {
    // One look at each name is cheaper than a search for each field that is seldom there.
    let mut found = [false; 6];
    for name in headers.keys() {
        let place = match name.as_str() {
            "connection" => 0,
            "keep-alive" => 1,
            "proxy-connection" => 2,
            "te" => 3,
            "transfer-encoding" => 4,
            "upgrade" => 5,
            _ => continue,
        };
        if let Some(found) = found.get_mut(place) {
            *found = true;
        }
    }
    let [connection, ..] = found;
    if connection {
        for name in listed(headers) {
            headers.remove(name);
        }
    }
    let known = [
        CONNECTION,
        KEEP_ALIVE,
        PROXY_CONNECTION,
        TE,
        TRANSFER_ENCODING,
        UPGRADE,
    ];
    for (name, found) in known.into_iter().zip(found) {
        if found {
            headers.remove(name);
        }
    }
}

/// What `Connection` lists, but for what it usually says.
fn listed(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter(|value| !matches!(value.as_bytes(), b"keep-alive" | b"close"))
        .flat_map(names)
        .filter_map(|name| HeaderName::from_bytes(name).ok())
        // Framing and addressing are never optional, whatever a crawler lists.
        .filter(|name| ![HOST, CONTENT_LENGTH, VIA].contains(name))
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

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut lines: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn what_ends_here_is_not_passed_on() {
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
    fn a_response_loses_what_was_for_us() {
        let mut headers = fields(&[
            ("Connection", "x-hop"),
            ("X-Hop", "1"),
            ("Proxy-Authenticate", "Basic"),
            ("Transfer-Encoding", "chunked"),
            ("Content-Length", "3"),
            ("Trailer", "T"),
        ]);
        to_crawler(&mut headers);
        assert_eq!(shown(&headers), ["trailer: T"]);
    }

    #[test]
    fn a_loop_is_seen_and_a_chain_is_not() {
        let (ours, other) = (Pseudonym::new("ab12"), Pseudonym::new("cd34"));
        let mut headers = fields(&[("Via", "1.1 proxy, 1.0 fred (crawlgate)")]);
        other.sign(&mut headers, Version::HTTP_10);
        assert!(!ours.has_signed(&headers));
        ours.sign(&mut headers, Version::HTTP_11);
        assert!(ours.has_signed(&headers) && other.has_signed(&headers));
    }
}
