//! Durations, sizes and days as people write them: `"1h30m"`, `"256MiB"`, `"2026-12-31"`.

use std::{fmt::Write as _, time::Duration};

use jiff::{Timestamp, civil::Date, tz::TimeZone};

use crawlgate_system::clock::Moment;

pub(crate) const KIB: usize = 1 << 10;
pub(crate) const MIB: usize = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

pub(crate) const ONE_MS: Duration = Duration::from_millis(1);

pub(crate) const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub(crate) const fn hours(count: u64) -> Duration {
    secs(count * 60 * 60)
}

pub(crate) const fn days(count: u64) -> Duration {
    hours(count * 24)
}

/// Longest valid duration: a hundred years, so that adding it to any real moment gives a valid time.
const LONGEST: Duration = days(36_525);

/// Milliseconds of each unit, from the largest.
const SPANS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Octets of each unit, from the largest; the binary ones first, as `format_bytes` writes only those.
const SIZES: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Reads a duration such as `30s` or `1h30m`: whole numbers with a unit (`d`, `h`, `m`, `s`, `ms`), from the largest
/// unit to the smallest, each at most once, at most a hundred years in sum. Zero needs a unit, too: a bare number
/// would be ambiguous.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut smaller_units = SPANS.iter();
    let mut millis: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (count, after) = split_number(rest)?;
        let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(unit_end)?;
        let (_, scale) = smaller_units.find(|(name, _)| *name == unit)?;
        millis = millis.checked_add(count.checked_mul(*scale)?)?;
        rest = after;
    }
    Some(Duration::from_millis(millis)).filter(|duration| *duration <= LONGEST)
}

/// Writes a duration so that [`parse_duration`] reads the same, to the millisecond.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let mut millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, scale) in SPANS {
        let count = millis / scale;
        // Below two days people say hours: 24h, not 1d; and 36h, not 1d12h.
        if count == 0 || (unit == "d" && millis < 2 * scale) {
            continue;
        }
        millis -= count * scale;
        let _ = write!(text, "{count}{unit}");
    }
    text
}

/// Reads a size such as `256MiB`, `64 KiB`, `10MB` or `512000`, in octets.
#[must_use]
pub fn parse_bytes(text: &str) -> Option<u64> {
    let (count, unit) = split_number(text)?;
    let unit = unit.trim_start_matches(' ');
    if unit.is_empty() {
        return Some(count);
    }
    let (_, scale) = SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    count.checked_mul(*scale)
}

/// Writes a size so that [`parse_bytes`] reads the same: in the largest binary unit that divides it.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    let unit = SIZES.iter().find(|(name, scale)| {
        name.ends_with("iB") && bytes >= *scale && bytes.is_multiple_of(*scale)
    });
    match unit {
        Some((name, scale)) => format!("{}{name}", bytes / scale),
        None => bytes.to_string(),
    }
}

/// Reads the end of a span of time: a day such as `2026-12-31`, which ends at the following midnight, UTC, or a time
/// with its offset, `2026-12-31T12:00:00Z` (RFC 3339). None before 1970.
#[must_use]
pub fn parse_moment(text: &str) -> Option<Moment> {
    let time: Timestamp = if text.len() == "2026-12-31".len() {
        let next = text.parse::<Date>().ok()?.tomorrow().ok()?;
        next.to_zoned(TimeZone::UTC).ok()?.timestamp()
    } else {
        text.parse().ok()?
    };
    let millis = u64::try_from(time.as_millisecond()).ok()?;
    Some(Moment::from_millis(millis))
}

/// Writes a moment so that [`parse_moment`] reads the same: RFC 3339, UTC.
#[must_use]
pub fn format_moment(moment: Moment) -> String {
    let millis = i64::try_from(moment.as_millis()).unwrap_or(i64::MAX);
    // Only a broken clock yields a time outside the calendar.
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    time.to_string()
}

/// Splits off the number at the start of `text`.
fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        let cases = [
            ("seconds", "30s", Some(30_000)),
            ("milliseconds are not minutes", "50ms", Some(50)),
            ("minutes", "5m", Some(300_000)),
            ("hours and minutes", "1h30m", Some(5_400_000)),
            ("days", "30d", Some(2_592_000_000)),
            ("zero with a unit", "0s", Some(0)),
            ("every unit once", "1d1h1m1s1ms", Some(90_061_001)),
            ("nothing", "", None),
            ("a number alone", "30", None),
            ("a unit alone", "s", None),
            ("an unknown unit", "30sec", None),
            ("units out of order", "30m1h", None),
            ("a unit twice", "1s1s", None),
            ("a sign", "-1s", None),
            ("a fraction", "1.5h", None),
            ("white space", " 1s", None),
            ("what follows the last unit", "1h30", None),
            ("more than a hundred years", "36526d", None),
            ("more than fits", "18446744073709551615d", None),
            ("digits of another script", "٣s", None),
        ];
        for (name, text, millis) in cases {
            assert_eq!(parse_duration(text), millis.map(Duration::from_millis), "{name}");
        }
    }

    #[test]
    fn durations_are_written_as_they_are_read() {
        for text in ["0s", "50ms", "30s", "2m", "1h30m", "24h", "30d", "2d1h", "1m1ms"] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(format_duration(duration), text);
        }
    }

    #[test]
    fn sizes_are_read_with_or_without_a_unit() {
        let cases = [
            ("octets", "512000", Some(512_000)),
            ("octets by name", "17B", Some(17)),
            ("binary units", "256MiB", Some(256 << 20)),
            ("decimal units", "10MB", Some(10_000_000)),
            ("any case", "64kib", Some(64 << 10)),
            ("a space before the unit", "64 KiB", Some(64 << 10)),
            ("nothing", "", None),
            ("a unit alone", "KiB", None),
            ("an unknown unit", "1TiB", None),
            ("more than fits", "99999999999GiB", None),
            ("a sign", "-1", None),
        ];
        for (name, text, bytes) in cases {
            assert_eq!(parse_bytes(text), bytes, "{name}");
        }
    }

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for text in ["0", "17", "500KiB", "256MiB", "3GiB", "1000000"] {
            assert_eq!(format_bytes(parse_bytes(text).unwrap()), text);
        }
    }

    #[test]
    fn moments_are_days_or_times() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("a day ends at midnight", "2026-11-20", Some(1_795_219_200_000)),
            ("the last day of a year", "2026-12-31", Some(1_798_761_600_000)),
            ("a time", "2026-11-20T12:00:00Z", Some(1_795_176_000_000)),
            ("with an offset", "2026-11-20T13:00:00.5+01:00", Some(1_795_176_000_500)),
            ("a time of nowhere", "2026-11-20T12:00:00", None),
            ("no such day", "2026-02-30", None),
            ("before 1970", "1969-01-01", None),
            ("a word", "tomorrow", None),
        ];
        for (name, text, millis) in cases {
            let moment = parse_moment(text);
            assert_eq!(moment.map(Moment::as_millis), millis, "{name}");
            if let Some(moment) = moment {
                assert_eq!(parse_moment(&format_moment(moment)), Some(moment), "{name}");
            }
        }
    }
}
