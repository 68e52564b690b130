//! Hostile requests: octets that two readers could read differently, targets in disguise, protocols that are not HTTP.
//! Each row names the answer, the reason in the record, and all requests that the origin may see. Each row is sent as
//! octets of HTTP/1.1, and, if it has a meaning there, as frames of HTTP/2 ([`on_streams`]).
//! Page: `docs/threat-model.md`.
//!
//! `/smuggled` is an allowed page that no row requests openly: if an origin sees it, a request was hidden in another
//! one.

mod on_streams;
mod slow;

use std::panic::{AssertUnwindSafe, catch_unwind};

use OnStream::{But, Octets, Same, Trailers};
use Outcome::{
    BrokenOff, Closed, Ended, Refused, Reset, Served, ServedThenRefused, TunnelledThenRefused,
};
use Way::{Bare, Plain, Tls};
use serde_json::Value;

use crate::http2::{TLS, listening};
use crate::support::{CrawlgateProcess, Origin, RULES, Seen, Setup, Wire, eventually, wait_until};

/// The way in which a row's octets reach the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// On a connection to the proxy.
    Plain,
    /// Inside a CONNECT to an https origin, in a TLS session that ends at the proxy.
    Tls,
    /// Inside a CONNECT, without TLS.
    Bare,
}

