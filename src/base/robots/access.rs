//! The meaning of a robots.txt fetch: its *access result* (RFC 9309 section 2.3.1).
//!
//! There are three results. *Successful*: the body's rules hold. *Unavailable*: the origin has no robots.txt, nothing
//! is restricted. *Unreachable*: the rules are unknown, so everything is disallowed for now. Mixing these up is the
//! classic bug of this field, so the mapping has a module of its own, without IO.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::snapshot::Snapshot;
use crate::clock::Moment;

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
            AccessResult::Unavailable {
                why: Absence::DisallowedHop,
                ..
            } => Cause::DisallowedHop,
            AccessResult::Unavailable {
                why: Absence::NotFoundBehind(status),
                ..
            } => Cause::Status(status),
            result => return result,
        };
        AccessResult::Unreachable {
            cause,
            retry_after: None,
        }
    }

    /// Tells whether the failure is this machine's alone: the origin was not asked.
    pub fn is_of_this_machine(&self) -> bool {
        matches!(
            self,
            AccessResult::Unreachable {
                cause: Cause::Exhausted,
                ..
            }
        )
    }
}

/// The reason that an origin counts as one without robots.txt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// A 4xx other than 429.
    Status(u16),
    /// A 5xx of a site that answers missing pages with it (Google's 2019 and RFC 9309 editions).
    NotFoundBehind(u16),
    /// More hops than the limit (RFC 9309 2.3.1.2).
    TooManyRedirects,
    /// A redirect back to a URL already visited.
    RedirectLoop,
    /// A redirect to a URL that the rules of its own origin disallow to this crawler (Google's RFC 9309 edition).
    DisallowedHop,
}

/// The verdict of another origin's rules on a redirect to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop {
    /// They allow it.
    Allowed,
    /// They disallow it.
    Disallowed,
    /// The redirect is not followed, and this is the cause that the redirecting origin's robots.txt is unreachable.
    Refused(Cause),
}

/// The cause that an origin's robots.txt is unreachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// 429, 5xx, 206, or a 4xx that the operator chose to deny on.
    Status(u16),
    /// The name did not resolve.
    Dns,
    /// No connection: refused, unreachable network, reset while connecting.
    Connect,
    /// The certificate did not verify.
    Certificate,
    /// TLS failed otherwise.
    Tls,
    /// The deadline for connect, first byte or the whole fetch passed.
    Timeout,
    /// The connection broke before the answer was whole.
    Incomplete,
    /// Not HTTP, bad chunking, a false Content-Length.
    Protocol,
    /// A `Content-Encoding` that is unknown or does not decode, or a transfer coding other than `chunked`.
    Encoding,
    /// A 3xx without a `Location` that can be followed, or a status that answers no unconditional GET: 1xx, 304, 600.
    Redirect(u16),
    /// No connection can be made to such an origin: its name fits no request, or `[upstream] ftp` is false.
    Unaddressable,
    /// An upstream proxy of the operator could not be reached, or did not let us through: the origin was not asked.
    UpstreamProxy,
    /// The [address policy](crate::policy::address_policy) prohibits the origin.
    Prohibited,
    /// It redirected to a prohibited address.
    ProhibitedHop,
    /// It redirected to a URL that its own origin disallows, which does not replace a stored copy of its file.
    DisallowedHop,
    /// It redirected to a URL of another origin with unknown rules.
    UnjudgedHop,
    /// It redirected to a URL that an override of the operator denies.
    DeniedHop,
    /// It redirected to a URL of another origin, and the rules there are behind a longer chain of redirects than is
    /// followed.
    HopChain,
    /// This machine had no descriptor left for the fetch, or too many fetches wait here. It says nothing about the origin,
    /// and changes no state.
    Exhausted,
    /// The fetch itself failed inside crawlgate; never the origin's doing.
    Internal,
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
        Err(_) => page
            .iter()
            .map(|octet| char::from(*octet))
            .collect::<String>()
            .to_lowercase(),
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
            Absence::Status(404 | 410) => false,
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
            Absence::NotFoundBehind(status) => {
                write!(
                    f,
                    "it answered {status} as it answers pages that do not exist"
                )
            }
            Absence::TooManyRedirects => f.write_str("it redirected too often"),
            Absence::RedirectLoop => f.write_str("it redirected in a circle"),
            Absence::DisallowedHop => {
                f.write_str("it redirected to a URL that its own robots.txt disallows")
            }
        }
    }
}

/// Returns the number after `prefix`.
fn numbered(code: &str, prefix: &str) -> Option<u16> {
    code.strip_prefix(prefix)?.parse().ok()
}

impl Cause {
    /// Returns one stable word, for records and the store; [`Cause::from_code`] reads it.
    pub fn code(self) -> String {
        let name = match self {
            Cause::Status(status) => return format!("status_{status}"),
            Cause::Redirect(status) => return format!("redirect_{status}"),
            Cause::Dns => "dns",
            Cause::Connect => "connect",
            Cause::Certificate => "certificate",
            Cause::Tls => "tls",
            Cause::Timeout => "timeout",
            Cause::Incomplete => "incomplete",
            Cause::Protocol => "protocol",
            Cause::Encoding => "encoding",
            Cause::Unaddressable => "unaddressable",
            Cause::UpstreamProxy => "upstream_proxy",
            Cause::Prohibited => "prohibited",
            Cause::ProhibitedHop => "prohibited_hop",
            Cause::DisallowedHop => "disallowed_hop",
            Cause::UnjudgedHop => "unjudged_hop",
            Cause::DeniedHop => "denied_hop",
            Cause::HopChain => "hop_chain",
            Cause::Exhausted => "exhausted",
            Cause::Internal => "internal",
        };
        name.to_owned()
    }

