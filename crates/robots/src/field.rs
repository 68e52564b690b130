//! The fields of robots.txt that crawlgate knows, and their spellings.

/// The fields that crawlgate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// `user-agent`: names a crawler that the group speaks to.
    UserAgent,
    /// `allow`: a rule.
    Allow,
    /// `disallow`: a rule.
    Disallow,
    /// `sitemap`: an absolute URL, for any host; belongs to no group.
    Sitemap,
    /// `crawl-delay`: seconds between two requests.
    CrawlDelay,
    /// `request-rate`: pages per time.
    RequestRate,
    /// `visit-time`: hours of the day (UTC) for visits.
    VisitTime,
    /// `clean-param`: query parameters that do not change the page (Yandex).
    CleanParam,
    /// `host`: the preferred mirror (Yandex).
    Host,
    /// `content-signal`: permitted uses of the content.
    ContentSignal,
    /// `content-usage`: permitted uses of the content (IETF aipref).
    ContentUsage,
    /// `license`: URL of the licence for the content (RSL).
    License,
}

/// The spellings that a field's name may begin with, in the order in which Google's library tries them. The name may go
/// on: `Disallowed:` and `Allow-list:` are rules.
const LENIENT: [(Field, &[&str]); 4] = [
    (Field::UserAgent, &["user-agent", "useragent", "user agent"]),
    (Field::Allow, &["allow"]),
    (Field::Disallow, &["disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"]),
    (Field::Sitemap, &["sitemap", "site-map"]),
];

/// Another spelling of `content-signal` in wide use, taken in any reading.
const CONTENT_SIGNALS: &[u8] = b"content-signals";

impl Field {
    const ALL: [Self; 12] = [
        Self::UserAgent,
        Self::Allow,
        Self::Disallow,
        Self::Sitemap,
        Self::CrawlDelay,
        Self::RequestRate,
        Self::VisitTime,
        Self::CleanParam,
        Self::Host,
        Self::ContentSignal,
        Self::ContentUsage,
        Self::License,
    ];

    /// Returns the field's name in its common spelling, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UserAgent => "user-agent",
            Self::Allow => "allow",
            Self::Disallow => "disallow",
            Self::Sitemap => "sitemap",
            Self::CrawlDelay => "crawl-delay",
            Self::RequestRate => "request-rate",
            Self::VisitTime => "visit-time",
            Self::CleanParam => "clean-param",
            Self::Host => "host",
            Self::ContentSignal => "content-signal",
            Self::ContentUsage => "content-usage",
            Self::License => "license",
        }
    }

    /// Tells whether the field speaks about the use of the content.
    pub fn is_of_usage(self) -> bool {
        matches!(self, Self::ContentSignal | Self::ContentUsage | Self::License)
    }

    /// Returns the field that a line begins with and the length of its name with the colon, if the field is a frequent
    /// one, spelt right and without white space around the name.
    ///
    /// Compares eight octets at once: letters without regard to case, all others as they are.
    pub(super) fn usual(line: &[u8]) -> Option<(Self, usize)> {
        const CASE: u64 = u64::from_le_bytes([0x20; 8]);
        const ALLOW: u64 = u64::from_le_bytes(*b"allow:\0\0");
        const SITEMAP: u64 = u64::from_le_bytes(*b"sitemap:");
        const DISALLOW: u64 = u64::from_le_bytes(*b"disallow");
        const USER_AGE: u64 = u64::from_le_bytes(*b"user-age");
        let (start, rest) = line.split_first_chunk::<8>()?;
        let start = u64::from_le_bytes(*start);
        if start | CASE == DISALLOW && rest.first() == Some(&b':') {
            Some((Self::Disallow, 9))
        } else if (start | CASE >> 24) & (u64::MAX >> 16) == ALLOW {
            Some((Self::Allow, 6))
        } else if start | (CASE & !(0xFF << 32)) == USER_AGE
            && let [n, t, b':', ..] = rest
            && n.eq_ignore_ascii_case(&b'n')
            && t.eq_ignore_ascii_case(&b't')
        {
            Some((Self::UserAgent, 11))
        } else if start | CASE >> 8 == SITEMAP {
            Some((Self::Sitemap, 8))
        } else {
            None
        }
    }

    /// Returns the field of that name; if `lenient`, also for frequent misspellings.
    pub(super) fn named(name: &[u8], lenient: bool) -> Option<Self> {
        if lenient {
            // All lenient spellings begin with one of four letters.
            let spellings = match name.first()?.to_ascii_lowercase() {
                b'u' | b'a' | b'd' | b's' => LENIENT.as_slice(),
                _ => &[],
            };
            for (field, prefixes) in spellings {
                if prefixes.iter().any(|prefix| begins_with(name, prefix)) {
                    return Some(*field);
                }
            }
        }
        if name.eq_ignore_ascii_case(CONTENT_SIGNALS) {
            return Some(Self::ContentSignal);
        }
        Self::ALL.into_iter().find(|field| name.eq_ignore_ascii_case(field.as_str().as_bytes()))
    }
}

