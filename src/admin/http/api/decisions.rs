//! Decisions: listed, counted, proven, acknowledged.

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use utoipa::{IntoParams, ToSchema};

use super::walk::Walk;
use super::{Asked, MOST, USUAL, unknown_decision};
use crate::admin::http::Site;
use crate::admin::http::problem::Problem;
use crate::admin::query::params::{CONDITIONS, cursor};
use crate::admin::query::{Wrong, modes, verdicts};
use crate::admin::view::{Decision, Tally};
use crate::audit::replay::Outcome;
use crate::audit::verify::Fault;
use crate::audit::verify::case::{Case, Held, Trusted};
use crate::audit::verify::review::Finding;
use crate::policy::{Reason, overrides};
use crate::robots::memory::hex;
use crate::store::{Acknowledgement, DecisionQuery, StoredDecision};

/// Records that a walk to the next seal may pass.
const REACH: u64 = 20_000;

/// Groups counted at most.
const GROUPS: usize = 1_000;

pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/decisions", get(list))
        .route("/decisions/{id}", get(one))
        .route("/decisions/{id}/evidence", get(evidence))
        .route("/decisions/{id}/acknowledgement", post(acknowledge))
        .route("/tallies", get(tallies))
}

/// Conditions on decisions; all that are given must hold.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "described here, read by Params")]
pub(super) struct Described {
    /// Not before: `2026-11-20`, `2026-11-20T12:00`, `2026-11-20T12:00:00Z` (UTC), or how long ago: `2h`, `7d`.
    #[param(example = "7d")]
    since: Option<String>,
    /// Before; a day counts whole.
    #[param(example = "2027-12-31")]
    until: Option<String>,
    /// Of this origin (`https://site.example`), or of this host whatever the scheme and port.
    #[param(example = "https://site.example")]
    origin: Option<String>,
    /// With a path that this matches: a pattern as in robots.txt.
    #[param(pattern = "^[/*]")]
    path: Option<String>,
    /// By the rule of this text, as its file has it: `Disallow: /private`.
    rule: Option<String>,
    /// From this address, or of this name.
    client: Option<String>,
    /// By a crawler that is judged by this product token.
    agent: Option<String>,
    /// For this reason.
    #[param(schema_with = reason)]
    reason: Option<String>,
    /// With this verdict.
    #[param(schema_with = verdict)]
    verdict: Option<String>,
    /// In this mode.
    #[param(schema_with = mode)]
    mode: Option<String>,
    /// Acknowledged, or not.
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
/// It may hold fewer than were asked for, or none, and not be the last: a page passes 20,000 records at most.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DecisionPage {
    /// What is on it.
    items: Vec<Decision>,
    /// What to ask for as `cursor`, with all else as it was, to have the next page; none after the last.
    next: Option<String>,
    /// Where the search stopped before the page was full and before the end: the place of the last record that it has
    /// passed (see `seq`).
    searched_to: Option<u64>,
}

