//! The recorded requests of an origin that another robots.txt would decide otherwise.
//!
//! The store is read page by page, so memory does not grow with it. Nothing is fetched, and a running service
//! continues.

mod shown;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::source;
use crate::collected::LogSelection;
use crate::{Failure, terminal};
use crawlgate_admin::query::origin;
use crawlgate_admin::query::when::{Edge, moment};
use crawlgate_config::{ClientConfig, Config, Recorded};
use crawlgate_evidence::replay::otherwise::{Inapplicable, OtherFile};
use crawlgate_evidence::verify::review::Replayer;
use crawlgate_evidence::what_if::WhatIf;
use crawlgate_policy::{Decision, Reason, Replay};
use crawlgate_record::{Entry, EventKind, Told};
use crawlgate_robots::Origin;
use crawlgate_store::{DecisionQuery, Store, StoreError};
use crawlgate_system::clock::Moment;

/// Entries to read at once.
const PAGE: usize = 500;

/// Exit code if a request would be decided otherwise.
const CHANGES: u8 = 1;

/// The recorded requests to judge.
#[derive(Args, Clone, Debug)]
pub(super) struct RecordedArgs {
    /// Judge the recorded requests since this time (30d, 2026-11-20) by --robots: which would it decide otherwise?
    ///
    /// Each request is judged with the identity, the path, the mode and the settings of its record; a client is exempt
    /// if the configuration exempts it now. --json prints one object, --jsonl each request that would be decided
    /// otherwise, on a line of its own.
    #[arg(
        long,
        value_name = "TIME",
        requires_all = ["robots", "origin"],
        conflicts_with_all = ["url", "urls", "agent", "purpose", "response", "tdmrep"]
    )]
    since: Option<String>,
    /// Latest time of these requests, exclusive; a day counts whole
    #[arg(long, value_name = "TIME", requires = "since")]
    until: Option<String>,
    /// The origin of these requests: the one that would serve the file
    #[arg(long, value_name = "ORIGIN", requires = "since", value_parser = origin)]
    origin: Option<Origin>,
}

impl RecordedArgs {
    /// Tells whether the question is about recorded requests.
    pub(super) fn is_asked(&self) -> bool {
        self.since.is_some()
    }

    /// Returns the question, if one is asked.
    pub(super) fn asked(
        &self,
        file: Option<&Path>,
        now: Moment,
    ) -> Result<Option<WhatIfQuery>, Failure> {
        let (Some(since), Some(origin), Some(file)) = (&self.since, &self.origin, file) else {
            return Ok(None);
        };
        let time = |name, text: &str, edge| {
            moment(text, edge, now).map_err(|error| format!("--{name} {error}"))
        };
        let until = self.until.as_deref();
        Ok(Some(WhatIfQuery {
            file: file.to_owned(),
            origin: origin.clone(),
            since: time("since", since, Edge::Since)?,
            until: until.map(|until| time("until", until, Edge::Until)).transpose()?,
        }))
    }
}

/// A what-if question.
#[derive(Clone, Debug)]
pub(super) struct WhatIfQuery {
    file: PathBuf,
    origin: Origin,
    since: Moment,
    until: Option<Moment>,
}

/// The form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Nothing: the exit code says all.
    None,
    /// For people.
    Text,
    /// One object.
    Json,
    /// Each request that would be decided otherwise, one per line.
    Jsonl,
}

/// The requests that have no record of their own, so that nothing is known of their paths.
#[derive(Clone, Copy, Debug, Default)]
struct Unrecorded {
    /// Requests of all origins that were forwarded.
    forwarded: u64,
    /// Refusals of all origins by robots.txt that were counted.
    refused: u64,
}

/// Answers the question. The result is the exit code.
pub(super) fn run(
    asked: &WhatIfQuery,
    format: Format,
    config: &Config,
    chosen: &LogSelection,
) -> Result<u8, Failure> {
    let logs = chosen.logs(config)?;
    let robots = source::read(&asked.file, config)?;
    let robots = OtherFile::of(&robots);
    let mut answer = Answer {
        asked,
        robots: &robots,
        clients: &config.clients,
        format,
        summary: WhatIf::default(),
        unrecorded: Unrecorded::default(),
    };
    let mut faults = Vec::new();
    source::runtime()?.block_on(async {
        for log in &logs {
            let read = async {
                let store = logs.open(log).await.map_err(Stopped::from)?;
                answer.read(&store).await
            };
            match read.await {
                Ok(()) => {}
                Err(Stopped::Store(error)) if logs.only().is_some() => {
                    return Err(error.into());
                }
                Err(Stopped::Store(error)) => {
                    terminal::eprint(&format!("{}: {error}", log.name()));
                    faults.push(log.name().to_string());
                }
                Err(Stopped::Output(error)) => return Err(error),
                Err(Stopped::Gone) => break,
            }
        }
        Ok(())
    })?;
    let recorded = config.log.decisions;
    match format {
        Format::None | Format::Jsonl => {}
        Format::Text => {
            terminal::print(answer.text(recorded).as_bytes())?;
        }
        Format::Json => {
            terminal::print(&terminal::json_line(&answer.json(recorded)))?;
        }
    }
    if !faults.is_empty() {
        bail!("the answer lacks these logs: {}", faults.join(", "));
    }
    Ok(match answer.summary.changed() {
        0 => 0,
        _ => CHANGES,
    })
}

