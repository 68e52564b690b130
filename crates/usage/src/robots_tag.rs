//! X-Robots-Tag: the rules of one field line that count for a crawler (Google's page of 2026-03-24).
//!
//! A line is split at its commas. A piece `name: …` addresses the crawler of that token, up to the next name or the end
//! of the line, except where the name is that of a rule with a value. Rules without a name, under `*:`, `robots:` or
//! any token of the crawler count, and add up.

use super::category::Category;
use super::statement::{cut, trimmed};
use crawlgate_robots::ProductToken;

/// Rules with a colon and a value behind their name.
const VALUED: [&str; 4] =
    ["max-snippet", "max-image-preview", "max-video-preview", UNAVAILABLE_AFTER];

/// The rule with a date as its value, which may hold a comma.
const UNAVAILABLE_AFTER: &str = "unavailable_after";

/// The rules that disallow something, as they are usually written.
pub(super) const RULES: [&str; 6] =
    ["noindex", "none", "noai", "noml", "noimageindex", "noimageai"];

/// The names of all crawlers.
const EVERY_CRAWLER: [&str; 2] = ["*", "robots"];

/// Calls `found` for each rule that disallows something, with its text and the categories. Rules for images count only
/// if `is_image`.
pub(super) fn rules(
    line: &[u8],
    chain: &[ProductToken],
    is_image: bool,
    found: &mut impl FnMut(&[u8], &[Category]),
) {
    let mut is_addressed = true;
    let mut pieces = line.split(|octet| *octet == b',').map(trimmed);
    while let Some(mut piece) = pieces.next() {
        while let Some((name, rest)) = named(piece) {
            if is_one_of(&VALUED, name) {
                // The comma of the date: `unavailable_after: Wed, 03 Dec 2025 13:09:53 GMT`.
                if is_one_of(&[UNAVAILABLE_AFTER], name) && is_weekday(rest) {
                    pieces.next();
                }
                piece = &[];
                break;
            }
            is_addressed = addresses(name, chain);
            piece = rest;
        }
        let disallowed = disallowed(piece, is_image);
        if is_addressed && !disallowed.is_empty() {
            found(piece, disallowed);
        }
    }
}

/// Splits a piece at its first colon.
fn named(piece: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, rest) = cut(piece, b':')?;
    Some((trimmed(name), trimmed(rest)))
}

/// Tells whether the rules behind a name count. An empty name is that of no crawler, so it restricts nothing.
fn addresses(name: &[u8], chain: &[ProductToken]) -> bool {
    let is_token = |token: &ProductToken| name.eq_ignore_ascii_case(token.as_str().as_bytes());
    name.is_empty() || is_one_of(&EVERY_CRAWLER, name) || chain.iter().any(is_token)
}

/// Returns the categories that a rule disallows. `all` and `index` allow nothing, and all others are text only.
fn disallowed(rule: &[u8], is_image: bool) -> &'static [Category] {
    let is = |name: &str| rule.eq_ignore_ascii_case(name.as_bytes());
    if is("noindex") || is("none") || is_image && is("noimageindex") {
        &[Category::Search]
    } else if is("noai") || is_image && is("noimageai") {
        &[Category::TrainAi, Category::AiUse]
    } else if is("noml") {
        &[Category::TrainAi]
    } else {
        &[]
    }
}

/// Tells whether a value is only the name of a day, as dates of RFC 9110 begin.
fn is_weekday(value: &[u8]) -> bool {
    let start = value.get(..3).unwrap_or_default();
    value.iter().all(u8::is_ascii_alphabetic)
        && is_one_of(&["mon", "tue", "wed", "thu", "fri", "sat", "sun"], start)
}

fn is_one_of(names: &[&str], name: &[u8]) -> bool {
    names.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_count_up_to_the_next_name() {
        let chain = ["Example-Image", "Example"].map(|it| ProductToken::new(it).expect("a token"));
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, bool, &[&str])] = &[
            ("noindex", false, &["noindex"]),
            (" NONE , noAI\t,noml", false, &["NONE", "noAI", "noml"]),
            ("all, index, nofollow, nosnippet, noarchive, max-snippet: 0", false, &[]),
            ("noimageindex, noimageai", false, &[]),
            ("noimageindex, noimageai", true, &["noimageindex", "noimageai"]),
            ("other: noindex", false, &[]),
            ("other: nofollow, noindex", false, &[]),
            ("noindex, other: noai", false, &["noindex"]),
            ("other: noai, EXAMPLE: noindex", false, &["noindex"]),
            ("other: noai, example-image: noindex, noml", false, &["noindex", "noml"]),
            ("other: noai, robots: noindex", false, &["noindex"]),
            ("other: *: noindex", false, &["noindex"]),
            ("other:, noindex", false, &[]),
            (": noindex", false, &["noindex"]),
            ("max-snippet: 0, noindex", false, &["noindex"]),
            ("unavailable_after: Wednesday, 03-Dec-25 13:09:53 GMT, noindex", false, &["noindex"]),
            ("unavailable_after: Wed, 03 Dec 2025 13:09:53 GMT, noindex", false, &["noindex"]),
            ("unavailable_after: 25 Jun 2010 15:00:00 PST, noindex", false, &["noindex"]),
            ("unavailable_after: 2025-12-03, noindex", false, &["noindex"]),
            ("other: unavailable_after: Wed, 03 Dec 2025 13:09:53 GMT, noindex", false, &[]),
            ("noindexed, no index", false, &[]),
            ("", false, &[]),
        ];
        for (line, is_image, expected) in cases {
            let mut shown = Vec::new();
            rules(line.as_bytes(), &chain, *is_image, &mut |rule, _| {
                shown.push(String::from_utf8_lossy(rule).into_owned());
            });
            assert_eq!(shown, *expected, "{line}");
        }
    }
}
