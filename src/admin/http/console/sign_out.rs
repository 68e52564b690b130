//! The end of a browser's sign-in.
//!
//! A browser keeps a user's password until it is closed, or until an answer refuses it. So signing out is an answer that
//! refuses the password; the browser prompts for another one, and leads to the overview with another user's.

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::StatusCode;

use super::super::guard::challenge;
use super::super::problem::Problem;
use super::super::{Actor, Site};
use super::filter::{params, wrong};

/// Serves `/sign-out?user=…`.
pub(super) async fn page(
    State(_): State<Site>,
    actor: Actor,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut params = params(query.as_deref());
    let user = params.text("user").map_err(wrong)?;
    params.finish(&["user"]).map_err(wrong)?;
    if user.is_none() || user.as_deref() != actor.name() {
        return Ok(Redirect::to("/").into_response());
    }
    let why = "you are signed out; the browser has dropped your password";
    Ok(challenge(Problem::new(StatusCode::UNAUTHORIZED, why)))
}
