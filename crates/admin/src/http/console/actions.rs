//! The actions of pages. Each is a form, sent by POST, and leads back to a page that shows the result.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;

use super::super::form::Posted;
use super::super::problem::Problem;
use super::super::{Actor, AppState};
use super::decision::DecisionPage;
use super::denials::origin_link;
use super::filter::{FieldErrors, Filter, params};
use super::format::encoded;
use super::layout::Page;
use super::note::{NoteForm, mark_of};
use super::overrides::{OverrideForm, OverridesPage};
use super::reviewer::remembered;
use crate::query::{self, Asserted, action};
use crate::{ProcessError, Reach};
use crawlgate_policy::overrides::words;
use crawlgate_robots::Origin;
use crawlgate_store::{Acknowledgement, Review, Reviewed};
use crawlgate_text::time_text;

/// A note on a decision.
#[derive(Deserialize)]
pub(super) struct AcknowledgeForm {
    #[serde(default)]
    by: String,
    note: String,
    /// The [mark](super::note::mark_of) of the acknowledgement that the page showed; empty if it showed none.
    #[serde(default)]
    replaces: String,
    /// The conditions of the list that led to the page, as a query.
    #[serde(default)]
    list: String,
}

/// `POST /decisions/{id}/acknowledge`
pub(super) async fn acknowledge(
    State(app): State<AppState>,
    actor: Actor,
    Path(id): Path<String>,
    headers: HeaderMap,
    Posted(form): Posted<AcknowledgeForm>,
) -> Result<Response, Problem> {
    let list = Filter::take(&mut params(Some(&form.list)), "deny")?;
    let by = actor.acts_as(Some(&form.by))?.unwrap_or_default();
    let note = match NoteForm::read(&by, &form.note, app.now()) {
        Ok(note) => note,
        Err(form) => {
            let status = form.status(&headers)?;
            let page = DecisionPage::of(&app, &actor, &id, None, &list, form).await?;
            return Ok((status, Page(page)).into_response());
        }
    };
    let store = app.require_store()?;
    let decision = app.find(&id, None).await?.decision;
    let present = decision.acknowledged.clone();
    if form.replaces != present.as_ref().map(mark_of).unwrap_or_default() {
        return Err(differs(present.as_ref()));
    }
    let by = note.by.clone();
    let done = store.acknowledge(vec![Review::of(&decision)], note).await?;
    match done.first() {
        Some(Reviewed::Done) => {}
        Some(Reviewed::Differs(present)) => return Err(differs(present.as_ref())),
        Some(Reviewed::Unknown) | None => {
            return Err(Problem::missing("retention has dropped it meanwhile"));
        }
    }
    let id = id.to_ascii_uppercase();
    let back = Redirect::to(&match list.context() {
        none if none.is_empty() => format!("/decisions/{id}?done=acknowledged"),
        list => format!("/decisions/{id}?{list}&done=acknowledged"),
    });
    Ok((remembered(&app, &actor, &by), back).into_response())
}

/// Returns the problem of a decision with another acknowledgement than its page showed.
fn differs(present: Option<&Acknowledgement>) -> Problem {
    let why = match present {
        Some(Acknowledgement { time, by, note }) => format!(
            "{by} has acknowledged this decision already, at {}: {note}. Nothing is changed; load the page again to put \
             your note in the place of that one",
            time_text(*time)
        ),
        None => "the acknowledgement that the page showed is gone; load the page again".to_owned(),
    };
    Problem::new(StatusCode::CONFLICT, why)
}

/// `POST /overrides`
pub(super) async fn add_override(
    State(app): State<AppState>,
    actor: Actor,
    headers: HeaderMap,
    Posted(form): Posted<OverrideForm>,
) -> Result<Response, Problem> {
    let by = actor.acts_as(Some(&form.by))?.unwrap_or_default();
    let pattern = form.pattern.trim();
    let asserted = action(&form.action).and_then(|action| {
        let asserted = Asserted {
            origin: form.origin.trim(),
            pattern: Some(pattern).filter(|pattern| !pattern.is_empty()),
            action,
            until: form.until.trim(),
            by: &by,
            reason: &form.reason,
        };
        asserted.read(app.now())
    });
    let new = match asserted {
        Ok(new) => new,
        Err(wrong) => {
            let faults = FieldErrors::all(vec![wrong]);
            let status = faults.status(&headers)?;
            let page = OverridesPage::with_form(&app, &actor, form, faults).await?;
            return Ok((status, Page(page)).into_response());
        }
    };
    let (added, reach) = app.add_override(new).await?;
    let back = format!("/overrides?added={}{}", added.id, partly(reach));
    Ok(Redirect::to(&back).into_response())
}

/// An override to take out of force.
#[derive(Deserialize)]
pub(super) struct RemoveForm {
    number: String,
    #[serde(default)]
    by: String,
}

/// `POST /overrides/remove`
pub(super) async fn remove_override(
    State(app): State<AppState>,
    actor: Actor,
    Posted(form): Posted<RemoveForm>,
) -> Result<Redirect, Problem> {
    let by = actor.acts_as(Some(&form.by))?.unwrap_or_default();
    let by = words(&by).map_err(|error| Problem::bad(format!("by: {error}")))?;
    let (id, reach) = app.remove_override(&form.number, by).await?;
    Ok(Redirect::to(&format!("/overrides?removed={id}{}", partly(reach))))
}

/// Returns what the page is told of a change that some instances of the fleet lack.
fn partly(reach: Option<Reach>) -> &'static str {
    let is_everywhere = |reach: &Reach| reach.failure.is_none() && reach.late.is_empty();
    match reach {
        Some(reach) if !is_everywhere(&reach) => "&partly=true",
        _ => "",
    }
}

/// The origin of an action.
#[derive(Deserialize)]
pub(super) struct OriginForm {
    of: String,
}

fn named(origin: &str) -> Result<Origin, Problem> {
    query::origin(origin).map_err(|error| Problem::bad(error.to_string()))
}

/// `POST /origin/refresh`
pub(super) async fn refresh(
    State(app): State<AppState>,
    actor: Actor,
    Posted(form): Posted<OriginForm>,
) -> Result<Redirect, Problem> {
    let origin = named(&form.of)?;
    let back = origin_link(&origin.to_string());
    actor.tell_of("refresh", &origin.to_string());
    let states = app.refresh(&origin, None).await.map_err(busy)?;
    let done = if states.iter().any(|one| one.failure.is_some()) { "failed" } else { "refreshed" };
    Ok(Redirect::to(&format!("{back}&done={done}")))
}

/// `POST /origin/forget`
pub(super) async fn forget(
    State(app): State<AppState>,
    actor: Actor,
    Posted(form): Posted<OriginForm>,
) -> Result<Redirect, Problem> {
    let origin = named(&form.of)?;
    let name = encoded(&origin.to_string());
    actor.tell_of("forget", &origin.to_string());
    app.forget(&origin, None).await.map_err(busy)?;
    Ok(Redirect::to(&format!("/origins?forgotten={name}")))
}

fn busy(error: ProcessError) -> Problem {
    Problem::busy(error.to_string())
}
