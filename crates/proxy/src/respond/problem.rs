//! The status, the error and the words of each refusal.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;

use super::{Refusal, Unforwardable};
use crate::framing::Violation;
use crate::recorder::Recorder;
use crate::target::Unreadable;
use crawlgate_egress::{Failure, Prohibited};
use crawlgate_ftp as ftp;
use crawlgate_origins::access::Cause;
use crawlgate_policy::{Decision, Reason};
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;
use crawlgate_turns::pace::{EffectivePace, Source};

pub(super) struct Problem {
    pub(super) status: StatusCode,
    /// The error type of Proxy-Status; `None` if no registered type is true of it.
    pub(super) error: Option<&'static str>,
    pub(super) title: &'static str,
    pub(super) detail: String,
    /// True if the detail tells what the reason and the rest of the record do not.
    pub(super) is_telling: bool,
    pub(super) retry_after: Option<Duration>,
    pub(super) close: bool,
}

impl Problem {
    /// Returns the problem of a reason, with this detail.
    fn of(reason: Reason, detail: String) -> Problem {
        let answer = &reason.info().answer;
        Problem {
            status: answer.status,
            error: answer.error_type,
            title: answer.title,
            detail,
            is_telling: true,
            retry_after: None,
            close: false,
        }
    }
}

/// Returns the problem of a refusal.
pub(super) fn tell(refusal: &Refusal, recorder: &Recorder, now: Moment) -> Problem {
    let origin = recorder.origin().map_or("the origin", Origin::as_str);
    match refusal {
        Refusal::Decided => decided(recorder, origin, now),
        Refusal::Form(violation) => {
            let (status, detail) = form(*violation);
            Problem { status, close: true, ..bad_request(&detail) }
        }
        Refusal::Target(unreadable) => unreadable_target(unreadable),
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
        Refusal::Ftp(Unforwardable::Method) => Problem {
            status: StatusCode::METHOD_NOT_ALLOWED,
            title: "ftp URLs are only read",
            ..bad_request("Use GET or HEAD: crawlgate writes nothing to an FTP server.")
        },
        Refusal::Ftp(Unforwardable::Body) => {
            bad_request("Send no body with a request for an ftp URL: FTP takes none.")
        }
        Refusal::Loop => bad_gateway(
            "proxy_loop_detected",
            "The request came back to this proxy",
            format!("{origin} leads back to this proxy; check the URL and the proxies on the way."),
        ),
        Refusal::Upstream(failure) => unanswered(failure, origin),
        Refusal::Handshake => bad_gateway(
            "http_upgrade_failed",
            "The origin did not answer the handshake of the WebSocket",
            format!(
                "{origin} answered otherwise than RFC 6455 asks for; it may serve no WebSocket there."
            ),
        ),
        Refusal::Upgrade => bad_gateway(
            "http_upgrade_failed",
            "The origin switched to a protocol that was not asked for",
            format!("{origin} answered 101 without need; ask without Upgrade."),
        ),
    }
}

fn bad_request(detail: &str) -> Problem {
    Problem::of(Reason::BadRequest, detail.to_owned())
}

fn bad_gateway(error: &'static str, title: &'static str, detail: String) -> Problem {
    Problem {
        status: StatusCode::BAD_GATEWAY,
        error: Some(error),
        title,
        detail,
        is_telling: true,
        retry_after: None,
        close: false,
    }
}

/// Returns the problem of a target that cannot be judged.
fn unreadable_target(unreadable: &Unreadable) -> Problem {
    let (status, detail) = match unreadable {
        Unreadable::Misdirected {
            expected, found, ..
        } => {
            return Problem::of(
                Reason::Misdirected,
                format!(
                    "This connection is for {expected}, but {found} was named; open a connection for each origin."
                ),
            );
        }
        Unreadable::NotAbsolute => (
            StatusCode::BAD_REQUEST,
            "This is a proxy: send requests in absolute-form, as clients do once http_proxy and https_proxy name it."
                .into(),
        ),
        Unreadable::Scheme => (
            StatusCode::NOT_IMPLEMENTED,
            "Only http and https URLs are forwarded, and ftp URLs with [upstream] ftp = true."
                .into(),
        ),
        Unreadable::Userinfo => (StatusCode::BAD_REQUEST, ftp::NO_USER.into()),
        Unreadable::FtpPath(error) => (StatusCode::BAD_REQUEST, error.advice().into()),
        Unreadable::FtpSpelling(url) => {
            let detail = format!("The path of an ftp URL has one spelling; ask for {url}");
            return Problem {
                close: true,
                ..bad_request(&detail)
            };
        }
        _ => form(Violation::Target),
    };
    Problem { status, close: true, ..bad_request(&detail) }
}

