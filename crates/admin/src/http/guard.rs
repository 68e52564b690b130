//! Access to the admin side, and limits on a browser that shows its pages.
//!
//! Before any page: the requested name is one of ours (another name that leads to this address is DNS rebinding), the
//! sender has right credentials if any are configured ([`access`](super::access)), a change comes from our own pages, not
//! from another site's page in the operator's browser, and the sender's role allows the act. A sender at the Unix socket is
//! the operator. After any page: headers that
//! forbid loading from elsewhere, framing and caching.
//!
//! `/live` and `/ready` reveal nothing useful to an attacker, and programs without a name or credentials ask them: these
//! requests pass. So do those for the directory of keys, which is public.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::Authority;
use http::{Method, StatusCode, Uri};
use tokio::time::timeout;
use tracing::info;

use super::AppState;
use super::access::{Actor, Refusal, role_of};
use super::decide;
use super::listener::LocalPeer;
use super::problem::{self, Problem};
use super::refusals::Reason;
use crawlgate_config::Role;
use crawlgate_signing::settings::WELL_KNOWN;

/// Time that an answer may take to begin, besides the configured time of a fetch and a hold.
const GRACE: Duration = Duration::from_secs(60);

/// The only sources that a page may load from: its own style, script and pictures.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Header fields of every answer of an admin port.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Header fields of the console's answers. The referrer is kept from other sites only: a browser that is told to send
/// none says that a form comes from nowhere.
const OF_CONSOLE: [(HeaderName, &str); 2] =
    [(header::CONTENT_SECURITY_POLICY, CONTENT_POLICY), (header::REFERRER_POLICY, "same-origin")];

