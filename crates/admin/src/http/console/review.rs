//! Reviews many decisions at once: those that are ticked in the list, or all that meet its conditions.
//!
//! For conditions, a page first counts what is meant. It fixes the times and the end of the log, so that the form
//! acknowledges what was counted, and nothing that comes later.

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use serde::Deserialize;

use super::super::form::Posted;
use super::super::logs::MAX_PASSED;
use super::super::problem::Problem;
use super::super::{Actor, AppState};
use super::filter::{Filter, params};
use super::format::number;
use super::layout::{Layout, Page, PageResult, Section};
use super::note::NoteForm;
use super::reviewer::{Reviewer, remembered};
use crawlgate_config::format_moment;
use crawlgate_record::id_of;
use crawlgate_store::review::{BulkReview, Earlier};
use crawlgate_store::{Acknowledgement, DecisionQuery, Review, Reviewed};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;

/// The title of the page that asks.
const TITLE: &str = "Acknowledge decisions";

/// Ticked decisions that one form acknowledges at most.
const TICKED: usize = 200;

/// Decisions that one form acknowledges by conditions, about.
const MAX_DECISIONS: u64 = 100_000;

/// Refused decisions that the page names.
const MAX_NAMED: usize = 100;

#[derive(Template)]
#[template(path = "review.html", config = "src/http/console/askama.toml")]
pub(super) struct ReviewPage {
    layout: Layout,
    /// The query of the list.
    list: String,
    conditions: Vec<(&'static str, String)>,
    count: u64,
    target: ReviewTarget,
    note: NoteForm,
}

/// The decisions that a form acknowledges.
enum ReviewTarget {
    /// All that meet conditions.
    All {
        /// The conditions with fixed times, as a query.
        conditions: String,
        /// The last record.
        to: u64,
    },
    /// Those with these identifiers.
    Ticked(Vec<String>),
}

impl ReviewPage {
    /// Counts the open decisions that meet the conditions, up to a record if one is given.
    async fn of_all(
        app: &AppState,
        actor: &Actor,
        filter: &Filter,
        to: Option<u64>,
        note: NoteForm,
    ) -> Result<ReviewPage, Problem> {
        let query = DecisionQuery { to, ..filter.query(app)? };
        let permit = app.work_permit().await?;
        let bulk = BulkReview::begin(app.require_store()?, query.clone(), Earlier::Kept).await?;
        let count = bulk.count().await?;
        drop(permit);
        Ok(ReviewPage {
            layout: Layout::new(app, actor, Section::Denials, TITLE),
            list: filter.link(&[]),
            conditions: filter.described(),
            count,
            target: ReviewTarget::All { conditions: fixed(filter, &query), to: bulk.end() },
            note,
        })
    }

