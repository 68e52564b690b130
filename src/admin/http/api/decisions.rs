//! Decisions: listed, counted, proven.

use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use utoipa::{IntoParams, ToSchema};

use super::{DEFAULT_ITEMS, LogFault, MAX_ITEMS, QueryParams};
use crate::admin::http::AppState;
use crate::admin::http::logs::{FoundDecision, MAX_PASSED};
use crate::admin::http::problem::Problem;
use crate::admin::http::proof::evidence_file;
use crate::admin::query::params::{CONDITIONS, Params, cursor};
use crate::admin::query::{InvalidParam, modes, verdicts};
use crate::admin::view::{Decision, Tally};
use crate::audit::replay::Outcome;
use crate::audit::verify::case::{Case, CaseVerdict, Trusted};
use crate::audit::verify::review::Finding;
use crate::policy::Reason;
use crate::store::DecisionQuery;
use crate::store::logs::{EntryKind, MergedList, Places};
use crate::text::{hex, time_text};
use crate::tlog::leaf_hash;

/// Groups counted at most.
const GROUPS: usize = 1_000;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/decisions", get(list))
        .route("/decisions/{id}", get(one))
        .route("/decisions/{id}/evidence", get(evidence))
        .route("/decisions/{id}/proof", get(proof))
        .route("/tallies", get(tallies))
}

/// Conditions on decisions; all that are given must hold.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "described here, read by Params")]
pub(super) struct ConditionParams {
    /// Earliest time: `2026-11-20`, `2026-11-20T12:00`, `2026-11-20T12:00:00Z` (UTC), or a span back from now: `2h`,
    /// `7d`.
    #[param(example = "7d")]
    since: Option<String>,
    /// Latest time, exclusive; a day counts whole.
    #[param(example = "2027-12-31")]
    until: Option<String>,
    /// The origin (`https://site.example`), or a host with any scheme and port.
    #[param(example = "https://site.example")]
    origin: Option<String>,
    /// A pattern that matches the path, as in robots.txt.
    #[param(pattern = "^[/*]")]
    path: Option<String>,
    /// The text of the deciding rule, as its file has it: `Disallow: /private`.
    rule: Option<String>,
    /// The client's address or name.
    client: Option<String>,
    /// The product token that judges the crawler.
    agent: Option<String>,
    /// The reason.
    #[param(schema_with = reason)]
    reason: Option<String>,
    /// The verdict.
    #[param(schema_with = verdict)]
    verdict: Option<String>,
    /// The mode.
    #[param(schema_with = mode)]
    mode: Option<String>,
    /// True for requests that were let through and then failed, false for the others.
    failed: Option<bool>,
    /// True for acknowledged decisions, false for the others.
    acknowledged: Option<bool>,
}

fn words(words: &[&str]) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(words.to_vec()))
        .build()
}

fn reason() -> Object {
    words(&Reason::ALL.map(Reason::as_str))
}

fn verdict() -> Object {
    words(&verdicts())
}

fn mode() -> Object {
    words(&modes())
}

/// A page of decisions.
///
/// A page passes 20,000 records at most, so it may be short or empty without being the last.
#[derive(Debug, Serialize, ToSchema)]
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

/// The logs to read.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "described here, read by Params")]
pub(super) struct LogParam {
    /// The names of logs with commas between them, `*` for this process's own and all collected ones (`[audit] collection`);
    /// by default this process's own. The end of a name behind a slash is enough, or a part that no other name has.
    log: Option<String>,
}

