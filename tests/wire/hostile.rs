//! Hostile requests: octets that two readers could read differently, targets in disguise, protocols that are not HTTP.
//! Each row names the answer, the reason in the record, and all requests that the origin may see.
//!
//! `/smuggled` is an allowed page that no row requests openly: if an origin sees it, a request was hidden in another
//! one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use Outcome::{BrokenOff, Closed, Refused, Served, ServedThenRefused, TunnelledThenRefused};
use Way::{Bare, Plain, Tls};
use serde_json::Value;

use crate::support::{Gate, Origin, RULES, Seen, Setup, Wire, eventually};

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
}

type Row = (&'static str, Way, &'static str, Outcome);

const BAD: Outcome = Refused(400, "bad_request");

/// The rows. `{url}` is the origin's URL without a path, `{host}` its authority, `{port}` its port, `{gate}` the
/// proxy's own address, `{a:N}` the letter N times.
#[rustfmt::skip] // one row, one case
const ROWS: &[Row] = &[
    // The end of a request.
    ("a length beside a transfer coding", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD),
    ("a transfer coding beside a length", Tls, "POST /open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nContent-Length: 40\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD),
    ("two lengths that agree", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", BAD),
    ("two lengths that disagree", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nContent-Length: 55\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD),
    ("a length with a plus", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: +3\r\n\r\nabc", BAD),
    ("a length with a minus", Tls, "POST /open HTTP/1.1\r\nHost: {host}\r\nContent-Length: -1\r\n\r\nabc", BAD),
    ("a length in hexadecimal", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0x3\r\n\r\nabc", BAD),
    ("a length with a space inside", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3 0\r\n\r\nabc", BAD),
    ("a length beyond 64 bits", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: 18446744073709551619\r\n\r\nabc", BAD),
    ("a coding like chunked", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", BAD),
    ("chunked is not the last coding", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", BAD),
    ("a coding twice", Tls, "POST /open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", BAD),
    ("a coding in quotes", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", BAD),
    ("a coding behind a vertical tab", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", BAD),
    ("a coding in HTTP/1.0", Plain, "POST {url}/open HTTP/1.0\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD),
    ("white space before the colon", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", BAD),
    ("a folded coding", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", BAD),
    ("a folded field", Tls, "GET /open HTTP/1.1\r\nHost: {host}\r\nX-A: 1\r\n\tX-B: 2\r\n\r\n", BAD),
    ("a bare line feed hides a field", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nX-A: 1\nContent-Length: 3\r\n\r\nabc", BAD),
    ("a bare carriage return hides a field", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nX-A: 1\rContent-Length: 3\r\n\r\nabc", BAD),
    ("a NUL in a value", Plain, "GET {url}/open HTTP/1.1\r\nHost: {host}\r\nX-A: 1\0\r\n\r\n", BAD),
    ("a field without a name", Plain, "GET {url}/open HTTP/1.1\r\nHost: {host}\r\n: 1\r\n\r\n", BAD),
    ("a line that is no field", Tls, "GET /open HTTP/1.1\r\nHost: {host}\r\nGET /smuggled HTTP/1.1\r\n\r\n", BAD),
    ("an invalid chunk size", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BrokenOff),
    ("a chunk size with a sign", Tls, "POST /open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BrokenOff),
    ("a chunk size that overflows", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BrokenOff),
    ("a chunk that is longer than its size", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BrokenOff),
    ("a line feed ends a chunk extension", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n3;a\nabc\r\n0\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BrokenOff),
    ("an endless chunk extension", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n3;{a:1000}\r\nabc\r\n0\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", BrokenOff),
    ("a bare line feed in a trailer", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T: 1\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n\r\n", BrokenOff),
    ("an endless trailer", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T: {a:20000}\r\n\r\n", BrokenOff),
    ("a request in a trailer", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T: GET {url}/smuggled HTTP/1.1\r\n\r\n", Served(&["POST /open"])),
    ("a request in a body", Plain, "POST {url}/open HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 30\r\n\r\nGET /smuggled HTTP/1.1\r\nX: aaaa", Served(&["POST /open"])),
    ("a request in the body of a denied one", Plain, "POST {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 30\r\n\r\nGET /smuggled HTTP/1.1\r\nX: aaaa", Refused(403, "robots_disallow")),
    ("a bad request behind a good one", Plain, "GET {url}/open HTTP/1.1\r\nHost: {host}\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost : {host}\r\n\r\n", ServedThenRefused("GET /open", 400, "bad_request")),
    ("a denied request behind a good one", Tls, "GET /open HTTP/1.1\r\nHost: {host}\r\n\r\nGET /private HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", ServedThenRefused("GET /open", 403, "robots_disallow")),
    ("more empty lines than patience has", Plain, "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\nGET {url}/open HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD),

    // Beyond the size limits.
    ("a URL beyond its bound", Plain, "GET {url}/{a:5000} HTTP/1.1\r\nHost: {host}\r\n\r\n", Refused(414, "bad_request")),
    ("a request line without end", Plain, "GET {url}/{a:20000}", Refused(414, "bad_request")),
    ("a field beyond the bound of heads", Tls, "GET /open HTTP/1.1\r\nHost: {host}\r\nX: {a:20000}\r\n\r\n", Refused(431, "bad_request")),
    ("a field without end", Plain, "GET {url}/open HTTP/1.1\r\nHost: {host}\r\nX: {a:20000}", Refused(431, "bad_request")),
    ("a method beyond every bound", Plain, "{a:20000}", Refused(414, "bad_request")),

    // Octets that are not HTTP/1.1.
    ("HTTP/0.9", Plain, "GET {url}/open\r\n\r\n", BAD),
    ("the preface of HTTP/2", Plain, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Refused(505, "bad_request")),
    ("a version to come", Plain, "GET {url}/open HTTP/1.2\r\nHost: {host}\r\n\r\n", Refused(505, "bad_request")),
    ("a version in lower case", Plain, "GET {url}/open http/1.1\r\nHost: {host}\r\n\r\n", Refused(505, "bad_request")),
    ("TLS to the plain port", Plain, "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03\r\n\r\n", BAD),
    ("SOCKS5 to the plain port", Plain, "\x05\x01\x00\r\n\r\n", BAD),
    ("NULs", Plain, "\0\0\0\0\r\n\r\n", BAD),
    ("raw UTF-8 in the target", Plain, "GET {url}/\u{e9} HTTP/1.1\r\nHost: {host}\r\n\r\n", Served(&["GET /\u{e9}"])),
    ("a control in the target", Plain, "GET {url}/open\x01 HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD),
    ("a space in the target", Plain, "GET {url}/open /private HTTP/1.1\r\nHost: {host}\r\n\r\n", Refused(505, "bad_request")),
    ("a tab for a space", Plain, "GET\t{url}/open\tHTTP/1.1\r\nHost: {host}\r\n\r\n", BAD),
    ("a method that is no token", Plain, "GE(T {url}/open HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD),
    ("no method", Plain, " {url}/open HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD),
    ("a method of their own", Plain, "BREW {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow")),
    ("a method in lower case", Plain, "get {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow")),
    ("TRACE", Tls, "TRACE /open HTTP/1.1\r\nHost: {host}\r\nCookie: secret\r\nConnection: close\r\n\r\n", Refused(405, "bad_request")),

    // Targets in disguise.
    ("origin-form to a proxy", Plain, "GET /open HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", BAD),
    ("asterisk-form", Plain, "OPTIONS * HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", BAD),
    ("asterisk-form inside", Tls, "OPTIONS * HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", BAD),
    ("authority-form without CONNECT", Plain, "GET {host} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", BAD),
    ("no host in the URL", Plain, "GET http:///open HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD),
    ("a scheme alone", Plain, "GET http: HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD),
    ("port 0", Plain, "GET http://site.test:0/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", BAD),
    ("port 99999", Plain, "GET http://site.test:99999/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", BAD),
    ("a port with a sign", Plain, "GET http://site.test:+80/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", BAD),
    ("two ports", Plain, "GET http://site.test:80:{port}/open HTTP/1.1\r\nHost: x\r\n\r\n", BAD),
    ("an IPv6 address with a zone", Plain, "GET http://[fe80::1%25lo]/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", BAD),
    ("a bracket that stays open", Plain, "GET http://[::1/open HTTP/1.1\r\nHost: x\r\n\r\n", BAD),
    ("an octal address", Plain, "GET http://0177.0.0.1:{port}/private HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow")),
    ("a hexadecimal address", Plain, "GET http://0x7f000001:{port}/private HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow")),
    ("an address of too many parts", Plain, "GET http://127.0.0.0.1:{port}/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", BAD),
    ("a backslash for a slash", Plain, "GET http:\\\\site.test:{port}\\private HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD),
    ("a backslash in the authority", Plain, "GET http://site.test:{port}\\@other.test/open HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD),
    ("userinfo that looks like a host", Plain, "GET http://other.test@site.test:{port}/private HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow")),
    ("a fragment", Plain, "GET {url}/private#/open HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow")),
    ("encoded dots", Plain, "GET {url}/open/%2e%2e/private HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", Refused(403, "path_guard")),
    ("an encoded slash in a host", Plain, "GET http://site.test%2f.other.test/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", BAD),
    ("a trailing dot", Plain, "GET http://site.test.:{port}/private HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow")),
    ("two trailing dots", Plain, "GET http://site.test..:{port}/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", BAD),
    ("a label of 64 letters", Plain, "GET http://{a:64}.test:{port}/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", Refused(403, "robots_unreachable")),
    ("a host of 300 letters", Plain, "GET http://{a:60}.{a:60}.{a:60}.{a:60}.{a:60}/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", BAD),
    ("a host in Unicode", Plain, "GET http://\u{455}ite.test:{port}/open HTTP/1.1\r\nHost: x\r\n\r\n", BAD),
    ("the proxy itself", Plain, "GET http://{gate}/open HTTP/1.1\r\nHost: {gate}\r\nConnection: close\r\n\r\n", Refused(403, "address_prohibited")),
    ("the proxy itself by a name", Plain, "GET http://site.test:{gateport}/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", Refused(403, "address_prohibited")),

    // Hosts that disagree.
    ("no Host", Plain, "GET {url}/open HTTP/1.1\r\n\r\n", BAD),
    ("two Hosts", Plain, "GET {url}/open HTTP/1.1\r\nHost: {host}\r\nHost: other.test\r\n\r\n", BAD),
    ("two Hosts that agree", Tls, "GET /open HTTP/1.1\r\nHost: {host}\r\nHost: {host}\r\n\r\n", BAD),
    ("another Host inside", Tls, "GET /open HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n", Refused(421, "misdirected")),
    ("a Host with a path", Tls, "GET /open HTTP/1.1\r\nHost: {host}/private\r\nConnection: close\r\n\r\n", Refused(421, "misdirected")),
    ("a Host with userinfo", Tls, "GET /open HTTP/1.1\r\nHost: a@{host}\r\nConnection: close\r\n\r\n", Refused(421, "misdirected")),
    ("a Host of two", Tls, "GET /open HTTP/1.1\r\nHost: {host}, other.test\r\nConnection: close\r\n\r\n", Refused(421, "misdirected")),
    ("another Host to a proxy", Plain, "GET {url}/private HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow")),
    ("X-Forwarded-Host", Tls, "GET /private HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Host: other.test\r\nX-Original-URL: /open\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow")),
    ("another URL inside", Tls, "GET https://other.test/open HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", Refused(421, "misdirected")),
    ("another scheme inside", Tls, "GET http://{host}/open HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", Refused(421, "misdirected")),

    // CONNECT.
    ("CONNECT without a port", Plain, "CONNECT site.test HTTP/1.1\r\nHost: site.test\r\n\r\n", BAD),
    ("CONNECT with a path", Plain, "CONNECT {host}/open HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD),
    ("CONNECT with a URL", Plain, "CONNECT {url}/ HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD),
    ("CONNECT with a body", Plain, "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\n\r\nabc", BAD),
    ("CONNECT to mail", Plain, "CONNECT 8.8.8.8:25 HTTP/1.1\r\nHost: 8.8.8.8:25\r\n\r\nEHLO a\r\n", TunnelledThenRefused(400, "bad_request")),
    ("CONNECT to ssh", Plain, "CONNECT site.test:22 HTTP/1.1\r\nHost: x\r\n\r\nSSH-2.0-x\r\n", TunnelledThenRefused(400, "bad_request")),
    ("a request for a port that no CONNECT may ask for", Plain, "CONNECT 8.8.8.8:25 HTTP/1.1\r\nHost: x\r\n\r\nGET /open HTTP/1.1\r\nHost: 8.8.8.8:25\r\nConnection: close\r\n\r\n", TunnelledThenRefused(403, "address_prohibited")),
    ("CONNECT to the proxy itself", Plain, "CONNECT {gate} HTTP/1.1\r\nHost: {gate}\r\n\r\nGET /open HTTP/1.1\r\nHost: {gate}\r\nConnection: close\r\n\r\n", TunnelledThenRefused(403, "address_prohibited")),
    ("a request for another origin behind such a CONNECT", Plain, "CONNECT 8.8.8.8:25 HTTP/1.1\r\nHost: 8.8.8.8:25\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", TunnelledThenRefused(421, "misdirected")),
    ("CONNECT in a CONNECT", Tls, "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD),
    ("CONNECT in a bare tunnel", Bare, "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n", BAD),
    ("plain HTTP inside, for a disallowed page", Bare, "GET /private HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow")),
    ("neither TLS nor HTTP inside", Bare, "\x05\x01\x00", Closed(Some("opaque_tunnel"))),
    ("TLS in TLS", Tls, "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03\r\n\r\n", BAD),
    ("SSH inside", Bare, "\x53SH-2.0-a\r\n\r\n", BAD),
    ("an invalid ClientHello", Bare, "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", Closed(None)),
    ("a ClientHello without end", Bare, "\x16\x03\x01\x7f\x7f\x01\x01\x00\x00{a:20000}", Closed(None)),
    ("an alert for a ClientHello", Bare, "\x15\x03\x01\x00\x02\x02\x00", Closed(Some("opaque_tunnel"))),

    // Upgrades, expectations, credentials, routes.
    ("an upgrade to h2c", Plain, "GET {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", Refused(403, "robots_disallow")),
    ("an upgrade to TLS", Plain, "GET {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade, close\r\nUpgrade: TLS/1.0\r\n\r\n", Refused(403, "robots_disallow")),
    ("a request behind an upgrade that is denied", Plain, "GET {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\nGET {url}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n", Refused(403, "robots_disallow")),
    ("a request behind an upgrade that the origin declines", Plain, "GET {url}/open HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nGET {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", ServedThenRefused("GET /open", 403, "robots_disallow")),
    ("an upgrade with a body", Plain, "GET {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\nabc", Refused(403, "robots_disallow")),
    ("an expectation for a denied upload", Plain, "POST {url}/private HTTP/1.1\r\nHost: {host}\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 5\r\n\r\n", Refused(403, "robots_disallow")),
    ("an unknown expectation", Plain, "GET {url}/private HTTP/1.1\r\nHost: {host}\r\nExpect: miracles\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow")),
    ("rubbish for credentials", Plain, "GET {url}/private HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: \u{ff}\u{fe} ===\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow")),
    ("fields named as hop-by-hop", Plain, "GET {url}/private HTTP/1.1\r\nHost: {host}\r\nConnection: close, Host, User-Agent\r\n\r\n", Refused(403, "robots_disallow")),
    ("a flood of Via", Plain, "GET {url}/private HTTP/1.1\r\nHost: {host}\r\nVia: {a:3000}\r\nVia: 1.1 a, 1.1 b, 1.1 c\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow")),
    ("Max-Forwards of none", Plain, "OPTIONS {url}/private HTTP/1.1\r\nHost: {host}\r\nMax-Forwards: 0\r\nConnection: close\r\n\r\n", Refused(403, "robots_disallow")),
];

pub fn bounds(setup: &mut Setup) {
    setup.set("limits", "uri_bytes", "4096");
    setup.set("limits", "header_bytes", "16384");
    setup.set("limits", "header_timeout", "\"1s\"");
    setup.set("egress", "connect_ports", "[\"1024-65535\", 443]");
}

/// Returns the octets of a row: letters repeated, placeholders filled in. Each character below U+0080 is its octet.
fn octets(text: &str, gate: &Gate, origin: &Origin) -> Vec<u8> {
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
    text.into_bytes()
}

fn reasons(gate: &Gate) -> Vec<Value> {
    let records = gate.records();
    records
        .iter()
        .map(|record| record["reason"].clone())
        .collect()
}

fn check(gate: &Gate, plain: &Origin, tls: &Origin, (name, way, text, outcome): &Row) {
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
    wire.send(octets(text, gate, origin));
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
                eventually("its record", || {
                    let reasons = reasons(gate);
                    reasons[recorded_before..]
                        .contains(&reason.into())
                        .then_some(())
                });
            }
            assert_eq!(seen(), [""; 0], "{name}");
        }
        Served(lines) => {
            let answer = wire.response("GET");
            assert!(
                answer.status == 200 && !answer.is_ours(),
                "{name}: {answer:?}"
            );
            assert_eq!(seen(), lines, "{name}");
        }
        ServedThenRefused(line, status, reason) => {
            let answer = wire.response("GET");
            assert!(
                answer.status == 200 && !answer.is_ours(),
                "{name}: {answer:?}"
            );
            refused(&mut wire, status, reason);
            assert_eq!(seen(), [line], "{name}");
        }
    }
}

#[test]
fn each_hostile_request_has_its_answer_and_its_record_and_hides_nothing() {
    let gate = Gate::with(bounds);
    let (plain, tls) = (Origin::with_rules(RULES), Origin::https().robots(RULES));
    let failed: Vec<&str> = ROWS
        .iter()
        .filter(|row| catch_unwind(AssertUnwindSafe(|| check(&gate, &plain, &tls, row))).is_err())
        .map(|(name, ..)| *name)
        .collect();
    assert!(
        failed.is_empty(),
        "{} of {} rows: {failed:#?}",
        failed.len(),
        ROWS.len()
    );
    // By now everything on its way has arrived.
    let seen: Vec<Seen> = [plain.seen(), tls.seen()].concat();
    assert!(seen.iter().all(|seen| !seen.line().contains("smuggled")));
    let whole = seen
        .iter()
        .filter(|seen| seen.whole && seen.line() == "POST /open");
    let served = ROWS
        .iter()
        .filter(|row| matches!(row.3, Served(["POST /open"])));
    assert_eq!(
        whole.count(),
        served.count(),
        "a broken body arrived as a whole one"
    );
    gate.get(&plain.url("/still-here"))
        .is_origins(200, "page /still-here");
}

#[test]
fn what_comes_too_slowly_is_ended() {
    let gate = Gate::with(|setup| {
        bounds(setup);
        setup.set("limits", "idle_timeout", "\"1s\"");
    });
    let (plain, tls) = (Origin::with_rules(RULES), Origin::https().robots(RULES));
    let (url, host) = (plain.url("/open"), plain.authority());
    let cases: [(&str, Way, String, Option<u16>); 7] = [
        ("nothing at all", Plain, String::new(), None),
        (
            "half a request line",
            Plain,
            "GET http://si".to_owned(),
            Some(408),
        ),
        (
            "a head without end",
            Plain,
            format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n"),
            Some(408),
        ),
        (
            "a head without end inside",
            Tls,
            "GET /open HTTP/1.1\r\nHost: ".to_owned(),
            Some(408),
        ),
        ("nothing inside", Tls, String::new(), None),
        ("nothing in a tunnel", Bare, String::new(), None),
        (
            "half a ClientHello",
            Bare,
            "\x16\x03\x01\x00\x40\x01".to_owned(),
            None,
        ),
    ];
    // All at once: each connection has its own time.
    let wires: Vec<Wire> = cases
        .iter()
        .map(|(name, way, text, _)| {
            let mut wire = match way {
                Plain => gate.connect(),
                Tls => gate.intercept(&tls.authority(), "site.test"),
                Bare => gate.connect(),
            };
            if *way == Bare {
                assert_eq!(wire.tunnel(&host).status, 200, "{name}");
            }
            wire.send(text);
            wire
        })
        .collect();
    for ((name, _, _, status), mut wire) in cases.iter().zip(wires) {
        if let Some(status) = status {
            gate.refused(&wire.response("GET"), *status, "bad_request");
        }
        assert!(wire.is_closed(), "{name}");
    }
    assert_eq!([plain.connections(), tls.connections()], [0, 0]);
}