/// The outcome of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// An answer of crawlgate with this status and the reason in its record, and then the end of the connection.
    Refused(u16, &'static str),
    /// The same, but the gate found the fault only after it had cleared the request: at most a part of it left, and no
    /// further request.
    BrokenOff,
    /// The connection ends without an answer, and with a record of this reason if one is due.
    Closed(Option<&'static str>),
    /// The request was harmless: the origin answered, and saw exactly these requests.
    Served(&'static [&'static str]),
    /// The origin answers the first request and sees nothing else; the second is refused.
    ServedThenRefused(&'static str, u16, &'static str),
    /// A tunnel opens, and the request inside is refused.
    TunnelledThenRefused(u16, &'static str),
    /// The stream of HTTP/2 is reset without a record, and the connection continues.
    Reset,
    /// The connection of HTTP/2 is ended without a record.
    Ended,
}

/// The request of a row on a stream of HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnStream {
    /// With the same outcome.
    Same,
    /// With this outcome.
    But(Outcome),
    /// With the row's trailers behind an empty body, and this outcome.
    Trailers(Outcome),
    /// None, for this reason.
    Octets(&'static str),
}

type Row = (&'static str, Way, &'static str, Outcome, OnStream);

const BAD: Outcome = Refused(400, "bad_request");

/// The rows. `{url}` is the origin's URL without a path, `{host}` its authority, `{port}` its port, `{gate}` the
/// proxy's own address, `{a:N}` the letter N times.
#[rustfmt::skip] // one row, one case
const ROWS: &[Row] = &[
    // The end of a request.
    ("a length beside a transfer coding", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, But(Reset)),
    ("a transfer coding beside a length", Tls, "POST /open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nContent-Length: 40\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, But(Reset)),
    ("two lengths that agree", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", BAD, Same),
    ("two lengths that disagree", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nContent-Length: 55\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, But(Reset)),
    ("a length with a plus", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: +3\r\n\r\nabc", BAD, But(Reset)),
    ("a length with a minus", Tls, "POST /open HTTP/1.1\r\nHost: {host}\r\nContent-Length: -1\r\n\r\nabc", BAD, But(Reset)),
    ("a length in hexadecimal", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0x3\r\n\r\nabc", BAD, But(Reset)),
    ("a length with a space inside", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3 0\r\n\r\nabc", BAD, But(Reset)),
    ("a length beyond 64 bits", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: 18446744073709551619\r\n\r\nabc", BAD, But(Reset)),
    ("a coding like chunked", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", BAD, But(Reset)),
    ("chunked is not the last coding", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", BAD, But(Reset)),
    ("a coding twice", Tls, "POST /open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", BAD, But(Reset)),
    ("a coding in quotes", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", BAD, But(Reset)),
    ("a coding behind a vertical tab", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", BAD, But(Ended)),
    ("a coding in HTTP/1.0", Plain, "POST {url}/open HTTP/1.0\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD, Octets("HTTP/2 has no version in a request")),
    ("white space before the colon", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", BAD, But(Ended)),
    ("a folded coding", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", BAD, But(Ended)),
    ("a folded field", Tls, "GET /open HTTP/1.1\r\nHost: {host}\r\nX-A: 1\r\n\tX-B: 2\r\n\r\n", BAD, But(Ended)),
    ("a bare line feed hides a field", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nX-A: 1\nContent-Length: 3\r\n\r\nabc", BAD, But(Ended)),
    ("a bare carriage return hides a field", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nX-A: 1\rContent-Length: 3\r\n\r\nabc", BAD, But(Ended)),
    ("a NUL in a value", Plain, "GET {url}/open HTTP/1.1\r\nHost: {host}\r\nX-A: 1\0\r\n\r\n", BAD, But(Ended)),
    ("a field without a name", Plain, "GET {url}/open HTTP/1.1\r\nHost: {host}\r\n: 1\r\n\r\n", BAD, But(Ended)),
    ("a line that is no field", Tls, "GET /open HTTP/1.1\r\nHost: {host}\r\nGET /smuggled HTTP/1.1\r\n\r\n", BAD, But(Ended)),
    ("an invalid chunk size", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BrokenOff, Octets("HTTP/2 has no chunks")),
    ("a chunk size with a sign", Tls, "POST /open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BrokenOff, Octets("HTTP/2 has no chunks")),
    ("a chunk size that overflows", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BrokenOff, Octets("HTTP/2 has no chunks")),
    ("a chunk that is longer than its size", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BrokenOff, Octets("HTTP/2 has no chunks")),
    ("a line feed ends a chunk extension", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n3;a\nabc\r\n0\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BrokenOff, Octets("HTTP/2 has no chunks")),
    ("an endless chunk extension", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n3;{a:1000}\r\nabc\r\n0\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BrokenOff, Octets("HTTP/2 has no chunks")),
    ("a bare line feed in a trailer", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T: 1\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n\r\n", BrokenOff, Trailers(BrokenOff)),
    ("an endless trailer", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T: {a:20000}\r\n\r\n", BrokenOff, Trailers(BrokenOff)),
    ("a request in a trailer", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T: GET {url}/smuggled HTTP/1.1\r\n\r\n", Served(&["POST /open"]), Trailers(Served(&["POST /open"]))),
    ("a request in a body", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 31\r\n\r\nGET /smuggled HTTP/1.1\r\nX: aaaa", Served(&["POST /open"]), Same),
    ("a request in the body of a denied one", Plain, "POST {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 31\r\n\r\nGET /smuggled HTTP/1.1\r\nX: aaaa", Refused(403, "robots_disallow"), Same),
    ("a bad request behind a good one", Plain, "GET {url}/open HTTP/1.1\r\nHost: {host}\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost : {host}\r\n\r\n", ServedThenRefused("GET /open", 400, "bad_request"), Octets("on a stream of its own, it is the row of white space")),
    ("a denied request behind a good one", Tls, "GET /open HTTP/1.1\r\nHost: {host}\r\n\r\nGET /private HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", ServedThenRefused("GET /open", 403, "robots_disallow"), Same),
    ("more empty lines than patience has", Plain, "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\nGET {url}/open HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, Octets("HTTP/2 has no lines")),

    // Beyond the size limits.
    ("a URL beyond its bound", Plain, "GET {url}/{a:5000} HTTP/1.1\r\nHost: {host}\r\n\r\n", Refused(414, "bad_request"), Same),
    ("a request line without end", Plain, "GET {url}/{a:20000}", Refused(414, "bad_request"), Octets("HTTP/2 has no lines")),
    ("a field beyond the bound of heads", Tls, "GET /open HTTP/1.1\r\nHost: {host}\r\nX: {a:20000}\r\n\r\n", Refused(431, "bad_request"), Same),
    ("a field without end", Plain, "GET {url}/open HTTP/1.1\r\nHost: {host}\r\nX: {a:20000}", Refused(431, "bad_request"), Octets("HTTP/2 has no lines")),
    ("a method beyond every bound", Plain, "{a:20000}", Refused(414, "bad_request"), Octets("HTTP/2 has no lines")),

    // Octets that are not HTTP/1.1.
    ("HTTP/0.9", Plain, "GET {url}/open\r\n\r\n", BAD, Octets("HTTP/2 has no version in a request")),
    ("the preface of HTTP/2", Plain, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Refused(505, "bad_request"), Octets("HTTP/2 has no version in a request")),
    ("a version to come", Plain, "GET {url}/open HTTP/1.2\r\nHost: {host}\r\n\r\n", Refused(505, "bad_request"), Octets("HTTP/2 has no version in a request")),
    ("a version in lower case", Plain, "GET {url}/open http/1.1\r\nHost: {host}\r\n\r\n", Refused(505, "bad_request"), Octets("HTTP/2 has no version in a request")),
    ("TLS to the plain port", Plain, "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03\r\n\r\n", BAD, Octets("HTTP/2 is spoken in TLS alone")),
    ("SOCKS5 to the plain port", Plain, "\x05\x01\x00\r\n\r\n", BAD, Octets("HTTP/2 is spoken in TLS alone")),
    ("NULs", Plain, "\0\0\0\0\r\n\r\n", BAD, Octets("HTTP/2 is spoken in TLS alone")),
    ("raw UTF-8 in the target", Plain, "GET {url}/\u{e9} HTTP/1.1\r\nHost: {host}\r\n\r\n", Served(&["GET /\u{e9}"]), Same),
    ("a control in the target", Plain, "GET {url}/open\x01 HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, But(Reset)),
    ("a space in the target", Plain, "GET {url}/open /private HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, But(Reset)),
    ("a tab for a space", Plain, "GET\t{url}/open\tHTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, Octets("HTTP/2 has no lines")),
    ("a method that is no token", Plain, "GE(T {url}/open HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, But(Ended)),
    ("no method", Plain, " {url}/open HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, But(Ended)),
    ("a method of their own", Plain, "BREW {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow"), Same),
    ("a method in lower case", Plain, "get {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow"), Same),
    ("TRACE", Tls, "TRACE /open HTTP/1.1\r\nHost: {host}\r\nCookie: secret\r\nConnection: close\r\n\r\n", Refused(405, "bad_request"), Same),

    // Targets in disguise.
    ("origin-form to a proxy", Plain, "GET /open HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", BAD, Same),
    ("asterisk-form", Plain, "OPTIONS * HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", BAD, Same),
    ("asterisk-form inside", Tls, "OPTIONS * HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", Served(&["OPTIONS *"]), Same),
    ("authority-form without CONNECT", Plain, "GET {host} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", BAD, But(Reset)),
    ("no host in the URL", Plain, "GET http:///open HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, But(Reset)),
    ("a scheme alone", Plain, "GET http: HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, Same),
    ("port 0", Plain, "GET http://site.test:0/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", BAD, Same),
    ("port 99999", Plain, "GET http://site.test:99999/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", BAD, Same),
    ("a port with a sign", Plain, "GET http://site.test:+80/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", BAD, Same),
    ("two ports", Plain, "GET http://site.test:80:{port}/open HTTP/1.1\r\nHost: x\r\n\r\n", BAD, But(Reset)),
    ("an IPv6 address with a zone", Plain, "GET http://[fe80::1%25lo]/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", BAD, Same),
    ("a bracket that stays open", Plain, "GET http://[::1/open HTTP/1.1\r\nHost: x\r\n\r\n", BAD, But(Reset)),
    ("an octal address", Plain, "GET http://0177.0.0.1:{port}/private HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow"), Same),
    ("a hexadecimal address", Plain, "GET http://0x7f000001:{port}/private HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow"), Same),
    ("an address of too many parts", Plain, "GET http://127.0.0.0.1:{port}/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", BAD, Same),
    ("a backslash for a slash", Plain, "GET http:\\\\site.test:{port}\\private HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, Octets("HTTP/2 has no URL in one piece")),
    ("a backslash in the authority", Plain, "GET http://site.test:{port}\\@other.test/open HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, But(Reset)),
    ("userinfo that looks like a host", Plain, "GET http://other.test@site.test:{port}/private HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow"), But(BAD)),
    ("a fragment", Plain, "GET {url}/private#/open HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow"), Same),
    ("encoded dots", Plain, "GET {url}/open/%2e%2e/private HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", Refused(403, "path_guard"), Same),
    ("an encoded slash in a host", Plain, "GET http://site.test%2f.other.test/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", BAD, But(Reset)),
    ("a trailing dot", Plain, "GET http://site.test.:{port}/private HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow"), Same),
    ("two trailing dots", Plain, "GET http://site.test..:{port}/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", BAD, Same),
    ("a label of 64 letters", Plain, "GET http://{a:64}.test:{port}/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", Refused(502, "robots_unreachable"), Same),
    ("a host of 300 letters", Plain, "GET http://{a:60}.{a:60}.{a:60}.{a:60}.{a:60}/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", BAD, Same),
    ("a host in Unicode", Plain, "GET http://\u{455}ite.test:{port}/open HTTP/1.1\r\nHost: x\r\n\r\n", BAD, But(Reset)),
    ("the proxy itself", Plain, "GET http://{gate}/open HTTP/1.1\r\nHost: {gate}\r\nConnection: close\r\n\r\n", Refused(403, "address_prohibited"), Same),
    ("the proxy itself by a name", Plain, "GET http://site.test:{gateport}/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", Refused(403, "address_prohibited"), Same),

    // Hosts that disagree.
    ("no Host", Plain, "GET {url}/open HTTP/1.1\r\n\r\n", BAD, But(Served(&["GET /open"]))),
    ("two Hosts", Plain, "GET {url}/open HTTP/1.1\r\nHost: {host}\r\nHost: other.test\r\n\r\n", BAD, Same),
    ("two Hosts that agree", Tls, "GET /open HTTP/1.1\r\nHost: {host}\r\nHost: {host}\r\n\r\n", BAD, Same),
    ("another Host inside", Tls, "GET /open HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n", Refused(421, "misdirected"), Same),
    ("a Host with a path", Tls, "GET /open HTTP/1.1\r\nHost: {host}/private\r\nConnection: close\r\n\r\n", Refused(421, "misdirected"), But(Reset)),
    ("a Host with userinfo", Tls, "GET /open HTTP/1.1\r\nHost: a@{host}\r\nConnection: close\r\n\r\n", Refused(421, "misdirected"), But(BAD)),
    ("a Host of two", Tls, "GET /open HTTP/1.1\r\nHost: {host}, other.test\r\nConnection: close\r\n\r\n", Refused(421, "misdirected"), But(Reset)),
    ("another Host to a proxy", Plain, "GET {url}/private HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow"), Same),
    ("X-Forwarded-Host", Tls, "GET /private HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Host: other.test\r\nX-Original-URL: /open\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow"), Same),
    ("another URL inside", Tls, "GET https://other.test/open HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", Refused(421, "misdirected"), But(BAD)),
    ("another scheme inside", Tls, "GET http://{host}/open HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", Refused(421, "misdirected"), Same),

    // CONNECT.
    ("CONNECT without a port", Plain, "CONNECT site.test HTTP/1.1\r\nHost: site.test\r\n\r\n", BAD, Same),
    ("CONNECT with a path", Plain, "CONNECT {host}/open HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, But(Reset)),
    ("CONNECT with a URL", Plain, "CONNECT {url}/ HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, But(Reset)),
    ("CONNECT with a body", Plain, "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\n\r\nabc", BAD, Same),
    ("CONNECT to mail", Plain, "CONNECT 8.8.8.8:25 HTTP/1.1\r\nHost: 8.8.8.8:25\r\n\r\nEHLO a\r\n", TunnelledThenRefused(400, "bad_request"), Same),
    ("CONNECT to ssh", Plain, "CONNECT site.test:22 HTTP/1.1\r\nHost: x\r\n\r\nSSH-2.0-x\r\n", TunnelledThenRefused(400, "bad_request"), Same),
    ("a request for a port that no CONNECT may ask for", Plain, "CONNECT 8.8.8.8:25 HTTP/1.1\r\nHost: x\r\n\r\nGET /open HTTP/1.1\r\nHost: 8.8.8.8:25\r\nConnection: close\r\n\r\n", TunnelledThenRefused(403, "address_prohibited"), Same),
    ("CONNECT to the proxy itself", Plain, "CONNECT {gate} HTTP/1.1\r\nHost: {gate}\r\n\r\nGET /open HTTP/1.1\r\nHost: {gate}\r\nConnection: close\r\n\r\n", TunnelledThenRefused(403, "address_prohibited"), Same),
    ("a request for another origin behind such a CONNECT", Plain, "CONNECT 8.8.8.8:25 HTTP/1.1\r\nHost: 8.8.8.8:25\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", TunnelledThenRefused(421, "misdirected"), Same),
    ("CONNECT in a CONNECT", Tls, "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, Same),
    ("CONNECT in a bare tunnel", Bare, "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD, Octets("HTTP/2 is spoken in TLS alone")),
    ("the preface of HTTP/2 in a bare tunnel", Bare, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Refused(505, "bad_request"), Octets("HTTP/2 is spoken in TLS alone")),
    ("plain HTTP inside, for a disallowed page", Bare, "GET /private HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow"), Octets("HTTP/2 is spoken in TLS alone")),
    ("neither TLS nor HTTP inside", Bare, "\x05\x01\x00", Closed(Some("opaque_tunnel")), Octets("HTTP/2 is spoken in TLS alone")),
    ("TLS in TLS", Tls, "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03\r\n\r\n", BAD, Octets("HTTP/2 has no lines")),
    ("SSH inside", Bare, "\x53SH-2.0-a\r\n\r\n", BAD, Octets("HTTP/2 is spoken in TLS alone")),
    ("an invalid ClientHello", Bare, "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", Closed(None), Octets("HTTP/2 is spoken in TLS alone")),
    ("a ClientHello without end", Bare, "\x16\x03\x01\x7f\x7f\x01\x01\x00\x00{a:20000}", Closed(None), Octets("HTTP/2 is spoken in TLS alone")),
    ("an alert for a ClientHello", Bare, "\x15\x03\x01\x00\x02\x02\x00", Closed(Some("opaque_tunnel")), Octets("HTTP/2 is spoken in TLS alone")),

    // Upgrades, expectations, credentials, routes.
    ("an upgrade to h2c", Plain, "GET {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", Refused(403, "robots_disallow"), But(Reset)),
    ("an upgrade to TLS", Plain, "GET {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade, close\r\nUpgrade: TLS/1.0\r\n\r\n", Refused(403, "robots_disallow"), But(Reset)),
    ("a request behind an upgrade that is denied", Plain, "GET {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", Refused(403, "robots_disallow"), But(Reset)),
    ("a request behind an upgrade that the origin declines", Plain, "GET {url}/open HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nGET {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", ServedThenRefused("GET /open", 403, "robots_disallow"), But(Reset)),
    ("an upgrade with a body", Plain, "GET {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\nabc", Refused(403, "robots_disallow"), But(Reset)),
    ("an expectation for a denied upload", Plain, "POST {url}/private HTTP/1.1\r\nHost: {host}\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 5\r\n\r\n", Refused(403, "robots_disallow"), Same),
    ("an unknown expectation", Plain, "GET {url}/private HTTP/1.1\r\nHost: {host}\r\nExpect: miracles\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow"), Same),
    ("rubbish for credentials", Plain, "GET {url}/private HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: \u{ff}\u{fe} ===\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow"), Same),
    ("fields named as hop-by-hop", Plain, "GET {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: close, Host, User-Agent\r\n\r\n", Refused(403, "robots_disallow"), But(Reset)),
    ("a flood of Via", Plain, "GET {url}/private HTTP/1.1\r\nHost: {host}\r\nVia: {a:3000}\r\nVia: 1.1 a, 1.1 b, 1.1 c\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow"), Same),
    ("Max-Forwards of none", Plain, "OPTIONS {url}/private HTTP/1.1\r\nHost: {host}\r\nMax-Forwards: 0\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow"), Same),
];

pub fn bounds(setup: &mut Setup) {
    setup.set("limits", "uri_bytes", "4096");
    setup.set("limits", "header_bytes", "16384");
    setup.set("limits", "header_timeout", "\"3s\"");
    setup.set("egress", "connect_ports", "[\"1024-65535\", 443]");
}

/// Returns the text of a row: letters repeated, placeholders filled in.
fn fill(text: &str, gate: &CrawlgateProcess, origin: &Origin) -> String {
    let mut text = text
        .replace("{url}", &origin.url(""))
        .replace("{host}", &origin.authority())
        .replace("{port}", &origin.port().to_string())
        .replace("{gateport}", &gate.address.port().to_string())
        .replace("{gate}", &gate.address.to_string());
    while let Some(start) = text.find("{a:") {
        let end = start + text[start..].find('}').unwrap();
        let count = text[start + 3..end].parse().unwrap();
        text.replace_range(start..=end, &"a".repeat(count));
    }
    text
}

fn reasons(gate: &CrawlgateProcess) -> Vec<Value> {
    let records = gate.records();
    records.iter().map(|record| record["reason"].clone()).collect()
}

fn check(
    gate: &CrawlgateProcess,
    plain: &Origin,
    tls: &Origin,
    (name, way, text, outcome, _): &Row,
) {
    let origin = match way {
        Tls => tls,
        Plain | Bare => plain,
    };
    let (seen_before, recorded_before) = (origin.seen_but_robots().len(), reasons(gate).len());
    let mut wire = match way {
        Plain => gate.connect(),
        Tls => gate.intercept(&origin.authority(), "site.test"),
        Bare => {
            let mut wire = gate.connect();
            assert_eq!(wire.tunnel(&origin.authority()).status, 200, "{name}");
            wire
        }
    };
    wire.send(fill(text, gate, origin));
    let refused = |wire: &mut Wire, status, reason| {
        let answer = wire.response("GET");
        gate.refused(&answer, status, reason);
        assert!(wire.is_closed(), "{name}: there is more after the answer");
    };
    let seen = || origin.seen_but_robots()[seen_before..].to_vec();
    match *outcome {
        Refused(status, reason) => {
            refused(&mut wire, status, reason);
            assert_eq!(seen(), [""; 0], "{name}");
        }
        TunnelledThenRefused(status, reason) => {
            assert_eq!(wire.response("CONNECT").status, 200, "{name}");
            refused(&mut wire, status, reason);
            assert_eq!(seen(), [""; 0], "{name}");
        }
        BrokenOff => {
            wire.drain();
            let record = eventually("its record", || {
                let records = gate.records();
                records.into_iter().nth(recorded_before)
            });
            assert!(!record["error"].is_null(), "{name}: {record}");
            let others = seen().into_iter().filter(|line| line != "POST /open");
            assert_eq!(others.count(), 0, "{name}: {:?}", seen());
        }
        Closed(reason) => {
            wire.drain();
            if let Some(reason) = reason {
                wait_until("its record", || {
                    reasons(gate)[recorded_before..].contains(&reason.into())
                });
            }
            assert_eq!(seen(), [""; 0], "{name}");
        }
        Served(lines) => {
            let answer = wire.response("GET");
            assert!(answer.status == 200 && !answer.is_ours(), "{name}: {answer:?}");
            assert_eq!(seen(), lines, "{name}");
        }
        ServedThenRefused(line, status, reason) => {
            let answer = wire.response("GET");
            assert!(answer.status == 200 && !answer.is_ours(), "{name}: {answer:?}");
            refused(&mut wire, status, reason);
            assert_eq!(seen(), [line], "{name}");
        }
        Reset | Ended => unreachable!("{name}: HTTP/1.1 has no streams"),
    }
}

/// Returns the names of the rows that fail.
fn failing<'a>(rows: impl Iterator<Item = &'a Row>, check: impl Fn(&Row)) -> Vec<&'a str> {
    rows.filter(|row| catch_unwind(AssertUnwindSafe(|| check(row))).is_err())
        .map(|(name, ..)| *name)
        .collect()
}

/// Checks that no request was hidden in another one, and that the gate still serves.
fn check_after(gate: &CrawlgateProcess, plain: &Origin, tls: &Origin, whole: usize) {
    // By now everything on its way has arrived.
    let seen: Vec<Seen> = [plain.seen(), tls.seen()].concat();
    assert!(seen.iter().all(|seen| !seen.line().contains("smuggled")));
    let uploads = seen.iter().filter(|seen| seen.whole && seen.line() == "POST /open");
    assert_eq!(uploads.count(), whole, "a broken body arrived as a whole one");
    gate.passes(&plain.url("/still-here"));
}

#[test]
fn each_hostile_request_has_its_answer_and_its_record_and_hides_nothing() {
    let gate = CrawlgateProcess::with(bounds);
    let (plain, tls) = (Origin::with_rules(RULES), Origin::https().robots(RULES));
    let failed = failing(ROWS.iter(), |row| check(&gate, &plain, &tls, row));
    assert!(failed.is_empty(), "{}: {failed:#?}", failed.len());
    let uploads = |row: &&Row| row.3 == Served(&["POST /open"]);
    check_after(&gate, &plain, &tls, ROWS.iter().filter(uploads).count());
}

#[test]
fn each_hostile_request_on_a_stream_has_its_answer_and_its_record_and_hides_nothing() {
    let (gate, place) = listening(TLS, bounds);
    let (plain, tls) = (Origin::with_rules(RULES), Origin::https().robots(RULES));
    let rows = || ROWS.iter().filter(|row| !matches!(row.4, Octets(_)));
    let failed = failing(rows(), |row| {
        on_streams::check(&gate, place, &plain, &tls, row);
    });
    assert!(failed.is_empty(), "{}: {failed:#?}", failed.len());
    let uploads = rows().filter(|row| on_streams::outcome(row) == Served(&["POST /open"]));
    check_after(&gate, &plain, &tls, uploads.count());
    let recorded: usize = rows().map(on_streams::records).sum();
    gate.record_of(&plain.url("/still-here"));
    assert_eq!(gate.records().len(), recorded + 1);
}
