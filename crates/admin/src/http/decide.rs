//! The decision service: other proxies ask whether a URL may be fetched, and fetch it themselves.
//!
//! A proxy can ask in three ways and gets the same answer:
//!
//! - `GET /decide?url=…&agent=…`, for programs that can build a URL; `squid-helper` asks this way.
//! - `/ext-authz/…`, as Envoy's `ext_authz` filter asks over HTTP: the request's own method, path and Host, behind a
//!   path prefix. Envoy takes 5xx for an error, which `failure_mode_allow` makes a yes, so such a refusal is 403 there.
//! - `/auth`, as nginx's `auth_request` asks: the request in dedicated header fields. nginx takes 2xx for yes, 401 and
//!   403 for no and all else for an error, so every refusal is 403 there.
//!
//! `guard` decides which programs may ask. `client=` names the client, in `/decide` and in the address that nginx asks
//! at. The crawler's identity is its User-Agent: `agent=` in `/decide`, the field itself in the other two.
//!
//! The asking proxy keeps an origin's pace and a client's quota itself, unless it sends `pace=true`: then the answer
//! comes when it is the request's turn.
//!
//! 200 lets the request go out; any other status does not. A request that lacks a fact or gives one twice is answered
//! 400: a guess could judge another URL than the one that is sent. For the same reason each header field that describes
//! the request is required: if the other proxy did not set the field, its crawler could.

mod query;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use http::header::HOST;
use http::uri::Authority;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use self::query::DecideQuery;
use super::AppState;
use super::problem::Problem;
use crawlgate_gate::Pacing;
use crawlgate_proxy::decide::{AnswerFormat, Audience, DecideRequest, Stopping, Subject};
use crawlgate_turns::client::Client;

/// The path that Envoy asks at: `path_prefix` of its filter.
const EXT_AUTHZ: &str = "/ext-authz";

/// The header field with the whole URL of the request.
const ORIGINAL_URL: HeaderName = HeaderName::from_static("x-original-url");
/// The header field with its path and query.
const ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");
/// The header field with its host and port.
const ORIGINAL_HOST: HeaderName = HeaderName::from_static("x-original-host");
/// The header field with its scheme, if the URL comes in parts.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// The header field with the method of the request.
const ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");

/// Returns the routes.
pub fn routes() -> Router<AppState> {
    Router::new()
        .route("/decide", get(decide))
        .route("/auth", any(auth_request))
        .route("/ext-authz/", any(ext_authz))
        .route("/ext-authz/{*path}", any(ext_authz))
}

/// Tells whether this path belongs to the decision service, which programs use and no page.
pub(super) fn is_decide_path(path: &str) -> bool {
    matches!(path, "/decide" | "/auth") || path.starts_with("/ext-authz")
}

/// Tells whether a request for this path describes the crawler's request in header fields, which say nothing about the
/// asking program. Another site's page can set none of these fields: `/ext-authz` requires X-Forwarded-Proto and
/// `/auth` a dedicated field, and a browser asks by OPTIONS first (CORS), which is refused.
pub(super) fn is_described_in_fields(path: &str) -> bool {
    path == "/auth" || borrows_head(path)
}

/// Tells whether a request for this path has the method, the Host and the fields of the crawler's request, which say
/// nothing about the asking program. A page of a name that was made to lead here could ask this way, about its own
/// name.
pub(super) fn borrows_head(path: &str) -> bool {
    path.starts_with("/ext-authz/")
}

/// The reason why a request cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BadRequest(String);

impl BadRequest {
    fn new(what: impl Into<String>) -> BadRequest {
        BadRequest(what.into())
    }
}

