//! The crawl delay that a robots.txt asks for: `Crawl-delay` and `Request-rate`.
//!
//! Neither is in RFC 9309; both are older and in many files. `Crawl-delay: 10` asks for ten seconds from one request to
//! the next, `Request-rate: 1/10` for at most one request in ten seconds (also `1/10s`, `1/5m`, `2/1h`). They are read
//! in the group that applies to a crawler, as its rules are. Of several, the longest interval counts. Hours after a
//! rate (`1/10m 0600-0845`) are ignored, so that the rate always holds: more than was asked for, never less. An
//! unreadable value is ignored, because its meaning is unknown.
//!
//! This module only reads the delay; [`crate::pace`] decides whether to keep it.

use std::sync::Arc;
use std::time::Duration;

use crate::rep::{Field, ProductToken, Robots, Selection};

/// Limit of an interval: longer than any file can mean.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// An interval that a robots.txt asks a crawler to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrawlDelay {
    /// The time from one request to the next.
    pub interval: Duration,
    /// The field of the line: [`Field::CrawlDelay`] or [`Field::RequestRate`].
    pub field: Field,
    /// The line's number, from 1.
    pub line: u32,
    /// The group: its product token in lower case, or `*`. Crawlers of one group share the interval.
    pub group: Arc<str>,
}

impl CrawlDelay {
    /// Returns the crawl delay in `robots` for a crawler with this chain of product tokens.
    pub fn of(robots: &Robots, chain: &[ProductToken]) -> Option<CrawlDelay> {
        let selection = robots.selection(chain);
        let longest = robots
            .others_of(selection)
            .filter_map(|other| Some((interval(other.field, other.value)?, other)))
            .max_by_key(|(interval, other)| (*interval, std::cmp::Reverse(other.line)));
        let (interval, other) = longest?;
        Some(CrawlDelay {
            interval,
            field: other.field,
            line: other.line,
            group: name(robots, chain, selection),
        })
    }
}

fn name(robots: &Robots, chain: &[ProductToken], selection: Selection) -> Arc<str> {
    let speaks = |token: &&ProductToken| {
        selection != Selection::Global
            && robots.selection(std::slice::from_ref(*token)) == selection
    };
    match chain.iter().find(speaks) {
        Some(token) => token.as_str().to_ascii_lowercase().into(),
        None => "*".into(),
    }
}

/// Returns the interval that a line asks for.
fn interval(field: Field, value: &[u8]) -> Option<Duration> {
    let value = std::str::from_utf8(value).ok()?;
    let seconds = match field {
        Field::CrawlDelay => decimal(value.trim_end_matches(['s', 'S']).trim_end())?,
        Field::RequestRate => {
            let rate = value.split_ascii_whitespace().next()?;
            let (count, per) = rate.split_once('/')?;
            let (count, per) = (decimal(count)?, span(per)?);
            per / Some(count).filter(|count| *count > 0.0)?
        }
        _ => return None,
    };
    let interval = Duration::try_from_secs_f64(seconds)
        .unwrap_or(LONGEST)
        .min(LONGEST);
    (!interval.is_zero()).then_some(interval)
}

/// Reads a time such as `10`, `10s`, `5m`, `1h` or `1d`, in seconds.
fn span(text: &str) -> Option<f64> {
    let (digits, unit) = text.split_at(
        text.find(|c: char| c.is_ascii_alphabetic())
            .unwrap_or(text.len()),
    );
    let scale = match unit {
        "" | "s" | "S" => 1.0,
        "m" | "M" => 60.0,
        "h" | "H" => 3_600.0,
        "d" | "D" => 86_400.0,
        _ => return None,
    };
    Some(decimal(digits)? * scale)
}

/// Reads a number in everyday form: digits, and at most one point. Neither a sign nor an exponent.
fn decimal(text: &str) -> Option<f64> {
    let is_plain = text
        .bytes()
        .all(|octet| octet.is_ascii_digit() || octet == b'.');
    is_plain.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    // The type of a table is written at the table.
    #![allow(
        clippy::type_complexity,
        reason = "a case is one row, its columns a tuple"
    )]
    use super::*;
    use crate::rep::ParseOptions;

    fn crawl_delay(text: &str, chain: &[&str]) -> Option<CrawlDelay> {
        let robots = Robots::parse(text.as_bytes(), ParseOptions::default());
        let token = |name: &&str| ProductToken::new(name).expect("a token");
        CrawlDelay::of(&robots, &chain.iter().map(token).collect::<Vec<_>>())
    }

    #[test]
    fn a_value_is_an_interval_or_nothing() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, Option<u64>)] = &[
            ("Crawl-delay: 10", Some(10_000)),
            ("Crawl-delay: 0.5", Some(500)),
            ("Crawl-delay: 10s", Some(10_000)),
            ("crawl-DELAY:2 # please", Some(2_000)),
            ("Crawl-delay: 0", None),
            ("Crawl-delay: -1", None),
            ("Crawl-delay: 1e9", None),
            ("Crawl-delay: inf", None),
            ("Crawl-delay: soon", None),
            ("Crawl-delay:", None),
            ("Crawl-delay: .", None),
            ("Crawl-delay: 10 20", None),
            ("Crawl-delay: 99999999999999999999999", Some(365 * 86_400_000)),
            ("Request-rate: 1/10", Some(10_000)),
            ("Request-rate: 1/10s", Some(10_000)),
            ("Request-rate: 1/5m", Some(300_000)),
            ("Request-rate: 2/1h", Some(1_800_000)),
            ("Request-rate: 4/1", Some(250)),
            ("Request-rate: 1/10m 0600-0845", Some(600_000)),
            ("Request-rate: 0/10", None),
            ("Request-rate: 1/0", None),
            ("Request-rate: 1/10y", None),
            ("Request-rate: 10", None),
            ("Crawl-delay: \u{0663}", None),
        ];
        for (line, millis) in cases {
            let found = crawl_delay(&format!("User-agent: *\nDisallow: /x\n{line}\n"), &["a"]);
            let found = found.map(|crawl_delay| crawl_delay.interval);
            assert_eq!(found, millis.map(Duration::from_millis), "{line}");
        }
    }

    #[test]
    fn a_crawl_delay_is_read_in_the_crawlers_group() {
        let text = "User-agent: A\nCrawl-delay: 1\nRequest-rate: 1/4\nDisallow:\n\n\
                    User-agent: *\nCrawl-delay: 2\nDisallow:\n\nUser-agent: a\nCrawl-delay: 3\nDisallow: /\n";
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[&str], (u64, Field, u32, &str))] = &[
            ("its own groups, merged; the longest counts", &["a"], (4, Field::RequestRate, 3, "a")),
            ("the token of the chain that is named", &["a-image", "A"], (4, Field::RequestRate, 3, "a")),
            ("the global group", &["b"], (2, Field::CrawlDelay, 7, "*")),
            ("no token", &[], (2, Field::CrawlDelay, 7, "*")),
        ];
        for (name, chain, (secs, field, line, group)) in cases {
            let found = crawl_delay(text, chain).expect(name);
            assert_eq!(found.interval, Duration::from_secs(*secs), "{name}");
            assert_eq!(
                (found.field, found.line, &*found.group),
                (*field, *line, *group),
                "{name}"
            );
        }
        assert_eq!(
            crawl_delay("User-agent: b\nCrawl-delay: 2\nDisallow:\n", &["a"]),
            None
        );
    }
}