    /// Reads the word that [`Cause::code`] wrote.
    pub fn from_code(code: &str) -> Option<Cause> {
        if let Some(status) = numbered(code, "status_") {
            return Some(Cause::Status(status));
        }
        if let Some(status) = numbered(code, "redirect_") {
            return Some(Cause::Redirect(status));
        }
        Some(match code {
            "dns" => Cause::Dns,
            "connect" => Cause::Connect,
            "certificate" => Cause::Certificate,
            "tls" => Cause::Tls,
            "timeout" => Cause::Timeout,
            "incomplete" => Cause::Incomplete,
            "protocol" => Cause::Protocol,
            "encoding" => Cause::Encoding,
            "unaddressable" => Cause::Unaddressable,
            "upstream_proxy" => Cause::UpstreamProxy,
            "prohibited" => Cause::Prohibited,
            "prohibited_hop" => Cause::ProhibitedHop,
            "disallowed_hop" => Cause::DisallowedHop,
            "unjudged_hop" => Cause::UnjudgedHop,
            "denied_hop" => Cause::DeniedHop,
            "hop_chain" => Cause::HopChain,
            "exhausted" => Cause::Exhausted,
            "internal" => Cause::Internal,
            _ => return None,
        })
    }

    /// Tells whether the failure is on the way to the origin: nothing shows that a server was reached.
    pub fn is_network(self) -> bool {
        matches!(
            self,
            Cause::Dns
                | Cause::Connect
                | Cause::Certificate
                | Cause::Tls
                | Cause::Timeout
                | Cause::Incomplete
        )
    }

    /// Tells whether the origin was asked: an earlier failure is never its outage.
    pub fn tells_of_origin(self) -> bool {
        !matches!(
            self,
            Cause::Unaddressable | Cause::UpstreamProxy | Cause::Prohibited | Cause::Internal
        )
    }

    /// Tells whether the origin's own answer, or its network, is the cause: not crawlgate or its operator, nor the rules of
    /// the origin that it redirected to.
    pub fn is_of_the_document(self) -> bool {
        let is_of_a_hop = matches!(
            self,
            Cause::ProhibitedHop
                | Cause::UnjudgedHop
                | Cause::DeniedHop
                | Cause::DisallowedHop
                | Cause::HopChain
        );
        self.tells_of_origin() && !is_of_a_hop && self != Cause::Exhausted
    }

    /// Tells whether the origin's server answered at all, even if badly.
    pub fn is_answer(self) -> bool {
        matches!(
            self,
            Cause::Status(_) | Cause::Redirect(_) | Cause::Encoding
        )
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Status(status) => write!(f, "it answered {status}"),
            Cause::Dns => f.write_str("its name did not resolve"),
            Cause::Connect => f.write_str("no connection could be made"),
            Cause::Certificate => f.write_str(
                "its certificate could not be verified ([tls] extra_roots can name more CAs)",
            ),
            Cause::Tls => f.write_str("TLS failed"),
            Cause::Timeout => f.write_str("it did not answer in time"),
            Cause::Incomplete => f.write_str("the connection broke before the answer was whole"),
            Cause::Protocol => f.write_str("the answer was not valid HTTP or FTP"),
            Cause::Encoding => {
                f.write_str("its Content-Encoding or Transfer-Encoding could not be decoded")
            }
            Cause::Redirect(status @ (300..=303 | 307 | 308)) => {
                write!(f, "it answered {status} without a usable Location")
            }
            Cause::Redirect(status @ 100..=599) => {
                write!(f, "it answered {status}, which answers no plain GET")
            }
            Cause::Redirect(status) => {
                write!(f, "it answered {status}, which is no status of HTTP")
            }
            Cause::UpstreamProxy => f.write_str(
                "the proxy on the way to it ([[upstream.proxy]]) could not be reached, or did not let crawlgate through",
            ),
            Cause::Prohibited => f.write_str("it may not be reached from here ([egress] allow)"),
            Cause::ProhibitedHop => {
                f.write_str("it redirected to what may not be reached from here ([egress] allow)")
            }
            Cause::DisallowedHop => {
                f.write_str("it redirected to a URL that its own robots.txt disallows")
            }
            Cause::UnjudgedHop => f.write_str(
                "it redirected to another site, and the rules there could not be fetched in time or do not settle the redirect",
            ),
            Cause::DeniedHop => f.write_str("it redirected to a URL that an override denies"),
            Cause::HopChain => f.write_str(
                "it redirected to another site, and the rules there are behind a longer chain of redirects than is followed",
            ),
            Cause::Unaddressable => f.write_str("no connection can be made to such an origin"),
            Cause::Exhausted => f.write_str("crawlgate has no room for the fetch"),
            Cause::Internal => f.write_str("the fetch failed inside crawlgate"),
        }
    }
}

#[cfg(test)]
mod tests;
