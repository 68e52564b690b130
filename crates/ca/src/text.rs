//! Text forms of octets and days for people.

use aws_lc_rs::digest;

use crawlgate_system::clock::Moment;

/// Returns octets as `AA:BB:…`.
pub fn colon_hex(octets: &[u8]) -> String {
    let pairs: Vec<String> = octets.iter().map(|octet| format!("{octet:02X}")).collect();
    pairs.join(":")
}

pub(crate) fn sha256(octets: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, octets).as_ref().to_vec()
}

/// Returns the day of a moment, UTC, as `2031-05-17`.
pub fn date(moment: Moment) -> String {
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
    fn fingerprints_are_upper_case_pairs() {
        assert_eq!(colon_hex(&[0x0a, 0xff, 0x00]), "0A:FF:00");
    }

    #[test]
    fn dates_are_utc_days() {
        assert_eq!(date(Moment::from_millis(1_000_000_000_000)), "2001-09-09");
        assert_eq!(date(Moment::from_millis(u64::MAX)), "a day beyond the calendar");
    }
}
