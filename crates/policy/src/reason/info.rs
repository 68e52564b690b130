//! The table of reasons: one row holds all that answers, records, explanations and replays say of a reason.
//!
//! Longer than 400 lines of code because it is one table.

use http::StatusCode;

use super::{Outcome, Reason};

/// The facts of a reason.
#[derive(Debug)]
pub struct Info {
    /// The stable code.
    pub code: &'static str,
    /// The outcome of a request that is treated so. The verdict follows from it.
    pub outcome: Outcome,
    /// True if it is enforced in every mode, because it does not depend on robots.txt, an override or the pace.
    pub always_enforced: bool,
    /// The words of `crawlgate check`. "It" is the request.
    pub meaning: &'static str,
    /// The way of a replay.
    pub replay: Replay,
    /// The answer to a request that is refused for it.
    pub answer: Answer,
}

/// The answer to a refused request, as far as the reason determines it.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The error type of `Proxy-Status` (RFC 9209 2.3); `None` if no registered type is true of it.
    pub error_type: Option<&'static str>,
    /// The problem document's title.
    pub title: &'static str,
    /// The problem document's detail, with `{origin}` for the origin.
    pub detail: &'static str,
}

/// The way in which an audit makes a decision again, or the cause that prevents it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// It follows from the whole URL.
    Url,
    /// It follows from the origin, whatever the rest of the path.
    Origin,
    /// As [`Replay::Origin`] if the record names its policy; otherwise the tunnel's content decided, which is not kept.
    Tunnel,
    /// The request was refused before it was judged.
    Unjudged,
    /// robots.txt or tdmrep.json had not arrived.
    Pending,
    /// The origin's turn had not come.
    Paced,
    /// Decisions could not be recorded.
    Unrecorded,
}

/// Answer of the reasons that allow. Their requests are forwarded; if a fault refused one, the answer is an error and
/// no permission.
const NOT_SENT: Answer = Answer {
    status: StatusCode::INTERNAL_SERVER_ERROR,
    error_type: Some("proxy_internal_error"),
    title: "The request was not forwarded",
    detail: "The request to {origin} is allowed but was not forwarded; send it again later.",
};