/// List decisions, newest first unless asked otherwise
///
/// A page looks at 20,000 records at most, so that a condition that few of them fulfil holds nobody up: it may hold fewer
/// than asked for, or none, while `next` leads on.
#[utoipa::path(
    get, path = "/decisions", operation_id = "list_decisions", tag = "decisions",
    params(
        Described,
        ("order" = Option<String>, Query, description = "`newest` first, or `oldest`", pattern = "^(newest|oldest)$"),
        ("limit" = Option<u32>, Query, description = "So many", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "`next` of the page before", pattern = "^[A-Za-z0-9_-]+$"),
    ),
    responses(
        (status = 200, description = "A page of them", body = DecisionPage),
        (status = "4XX", description = "Not asked as it should be", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not now", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn list(
    State(site): State<Site>,
    Asked(mut params): Asked,
) -> Result<Json<DecisionPage>, Problem> {
    let conditions = params.conditions()?;
    let oldest = params.word("order", &["newest", "oldest"])?.as_deref() == Some("oldest");
    let kind = if oldest { "oldest" } else { "newest" };
    let limit = params.limit(USUAL, MOST)?;
    let after = params.cursor(kind)?.map(|place| place.parse());
    let after = after
        .transpose()
        .map_err(|_| Wrong::new("cursor", "is not from this list"))?;
    let known = [&CONDITIONS[..], &["order", "limit", "cursor"]].concat();
    params.finish(&known)?;
    let query = DecisionQuery {
        after,
        newest_first: !oldest,
        limit,
        ..conditions.query(site.now())?
    };
    let store = site.kept()?;
    let _turn = site.turn().await?;
    let found = Walk::of(&**store, query).await?;
    Ok(Json(DecisionPage {
        items: found.items.iter().map(Decision::of).collect(),
        next: found.next.map(|last| cursor(kind, &last.to_string())),
        searched_to: found.searched_to,
    }))
}

async fn find(site: &Site, id: &str) -> Result<StoredDecision, Problem> {
    let id = id.to_ascii_uppercase();
    let found = site.kept()?.decision(&id).await?;
    found.ok_or_else(|| unknown_decision(&id))
}

/// One decision
#[utoipa::path(
    get, path = "/decisions/{id}", operation_id = "decision", tag = "decisions",
    params(("id" = String, Path, description = "The decision's id, as answers and records have it", example = "01KB7W3Y5E000000000VY7H1Q2")),
    responses(
        (status = 200, description = "The decision", body = Decision),
        (status = "4XX", description = "There is none, or it is not asked for as it should be", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not now", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn one(
    State(site): State<Site>,
    Path(id): Path<String>,
    Asked(params): Asked,
) -> Result<Json<Decision>, Problem> {
    params.finish(&[])?;
    Ok(Json(Decision::of(&find(&site, &id).await?)))
}

/// Whether a decision follows from what was kept, and whether that was altered.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EvidenceReport {
    /// What came of making the decision again: `same`, `differs`, …
    outcome: String,
    /// Whether nothing speaks against it.
    ok: bool,
    /// `proven`, `attested` or `broken`.
    held: &'static str,
    /// The same for people.
    said: String,
    /// Where the decision made again differs.
    differences: Vec<Difference>,
    /// What does not fit of the chain.
    faults: Vec<String>,
    /// Its place in the chain.
    seq: u64,
    /// Its link, SHA-256 in hexadecimal.
    hash: String,
    /// The record whose seal vouches for it; none where there is none yet.
    sealed: Option<u64>,
    /// What of the chain vouches for it, for people.
    chain: String,
    /// The public keys whose seals are believed, in hexadecimal.
    keys: Vec<String>,
    /// The record.
    #[schema(value_type = Object)]
    record: serde_json::Value,
    /// The URLs by which the robots.txt came.
    hops: Option<Vec<String>>,
    /// The robots.txt that it rests on, octets that are no UTF-8 replaced.
    robots_txt: Option<String>,
    /// The settings that it was made under.
    policy: Option<String>,
}

/// Something that differs.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Difference {
    /// What.
    what: String,
    /// What the record says.
    recorded: String,
    /// What comes out now.
    replayed: String,
}

