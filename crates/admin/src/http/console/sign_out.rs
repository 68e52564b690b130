//! The end of a browser's sign-in.
//!
//! A browser keeps a user's password until it is closed, or until an answer refuses it. So signing out is an answer that
//! refuses the password; the browser prompts for another one, and leads to the overview with another user's.

use askama::Template;
use axum::extract::RawQuery;
use axum::response::{IntoResponse as _, Redirect, Response};
use http::{HeaderMap, StatusCode};

use super::super::Actor;
use super::super::guard::challenge;
use super::super::problem::Problem;
use super::filter::params;
use super::layout::Page;
use super::problem_page::takes_html;

/// The page without the frame, which shows the user who has left. It loads nothing: a browser without a password would
/// prompt for one with each request.
#[derive(Template)]
#[template(path = "sign_out.html", config = "src/http/console/askama.toml")]
struct SignedOut;

/// Serves `/sign-out?user=…`.
pub(super) async fn page(
    actor: Actor,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut params = params(query.as_deref());
    let user = params.text("user")?;
    params.finish(&["user"])?;
    if user.is_none() || user.as_deref() != actor.name() {
        return Ok(Redirect::to("/").into_response());
    }
    let why = "you are signed out; the browser has dropped your password";
    Ok(if takes_html(&headers) {
        challenge((StatusCode::UNAUTHORIZED, Page(SignedOut)))
    } else {
        challenge(Problem::new(StatusCode::UNAUTHORIZED, why))
    })
}