fn begins_with(name: &[u8], prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

#[cfg(test)]
mod tests {
    // A table's type is spelt where the table is.
    #![allow(clippy::type_complexity, reason = "a case is one row, its columns a tuple")]
    use super::*;

    #[test]
    fn google_field_names_are_recognised_by_their_beginning() {
        use Field::*;
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[u8], Option<Field>, Option<Field>)] = &[
            // name, written, lenient, strict
            ("user-agent", b"User-Agent", Some(UserAgent), Some(UserAgent)),
            ("without its hyphen", b"useragent", Some(UserAgent), None),
            ("with a space", b"user agent", Some(UserAgent), None),
            ("more after it", b"user-agents", Some(UserAgent), None),
            ("allow", b"ALLOW", Some(Allow), Some(Allow)),
            ("more after allow", b"allow-list", Some(Allow), None),
            ("no misspelt allow", b"alow", None, None),
            ("disallow", b"disallow", Some(Disallow), Some(Disallow)),
            ("more after disallow", b"Disallowed", Some(Disallow), None),
            ("dissallow", b"dissallow", Some(Disallow), None),
            ("dissalow", b"dissalow", Some(Disallow), None),
            ("disalow", b"disalow", Some(Disallow), None),
            ("diasllow", b"diasllow", Some(Disallow), None),
            ("disallaw", b"disallaw", Some(Disallow), None),
            ("sitemap", b"Sitemap", Some(Sitemap), Some(Sitemap)),
            ("site-map", b"site-map", Some(Sitemap), None),
            ("crawl-delay", b"Crawl-Delay", Some(CrawlDelay), Some(CrawlDelay)),
            ("content-signal", b"content-signal", Some(ContentSignal), Some(ContentSignal)),
            ("its plural", b"Content-Signals", Some(ContentSignal), Some(ContentSignal)),
            ("content-usage", b"CONTENT-USAGE", Some(ContentUsage), Some(ContentUsage)),
            ("no other plural", b"content-usages", None, None),
            ("noindex is unknown", b"noindex", None, None),
            ("something before it", b"xdisallow", None, None),
        ];
        for (name, written, lenient, strict) in cases {
            assert_eq!(Field::named(written, true), *lenient, "{name}");
            assert_eq!(Field::named(written, false), *strict, "{name}, strict");
        }
    }

    #[test]
    fn the_fast_look_up_agrees_with_the_full_one() {
        let lines: &[(&[u8], Option<(Field, usize)>)] = &[
            (b"Disallow: /", Some((Field::Disallow, 9))),
            (b"DISALLOW:/", Some((Field::Disallow, 9))),
            (b"User-Agent: *", Some((Field::UserAgent, 11))),
            (b"allow:/abc", Some((Field::Allow, 6))),
            (b"Sitemap:https", Some((Field::Sitemap, 8))),
            (b"Disallow : /", None),
            (b" Disallow: /", None),
            (b"Disallowed: /", None),
            (b"user\ragent: a", None),
            (b"user agent: a", None),
            (b"allow\x1a/abc", None),
            (b"sitemap\x1ahttps", None),
            (b"allow:", None), // too short for the fast look-up
        ];
        for (line, expected) in lines {
            let shown = String::from_utf8_lossy(line);
            assert_eq!(Field::usual(line), *expected, "{shown}");
            if let Some((field, length)) = expected {
                assert_eq!(Field::named(&line[..length - 1], false), Some(*field), "{shown}");
            }
        }
    }
}
