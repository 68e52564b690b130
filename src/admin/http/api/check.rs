//! Judges a URL and explains the decision.

use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use http::header::CONTENT_TYPE;
use serde::Deserialize;
use tokio::task::spawn_blocking;
use utoipa::ToSchema;

use super::Asked;
use crate::admin::http::problem::Problem;
use crate::admin::http::{BODY_WITH_ROBOTS, Site};
use crate::config::Mode;
use crate::explain::document::Document;
use crate::explain::{self, Evaluation, Evaluator, Judgement, document};
use crate::policy::overrides::Overrides;
use crate::robots::identity::Crawler;

pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/check", post(check))
        .layer(DefaultBodyLimit::max(BODY_WITH_ROBOTS))
}

/// The URL to judge.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The URL, with its scheme.
    #[schema(example = "https://site.example/private")]
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
    #[schema(example = json!(["train-ai"]))]
    pub purposes: Vec<String>,
}

/// Explain the decision about a URL
///
/// Only robots.txt is fetched, as for a request; nothing is recorded.
#[utoipa::path(
    post, path = "/check", tag = "decisions",
    request_body = Question,
    responses(
        (status = 200, description = "The verdict, with each step to it", body = Document<'static>),
        (status = "4XX", description = "The URL cannot be judged, or the request is not valid", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not now", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn check(
    State(site): State<Site>,
    Asked(params): Asked,
    Json(question): Json<Question>,
) -> Result<Response, Problem> {
    params.finish(&[])?;
    let judged = site.explain(question).await?;
    let json = document::of(&judged);
    Ok(([(CONTENT_TYPE, "application/json")], json).into_response())
}

impl Site {
    /// Judges a URL as the proxy would, and keeps each step. Fetches robots.txt as for a request, and tdmrep.json where the
    /// proxy would ask for it; nothing else.
    ///
    /// # Errors
    /// When the URL or the requester is not valid, or the overrides cannot be read.
    pub async fn explain(&self, question: Question) -> Result<Judgement, Problem> {
        let settings = self.proxy().settings();
        let Question {
            url,
            agents,
            robots,
            purposes,
        } = question;
        let target =
            explain::target(&url).map_err(|why| Problem::bad(format!("url {url}: {why}")))?;
        let agent = explain::agent(&agents, &settings)
            .map_err(|why| Problem::bad(format!("agents: {why}")))?;
        let mut asked = explain::usage::Asked::configured(&settings);
        if !purposes.is_empty() {
            asked.purposes = explain::usage::purposes(&purposes)
                .map_err(|why| Problem::bad(format!("purposes: {why}")))?;
        }
        let stored = match self.store() {
            Some(store) => store.overrides().await?,
            None => Vec::new(),
        };
        let configured = settings.policy.overrides.iter().cloned();
        let evaluator = Evaluator {
            agent,
            required: settings.agent.required(),
            overrides: Overrides::new(configured.chain(stored)),
            settings: settings.robots.settings(Mode::Enforce),
            asked,
        };
        let now = self.now();
        let (target, asserted) = match evaluator.begin(target, now) {
            Evaluation::Judged(judged) => return Ok(*judged),
            Evaluation::Open(target, asserted) => (target, asserted),
        };
        let fetched = match &robots {
            Some(_) => None,
            None => {
                let cache = self.proxy().gate().robots_cache();
                let crawler = Crawler::named(&evaluator.agent.tokens);
                let view = cache.view(&target.origin, crawler).await;
                let tdmrep = match evaluator.asks_for_tdmrep(&target, &view) {
                    true => explain::tdmrep::fetch(cache, &target, crawler).await,
                    false => None,
                };
                Some((view, tdmrep))
            }
        };
        let _turn = self.turn().await?;
        // A long file and a long path take a while.
        let judging = spawn_blocking(move || match (robots, fetched) {
            (Some(text), _) => {
                let file = explain::file(text.as_bytes(), "robots.txt", &settings.robots, now);
                let view = explain::view(&file, &settings.robots, now);
                Some(evaluator.by_file(target, asserted, view))
            }
            (None, Some((view, tdmrep))) => {
                Some(evaluator.by_origin(target, asserted, view, tdmrep.as_deref()))
            }
            (None, None) => None,
        });
        let judged = judging.await.ok().flatten();
        judged.ok_or_else(|| Problem::busy("the judgement was cut off"))
    }
}
