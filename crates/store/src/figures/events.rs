//! The events of a span: those that count requests, and those that a report tells one by one.

use std::net::IpAddr;

use super::count::outcome_in_mode;
use super::{DAY, Figures, OutcomeInMode, Sum};
use crate::search::Search;
use crawlgate_policy::Outcome;
use crawlgate_record::{
    Digest, DropCause, Event, EventKind, Mode, Repeated, RowClient, Settings, Texts,
};

/// Events to tell one by one.
const MAX_EVENTS: usize = 10_000;

/// An event to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The number of its log.
    pub log: usize,
    /// Its time, in milliseconds since the epoch.
    pub time: u64,
    /// The event.
    pub kind: NotedKind,
}

/// The kinds of events to tell. Times are milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotedKind {
    /// Records were lost.
    Lost {
        /// Number of records.
        count: u64,
        /// Time of the first.
        first: u64,
        /// Time of the last.
        last: u64,
    },
    /// A process began to record.
    Started {
        /// Its number.
        process: u64,
        /// The version of crawlgate.
        release: String,
    },
    /// A process recorded its last entry.
    Stopped {
        /// Its number.
        process: u64,
    },
    /// Settings came into force.
    Settings {
        /// SHA-256 of the settings that verdicts follow from.
        policy: Digest,
        /// The mode.
        mode: Mode,
        /// Origins in report mode.
        origins: Vec<String>,
        /// Clients in report mode.
        clients: Vec<String>,
        /// Exempt clients, with the operator's reasons.
        exempt: Vec<String>,
    },
    /// An override was added.
    OverrideAdded {
        /// SHA-256 of the override.
        overridden: Digest,
    },
    /// An override was removed.
    OverrideRemoved {
        /// SHA-256 of the override.
        overridden: Digest,
        /// The person who removed it.
        by: String,
    },
    /// Retention dropped entries.
    Dropped {
        /// The first index that was not dropped.
        index: u64,
        /// The cause.
        cause: DropCause,
    },
    /// Another key signs the log.
    KeyRotated {
        /// The key that signed before.
        old: String,
        /// The key that signs since.
        new: String,
        /// The person who replaced it.
        by: String,
        /// The person's reason.
        reason: String,
    },
    /// The log continues where another one ended.
    Forked {
        /// The name of the other log.
        log: String,
        /// Number of its entries.
        size: u64,
        /// The person's reason.
        reason: String,
    },
}

/// The client of requests that were counted together.
#[derive(Clone, Copy)]
struct Counted<'a> {
    address: Option<IpAddr>,
    name: Option<&'a str>,
}

impl Counted<'_> {
    fn is_wanted(&self, search: &Search) -> bool {
        let unnamed = IpAddr::from([0, 0, 0, 0]);
        search.holds_client_at(self.address.unwrap_or(unnamed), self.name)
    }

    /// Returns the client's name or address; nothing if several clients were counted together.
    fn text(&self) -> String {
        let address = self.address.filter(|address| !address.is_unspecified());
        match (self.name, address) {
            (Some(name), _) => name.to_owned(),
            (None, Some(address)) => address.to_string(),
            (None, None) => String::new(),
        }
    }
}

