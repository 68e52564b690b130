//! A host without an owner, at which the proxy itself answers: a client that reaches it comes through here, and one
//! that reaches it over TLS trusts our certificate, too.
//!
//! Its name ends in `.invalid`, which no name server may know (RFC 6761 section 6.4), so no real host is shadowed.
//! Nothing goes out and nothing is recorded: the exchange is about the client and not about an origin.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Response, StatusCode};

use super::SELF_TEST;
use super::body::Answer;
use super::recorder::{Admitted, Exchange};
use crawlgate_robots::{Origin, Scheme};

/// Tells whether a request is for this host.
pub fn is_self_test(origin: &Origin) -> bool {
    origin.host() == SELF_TEST
}

/// Builds the answer.
pub fn answer(exchange: Exchange<Admitted>, origin: &Origin, method: &Method) -> Response<Answer> {
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
