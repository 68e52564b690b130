//! Decisions: listed, counted, reported on, proven.

use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Serialize;

use super::{DEFAULT_ITEMS, LogFault, MAX_ITEMS, QueryParams};
use crate::http::AppState;
use crate::http::logs::{FoundDecision, MAX_PASSED};
use crate::http::problem::Problem;
#[cfg(feature = "openapi")]
use crate::http::proof::EvidenceFile;
use crate::http::proof::evidence_file;
use crate::http::report::{PARAMETERS, report};
#[cfg(feature = "openapi")]
use crate::query::params::LogParam;
use crate::query::params::{CONDITIONS, Params, cursor};
use crate::query::{Conditions, InvalidParam};
use crate::view::{Decision, Tally};
use crawlgate_evidence::replay::{self, Outcome};
use crawlgate_evidence::report::Report;
use crawlgate_evidence::verify::case::{Case, CaseVerdict, Trusted};
use crawlgate_evidence::verify::review::Finding;
use crawlgate_gate::view;
use crawlgate_store::DecisionQuery;
use crawlgate_store::logs::{EntryKind, MergedList, Places};
use crawlgate_text::{hex, time_text};

/// Groups counted at most.
const GROUPS: usize = 1_000;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/decisions", get(list))
        .route("/decisions/{id}", get(one))
        .route("/decisions/{id}/evidence", get(evidence))
        .route("/decisions/{id}/proof", get(proof))
        .route("/tallies", get(tallies))
        .route("/report", get(of_span))
}

/// A page of decisions.
///
/// A page passes 20,000 records at most, so it may be short or empty without being the last.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct DecisionPage {
    /// The decisions.
    items: Vec<Decision>,
    /// The `cursor` of the next page, to be sent with all other parameters unchanged; none after the last page.
    next: Option<String>,
    /// The time up to which the search has seen all records, if it stopped before the page was full and before the end.
    searched_to: Option<String>,
    /// The logs that could not be read: the page lacks their decisions.
    faults: Vec<LogFault>,
}

/// List decisions, newest first unless asked otherwise
///
/// A page looks at 20,000 records at most, so that a rare condition delays no other request: a page may be short or
/// empty while `next` leads on.
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/decisions", operation_id = "list_decisions", tag = "decisions",
    params(
        Conditions,
        LogParam,
        ("order" = Option<String>, Query, description = "`newest` first, or `oldest`", pattern = "^(newest|oldest)$"),
        ("limit" = Option<u32>, Query, description = "So many", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "`next` of the page before", pattern = "^[A-Za-z0-9_-]+$"),
    ),
    responses(
        (status = 200, description = "A page of them", body = DecisionPage),
        (status = "4XX", description = "The request is not valid"),
    ),
))]
pub(super) async fn list(
    State(app): State<AppState>,
    QueryParams(mut params): QueryParams,
) -> Result<Json<DecisionPage>, Problem> {
    let conditions = params.conditions()?;
    let oldest = params.word("order", &["newest", "oldest"])?.as_deref() == Some("oldest");
    let kind = if oldest { "oldest" } else { "newest" };
    let limit = params.limit(DEFAULT_ITEMS, MAX_ITEMS)?;
    let wanted = params.logs()?.log;
    let after = params.cursor(kind)?.map(|place| place.parse::<Places>());
    let after =
        after.transpose().map_err(|_| InvalidParam::new("cursor", "is not from this list"))?;
    let known = [&CONDITIONS[..], &["log", "order", "limit", "cursor"]].concat();
    params.finish(&known)?;
    let query = DecisionQuery { newest_first: !oldest, ..conditions.query(app.now())? };
    let logs = app.logs(wanted.as_deref())?;
    let _permit = app.work_permit().await?;
    let mut list = MergedList::new(&logs, EntryKind::Decisions, query).passing(MAX_PASSED);
    if let Some(after) = &after {
        list = list.after(after);
    }
    let page = list.page(limit).await?;
    let next = list.next_places();
    let reached = list.reached().filter(|_| page.len() < limit);
    Ok(Json(DecisionPage {
        items: page.iter().map(|one| Decision::of(&one.log, &one.entry)).collect(),
        next: next.map(|next| cursor(kind, &next.to_string())),
        searched_to: reached.map(|reached| time_text(reached.time)),
        faults: list.faults().iter().map(LogFault::of).collect(),
    }))
}

