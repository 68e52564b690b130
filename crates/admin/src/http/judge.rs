//! A question about a URL, from the API or the console: the judgement of the proxy, with each step to it.
//!
//! Robots.txt is fetched as for a request, and tdmrep.json where the proxy would ask for it; nothing is recorded.

use thiserror::Error;
use tokio::task::spawn_blocking;

use super::AppState;
use super::problem::Problem;
use crawlgate_gate::explain::{
    self, AgentError, Documents, Evaluation, Evaluator, Judgement, PurposeError, UrlError, usage,
};
use crawlgate_policy::overrides::{Override, Overrides};

/// A question about a URL.
pub(super) struct JudgeRequest<'a> {
    pub(super) url: &'a str,
    /// Product tokens, most specific first, or whole User-Agents; none: as configured.
    pub(super) agents: &'a [String],
    /// A text to judge by instead of the origin's robots.txt, and its name.
    pub(super) robots: Option<(String, &'static str)>,
    /// None: as configured.
    pub(super) purposes: &'a [String],
}

/// A part of the question that names nothing to judge.
#[derive(Debug, Error)]
pub(super) enum InvalidField {
    #[error(transparent)]
    Agent(AgentError),
    #[error("{url}: {error}")]
    Url { url: String, error: UrlError },
    #[error(transparent)]
    Purposes(PurposeError),
}

/// The reason for no judgement.
pub(super) enum JudgeError {
    InvalidField(InvalidField),
    /// The question cannot be answered now.
    Problem(Problem),
}

impl From<InvalidField> for JudgeError {
    fn from(invalid: InvalidField) -> JudgeError {
        JudgeError::InvalidField(invalid)
    }
}

impl From<Problem> for JudgeError {
    fn from(problem: Problem) -> JudgeError {
        JudgeError::Problem(problem)
    }
}

/// The texts that a judgement rests on.
enum Basis {
    /// A robots.txt of the question, and its name.
    Text(String, &'static str),
    /// The documents of the origin.
    Documents(Documents),
}

impl AppState {
    /// Judges a URL as the proxy would.
    pub(super) async fn judge(&self, request: JudgeRequest<'_>) -> Result<Judgement, JudgeError> {
        let settings = self.proxy().settings();
        let url = request.url;
        let target = explain::target(url)
            .map_err(|error| InvalidField::Url { url: url.to_owned(), error })?;
        let agent = explain::agent(request.agents, &settings).map_err(InvalidField::Agent)?;
        let mut asked = usage::UsageQuery::configured(&settings);
        if !request.purposes.is_empty() {
            asked.purposes = usage::purposes(request.purposes).map_err(InvalidField::Purposes)?;
        }
        let overrides = self.overrides().await?;
        let evaluator = Evaluator::of(agent, asked, Overrides::new(overrides), &settings);
        let now = self.now();
        let (target, asserted) = match evaluator.begin(target, now) {
            Evaluation::Judged(judged) => return Ok(*judged),
            Evaluation::Open(target, asserted) => (target, asserted),
        };
        let cache = self.proxy().gate().robots_cache();
        let basis = match request.robots {
            Some((text, name)) => Basis::Text(text, name),
            None => Basis::Documents(evaluator.fetch(cache, &target).await),
        };
        let _permit = self.work_permit().await?;
        // A long file and a long path take a while.
        let judging = spawn_blocking(move || match basis {
            Basis::Text(text, name) => {
                let file = explain::file(text.as_bytes(), name, &settings.robots, now);
                let view = explain::view(&file, &settings.robots, now);
                evaluator.by_file(target, asserted, view)
            }
            Basis::Documents(documents) => evaluator.by_origin(target, asserted, documents),
        });
        let judged = judging.await;
        judged.map_err(|_| Problem::busy("the judgement was cut off").into())
    }

    /// Returns all overrides, those of the configuration first.
    pub(super) async fn overrides(&self) -> Result<Vec<Override>, Problem> {
        let mut all = self.proxy().settings().policy.overrides.clone();
        if let Some(store) = self.store() {
            all.extend(store.overrides().await?);
        }
        Ok(all)
    }
}
