//! The page to try a URL: the verdict, explained as by `crawlgate check`. Only robots.txt is fetched, and nothing is
//! recorded.
//!
//! A link with a URL judges at once, but only if the browser says that no other site led it here (`Sec-Fetch-Site`): another
//! site's page must not choose what is fetched from this network. Otherwise the link fills in the form, which a person sends
//! with its secret.

use askama::Template;
use axum::extract::{RawQuery, State};
use http::{HeaderMap, HeaderValue};
use serde::Deserialize;

use super::super::form::Posted;
use super::super::judge::{self, InvalidField, JudgeError};
use super::super::{Actor, AppState};
use super::filter::params;
use super::format::{encoded, headline};
use super::layout::{Layout, Page, PageResult, Section};
use super::text::Text;
use crate::query::InvalidParam;
use crawlgate_gate::explain::{Alternative, Judgement, meaning};
use crawlgate_policy::Decision;
use crawlgate_policy::overrides::Override;
use crawlgate_robots::Explanation;

/// Remarks on a file to show.
const NOTES: usize = 50;

#[derive(Template)]
#[template(path = "try.html", config = "src/http/console/askama.toml")]
pub(super) struct TryPage {
    layout: Layout,
    asked: UrlFields,
    purposes: String,
    robots: String,
    judged: Option<Judgement>,
    /// The link that asks the same.
    link: Option<String>,
    /// True if a link fills in the form and judges nothing.
    is_only_filled: bool,
}

/// The fields that the form shares with the page for everyone.
pub(super) struct UrlFields {
    pub(super) url: String,
    pub(super) agent: String,
    /// The field that names nothing to judge, and the reason.
    pub(super) wrong: Option<InvalidParam>,
}

impl UrlFields {
    pub(super) fn new(url: &str, agent: &str) -> UrlFields {
        UrlFields { url: url.to_owned(), agent: agent.to_owned(), wrong: None }
    }

    /// Returns what is wrong with a field.
    pub(super) fn fault(&self, name: &str) -> Option<String> {
        let wrong = self.wrong.as_ref().filter(|wrong| wrong.name == name)?;
        Some(wrong.message.clone())
    }
}

/// Returns the sentence for the reason of a decision.
pub(super) fn heading(decision: &Decision) -> String {
    let reason = decision.reason.as_str();
    let sentence = headline(reason, decision.rule.is_some());
    sentence.unwrap_or_else(|| reason.to_owned())
}

/// The fields of the form.
#[derive(Deserialize)]
pub(super) struct TryForm {
    url: String,
    #[serde(default)]
    agent: String,
    #[serde(default)]
    purposes: String,
    #[serde(default)]
    robots: String,
}

