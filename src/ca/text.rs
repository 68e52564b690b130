//! Text forms of octets for people and PEM files.

use aws_lc_rs::digest;

use crate::clock::Moment;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes octets as base64 with padding (RFC 4648, section 4).
pub(crate) fn base64(octets: &[u8]) -> String {
    let sextet = |value: u32| {
        let index = (value & 0x3f) as usize;
        ALPHABET
            .get(index)
            .map_or('=', |letter| char::from(*letter))
    };
    let mut text = String::with_capacity(octets.len().div_ceil(3) * 4);
    for chunk in octets.chunks(3) {
        let octet = |at: usize| chunk.get(at).map_or(0, |octet| u32::from(*octet));
        let bits = octet(0) << 16 | octet(1) << 8 | octet(2);
        text.push(sextet(bits >> 18));
        text.push(sextet(bits >> 12));
        text.push(if chunk.len() > 1 {
            sextet(bits >> 6)
        } else {
            '='
        });
        text.push(if chunk.len() > 2 { sextet(bits) } else { '=' });
    }
    text
}

/// Returns one PEM section (RFC 7468), lines of 64 characters.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        text.push_str(&base64(line));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

/// Returns octets as `AA:BB:…`.
pub(crate) fn colon_hex(octets: &[u8]) -> String {
    let pairs: Vec<String> = octets.iter().map(|octet| format!("{octet:02X}")).collect();
    pairs.join(":")
}

pub(crate) fn sha256(octets: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, octets).as_ref().to_vec()
}

/// Returns the day of a moment, UTC, as `2031-05-17`.
pub(crate) fn date(moment: Moment) -> String {
    i64::try_from(moment.as_millis())
        .ok()
        .and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok())
        .map_or_else(
            || "a day beyond the calendar".to_owned(),
            |time| time.strftime("%Y-%m-%d").to_string(),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_rfc_4648_section_10() {
        for (octets, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(octets.as_bytes()), text, "{octets:?}");
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn pem_breaks_lines_after_64_characters() {
        assert_eq!(
            pem("X", &[0; 49]),
            format!(
                "-----BEGIN X-----\n{}\nAA==\n-----END X-----\n",
                "A".repeat(64)
            )
        );
    }

    #[test]
    fn fingerprints_are_upper_case_pairs() {
        assert_eq!(colon_hex(&[0x0a, 0xff, 0x00]), "0A:FF:00");
    }

    #[test]
    fn dates_are_utc_days() {
        assert_eq!(date(Moment::from_millis(1_000_000_000_000)), "2001-09-09");
        assert_eq!(
            date(Moment::from_millis(u64::MAX)),
            "a day beyond the calendar"
        );
    }
}
