//! Every answer that crawlgate makes itself, from a typed refusal (RFC 9110 15, 9209, 9457).
//!
//! Each carries `Proxy-Status` and says in one sentence what to do, as a problem document or, if the client asks for
//! it, as text. So a crawler can tell our 403 from the origin's.

mod facts;
mod problem;

use std::fmt::Write as _;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, PROXY_AUTHENTICATE, RETRY_AFTER,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

pub use self::facts::Facts;
use self::problem::{Problem, tell};
use super::SELF_TEST;
use super::body::Answer;
use super::fields::own::{NAME, PROXY_STATUS};
use super::framing::Violation;
use super::recorder::{Admitted, Answered, Decided, Exchange};
use super::target::Unreadable;
use crawlgate_egress::Failure;
use crawlgate_ftp as ftp;
use crawlgate_origins::access::Cause;
use crawlgate_origins::access::tls_fault::TlsFault;
use crawlgate_policy::{Decision, Reason};
use crawlgate_robots::{Origin, Scheme};
use crawlgate_system::clock::Moment;
use crawlgate_text::json::Object;

/// Octets of one text in an answer.
const MAX: usize = 16_384;

/// Challenge of a 407 (RFC 7617).
const CHALLENGE: &str = "Basic realm=\"crawlgate\", charset=\"UTF-8\"";

/// The usual methods that are forwarded.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, CONNECT";

/// Reason that crawlgate answers itself.
#[derive(Debug, Clone)]
pub enum Refusal {
    /// The decision was not to forward.
    Decided,
    /// The request cannot be read, or has a form that is refused.
    Form(Violation),
    /// The target cannot be judged.
    Target(Unreadable),
    /// The request for an `ftp` URL does not only read.
    Ftp(Unforwardable),
    /// The request has two User-Agent fields where one must fit.
    Agents,
    /// TRACE would show the crawler the fields that we add.
    Trace,
    /// The request has already passed this proxy.
    Loop,
    /// The request was forwarded and no answer came.
    Upstream(Failure),
    /// The origin did not understand the handshake of a WebSocket.
    Handshake,
    /// The origin switched protocols otherwise than we had traits.
    Upgrade,
}

/// Reason that a request for an `ftp` URL has no meaning there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unforwardable {
    /// Its method is neither GET nor HEAD.
    Method,
    /// It has a body.
    Body,
}