/// Answers `GET /decide?url=…&agent=…`.
async fn decide(State(app): State<AppState>, request: Request) -> Response {
    let asked = match DecideQuery::read(request.uri().query().unwrap_or_default().as_bytes()) {
        Ok(asked) => asked,
        Err(invalid) => return refuse(invalid, StatusCode::BAD_REQUEST),
    };
    let client = match client(&app, asked.client.as_deref()) {
        Ok(client) => client,
        Err(invalid) => return refuse(invalid, StatusCode::BAD_REQUEST),
    };
    let mut headers = HeaderMap::new();
    if let Some(agent) = asked.agent {
        headers.insert(http::header::USER_AGENT, agent);
    }
    let question = DecideRequest {
        address: peer_address(request.extensions()),
        client,
        method: asked.method,
        subject: asked.subject,
        headers: &headers,
        pacing: asked.pacing,
        manner: answer_format(&request, Audience::Requester),
    };
    answer(&app, question).await
}

/// Answers nginx's `auth_request`.
async fn auth_request(State(app): State<AppState>, request: Request) -> Response {
    let AuthRequest { url, method, client } = match AuthRequest::read(&app, &request) {
        Ok(auth) => auth,
        Err(invalid) => return refuse(invalid, StatusCode::FORBIDDEN),
    };
    let question = DecideRequest {
        address: peer_address(request.extensions()),
        client,
        method: method.unwrap_or_else(|| request.method().clone()),
        subject: Subject::Url(url),
        headers: request.headers(),
        pacing: Pacing::AtOnce,
        manner: answer_format(&request, Audience::Subrequest),
    };
    answer(&app, question).await
}

/// Answers Envoy's `ext_authz` filter.
async fn ext_authz(State(app): State<AppState>, request: Request) -> Response {
    let uri = request.uri();
    // Not the router's decoded path: the decision is about the octets that are sent.
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    let headers = request.headers();
    let url = path
        .strip_prefix(EXT_AUTHZ)
        .ok_or_else(|| BadRequest::new("The path must begin with /ext-authz."))
        .and_then(|path| {
            let scheme = only(headers, &FORWARDED_PROTO)?;
            assemble(scheme, only(headers, &HOST)?, path.as_bytes())
        });
    let url = match url {
        Ok(url) => url,
        Err(invalid) => return refuse(invalid, StatusCode::BAD_REQUEST),
    };
    let question = DecideRequest {
        address: peer_address(request.extensions()),
        client: app.proxy().gate().clients().anonymous(),
        method: request.method().clone(),
        subject: Subject::Url(url),
        headers,
        pacing: Pacing::AtOnce,
        manner: answer_format(&request, Audience::Filter),
    };
    answer(&app, question).await
}

/// Decides, or says why there is no decision.
async fn answer(app: &AppState, question: DecideRequest<'_>) -> Response {
    let audience = question.manner.audience;
    match app.proxy().decide(question).await {
        Ok(answer) => answer.map(Body::from),
        Err(Stopping) => {
            let why = "crawlgate stops and decides nothing any more; ask again when it is back";
            match audience {
                Audience::Subrequest | Audience::Filter => Problem::new(StatusCode::FORBIDDEN, why),
                Audience::Requester | Audience::Crawler => Problem::busy(why),
            }
            .into_response()
        }
    }
}

/// The facts that nginx gives about a request.
struct AuthRequest {
    url: Vec<u8>,
    method: Option<Method>,
    /// The client that the address of nginx's request names: a crawler cannot choose it.
    client: Arc<Client>,
}

impl AuthRequest {
    fn read(app: &AppState, request: &Request) -> Result<AuthRequest, BadRequest> {
        let name = match request.uri().query() {
            None | Some("") => None,
            Some(query) => Some(query.strip_prefix("client=").ok_or_else(|| {
                BadRequest::new("The query may only name a client, as in /auth?client=news.")
            })?),
        };
        let headers = request.headers();
        Ok(AuthRequest {
            url: original(headers)?,
            method: original_method(headers)?,
            client: client(app, name)?,
        })
    }
}

/// Returns the client of this name, or the one without a name.
fn client(app: &AppState, name: Option<&str>) -> Result<Arc<Client>, BadRequest> {
    let Some(name) = name else {
        return Ok(app.proxy().gate().clients().anonymous());
    };
    let clients = app.proxy().gate().clients().named();
    let mut clients = clients.into_iter();
    clients
        .find(|client| client.name.as_deref() == Some(name))
        .ok_or_else(|| BadRequest(format!("client = {name:?}: no [[client]] has this name.")))
}

