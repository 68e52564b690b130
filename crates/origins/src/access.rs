//! The meaning of a robots.txt fetch: its *access result* (RFC 9309 section 2.3.1).
//!
//! There are three results. *Successful*: the body's rules hold. *Unavailable*: the origin has no robots.txt, nothing
//! is restricted. *Unreachable*: the rules are unknown, so everything is disallowed for now. Mixing these up is the
//! classic bug of this field, so the mapping has a separate module, without IO.

mod cause;
mod codings;
mod ftp_reply;
pub mod tls_fault;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::cause::Cause;
use self::cause::numbered;
pub use self::codings::{CodingField, Codings};
pub use self::ftp_reply::FtpReply;
use super::snapshot::Snapshot;
use crawlgate_text::Moment;

/// The outcome of one fetch, redirects followed.
#[derive(Debug, Clone)]
pub enum AccessResult {
    /// 2xx: the rules of the body (RFC 9309 2.3.1.1).
    Successful {
        /// The file as fetched.
        snapshot: Arc<Snapshot>,
        /// The life that its `Cache-Control` asks for.
        freshness: Freshness,
    },
    /// No robots.txt (RFC 9309 2.3.1.3).
    Unavailable {
        /// The reason.
        why: Absence,
        /// The life that its `Cache-Control` asks for.
        freshness: Freshness,
    },
    /// The rules are unknown (RFC 9309 2.3.1.4).
    Unreachable {
        /// The cause.
        cause: Cause,
        /// The origin's `Retry-After`, counted from the answer.
        retry_after: Option<Duration>,
    },
}

impl AccessResult {
    /// Returns the result for an origin with a stored copy of its file. A redirect that may not be followed removes no
    /// rule, and of a site that had a file a 5xx is an outage whatever its page says: both count as failures.
    #[must_use]
    pub fn with_stored_copy(self) -> AccessResult {
        let cause = match self {
            AccessResult::Unavailable { why: Absence::DisallowedHop, .. } => Cause::DisallowedHop,
            AccessResult::Unavailable { why: Absence::NotFoundBehind(status), .. } => {
                Cause::Status(status)
            }
            result => return result,
        };
        AccessResult::Unreachable { cause, retry_after: None }
    }

    /// Tells whether only this machine caused the failure: the origin was not asked.
    pub fn is_of_this_machine(&self) -> bool {
        matches!(self, AccessResult::Unreachable { cause: Cause::Exhausted, .. })
    }
}

/// The reason that an origin counts as one without robots.txt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// A 4xx other than 429.
    Status(u16),
    /// The FTP server has no such file.
    Ftp(FtpReply),
    /// A 5xx of a site that answers missing pages with it (Google's 2019 and RFC 9309 editions).
    NotFoundBehind(u16),
    /// More hops than the limit (RFC 9309 2.3.1.2).
    TooManyRedirects,
    /// A redirect back to a URL already visited.
    RedirectLoop,
    /// A redirect to a URL that the rules of that URL's origin disallow to this crawler (Google's RFC 9309 edition).
    DisallowedHop,
}

/// The verdict of another origin's rules on a redirect to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hop {
    /// They allow it.
    Allowed,
    /// They disallow it.
    Disallowed,
    /// The redirect is not followed, and this is the cause that the redirecting origin's robots.txt is unreachable.
    Refused(Cause),
}

/// The life that an answer's `Cache-Control` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Freshness {
    /// No directive.
    #[default]
    Unsaid,
    /// `max-age`.
    MaxAge(Duration),
    /// `no-store` or `no-cache`: as short as the operator's lower bound.
    Shortest,
}

/// The way to proceed after an answer's status, before its body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Read the body: its rules hold.
    Body,
    /// Follow `Location`.
    Follow,
    /// No robots.txt here.
    Absent,
    /// Complete disallow, for now.
    Unreachable,
    /// Complete disallow, unless the site answers missing pages with this status.
    UnreachableUnlessNotFound,
    /// Not an answer to an unconditional GET.
    Nonsense,
}

