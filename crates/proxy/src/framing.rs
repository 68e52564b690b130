//! Strict framing: the beginning and the end of each request on a connection (RFC 9112).
//!
//! hyper is lenient where RFC 9112 allows a recipient to be, and silently drops a Content-Length beside a
//! Transfer-Encoding. A gate cannot be lenient: two readings of a request's end are two readings of the request. So
//! every head is read here first, with hyper's own parser and stricter rules, and body framing is followed just far
//! enough to find the next head. Pure: bytes in, [`Scan`] out.

mod target;

use http::Uri;
use memchr::memchr;

pub use self::target::escape;
use self::target::{escaped, has_no_path, is_plain_target, stray_octet};

/// Header fields that fit without an allocation; hyper's own default, too.
pub const USUAL_FIELDS: usize = 100;

/// Empty lines between requests.
const MAX_BLANKS: u8 = 8;

/// Octets in one chunk-size line.
const MAX_CHUNK_LINE: usize = 256;

/// The first octets of a TLS handshake: a record's type and the major version, the same in all versions (RFC 8446 5.1).
const TLS: [u8; 2] = [0x16, 3];

/// The first octets of a PROXY protocol header of either version, without the empty lines before the second one.
const PROXY_HEADERS: [&[u8]; 3] = [b"PROXY TCP", b"PROXY UNKNOWN", b"\0\r\nQUIT\n"];

/// The answer to a request to switch protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// The next octets are HTTP.
    Stayed,
    /// The next octets are another protocol.
    Switched,
}

/// Bounds on a request head.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Octets of the whole head.
    pub head: usize,
    /// Octets of the request target.
    pub target: usize,
    /// Header fields.
    pub fields: usize,
}

/// Reason that a request cannot be read, or is refused only for its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// A syntax error in the request line or a field.
    Syntax,
    /// The request target is not a URI, or has a fragment where none may be.
    Target,
    /// The request target has an octet that is no part of a text.
    TargetOctet(u8),
    /// A TLS handshake.
    Tls,
    /// A header of the PROXY protocol, at a listener that expects none.
    ProxyHeader,
    /// A line that ends in LF without CR.
    BareLineFeed,
    /// Content-Length twice, beside Transfer-Encoding, or not a number.
    ContentLength,
    /// Transfer-Encoding twice, in HTTP/1.0, or anything but `chunked`.
    TransferEncoding,
    /// No Host in HTTP/1.1, or more than one.
    Host,
    /// A CONNECT with a body.
    ConnectBody,
    /// Not HTTP/1.0 or HTTP/1.1.
    Version,
    /// An extended CONNECT for a protocol other than WebSocket (RFC 8441 4).
    Protocol,
    /// The head exceeds its bound.
    HeadTooLarge,
    /// The head has more fields than its bound.
    TooManyFields,
    /// The request target exceeds its bound.
    TargetTooLong,
    /// The head was not complete in time.
    Slow,
}

/// Instruction for octets read from the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// The first so many octets may pass; keep the rest until more is read.
    Pass(usize),
    /// The first so many octets may pass; so does the head of the second length behind them, [escaped](escape).
    Escape(usize, usize),
    /// The first so many octets may pass; the rest may not.
    Refuse(usize, Violation),
    /// The body's framing broke after so many octets: the connection cannot go on.
    Broken(usize),
}

/// The recipient of the requests on a connection, which decides about their targets and the octets after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recipient {
    /// A proxy. After a CONNECT or a switch of protocols, the octets are another protocol's.
    Proxy,
    /// An origin server that speaks only HTTP and checks Host itself. A target has no fragment (RFC 9112 3.2):
    /// readers treat one differently, `http` drops it with all that follows, another proxy may send it on.
    OriginServer,
}