impl Figures {
    /// Counts an event within the time of the search.
    pub(super) fn count_event(&mut self, search: &Search, event: &Event<'_>) {
        if !search.holds_time(event.time()) {
            return;
        }
        let kind = match &event.kind {
            EventKind::Forwarded { count, first, last, rows } => {
                let mut rest = *count;
                for row in rows.iter() {
                    let client = match row.client {
                        RowClient::Named(name) => Counted { address: None, name: Some(name.kept) },
                        RowClient::At(address) => Counted { address: Some(address), name: None },
                    };
                    rest = rest.saturating_sub(row.count);
                    self.forwarded(search, client, row.count, (*first, *last));
                }
                let others = Counted { address: None, name: None };
                return self.forwarded(search, others, rest, (*first, *last));
            }
            EventKind::Repeated(Repeated {
                mode,
                verdict,
                reason,
                client,
                client_name,
                count,
                first,
                last,
            }) => {
                let client =
                    Counted { address: Some(*client), name: client_name.map(|name| name.kept) };
                let outcome_in_mode = outcome_in_mode(*mode, *verdict, reason, false);
                let requests =
                    Self::together(search, client, *count, outcome_in_mode, (*first, *last));
                let Some((sum, is_elsewhere)) = requests else {
                    return;
                };
                if is_elsewhere {
                    self.elsewhere += *count;
                    return;
                }
                self.repeated += *count;
                self.add_reason((*mode, *verdict, reason), &sum, None);
                return self.add_together(client, &sum);
            }
            EventKind::Acknowledged { .. } | EventKind::AnsweredLogFailed { .. } => return,
            other => noted(other),
        };
        let Some(kind) = kind else { return };
        if self.events.len() == MAX_EVENTS {
            self.events_left_out += 1;
            return;
        }
        self.events.push(Noted { log: self.log, time: event.time(), kind });
    }

    /// Counts requests of one client that were forwarded without a record.
    fn forwarded(&mut self, search: &Search, client: Counted<'_>, count: u64, span: (u64, u64)) {
        let outcome_in_mode = (Outcome::Forwarded, false);
        match Self::together(search, client, count, outcome_in_mode, span) {
            None => {}
            Some((_, true)) => self.elsewhere += count,
            Some((sum, false)) => {
                self.unrecorded += count;
                self.add_together(client, &sum);
            }
        }
    }

    /// Returns the sum of requests that were counted together, and true if they have no origin to ask for.
    fn together(
        search: &Search,
        client: Counted<'_>,
        count: u64,
        outcome_in_mode: OutcomeInMode,
        (first, last): (u64, u64),
    ) -> Option<(Sum, bool)> {
        if count == 0 || !client.is_wanted(search) {
            return None;
        }
        let mut sum = Sum::default();
        sum.count(outcome_in_mode, count, first, last);
        Some((sum, search.has_origin()))
    }

    fn add_together(&mut self, client: Counted<'_>, sum: &Sum) {
        self.days.entry(sum.last / DAY).or_default().add(sum);
        self.clients.add(client.text(), sum);
    }
}

/// Returns the event to tell; `None` for one that is no news of the log.
fn noted(kind: &EventKind<'_>) -> Option<NotedKind> {
    let texts = |texts: &Texts<'_>| texts.iter().map(|text| text.kept.to_owned()).collect();
    Some(match kind {
        EventKind::Lost { count, first, last, .. } => {
            NotedKind::Lost { count: *count, first: *first, last: *last }
        }
        EventKind::Started(process) => {
            NotedKind::Started { process: process.number, release: process.release.to_owned() }
        }
        EventKind::Stopped(process) => NotedKind::Stopped { process: process.number },
        EventKind::Settings(Settings {
            policy,
            mode,
            report_origins,
            report_clients,
            exempt_clients,
        }) => NotedKind::Settings {
            policy: **policy,
            mode: *mode,
            origins: texts(report_origins),
            clients: texts(report_clients),
            exempt: texts(exempt_clients),
        },
        EventKind::OverrideAdded { overridden } => {
            NotedKind::OverrideAdded { overridden: **overridden }
        }
        EventKind::OverrideRemoved { overridden, by } => {
            NotedKind::OverrideRemoved { overridden: **overridden, by: by.kept.to_owned() }
        }
        EventKind::Dropped { index, cause } => NotedKind::Dropped { index: *index, cause: *cause },
        EventKind::KeyRotated { old, new, by, reason } => NotedKind::KeyRotated {
            old: (*old).to_owned(),
            new: (*new).to_owned(),
            by: by.kept.to_owned(),
            reason: reason.kept.to_owned(),
        },
        EventKind::Forked { log, size, reason, .. } => NotedKind::Forked {
            log: (*log).to_owned(),
            size: *size,
            reason: reason.kept.to_owned(),
        },
        _ => return None,
    })
}
