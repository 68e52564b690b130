//! Liveness and readiness of the process, over HTTP and for `crawlgate ready`.
//!
//! The process is alive if it answers. The process is ready if it would forward a request: it listens, is not about to
//! end, can store its decisions, has a CA that clients can trust, and
//! is not cut off from its fleet.

use std::borrow::Cow;
use std::time::Duration;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use utoipa::ToSchema;

use super::Site;
use crate::fleet::LinkState;
use crate::proxy::Proxy;

/// Time that the store may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the routes.
pub fn routes() -> Router<Site> {
    Router::new()
        .route("/live", get(live))
        .route("/ready", get(ready))
}

/// The readiness to answer requests, with each check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// True if all checks pass.
    pub ready: bool,
    /// The checks.
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// The name: `listeners`, `draining`, `store`, `log`, `ca` or `fleet`.
    pub name: Cow<'static, str>,
    /// True if the check passes.
    pub ok: bool,
    /// The finding.
    pub detail: String,
}

async fn live() -> Json<serde_json::Value> {
    Json(serde_json::json!({ "live": true }))
}

async fn ready(State(site): State<Site>) -> (StatusCode, Json<Readiness>) {
    let readiness = readiness(site.proxy()).await;
    let status = match readiness.ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(readiness))
}

/// Runs all checks.
pub async fn readiness(proxy: &Proxy) -> Readiness {
    let checks = vec![
        listeners(proxy),
        draining(proxy),
        store(proxy).await,
        log(proxy),
        ca(proxy),
        fleet(proxy),
    ];
    let ready = checks.iter().all(|check| check.ok);
    Readiness { ready, checks }
}

fn check(name: &'static str, outcome: Result<String, String>) -> Check {
    let ok = outcome.is_ok();
    let detail = outcome.unwrap_or_else(|why| why);
    let name = name.into();
    Check { name, ok, detail }
}

fn listeners(proxy: &Proxy) -> Check {
    let outcome = match proxy.places().as_slice() {
        [] => Err("no crawler can connect yet".to_owned()),
        some => Ok(format!("{} open", some.len())),
    };
    check("listeners", outcome)
}

fn draining(proxy: &Proxy) -> Check {
    let outcome = match proxy.is_stopping() {
        true => Err("no new requests are taken: the process is about to end".to_owned()),
        false => Ok("no".to_owned()),
    };
    check("draining", outcome)
}

async fn store(proxy: &Proxy) -> Check {
    let outcome = match proxy.log().store() {
        None => Ok("none is configured".to_owned()),
        Some(store) => match timeout(PATIENCE, store.version()).await {
            Ok(Ok(_)) => match store.fault() {
                None => Ok("open".to_owned()),
                Some(fault) => Err(fault.to_owned()),
            },
            // Without a token, a client must not learn the store's path.
            Ok(Err(error)) => Err(format!("it cannot be read: {:?}", error.kind)),
            Err(_) => Err("it does not answer".to_owned()),
        },
    };
    check("store", outcome)
}

fn log(proxy: &Proxy) -> Check {
    let log = proxy.log();
    let outcome = match log.failure() {
        None if log.is_behind() => {
            Err("decisions reach the store late, and requests wait for them".to_owned())
        }
        None => Ok("decisions are recorded".to_owned()),
        Some(_) => Err("decisions cannot be recorded at present; the messages say why".to_owned()),
    };
    check("log", outcome)
}

fn fleet(proxy: &Proxy) -> Check {
    let link = proxy.gate().fleet().map(|fleet| fleet.link());
    let outcome = match link {
        None => Ok("none is configured".to_owned()),
        Some(LinkState::Connected) => Ok("connected".to_owned()),
        Some(LinkState::Doubtful) => Ok(
            "the engine does not answer; unknown origins and paced requests are held".to_owned(),
        ),
        Some(LinkState::CutOff) => Err("cut off: nothing is forwarded".to_owned()),
    };
    check("fleet", outcome)
}

fn ca(proxy: &Proxy) -> Check {
    use x509_parser::parse_x509_certificate;
    let authority = proxy.authority();
    let der = authority.certificate_der();
    let now = proxy.clock().now().as_millis() / 1_000;
    let outcome = match parse_x509_certificate(der) {
        Err(_) => Err("its certificate cannot be read".to_owned()),
        Ok((_, certificate)) => {
            let validity = certificate.validity();
            let bound = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp());
            let (from, to) = (bound(validity.not_before), bound(validity.not_after));
            match (from.unwrap_or(0), to.unwrap_or(0)) {
                (from, _) if now < from => Err("its certificate is not valid yet".to_owned()),
                (_, to) if now > to => Err("its certificate has expired".to_owned()),
                _ => Ok("loaded".to_owned()),
            }
        }
    };
    check("ca", outcome)
}
