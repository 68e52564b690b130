//! What a fetch of robots.txt means: its *access result* (RFC 9309 section 2.3.1).
//!
//! Three results only. *Successful*: the body's rules hold. *Unavailable*: the origin has no
//! robots.txt, nothing is restricted. *Unreachable*: nobody knows, so everything is disallowed for now.
//! The classic bugs of this field live where these are mixed up, so the mapping stands here alone,
//! without IO.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::snapshot::Snapshot;

/// The outcome of one fetch, redirects followed.
#[derive(Debug, Clone)]
pub enum AccessResult {
    /// 2xx: the rules of the body (RFC 9309 2.3.1.1).
    Successful {
        /// The file as fetched.
        snapshot: Arc<Snapshot>,
        /// What its `Cache-Control` asks for.
        freshness: Freshness,
    },
    /// No robots.txt (RFC 9309 2.3.1.3).
    Unavailable {
        /// Why.
        why: Absence,
        /// What `Cache-Control` asks for.
        freshness: Freshness,
    },
    /// Nobody knows (RFC 9309 2.3.1.4).
    Unreachable {
        /// Why.
        cause: Cause,
        /// The origin's `Retry-After`, counted from the answer.
        retry_after: Option<Duration>,
    },
}

/// Why an origin counts as one without robots.txt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// A 4xx other than 429.
    Status(u16),
    /// A 5xx whose body says "page not found" (Google's 2019 and RFC 9309 editions).
    NotFoundBehind(u16),
    /// More hops than the limit (RFC 9309 2.3.1.2).
    TooManyRedirects,
    /// A redirect back to a URL already visited.
    RedirectLoop,
}

/// Why an origin's robots.txt could not be had.
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
    /// A `Content-Encoding` that is unknown or does not decode.
    Encoding,
    /// 1xx, 304 or a 3xx without a `Location` that can be followed.
    Redirect(u16),
    /// No connection can be made to such an origin: `ftp`, or a name that fits no request.
    Unaddressable,
    /// The origin lies behind a wall of [`crate::egress::walls`].
    Prohibited,
    /// It redirected to what lies behind one.
    ProhibitedHop,
    /// The fetch itself failed inside crawlgate; never the origin's doing.
    Internal,
}

/// What `Cache-Control` of an answer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Freshness {
    /// Nothing said.
    #[default]
    Unsaid,
    /// `max-age`.
    MaxAge(Duration),
    /// `no-store` or `no-cache`: as short as the operator's lower bound.
    Shortest,
}

/// What to do with an answer's status, before its body is read.
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
    /// Complete disallow, unless the body says "page not found".
    UnreachableUnlessNotFound,
    /// Not an answer to an unconditional GET.
    Nonsense,
}

/// Reads an answer's status code. `deny` lists the 4xx codes that the operator treats as unreachable.
pub fn read_status(status: u16, deny: &[u16], soft_404: bool) -> Reading {
    match status {
        // Part of a file, which nobody asked for: what it leaves out may be the rule that matters.
        206 => Reading::Unreachable,
        200..=299 => Reading::Body,
        301 | 302 | 303 | 307 | 308 => Reading::Follow,
        429 => Reading::Unreachable,
        400..=499 if deny.contains(&status) => Reading::Unreachable,
        400..=499 => Reading::Absent,
        500..=599 if soft_404 => Reading::UnreachableUnlessNotFound,
        500..=599 => Reading::Unreachable,
        _ => Reading::Nonsense,
    }
}

/// Whether the body of a 5xx says that the page does not exist, in its first 8 KiB.
pub fn says_not_found(body: &[u8]) -> bool {
    const PHRASES: [&[u8]; 4] = [
        b"page not found",
        b"page could not be found",
        b"404 not found",
        b"file not found",
    ];
    let head = body.get(..8192).unwrap_or(body).to_ascii_lowercase();
    PHRASES
        .iter()
        .any(|phrase| memchr::memmem::find(&head, phrase).is_some())
}

impl Freshness {
    /// Reads the values of all `Cache-Control` lines (RFC 9111 5.2.2). Of several `max-age`, the
    /// first counts; one that cannot be read counts as stale (RFC 9111 4.2.1).
    pub fn from_cache_control<'a>(values: impl Iterator<Item = &'a str>) -> Freshness {
        let mut freshness = Freshness::Unsaid;
        for directive in values.flat_map(|value| value.split(',')) {
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            let name = name.trim();
            if name.eq_ignore_ascii_case("no-store") || name.eq_ignore_ascii_case("no-cache") {
                return Freshness::Shortest;
            }
            if name.eq_ignore_ascii_case("max-age") && freshness == Freshness::Unsaid {
                let digits = value.trim().trim_matches('"');
                let seconds = match digits.parse::<u64>() {
                    Ok(seconds) => seconds,
                    Err(_) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                        u64::from(u32::MAX)
                    }
                    Err(_) => 0,
                };
                freshness =
                    Freshness::MaxAge(Duration::from_secs(seconds.min(u64::from(u32::MAX))));
            }
        }
        freshness
    }
}

impl AccessResult {
    /// The result's name in records.
    pub fn name(&self) -> &'static str {
        match self {
            AccessResult::Successful { .. } => "successful",
            AccessResult::Unavailable { .. } => "unavailable",
            AccessResult::Unreachable { .. } => "unreachable",
        }
    }
}

impl Absence {
    /// One stable word, for records and the store; [`Absence::from_code`] reads it.
    pub fn code(self) -> String {
        match self {
            Absence::Status(status) => format!("status_{status}"),
            Absence::NotFoundBehind(status) => format!("not_found_behind_{status}"),
            Absence::TooManyRedirects => "too_many_redirects".to_owned(),
            Absence::RedirectLoop => "redirect_loop".to_owned(),
        }
    }

