//! Acknowledgements: of one decision, or of all that meet conditions.

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::{QueryParams, by_of};
use crate::http::logs::FoundDecision;
use crate::http::problem::Problem;
use crate::http::{Actor, AppState};
use crate::query::params::CONDITIONS;
use crate::query::{Conditions, InvalidParam};
use crate::view::{self, Decision};
use crawlgate_config::parse_moment;
use crawlgate_policy::overrides;
use crawlgate_store::review::{BulkReview, Earlier};
use crawlgate_store::{Acknowledgement, Review, Reviewed};
use crawlgate_text::{DecisionId, time_text};

/// Decisions that one request acknowledges, about.
const MAX_DECISIONS: u64 = 100_000;

/// Refused decisions that an answer names.
const MAX_NAMED: usize = 100;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/decisions/{id}/acknowledgement", post(one))
        .route("/acknowledgements", post(all))
}

/// An acknowledgement to store: a person has seen a decision.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct NewAcknowledgement {
    /// The person's name. A user of `[[admin.user]]` leaves it out: the note is recorded under the user's name.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, example = "Ada Example"))]
    by: Option<String>,
    /// The person's note.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, example = "the site is informed"))]
    note: String,
    /// The acknowledgement that this one replaces, as `acknowledged` of the decision has it; none if the decision has none.
    #[serde(default)]
    replaces: Option<view::Acknowledgement>,
}

/// An acknowledgement of many decisions.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct NewAcknowledgements {
    /// The person's name. A user of `[[admin.user]]` leaves it out: the note is recorded under the user's name.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, example = "Ada Example"))]
    by: Option<String>,
    /// The person's note.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, example = "the site is informed"))]
    note: String,
    /// Replace earlier acknowledgements, too: each as it is when its turn comes.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(default = false))]
    replace: bool,
}

/// The result of acknowledging many decisions.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Acknowledged {
    /// Number of decisions that are acknowledged now.
    acknowledged: u64,
    /// Number of decisions that were acknowledged meanwhile by another review, and stay so.
    refused: u64,
    /// These decisions, at most 100.
    conflicts: Vec<Conflict>,
    /// False if decisions are left: the same request goes on with them.
    complete: bool,
}

/// A decision that was acknowledged meanwhile.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Conflict {
    /// The decision's id.
    id: String,
    /// The acknowledgement that it has.
    acknowledged: Option<view::Acknowledgement>,
}

/// Acknowledge a decision
///
/// Only one of this process: a decision of a collected log is acknowledged where that log is written. If the decision has
/// another acknowledgement than `replaces`, nothing is changed, and the problem tells which one (409).
#[cfg_attr(feature = "openapi", utoipa::path(
    post, path = "/decisions/{id}/acknowledgement", tag = "decisions", operation_id = "acknowledge",
    params(("id" = String, Path, description = "The decision's id, as answers and records have it", example = "01KB7W3Y5E000000000VY7H1Q2")),
    request_body = NewAcknowledgement,
    responses(
        (status = 200, description = "The decision with the note", body = Decision),
        (status = "4XX", description = "There is no such decision, it has another acknowledgement (409), or the body is not valid"),
    ),
))]
pub(super) async fn one(
    State(app): State<AppState>,
    actor: Actor,
    Path(id): Path<String>,
    QueryParams(params): QueryParams,
    Json(new): Json<NewAcknowledgement>,
) -> Result<Json<Decision>, Problem> {
    params.finish(&[])?;
    let note = note(&app, &actor, new.by.as_deref(), &new.note)?;
    let replaces = new.replaces.map(read).transpose()?;
    let FoundDecision { log, decision, .. } = app.find(&id, None).await?;
    let review = Review { seq: decision.seq, replaces };
    let results = app.require_store()?.acknowledge(vec![review], note).await?;
    match results.first() {
        Some(Reviewed::Differs(present)) => return Err(differs(present.as_ref())),
        Some(Reviewed::Done) => {}
        Some(Reviewed::Unknown) | None => {
            return Err(Problem::missing("retention has dropped it meanwhile"));
        }
    }
    let decision = app.find(&id, None).await?.decision;
    Ok(Json(Decision::of(log.name(), &decision)))
}