/// One decision
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/decisions/{id}", operation_id = "decision", tag = "decisions",
    params(("id" = String, Path, description = "The decision's id, as answers and records have it", example = "01KB7W3Y5E000000000VY7H1Q2"), LogParam),
    responses(
        (status = 200, description = "The decision", body = Decision),
        (status = "4XX", description = "There is no such decision, or the request is not valid"),
    ),
))]
pub(super) async fn one(
    State(app): State<AppState>,
    Path(id): Path<String>,
    QueryParams(params): QueryParams,
) -> Result<Json<Decision>, Problem> {
    let FoundDecision { log, decision, .. } = found(&app, &id, params).await?;
    Ok(Json(Decision::of(log.name(), &decision)))
}

/// Returns the decision out of the log that the parameters name.
async fn found(app: &AppState, id: &str, mut params: Params) -> Result<FoundDecision, Problem> {
    let wanted = params.logs()?.log;
    params.finish(&["log"])?;
    app.find(id, wanted.as_deref()).await
}

/// The proof of a decision: whether the stored evidence yields it, and whether its record was altered.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct EvidenceReport {
    /// The outcome of making the decision again: `same`, `differs`, …
    outcome: String,
    /// True if nothing contradicts the record.
    ok: bool,
    /// The strength of the evidence: `proven`, `attested` or `broken`.
    held: &'static str,
    /// The strength of the evidence, for people.
    said: String,
    /// The fields that differ when the decision is made again.
    differences: Vec<Difference>,
    /// The contradictions between the record and the signed log.
    faults: Vec<String>,
    /// The record's number in the log.
    seq: u64,
    /// The hash of the record's leaf in the tree over the log (RFC 9162), in hexadecimal.
    hash: String,
    /// The size of the signed log that holds the record; none without a checkpoint yet.
    signed: Option<u64>,
    /// The name of the log.
    log: String,
    /// The place of the record in the log, for people.
    in_log: String,
    /// The trusted keys of the log: name, id and public key (c2sp.org/signed-note).
    keys: Vec<String>,
    /// The record.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    record: serde_json::Value,
    /// The URLs of the fetch of robots.txt, first to last.
    hops: Option<Vec<String>>,
    /// The robots.txt of the decision; octets that are not UTF-8 are replaced.
    robots_txt: Option<String>,
    /// The settings of the decision.
    policy: Option<String>,
}

view! {
    /// A field that differs.
    pub(super) struct Difference of one: &replay::Difference {
        /// The name of the field.
        what: String = one.what.to_string(),
        /// The value in the record.
        recorded: String = one.recorded.to_string(),
        /// The value now.
        replayed: String = one.replayed.to_string(),
    }
}

/// Prove a decision: make it again from the stored evidence, and check its place in the signed log
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/decisions/{id}/evidence", tag = "decisions",
    params(("id" = String, Path, description = "The decision's id, as answers and records have it", example = "01KB7W3Y5E000000000VY7H1Q2"), LogParam),
    responses(
        (status = 200, description = "What came of it", body = EvidenceReport),
        (status = "4XX", description = "There is no such decision, or the request is not valid"),
    ),
))]
pub(super) async fn evidence(
    State(app): State<AppState>,
    Path(id): Path<String>,
    QueryParams(params): QueryParams,
) -> Result<Json<EvidenceReport>, Problem> {
    let FoundDecision { log, store, decision, config } = found(&app, &id, params).await?;
    let trusted = Trusted::of_store(&[], &config, &store)
        .await
        .map_err(|error| Problem::new(StatusCode::CONFLICT, error.to_string()))?;
    let _permit = app.work_permit().await?;
    let case = Case::of(&decision, &store, &trusted).await?;
    let (held, said) = case.headline();
    let differences = match &case.finding {
        Finding::Replayed(Outcome::Differs(differences)) => differences.as_slice(),
        _ => &[],
    };
    let policy = case.told.as_ref().ok().and_then(|one| one.policy);
    let shown = Decision::of(log.name(), &decision);
    Ok(Json(EvidenceReport {
        outcome: case.finding.code().to_owned(),
        ok: case.holds(),
        held: match held {
            CaseVerdict::Proven => "proven",
            CaseVerdict::Attested => "attested",
            CaseVerdict::Broken => "broken",
        },
        said,
        differences: differences.iter().map(Difference::of).collect(),
        faults: case.in_log.fault().map(str::to_owned).into_iter().collect(),
        seq: shown.seq,
        hash: shown.hash,
        signed: case.in_log.signed(),
        log: shown.log,
        in_log: case.signed(&trusted),
        keys: trusted.keys.all.iter().map(ToString::to_string).collect(),
        record: shown.record,
        hops: case.fetch.as_ref().map(|fetch| fetch.hops.clone()),
        robots_txt: case.file.as_deref().map(|text| String::from_utf8_lossy(text).into_owned()),
        policy: policy.map(hex),
    }))
}

