//! The crawl delay that a robots.txt asks for: `Crawl-delay` and `Request-rate`.
//!
//! Neither is in RFC 9309; both are older and in many files. `Crawl-delay: 10` asks for ten seconds from one request to
//! the next, `Request-rate: 1/10` for at most one request in ten seconds: [`Interval`] has the forms. They are read
//! in the group that applies to a crawler, as its rules are. Of several, the longest interval counts. An unreadable value
//! is ignored, because its meaning is unknown; a note on the file says so.
//!
//! This module only reads the delay; the pace (crate `crawlgate-turns`) decides whether to keep it.

use std::sync::Arc;
use std::time::Duration;

use crawlgate_robots::{Field, Interval, ProductToken, Robots, Selection};

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
            .filter_map(|other| Some((Interval::of(other.field, other.value)?.time, other)))
            .filter(|(time, _)| !time.is_zero())
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

#[cfg(test)]
mod tests {
    // The type of a table is written at the table.
    #![allow(clippy::type_complexity, reason = "a case is one row, its columns a tuple")]
    use super::*;
    use crawlgate_robots::ParseOptions;

    fn crawl_delay(text: &str, chain: &[&str]) -> Option<CrawlDelay> {
        let robots = Robots::parse(text.as_bytes(), ParseOptions::default());
        let token = |name: &&str| ProductToken::new(name).expect("a token");
        CrawlDelay::of(&robots, &chain.iter().map(token).collect::<Vec<_>>())
    }

    #[test]
    fn a_value_is_an_interval_or_nothing() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, Option<u64>)] = &[
            ("crawl-DELAY:2 # please", Some(2_000)),
            ("Crawl-delay: 1,5", Some(1_500)),
            ("Crawl-delay: 0", None),
            ("Crawl-delay: soon", None),
            ("Request-rate: 1/10m 0600-0845", Some(600_000)),
            ("Request-rate: 1/0", None),
            ("Host: 10", None),
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
            assert_eq!((found.field, found.line, &*found.group), (*field, *line, *group), "{name}");
        }
        assert_eq!(crawl_delay("User-agent: b\nCrawl-delay: 2\nDisallow:\n", &["a"]), None);
    }
}
