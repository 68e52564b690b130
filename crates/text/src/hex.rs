//! Hexadecimal digits, written in lower case.

use std::fmt;

/// Returns octets as `sha256sum` writes them.
#[must_use]
pub fn hex(octets: impl AsRef<[u8]>) -> String {
    Hex(octets.as_ref()).to_string()
}

/// Octets that are written as hexadecimal digits.
#[derive(Clone, Copy, Debug)]
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// Returns octets as digits without an allocation; `DIGITS` is twice `OCTETS`.
pub fn digits<const OCTETS: usize, const DIGITS: usize>(digest: &[u8; OCTETS]) -> [u8; DIGITS] {
    let digit = |half: u8| match half {
        0..=9 => b'0' + half,
        _ => b'a' + half - 10,
    };
    let mut text = [0; DIGITS];
    for (pair, octet) in text.chunks_exact_mut(2).zip(digest) {
        pair.copy_from_slice(&[digit(octet >> 4), digit(octet & 15)]);
    }
    text
}

/// Reads as many digits as the octets have, in either case; `None` for any other text.
pub fn from_hex<const OCTETS: usize>(text: &str) -> Option<[u8; OCTETS]> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    if pairs.len() != OCTETS {
        return None;
    }
    let digit = |octet: u8| char::from(octet).to_digit(16);
    let mut octets = [0; OCTETS];
    for (octet, [high, low]) in octets.iter_mut().zip(pairs) {
        *octet = u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()?;
    }
    Some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_the_right_number_are_read_in_either_case() {
        for (text, octets) in [
            ("0009abff", Some([0, 9, 0xAB, 0xFF])),
            ("0009ABFF", Some([0, 9, 0xAB, 0xFF])),
            ("0009abf", None),
            ("0009abff0", None),
            ("0009abff00", None),
            ("0009abf+", None),
            ("0009ab+f", None),
            ("0009ab f", None),
            ("0009abé", None),
            ("", None),
        ] {
            assert_eq!(from_hex::<4>(text), octets, "{text:?}");
        }
    }

    #[test]
    fn each_octet_is_two_digits_in_lower_case() {
        assert_eq!(hex([]), "");
        assert_eq!(hex([0, 9, 0xAB, 0xFF]), "0009abff");
        assert_eq!(&digits::<4, 8>(&[0, 9, 0xAB, 0xFF]), b"0009abff");
    }
}