/// List decisions, newest first unless asked otherwise
///
/// A page looks at 20,000 records at most, so that a rare condition delays no other request: a page may be short or
/// empty while `next` leads on.
#[utoipa::path(
    get, path = "/decisions", operation_id = "list_decisions", tag = "decisions",
    params(
        ConditionParams,
        LogParam,
        ("order" = Option<String>, Query, description = "`newest` first, or `oldest`", pattern = "^(newest|oldest)$"),
        ("limit" = Option<u32>, Query, description = "So many", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "`next` of the page before", pattern = "^[A-Za-z0-9_-]+$"),
    ),
    responses(
        (status = 200, description = "A page of them", body = DecisionPage),
        (status = "4XX", description = "The request is not valid", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not now", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn list(
    State(app): State<AppState>,
    QueryParams(mut params): QueryParams,
) -> Result<Json<DecisionPage>, Problem> {
    let conditions = params.conditions()?;
    let oldest = params.word("order", &["newest", "oldest"])?.as_deref() == Some("oldest");
    let kind = if oldest { "oldest" } else { "newest" };
    let limit = params.limit(DEFAULT_ITEMS, MAX_ITEMS)?;
    let wanted = params.text("log")?;
    let after = params.cursor(kind)?.map(|place| place.parse::<Places>());
    let after = after
        .transpose()
        .map_err(|_| InvalidParam::new("cursor", "is not from this list"))?;
    let known = [&CONDITIONS[..], &["log", "order", "limit", "cursor"]].concat();
    params.finish(&known)?;
    let query = DecisionQuery {
        newest_first: !oldest,
        ..conditions.query(app.now())?
    };
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
        items: page
            .iter()
            .map(|one| Decision::of(&one.log, &one.entry))
            .collect(),
        next: next.map(|next| cursor(kind, &next.to_string())),
        searched_to: reached.map(|reached| time_text(reached.time)),
        faults: LogFault::all(list.faults()),
    }))
}

/// One decision
#[utoipa::path(
    get, path = "/decisions/{id}", operation_id = "decision", tag = "decisions",
    params(("id" = String, Path, description = "The decision's id, as answers and records have it", example = "01KB7W3Y5E000000000VY7H1Q2"), LogParam),
    responses(
        (status = 200, description = "The decision", body = Decision),
        (status = "4XX", description = "There is no such decision, or the request is not valid", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not now", body = Problem, content_type = "application/problem+json"),
    ),
)]
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
    let wanted = params.text("log")?;
    params.finish(&["log"])?;
    app.find(id, wanted.as_deref()).await
}

/// The proof of a decision: whether the stored evidence yields it, and whether its record was altered.
#[derive(Debug, Serialize, ToSchema)]
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
    #[schema(value_type = Object)]
    record: serde_json::Value,
    /// The URLs of the fetch of robots.txt, first to last.
    hops: Option<Vec<String>>,
    /// The robots.txt of the decision; octets that are not UTF-8 are replaced.
    robots_txt: Option<String>,
    /// The settings of the decision.
    policy: Option<String>,
}

/// A field that differs.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Difference {
    /// The name of the field.
    what: String,
    /// The value in the record.
    recorded: String,
    /// The value now.
    replayed: String,
}

/// Prove a decision: make it again from the stored evidence, and check its place in the signed log
#[utoipa::path(
    get, path = "/decisions/{id}/evidence", tag = "decisions",
    params(("id" = String, Path, description = "The decision's id, as answers and records have it", example = "01KB7W3Y5E000000000VY7H1Q2"), LogParam),
    responses(
        (status = 200, description = "What came of it", body = EvidenceReport),
        (status = "4XX", description = "There is no such decision, or the request is not valid", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not now", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn evidence(
    State(app): State<AppState>,
    Path(id): Path<String>,
    QueryParams(params): QueryParams,
) -> Result<Json<EvidenceReport>, Problem> {
    let FoundDecision {
        log,
        store,
        decision,
        config,
    } = found(&app, &id, params).await?;
    let trusted = Trusted::of_store(&[], &config, &*store)
        .await
        .map_err(|error| Problem::new(StatusCode::CONFLICT, error.to_string()))?;
    let _permit = app.work_permit().await?;
    let case = Case::of(&decision, &*store, &trusted).await?;
    let (held, said) = case.headline();
    let differences = match &case.finding {
        Finding::Replayed(Outcome::Differs(differences)) => differences.as_slice(),
        _ => &[],
    };
    let policy = case
        .evidence
        .as_ref()
        .ok()
        .and_then(|evidence| evidence.policy.as_ref());
    Ok(Json(EvidenceReport {
        outcome: case.finding.code().to_owned(),
        ok: case.holds(),
        held: match held {
            CaseVerdict::Proven => "proven",
            CaseVerdict::Attested => "attested",
            CaseVerdict::Broken => "broken",
        },
        said,
        differences: differences
            .iter()
            .map(|one| Difference {
                what: one.what.to_string(),
                recorded: one.recorded.to_string(),
                replayed: one.replayed.to_string(),
            })
            .collect(),
        faults: case.in_log.fault().map(str::to_owned).into_iter().collect(),
        seq: decision.seq,
        hash: hex(leaf_hash(&decision.entry)),
        signed: case.in_log.signed(),
        log: log.name().to_string(),
        in_log: case.signed(&trusted),
        keys: trusted.keys.all.iter().map(ToString::to_string).collect(),
        record: Decision::of(log.name(), &decision).record,
        hops: case.fetch.as_ref().map(|fetch| fetch.hops.clone()),
        robots_txt: case
            .file
            .as_deref()
            .map(|text| String::from_utf8_lossy(text).into_owned()),
        policy: policy.map(ToString::to_string),
    }))
}

/// An evidence file: a record with its proof, for a reader who has neither crawlgate nor the store.
#[derive(ToSchema)]
#[allow(
    dead_code,
    reason = "described here, written by the writer of evidence files"
)]
pub(super) struct EvidenceFile {
    /// `crawlgate-evidence@1`.
    format: String,
    /// The name of the log.
    log: String,
    /// The key of the log, as the file says. The right key comes from another source.
    vkey: String,
    /// The program that made the file.
    made_by: String,
    /// The record.
    #[schema(value_type = Object)]
    record: serde_json::Value,
    /// The octets of the entry in the log, in base64.
    entry: String,
    /// The path from the entry to a signed checkpoint (c2sp.org/tlog-proof).
    proof: String,
    /// The objects that the entry names; one that the store no longer has is missing.
    #[schema(value_type = Vec<Object>)]
    objects: Vec<serde_json::Value>,
    /// The robots.txt that the decision rests on; none if there was none, or the store no longer has it.
    #[schema(value_type = Option<Object>)]
    robots: Option<serde_json::Value>,
}