/// The evidence file of a decision
///
/// It is what `crawlgate audit prove` writes. If no checkpoint covers a decision of this process yet, one is signed.
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/decisions/{id}/proof", operation_id = "decision_proof", tag = "decisions",
    params(("id" = String, Path, description = "The decision's id, as answers and records have it", example = "01KB7W3Y5E000000000VY7H1Q2"), LogParam),
    responses(
        (status = 200, description = "The file", body = EvidenceFile),
        (status = "4XX", description = "There is no such decision, the signed log has another one there (409), or the request is not valid"),
    ),
))]
pub(super) async fn proof(
    State(app): State<AppState>,
    Path(id): Path<String>,
    QueryParams(params): QueryParams,
) -> Result<impl IntoResponse, Problem> {
    let file = evidence_file(&app, &found(&app, &id, params).await?).await?;
    Ok(([(CONTENT_TYPE, "application/json")], file))
}

/// Counts of decisions.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Tallies {
    /// The counts, most frequent first.
    items: Vec<Tally>,
    /// The logs that could not be read: the counts lack their decisions.
    faults: Vec<LogFault>,
}

/// Count decisions by reason, origin or rule
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/tallies", tag = "decisions",
    params(
        Conditions,
        LogParam,
        ("by" = Option<String>, Query, description = "The key of the counts: `reason`, `origin` or `rule` (of an origin)", pattern = "^(reason|origin|rule)$"),
        ("limit" = Option<u32>, Query, description = "At most this many, the most frequent", minimum = 1, maximum = 1000),
    ),
    responses(
        (status = 200, description = "How many there are", body = Tallies),
        (status = "4XX", description = "The request is not valid"),
    ),
))]
pub(super) async fn tallies(
    State(app): State<AppState>,
    QueryParams(mut params): QueryParams,
) -> Result<Json<Tallies>, Problem> {
    let conditions = params.conditions()?;
    let key = params.tally_key()?;
    let limit = params.limit(DEFAULT_ITEMS, GROUPS)?;
    let wanted = params.logs()?.log;
    params.finish(&[&CONDITIONS[..], &["log", "by", "limit"]].concat())?;
    let query = conditions.query(app.now())?;
    let logs = app.logs(wanted.as_deref())?;
    let _permit = app.work_permit().await?;
    let mut list = MergedList::new(&logs, EntryKind::Decisions, query);
    let tallies = list.count_by(key, limit).await?;
    Ok(Json(Tallies {
        items: tallies.into_iter().map(Tally::of).collect(),
        faults: list.faults().iter().map(LogFault::of).collect(),
    }))
}

/// Report on a span: requests by outcome, clients, origins, rules, outages, overrides, exceptions
///
/// It is the JSON of `crawlgate report`, without the verification of the log. It counts each record of the span, of
/// several logs each number together.
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/report", operation_id = "report", tag = "decisions",
    params(
        ("since" = Option<String>, Query, description = "Earliest time, as for decisions; by default `30d`", example = "90d"),
        ("until" = Option<String>, Query, description = "Latest time, exclusive; a day counts whole; by default `now`", example = "2027-12-31"),
        ("client" = Option<String>, Query, description = "The client's address or name"),
        ("origin" = Option<String>, Query, description = "The origin (`https://site.example`), or a host with any scheme and port", example = "https://site.example"),
        LogParam,
    ),
    responses(
        (status = 200, description = "The report", body = Report),
        (status = "4XX", description = "The request is not valid, or there is no store"),
    ),
))]
pub(super) async fn of_span(
    State(app): State<AppState>,
    QueryParams(mut params): QueryParams,
) -> Result<Json<Report>, Problem> {
    let conditions = Conditions {
        since: params.text("since")?,
        until: params.text("until")?,
        client: params.text("client")?,
        origin: params.text("origin")?,
        ..Conditions::default()
    };
    let wanted = params.logs()?.log;
    params.finish(&PARAMETERS)?;
    let report = report(&app, &conditions, wanted.as_deref()).await?;
    Ok(Json(report))
}