/// Serves `/try`: the form, filled from a link, and the verdict if the link is followed from here or typed.
pub(super) async fn page(
    State(app): State<AppState>,
    actor: Actor,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> PageResult<TryPage> {
    let mut params = params(query.as_deref());
    let mut text = |name| params.text(name).map(Option::unwrap_or_default);
    let form = TryForm {
        url: text("url")?,
        agent: text("agent")?,
        purposes: text("purposes")?,
        robots: String::new(),
    };
    params.finish(&["url", "agent", "purposes"])?;
    let has_question = !form.url.trim().is_empty();
    if has_question && is_asked_from_here(&headers) {
        return answer(&app, &actor, form).await;
    }
    Ok(Page(TryPage { is_only_filled: has_question, ..TryPage::new(&app, &actor, &form) }))
}

/// Tells whether a browser says that no other site led it here. One that says nothing gets the form: browsers are silent over
/// plain HTTP to another machine.
fn is_asked_from_here(headers: &HeaderMap) -> bool {
    let mut from = headers.get_all("sec-fetch-site").iter();
    let is_ours = |from: &HeaderValue| from == "same-origin" || from == "none";
    from.next().is_some_and(is_ours) && from.next().is_none()
}

/// Serves `POST /try`.
pub(super) async fn judge(
    State(app): State<AppState>,
    actor: Actor,
    Posted(form): Posted<TryForm>,
) -> PageResult<TryPage> {
    answer(&app, &actor, form).await
}

/// Judges, and shows the form with the verdict.
async fn answer(app: &AppState, actor: &Actor, form: TryForm) -> PageResult<TryPage> {
    let judged = judged(app, &form).await;
    let mut page = TryPage::new(app, actor, &form);
    match judged {
        Ok(judged) => {
            page.judged = Some(judged);
            page.link = link(&form);
        }
        Err(JudgeError::InvalidField(invalid)) => page.asked.wrong = Some(wrong_field(&invalid)),
        Err(JudgeError::Problem(problem)) => return Err(problem),
    }
    Ok(Page(page))
}

/// Returns the field of a mistake, and the reason.
fn wrong_field(invalid: &InvalidField) -> InvalidParam {
    let name = match invalid {
        InvalidField::Agent(_) => "agent",
        InvalidField::Url { .. } => "url",
        InvalidField::Purposes(_) => "purposes",
    };
    InvalidParam::new(name, invalid)
}

/// Returns the link that asks the same; none for a pasted text, which is too long for one.
fn link(form: &TryForm) -> Option<String> {
    let mut link = format!("/try?url={}", encoded(form.url.trim()));
    for (name, value) in [("agent", &form.agent), ("purposes", &form.purposes)] {
        if !value.trim().is_empty() {
            link.push_str(&format!("&{name}={}", encoded(value.trim())));
        }
    }
    form.robots.trim().is_empty().then_some(link)
}

impl TryPage {
    fn new(app: &AppState, actor: &Actor, form: &TryForm) -> TryPage {
        TryPage {
            layout: Layout::new(app, actor, Section::Try, "Try a URL"),
            asked: UrlFields::new(&form.url, &form.agent),
            purposes: form.purposes.clone(),
            // Unchanged: the form is sent again from here.
            robots: form.robots.replace("\r\n", "\n"),
            judged: None,
            link: None,
            is_only_filled: false,
        }
    }
}

/// Asks what the form asks.
async fn judged(app: &AppState, form: &TryForm) -> Result<Judgement, JudgeError> {
    let robots = Some(&form.robots).filter(|text| !text.trim().is_empty());
    let purposes = Some(form.purposes.clone()).filter(|words| !words.trim().is_empty());
    let request = judge::JudgeRequest {
        url: form.url.trim(),
        agents: &names(&form.agent),
        robots: robots.map(|text| (text.clone(), "the text below")),
        purposes: purposes.as_slice(),
    };
    app.judge(request).await
}

/// Reads product tokens, separated by white space or commas, or one whole User-Agent.
pub(super) fn names(text: &str) -> Vec<String> {
    let text = text.trim();
    let tokens: Vec<String> =
        text.split([',', ' ', '\t']).filter(|token| !token.is_empty()).map(str::to_owned).collect();
    let is_token = |token: &String| crawlgate_robots::ProductToken::new(token).is_ok();
    if tokens.iter().all(is_token) { tokens } else { vec![text.to_owned()] }
}

/// Returns the file of a judgement, with the line that decides.
fn text(judged: &Judgement) -> Option<Text> {
    let explained = judged.explanation.as_ref();
    let deciding = explained.and_then(Explanation::deciding);
    let file = judged.snapshot.as_ref()?;
    Some(Text::of(file.robots.text(), None, deciding, explained))
}

/// Describes an override.
fn asserted(one: &Override) -> String {
    let (id, action, origin, pattern) = (one.id, one.action.as_str(), &one.origin, &one.pattern);
    format!("{id}: {action} {origin}{pattern}, by {}: {}", one.by, one.reason)
}

/// Describes the other source that has an opinion.
fn alternative(alternative: &Alternative) -> String {
    match alternative {
        Alternative::Override(one) => {
            let text = asserted(one);
            format!("The proxy would go by override {text}; it is left aside for the text below.")
        }
        Alternative::Robots(otherwise) => {
            let (verdict, reason) = (otherwise.verdict().as_str(), otherwise.reason.as_str());
            let meaning = meaning(otherwise);
            format!("Without the override: {verdict}, {reason} ({meaning}).")
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
            ("Googlebot-Image, Googlebot", &["Googlebot-Image", "Googlebot"]),
            (" examplebot ", &["examplebot"]),
            ("Mozilla/5.0 (compatible; bingbot/2.0)", &["Mozilla/5.0 (compatible; bingbot/2.0)"]),
        ] {
            assert_eq!(names(text), want, "{text}");
        }
    }
}