/// Returns the row of a reason. A match, so that the compiler asks for the row of a new reason.
pub(super) fn row(reason: Reason) -> &'static Info {
    match reason {
        Reason::RobotsAllow => &Info {
            code: "robots_allow",
            outcome: Outcome::Forwarded,
            always_enforced: false,
            meaning: "no rule matches it",
            replay: Replay::Url,
            answer: NOT_SENT,
        },
        Reason::NoRules => &Info {
            code: "no_rules",
            outcome: Outcome::Forwarded,
            always_enforced: false,
            meaning: "there are no rules for this agent",
            replay: Replay::Origin,
            answer: NOT_SENT,
        },
        Reason::RobotsUnavailable => &Info {
            code: "robots_unavailable",
            outcome: Outcome::Forwarded,
            always_enforced: false,
            meaning: "the origin has no robots.txt",
            replay: Replay::Origin,
            answer: NOT_SENT,
        },
        Reason::RobotsTxt => &Info {
            code: "robots_txt",
            outcome: Outcome::Forwarded,
            always_enforced: false,
            meaning: "robots.txt itself is always allowed",
            replay: Replay::Url,
            answer: NOT_SENT,
        },
        Reason::OperatorAllow => &Info {
            code: "operator_allow",
            outcome: Outcome::Forwarded,
            always_enforced: false,
            meaning: "an override of the operator allows it",
            replay: Replay::Url,
            answer: NOT_SENT,
        },
        Reason::ClientExempt => &Info {
            code: "client_exempt",
            outcome: Outcome::Forwarded,
            always_enforced: false,
            meaning: "robots.txt disallows it, and the operator has exempted the client from that",
            replay: Replay::Url,
            answer: NOT_SENT,
        },
        Reason::OperatorDeny => &Info {
            code: "operator_deny",
            outcome: Outcome::RefusedHere,
            always_enforced: false,
            meaning: "an override of the operator denies it",
            replay: Replay::Url,
            answer: Answer {
                status: StatusCode::FORBIDDEN,
                error_type: Some("http_request_denied"),
                title: "Denied by the operator of this proxy",
                detail: "The operator of this proxy denies this URL of {origin}; do not request \
                    it.",
            },
        },
        Reason::RobotsDisallow => &Info {
            code: "robots_disallow",
            outcome: Outcome::Disallowed,
            always_enforced: false,
            meaning: "a rule disallows it",
            replay: Replay::Url,
            answer: Answer {
                status: StatusCode::FORBIDDEN,
                error_type: Some("http_request_denied"),
                title: "Disallowed by robots.txt",
                detail: "The robots.txt of {origin} disallows this URL for this crawler; do not \
                    request it. robots.txt governs crawling, not indexing.",
            },
        },
        Reason::PathGuard => &Info {
            code: "path_guard",
            outcome: Outcome::Disallowed,
            always_enforced: false,
            meaning: "a rule disallows what the origin may read the path as",
            replay: Replay::Url,
            answer: Answer {
                status: StatusCode::FORBIDDEN,
                error_type: Some("http_request_denied"),
                title: "Disallowed by robots.txt in another reading of the path",
                detail: "{origin} may read this path in more ways than can be judged; write it \
                    plainly.",
            },
        },
        Reason::RobotsUnreachable => &Info {
            code: "robots_unreachable",
            outcome: Outcome::Unreachable,
            always_enforced: false,
            meaning: "robots.txt cannot be had",
            replay: Replay::Origin,
            answer: Answer {
                // Of an unknown cause; `Cause::answer` has the others.
                status: StatusCode::SERVICE_UNAVAILABLE,
                error_type: Some("destination_unavailable"),
                title: "The origin's robots.txt cannot be had",
                detail: "The robots.txt of {origin} cannot be had, so nothing may be crawled there \
                    for now; try again later.",
            },
        },
        Reason::OpaqueTunnel => &Info {
            code: "opaque_tunnel",
            outcome: Outcome::RefusedHere,
            always_enforced: false,
            meaning: "the origin disallows something that a tunnel hides, or the tunnel carries \
                neither TLS nor HTTP",
            replay: Replay::Tunnel,
            answer: Answer {
                status: StatusCode::FORBIDDEN,
                error_type: Some("http_request_denied"),
                title: "A tunnel to this origin cannot be judged",
                detail: "{origin} disallows some paths and a tunnel hides them; have the host \
                    intercepted: take it out of [tls] tunnel, or use a CA whose name constraints \
                    hold it.",
            },
        },
        Reason::RobotsPending => &Info {
            code: "robots_pending",
            outcome: Outcome::Deferred,
            always_enforced: false,
            meaning: "robots.txt did not arrive in time",
            replay: Replay::Pending,
            answer: Answer {
                status: StatusCode::SERVICE_UNAVAILABLE,
                error_type: Some("destination_unavailable"),
                title: "The origin's robots.txt is still being fetched",
                detail: "The robots.txt of {origin} has not arrived yet; send the request again \
                    later.",
            },
        },
        Reason::Paced => &Info {
            code: "paced",
            outcome: Outcome::Deferred,
            always_enforced: false,
            meaning: "it would have to wait longer for its origin's turn than [pace] max_hold",
            replay: Replay::Paced,
            answer: Answer {
                status: StatusCode::TOO_MANY_REQUESTS,
                error_type: Some("http_request_denied"),
                title: "The origin is asked too often",
                detail: "Requests to {origin} exceed its pace ([pace] in the configuration); send \
                    the request again later.",
            },
        },
        Reason::AddressProhibited => &Info {
            code: "address_prohibited",
            outcome: Outcome::RefusedHere,
            always_enforced: true,
            meaning: "it may not be reached from here: [egress] allow, or --allow, lets it",
            replay: Replay::Unjudged,
            answer: Answer {
                status: StatusCode::FORBIDDEN,
                error_type: Some("destination_ip_prohibited"),
                title: "The destination may not be reached from here",
                detail: "{origin} may not be reached; see [egress] in the configuration.",
            },
        },
        Reason::Misdirected => &Info {
            code: "misdirected",
            outcome: Outcome::RefusedHere,
            always_enforced: true,
            meaning: "the host names in the CONNECT, the TLS handshake and the request differ",
            replay: Replay::Unjudged,
            answer: Answer {
                status: StatusCode::MISDIRECTED_REQUEST,
                error_type: Some("http_request_error"),
                title: "The request is for another origin than its connection",
                detail: "Another origin was named than {origin}; open a connection for each \
                    origin.",
            },
        },
        Reason::BadRequest => &Info {
            code: "bad_request",
            outcome: Outcome::RefusedHere,
            always_enforced: true,
            meaning: "the request is malformed, or a proxy must refuse its form",
            replay: Replay::Unjudged,
            answer: Answer {
                status: StatusCode::BAD_REQUEST,
                error_type: Some("http_request_error"),
                title: "The request cannot be forwarded",
                detail: "The request is malformed, or a proxy must refuse its form; correct it.",
            },
        },
        Reason::LogFailed => &Info {
            code: "log_failed",
            outcome: Outcome::Deferred,
            always_enforced: true,
            meaning: "decisions cannot be recorded, so none are made",
            replay: Replay::Unrecorded,
            answer: Answer {
                status: StatusCode::SERVICE_UNAVAILABLE,
                error_type: Some("proxy_internal_error"),
                title: "Decisions cannot be recorded",
                detail: "The decision log cannot be written, so nothing is forwarded; the operator \
                    must make room for it.",
            },
        },
        Reason::FleetCut => &Info {
            code: "fleet_cut",
            outcome: Outcome::Deferred,
            always_enforced: true,
            meaning: "this instance has not heard from its fleet for too long, so it forwards nothing",
            replay: Replay::Unjudged,
            answer: Answer {
                status: StatusCode::SERVICE_UNAVAILABLE,
                error_type: Some("proxy_internal_error"),
                title: "This proxy is cut off from its fleet",
                detail: "The proxy may have missed what the operator has decided, so it forwards nothing \
                    until it hears from its fleet again; try again then.",
            },
        },
        Reason::UsageDisallow => &Info {
            code: "usage_disallow",
            outcome: Outcome::Disallowed,
            always_enforced: false,
            meaning: "the site disallows a use that this crawler declares",
            replay: Replay::Url,
            answer: Answer {
                status: StatusCode::FORBIDDEN,
                error_type: Some("http_request_denied"),
                title: "The site disallows this use",
                detail: "The robots.txt or tdmrep.json of {origin} disallows this use for this \
                    crawler; do not request it for that purpose.",
            },
        },
        Reason::UsageWithheld => &Info {
            code: "usage_withheld",
            outcome: Outcome::Disallowed,
            always_enforced: false,
            meaning: "its response disallows a use that this crawler declares",
            replay: Replay::Url,
            answer: Answer {
                status: StatusCode::FORBIDDEN,
                // No registered type fits: the request was forwarded, and the origin answered.
                error_type: None,
                title: "The page disallows this use",
                detail: "{origin} sent this page and disallows this use of it; its content is \
                    withheld.",
            },
        },
        Reason::LicenseRequired => &Info {
            code: "license_required",
            outcome: Outcome::Disallowed,
            always_enforced: false,
            meaning: "a licence applies that the operator does not list",
            replay: Replay::Url,
            answer: Answer {
                status: StatusCode::FORBIDDEN,
                error_type: Some("http_request_denied"),
                title: "The site asks for a licence",
                detail: "{origin} names a licence for this content, and the operator of this proxy \
                    lists no such licence; do not request it for this purpose.",
            },
        },
        Reason::UsagePending => &Info {
            code: "usage_pending",
            outcome: Outcome::Deferred,
            always_enforced: false,
            meaning: "tdmrep.json was not known in time",
            replay: Replay::Pending,
            answer: Answer {
                status: StatusCode::SERVICE_UNAVAILABLE,
                error_type: Some("destination_unavailable"),
                title: "The origin's tdmrep.json is not known yet",
                detail: "The tdmrep.json of {origin} is not known yet; send the request again later.",
            },
        },
        Reason::Unauthenticated => &Info {
            code: "unauthenticated",
            outcome: Outcome::RefusedHere,
            always_enforced: true,
            meaning: "the request has no credentials of a client, and the proxy needs them",
            replay: Replay::Unjudged,
            answer: Answer {
                status: StatusCode::PROXY_AUTHENTICATION_REQUIRED,
                error_type: Some("http_request_denied"),
                title: "This proxy wants to know who asks",
                detail: "Send the credentials of a client of this proxy, as in \
                    http_proxy=http://NAME:PASSWORD@HOST:PORT.",
            },
        },
        Reason::UnknownClient => &Info {
            code: "unknown_client",
            outcome: Outcome::RefusedHere,
            always_enforced: true,
            meaning: "the request matches no configured client",
            replay: Replay::Unjudged,
            answer: Answer {
                status: StatusCode::FORBIDDEN,
                error_type: Some("http_request_denied"),
                title: "This proxy does not serve you here",
                detail: "Your address belongs to no client of this listener; the operator can add \
                    it under [[client]].",
            },
        },
        Reason::AgentRequired => &Info {
            code: "agent_required",
            outcome: Outcome::RefusedHere,
            always_enforced: false,
            meaning: "the crawler names no product token, and [agent] require_identity demands one",
            replay: Replay::Unjudged,
            answer: Answer {
                status: StatusCode::FORBIDDEN,
                error_type: Some("http_request_denied"),
                title: "The crawler does not say who it is",
                detail: "Send a User-Agent that begins with a product token, as in \
                    \"ExampleBot/1.0 (+https://example.com/bot)\".",
            },
        },
        Reason::AgentMismatch => &Info {
            code: "agent_mismatch",
            outcome: Outcome::RefusedHere,
            always_enforced: false,
            meaning: "the User-Agent does not contain the product token that the crawler is judged \
                as",
            replay: Replay::Unjudged,
            answer: Answer {
                status: StatusCode::FORBIDDEN,
                error_type: Some("http_request_denied"),
                title: "The crawler says it is another one",
                detail: "The User-Agent must hold the product token that this crawler is judged \
                    as; send that, or have the operator name the right one.",
            },
        },
        Reason::QuotaSpent => &Info {
            code: "quota_spent",
            outcome: Outcome::Deferred,
            always_enforced: true,
            meaning: "the client has used its rate or quota for now",
            replay: Replay::Unjudged,
            answer: Answer {
                status: StatusCode::TOO_MANY_REQUESTS,
                error_type: Some("http_request_denied"),
                title: "The quota is spent",
                detail: "This client has used up its quota for now; send the request again later.",
            },
        },
        Reason::ClientLimit => &Info {
            code: "client_limit",
            outcome: Outcome::Deferred,
            always_enforced: true,
            meaning: "the client is at its limit of connections or requests in progress",
            replay: Replay::Unjudged,
            answer: Answer {
                status: StatusCode::TOO_MANY_REQUESTS,
                error_type: Some("http_request_denied"),
                title: "Too much at once",
                detail: "This client has its maximum of connections or requests under way; let \
                    some of them end first.",
            },
        },
        Reason::Overloaded => &Info {
            code: "overloaded",
            outcome: Outcome::Deferred,
            always_enforced: true,
            meaning: "the proxy is at a limit of [limits], has no file descriptor left, or all its \
                connections to the origin are in use",
            replay: Replay::Unjudged,
            answer: Answer {
                status: StatusCode::SERVICE_UNAVAILABLE,
                error_type: Some("connection_limit_reached"),
                title: "The proxy is at its limit",
                detail: "This proxy cannot take more at the moment; send the request again later.",
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn all_reasons_are_listed_in_the_order_of_their_variants() {
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index, "{reason:?}");
        }
    }

    #[test]
    fn every_reason_has_a_code_and_words_of_its_own() {
        let (mut codes, mut meanings, mut titles) = Default::default();
        let is_new = |seen: &mut HashSet<&str>, text: &'static str| {
            !text.trim().is_empty() && seen.insert(text)
        };
        for reason in Reason::ALL {
            let info = reason.info();
            let is_code = |octet: u8| octet.is_ascii_lowercase() || octet == b'_';
            assert!(info.code.bytes().all(is_code), "{reason:?}");
            assert!(is_new(&mut codes, info.code), "{reason:?}");
            assert!(is_new(&mut meanings, info.meaning), "{reason:?}");
            let allows = info.outcome == Outcome::Forwarded;
            assert!(allows || is_new(&mut titles, info.answer.title), "{reason:?}");
        }
    }

    #[test]
    fn no_answer_to_a_refused_request_looks_like_success() {
        for reason in Reason::ALL {
            let Info { outcome, answer, .. } = reason.info();
            let status = answer.status;
            assert!(status.is_client_error() || status.is_server_error(), "{reason:?}");
            // A crawler that gets 5xx or 429 sends the request again.
            let is_for_now = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            let refuses_for_good = matches!(outcome, Outcome::Disallowed | Outcome::RefusedHere);
            assert_eq!(is_for_now, !refuses_for_good, "{reason:?}");
            let is_token = |octet: u8| octet.is_ascii_lowercase() || octet == b'_';
            let error_type = answer.error_type.unwrap_or_default();
            assert!(error_type.bytes().all(is_token), "{reason:?}");
            let rest = answer.detail.replace("{origin}", "");
            assert!(rest.ends_with('.') && !rest.contains(['{', '}']), "{reason:?}");
        }
    }
}
