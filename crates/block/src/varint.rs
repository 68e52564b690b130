//! Numbers of variable length: seven bits an octet, the least significant first (LEB128), in the shortest form.

use super::frame::BlockError;

/// Appends a number.
#[inline]
pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a number with a sign; small ones are short whatever their sign.
#[inline]
pub fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

const NO_NUMBER: BlockError = BlockError("a column that is cut off, or an invalid number");

/// Octets that are read from their start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Takes a number.
    ///
    /// # Errors
    /// When the input holds no number.
    #[inline]
    pub fn number(&mut self) -> Result<u64, BlockError> {
        self.next_number().ok_or(NO_NUMBER)
    }

    /// Takes a number with a sign.
    ///
    /// # Errors
    /// When the input holds no number.
    #[inline]
    pub fn signed(&mut self) -> Result<i64, BlockError> {
        self.next_signed().ok_or(NO_NUMBER)
    }

    /// Reads a number, for loops over long columns: without an error, the answer fits into registers.
    #[inline]
    pub fn next_number(&mut self) -> Option<u64> {
        let [first, rest @ ..] = self.0 else {
            return None;
        };
        self.0 = rest;
        match first {
            0..0x80 => Some(u64::from(*first)),
            _ => self.long(*first),
        }
    }

    /// Reads a number with a sign, as [`next_number`](Self::next_number) one without.
    #[inline]
    pub fn next_signed(&mut self) -> Option<i64> {
        let number = self.next_number()?;
        Some((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
    }

    fn long(&mut self, first: u8) -> Option<u64> {
        let mut number = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let [next, rest @ ..] = self.0 else {
                return None;
            };
            self.0 = rest;
            let bits = u64::from(*next & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            match next {
                0 => return None, // not the shortest form
                0x01..=0x7f => return Some(number),
                0x80.. => {}
            }
        }
        None
    }

    /// Reads a number of things that are there: octets, or values in a column.
    pub fn length(&mut self) -> Result<usize, BlockError> {
        let length = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if length <= super::frame::MAX_RAW {
            Ok(length)
        } else {
            Err(BlockError("a length beyond the block"))
        }
    }

    /// Takes so many octets.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], BlockError> {
        let taken = self.0.split_at_checked(length);
        let (taken, rest) = taken.ok_or(BlockError("a column that is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// When octets are left.
    pub fn end(self) -> Result<(), BlockError> {
        match self.0 {
            [] => Ok(()),
            _ => Err(BlockError("a column that is too long")),
        }
    }
}
