//! The report on a span of the log, for readers outside: what was asked, forwarded and refused, on which grounds, with
//! which exceptions, and what of it is proven.
//!
//! [`Gathering`] counts the log step by step, [`Report::of`] takes the figures together with the objects that they name,
//! and [`html`] writes the page. The same [`Report`] is the JSON.
//!
//! Facts that the log does not record are left out and named; nothing is estimated.

mod content;
mod exceptions;
pub mod html;
mod overrides;
mod rows;

pub use self::content::*;
use self::exceptions::exceptions;
use self::overrides::overrides;
use self::rows::{acknowledgements, listed, periods, reasons, robots, rules, settings, summary};
use super::verify::case::Trusted;
use super::verify::covering::Covering;
use crate::clock::Moment;
use crate::config::Config;
use crate::store::figures::{Figures, Table};
use crate::store::{DecisionQuery, Extent, Store, StoreError, StoredCheckpoint};
use crate::text::time_text;
use crate::tlog::{SEGMENT, VerifierKey};

/// Rows of a list.
const TOP: usize = 100;

/// The span and the part of the log that a report is about.
#[derive(Clone, Debug)]
pub struct Question {
    /// The beginning.
    pub since: Moment,
    /// The end, exclusive.
    pub until: Moment,
    /// The client: its address (without the port) or its name.
    pub client: Option<String>,
    /// The origin (`https://example.com`), or the host whatever the scheme and port.
    pub origin: Option<String>,
    /// The person who makes the report.
    pub by: Option<String>,
}

impl Question {
    /// Tells whether the report is about one client or one origin.
    fn is_of_a_part(&self) -> bool {
        self.client.is_some() || self.origin.is_some()
    }

    fn query(&self) -> DecisionQuery {
        DecisionQuery {
            since: Some(self.since),
            until: Some(self.until),
            client: self.client.clone(),
            origin: self.origin.clone(),
            ..DecisionQuery::default()
        }
    }
}

/// The counting of a span, step by step.
#[derive(Debug)]
pub struct Gathering {
    question: Question,
    extent: Extent,
    next: u64,
    figures: Figures,
}

impl Gathering {
    /// Begins to count. Entries that come later are left out.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn begin(store: &dyn Store, question: Question) -> Result<Self, StoreError> {
        let extent = store.extent().await?;
        Ok(Self {
            question,
            extent,
            next: extent.first,
            figures: Figures::default(),
        })
    }

    /// Returns the number of entries that the steps pass.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.extent.size.saturating_sub(self.extent.first)
    }

    /// Counts the next entries, at most those of one segment. Returns their number; `None` at the end.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn step(&mut self, store: &dyn Store) -> Result<Option<u64>, StoreError> {
        let (first, size) = (self.next, self.extent.size);
        if first >= size {
            return Ok(None);
        }
        let end = ((first / SEGMENT + 1) * SEGMENT).min(size);
        let query = DecisionQuery {
            from: Some(first + 1),
            to: Some(end),
            ..self.question.query()
        };
        let figures = std::mem::take(&mut self.figures);
        self.figures = store.figures(query, figures).await?;
        self.next = end;
        Ok(Some(end - first))
    }

    /// Returns the figures so far.
    #[must_use]
    pub fn figures(&self) -> &Figures {
        &self.figures
    }
}

impl Report {
    /// Puts the counted figures together with the objects that they name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn of(
        gathering: &Gathering,
        store: &dyn Store,
        config: &Config,
        trusted: &Trusted,
        now: Moment,
    ) -> Result<Self, StoreError> {
        let Gathering {
            question, figures, ..
        } = gathering;
        let purpose = |client: &String| {
            let mut clients = config.clients.iter();
            let known = clients.find(|known| &*known.name == client)?;
            known.purpose.as_deref().map(str::to_owned)
        };
        let checkpoints = store.checkpoints().await?;
        let fetches = fetches(question, store).await?;
        let none = |_: &String| None;
        let mut clients = listed(&figures.clients, purpose);
        if question.origin.is_some() {
            clients.others = 0;
        }
        Ok(Self {
            format: FORMAT,
            about: about(gathering, store, trusted, &checkpoints, now).await?,
            not_shown: NOT_SHOWN.to_vec(),
            not_recorded: not_recorded(question, figures, fetches.as_ref()),
            summary: summary(figures),
            months: periods(figures, "2026-11".len()),
            days: periods(figures, "2026-11-20".len()),
            clients,
            product_tokens: listed(&figures.tokens, none),
            user_agents: listed(&figures.user_agents, none),
            origins: Origins {
                count: named(&figures.origins),
                most_asked: rows::most_asked(&figures.origins, TOP),
                most_refused: rows::most_refused(&figures.origins, TOP),
                uncounted: figures.origins.others.requests(),
            },
            rules: rules(&figures.rules, TOP),
            rules_uncounted: figures.rules.others.requests(),
            reasons: reasons(figures),
            robots: robots(&figures.robots, fetches, TOP),
            settings: settings(&figures.policies, store).await?,
            overrides: overrides(figures, question, store).await?,
            exceptions: exceptions(figures, TOP),
            acknowledgements: acknowledgements(figures),
            checkpoint: checkpoints.last().map(facts),
            verification: None,
        })
    }
}

