//! The page that sets up clients: the CA certificate, the settings of each, and a test.

use std::net::SocketAddr;
use std::path::Path;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};

use super::super::{Actor, AppState};
use super::layout::{Layout, Page, Section};
use crawlgate_ca::{Authority, text};
use crawlgate_proxy::SELF_TEST;
use crawlgate_proxy::listener::ListenAddr as Listens;
use crawlgate_trust::recipes::{CLIENTS, Recipe, Setup, proxy_url};

#[derive(Template)]
#[template(path = "setup.html", config = "src/http/console/askama.toml")]
pub(super) struct SetupPage {
    layout: Layout,
    /// None if crawlers connect only at Unix sockets, which the settings of these clients cannot name.
    proxy: Option<String>,
    /// Unix sockets where crawlers connect.
    sockets: Vec<String>,
    self_test: &'static str,
    subject: String,
    fingerprint: String,
    spki: String,
    valid: (String, String),
    recipes: Vec<Recipe>,
    /// Files that some recipes name and that do not exist.
    missing: Vec<String>,
}

/// `/setup`
pub(super) async fn page(State(app): State<AppState>, actor: Actor) -> Page<SetupPage> {
    let authority = app.proxy().authority();
    let settings = app.proxy().settings();
    let (addresses, sockets) = match app.proxy().addresses().as_slice() {
        [] => (settings.listen.addresses.clone(), Vec::new()),
        open => apart(open),
    };
    let certificate = settings.tls.ca_cert.as_path();
    let beside = |name: &str| absolute(&certificate.with_file_name(name));
    let setup = Setup {
        proxy: proxy_url(&addresses),
        ca: absolute(certificate),
        next: authority.next().map(|next| absolute(next.path())),
        authorities: beside("authorities.pem"),
        bundle: beside("bundle.pem"),
        truststore: beside("truststore.jks"),
        spki: spki_list(&authority),
    };
    let exports = [&setup.authorities, &setup.bundle, &setup.truststore];
    let missing = exports.into_iter().filter(|file| !Path::new(file).exists());
    let missing = missing.cloned().collect();
    let recipes = CLIENTS.into_iter().filter_map(|name| setup.one(name));
    Page(SetupPage {
        layout: Layout::new(&app, &actor, Section::Setup, "Set-up"),
        recipes: recipes.collect(),
        proxy: (!addresses.is_empty() || sockets.is_empty()).then(|| setup.proxy.clone()),
        sockets,
        self_test: SELF_TEST,
        subject: authority.subject().to_owned(),
        fingerprint: authority.fingerprint_sha256(),
        spki: setup.spki.clone(),
        valid: (text::date(authority.not_before()), text::date(authority.not_after())),
        missing,
    })
}

/// Separates TCP ports from the paths of Unix sockets.
fn apart(places: &[Listens]) -> (Vec<SocketAddr>, Vec<String>) {
    let (mut addresses, mut sockets) = (Vec::new(), Vec::new());
    for place in places {
        match place {
            Listens::Address(address) => addresses.push(*address),
            Listens::Unix(path) => sockets.push(path.display().to_string()),
        }
    }
    (addresses, sockets)
}

/// Returns the key in force, and during a rotation the next one.
fn spki_list(authority: &Authority) -> String {
    let next = authority.next().map(|next| next.spki_sha256_base64());
    let all = [Some(authority.spki_sha256_base64()), next];
    let all: Vec<String> = all.into_iter().flatten().collect();
    all.join(",")
}

/// Makes a path absolute: users paste it elsewhere.
fn absolute(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
    absolute.display().to_string()
}

/// Serves `/ca.crt`: the certificate, which is public. Its key is never read here.
pub(super) async fn certificate(State(app): State<AppState>) -> Response {
    let certificate = app.proxy().authority().certificate_pem().to_owned();
    let mut response = certificate.into_response();
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, "application/x-x509-ca-cert"),
        (CONTENT_DISPOSITION, "attachment; filename=\"crawlgate-ca.crt\""),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