/// Sets the header fields of an answer, those of its port among them, unless the page has set them itself.
pub fn set_headers<const N: usize>(headers: &mut HeaderMap, own: [(HeaderName, &'static str); N]) {
    for (name, value) in own.into_iter().chain(HEADERS) {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

/// Checks the request and its credentials, passes it on with its sender, and sets the answer's headers.
pub async fn admit(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    let sender = if is_public(&head.method, &head.uri) {
        Ok(None)
    } else {
        sender(&app, &head).await.map(Some)
    };
    let mut response = match sender {
        Err(refused) => refused,
        Ok(sender) => {
            if let Some(sender) = sender {
                head.extensions.insert(sender);
            }
            let request = Request::from_parts(head, body);
            let patience = patience(&app);
            timeout(patience, next.run(request)).await.unwrap_or_else(|_| {
                Problem::busy("this takes too long; ask for less, or try again").into_response()
            })
        }
    };
    set_headers(response.headers_mut(), OF_CONSOLE);
    response
}

/// Returns the time-out of an answer. A refresh may wait for one fetch and then make another; a decision may be held
/// for robots.txt, and then for its turn.
fn patience(app: &AppState) -> Duration {
    let settings = app.proxy().settings();
    let fetches = settings.robots.fetch_timeout * 2;
    let holds = settings.robots.hold + settings.pace.max_hold;
    fetches.max(holds) + GRACE
}

fn is_public(method: &Method, uri: &Uri) -> bool {
    matches!(uri.path(), "/live" | "/ready" | WELL_KNOWN)
        && matches!(*method, Method::GET | Method::HEAD)
}

/// Passes a request on if the role of its sender allows what the router has chosen for it; if there is no route, answers 404
/// whatever the role. Acts of users are told of in the program's messages.
pub async fn authorise(State(app): State<AppState>, request: Request, next: Next) -> Response {
    if is_public(request.method(), request.uri()) {
        return next.run(request).await;
    }
    let Some(actor) = request.extensions().get::<Actor>().cloned() else {
        return unauthenticated(&app).into_response();
    };
    let (method, peer) = (request.method().clone(), decide::peer_address(request.extensions()));
    let Some(route) = request.extensions().get::<MatchedPath>().cloned() else {
        return problem::not_found(request.uri().clone()).await.into_response();
    };
    let needed = role_of(&method, route.as_str());
    let user = actor.name();
    if !actor.may(needed) {
        let refusals = app.access().refusals();
        refusals.refuse(Reason::Role, peer, user);
        let why = format!(
            "this takes the role {needed}, and {} has the role {}: see role of its [[admin.user]]",
            user.unwrap_or_default(),
            actor.role()
        );
        return Problem::new(StatusCode::FORBIDDEN, why).into_response();
    }
    // Before the act: a client that hangs up ends it, and must not end the message.
    if let (Some(user), true) = (user, needed > Role::Read) {
        let path = request.uri().path();
        info!(user, %peer, %method, route = route.as_str(), path, "an act on the admin side");
    }
    next.run(request).await
}

/// Returns the sender of a request, or the answer that refuses it.
async fn sender(app: &AppState, request: &Parts) -> Result<Actor, Response> {
    let authority = authority(&request.uri, &request.headers)
        .map_err(|why| Problem::bad(why).into_response())?;
    let path = request.uri.path();
    if !decide::borrows_head(path) && !is_ours(authority.host(), app.hosts()) {
        let host = authority.host();
        let why = format!(
            "{host}: this is not a name of this console; use its address, or put the name into [admin] hosts"
        );
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, why).into_response());
    }
    let settings = app.proxy().settings();
    // The kernel vouches for it. A browser may reach the socket through a forwarded port, so all other checks hold.
    let actor = match request.extensions.get::<LocalPeer>() {
        Some(LocalPeer) if decide::is_decide_path(path) => {
            let why = "the record of a decision has the address that asks, and this socket has none; ask at [admin] address";
            return Err(Problem::missing(why).into_response());
        }
        Some(LocalPeer) => Actor::Local,
        None => {
            let peer = decide::peer_address(&request.extensions);
            let access = app.access();
            let identified = access.identify(&settings.admin, &request.headers, peer).await;
            identified.map_err(|refusal| refused(app, refusal, path))?
        }
    };
    if decide::is_described_in_fields(path) {
        return Ok(actor);
    }
    let visits = if decide::is_decide_path(path) {
        CrossSiteVisits::Refused
    } else {
        CrossSiteVisits::Allowed
    };
    let scheme = settings.admin.cert.as_ref().map(|_| "https");
    match cross_site_fault(&request.method, &request.headers, &authority, scheme, visits) {
        Some(why) => Err(Problem::new(StatusCode::FORBIDDEN, why).into_response()),
        None => Ok(actor),
    }
}

/// Returns the answer to a request without right credentials.
fn refused(app: &AppState, refusal: Refusal, path: &str) -> Response {
    let problem = match refusal {
        Refusal::Missing | Refusal::Wrong => return unauthenticated(app).into_response(),
        Refusal::TooMany(again) => {
            let why = "too many wrong passwords for this user have come from this address; try again later";
            Problem::too_many(why, again.since(app.now()))
        }
        Refusal::Busy => Problem::busy("too many passwords wait for their check; try again"),
    };
    match path {
        // nginx takes every status but 401 and 403 for an error.
        "/auth" => Problem::new(StatusCode::FORBIDDEN, problem.detail()).into_response(),
        _ => problem.into_response(),
    }
}

fn unauthenticated(app: &AppState) -> Response {
    let settings = app.proxy().settings();
    let why = match &settings.admin {
        admin if admin.is_shut() => {
            "the last [[admin.user]] is removed; add one and reload, or restart"
        }
        admin if !admin.users.is_empty() => {
            "show the credentials of an [[admin.user]]: its name and password (Authorization: Basic …), or its token \
             (Authorization: Bearer …)"
        }
        _ => {
            "show the token of [admin] token_file: Authorization: Bearer …, or as the password to any name"
        }
    };
    challenge(Problem::new(StatusCode::UNAUTHORIZED, why))
}

/// Returns this answer with challenges, by which a browser prompts for a name and a password.
pub(super) fn challenge(answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    let headers = response.headers_mut();
    for challenge in ["Basic realm=\"crawlgate\", charset=\"UTF-8\"", "Bearer realm=\"crawlgate\""]
    {
        headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    response
}

/// Returns the requested authority: that of the target, if it has one, else of the only Host field (RFC 9112, section
/// 3.2).
pub(super) fn authority(uri: &Uri, headers: &HeaderMap) -> Result<Authority, &'static str> {
    if let Some(authority) = uri.authority() {
        return Ok(authority.clone());
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Authority::try_from(host.as_bytes())
            .ok()
            .filter(|authority| !authority.as_str().contains('@'))
            .ok_or("the Host field is no host"),
        (None, _) => Err("there is no Host field"),
        (Some(_), Some(_)) => Err("there are several Host fields"),
    }
}

/// Tells whether only we can make this host lead here: an address, which no name server can redirect, a name for
/// loopback (RFC 6761, section 6.3), or a name that the operator gave.
fn is_ours(host: &str, hosts: &[String]) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    if hosts.contains(&name) {
        return true;
    }
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        // The unspecified address leads to this machine, though it names none: browsers have let other sites' pages use
        // it.
        return !address.to_canonical().is_unspecified();
    }
    name == "localhost" || name.ends_with(".localhost")
}

/// The treatment of a browser that another site has led here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CrossSiteVisits {
    /// The browser gets the page.
    Allowed,
    /// The request is refused: it is for no page, and has effects: a record, a client's quota, an origin's turn.
    Refused,
}

