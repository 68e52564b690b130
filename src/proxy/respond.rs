//! Every answer that crawlgate makes itself, from a typed refusal (RFC 9110 15, 9209, 9457).
//!
//! Each carries `Proxy-Status` and says in one sentence what to do, as a problem document or, if the client asks for
//! it, as text. So a crawler can tell our 403 from the origin's.

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, PROXY_AUTHENTICATE, RETRY_AFTER,
};
use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::framing::Violation;
use super::recorder::ExchangeRecorder;
use super::target::Unreadable;
use crate::clock::Moment;
use crate::egress::{Failure, Prohibited};
use crate::pace::{EffectivePace, Source};
use crate::policy::{Decision, Reason};
use crate::rep::{Origin, Rule};
use crate::robots::state::State;
use crate::text::hex;
use crate::text::json::Object;

/// Octets of one text in an answer.
const MOST: usize = 16_384;

/// Challenge of a 407 (RFC 7617).
const CHALLENGE: &str = "Basic realm=\"crawlgate\", charset=\"UTF-8\"";

/// Our name in `Proxy-Status`.
pub(super) const NAME: &str = "crawlgate";

pub(super) const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// Reason that crawlgate answers itself.
#[derive(Debug, Clone)]
pub enum Refusal {
    /// The decision was not to forward.
    Decided,
    /// The request cannot be read, or has a form that is refused.
    Form(Violation),
    /// The target cannot be judged.
    Target(Unreadable),
    /// The request has two User-Agent fields where one must fit.
    Agents,
    /// TRACE would show the crawler the fields that we add.
    Trace,
    /// The request has already passed this proxy.
    Loop,
    /// The request was forwarded and no answer came.
    Upstream(Failure),
    /// The origin switched protocols otherwise than we had traits.
    Upgrade,
}

/// Facts about a request that shape its answer.
#[derive(Debug, Clone, Copy)]
pub struct RequestTraits {
    /// True if the request's method was HEAD: the answer has no body.
    pub is_head: bool,
    /// True if nothing more can be read on the connection: after a CONNECT or an unread body.
    pub ends_connection: bool,
    /// True if the client prefers text.
    pub wants_text: bool,
    /// The status while a robots.txt is unreachable.
    pub unreachable_status: u16,
    /// The reader of the answer.
    pub audience: Audience,
}

/// Reader of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// The crawler that sent the request.
    Crawler,
    /// Another proxy that asked for a decision: it gets all that the decision rests on.
    Requester,
    /// Another proxy that knows no refusal but 403 (nginx's auth_request).
    Subrequest,
}

/// Facts of a decision in an answer, in members that never change their names.
pub struct Facts<'a> {
    decision: &'a Decision,
    id: String,
    rule: Option<&'a Rule>,
    asserted: Option<String>,
    robots_url: Option<String>,
}

