//! The report on a span of a log, or of several, for readers outside: what was asked, forwarded and refused, on which grounds, with
//! which exceptions, and what of it is proven.
//!
//! [`Gathering`] counts the logs step by step, [`Report::of`] takes the figures together with the objects that they name,
//! and [`html`] writes the page. The same [`Report`] is the JSON.
//!
//! Facts that the log does not record are left out and named; nothing is estimated.

mod content;
mod exceptions;
mod gathering;
pub mod html;
mod logs;
mod overrides;
mod rows;

pub use self::content::*;
use self::exceptions::exceptions;
pub use self::gathering::Gathering;
use self::logs::{Readable, facts_of};
use self::overrides::overrides;
use self::rows::{
    acknowledgements, fetches, listed, periods, reasons, robots, rules, settings, summary, usage,
};
use super::verify::case::Trusted;
use crawlgate_config::Config;
use crawlgate_store::figures::{Figures, Table};
use crawlgate_store::logs::Logs;
use crawlgate_store::{DecisionQuery, StoreError};
use crawlgate_system::clock::Moment;
use crawlgate_text::time_text;

/// Rows of a list.
const TOP: usize = 100;

/// The span and the part of the log that a report is about.
#[derive(Clone, Debug)]
pub struct ReportQuery {
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

impl ReportQuery {
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

impl Report {
    /// Puts the counted figures together with the objects that they name. `trusted` are the keys of each log.
    ///
    /// # Errors
    /// When a store cannot be read that was read before.
    pub async fn of(
        gathering: &Gathering,
        logs: &Logs,
        config: &Config,
        trusted: &[Trusted],
        now: Moment,
    ) -> Result<Self, StoreError> {
        let Gathering { question, figures, .. } = gathering;
        let purpose = |client: &String| {
            let mut clients = config.clients.iter();
            let known = clients.find(|known| &*known.name == client)?;
            known.purpose.as_deref().map(str::to_owned)
        };
        let none = |_: &String| None;
        let (knows_forwarded, knows_each) =
            (figures.knows_forwarded(), figures.knows_each_forwarded());
        let mut clients = listed(&figures.clients, knows_forwarded, purpose);
        if question.origin.is_some() {
            clients.others = 0;
        }
        let facts = facts_of(gathering, logs, trusted).await?;
        // With one log, all is of that one.
        let is_several = facts.len() > 1;
        let names = facts.iter().map(|one| one.log.clone().filter(|_| is_several));
        let names: Vec<Option<String>> = names.collect();
        let readable = Readable::of(gathering, logs);
        let (fetches, lacks_fetches) = fetches(question, &readable).await?;
        let exceptions = exceptions(figures, &names, TOP);
        let has_running = exceptions.without_end > 0;
        Ok(Self {
            format: FORMAT,
            about: about(question, now),
            logs: facts,
            not_shown: NOT_SHOWN.to_vec(),
            not_recorded: not_recorded(
                question,
                figures,
                fetches.as_ref(),
                lacks_fetches,
                has_running,
            ),
            summary: summary(figures),
            months: periods(figures, "2026-11".len()),
            days: periods(figures, "2026-11-20".len()),
            clients,
            product_tokens: listed(&figures.tokens, knows_each, none),
            user_agents: listed(&figures.user_agents, knows_each, none),
            origins: Origins {
                count: named(&figures.origins),
                most_asked: rows::most_asked(&figures.origins, TOP, knows_each),
                most_refused: rows::most_refused(&figures.origins, TOP, knows_each),
                uncounted: figures.origins.others.requests(),
            },
            rules: rules(&figures.rules, TOP),
            rules_uncounted: figures.rules.others.requests(),
            reasons: reasons(figures),
            usage: usage(figures),
            robots: robots(&figures.robots, fetches, TOP),
            settings: settings(&figures.policies, &readable).await?,
            overrides: overrides(figures, question, &readable).await?,
            exceptions,
            acknowledgements: acknowledgements(figures),
        })
    }
}

/// Returns the number of rows with a name.
fn named(table: &Table<String>) -> u64 {
    let unnamed = table.all().first().is_some_and(|(name, _)| name.is_empty());
    table.len() as u64 - u64::from(unnamed)
}

fn about(question: &ReportQuery, now: Moment) -> About {
    About {
        release: env!("CARGO_PKG_VERSION"),
        made_at: time_text(now),
        made_by: question.by.clone(),
        since: time_text(question.since),
        until: time_text(question.until),
        client: question.client.clone(),
        origin: question.origin.clone(),
    }
}

/// Returns what this log does not tell.
fn not_recorded(
    question: &ReportQuery,
    figures: &Figures,
    fetches: Option<&FetchCounts>,
    lacks_fetches: bool,
    has_running: bool,
) -> Vec<&'static str> {
    let is_of_a_part = question.is_of_a_part();
    let is_uncounted = fetches.is_none();
    let is_counted_late = fetches.is_some_and(|fetches| fetches.is_cut_off);
    let has_processes = figures.events.iter().any(exceptions::is_of_a_process);
    [
        (is_of_a_part, "how often the robots.txt behind these requests was fetched: fetches are counted for all clients and origins together"),
        (!is_of_a_part && is_uncounted, "how often robots.txt was fetched: the store has counted no fetches of this span, as the collected copy of a log never does"),
        (is_counted_late, "fetches of robots.txt before the hour in which the store began to count them"),
        (!is_uncounted && lacks_fetches, "fetches of robots.txt by the machines of some of these logs: the copies of their logs do not have them"),
        (true, "how often the robots.txt of each origin was fetched: fetches are counted by outcome and hour"),
        (true, "queries that were left out of records ([log] redact_query)"),
        (!has_processes, "the time in which no process ran: no process of this span recorded its start or end"),
        (figures.unrecorded > 0, "origin, reason, robots.txt and User-Agent of requests that were forwarded without a record: they were counted only by client"),
        (figures.repeated > 0, "origin, rule and crawler of refused requests that were counted without a record ([audit] refusals_per_minute, and clients beyond their rate or quota)"),
        (figures.elsewhere > 0, "which of the requests that were counted only by client went to this origin: so the numbers of all and of forwarded requests are unknown"),
        (has_running, "requests that a process forwarded without a record after its last count, which it writes each hour, for each report, and at its end: a process of this span has recorded no end"),
        (figures.robots.lost > 0, "the state of the robots.txt behind some decisions: the store has lost it"),
    ]
    .into_iter()
    .filter_map(|(applies, what)| applies.then_some(what))
    .collect()
}

#[cfg(test)]
mod tests;
