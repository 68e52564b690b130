//! Who is let in, and what a browser may do with what it gets.
//!
//! Before any page: the name that was asked for is one of ours (a stranger's name that leads to this address is DNS
//! rebinding), the token is shown where there is one, and what changes something comes from our own pages and not from
//! somebody else's that the operator's browser happens to show. After any page: headers that let it load nothing from
//! elsewhere, be framed by nobody and be kept by no cache.
//!
//! `/live` and `/ready` tell nothing that a stranger could use, and are asked by programs that know neither name nor
//! token: they are let through.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::Authority;
use http::{Method, StatusCode, Uri};
use tokio::time::timeout;

use super::Site;
use super::decide;
use super::problem::Problem;

/// How long an answer may take to begin, beside what the configuration lets a fetch and a hold take.
const GRACE: Duration = Duration::from_secs(60);

/// What a page may load: its own style, script and pictures, from here.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What every answer says, unless it says otherwise itself. The referrer is kept from others only: a browser that is told
/// to send none says that a form comes from nowhere.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Lets in who may come in, and sees to what goes out.
pub async fn admit(State(site): State<Site>, request: Request, next: Next) -> Response {
    let refused = if is_health(&request) {
        None
    } else {
        refusal(&site, &request)
    };
    let mut response = match refused {
        Some(refused) => refused,
        None => {
            let patience = patience(&site);
            timeout(patience, next.run(request))
                .await
                .unwrap_or_else(|_| {
                    Problem::busy("this takes too long; ask for less, or try again").into_response()
                })
        }
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Refreshing may wait for one fetch and then make another; a decision may be held for robots.txt, and then for its turn.
fn patience(site: &Site) -> Duration {
    let settings = site.proxy().settings();
    let fetches = settings.robots.fetch_timeout * 2;
    let holds = settings.robots.hold + settings.pace.max_hold;
    fetches.max(holds) + GRACE
}

fn is_health(request: &Request) -> bool {
    matches!(request.uri().path(), "/live" | "/ready")
        && matches!(*request.method(), Method::GET | Method::HEAD)
}

fn refusal(site: &Site, request: &Request) -> Option<Response> {
    let authority = match authority(request.uri(), request.headers()) {
        Ok(authority) => authority,
        Err(why) => return Some(Problem::bad(why).into_response()),
    };
    let is_borrowed = decide::borrows_head(request.uri().path());
    if !is_borrowed && !is_ours(authority.host(), site.hosts()) {
        let host = authority.host();
        let why = format!(
            "{host}: this is not a name of this console; use its address, or put the name into [admin] hosts"
        );
        return Some(Problem::new(StatusCode::MISDIRECTED_REQUEST, why).into_response());
    }
    if site
        .token()
        .is_some_and(|token| !token.is_shown(request.headers()))
    {
        return Some(unauthenticated());
    }
    let path = request.uri().path();
    if decide::is_told_in_fields(path) {
        return None;
    }
    let visits = match decide::is_asked_at(path) {
        true => Visits::Refused,
        false => Visits::Taken,
    };
    crosses(request.method(), request.headers(), &authority, visits)
        .map(|why| Problem::new(StatusCode::FORBIDDEN, why).into_response())
}

fn unauthenticated() -> Response {
    let why = "show the token of [admin] token_file: Authorization: Bearer …, or as the password to any name";
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, why).into_response();
    let headers = response.headers_mut();
    for challenge in [
        "Basic realm=\"crawlgate\", charset=\"UTF-8\"",
        "Bearer realm=\"crawlgate\"",
    ] {
        headers.append(
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static(challenge),
        );
    }
    response
}

/// The authority that was asked for: of the target, where that has one, else of the only Host field (RFC 9112,
/// section 3.2).
fn authority(uri: &Uri, headers: &HeaderMap) -> Result<Authority, &'static str> {
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

/// Whether this host leads here by nobody's doing but ours: an address, which no name server can turn elsewhere, a name
/// for loopback (RFC 6761, section 6.3), or a name that the operator gave.
fn is_ours(host: &str, hosts: &[String]) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    if hosts.contains(&name) {
        return true;
    }
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        // No address of anything, though it leads to this machine: browsers have let pages of others ask for it.
        return !address.to_canonical().is_unspecified();
    }
    name == "localhost" || name.ends_with(".localhost")
}

/// What becomes of a browser that was led here by another site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visits {
    /// It sees the page that it asks for.
    Taken,
    /// What it asks for is no page, and has effects: a record, a client's quota, an origin's turn.
    Refused,
}

/// Why a request is held to be made by somebody else's page, if it is. A program that is no browser says nothing of where
/// it comes from, and is let through: no page can make it ask.
fn crosses(
    method: &Method,
    headers: &HeaderMap,
    authority: &Authority,
    visits: Visits,
) -> Option<&'static str> {
    const CROSSES: &str =
        "this comes from another site's page; only pages of this console may ask for it";
    let field = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_safe = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    let from = field("sec-fetch-site");
    let is_visit =
        visits == Visits::Taken && is_safe && field("sec-fetch-mode") == Some("navigate");
    match from {
        None | Some("same-origin" | "none") => {}
        // A link from elsewhere may be followed; nothing is changed by that.
        Some(_) if is_visit => {}
        Some(_) => return Some(CROSSES),
    }
    if is_safe {
        return None;
    }
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let (Some(origin), others) = (origins.next(), origins.next()) else {
        return None;
    };
    let same = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.split_once("://"))
        // Behind a proxy that ends TLS the schemes differ.
        .is_some_and(|(_, theirs)| theirs.eq_ignore_ascii_case(authority.as_str()));
    (!same || others.is_some()).then_some(CROSSES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_ours_or_a_strangers() {
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
            let refused = crosses(method, &headers, &ours, Visits::Taken);
            assert_eq!(refused.is_none(), *expected, "{name}: {refused:?}");
            let is_from_elsewhere = headers
                .get("sec-fetch-site")
                .is_some_and(|site| site != "same-origin" && site != "none");
            let refused = crosses(method, &headers, &ours, Visits::Refused);
            assert_eq!(
                refused.is_none(),
                *expected && !is_from_elsewhere,
                "{name}, without visits: {refused:?}"
            );
        }
    }

    #[test]
    fn one_authority_is_asked_for() {
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