impl<'a> Facts<'a> {
    /// Collects the facts of this decision; `decided` unless the answer is about the request's form or its way.
    pub fn of(recorder: &'a ExchangeRecorder, decided: bool) -> Facts<'a> {
        let decision = &recorder.decision;
        let asked_robots = !matches!(
            decision.reason,
            Reason::OperatorAllow | Reason::OperatorDeny | Reason::AddressProhibited
        );
        let origin = recorder.origin.as_ref();
        Facts {
            decision,
            id: recorder.id.to_string(),
            rule: decision.rule.as_ref().filter(|_| decided),
            asserted: decision
                .asserted
                .as_ref()
                .filter(|_| decided)
                .map(|asserted| asserted.id.to_string()),
            robots_url: origin
                .filter(|_| decided && asked_robots)
                .map(Origin::robots_url),
        }
    }

    /// Writes the facts as members of a JSON object.
    pub fn write(&self, object: &mut Object<'_>, audience: Audience) {
        let decision = self.decision;
        if audience != Audience::Crawler {
            object.plain("verdict", decision.verdict().as_str().as_bytes());
            object.plain("mode", decision.mode.as_str().as_bytes());
        }
        object.plain("reason", decision.reason.as_str().as_bytes());
        let reading = decision.reading.as_deref().map(str::as_bytes);
        object.text_or_null("rule", self.rule.map(|rule| rule.text.as_bytes()), MOST);
        object.number_or_null("line", self.rule.map(|rule| u64::from(rule.line)));
        object.text_or_null("group", self.rule.map(|rule| rule.group.as_bytes()), MOST);
        if let Some(reading) = reading {
            object.text("reading", reading, MOST);
        }
        object.text_or_null(
            "override",
            self.asserted.as_deref().map(str::as_bytes),
            MOST,
        );
        object.text_or_null(
            "robots_url",
            self.robots_url.as_deref().map(str::as_bytes),
            MOST,
        );
        if audience != Audience::Crawler {
            let snapshot = decision.basis.as_deref().and_then(State::snapshot);
            let digest = snapshot.map(|snapshot| hex(snapshot.sha256));
            object.text_or_null("sha256", digest.as_deref().map(str::as_bytes), MOST);
            let age = snapshot.map(|snapshot| decision.at.since(snapshot.fetched).as_secs());
            object.number_or_null("age_s", age);
        }
        object.plain("id", self.id.as_bytes());
    }

    /// Writes the facts as lines.
    fn write_lines(&self, text: &mut String) {
        let _ = writeln!(text, "reason: {}", self.decision.reason.as_str());
        if let Some(rule) = self.rule {
            let _ = writeln!(
                text,
                "rule: {} (line {}, group {})",
                rule.text, rule.line, rule.group
            );
        }
        if let Some(reading) = &self.decision.reading {
            let _ = writeln!(text, "read as: {reading}");
        }
        if let Some(id) = &self.asserted {
            let _ = writeln!(text, "override: {id}");
        }
        if let Some(url) = &self.robots_url {
            let _ = writeln!(text, "robots.txt: {url}");
        }
        let _ = writeln!(text, "decision: {}", self.id);
    }
}

/// Tells whether a client asks for text: it names a text type and no JSON.
pub fn wants_text(accept: &[HeaderValue]) -> bool {
    let mut text = false;
    for value in accept {
        let value = value.as_bytes().to_ascii_lowercase();
        if memchr::memmem::find(&value, b"json").is_some() {
            return false;
        }
        text |= memchr::memmem::find(&value, b"text/").is_some();
    }
    text
}

/// Builds the answer, and enters it in the recorder.
pub fn refuse(
    refusal: &Refusal,
    recorder: &mut ExchangeRecorder,
    traits: RequestTraits,
    now: Moment,
) -> Response<Bytes> {
    let Problem {
        status,
        error,
        title,
        detail,
        retry_after,
        close,
    } = tell(refusal, recorder, traits, now);
    let status = match traits.audience {
        Audience::Subrequest => StatusCode::FORBIDDEN,
        Audience::Crawler | Audience::Requester => status,
    };
    let reason = recorder.decision.reason.as_str();
    // Without a decision, the answer is about the request or the way, not about a robots.txt.
    let facts = Facts::of(recorder, matches!(refusal, Refusal::Decided));
    let (content_type, body) = if traits.wants_text {
        let mut text = format!("{} {title}\n\n{detail}\n\n", status.as_u16());
        facts.write_lines(&mut text);
        ("text/plain; charset=utf-8", text.into_bytes())
    } else {
        let kind = match refusal {
            Refusal::Decided => reason,
            _ => error,
        };
        let mut body = Vec::with_capacity(512);
        let mut problem = Object::open(&mut body);
        let kind = ["urn:crawlgate:problem:", kind].concat();
        problem.plain("type", kind.as_bytes());
        problem.text("title", title.as_bytes(), MOST);
        problem.number("status", u64::from(status.as_u16()));
        problem.text("detail", detail.as_bytes(), MOST);
        facts.write(&mut problem, traits.audience);
        problem.close();
        body.push(b'\n');
        ("application/problem+json", body)
    };
    recorder.response_started(status.as_u16(), Some(error));
    let length = body.len();
    let body = if traits.is_head {
        Bytes::new()
    } else {
        body.into()
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if traits.is_head {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(value) = HeaderValue::from_str(&proxy_status(error, reason)) {
        headers.insert(PROXY_STATUS, value);
    }
    if let Some(after) = retry_after {
        // Rounded up, so that a crawler that waits so long is not early.
        let seconds = after.as_millis().div_ceil(1000).max(1) as u64;
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        headers.insert(PROXY_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(
            ALLOW,
            HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, CONNECT"),
        );
    }
    if close || traits.ends_connection {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Returns the member of an answer's Proxy-Status (RFC 9209 2).
fn proxy_status(error: &str, reason: &str) -> String {
    format!("{NAME}; error={error}; details=\"{reason}\"")
}

struct Problem {
    status: StatusCode,
    error: &'static str,
    title: &'static str,
    detail: String,
    retry_after: Option<Duration>,
    close: bool,
}

impl Problem {
    /// Returns the problem of a reason, with a detail of its own.
    fn of(reason: Reason, detail: String) -> Problem {
        let answer = &reason.info().answer;
        Problem {
            status: answer.status,
            error: answer.error_type,
            title: answer.title,
            detail,
            retry_after: None,
            close: false,
        }
    }
}

fn tell(
    refusal: &Refusal,
    recorder: &ExchangeRecorder,
    traits: RequestTraits,
    now: Moment,
) -> Problem {
    let origin = recorder
        .origin
        .as_ref()
        .map_or("the origin", Origin::as_str);
    let bad_request = |detail: &str| Problem::of(Reason::BadRequest, detail.to_owned());
    let bad_gateway = |error, title, detail| Problem {
        status: StatusCode::BAD_GATEWAY,
        error,
        title,
        detail,
        retry_after: None,
        close: false,
    };
    match refusal {
        Refusal::Decided => decided(&recorder.decision, recorder.pace, origin, traits, now),
        Refusal::Form(violation) => {
            let (status, detail) = form(*violation);
            Problem {
                status,
                close: true,
                ..bad_request(detail)
            }
        }
        Refusal::Target(Unreadable::Misdirected { expected, found }) => Problem::of(
            Reason::Misdirected,
            format!(
                "This connection is for {expected}, but {found} was named; open a connection for each origin."
            ),
        ),
        Refusal::Target(unreadable) => {
            let (status, detail) = match unreadable {
                Unreadable::NotAbsolute => (
                    StatusCode::BAD_REQUEST,
                    "This is a proxy: send requests in absolute-form, as clients do once http_proxy and https_proxy name it.",
                ),
                Unreadable::Scheme => (
                    StatusCode::NOT_IMPLEMENTED,
                    "Only http and https URLs are forwarded.",
                ),
                _ => form(Violation::Target),
            };
            Problem {
                status,
                close: true,
                ..bad_request(detail)
            }
        }
        Refusal::Agents => bad_request(
            "Send one User-Agent field: the operator lets out only what names the product token that it is judged as.",
        ),
        Refusal::Trace => Problem {
            status: StatusCode::METHOD_NOT_ALLOWED,
            title: "TRACE is not forwarded",
            ..bad_request(
                "Use another method: TRACE would return fields that are not the crawler's.",
            )
        },
        Refusal::Loop => bad_gateway(
            "proxy_loop_detected",
            "The request came back to this proxy",
            format!("{origin} leads back to this proxy; check the URL and the proxies on the way."),
        ),
        Refusal::Upstream(failure) => Problem {
            status: match failure {
                _ if failure.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
                Failure::RequestStalled => StatusCode::REQUEST_TIMEOUT,
                Failure::RequestBody => StatusCode::BAD_REQUEST,
                _ => StatusCode::BAD_GATEWAY,
            },
            close: matches!(failure, Failure::RequestBody | Failure::RequestStalled),
            ..bad_gateway(
                failure.error_type(),
                "The origin did not answer",
                format!("No answer from {origin}: {}.", failure.sentence()),
            )
        },
        Refusal::Upgrade => bad_gateway(
            "http_upgrade_failed",
            "The origin switched to a protocol that was not asked for",
            format!("{origin} answered 101 without need; ask without Upgrade."),
        ),
    }
}

/// Returns the problem of a decision: the answer of its reason, except where a setting or the decision changes it.
fn decided(
    decision: &Decision,
    pace: Option<EffectivePace>,
    origin: &str,
    traits: RequestTraits,
    now: Moment,
) -> Problem {
    let reason = decision.reason;
    let detail = detail(decision, pace, origin)
        .unwrap_or_else(|| reason.info().answer.detail.replace("{origin}", origin));
    let problem = Problem {
        retry_after: decision.retry_at.map(|at| at.since(now)),
        ..Problem::of(reason, detail)
    };
    match reason {
        Reason::RobotsUnreachable => Problem {
            status: StatusCode::from_u16(traits.unreachable_status).unwrap_or(problem.status),
            ..problem
        },
        Reason::AddressProhibited => Problem {
            error: decision.prohibited.map_or(problem.error, Prohibited::error_type),
            ..problem
        },
        Reason::Unauthenticated if decision.retry_at.is_some() => Problem {
            status: StatusCode::TOO_MANY_REQUESTS,
            title: "Too many wrong passwords",
            detail: "Too many credentials that came from your address were wrong; send the request again later, with the right ones.".to_owned(),
            ..problem
        },
        _ => problem,
    }
}

/// Returns the detail of a decision that tells more than its reason.
fn detail(decision: &Decision, pace: Option<EffectivePace>, origin: &str) -> Option<String> {
    Some(match decision.reason {
        Reason::RobotsUnreachable => format!(
            "The robots.txt of {origin} cannot be had ({}), so nothing may be crawled there for now; try again later.",
            decision.cause()?,
        ),
        Reason::Paced => format!(
            "{}; send the request again later.",
            paced(origin, pace?.source)?
        ),
        Reason::OperatorDeny => {
            // The name of the person behind the override is for the log only.
            let asserted = decision.asserted.as_ref()?;
            format!(
                "Override {} denies this URL to crawlers that use this proxy ({}); do not request it.",
                asserted.id, asserted.reason
            )
        }
        Reason::PathGuard => format!(
            "{origin} may read this path as {}, which its robots.txt disallows; write the path without escaped or doubled slashes, dot segments and parameters.",
            decision.reading.as_ref()?,
        ),
        Reason::AddressProhibited => format!("{origin} {}.", decision.prohibited?),
        _ => return None,
    })
}

/// Returns the limit that made a request wait for too long, as the beginning of a sentence; `None` if it is the
/// configured pace.
fn paced(origin: &str, source: Source) -> Option<String> {
    Some(match source {
        Source::Own => return None,
        Source::CrawlDelay | Source::RequestRate => {
            format!("The robots.txt of {origin} asks for more time between requests")
        }
        Source::Backoff => {
            format!("{origin} wants to be asked less often, is slow or cannot be reached")
        }
        Source::Concurrency => {
            format!("{origin} has its maximum of requests under way ([pace] concurrency)")
        }
        Source::Address => format!(
            "Requests to {origin} and others at its address exceed their pace ([pace] per_address)"
        ),
        Source::MaxHeld => {
            format!("Too many requests wait for {origin} or for others ([pace] max_held)")
        }
    })
}

fn form(violation: Violation) -> (StatusCode, &'static str) {
    let detail = match violation {
        Violation::Syntax => "The request line or a header field is malformed.",
        Violation::Target => {
            "The request target cannot be read as a URL; check its host, port and path."
        }
        Violation::BareLineFeed => "Every line of a request must end in CR LF.",
        Violation::ContentLength => {
            "Content-Length must be one number, without Transfer-Encoding beside it."
        }
        Violation::TransferEncoding => "Transfer-Encoding must be one \"chunked\", in HTTP/1.1.",
        Violation::Host => "A request must carry exactly one Host field.",
        Violation::ConnectBody => "CONNECT takes no body.",
        Violation::Version => "Only HTTP/1.1 and HTTP/1.0 are spoken here.",
        Violation::HeadTooLarge => {
            "The header fields are too large; the bound is [limits] header_bytes."
        }
        Violation::TooManyFields => {
            "There are too many header fields; the bound is [limits] header_fields."
        }
        Violation::TargetTooLong => "The URL is too long; the bound is [limits] uri_bytes.",
        Violation::Slow => {
            "The request's header took too long; the bound is [limits] header_timeout."
        }
    };
    let status = match violation {
        Violation::HeadTooLarge | Violation::TooManyFields => {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
        }
        Violation::TargetTooLong => StatusCode::URI_TOO_LONG,
        Violation::Slow => StatusCode::REQUEST_TIMEOUT,
        Violation::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
        _ => StatusCode::BAD_REQUEST,
    };
    (status, detail)
}