/// Reads an answer's status code. `deny` lists the 4xx codes that the operator treats as unreachable.
pub fn read_status(status: u16, deny: &[u16], soft_404: bool) -> Reading {
    match status {
        // Part of a file, although no range was requested: the missing part may hold the rule that matters.
        206 => Reading::Unreachable,
        200..=299 => Reading::Body,
        // 300 has a Location where the server prefers one of its choices (RFC 9110 15.4.1).
        300 | 301 | 302 | 303 | 307 | 308 => Reading::Follow,
        429 => Reading::Unreachable,
        // These statuses mean that our request was bad, and say nothing about a file.
        400 | 405 | 406 | 408 | 411..=417 | 421 | 425 | 426 | 428 | 431 | 494 => {
            Reading::Unreachable
        }
        400..=499 if deny.contains(&status) => Reading::Unreachable,
        400..=499 => Reading::Absent,
        500..=599 if soft_404 => Reading::UnreachableUnlessNotFound,
        500..=599 => Reading::Unreachable,
        _ => Reading::Nonsense,
    }
}

/// Octets of an error page that are read.
pub const ERROR_PAGE: usize = 8192;

/// Returns those of `phrases` that the first octets of an error page contain, without regard to case and white space. A
/// page that is not UTF-8 is read as Latin-1, as most such pages are.
pub fn phrases_in<'a>(page: &[u8], phrases: &'a [String]) -> Vec<&'a str> {
    let page = page.get(..ERROR_PAGE).unwrap_or(page);
    let text = match std::str::from_utf8(page) {
        Ok(text) => text.to_lowercase(),
        // A character that the end cuts is no reason to assume Latin-1.
        Err(error) if error.error_len().is_none() => {
            let whole = page.get(..error.valid_up_to()).unwrap_or_default();
            String::from_utf8_lossy(whole).to_lowercase()
        }
        Err(_) => page.iter().map(|octet| char::from(*octet)).collect::<String>().to_lowercase(),
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let says = |phrase: &&String| text.contains(&phrase.to_lowercase());
    phrases.iter().filter(says).map(String::as_str).collect()
}

/// The fields about an answer's age and life, each line as received.
#[derive(Debug, Clone, Default)]
pub struct Validity<'a> {
    /// `Cache-Control`.
    pub cache_control: Vec<&'a str>,
    /// `Expires`.
    pub expires: Option<&'a str>,
    /// `Date`.
    pub date: Option<&'a str>,
    /// `Age`.
    pub age: Option<&'a str>,
}

impl Freshness {
    /// Returns this life, but no longer one than `most`.
    pub fn at_most(self, most: Duration) -> Freshness {
        match self {
            Freshness::Unsaid => Freshness::MaxAge(most),
            Freshness::MaxAge(life) => Freshness::MaxAge(life.min(most)),
            Freshness::Shortest => Freshness::Shortest,
        }
    }

    /// Returns the freshness of an answer that came `now` (RFC 9111 4.2): `max-age` of `Cache-Control`, otherwise
    /// `Expires`; `Age` is subtracted. Of several `max-age`, the first counts; an unreadable value counts as stale (RFC
    /// 9111 4.2.1, 5.3).
    pub fn of(said: &Validity<'_>, now: Moment) -> Freshness {
        let life = match Freshness::from_cache_control(said.cache_control.iter().copied()) {
            Freshness::Shortest => return Freshness::Shortest,
            Freshness::MaxAge(life) => life,
            Freshness::Unsaid => match said.expires {
                None => return Freshness::Unsaid,
                Some(expires) => {
                    let date = said.date.and_then(http_date).unwrap_or(now);
                    let expires = http_date(expires);
                    expires.map_or(Duration::ZERO, |expires| expires.since(date))
                }
            },
        };
        let age = said.age.map_or(Duration::ZERO, seconds);
        Freshness::MaxAge(life.saturating_sub(age))
    }