/// Prove a decision: make it again from what was kept, and check the chain around its record
#[utoipa::path(
    get, path = "/decisions/{id}/evidence", tag = "decisions",
    params(("id" = String, Path, description = "The decision's id, as answers and records have it", example = "01KB7W3Y5E000000000VY7H1Q2")),
    responses(
        (status = 200, description = "What came of it", body = EvidenceReport),
        (status = "4XX", description = "There is none, or it is not asked for as it should be", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not now", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn evidence(
    State(site): State<Site>,
    Path(id): Path<String>,
    Asked(params): Asked,
) -> Result<Json<EvidenceReport>, Problem> {
    params.finish(&[])?;
    let decision = find(&site, &id).await?;
    let trusted = Trusted::of(&[], &site.proxy().settings())
        .map_err(|error| Problem::new(StatusCode::CONFLICT, error))?;
    let _turn = site.turn().await?;
    let case = Case::of(&decision, &**site.kept()?, &trusted, REACH).await?;
    let (held, said) = case.headline();
    let differences = match &case.finding {
        Finding::Replayed(Outcome::Differs(differences)) => differences.as_slice(),
        _ => &[],
    };
    let faults = case.faults.iter().map(Fault::to_string);
    let policy = case
        .evidence
        .as_ref()
        .ok()
        .and_then(|evidence| evidence.policy.as_ref());
    Ok(Json(EvidenceReport {
        outcome: case.finding.code().to_owned(),
        ok: case.holds(),
        held: match held {
            Held::Proven => "proven",
            Held::Attested => "attested",
            Held::Broken => "broken",
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
        faults: faults.chain(case.keyless.clone()).collect(),
        seq: decision.seq,
        hash: hex(&decision.hash),
        sealed: case.chain.sealed.filter(|sealed| *sealed >= decision.seq),
        chain: case.sealed(&trusted),
        keys: trusted.keys.iter().map(hex).collect(),
        record: Decision::of(&decision).record,
        hops: case.fetch.as_ref().map(|fetch| fetch.hops.clone()),
        robots_txt: case
            .file
            .as_deref()
            .map(|text| String::from_utf8_lossy(text).into_owned()),
        policy: policy.map(ToString::to_string),
    }))
}

/// A person has seen a decision.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Note {
    /// Who.
    #[schema(min_length = 1, example = "Ada Example")]
    by: String,
    /// What there is to say of it.
    #[schema(min_length = 1, example = "the site is informed")]
    note: String,
    /// Put this in the place of what somebody noted before.
    #[serde(default)]
    #[schema(default = false)]
    replace: bool,
}

/// Note that somebody has seen a decision
#[utoipa::path(
    post, path = "/decisions/{id}/acknowledgement", tag = "decisions",
    params(("id" = String, Path, description = "The decision's id, as answers and records have it", example = "01KB7W3Y5E000000000VY7H1Q2")),
    request_body = Note,
    responses(
        (status = 200, description = "The decision with the note", body = Decision),
        (status = "4XX", description = "There is none, or somebody has noted something before (409), or it is not said as it should be", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not now", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn acknowledge(
    State(site): State<Site>,
    Path(id): Path<String>,
    Asked(params): Asked,
    Json(note): Json<Note>,
) -> Result<Json<Decision>, Problem> {
    params.finish(&[])?;
    let words = |name, text: &str| {
        overrides::words(text).map_err(|error| Wrong::new(name, format_args!("{error}")))
    };
    let (by, said) = (words("by", &note.by)?, words("note", &note.note)?);
    let seen = find(&site, &id).await?;
    if let (Some(before), false) = (&seen.acknowledged, note.replace) {
        let (at, by, said) = (
            crate::audit::time_text(before.time),
            &before.by,
            &before.note,
        );
        return Err(Problem::new(
            StatusCode::CONFLICT,
            format!(
                "acknowledged already, by {by} at {at}: {said}; \"replace\": true puts the new note in the place of that one"
            ),
        ));
    }
    let acknowledgement = Acknowledgement {
        time: site.now(),
        by,
        note: said,
    };
    let id = id.to_ascii_uppercase();
    // Retention may have dropped it meanwhile.
    match site.kept()?.acknowledge(&id, acknowledgement).await? {
        true => Ok(Json(Decision::of(&find(&site, &id).await?))),
        false => Err(unknown_decision(&id)),
    }
}

/// Decisions counted.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Tallies {
    /// Most frequent first.
    items: Vec<Tally>,
}

/// Count decisions by reason, origin or rule
#[utoipa::path(
    get, path = "/tallies", tag = "decisions",
    params(
        Described,
        ("by" = Option<String>, Query, description = "What they are counted by: `reason`, `origin` or `rule` (of an origin)", pattern = "^(reason|origin|rule)$"),
        ("limit" = Option<u32>, Query, description = "The most frequent so many", minimum = 1, maximum = 1000),
    ),
    responses(
        (status = 200, description = "How many there are", body = Tallies),
        (status = "4XX", description = "Not asked as it should be", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not now", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn tallies(
    State(site): State<Site>,
    Asked(mut params): Asked,
) -> Result<Json<Tallies>, Problem> {
    let conditions = params.conditions()?;
    let key = params.tally_key()?;
    let limit = params.limit(USUAL, GROUPS)?;
    params.finish(&[&CONDITIONS[..], &["by", "limit"]].concat())?;
    let query = conditions.query(site.now())?;
    let store = site.kept()?;
    let _turn = site.turn().await?;
    let tallies = store.tally(query, key, limit).await?;
    Ok(Json(Tallies {
        items: tallies.into_iter().map(Tally::of).collect(),
    }))
}
