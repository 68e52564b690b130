//! The directory of keys of the identities that sign requests (Web Bot Auth).
//!
//! Any verifier may read it, so neither token nor host guard applies. The request must name the authority of an identity's
//! URL: the directory is signed for no other name.

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{HeaderName, HeaderValue};

use super::AppState;
use super::guard::authority;
use super::problem::Problem;
use crawlgate_signing::settings::WELL_KNOWN;

/// Returns the route.
pub fn routes() -> Router<AppState> {
    Router::new().route(WELL_KNOWN, get(directory))
}

async fn directory(State(app): State<AppState>, request: Request) -> Response {
    let asked = authority(request.uri(), request.headers()).ok();
    let egress = app.proxy().egress();
    let found = asked.and_then(|asked| egress.directory(asked.as_str(), app.now()));
    let Some(directory) = found else {
        let why = "no [[signing]] has an agent URL with this host; a proxy before this listener has to pass the Host field on";
        return Problem::missing(why).into_response();
    };
    let fields = directory
        .fields()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value)));
    let mut response = directory.body.clone().into_response();
    for (name, value) in fields {
        // Thumbprints, digests and numbers may stand in a field.
        if let Ok(value) = value {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
