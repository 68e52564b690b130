//! Frames, and the numbers that choose them.

/// The octets that begin a connection (RFC 9113 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types (RFC 9113 6).
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

/// Flags of frames.
pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;

/// Numbers that a seed repeats (xorshift64*, Vigna 2016).
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }

    /// Returns true once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn octets(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// Returns numbers of their own for a part of the run.
    pub fn fork(&mut self) -> Random {
        Random(self.next() | 1)
    }
}

/// Appends a frame (RFC 9113 4.1).
pub fn frame(octets: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    octets.extend(&(payload.len() as u32).to_be_bytes()[1..]);
    octets.extend([kind, flags]);
    octets.extend(stream.to_be_bytes());
    octets.extend(payload);
}

/// Appends a field to a block: without indexing and without Huffman codes (RFC 7541 6.2.2).
pub fn field(block: &mut Vec<u8>, name: &str, value: &str) {
    block.extend([0, name.len() as u8]);
    block.extend(name.as_bytes());
    block.push(value.len() as u8);
    block.extend(value.as_bytes());
}
