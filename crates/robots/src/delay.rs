//! The values of `Crawl-delay` and `Request-rate`, which no RFC defines.
//!
//! The plain forms are a number of seconds, and a number of requests in a time: `1/10`, `1/10s`, `1/5m`, `2/1h`, or with
//! the hours of the day behind it. Authors write other forms with one meaning: `1,5`, `2 sec`, `1000ms`. A form with two
//! meanings is unreadable, such as `1,500`.

use std::time::Duration;

use super::field::Field;

/// Limit of an interval: longer than any file can mean.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// The interval that a line asks for, from one request to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The time. Zero asks for none.
    pub time: Duration,
    /// True if the value has a plain form, which other crawlers read, too.
    pub is_plain: bool,
}

impl Interval {
    /// Returns the interval that a line with this field asks for; `None` if its value cannot be read, or it is another field.
    pub fn of(field: Field, value: &[u8]) -> Option<Self> {
        let value = std::str::from_utf8(value).ok()?;
        let (seconds, is_plain) = match field {
            Field::CrawlDelay => {
                let (number, rest) = number(value)?;
                let (unit, after) = unit(rest)?;
                if !after.is_empty() {
                    return None;
                }
                let is_plain = rest.is_empty() && number.is_plain;
                (number.value * unit, is_plain)
            }
            Field::RequestRate => rate(value)?,
            _ => return None,
        };
        let time = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST);
        Some(Self { time: time.min(LONGEST), is_plain })
    }
}

/// Reads a rate. Hours behind it are left aside, so that the rate always holds: more than was asked for, never less.
fn rate(value: &str) -> Option<(f64, bool)> {
    let (count, per) = value.split_once('/')?;
    let (count_of, behind) = number(count.trim_end())?;
    if !behind.is_empty() || count_of.value <= 0.0 {
        return None;
    }
    let (per_of, rest) = number(per.trim_start())?;
    let (unit, after) = unit(rest)?;
    let spelt = rest.get(..rest.len() - after.len()).unwrap_or_default();
    let is_short = matches!(spelt.trim_end(), "" | "s" | "S" | "m" | "M" | "h" | "H" | "d" | "D");
    let has_spaces = count.len() != count.trim_end().len() || per.len() != per.trim_start().len();
    let is_plain = is_short && !has_spaces && count_of.is_plain && per_of.is_plain;
    Some((per_of.value * unit / count_of.value, is_plain))
}

struct Number {
    value: f64,
    /// False with a comma in place of the point.
    is_plain: bool,
}

/// Reads the number that a text begins with: digits, and at most one point or comma. Neither a sign nor an exponent.
/// Returns it with what follows.
fn number(text: &str) -> Option<(Number, &str)> {
    let is_of_it = |octet: u8| octet.is_ascii_digit() || matches!(octet, b'.' | b',');
    let end = text.bytes().position(|octet| !is_of_it(octet));
    let (digits, rest) = text.split_at_checked(end.unwrap_or(text.len()))?;
    let Some((whole, part)) = digits.split_once(',') else {
        let value = digits.parse().ok()?;
        return Some((Number { value, is_plain: true }, rest));
    };
    // Three digits behind a comma may be thousands.
    let is_decimal = matches!(part.len(), 1 | 2) && !whole.is_empty();
    if !is_decimal || digits.contains('.') {
        return None;
    }
    let value = format!("{whole}.{part}").parse().ok()?;
    Some((Number { value, is_plain: false }, rest))
}

/// Reads the unit that a text begins with, in seconds; without one, that is the second. Returns it with what follows, which
/// stands apart from it.
fn unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim_start();
    let end = text.bytes().position(|octet| !octet.is_ascii_alphabetic());
    let (word, rest) = text.split_at_checked(end.unwrap_or(text.len()))?;
    let scale = match word.to_ascii_lowercase().as_str() {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => 0.001,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    let is_apart = word.is_empty() || rest.is_empty() || rest.starts_with([' ', '\t']);
    is_apart.then_some((scale, rest.trim_start()))
}

#[cfg(test)]
mod tests {
    // A table's type is spelt where the table is.
    #![allow(clippy::type_complexity, reason = "a case is one row, its columns a tuple")]
    use super::*;

    #[test]
    fn ours_a_value_is_an_interval_or_unreadable() {
        use Field::{CrawlDelay, RequestRate};
        const YEAR: u64 = 365 * 86_400_000;
        #[rustfmt::skip] // one row, one case
        let cases: &[(Field, &str, Option<(u64, bool)>)] = &[
            // value, milliseconds, is it plain
            (CrawlDelay, "10", Some((10_000, true))),
            (CrawlDelay, "0.5", Some((500, true))),
            (CrawlDelay, ".5", Some((500, true))),
            (CrawlDelay, "0", Some((0, true))),
            (CrawlDelay, "99999999999999999999999", Some((YEAR, true))),
            (CrawlDelay, "10s", Some((10_000, false))),
            (CrawlDelay, "10 S", Some((10_000, false))),
            (CrawlDelay, "1,5", Some((1_500, false))),
            (CrawlDelay, "1,25 s", Some((1_250, false))),
            (CrawlDelay, "2 sec", Some((2_000, false))),
            (CrawlDelay, "2 Seconds", Some((2_000, false))),
            (CrawlDelay, "1000ms", Some((1_000, false))),
            (CrawlDelay, "5 min", Some((300_000, false))),
            (CrawlDelay, "1h", Some((3_600_000, false))),
            (CrawlDelay, "1d", Some((86_400_000, false))),
            (CrawlDelay, "1,500", None),
            (CrawlDelay, "1,5,5", None),
            (CrawlDelay, "1.000,5", None),
            (CrawlDelay, ",5", None),
            (CrawlDelay, "", None),
            (CrawlDelay, ".", None),
            (CrawlDelay, "s", None),
            (CrawlDelay, "-1", None),
            (CrawlDelay, "1e9", None),
            (CrawlDelay, "inf", None),
            (CrawlDelay, "soon", None),
            (CrawlDelay, "10 20", None),
            (CrawlDelay, "10 s 20", None),
            (CrawlDelay, "10 parsecs", None),
            (CrawlDelay, "\u{663}", None),
            (RequestRate, "1/10", Some((10_000, true))),
            (RequestRate, "1/10s", Some((10_000, true))),
            (RequestRate, "1/5m", Some((300_000, true))),
            (RequestRate, "2/1h", Some((1_800_000, true))),
            (RequestRate, "4/1", Some((250, true))),
            (RequestRate, "1/0", Some((0, true))),
            (RequestRate, "1/10m 0600-0845", Some((600_000, true))),
            (RequestRate, "1/10 0600-0845 UTC", Some((10_000, true))),
            (RequestRate, "1 / 10", Some((10_000, false))),
            (RequestRate, "1/5 min", Some((300_000, false))),
            (RequestRate, "1/1,5", Some((1_500, false))),
            (RequestRate, "1/1000ms", Some((1_000, false))),
            (RequestRate, "0/10", None),
            (RequestRate, "1/10y", None),
            (RequestRate, "1 page/10", None),
            (RequestRate, "10", None),
            (RequestRate, "/", None),
            (Field::Host, "10", None),
        ];
        for (field, value, expected) in cases {
            let expected = expected.map(|(millis, is_plain)| Interval {
                time: Duration::from_millis(millis),
                is_plain,
            });
            assert_eq!(Interval::of(*field, value.as_bytes()), expected, "{value:?}");
        }
    }
}
