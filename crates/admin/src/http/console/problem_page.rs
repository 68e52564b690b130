//! Turns a problem document into a page for browsers.

use askama::Template;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use serde::Deserialize;

use super::super::decide;
use super::super::problem::MEDIA_TYPE;
use super::super::{Actor, AppState};
use super::layout::{Layout, Page, Section};

/// Octets of a problem document to read.
const LONGEST: usize = 64 * 1024;

#[derive(Template)]
#[template(path = "problem.html", config = "src/http/console/askama.toml")]
struct ProblemPage {
    layout: Layout,
    status: u16,
    detail: String,
}

#[derive(Deserialize)]
struct ProblemDocument {
    title: String,
    status: u16,
    detail: String,
}

/// Replaces problem documents by pages for browsers, and counts what the navigation shows. Answers to programs stay
/// unchanged.
pub async fn render_problem(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_for_programs =
        path.starts_with("/api/") || path == "/metrics" || decide::is_decide_path(path);
    let takes_html = takes_html(request.headers());
    if takes_html
        && !is_for_programs
        && let Some(store) = app.store()
    {
        app.open_denials().refresh(store).await;
    }
    let actor = request.extensions().get::<Actor>().cloned();
    let response = next.run(request).await;
    let is_problem =
        response.headers().get(CONTENT_TYPE).is_some_and(|media_type| media_type == MEDIA_TYPE);
    let Some(actor) = actor.filter(|_| !is_for_programs && takes_html && is_problem) else {
        return response;
    };
    let (mut head, body) = response.into_parts();
    let Ok(body) = to_bytes(body, LONGEST).await else {
        return Response::from_parts(head, Body::empty());
    };
    let Ok(problem) = serde_json::from_slice::<ProblemDocument>(&body) else {
        return Response::from_parts(head, Body::from(body));
    };
    let page = Page(ProblemPage {
        layout: Layout::new(&app, &actor, Section::Elsewhere, problem.title),
        status: problem.status,
        detail: problem.detail,
    });
    let (ours, body) = page.into_response().into_parts();
    head.headers.remove(CONTENT_LENGTH);
    head.headers.extend(ours.headers);
    Response::from_parts(head, body)
}

/// Tells whether a browser asks, for a page.
pub(super) fn takes_html(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}