/// The evidence file of a decision
///
/// It is what `crawlgate audit prove` writes. If no checkpoint covers a decision of this process yet, one is signed.
#[utoipa::path(
    get, path = "/decisions/{id}/proof", operation_id = "decision_proof", tag = "decisions",
    params(("id" = String, Path, description = "The decision's id, as answers and records have it", example = "01KB7W3Y5E000000000VY7H1Q2"), LogParam),
    responses(
        (status = 200, description = "The file", body = EvidenceFile),
        (status = "4XX", description = "There is no such decision, the signed log has another one there (409), or the request is not valid", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not now", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn proof(
    State(app): State<AppState>,
    Path(id): Path<String>,
    QueryParams(params): QueryParams,
) -> Result<impl IntoResponse, Problem> {
    let file = evidence_file(&app, &found(&app, &id, params).await?).await?;
    Ok(([(CONTENT_TYPE, "application/json")], file))
}

/// Counts of decisions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Tallies {
    /// The counts, most frequent first.
    items: Vec<Tally>,
    /// The logs that could not be read: the counts lack their decisions.
    faults: Vec<LogFault>,
}

/// Count decisions by reason, origin or rule
#[utoipa::path(
    get, path = "/tallies", tag = "decisions",
    params(
        ConditionParams,
        LogParam,
        ("by" = Option<String>, Query, description = "The key of the counts: `reason`, `origin` or `rule` (of an origin)", pattern = "^(reason|origin|rule)$"),
        ("limit" = Option<u32>, Query, description = "At most this many, the most frequent", minimum = 1, maximum = 1000),
    ),
    responses(
        (status = 200, description = "How many there are", body = Tallies),
        (status = "4XX", description = "The request is not valid", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not now", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn tallies(
    State(app): State<AppState>,
    QueryParams(mut params): QueryParams,
) -> Result<Json<Tallies>, Problem> {
    let conditions = params.conditions()?;
    let key = params.tally_key()?;
    let limit = params.limit(DEFAULT_ITEMS, GROUPS)?;
    let wanted = params.text("log")?;
    params.finish(&[&CONDITIONS[..], &["log", "by", "limit"]].concat())?;
    let query = conditions.query(app.now())?;
    let logs = app.logs(wanted.as_deref())?;
    let _permit = app.work_permit().await?;
    let mut list = MergedList::new(&logs, EntryKind::Decisions, query);
    let tallies = list.count_by(key, limit).await?;
    Ok(Json(Tallies {
        items: tallies.into_iter().map(Tally::of).collect(),
        faults: LogFault::all(list.faults()),
    }))
}