/// Returns why another site's page seems to have sent a request, if so. A program that is no browser does not say where
/// its request comes from, and passes: no page can make such a program ask. `scheme` is that of our pages; none: either, as
/// a proxy in front of us may end TLS.
fn cross_site_fault(
    method: &Method,
    headers: &HeaderMap,
    authority: &Authority,
    scheme: Option<&str>,
    visits: CrossSiteVisits,
) -> Option<&'static str> {
    const CROSS_SITE: &str =
        "this comes from another site's page; only pages of this console may ask for it";
    let field = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_safe = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    let from = field("sec-fetch-site");
    let is_visit = visits == CrossSiteVisits::Allowed
        && is_safe
        && field("sec-fetch-mode") == Some("navigate");
    match from {
        None | Some("same-origin" | "none") => {}
        // A visit by a link is allowed: it changes nothing.
        Some(_) if is_visit => {}
        Some(_) => return Some(CROSS_SITE),
    }
    if is_safe {
        return None;
    }
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let (Some(origin), others) = (origins.next(), origins.next()) else {
        return None;
    };
    let same = origin.to_str().ok().and_then(|origin| origin.split_once("://")).is_some_and(
        |(of, theirs)| {
            let is_of_scheme = scheme.is_none_or(|scheme| of.eq_ignore_ascii_case(scheme));
            is_of_scheme && theirs.eq_ignore_ascii_case(authority.as_str())
        },
    );
    (!same || others.is_some()).then_some(CROSS_SITE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_is_ours_or_foreign() {
        let hosts = ["gate.example".to_owned()];
        for (name, host, expected) in [
            ("an address", "127.0.0.1", true),
            ("an address of IPv6", "[::1]", true),
            ("no address", "0.0.0.0", false),
            ("no address of IPv6", "[::]", false),
            ("no address, mapped", "[::ffff:0.0.0.0]", false),
            ("an address of another network", "192.0.2.7", true),
            ("a name for loopback", "LOCALHOST", true),
            ("a name below it", "gate.localhost", true),
            ("a name that was given", "Gate.Example.", true),
            ("a name below one that was given", "a.gate.example", false),
            ("a stranger's name", "rebound.example", false),
            ("a name that ends alike", "notlocalhost", false),
            ("an address as a part of a name", "127.0.0.1.example", false),
        ] {
            assert_eq!(is_ours(host, &hosts), expected, "{name}");
        }
    }

    #[test]
    fn other_sites_pages_change_nothing() {
        let ours = Authority::from_static("127.0.0.1:8119");
        type Fields = &'static [(&'static str, &'static str)];
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, Method, Fields, bool)] = &[
            ("a program", Method::POST, &[], true),
            ("our own page", Method::POST, &[("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:8119")], true),
            ("our own page behind TLS", Method::POST, &[("origin", "https://127.0.0.1:8119")], true),
            ("an old browser, our page", Method::POST, &[("origin", "http://127.0.0.1:8119")], true),
            ("a stranger's form", Method::POST, &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], false),
            ("a stranger's form in an old browser", Method::POST, &[("origin", "http://evil.example")], false),
            ("another port of this machine", Method::POST, &[("sec-fetch-site", "same-site")], false),
            ("another port, in an old browser", Method::POST, &[("origin", "http://127.0.0.1:3000")], false),
            ("a page without an origin", Method::POST, &[("origin", "null")], false),
            ("two origins", Method::POST, &[("origin", "http://127.0.0.1:8119"), ("origin", "http://evil.example")], false),
            ("a stranger's script that deletes", Method::DELETE, &[("sec-fetch-site", "cross-site")], false),
            ("a link that is followed", Method::GET, &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], true),
            ("a stranger's picture", Method::GET, &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], false),
            ("an address that was typed", Method::GET, &[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")], true),
        ];
        for (name, method, fields, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in *fields {
                headers.append(*name, HeaderValue::from_static(value));
            }
            let refused = cross_site_fault(method, &headers, &ours, None, CrossSiteVisits::Allowed);
            assert_eq!(refused.is_none(), *expected, "{name}: {refused:?}");
            let is_from_elsewhere = headers
                .get("sec-fetch-site")
                .is_some_and(|from| from != "same-origin" && from != "none");
            let refused = cross_site_fault(method, &headers, &ours, None, CrossSiteVisits::Refused);
            assert_eq!(
                refused.is_none(),
                *expected && !is_from_elsewhere,
                "{name}, without visits: {refused:?}"
            );
        }
    }

    #[test]
    fn where_tls_ends_here_a_plain_page_is_another_sites() {
        let ours = Authority::from_static("gate.example:8119");
        for (origin, expected) in [
            ("https://gate.example:8119", true),
            ("HTTPS://GATE.example:8119", true),
            ("http://gate.example:8119", false),
            ("https://gate.example", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            let scheme = Some("https");
            let refused =
                cross_site_fault(&Method::POST, &headers, &ours, scheme, CrossSiteVisits::Allowed);
            assert_eq!(refused.is_none(), expected, "{origin}: {refused:?}");
        }
    }

    #[test]
    fn a_request_names_one_authority() {
        let of = |uri: &str, hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, host.parse().expect("a field"));
            }
            let uri: Uri = uri.parse().expect("a URI");
            authority(&uri, &headers).map(|authority| authority.host().to_owned())
        };
        assert_eq!(of("/", &["a:1"]), Ok("a".to_owned()));
        assert_eq!(of("http://b/", &["a"]), Ok("b".to_owned()));
        assert_eq!(of("/", &["[::1]:8119"]), Ok("[::1]".to_owned()));
        assert!(of("/", &[]).is_err());
        assert!(of("/", &["a", "a"]).is_err());
        assert!(of("/", &["localhost@evil.example"]).is_err());
        assert!(of("/", &[""]).is_err());
    }
}
