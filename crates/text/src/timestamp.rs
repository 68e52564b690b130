//! Moments as text: RFC 3339 in records, a form without colons in file names.
//!
//! Computed by arithmetic, since each request's exchange makes a record: the proleptic Gregorian calendar, in which
//! days are counted from a March 1 so that the leap day comes last.

use crate::Moment;

const DAY_MILLIS: u64 = 86_400_000;

/// 9999-12-31T23:59:59.999Z, the last moment that RFC 3339 can write. Later ones, which only a broken clock yields, are
/// written as this one.
const LAST: u64 = 253_402_300_799_999;

/// Returns the days since the epoch, UTC.
pub fn day(moment: Moment) -> u64 {
    moment.as_millis() / DAY_MILLIS
}

/// Returns a moment as `2026-11-20T12:00:00.123Z`.
pub fn rfc3339(moment: Moment) -> [u8; 24] {
    let [y3, y2, y1, y0, o1, o0, d1, d0, h1, h0, m1, m0, s1, s0] = digits(moment);
    let millis = moment.as_millis().min(LAST) % 1_000;
    let (t2, [t1, t0]) = (digit(millis / 100), pair(millis % 100));
    [
        y3, y2, y1, y0, b'-', o1, o0, b'-', d1, d0, b'T', h1, h0, b':', m1, m0, b':', s1, s0, b'.',
        t2, t1, t0, b'Z',
    ]
}

/// Returns a moment as records write it: `2026-11-20T12:00:00.123Z`.
#[must_use]
pub fn time_text(moment: Moment) -> String {
    rfc3339(moment).map(char::from).iter().collect()
}

/// Returns a moment as `2026-11-20T120000Z`: sorts by time as text, and needs no quoting in a shell or on any file
/// system.
pub fn compact(moment: Moment) -> String {
    let [y3, y2, y1, y0, o1, o0, d1, d0, h1, h0, m1, m0, s1, s0] = digits(moment);
    [y3, y2, y1, y0, b'-', o1, o0, b'-', d1, d0, b'T', h1, h0, m1, m0, s1, s0, b'Z']
        .map(char::from)
        .iter()
        .collect()
}

/// Tells whether `text` has the form of [`compact`].
pub fn is_compact(text: &str) -> bool {
    const SHAPE: &[u8] = b"0000-00-00T000000Z";
    text.len() == SHAPE.len()
        && text.bytes().zip(SHAPE).all(|(octet, &shape)| match shape {
            b'0' => octet.is_ascii_digit(),
            mark => octet == mark,
        })
}

/// Returns year (4), month, day, hour, minute and second (2 each) as ASCII digits.
fn digits(moment: Moment) -> [u8; 14] {
    let millis = moment.as_millis().min(LAST);
    let (year, month, day) = date(millis / DAY_MILLIS);
    let second = millis % DAY_MILLIS / 1_000;
    let [y3, y2] = pair(year / 100);
    let [y1, y0] = pair(year % 100);
    let [o1, o0] = pair(month);
    let [d1, d0] = pair(day);
    let [h1, h0] = pair(second / 3_600);
    let [m1, m0] = pair(second / 60 % 60);
    let [s1, s0] = pair(second % 60);
    [y3, y2, y1, y0, o1, o0, d1, d0, h1, h0, m1, m0, s1, s0]
}

/// Returns year, month and day of month. Howard Hinnant's `civil_from_days`, for days that are not negative.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468; // days since 0000-03-01
    let era = shifted / 146_097; // 400 years
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_since_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_since_march + 2) / 5 + 1;
    let (month, next_year) = if months_since_march < 10 {
        (months_since_march + 3, 0)
    } else {
        (months_since_march - 9, 1)
    };
    (era * 400 + year_of_era + next_year, month, day)
}

fn pair(number: u64) -> [u8; 2] {
    [digit(number / 10), digit(number)]
}

/// Returns the last decimal digit of `number`.
fn digit(number: u64) -> u8 {
    b'0' + (number % 10) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(moment: Moment) -> String {
        String::from_utf8(rfc3339(moment).to_vec()).unwrap()
    }

    #[test]
    fn moments_are_written_as_rfc_3339() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("the epoch", 0, "1970-01-01T00:00:00.000Z"),
            ("a leap day", 951_782_400_000, "2000-02-29T00:00:00.000Z"),
            ("the day after a leap day", 951_868_799_999 + 1, "2000-03-01T00:00:00.000Z"),
            ("the last millisecond of a year", 1_767_225_599_999, "2025-12-31T23:59:59.999Z"),
            ("a century that is no leap year", 4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            ("the last moment", LAST, "9999-12-31T23:59:59.999Z"),
            ("a clock gone mad", u64::MAX, "9999-12-31T23:59:59.999Z"),
        ];
        for (name, millis, want) in cases {
            assert_eq!(text(Moment::from_millis(millis)), want, "{name}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_agrees_with_a_calendar_library() {
        for day in 0..146_097 {
            let millis = day * DAY_MILLIS + 12_345_678;
            let reference = jiff::Timestamp::from_millisecond(millis as i64).unwrap();
            assert_eq!(text(Moment::from_millis(millis)), format!("{reference:.3}"));
        }
    }

    #[test]
    fn file_name_stamps_are_recognised_and_nothing_else_is() {
        let stamp = compact(Moment::from_millis(1_767_225_599_999));
        assert_eq!(stamp, "2025-12-31T235959Z");
        assert!(is_compact(&stamp));
        for other in
            ["", "2025-12-31T235959", "2025-12-31", "2025-12-31T23595xZ", "2025-12-31T235959Z_001"]
        {
            assert!(!is_compact(other), "{other}");
        }
    }
}
