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
use thiserror::Error;
use tokio::time::timeout;

use super::AppState;
use crawlgate_proxy::Proxy;
use crawlgate_store::StoreErrorKind;
use crawlgate_turns::fleet::LinkState;

/// Time that the store may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the routes.
pub fn routes() -> Router<AppState> {
    Router::new().route("/live", get(live)).route("/ready", get(ready))
}

/// The readiness to answer requests, with each check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Readiness {
    /// True if all checks pass.
    pub ready: bool,
    /// The checks.
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Check {
    /// The name: `listeners`, `draining`, `store`, `log`, `ca` or `fleet`.
    pub name: Cow<'static, str>,
    /// True if the check passes.
    pub ok: bool,
    /// The finding.
    pub detail: String,
}

/// The reason why a check does not pass.
#[derive(Debug, Error)]
enum Unready {
    #[error("no crawler can connect yet")]
    NoListener,
    #[error("no new requests are taken: the process is about to end")]
    Stopping,
    #[error("{0}")]
    StoreFault(&'static str),
    // Without a token, a client must not learn the store's path.
    #[error("it cannot be read: {0:?}")]
    StoreUnreadable(StoreErrorKind),
    #[error("it does not answer")]
    StoreSilent,
    #[error("decisions reach the store late, and requests wait for them")]
    LogBehind,
    #[error("decisions cannot be recorded at present; the messages say why")]
    LogFailed,
    #[error("its certificate cannot be read")]
    CaUnreadable,
    #[error("its certificate is not valid yet")]
    CaTooNew,
    #[error("its certificate has expired")]
    CaExpired,
    #[error("cut off: nothing is forwarded")]
    CutOff,
}

async fn live() -> Json<serde_json::Value> {
    Json(serde_json::json!({ "live": true }))
}

async fn ready(State(app): State<AppState>) -> (StatusCode, Json<Readiness>) {
    let readiness = readiness(app.proxy()).await;
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
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

fn check(name: &'static str, outcome: Result<String, Unready>) -> Check {
    let ok = outcome.is_ok();
    let detail = outcome.unwrap_or_else(|why| why.to_string());
    let name = name.into();
    Check { name, ok, detail }
}

fn listeners(proxy: &Proxy) -> Check {
    let outcome = match proxy.addresses().as_slice() {
        [] => Err(Unready::NoListener),
        some => Ok(format!("{} open", some.len())),
    };
    check("listeners", outcome)
}

fn draining(proxy: &Proxy) -> Check {
    let outcome = if proxy.is_stopping() { Err(Unready::Stopping) } else { Ok("no".to_owned()) };
    check("draining", outcome)
}

async fn store(proxy: &Proxy) -> Check {
    let outcome = match proxy.log().store() {
        None => Ok("none is configured".to_owned()),
        Some(store) => match timeout(TIMEOUT, store.version()).await {
            Ok(Ok(_)) => match store.fault() {
                None => Ok("open".to_owned()),
                Some(fault) => Err(Unready::StoreFault(fault)),
            },
            Ok(Err(error)) => Err(Unready::StoreUnreadable(error.kind)),
            Err(_) => Err(Unready::StoreSilent),
        },
    };
    check("store", outcome)
}

fn log(proxy: &Proxy) -> Check {
    let log = proxy.log();
    let outcome = match log.failure() {
        None if log.is_behind() => Err(Unready::LogBehind),
        None => Ok("decisions are recorded".to_owned()),
        Some(_) => Err(Unready::LogFailed),
    };
    check("log", outcome)
}

fn fleet(proxy: &Proxy) -> Check {
    let link = proxy.gate().fleet().map(|fleet| fleet.link());
    let outcome = match link {
        None => Ok("none is configured".to_owned()),
        Some(LinkState::Connected) => Ok("connected".to_owned()),
        Some(LinkState::Doubtful) => {
            Ok("the engine does not answer; unknown origins and paced requests are held".to_owned())
        }
        Some(LinkState::CutOff) => Err(Unready::CutOff),
    };
    check("fleet", outcome)
}

fn ca(proxy: &Proxy) -> Check {
    use x509_parser::parse_x509_certificate;
    let authority = proxy.authority();
    let der = authority.certificate_der();
    let now = proxy.clock().now().as_millis() / 1_000;
    let outcome = match parse_x509_certificate(der) {
        Err(_) => Err(Unready::CaUnreadable),
        Ok((_, certificate)) => {
            let validity = certificate.validity();
            let bound = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp());
            let (from, to) = (bound(validity.not_before), bound(validity.not_after));
            match (from.unwrap_or(0), to.unwrap_or(0)) {
                (from, _) if now < from => Err(Unready::CaTooNew),
                (_, to) if now > to => Err(Unready::CaExpired),
                _ => Ok("loaded".to_owned()),
            }
        }
    };
    check("ca", outcome)
}