impl Refusal {
    /// Tells whether the request went out, or was about to, and failed: its answer has an error, and no reason of a
    /// decision.
    fn is_failure(&self) -> bool {
        matches!(self, Self::Upstream(_) | Self::Handshake | Self::Upgrade)
    }
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
    /// Another proxy that takes 5xx for an error, and may send the request then (Envoy's failure_mode_allow).
    Filter,
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

/// Builds the answer to a refused exchange.
pub fn refuse(
    refusal: &Refusal,
    exchange: Exchange<Decided>,
    traits: RequestTraits,
    now: Moment,
) -> (Response<Bytes>, Exchange<Answered>) {
    let Problem { status, error, title, detail, is_telling, retry_after, close } =
        tell(refusal, &exchange, now);
    let status = match traits.audience {
        Audience::Subrequest => StatusCode::FORBIDDEN,
        Audience::Filter if status.is_server_error() => StatusCode::FORBIDDEN,
        Audience::Crawler | Audience::Requester | Audience::Filter => status,
    };
    let reason = exchange.decision().reason.as_str();
    // Without a decision, the answer is about the request or the way, not about a robots.txt.
    let failure = error.filter(|_| refusal.is_failure());
    let facts = Facts::of(&exchange, matches!(refusal, Refusal::Decided), failure);
    let (content_type, body) = if traits.wants_text {
        let mut text = format!("{} {title}\n\n{detail}\n\n", status.as_u16());
        facts.write_lines(&mut text);
        ("text/plain; charset=utf-8", text.into_bytes())
    } else {
        let kind = match refusal {
            Refusal::Decided => reason,
            _ => error.unwrap_or(reason),
        };
        let write_facts = |problem: &mut Object<'_>| facts.write(problem, traits.audience);
        let body = problem_document(kind, status, title, &detail, write_facts);
        ("application/problem+json", body)
    };
    let mut exchange = exchange.answer(status, error);
    exchange.set_detail(is_telling.then_some(&*detail));
    let mut response = with_body(status, content_type, body, traits.is_head);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let received = exchange.decision().received_status();
    let fault = tls_fault(refusal, exchange.decision());
    let words = fault.map(ToString::to_string);
    let details = match failure {
        Some(_) => words.as_deref(),
        None => Some(reason),
    };
    let alert = fault.and_then(TlsFault::alert);
    if let Ok(value) = HeaderValue::from_str(&proxy_status(error, alert, received, details)) {
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
        let methods = match refusal {
            Refusal::Ftp(_) => "GET, HEAD",
            _ => METHODS,
        };
        headers.insert(ALLOW, HeaderValue::from_static(methods));
    }
    if close || traits.ends_connection {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    (response, exchange)
}

/// Waits until the record of our own answer is as sure as the settings demand; if it cannot be kept, another answer takes its
/// place.
pub async fn keep(
    (response, exchange): (Response<Bytes>, Exchange<Answered>),
    traits: RequestTraits,
    now: Moment,
) -> (Response<Bytes>, Exchange<Answered>) {
    match exchange.keep(Some(response.body().len())).await {
        Ok(exchange) => (response, exchange),
        Err(exchange) => refuse(&Refusal::Decided, exchange, traits, now),
    }
}

/// Answers an OPTIONS that is forwarded no further, as its last recipient (RFC 9110 7.6.2).
pub fn as_last_recipient(exchange: Exchange<Decided>) -> Response<Answer> {
    let exchange = exchange.answer(StatusCode::OK, None);
    let mut response = Response::new(Answer::own(Bytes::new(), exchange));
    let headers = response.headers_mut();
    headers.insert(ALLOW, HeaderValue::from_static(METHODS));
    if let Ok(value) = HeaderValue::from_str(&proxy_status(None, None, None, Some("max_forwards")))
    {
        headers.insert(PROXY_STATUS, value);
    }
    response
}

/// Returns the fault of TLS that a refusal is for.
fn tls_fault<'a>(refusal: &'a Refusal, decision: &'a Decision) -> Option<&'a TlsFault> {
    match (refusal, decision.cause()) {
        (Refusal::Upstream(failure), _) => failure.tls_fault(),
        (Refusal::Decided, Some(Cause::Tls(fault)))
            if decision.reason == Reason::RobotsUnreachable =>
        {
            Some(fault)
        }
        _ => None,
    }
}

/// Writes a problem document (RFC 9457).
fn problem_document(
    kind: &str,
    status: StatusCode,
    title: &str,
    detail: &str,
    write_facts: impl FnOnce(&mut Object<'_>),
) -> Vec<u8> {
    let mut body = Vec::with_capacity(512);
    let mut problem = Object::open(&mut body);
    let kind = ["urn:crawlgate:problem:", kind].concat();
    problem.plain("type", kind.as_bytes());
    problem.text("title", title.as_bytes(), MAX);
    problem.number("status", u64::from(status.as_u16()));
    problem.text("detail", detail.as_bytes(), MAX);
    write_facts(&mut problem);
    problem.close();
    body.push(b'\n');
    body
}

/// Returns a response with this body; the response to a HEAD names only its length.
fn with_body(
    status: StatusCode,
    content_type: &'static str,
    body: Vec<u8>,
    is_head: bool,
) -> Response<Bytes> {
    let length = body.len();
    let body = if is_head { Bytes::new() } else { body.into() };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if is_head {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}

/// Adds to an answer the reply of the FTP server that it stands for.
pub fn add_ftp_reply(headers: &mut HeaderMap, refusal: &ftp::status::Refusal) {
    // The characters of a string (RFC 9651 3.3.3) that need no escape.
    let is_plain = |c: &char| matches!(c, ' '..='~') && !matches!(c, '"' | '\\');
    let reply = refusal.reply.to_string();
    let details: String = "reply ".chars().chain(reply.chars().filter(is_plain)).collect();
    let member = proxy_status(refusal.error_type(), None, None, Some(&details));
    if let Ok(value) = HeaderValue::from_str(&member) {
        headers.append(PROXY_STATUS, value);
    }
}

/// Returns the member of an answer's Proxy-Status (RFC 9209 2).
fn proxy_status(
    error: Option<&str>,
    alert: Option<(u8, &'static str)>,
    received: Option<u16>,
    details: Option<&str>,
) -> String {
    let mut member = NAME.to_owned();
    // Writing to a string cannot fail.
    if let Some(error) = error {
        let _ = write!(member, "; error={error}");
    }
    if let Some((id, name)) = alert {
        let _ = write!(member, "; alert-id={id}; alert-message=\"{name}\"");
    }
    if let Some(status) = received {
        let _ = write!(member, "; received-status={status}");
    }
    if let Some(details) = details {
        // A string of RFC 8941 is visible ASCII.
        let shown = details.chars().map(|c| match c {
            '"' | '\\' => '\'',
            ' '..='~' => c,
            _ => '?',
        });
        let _ = write!(member, "; details=\"{}\"", shown.collect::<String>());
    }
    member
}

/// Tells whether a request is for the host without an owner at which the proxy itself answers: a client that reaches it comes
/// through here, and one that reaches it over TLS trusts our certificate, too.
///
/// Its name ends in `.invalid`, which no name server may know (RFC 6761 section 6.4), so no real host is shadowed.
pub fn is_self_test(origin: &Origin) -> bool {
    origin.host() == SELF_TEST
}

/// Answers for that host. Nothing goes out and nothing is recorded: the exchange is about the client and not about an origin.
pub fn self_test(
    exchange: Exchange<Admitted>,
    origin: &Origin,
    method: &Method,
) -> Response<Answer> {
    let client = match &exchange.client().name {
        Some(name) => format!("client {name}"),
        None => "a client without a name".to_owned(),
    };
    let judged = match exchange.agent().tokens.first() {
        Some(token) => format!("judged as {token}"),
        None => "judged by the rules for *".to_owned(),
    };
    let trust = match origin.scheme() {
        Scheme::Https => {
            "You trust its CA: this connection is encrypted with a certificate that it has signed."
        }
        _ => "Request the same URL over https to check that you trust its CA.",
    };
    let text = format!("You come through crawlgate, as {client}, {judged}.\n{trust}\n");
    // The answer to a HEAD has no body, and hyper accepts none.
    let body = match *method {
        Method::HEAD => Bytes::new(),
        _ => Bytes::from(text),
    };
    let exchange = exchange.discard(StatusCode::OK);
    let mut response = Response::new(Answer::own(body, exchange));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, plain);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