/// Follows the framing of one connection.
#[derive(Debug)]
pub struct Framer {
    recipient: Recipient,
    bounds: Bounds,
    state: State,
    /// Start of the last, incomplete line of an incomplete head: the lines before are not read again.
    line: usize,
    /// Empty lines before the next head.
    blanks: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before or in a head.
    Head,
    /// In a body with so many octets to come.
    Sized(u64),
    /// In a chunked body.
    Chunked(Chunk),
    /// After the head of a request to switch protocols, until the answer decides.
    Undecided,
    /// Another protocol, with octets that mean nothing to us.
    Opaque,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    /// In a chunk-size line: size so far, digits seen, octets of the line.
    Size { size: u64, digits: u8, line: u16 },
    /// After the size, in extensions.
    Extension { size: u64, line: u16 },
    /// After the CR of a chunk-size line.
    SizeEnd { size: u64 },
    /// In chunk data.
    Data(u64),
    /// Before the CR after chunk data.
    DataCr,
    /// Before the LF after chunk data.
    DataLf,
    /// At the start of a trailer line.
    TrailerStart { total: u32 },
    /// In a trailer line.
    Trailer { total: u32 },
    /// After the CR of a trailer line; `last` when the line was empty.
    TrailerEnd { total: u32, last: bool },
}

impl Framer {
    /// Creates a framer for requests to this proxy, before anything was read.
    pub fn new(bounds: Bounds) -> Framer {
        Framer::to(Recipient::Proxy, bounds)
    }

    /// Creates a framer for requests to a server of our own, before anything was read: no target may have a fragment,
    /// and the connection stays with HTTP.
    pub fn to_origin_server(bounds: Bounds) -> Framer {
        Framer::to(Recipient::OriginServer, bounds)
    }

    fn to(recipient: Recipient, bounds: Bounds) -> Framer {
        Framer { recipient, bounds, state: State::Head, line: 0, blanks: 0 }
    }

    /// Tells whether the connection waits for a head, so that silence is idleness.
    pub fn is_between_requests(&self) -> bool {
        self.state == State::Head
    }

    /// Tells whether a request's body has begun and not ended.
    pub fn is_in_body(&self) -> bool {
        matches!(self.state, State::Sized(_) | State::Chunked(_))
    }

    /// Tells whether the next octets belong to another protocol.
    pub fn is_opaque(&self) -> bool {
        self.state == State::Opaque
    }

    /// Tells whether nothing may pass until the answer to a request to switch protocols is known.
    pub fn is_undecided(&self) -> bool {
        self.state == State::Undecided
    }

    /// Takes the answer to a request to switch protocols.
    pub fn decide(&mut self, switch: Switch) {
        if self.state == State::Undecided {
            self.state = match switch {
                Switch::Switched => State::Opaque,
                Switch::Stayed => State::Head,
            };
        }
    }

    /// Scans `bytes`, which continue where the octets passed so far ended.
    pub fn scan(&mut self, bytes: &[u8]) -> Scan {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            match self.state {
                State::Opaque => return Scan::Pass(bytes.len()),
                State::Undecided => break,
                State::Head => match self.head(rest) {
                    Ok((0, _)) => break,
                    Ok((length, false)) => done += length,
                    Ok((length, true)) => return Scan::Escape(done, length),
                    Err(violation) => return Scan::Refuse(done, violation),
                },
                State::Sized(left) => {
                    let here = left.min(rest.len() as u64);
                    done += here as usize;
                    self.state = match left - here {
                        0 => State::Head,
                        left => State::Sized(left),
                    };
                }
                State::Chunked(chunk) => match chunk.advance(rest) {
                    Some((length, next)) => {
                        done += length;
                        self.state = next.map_or(State::Head, State::Chunked);
                    }
                    None => return Scan::Broken(done),
                },
            }
        }
        Scan::Pass(done)
    }

    /// Returns the length of the head that `bytes` begin with, 0 while it is incomplete, and whether its target is to be escaped.
    fn head(&mut self, bytes: &[u8]) -> Result<(usize, bool), Violation> {
        // Empty lines before a request line are ignored (RFC 9112 2.2), but a few only: they must not hold a
        // connection.
        if bytes.starts_with(b"\r\n") {
            self.blanks += 1;
            return match self.blanks {
                ..=MAX_BLANKS => Ok((2, false)),
                _ => Err(Violation::Syntax),
            };
        }
        if bytes.starts_with(&TLS) {
            return Err(Violation::Tls);
        }
        if PROXY_HEADERS.iter().any(|header| bytes.starts_with(header)) {
            return Err(Violation::ProxyHeader);
        }
        let has_begun = self.line > 0;
        let length = match self.head_length(bytes)? {
            Some(length) if length > self.bounds.head => return Err(Violation::HeadTooLarge),
            Some(length) => length,
            None if bytes.len() > self.bounds.head => {
                return Err(self.too_long(bytes));
            }
            None => {
                // A client of another protocol may wait for an answer after its first line.
                if self.line > 0 && !has_begun {
                    read_request_line(bytes)?;
                }
                return Ok((0, false));
            }
        };
        (self.line, self.blanks) = (0, 0);
        let head = bytes.get(..length).unwrap_or(bytes);
        let (state, is_escaped) = read_head(head, self.recipient, self.bounds)?;
        self.state = state;
        Ok((length, is_escaped))
    }

    /// Returns the end of the head: after its first empty line. Every line must end in CRLF.
    fn head_length(&mut self, bytes: &[u8]) -> Result<Option<usize>, Violation> {
        while let Some(rest) = bytes.get(self.line..) {
            let Some(end) = memchr(b'\n', rest) else {
                return Ok(None);
            };
            match end.checked_sub(1).and_then(|before| rest.get(before)) {
                Some(b'\r') if end == 1 => return Ok(Some(self.line + 2)),
                Some(b'\r') => self.line += end + 1,
                _ => return Err(Violation::BareLineFeed),
            }
        }
        Ok(None)
    }

    /// Tells whether the request target or the fields made a head outgrow its bound.
    fn too_long(&self, bytes: &[u8]) -> Violation {
        match memchr(b'\n', bytes) {
            Some(end) if end <= self.bounds.target => Violation::HeadTooLarge,
            _ => Violation::TargetTooLong,
        }
    }
}