/// Returns the URL in the header fields, whole or in parts. Both at once is refused: one of them is the crawler's.
fn original(headers: &HeaderMap) -> Result<Vec<u8>, BadRequest> {
    if !headers.contains_key(&ORIGINAL_URL) {
        return assemble(
            only(headers, &FORWARDED_PROTO)?,
            only(headers, &ORIGINAL_HOST)?,
            only(headers, &ORIGINAL_URI)?.as_bytes(),
        );
    }
    for part in [&ORIGINAL_URI, &ORIGINAL_HOST] {
        if headers.contains_key(part) {
            return Err(BadRequest(format!(
                "{part} beside {ORIGINAL_URL}: only one of them can be what is sent; clear the other one."
            )));
        }
    }
    let url = only(headers, &ORIGINAL_URL)?.as_bytes();
    let authority = url
        .windows(3)
        .position(|window| window == b"://")
        .and_then(|at| url.get(at + 3..))
        .and_then(|rest| rest.split(|octet| matches!(octet, b'/' | b'?')).next());
    match authority {
        Some(authority) if is_host(authority) => Ok(url.to_vec()),
        _ => Err(BadRequest(format!(
            "{ORIGINAL_URL} must be a whole URL, as in http://example.com/page, without userinfo."
        ))),
    }
}

fn original_method(headers: &HeaderMap) -> Result<Option<Method>, BadRequest> {
    if !headers.contains_key(&ORIGINAL_METHOD) {
        return Ok(None);
    }
    let value = only(headers, &ORIGINAL_METHOD)?;
    Method::from_bytes(value.as_bytes())
        .map(Some)
        .map_err(|_| BadRequest(format!("{ORIGINAL_METHOD} must be a method.")))
}

/// Builds a URL from its parts, each checked to be that part and no more.
fn assemble(scheme: &HeaderValue, host: &HeaderValue, path: &[u8]) -> Result<Vec<u8>, BadRequest> {
    let scheme: &[u8] = match scheme.as_bytes() {
        scheme @ (b"http" | b"https") => scheme,
        _ => return Err(BadRequest::new("The scheme must be http or https.")),
    };
    let host = host.as_bytes();
    if !is_host(host) {
        return Err(BadRequest::new(
            "The host must be a name or an address, with or without a port.",
        ));
    }
    if path.first() != Some(&b'/') {
        return Err(BadRequest::new("The path must begin with a slash."));
    }
    Ok([scheme, b"://", host, path].concat())
}

/// Tells whether the text is `host[:port]` and no more: before a userinfo, another reader could see another host.
fn is_host(octets: &[u8]) -> bool {
    !octets.is_empty() && !octets.contains(&b'@') && Authority::try_from(octets).is_ok()
}

/// Returns the one value of a field.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<&'h HeaderValue, BadRequest> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value),
        (None, _) => Err(BadRequest(format!(
            "{name} is missing: it tells what is going to be sent, so the proxy that asks must set it."
        ))),
        (Some(_), Some(_)) => Err(BadRequest(format!(
            "{name} is there twice; the proxy that asks must set it, not add it."
        ))),
    }
}

/// Returns the address of the connected program; loopback in a test without a connection.
pub(super) fn peer_address(extensions: &Extensions) -> SocketAddr {
    let connected = extensions.get::<ConnectInfo<SocketAddr>>();
    connected.map_or((Ipv4Addr::LOCALHOST, 0).into(), |info| info.0)
}

fn answer_format(request: &Request, audience: Audience) -> AnswerFormat {
    AnswerFormat { is_head: request.method() == Method::HEAD, audience }
}

/// Answers a request that cannot be understood. Nothing was decided, so nothing is recorded.
fn refuse(BadRequest(what): BadRequest, status: StatusCode) -> Response {
    Problem::new(status, what).into_response()
}

#[cfg(test)]
mod tests;