/// Acknowledge all decisions that meet conditions
///
/// The conditions stand in the URL, as for the list of decisions; one at least is needed. Only decisions of this process that
/// are in the log when the request comes, and that are not acknowledged yet, unless `replace` says so. One request
/// acknowledges about 100,000 decisions, in batches that are whole each.
#[cfg_attr(feature = "openapi", utoipa::path(
    post, path = "/acknowledgements", tag = "decisions", operation_id = "acknowledge_all",
    params(Conditions),
    request_body = NewAcknowledgements,
    responses(
        (status = 200, description = "How many are acknowledged", body = Acknowledged),
        (status = "4XX", description = "There is no condition, or the request is not valid"),
    ),
))]
pub(super) async fn all(
    State(app): State<AppState>,
    actor: Actor,
    QueryParams(mut params): QueryParams,
    Json(new): Json<NewAcknowledgements>,
) -> Result<Json<Acknowledged>, Problem> {
    let conditions = params.conditions()?;
    params.finish(&CONDITIONS)?;
    if conditions == Conditions::default() {
        return Err(Problem::bad(format!(
            "without a condition this would acknowledge the whole log; name one at least of {}",
            CONDITIONS.join(", ")
        )));
    }
    let earlier = match (new.replace, conditions.acknowledged) {
        (true, _) => Earlier::Replaced,
        (false, Some(true)) => {
            let why = "acknowledged decisions keep their acknowledgement; \"replace\": true puts the new one in its place";
            return Err(InvalidParam::new("acknowledged", why).into());
        }
        (false, _) => Earlier::Kept,
    };
    let note = note(&app, &actor, new.by.as_deref(), &new.note)?;
    let query = conditions.query(app.now())?;
    let store = app.require_store()?;
    let _permit = app.work_permit().await?;
    let mut bulk = BulkReview::begin(store, query, earlier).await?;
    let mut answer =
        Acknowledged { acknowledged: 0, refused: 0, conflicts: Vec::new(), complete: false };
    while answer.acknowledged < MAX_DECISIONS {
        let Some(step) = bulk.step(&note).await? else {
            answer.complete = true;
            break;
        };
        answer.acknowledged += step.acknowledged;
        answer.refused += step.refused.len() as u64;
        let room = MAX_NAMED.saturating_sub(answer.conflicts.len());
        let conflicts = step.refused.into_iter().take(room);
        answer.conflicts.extend(conflicts.map(|one| Conflict {
            id: DecisionId::from_octets(one.id).to_string(),
            acknowledged: one.present.as_ref().map(view::Acknowledgement::of),
        }));
    }
    Ok(Json(answer))
}

/// Reads the note of a person.
fn note(
    app: &AppState,
    actor: &Actor,
    by: Option<&str>,
    note: &str,
) -> Result<Acknowledgement, Problem> {
    Ok(Acknowledgement {
        time: app.now(),
        by: by_of(actor, by, "reviews")?,
        note: overrides::words(note)
            .map_err(|error| InvalidParam::new("note", format_args!("{error}")))?,
    })
}

/// Reads an acknowledgement as a decision shows it.
fn read(shown: view::Acknowledgement) -> Result<Acknowledgement, InvalidParam> {
    let time = parse_moment(&shown.time).ok_or_else(|| {
        let why = "has no time; take it from `acknowledged` of the decision, unchanged";
        InvalidParam::new("replaces", why)
    })?;
    Ok(Acknowledgement { time, by: shown.by, note: shown.note })
}

/// Returns the problem of a decision with another acknowledgement than the one to be replaced.
fn differs(present: Option<&Acknowledgement>) -> Problem {
    let why = match present {
        Some(Acknowledgement { time, by, note }) => format!(
            "acknowledged already, by {by} at {}: {note}; to put the new note in the place of that one, send it as \
             \"replaces\"",
            time_text(*time)
        ),
        None => "it has no acknowledgement to be replaced".to_owned(),
    };
    Problem::new(StatusCode::CONFLICT, why)
}