/// Checks that the first line of `bytes` is a request line.
fn read_request_line(bytes: &[u8]) -> Result<(), Violation> {
    let end = memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
    let line = bytes.get(..end).unwrap_or(bytes);
    match httparse::Request::new(&mut []).parse(line) {
        Ok(_) => Ok(()),
        Err(httparse::Error::Version) => Err(Violation::Version),
        Err(_) => Err(Violation::Syntax),
    }
}

/// Checks a head. Returns the state after it, and whether its target is to be escaped.
fn read_head(
    head: &[u8],
    recipient: Recipient,
    bounds: Bounds,
) -> Result<(State, bool), Violation> {
    if bounds.fields > USUAL_FIELDS {
        let mut fields = vec![httparse::EMPTY_HEADER; bounds.fields];
        return read_head_into(&mut fields, head, recipient, bounds);
    }
    let mut fields = [httparse::EMPTY_HEADER; USUAL_FIELDS];
    let room = fields.get_mut(..bounds.fields).unwrap_or_default();
    read_head_into(room, head, recipient, bounds)
}

fn read_head_into<'h>(
    fields: &mut [httparse::Header<'h>],
    head: &'h [u8],
    recipient: Recipient,
    bounds: Bounds,
) -> Result<(State, bool), Violation> {
    let mut request = httparse::Request::new(fields);
    match request.parse(head) {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        Ok(_) => return Err(Violation::Syntax),
        Err(httparse::Error::TooManyHeaders) => return Err(Violation::TooManyFields),
        Err(error) => {
            return Err(match (stray_octet(head), error) {
                (Some(octet), _) => Violation::TargetOctet(octet),
                (None, httparse::Error::Version) => Violation::Version,
                (None, _) => Violation::Syntax,
            });
        }
    }
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version)
    else {
        return Err(Violation::Syntax);
    };
    if target.len() > bounds.target {
        return Err(Violation::TargetTooLong);
    }
    // An OPTIONS asks for the server as a whole then.
    let is_whole = method == "OPTIONS" && has_no_path(target);
    let is_escaped = is_whole || !is_plain_target(target) && Uri::try_from(target).is_err();
    if is_escaped {
        let escaped = escaped(target);
        if let Some(octet) = stray_octet(head) {
            return Err(Violation::TargetOctet(octet));
        }
        if recipient == Recipient::OriginServer || Uri::try_from(&*escaped).is_err() {
            return Err(Violation::Target);
        }
        if escaped.len() > bounds.target {
            return Err(Violation::TargetTooLong);
        }
        if head.len() + escaped.len() - target.len() > bounds.head {
            return Err(Violation::HeadTooLarge);
        }
    }
    if recipient == Recipient::OriginServer && memchr(b'#', target.as_bytes()).is_some() {
        return Err(Violation::Target);
    }
    let is_connect = method == "CONNECT";
    let (mut length, mut chunked, mut hosts, mut upgrade) = (None, false, 0, false);
    for field in request.headers.iter() {
        match field.name.len() {
            4 if field.name.eq_ignore_ascii_case("host") => hosts += 1,
            7 if field.name.eq_ignore_ascii_case("upgrade") => upgrade = true,
            14 if field.name.eq_ignore_ascii_case("content-length") => {
                let former = length.replace(content_length(field.value)?);
                if former.is_some() {
                    return Err(Violation::ContentLength);
                }
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                if chunked || minor == 0 || !field.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Violation::TransferEncoding);
                }
                chunked = true;
            }
            _ => {}
        }
    }
    match hosts {
        1 => {}
        0 if minor == 0 => {}
        _ if recipient == Recipient::OriginServer => {}
        _ => return Err(Violation::Host),
    }
    let state = match (length, chunked) {
        (Some(_), true) => Err(Violation::ContentLength),
        (Some(1..), _) | (_, true) if is_connect => Err(Violation::ConnectBody),
        (None, true) => Ok(State::Chunked(Chunk::START)),
        (Some(length @ 1..), false) => Ok(State::Sized(length)),
        // An origin server answers a CONNECT and an upgrade like any other request.
        _ if recipient == Recipient::OriginServer => Ok(State::Head),
        _ if is_connect => Ok(State::Opaque),
        _ if upgrade => Ok(State::Undecided),
        _ => Ok(State::Head),
    }?;
    Ok((state, is_escaped))
}