/// Returns the problem of a request that was forwarded and got no answer.
fn unanswered(failure: &Failure, origin: &str) -> Problem {
    let sentence = failure.sentence();
    let is_of_the_crawler = matches!(failure, Failure::RequestBody | Failure::RequestStalled);
    let (title, detail) = if is_of_the_crawler {
        (
            "The request did not come whole",
            format!("The request to {origin} was given up: {sentence}."),
        )
    } else {
        ("The origin did not answer", format!("No answer from {origin}: {sentence}."))
    };
    Problem {
        status: match failure {
            _ if failure.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
            Failure::RequestStalled => StatusCode::REQUEST_TIMEOUT,
            Failure::RequestBody => StatusCode::BAD_REQUEST,
            _ => StatusCode::BAD_GATEWAY,
        },
        close: is_of_the_crawler || *failure == Failure::LoginLost,
        ..bad_gateway(failure.error_type(), title, detail)
    }
}

/// Returns the problem of a decision: the answer of its reason, except where a setting or the decision changes it.
fn decided(recorder: &Recorder, origin: &str, now: Moment) -> Problem {
    let (decision, pace) = (recorder.decision(), recorder.pace());
    let unreachable_status = recorder.settings().robots.unreachable_status;
    let reason = decision.reason;
    let detail = detail(decision, pace, origin)
        .unwrap_or_else(|| reason.info().answer.detail.replace("{origin}", origin));
    let problem = Problem {
        // Of the other reasons, the record has the cause, the pace, the override or the reading.
        is_telling: reason == Reason::AddressProhibited,
        retry_after: decision.retry_at.map(|at| at.since(now)),
        ..Problem::of(reason, detail)
    };
    match reason {
        Reason::RobotsUnreachable => {
            let (status, error) = match decision.cause().map(Cause::answer) {
                Some((status, error)) => (status, Some(error)),
                None => (problem.status, problem.error),
            };
                Problem {
                status: unreachable_status
                    .and_then(|status| StatusCode::from_u16(status).ok())
                    .unwrap_or(status),
                error,
                ..problem
            }
        }
        Reason::AddressProhibited => Problem {
            error: decision.prohibited.map(Prohibited::error_type).or(problem.error),
            ..problem
        },
        Reason::Unauthenticated if decision.retry_at.is_some() => Problem {
            status: StatusCode::TOO_MANY_REQUESTS,
            title: "Too many wrong passwords",
            is_telling: true,
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
        Reason::UsageDisallow => format!(
            "The robots.txt of {origin} disallows this use ({}) for this crawler; do not request it for that purpose.",
            decision.usage.as_deref()?.judged.refused
        ),
        Reason::UsageWithheld => {
            let refused = decision.usage.as_deref()?.judged.refused;
            if refused.is_empty() {
                format!(
                    "{origin} sent this page and names a licence for it that the operator of this proxy does not list; its content is withheld."
                )
            } else {
                format!(
                    "{origin} sent this page and disallows this use of it ({refused}); its content is withheld."
                )
            }
        }
        Reason::Paced => format!("{}; send the request again later.", paced(origin, pace?.source)?),
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

fn form(violation: Violation) -> (StatusCode, Cow<'static, str>) {
    let detail = match violation {
        Violation::TargetOctet(octet) => {
            let detail = format!(
                "The request target has the octet 0x{octet:02X}, which no URL has: write it as %{octet:02X}."
            );
            return (StatusCode::BAD_REQUEST, detail.into());
        }
        Violation::Syntax => "The request line or a header field is malformed.",
        Violation::Target => {
            "The request target cannot be read as a URL; check its host, port and path."
        }
        Violation::Tls => {
            "A TLS handshake came where HTTP is spoken: write http:// in the proxy's URL, or connect to a listener with tls."
        }
        Violation::ProxyHeader => {
            "A header of the PROXY protocol came where HTTP is spoken: name the load balancer in proxy_protocol_from of a [[listener]]."
        }
        Violation::BareLineFeed => "Every line of a request must end in CR LF.",
        Violation::ContentLength => {
            "Content-Length must be one number, without Transfer-Encoding beside it."
        }
        Violation::TransferEncoding => "Transfer-Encoding must be one \"chunked\", in HTTP/1.1.",
        Violation::Host => {
            "A request must carry exactly one Host field; on HTTP/2, :authority, and no Host that differs from it."
        }
        Violation::ConnectBody => "CONNECT takes no body.",
        Violation::Version => {
            "HTTP/1.1 and HTTP/1.0 are spoken here, and HTTP/2 inside TLS (ALPN h2)."
        }
        Violation::Protocol => "The only protocol that a CONNECT may name is websocket.",
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
        Violation::Protocol => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::BAD_REQUEST,
    };
    (status, detail.into())
}
