//! An HTTP/2 client that sends exactly the frames of a test (RFC 9113 4).

use super::Wire;

/// Octets that a frame may have (RFC 9113 6.5.2).
const MAX_OCTETS: usize = 16_384;

/// Frame types (RFC 9113 6).
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// Frame flags.
pub(crate) mod flag {
    pub(crate) const ACK: u8 = 1;
    pub(crate) const END_STREAM: u8 = 1;
    pub(crate) const END_HEADERS: u8 = 4;
}

/// The end of a stream, as the peer tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A head came.
    Answered,
    /// The stream was reset with this code.
    Reset(u32),
    /// The connection ends with this code.
    GoAway(u32),
    /// The connection was closed.
    Closed,
}

/// One connection; the test writes its frames.
pub(crate) struct Frames(Wire);

impl Frames {
    /// Sends the preface and empty settings on a stream that speaks HTTP/2.
    pub(crate) fn open(mut wire: Wire) -> Self {
        wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut frames = Self(wire);
        frames.send(kind::SETTINGS, 0, 0, &[]);
        frames
    }

    /// Sends one frame. A peer that has already closed is no error.
    pub(crate) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> &mut Self {
        self.part(kind, flags, stream, payload.len(), payload)
    }

    /// Sends the beginning of a frame of this length.
    pub(crate) fn part(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        length: usize,
        payload: &[u8],
    ) -> &mut Self {
        self.octets(beginning(kind, flags, stream, length, payload))
    }

    /// Sends octets as one.
    pub(crate) fn octets(&mut self, octets: Vec<u8>) -> &mut Self {
        self.0.send(octets);
        self
    }

    /// Sends the head of a request that has no body.
    pub(crate) fn request(&mut self, stream: u32, fields: &[(&str, &str)]) -> &mut Self {
        let flags = flag::END_STREAM | flag::END_HEADERS;
        self.send(kind::HEADERS, flags, stream, &block(fields))
    }

    /// Sends a field section, in as many frames as it needs.
    pub(crate) fn head(&mut self, stream: u32, flags: u8, block: &[u8]) -> &mut Self {
        let mut parts = block.chunks(MAX_OCTETS).peekable();
        let mut kind = kind::HEADERS;
        let mut flags = flags & !flag::END_HEADERS;
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                flags |= flag::END_HEADERS;
            }
            self.send(kind, flags, stream, part);
            (kind, flags) = (kind::CONTINUATION, 0);
        }
        self
    }

    /// Reads the answer on a stream: its status, and the octets of its body. An error if it ends otherwise.
    pub(crate) fn answer(&mut self, stream: u32) -> Result<(u16, Vec<u8>), End> {
        let mut status = None;
        let mut body = Vec::new();
        loop {
            let (kind, flags, of, payload) = self.whole_frame().ok_or(End::Closed)?;
            match kind {
                kind::HEADERS if of == stream => status = status.or(Some(status_of(&payload))),
                kind::DATA if of == stream => body.extend(payload),
                kind::RST_STREAM if of == stream => return Err(End::Reset(number(&payload, 0))),
                kind::GOAWAY => return Err(End::GoAway(number(&payload, 4))),
                _ => continue,
            }
            if flags & flag::END_STREAM != 0 {
                return Ok((status.expect("a head"), body));
            }
        }
    }

    /// Reads frames until this stream or the connection ends, or a head comes on the stream.
    pub(crate) fn end(&mut self, stream: u32) -> End {
        loop {
            let Some((kind, of, payload)) = self.frame() else {
                return End::Closed;
            };
            match kind {
                kind::HEADERS if of == stream => return End::Answered,
                kind::RST_STREAM if of == stream => return End::Reset(number(&payload, 0)),
                kind::GOAWAY => return End::GoAway(number(&payload, 4)),
                _ => {}
            }
        }
    }

    /// Reads one frame: its type, its stream, its payload. `None` if the connection has ended.
    pub(crate) fn frame(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let (kind, _, stream, payload) = self.whole_frame()?;
        Some((kind, stream, payload))
    }

    /// Does the same, with its flags behind its type.
    fn whole_frame(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let head = self.0.try_read(9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes(head[5..9].try_into().unwrap()) & 0x7fff_ffff;
        let payload = self.0.try_read(length as usize)?;
        Some((head[3], head[4], stream, payload))
    }
}

fn number(payload: &[u8], at: usize) -> u32 {
    payload.get(at..at + 4).map_or(0, |code| u32::from_be_bytes(code.try_into().unwrap()))
}

/// Reads the status at the beginning of an answer's field section, as the first of its number on its connection
/// (RFC 7541, appendices A and B).
fn status_of(block: &[u8]) -> u16 {
    match block {
        [indexed @ 0x88..=0x8e, ..] => {
            [200, 204, 206, 304, 400, 404, 500][usize::from(indexed - 0x88)]
        }
        [0x48, 0x82 | 0x83, octets @ ..] => {
            let mut bits =
                octets.iter().take(3).fold(0_u32, |bits, octet| bits << 8 | u32::from(*octet));
            let mut status = 0;
            bits <<= 8;
            for _ in 0..3 {
                // The codes of 0, 1 and 2 have five bits, the others six.
                let (digit, length) = match bits >> 27 {
                    digit @ 0..=2 => (digit, 5),
                    _ => ((bits >> 26) - 0x19 + 3, 6),
                };
                bits <<= length;
                status = status * 10 + digit as u16;
            }
            status
        }
        other => panic!("no status: {other:?}"),
    }
}

/// Builds a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    beginning(kind, flags, stream, payload.len(), payload)
}

/// Builds the beginning of a frame of this length.
fn beginning(kind: u8, flags: u8, stream: u32, length: usize, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(length).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Encodes a field section without indexing and without Huffman codes (RFC 7541 6.2.2).
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            integer(&mut block, text.len());
            block.extend(text.as_bytes());
        }
    }
    block
}

/// Encodes an integer with a prefix of seven bits (RFC 7541 5.1).
fn integer(block: &mut Vec<u8>, mut number: usize) {
    if number < 127 {
        block.push(number as u8);
        return;
    }
    block.push(127);
    number -= 127;
    while number >= 128 {
        block.push((number % 128) as u8 | 128);
        number /= 128;
    }
    block.push(number as u8);
}

/// Returns the fields of a GET of `path` by HTTPS at `authority`.
pub(crate) fn get_fields<'a>(authority: &'a str, path: &'a str) -> [(&'static str, &'a str); 4] {
    [(":method", "GET"), (":scheme", "https"), (":authority", authority), (":path", path)]
}