/// The reason why a log was not read to its end.
enum Stopped {
    Store(StoreError),
    Output(Failure),
    /// The reader of the output has gone.
    Gone,
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The answer under construction.
struct Answer<'a> {
    asked: &'a WhatIfQuery,
    robots: &'a OtherFile,
    /// The clients, as they are now.
    clients: &'a [ClientConfig],
    format: Format,
    summary: WhatIf,
    unrecorded: Unrecorded,
}

impl Answer<'_> {
    /// Adds the requests of one log.
    async fn read(&mut self, store: &Store) -> Result<(), Stopped> {
        let mut review = Replayer::new(store);
        let mut query = DecisionQuery {
            since: Some(self.asked.since),
            until: self.asked.until,
            origin: Some(self.asked.origin.to_string()),
            limit: PAGE,
            ..DecisionQuery::default()
        };
        loop {
            let page = store.decisions(query.clone()).await?;
            let mut lines = Vec::new();
            for stored in &page {
                let Ok(told) = stored.told() else {
                    self.summary.leave_aside(Inapplicable::Incomplete);
                    continue;
                };
                let exempt = self.exempt(told.client_name.map(|name| name.kept));
                let decision = review.otherwise(&told, self.robots, exempt).await?;
                let changes = self.summary.count(&told, stored.time, &decision);
                if let (true, Format::Jsonl, Ok(decision)) = (changes, self.format, &decision) {
                    lines.extend(shown::change(&told, decision));
                }
            }
            if !terminal::print(&lines).map_err(Stopped::Output)? {
                return Err(Stopped::Gone);
            }
            match page.last() {
                Some(last) if page.len() == PAGE => query.after = Some(last.seq),
                _ => break,
            }
        }
        query.origin = None;
        query.after = None;
        loop {
            let page = store.events(query.clone()).await?;
            for stored in &page {
                if let Ok(Entry::Event(event)) = Entry::read(&stored.entry) {
                    self.unrecorded.count(&event.kind);
                }
            }
            match page.last() {
                Some(last) if page.len() == PAGE => query.after = Some(last.seq),
                _ => return Ok(()),
            }
        }
    }
}

impl Answer<'_> {
    /// Returns the reason for which a client is exempt now.
    fn exempt(&self, name: Option<&str>) -> Option<Arc<str>> {
        let client = self.clients.iter().find(|one| Some(&*one.name) == name)?;
        client.exempt.clone()
    }
}

impl Unrecorded {
    fn count(&mut self, kind: &EventKind<'_>) {
        match kind {
            EventKind::Forwarded { count, .. } => {
                self.forwarded = self.forwarded.saturating_add(*count);
            }
            EventKind::Repeated(repeated) => {
                let reason = Reason::from_name(repeated.reason);
                let is_by_robots = |reason: Reason| {
                    matches!(reason.info().replay, Replay::Url | Replay::Origin | Replay::Tunnel)
                };
                if reason.is_some_and(is_by_robots) {
                    self.refused = self.refused.saturating_add(repeated.count);
                }
            }
            _ => {}
        }
    }

    /// Returns what the answer cannot know, in sentences.
    fn words(self, recorded: Recorded) -> Vec<String> {
        let mut words = Vec::new();
        match recorded {
            Recorded::Denied => words.push(
                "[log] decisions is \"denied\": a request that was allowed has no record, so the file may deny more than \
                 this; \"all\" records each from now on"
                    .to_owned(),
            ),
            Recorded::Purposes => words.push(
                "[log] decisions is \"purposes\": a request that was allowed has a record only if its client declares a \
                 purpose, so the file may deny more than this; \"all\" records each from now on"
                    .to_owned(),
            ),
            Recorded::All => {}
        }
        if self.forwarded > 0 {
            words.push(format!(
                "{} requests of all origins were forwarded in this time without a record of their own",
                self.forwarded
            ));
        }
        if self.refused > 0 {
            words.push(format!(
                "{} repeated refusals of all origins were counted in this time, not recorded one by one",
                self.refused
            ));
        }
        words
    }
}
