//! Times, numbers and foreign text, as pages write them.

pub(super) use crate::encoded;

use std::borrow::Borrow;
use std::fmt;

use askama::filters::{Escaper, Html};

use crawlgate_gate::explain::states::{ago, to_come};
use crawlgate_policy::{Reason, Verdict};
use crawlgate_system::clock::Moment;
use crawlgate_text::json::printable;
use crawlgate_text::time_text;

/// A name and its value.
pub(super) struct Fact {
    pub(super) name: &'static str,
    pub(super) text: String,
    pub(super) when: Option<Timestamp>,
}

/// A UTC time; its tooltip tells the distance from now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Timestamp {
    iso: String,
    distance: String,
}

impl Timestamp {
    pub(super) fn at(then: Moment, now: Moment) -> Timestamp {
        Timestamp {
            iso: time_text(then),
            distance: if then > now {
                to_come(then, now)
            } else {
                format!("{} ago", ago(then, now))
            },
        }
    }

    /// Reads a record's text, which may be missing.
    pub(super) fn of(text: &str, now: Moment) -> Option<Timestamp> {
        crawlgate_evidence::words::moment(text).map(|then| Timestamp::at(then, now))
    }

    /// Returns the distance from now.
    pub(super) fn distance(&self) -> &str {
        &self.distance
    }
}

/// Writes HTML, which templates show with `safe`. Digits, letters of our own and punctuation: nothing to escape.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.iso.get(..19).unwrap_or(&self.iso).replace('T', " ");
        write!(f, "<time datetime=\"{}\" title=\"{}, UTC\">{shown}</time>", self.iso, self.distance)
    }
}

/// The escaper of all pages: foreign text stays text in one line, and no character of it disguises others.
#[derive(Clone, Copy)]
pub(super) struct Guarded;

impl Escaper for Guarded {
    fn write_escaped_str<W: fmt::Write>(&self, to: W, text: &str) -> fmt::Result {
        Html.write_escaped_str(to, &printable(text))
    }
}

/// Shows foreign text in one line.
pub(super) fn line(text: &str) -> String {
    printable(text).into_owned()
}

/// Returns octets of a foreign text, with those that are not UTF-8 marked.
pub(super) fn octets(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// Returns the heading of a reason, a sentence that stands before its code; `None` for a reason of another version.
pub(super) fn headline(reason: &str, has_rule: bool) -> Option<String> {
    let reason = Reason::from_name(reason)?;
    let info = reason.info();
    let words = match reason.verdict() {
        Verdict::Allow if reason == Reason::RobotsAllow && has_rule => "a rule allows it",
        Verdict::Allow => info.meaning,
        Verdict::Deny | Verdict::Defer => info.answer.title,
    };
    // The name of the file keeps its case.
    let mut letters = words.chars();
    Some(match letters.next() {
        Some(first) if !words.starts_with("robots.txt") => {
            first.to_uppercase().chain(letters).collect()
        }
        _ => words.to_owned(),
    })
}

/// Writes `1,234,567`.
pub(super) fn number(number: impl Borrow<u64>) -> String {
    let digits = number.borrow().to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_escaped_and_spelt_out() {
        let mut shown = String::new();
        Guarded.write_escaped_str(&mut shown, "<b>\u{202e}\n").unwrap();
        assert_eq!(shown, "&#60;b&#62;\\u{202e}\\n");
    }

    #[test]
    fn a_reason_has_a_sentence_for_its_heading() {
        for (reason, has_rule, expected) in [
            ("robots_disallow", true, Some("Disallowed by robots.txt")),
            ("robots_allow", true, Some("A rule allows it")),
            ("robots_allow", false, Some("No rule matches it")),
            ("robots_txt", false, Some("robots.txt itself is always allowed")),
            ("of_the_future", false, None),
        ] {
            assert_eq!(headline(reason, has_rule).as_deref(), expected, "{reason}");
        }
    }

    #[test]
    fn numbers_are_grouped() {
        for (count, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(number(count), text);
        }
    }

    #[test]
    fn a_time_shows_its_distance_from_now() {
        let now = Moment::from_millis(1_795_176_000_123);
        let when = |millis| Timestamp::at(Moment::from_millis(millis), now).to_string();
        assert_eq!(
            when(1_795_176_000_123 - 3 * 3_600_000),
            "<time datetime=\"2026-11-20T09:00:00.123Z\" title=\"3h ago, UTC\">2026-11-20 09:00:00</time>"
        );
        assert!(when(1_795_176_000_123 + 60_000).contains("title=\"in 60s, UTC\""));
    }
}
