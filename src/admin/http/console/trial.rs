//! The page to try a URL: the verdict, explained as by `crawlgate check`. Only robots.txt is fetched, and nothing is
//! recorded.

use askama::Template;
use axum::extract::{RawQuery, State};
use serde::Deserialize;

use super::super::Site;
use super::super::form::Posted;
use super::super::question::{self, Unjudged};
use super::explained::Explained;
use super::filter::{params, wrong};
use super::shell::{Page, Place, Shell, Shown};
use super::text::Text;
use super::usage::UsageTable;
use super::words::{line, octets};
use crate::explain::{self, Alternative, Judgement, meaning};
use crate::policy::Verdict;
use crate::policy::overrides::Override;
use crate::rep::Lint;

/// Remarks on a file to show.
const NOTES: usize = 50;

#[derive(Template)]
#[template(path = "try.html", config = "src/admin/http/console/askama.toml")]
pub(super) struct TryPage {
    shell: Shell,
    url: String,
    agent: String,
    purposes: String,
    robots: String,
    verdict: Option<Told>,
    /// The reason why the URL cannot be judged.
    wrong: Option<String>,
}

/// A verdict, in words.
struct Told {
    verdict: &'static str,
    class: &'static str,
    reason: &'static str,
    meaning: String,
    asserted: Option<String>,
    aside: Option<String>,
    /// The robots.txt file and its length.
    file: Option<String>,
    explained: Option<Explained>,
    usage: Option<UsageTable>,
    text: Option<Text>,
    notes: Vec<(u32, String, String)>,
    /// Remarks not shown.
    more: usize,
}

/// The fields of the form.
#[derive(Deserialize)]
pub(super) struct Question {
    url: String,
    #[serde(default)]
    agent: String,
    #[serde(default)]
    purposes: String,
    #[serde(default)]
    robots: String,
}

/// Serves `/try`: the form, filled from a link.
pub(super) async fn page(State(site): State<Site>, RawQuery(query): RawQuery) -> Shown<TryPage> {
    let mut params = params(query.as_deref());
    let url = params.text("url").map_err(wrong)?;
    let agent = params.text("agent").map_err(wrong)?;
    let purposes = params.text("purposes").map_err(wrong)?;
    params
        .finish(&["url", "agent", "purposes"])
        .map_err(wrong)?;
    Ok(Page(TryPage {
        shell: Shell::new(&site, Place::Try, "Try a URL"),
        url: line(&url.unwrap_or_default()),
        agent: line(&agent.unwrap_or_default()),
        purposes: line(&purposes.unwrap_or_default()),
        robots: String::new(),
        verdict: None,
        wrong: None,
    }))
}

/// Serves `POST /try`. POST, though it changes nothing here: it may fetch a robots.txt.
pub(super) async fn judge(
    State(site): State<Site>,
    Posted(question): Posted<Question>,
) -> Shown<TryPage> {
    let (verdict, wrong) = match judged(&site, &question).await {
        Ok(judged) => (Some(Told::of(&judged)), None),
        Err(Unjudged::Mistake(wrong)) => (None, Some(line(&wrong.to_string()))),
        Err(Unjudged::Problem(problem)) => return Err(problem),
    };
    Ok(Page(TryPage {
        shell: Shell::new(&site, Place::Try, "Try a URL"),
        url: line(&question.url),
        agent: line(&question.agent),
        purposes: line(&question.purposes),
        // Unchanged: the form is sent again from here.
        robots: question.robots.replace("\r\n", "\n"),
        verdict,
        wrong,
    }))
}

/// Asks what the form asks.
async fn judged(site: &Site, form: &Question) -> Result<Judgement, Unjudged> {
    let robots = Some(&form.robots).filter(|text| !text.trim().is_empty());
    let purposes = Some(form.purposes.clone()).filter(|words| !words.trim().is_empty());
    let question = question::Question {
        url: form.url.trim(),
        agents: &names(&form.agent),
        robots: robots.map(|text| (text.clone(), "the text below")),
        purposes: purposes.as_slice(),
    };
    site.judge(question).await
}

