//! Times as people write them. All are UTC, as in the records.

use std::str::FromStr as _;

use jiff::civil;
use jiff::tz::TimeZone;

use super::ReadError;
use crawlgate_config::parse_duration;
use crawlgate_system::clock::Moment;

/// The end of a time range that a time stands for: the same day may begin or end one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The beginning.
    Since,
    /// The end.
    Until,
}

/// Reads `2026-11-20`, `2026-11-20T12:00`, `2026-11-20T12:00:00Z`, `2h` or `2h ago`, `now`.
///
/// # Errors
/// When the text has another form; the message gives the text and the valid forms.
pub fn moment(text: &str, edge: Edge, now: Moment) -> Result<Moment, ReadError> {
    let wrong = || {
        ReadError(format!(
            "{text}: not a time; write 2026-11-20, 2026-11-20T12:00 or 2026-11-20T12:00:00Z (UTC), or how \
             long ago: 2h, 7d"
        ))
    };
    if text == "now" {
        return Ok(now);
    }
    let span = text.strip_suffix("ago").unwrap_or(text).trim_end();
    if let Some(ago) = parse_duration(span) {
        return Ok(now - ago);
    }
    if let Ok(time) = jiff::Timestamp::from_str(text) {
        return of(time).ok_or_else(wrong);
    }
    let utc = |time: civil::DateTime| time.to_zoned(TimeZone::UTC).ok()?.timestamp().into();
    let day = match civil::Date::from_str(text) {
        Ok(day) if text.len() <= "2026-11-20".len() => Some(day),
        _ => None,
    };
    let time = match (day, edge) {
        (Some(day), Edge::Since) => Some(day),
        (Some(day), Edge::Until) => day.tomorrow().ok(),
        (None, _) => None,
    };
    let time = match time {
        Some(day) => utc(day.at(0, 0, 0, 0)),
        None => civil::DateTime::from_str(text).ok().and_then(utc),
    };
    time.and_then(of).ok_or_else(wrong)
}

fn of(time: jiff::Timestamp) -> Option<Moment> {
    u64::try_from(time.as_millisecond()).ok().map(Moment::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_text::time_text;

    #[test]
    fn times_are_read_as_people_write_them() {
        let now = Moment::from_millis(1_795_176_000_123); // 2026-11-20T12:00:00.123Z
        type Read = Result<&'static str, ()>;
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, Read, Read)] = &[
            ("a day, from its start or to its end", "2026-11-20", Ok("2026-11-20T00:00:00.000Z"), Ok("2026-11-21T00:00:00.000Z")),
            ("the last day of a year", "2026-12-31", Ok("2026-12-31T00:00:00.000Z"), Ok("2027-01-01T00:00:00.000Z")),
            ("minutes", "2026-11-20T11:30", Ok("2026-11-20T11:30:00.000Z"), Ok("2026-11-20T11:30:00.000Z")),
            ("a space", "2026-11-20 11:30:05", Ok("2026-11-20T11:30:05.000Z"), Ok("2026-11-20T11:30:05.000Z")),
            ("RFC 3339", "2026-11-20T11:30:00.5Z", Ok("2026-11-20T11:30:00.500Z"), Ok("2026-11-20T11:30:00.500Z")),
            ("with an offset", "2026-11-20T11:30:00+01:00", Ok("2026-11-20T10:30:00.000Z"), Ok("2026-11-20T10:30:00.000Z")),
            ("a span", "2h", Ok("2026-11-20T10:00:00.123Z"), Ok("2026-11-20T10:00:00.123Z")),
            ("a span, said in full", "1d12h ago", Ok("2026-11-19T00:00:00.123Z"), Ok("2026-11-19T00:00:00.123Z")),
            ("now", "now", Ok("2026-11-20T12:00:00.123Z"), Ok("2026-11-20T12:00:00.123Z")),
            ("a number alone", "20", Err(()), Err(())),
            ("a day that is none", "2026-02-30", Err(()), Err(())),
            ("a word", "yesterday", Err(()), Err(())),
            ("nothing", "", Err(()), Err(())),
        ];
        for (name, text, since, until) in cases {
            for (edge, want) in [(Edge::Since, since), (Edge::Until, until)] {
                let got = moment(text, edge, now).map(time_text);
                assert_eq!(got.as_deref().map_err(|_| ()), *want, "{name}");
            }
        }
    }
}