    /// Reads the values of all `Cache-Control` lines (RFC 9111 5.2.2).
    fn from_cache_control<'a>(values: impl Iterator<Item = &'a str>) -> Freshness {
        let mut freshness = Freshness::Unsaid;
        for directive in values.flat_map(|value| value.split(',')) {
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            let name = name.trim();
            if name.eq_ignore_ascii_case("no-store") || name.eq_ignore_ascii_case("no-cache") {
                return Freshness::Shortest;
            }
            if name.eq_ignore_ascii_case("max-age") && freshness == Freshness::Unsaid {
                freshness = Freshness::MaxAge(seconds(value.trim().trim_matches('"')));
            }
        }
        freshness
    }
}

/// Reads a delta-seconds (RFC 9111 1.2.2): too large a number becomes the largest, an invalid one zero.
fn seconds(digits: &str) -> Duration {
    let digits = digits.trim();
    let seconds = match digits.parse::<u64>() {
        Ok(seconds) => seconds.min(u64::from(u32::MAX)),
        Err(_) if !digits.is_empty() && digits.bytes().all(|octet| octet.is_ascii_digit()) => {
            u64::from(u32::MAX)
        }
        Err(_) => 0,
    };
    Duration::from_secs(seconds)
}

fn http_date(text: &str) -> Option<Moment> {
    let date = httpdate::parse_http_date(text.trim()).ok()?;
    Some(Moment::from(date))
}

impl AccessResult {
    /// Returns the result's name in records.
    pub fn name(&self) -> &'static str {
        match self {
            AccessResult::Successful { .. } => "successful",
            AccessResult::Unavailable { .. } => "unavailable",
            AccessResult::Unreachable { .. } => "unreachable",
        }
    }
}

impl Absence {
    /// Returns one stable word, for records and the store; [`Absence::from_code`] reads it.
    pub fn code(self) -> String {
        match self {
            Absence::Status(status) => format!("status_{status}"),
            Absence::Ftp(reply) => reply.word(),
            Absence::NotFoundBehind(status) => format!("not_found_behind_{status}"),
            Absence::TooManyRedirects => "too_many_redirects".to_owned(),
            Absence::RedirectLoop => "redirect_loop".to_owned(),
            Absence::DisallowedHop => "disallowed_hop".to_owned(),
        }
    }

    /// Reads the word that [`Absence::code`] wrote.
    pub fn from_code(code: &str) -> Option<Absence> {
        if let Some(status) = numbered(code, "status_") {
            return Some(Absence::Status(status));
        }
        if let Some(reply) = FtpReply::from_word(code) {
            return Some(Absence::Ftp(reply));
        }
        if let Some(status) = numbered(code, "not_found_behind_") {
            return Some(Absence::NotFoundBehind(status));
        }
        match code {
            "too_many_redirects" => Some(Absence::TooManyRedirects),
            "redirect_loop" => Some(Absence::RedirectLoop),
            "disallowed_hop" => Some(Absence::DisallowedHop),
            _ => None,
        }
    }
}

impl Absence {
    /// Tells whether another User-Agent might get another answer: 404 and 410 are about the file, other statuses may be
    /// about the crawler that asked.
    pub fn may_be_personal(self) -> bool {
        match self {
            Absence::Status(404 | 410) | Absence::Ftp(_) => false,
            Absence::Status(_)
            | Absence::NotFoundBehind(_)
            | Absence::TooManyRedirects
            | Absence::RedirectLoop
            | Absence::DisallowedHop => true,
        }
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Absence::Status(status) => write!(f, "it answered {status}"),
            Absence::Ftp(reply) => reply.fmt(f),
            Absence::NotFoundBehind(status) => {
                write!(f, "it answered {status} as it answers pages that do not exist")
            }
            Absence::TooManyRedirects => f.write_str("it redirected too often"),
            Absence::RedirectLoop => f.write_str("it redirected in a circle"),
            Absence::DisallowedHop => {
                f.write_str("it redirected to a URL that its own robots.txt disallows")
            }
        }
    }
}

#[cfg(test)]
mod tests;
