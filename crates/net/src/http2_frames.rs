//! The frames of HTTP/2 in octets as they are read (RFC 9113 4.1), for what `h2` does not tell of them.

/// Octets of a frame's header.
pub const HEADER: usize = 9;

/// The type of a frame that begins a field section (RFC 9113 6.2).
pub const HEADERS: u8 = 1;
/// The type of a frame that continues a field section (RFC 9113 6.10).
pub const CONTINUATION: u8 = 9;
/// The type of the frame that ends a connection (RFC 9113 6.8).
pub const GOAWAY: u8 = 7;

/// The highest identifier of a stream; the bit above it means nothing.
const MAX_STREAM: u32 = (1 << 31) - 1;

/// The header of a frame.
#[derive(Clone, Copy, Debug)]
pub struct FrameHeader {
    /// Octets of the frame behind its header.
    pub length: usize,
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// The identifier of its stream; 0: the connection's own.
    pub stream: u32,
}

/// The place in the frames of one direction.
#[derive(Debug, Default)]
pub struct FrameReader {
    /// Octets before the next frame that are still to come.
    rest: usize,
    /// The part of a frame's header that has come.
    header: [u8; HEADER],
    count: usize,
}

impl FrameReader {
    /// Returns the place before the first frame, with so many octets in front of it.
    pub fn behind(octets: usize) -> FrameReader {
        FrameReader { rest: octets, ..FrameReader::default() }
    }

    /// Takes the rest of the frame under way off these octets. False if more of it is to come.
    pub fn advance(&mut self, octets: &mut &[u8]) -> bool {
        let passed = self.rest.min(octets.len());
        self.rest -= passed;
        *octets = octets.get(passed..).unwrap_or_default();
        self.rest == 0
    }

    /// Takes the header of the next frame off these octets. `None` if more of it is to come.
    pub fn header(&mut self, octets: &mut &[u8]) -> Option<FrameHeader> {
        while let (Some(place), [first, after @ ..]) = (self.header.get_mut(self.count), *octets) {
            *place = *first;
            self.count += 1;
            *octets = after;
        }
        if self.count < HEADER {
            return None;
        }
        self.count = 0;
        let [first, second, third, kind, flags, stream @ ..] = self.header;
        let length = u32::from_be_bytes([0, first, second, third]);
        self.rest = usize::try_from(length).unwrap_or(usize::MAX);
        Some(FrameHeader {
            length: self.rest,
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & MAX_STREAM,
        })
    }
}