    /// Asks again about ticked decisions, with the form as it was.
    fn of_ticked(
        app: &AppState,
        actor: &Actor,
        list: String,
        ids: &[&str],
        note: NoteForm,
    ) -> ReviewPage {
        ReviewPage {
            layout: Layout::new(app, actor, Section::Denials, TITLE),
            list,
            conditions: Vec::new(),
            count: ids.len() as u64,
            target: ReviewTarget::Ticked(ids.iter().map(|&id| id.to_owned()).collect()),
            note,
        }
    }
}

#[derive(Template)]
#[template(path = "reviewed.html", config = "src/http/console/askama.toml")]
pub(super) struct ReviewedPage {
    layout: Layout,
    list: String,
    acknowledged: u64,
    refused: u64,
    /// The decisions that another person has acknowledged meanwhile, with that acknowledgement.
    conflicts: Vec<(String, Option<Acknowledgement>)>,
    /// Decisions that are no longer in the store.
    dropped: u64,
    /// False if decisions are left.
    is_complete: bool,
}

/// Reads the conditions of a review.
fn read(query: Option<&str>) -> Result<Filter, Problem> {
    let mut params = params(query);
    let filter = Filter::take(&mut params, "deny")?;
    if params.text("log")?.is_some() {
        let why = "log: decisions of collected logs are acknowledged where these logs are written; leave the condition out";
        return Err(Problem::bad(why));
    }
    params.finish(&[])?;
    if filter.is_empty() {
        let why = "without a condition this would acknowledge the whole log; choose a verdict, or another condition";
        return Err(Problem::bad(why));
    }
    if filter.acknowledged == "true" {
        let why = "acknowledged yes: these decisions have an acknowledgement already; replace it on the page of a decision";
        return Err(Problem::bad(why));
    }
    Ok(filter)
}

/// Serves `/denials/acknowledge?…`, which counts what is meant and asks.
pub(super) async fn page(
    State(app): State<AppState>,
    actor: Actor,
    reviewer: Reviewer,
    RawQuery(query): RawQuery,
) -> PageResult<ReviewPage> {
    let filter = read(query.as_deref())?;
    let page = ReviewPage::of_all(&app, &actor, &filter, None, NoteForm::of(reviewer));
    Ok(Page(page.await?))
}

/// Returns the conditions with their times as of now.
fn fixed(filter: &Filter, query: &DecisionQuery) -> String {
    let time = |time: Option<Moment>| time.map(format_moment).unwrap_or_default();
    let (since, until) = (time(query.since), time(query.until));
    filter.link(&[("since", &since), ("until", &until)])
}

/// A note on all decisions of some conditions.
#[derive(Deserialize)]
pub(super) struct ReviewAllForm {
    #[serde(default)]
    by: String,
    note: String,
    /// The conditions, as a query.
    conditions: String,
    /// The last record that is meant.
    to: u64,
}

/// `POST /denials/acknowledge`
pub(super) async fn all(
    State(app): State<AppState>,
    actor: Actor,
    headers: HeaderMap,
    Posted(form): Posted<ReviewAllForm>,
) -> Result<Response, Problem> {
    let filter = read(Some(&form.conditions))?;
    let by = actor.acts_as(Some(&form.by))?.unwrap_or_default();
    let note = match NoteForm::read(&by, &form.note, app.now()) {
        Ok(note) => note,
        Err(note) => {
            let status = note.status(&headers)?;
            let page = ReviewPage::of_all(&app, &actor, &filter, Some(form.to), note).await?;
            return Ok((status, Page(page)).into_response());
        }
    };
    let query = DecisionQuery { to: Some(form.to), ..filter.query(&app)? };
    let store = app.require_store()?;
    let permit = app.work_permit().await?;
    let mut bulk = BulkReview::begin(store, query, Earlier::Kept).await?;
    let mut done =
        ReviewedPage { is_complete: false, ..ReviewedPage::new(&app, &actor, filter.link(&[])) };
    while done.acknowledged < MAX_DECISIONS {
        let Some(step) = bulk.step(&note).await? else {
            done.is_complete = true;
            break;
        };
        done.acknowledged += step.acknowledged;
        for one in step.refused {
            let id = DecisionId::from_octets(one.id).to_string();
            done.refuse(id, one.present);
        }
    }
    drop(permit);
    Ok((remembered(&app, &actor, &note.by), Page(done)).into_response())
}

/// `POST /denials/acknowledge/ticked`
pub(super) async fn ticked(
    State(app): State<AppState>,
    actor: Actor,
    headers: HeaderMap,
    Posted(fields): Posted<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let field = |name: &str| {
        let mut found = fields.iter().filter(|(known, _)| known == name);
        found.next().map_or("", |(_, value)| value.as_str())
    };
    let mut list = params(Some(field("list")));
    let list = Filter::take(&mut list, "deny")?.link(&[]);
    let ids = fields.iter().filter(|(name, _)| name == "id");
    let ids: Vec<&str> = ids.map(|(_, id)| id.as_str()).collect();
    if ids.is_empty() {
        return Err(Problem::bad("no decision is ticked"));
    }
    if ids.len() > TICKED {
        return Err(Problem::bad(format!(
            "at most {TICKED} decisions are acknowledged by their ticks; acknowledge all of a filter instead"
        )));
    }
    let by = actor.acts_as(Some(field("by")))?.unwrap_or_default();
    let note = match NoteForm::read(&by, field("note"), app.now()) {
        Ok(note) => note,
        Err(note) => {
            let status = note.status(&headers)?;
            let page = ReviewPage::of_ticked(&app, &actor, list, &ids, note);
            return Ok((status, Page(page)).into_response());
        }
    };
    let store = app.require_store()?;
    let mut done = ReviewedPage::new(&app, &actor, list);
    let (mut known, mut all) = (Vec::new(), Vec::new());
    for id in ids {
        match store.decision(id).await? {
            Some(decision) => {
                known.push(id.to_owned());
                all.push(Review::first(decision.seq));
            }
            None => done.dropped += 1,
        }
    }
    let results = store.acknowledge(all, note.clone()).await?;
    for (id, result) in known.into_iter().zip(results) {
        match result {
            Reviewed::Done => done.acknowledged += 1,
            Reviewed::Differs(present) => done.refuse(id, present),
            Reviewed::Unknown => done.dropped += 1,
        }
    }
    Ok((remembered(&app, &actor, &note.by), Page(done)).into_response())
}

/// Returns the link to the next open decision of a list: an older one, or else the newest. It looks at a bounded number of
/// records.
pub(super) async fn next_open(
    app: &AppState,
    filter: &Filter,
    seq: u64,
) -> Result<Option<String>, Problem> {
    let store = app.require_store()?;
    let (query, size) = (filter.query(app)?, store.extent().await?.size);
    let ranges = [
        (seq.saturating_sub(MAX_PASSED), seq.saturating_sub(1)),
        (seq.max(size.saturating_sub(MAX_PASSED)), size),
    ];
    for (after, to) in ranges {
        let open = DecisionQuery {
            acknowledged: Some(false),
            from: Some(after.saturating_add(1)),
            to: Some(to),
            newest_first: true,
            limit: 1,
            ..query.clone()
        };
        if let Some(next) = store.decisions(open).await?.first() {
            let id = id_of(&next.entry).map(|id| DecisionId::from_octets(*id));
            let context = filter.context();
            return Ok(id.map(|id| {
                if context.is_empty() {
                    format!("/decisions/{id}")
                } else {
                    format!("/decisions/{id}?{context}")
                }
            }));
        }
    }
    Ok(None)
}

impl ReviewedPage {
    fn new(app: &AppState, actor: &Actor, list: String) -> ReviewedPage {
        ReviewedPage {
            layout: Layout::new(app, actor, Section::Denials, "Acknowledged"),
            list,
            acknowledged: 0,
            refused: 0,
            conflicts: Vec::new(),
            dropped: 0,
            is_complete: true,
        }
    }

    fn refuse(&mut self, id: String, present: Option<Acknowledgement>) {
        self.refused += 1;
        if self.conflicts.len() < MAX_NAMED {
            self.conflicts.push((id, present));
        }
    }
}
