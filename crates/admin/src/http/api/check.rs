//! Judges a URL and explains the decision.

use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use http::header::CONTENT_TYPE;
use serde::Deserialize;

use super::QueryParams;
use crate::http::judge::{self, InvalidField, JudgeError};
use crate::http::problem::Problem;
use crate::http::{AppState, BODY_WITH_ROBOTS};
use crawlgate_gate::explain::{Judgement, document};

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/check", post(check)).layer(DefaultBodyLimit::max(BODY_WITH_ROBOTS))
}

/// The URL to judge.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The URL, with its scheme.
    #[cfg_attr(feature = "openapi", schema(example = "https://site.example/private"))]
    pub url: String,
    /// The requester: product tokens, most specific first, or whole User-Agents. Without one, `[agent] product_tokens`,
    /// else the rules for `*`.
    #[serde(default)]
    pub agents: Vec<String>,
    /// The text to judge by instead of the origin's robots.txt. It alone decides: a matching override is reported, but
    /// not applied.
    pub robots: Option<String>,
    /// The purposes of the fetch: `search`, `train-ai`, `ai-input`, `tdm`, `other`. A use that the site disallows is refused.
    /// Without one, `[policy] purposes`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(example = json!(["train-ai"])))]
    pub purposes: Vec<String>,
}

/// Explain the decision about a URL
///
/// Only robots.txt is fetched, as for a request; nothing is recorded.
#[cfg_attr(feature = "openapi", utoipa::path(
    post, path = "/check", tag = "decisions",
    request_body = Question,
    responses(
        (status = 200, description = "The verdict, with each step to it", body = crawlgate_gate::explain::document::Document<'static>),
        (status = "4XX", description = "The URL cannot be judged, or the request is not valid"),
    ),
))]
pub(super) async fn check(
    State(app): State<AppState>,
    QueryParams(params): QueryParams,
    Json(question): Json<Question>,
) -> Result<Response, Problem> {
    params.finish(&[])?;
    let judged = app.explain(question).await?;
    let json = document::of(&judged);
    Ok(([(CONTENT_TYPE, "application/json")], json).into_response())
}

impl AppState {
    /// Judges a URL as the proxy would, and keeps each step.
    ///
    /// # Errors
    /// When the URL or the requester is not valid, or the overrides cannot be read.
    pub async fn explain(&self, question: Question) -> Result<Judgement, Problem> {
        let asked = judge::JudgeRequest {
            url: &question.url,
            agents: &question.agents,
            robots: question.robots.map(|text| (text, "robots.txt")),
            purposes: &question.purposes,
        };
        self.judge(asked).await.map_err(|unjudged| match unjudged {
            JudgeError::Problem(problem) => problem,
            JudgeError::InvalidField(invalid) => Problem::bad(match invalid {
                InvalidField::Agent(_) => format!("agents: {invalid}"),
                InvalidField::Url { .. } => format!("url {invalid}"),
                InvalidField::Purposes(_) => format!("purposes: {invalid}"),
            }),
        })
    }
}