/// Returns the number of rows with a name.
fn named(table: &Table<String>) -> u64 {
    let unnamed = table.all().first().is_some_and(|(name, _)| name.is_empty());
    table.len() as u64 - u64::from(unnamed)
}

async fn about(
    gathering: &Gathering,
    store: &dyn Store,
    trusted: &Trusted,
    checkpoints: &[StoredCheckpoint],
    now: Moment,
) -> Result<About, StoreError> {
    let Gathering {
        question, extent, ..
    } = gathering;
    let keys: Vec<String> = trusted.keys.all.iter().map(ToString::to_string).collect();
    // Keys of earlier logs may be trusted, too.
    let newest = Covering::of(0, checkpoints, &trusted.keys);
    let name = match &newest {
        Some(newest) => Some(&newest.checkpoint.origin),
        None => trusted.keys.all.first().map(VerifierKey::name),
    };
    let first = store.records(extent.first, 1).await?;
    let first = first.first().filter(|_| extent.first < extent.size);
    let kept_since = first.map(|first| first.time);
    Ok(About {
        log: name.map(ToString::to_string),
        keys,
        release: env!("CARGO_PKG_VERSION"),
        made_at: time_text(now),
        made_by: question.by.clone(),
        since: time_text(question.since),
        until: time_text(question.until),
        client: question.client.clone(),
        origin: question.origin.clone(),
        records: extent.size,
        first_kept: extent.first + 1,
        kept_since: kept_since.map(time_text),
        is_cut_off: extent.first > 0 && kept_since.is_none_or(|kept| question.since < kept),
    })
}

fn facts(checkpoint: &StoredCheckpoint) -> CheckpointFacts {
    CheckpointFacts {
        size: checkpoint.size,
        signed_at: time_text(checkpoint.time),
        note: checkpoint.note.clone(),
    }
}

/// Returns the fetches of robots.txt in the span; `None` unless the report is about all of them, and some were counted.
async fn fetches(
    question: &Question,
    store: &dyn Store,
) -> Result<Option<FetchCounts>, StoreError> {
    if question.is_of_a_part() {
        return Ok(None);
    }
    let sums = store.fetch_sums(question.since, question.until).await?;
    let Some(first) = sums.first.filter(|first| *first < question.until) else {
        return Ok(None);
    };
    let mut fetches = FetchCounts {
        counted_since: time_text(first),
        is_cut_off: first > question.since,
        ..FetchCounts::default()
    };
    for sum in sums.by_result {
        fetches.count += sum.fetches;
        match &*sum.result {
            "successful" => fetches.successful += sum.fetches,
            "unavailable" => fetches.unavailable += sum.fetches,
            _ => fetches.unreachable += sum.fetches,
        }
        fetches.unchanged += sum.unchanged;
        fetches.changed += sum.changed;
        fetches.truncated += sum.truncated;
    }
    Ok(Some(fetches))
}

/// Returns what this log does not tell.
fn not_recorded(
    question: &Question,
    figures: &Figures,
    fetches: Option<&FetchCounts>,
) -> Vec<&'static str> {
    let is_of_a_part = question.is_of_a_part();
    let is_uncounted = fetches.is_none();
    let is_counted_late = fetches.is_some_and(|fetches| fetches.is_cut_off);
    let has_processes = figures.events.iter().any(exceptions::is_of_a_process);
    [
        (is_of_a_part, "how often the robots.txt behind these requests was fetched: fetches are counted for all clients and origins together"),
        (!is_of_a_part && is_uncounted, "how often robots.txt was fetched: the store has counted no fetches of this span, as the collected copy of a log never does"),
        (is_counted_late, "fetches of robots.txt before the hour in which the store began to count them"),
        (true, "how often the robots.txt of each origin was fetched: fetches are counted by outcome and hour"),
        (true, "preference signals other than robots.txt: this version honours none"),
        (true, "queries that were left out of records ([log] redact_query)"),
        (!has_processes, "the time in which no process ran: no process of this span recorded its start or end"),
        (figures.unrecorded > 0, "origin, robots.txt and User-Agent of requests that were forwarded without a record: they were counted by client alone"),
        (figures.elsewhere > 0, "which of the requests that were counted by client alone went to this origin: they are not in this report"),
        (figures.robots.lost > 0, "the state of the robots.txt behind some decisions: the store has lost it"),
    ]
    .into_iter()
    .filter_map(|(applies, what)| applies.then_some(what))
    .collect()
}

#[cfg(test)]
mod tests;