/// Reads product tokens, separated by white space or commas, or one whole User-Agent.
pub(super) fn names(text: &str) -> Vec<String> {
    let text = text.trim();
    let tokens: Vec<String> = text
        .split([',', ' ', '\t'])
        .filter(|token| !token.is_empty())
        .map(str::to_owned)
        .collect();
    let is_token = |token: &String| crate::rep::ProductToken::new(token).is_ok();
    if tokens.iter().all(is_token) {
        tokens
    } else {
        vec![text.to_owned()]
    }
}

impl Told {
    fn of(judged: &Judgement) -> Told {
        let decision = &judged.decision;
        let verdict = decision.verdict();
        let explained = judged.explanation.as_ref().map(Explained::of);
        let notes = judged
            .snapshot
            .as_ref()
            .map(|file| crate::usage::notes(&file.robots));
        let notes: Vec<Lint> = notes.unwrap_or_default();
        let text = judged.snapshot.as_ref().map(|file| {
            let speakers = explained.as_ref().map(Explained::speakers);
            let deciding = explained.as_ref().and_then(Explained::deciding);
            Text::of(
                file.robots.text(),
                None,
                deciding,
                &speakers.unwrap_or_default(),
            )
        });
        Told {
            verdict: verdict.as_str(),
            class: match verdict {
                Verdict::Allow => "good",
                Verdict::Deny => "bad",
                Verdict::Defer => "fair",
            },
            reason: decision.reason.as_str(),
            meaning: line(&meaning(decision)),
            asserted: decision.asserted.as_ref().map(|one| asserted(one)),
            aside: judged.alternative.as_ref().map(alternative),
            file: judged.snapshot.as_ref().map(|file| {
                let octets = file.robots.text().len();
                let cut = if file.robots.is_truncated() {
                    ", cut at the size limit"
                } else {
                    ""
                };
                line(&format!("{} ({octets} octets{cut})", file.final_url))
            }),
            explained,
            usage: judged
                .usage
                .as_ref()
                .and_then(explain::usage::Usage::record)
                .map(|record| UsageTable::of(&record)),
            text,
            more: notes.len().saturating_sub(NOTES),
            notes: notes
                .iter()
                .take(NOTES)
                .map(|note| {
                    (
                        note.line,
                        note.kind.to_string(),
                        octets(note.text.as_bytes()),
                    )
                })
                .collect(),
        }
    }
}

fn asserted(one: &Override) -> String {
    let (id, action, origin, pattern) = (one.id, one.action.as_str(), &one.origin, &one.pattern);
    line(&format!(
        "{id}: {action} {origin}{pattern}, by {}: {}",
        one.by, one.reason
    ))
}

fn alternative(alternative: &Alternative) -> String {
    match alternative {
        Alternative::Override(one) => {
            let told = asserted(one);
            format!("The proxy would go by override {told}; it is left aside for the text below.")
        }
        Alternative::Robots(otherwise) => {
            let (verdict, reason) = (otherwise.verdict().as_str(), otherwise.reason.as_str());
            let meaning = meaning(otherwise);
            line(&format!(
                "Without the override: {verdict}, {reason} ({meaning})."
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_a_chain_of_tokens_or_a_whole_user_agent() {
        for (text, want) in [
            ("", &[][..]),
            (
                "Googlebot-Image, Googlebot",
                &["Googlebot-Image", "Googlebot"],
            ),
            (" examplebot ", &["examplebot"]),
            (
                "Mozilla/5.0 (compatible; bingbot/2.0)",
                &["Mozilla/5.0 (compatible; bingbot/2.0)"],
            ),
        ] {
            assert_eq!(names(text), want, "{text}");
        }
    }
}
