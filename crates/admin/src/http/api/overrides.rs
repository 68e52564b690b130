//! Overrides: paths that people allow or deny regardless of robots.txt.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get};
use axum::{Json, Router};
use http::StatusCode;
use http::header::LOCATION;
use serde::{Deserialize, Serialize};

use super::{BASE, QueryParams, by_of};
use crate::Reach;
use crate::http::problem::Problem;
use crate::http::{Actor, AppState};
use crate::query::Asserted;
use crate::view::{Action, OverrideEntry};
use crawlgate_policy::overrides::{Override, OverrideId};
use crawlgate_proxy::override_sync::OverrideSync;
use crawlgate_store::StoreError;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/overrides", get(list).post(add)).route("/overrides/{id}", delete(remove))
}

/// Overrides.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct OverrideList {
    /// The overrides, those of the configuration first, then by number.
    items: Vec<OverrideEntry>,
}

/// List the overrides in force, those of the configuration included
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/overrides", operation_id = "list_overrides", tag = "overrides",
    params(("all" = Option<bool>, Query, description = "True to list expired and removed overrides, too")),
    responses(
        (status = 200, description = "The overrides", body = OverrideList),
        (status = "4XX", description = "The request is not valid"),
    ),
))]
pub(super) async fn list(
    State(app): State<AppState>,
    QueryParams(mut params): QueryParams,
) -> Result<Json<OverrideList>, Problem> {
    let all = params.truth("all")?.unwrap_or(false);
    params.finish(&["all"])?;
    let (stored, removed) = match app.store() {
        Some(store) if all => (store.overrides().await?, store.removed_overrides().await?),
        Some(store) => (store.overrides().await?, Vec::new()),
        None => Default::default(),
    };
    let configured = &app.proxy().settings().policy.overrides;
    let items = OverrideEntry::list(configured, &stored, &removed, all, app.now());
    Ok(Json(OverrideList { items }))
}

/// An override to add.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct NewOverride {
    /// The origin: `https://site.example`.
    #[cfg_attr(feature = "openapi", schema(example = "https://site.example"))]
    origin: String,
    /// The paths: a pattern as in robots.txt; by default all.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[/*]", example = "/press/"))]
    pattern: Option<String>,
    /// The effect on these paths.
    action: Action,
    /// The end: a day (`2026-12-31`, UTC), a time (`2026-12-31T12:00:00Z`), or a span (`30d`); at most a year ahead.
    #[cfg_attr(feature = "openapi", schema(example = "30d"))]
    until: String,
    /// The person who answers for the override. A user of `[[admin.user]]` leaves it out: the override is recorded under the
    /// user's name.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, example = "Ada Example"))]
    by: Option<String>,
    /// The reason.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, example = "a letter of 2026-11-02"))]
    reason: String,
}

/// An override that was added.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct AddedOverride {
    #[serde(flatten)]
    override_: OverrideEntry,
    /// The instances of the fleet that have the change; absent outside a fleet.
    reach: Option<Reach>,
}

/// Allow or deny paths of an origin regardless of robots.txt, from the next request on
#[cfg_attr(feature = "openapi", utoipa::path(
    post, path = "/overrides", tag = "overrides",
    request_body = NewOverride,
    responses(
        (status = 201, description = "The override, with its number", body = AddedOverride, headers(("Location" = String, description = "The URL to remove it"))),
        (status = "4XX", description = "The override is not valid"),
    ),
))]
pub(super) async fn add(
    State(app): State<AppState>,
    actor: Actor,
    QueryParams(params): QueryParams,
    Json(new): Json<NewOverride>,
) -> Result<Response, Problem> {
    params.finish(&[])?;
    let asserted = Asserted {
        origin: &new.origin,
        pattern: new.pattern.as_deref(),
        action: new.action.into(),
        until: &new.until,
        by: &by_of(&actor, new.by.as_deref(), "answers for it")?,
        reason: &new.reason,
    };
    let (added, reach) = app.add_override(asserted.read(app.now())?).await?;
    let override_ = OverrideEntry::of(&added, app.now());
    let location = format!("{BASE}/overrides/{}", added.id);
    let added = AddedOverride { override_, reach };
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(added)).into_response())
}

/// Take an override out of force; the store keeps its history
#[cfg_attr(feature = "openapi", utoipa::path(
    delete, path = "/overrides/{id}", tag = "overrides",
    params(
        ("id" = String, Path, description = "Its number, or its identifier in the fleet", example = "12"),
        ("by" = Option<String>, Query, description = "Who takes it out; left out by a user of [[admin.user]]", min_length = 1, example = "Ada Example"),
    ),
    responses(
        (status = 200, description = "The override is out of force here; how far that has reached in the fleet", body = Reach),
        (status = 204, description = "The override is out of force"),
        (status = "4XX", description = "There is no override of this number, it stands in the configuration (409), or `by` is missing"),
    ),
))]
pub(super) async fn remove(
    State(app): State<AppState>,
    actor: Actor,
    Path(id): Path<String>,
    QueryParams(mut params): QueryParams,
) -> Result<Response, Problem> {
    let by = params.text("by")?;
    params.finish(&["by"])?;
    let by = by_of(&actor, by.as_deref(), "removes it")?;
    let (_, reach) = app.remove_override(&id, by).await?;
    Ok(match reach {
        Some(reach) => Json(reach).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

impl AppState {
    /// Adds an override to the store and puts it in force, before this resolves. Returns it with its identifier, and how far
    /// it has reached in the fleet.
    ///
    /// # Errors
    /// When there is no store, or it cannot be written.
    pub async fn add_override(&self, new: Override) -> Result<(Override, Option<Reach>), Problem> {
        self.override_sync()?.add(new).await.map_err(busy)
    }

    /// Takes the override with this identifier out of force, before this resolves.
    ///
    /// # Errors
    /// When no override has this identifier, it stands in the configuration, or the store cannot be written.
    pub async fn remove_override(
        &self,
        id: &str,
        by: String,
    ) -> Result<(OverrideId, Option<Reach>), Problem> {
        if id.starts_with("config-") {
            let source = self.proxy().settings().source.clone();
            return Err(Problem::new(
                StatusCode::CONFLICT,
                format!(
                    "override {id} stands in the configuration: take it out of {source} and have that read again (SIGHUP)"
                ),
            ));
        }
        let unknown = || {
            let why = "no such override is in force; it may have been removed meanwhile";
            Problem::missing(format!("{id}: {why}"))
        };
        let known = OverrideId::in_store(id).ok_or_else(unknown)?;
        let removed = self.override_sync()?.remove(known, by).await;
        match removed.map_err(busy)? {
            (true, reach) => Ok((known, reach)),
            (false, _) => Err(unknown()),
        }
    }

    fn override_sync(&self) -> Result<&OverrideSync, Problem> {
        self.require_store()?;
        let kept = self.process().override_sync.as_deref();
        kept.ok_or_else(|| Problem::busy("the overrides are not read yet"))
    }
}

fn busy(error: StoreError) -> Problem {
    Problem::busy(error.to_string())
}