    /// What [`Absence::code`] wrote.
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
            _ => None,
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
                    "it answered {status} with a page that says \"not found\""
                )
            }
            Absence::TooManyRedirects => f.write_str("it redirected too often"),
            Absence::RedirectLoop => f.write_str("it redirected in a circle"),
        }
    }
}

/// The number after `prefix`.
fn numbered(code: &str, prefix: &str) -> Option<u16> {
    code.strip_prefix(prefix)?.parse().ok()
}

impl Cause {
    /// One stable word, for records and the store; [`Cause::from_code`] reads it.
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
            Cause::Prohibited => "prohibited",
            Cause::ProhibitedHop => "prohibited_hop",
            Cause::Internal => "internal",
        };
        name.to_owned()
    }

    /// What [`Cause::code`] wrote.
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
            "prohibited" => Cause::Prohibited,
            "prohibited_hop" => Cause::ProhibitedHop,
            "internal" => Cause::Internal,
            _ => return None,
        })
    }

    /// Whether the origin's server answered at all, if not as it should.
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
            Cause::Protocol => f.write_str("the answer was not valid HTTP"),
            Cause::Encoding => f.write_str("the Content-Encoding could not be decoded"),
            Cause::Redirect(status) => write!(f, "it answered {status} without a usable Location"),
            Cause::Prohibited => f.write_str("it may not be reached from here ([egress] allow)"),
            Cause::ProhibitedHop => {
                f.write_str("it redirected to what may not be reached from here ([egress] allow)")
            }
            Cause::Unaddressable => f.write_str("no connection can be made to such an origin"),
            Cause::Internal => f.write_str("the fetch failed inside crawlgate"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_as_the_rules_say() {
        use Reading::*;
        for (status, deny, soft, expected, why) in [
            (200, &[][..], true, Body, "2xx: the body's rules"),
            (204, &[], true, Body, "2xx without a body: no rules"),
            (206, &[], true, Unreachable, "a part of the file"),
            (299, &[], true, Body, "any other 2xx"),
            (301, &[], true, Follow, "a redirect"),
            (308, &[], true, Follow, "a permanent redirect"),
            (304, &[], true, Nonsense, "304 to an unconditional GET"),
            (300, &[], true, Nonsense, "300 is no redirect to follow"),
            (404, &[], true, Absent, "no file"),
            (401, &[], true, Absent, "google: 401 as any 4xx"),
            (403, &[], true, Absent, "google: 403 as any 4xx"),
            (
                403,
                &[401, 403],
                true,
                Unreachable,
                "the operator denies on 403",
            ),
            (
                429,
                &[],
                true,
                Unreachable,
                "too many requests is an outage",
            ),
            (
                500,
                &[],
                true,
                UnreachableUnlessNotFound,
                "5xx, soft 404 looked for",
            ),
            (503, &[], false, Unreachable, "5xx, soft 404 switched off"),
            (101, &[], true, Nonsense, "1xx is not an answer"),
            (600, &[], true, Nonsense, "not a status of HTTP"),
        ] {
            assert_eq!(read_status(status, deny, soft), expected, "{status}: {why}");
        }
    }

    #[test]
    fn cache_control_is_read() {
        use Freshness::*;
        let secs = |s| MaxAge(Duration::from_secs(s));
        for (values, expected) in [
            (&[][..], Unsaid),
            (&["public"], Unsaid),
            (&["max-age=60"], secs(60)),
            (&["public, Max-Age = 60"], secs(60)),
            (&["max-age=\"60\""], secs(60)),
            (&["max-age=60", "max-age=90"], secs(60)),
            (&["max-age=x"], secs(0)),
            (
                &["max-age=99999999999999999999999"],
                secs(u64::from(u32::MAX)),
            ),
            (&["max-age=60", "no-store"], Shortest),
            (&["NO-CACHE"], Shortest),
        ] {
            let read = Freshness::from_cache_control(values.iter().copied());
            assert_eq!(read, expected, "{values:?}");
        }
    }

    #[test]
    fn codes_are_read_back() {
        let causes = [
            Cause::Status(503),
            Cause::Redirect(304),
            Cause::Dns,
            Cause::Connect,
            Cause::Certificate,
            Cause::Tls,
            Cause::Timeout,
            Cause::Incomplete,
            Cause::Protocol,
            Cause::Encoding,
            Cause::Unaddressable,
            Cause::Prohibited,
            Cause::ProhibitedHop,
            Cause::Internal,
        ];
        for cause in causes {
            assert_eq!(Cause::from_code(&cause.code()), Some(cause));
        }
        let absences = [
            Absence::Status(404),
            Absence::NotFoundBehind(500),
            Absence::TooManyRedirects,
            Absence::RedirectLoop,
        ];
        for absence in absences {
            assert_eq!(Absence::from_code(&absence.code()), Some(absence));
        }
        for wrong in ["", "status_", "status_x", "status_99999", "DNS"] {
            assert_eq!(Cause::from_code(wrong), None, "{wrong:?}");
            assert_eq!(Absence::from_code(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_soft_404_is_recognised() {
        assert!(says_not_found(b"<h1>Page Not Found</h1>"));
        assert!(!says_not_found(b"User-agent: *\nDisallow: /"));
        let late = [vec![b' '; 9000], b"page not found".to_vec()].concat();
        assert!(!says_not_found(&late));
    }
}