/// `Content-Length = 1*DIGIT` (RFC 9110 8.6).
fn content_length(value: &[u8]) -> Result<u64, Violation> {
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return Err(Violation::ContentLength);
    }
    Ok(value.iter().fold(0, |length, digit| length * 10 + u64::from(digit - b'0')))
}

impl Chunk {
    const START: Chunk = Chunk::Size { size: 0, digits: 0, line: 0 };

    /// Returns the number of octets taken and the next state, or nothing if the framing is broken. The inner `None` is
    /// the end of the body.
    fn advance(self, bytes: &[u8]) -> Option<(usize, Option<Chunk>)> {
        if let Chunk::Data(left) = self {
            let here = left.min(bytes.len() as u64);
            let next = match left - here {
                0 => Chunk::DataCr,
                left => Chunk::Data(left),
            };
            return Some((here as usize, Some(next)));
        }
        let byte = *bytes.first()?;
        let next = match (self, byte) {
            (Chunk::Size { size, digits, line }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                // 15 digits hold any body there is, and never overflow.
                if digits >= 15 {
                    return None;
                }
                let digit = char::from(byte).to_digit(16)?;
                Chunk::Size {
                    size: size * 16 + u64::from(digit),
                    digits: digits + 1,
                    line: line + 1,
                }
            }
            (Chunk::Size { digits: 0, .. }, _) => return None,
            (Chunk::Size { size, .. } | Chunk::Extension { size, .. }, b'\r') => {
                Chunk::SizeEnd { size }
            }
            (Chunk::Size { size, line, .. }, b';' | b' ' | b'\t') => {
                Chunk::Extension { size, line }
            }
            (Chunk::Extension { size, line }, b'\t' | b' '..=b'~' | 0x80..)
                if usize::from(line) < MAX_CHUNK_LINE =>
            {
                Chunk::Extension { size, line: line + 1 }
            }
            (Chunk::SizeEnd { size: 0 }, b'\n') => Chunk::TrailerStart { total: 0 },
            (Chunk::SizeEnd { size }, b'\n') => Chunk::Data(size),
            (Chunk::DataCr, b'\r') => Chunk::DataLf,
            (Chunk::DataLf, b'\n') => Chunk::START,
            (Chunk::TrailerStart { total }, b'\r') => Chunk::TrailerEnd { total, last: true },
            (Chunk::Trailer { total }, b'\r') => Chunk::TrailerEnd { total, last: false },
            (
                Chunk::TrailerStart { total } | Chunk::Trailer { total },
                b'\t' | b' '..=b'~' | 0x80..,
            ) if total < 16_384 => Chunk::Trailer { total: total + 1 },
            (Chunk::TrailerEnd { last: true, .. }, b'\n') => return Some((1, None)),
            (Chunk::TrailerEnd { total, last: false }, b'\n') => Chunk::TrailerStart { total },
            _ => return None,
        };
        Some((1, Some(next)))
    }
}

#[cfg(test)]
mod tests;
