//! The content of the queue, under its lock.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::error::LogFailed;
use super::super::field;
use super::super::repeats::{self, Repeats};
use crate::clock::{Moment, Uptime};
use crate::rep::Origin;
use crate::robots::identity::Identity;
use crate::robots::state::State as OriginState;
use crate::store::{self, Party, RecordSummary};
use crate::text::DecisionId;
use crate::text::json::Object;
use crate::text::timestamp;

/// The content of a queue, under its lock.
#[derive(Debug)]
pub(super) struct Inner {
    /// Data that the writer has not taken yet; the lines in it are whole.
    pub(super) next: store::Batch,
    /// Approximate octets in `next` beside its lines.
    pub(super) weight: usize,
    /// Octets that the writer has taken and not written yet.
    pub(super) taken: usize,
    /// The latest unwritten state of each origin and identity, with its number in the order of entries.
    pub(super) landings: HashMap<Origin, Vec<(Landed, u64)>>,
    /// Lines, origin updates and settings that were ever queued, and how many of them are written.
    pub(super) put: u64,
    pub(super) written: u64,
    /// Refusals that are too many for single records.
    pub(super) repeats: Repeats,
    /// True while a task waits for the lines to be written: do not gather.
    pub(super) hurry: bool,
    /// The failure that stops the writer at present.
    pub(super) failure: Option<LogFailed>,
    pub(super) lost: Option<Lost>,
    /// Records of requests that were answered `log_failed` instead, with the batch of their record taken already.
    pub(super) withdrawn: Vec<DecisionId>,
    pub(super) delay: Delay,
    /// Reading of the clock when the first entry came into `next`.
    pub(super) since: Option<Uptime>,
    pub(super) life: Life,
}

/// The delay of records on their way to the store.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delay {
    /// True while the batch at hand is late: requests wait.
    pub(super) is_late: bool,
    /// True from the first long delay until a batch is in time again.
    pub(super) is_behind: bool,
    /// Late batches in a row.
    pub(super) late_in_a_row: u32,
}

/// A queued state of an origin.
#[derive(Clone, Debug)]
pub struct Landed {
    /// The identity of the state.
    pub identity: Identity,
    /// The User-Agent of the fetch behind the state.
    pub user_agent: Arc<str>,
    /// The state.
    pub state: Arc<OriginState>,
}

/// The life of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Running,
    /// The writer writes the rest of the queue, and then ends.
    Closing,
    /// The writer has ended.
    Over,
}

/// Records lost for lack of room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) count: u64,
    first: Moment,
    last: Moment,
}

impl Inner {
    pub(super) fn new() -> Inner {
        Inner {
            next: store::Batch::default(),
            weight: 0,
            taken: 0,
            landings: HashMap::new(),
            put: 0,
            written: 0,
            repeats: Repeats::default(),
            hurry: false,
            failure: None,
            lost: None,
            withdrawn: Vec::new(),
            delay: Delay::default(),
            since: None,
            life: Life::Running,
        }
    }

    pub(super) fn held(&self) -> usize {
        self.next.lines.len() + self.weight + self.taken
    }

    pub(super) fn is_empty(&self) -> bool {
        // Only notes have no weight, and each comes with a line.
        self.next.lines.is_empty() && self.weight == 0
    }

    /// Queues the counts of refusals at the end of their minute; at the end of the log, all of them.
    pub(super) fn tell_repeats(&mut self, now: Moment) {
        let is_last = self.life != Life::Running;
        let mut lines = Vec::new();
        self.repeats.drain(now, is_last, |line| lines.push(line));
        for line in lines {
            self.put_line(line);
            self.put += 1;
        }
    }

    /// Queues a line without waking the writer.
    pub(super) fn put_line(&mut self, line: repeats::Line) {
        self.next.lines.extend_from_slice(&line.text);
        self.note(line.note);
    }

    /// Adds a note without a weight: its line weighs ten times as much.
    pub(super) fn note(&mut self, note: RecordSummary) {
        self.next.notes.push(note);
    }

    pub(super) fn lose(&mut self, time: Moment) {
        let lost = self.lost.get_or_insert(Lost {
            count: 0,
            first: time,
            last: time,
        });
        lost.count += 1;
        lost.last = time;
    }

    /// Queues the line that says which record has another answer than the request got.
    pub(super) fn tell_withdrawal(&mut self, id: DecisionId, now: Moment) {
        add_withdrawal(&mut self.next, id, now);
    }

    pub(super) fn failure(&self) -> LogFailed {
        self.failure.clone().unwrap_or_else(LogFailed::ended)
    }
}

/// Adds the line that says which decision was answered `log_failed`.
pub(in crate::audit) fn add_withdrawal(batch: &mut store::Batch, id: DecisionId, now: Moment) {
    let mut event = Object::open(&mut batch.lines);
    event.plain(field::TIME, &timestamp::rfc3339(now));
    event.plain(field::EVENT, b"answered_log_failed");
    event.plain(field::DECISION, id.to_string().as_bytes());
    event.close();
    batch.lines.push(b'\n');
    batch.notes.push(own(now, 1));
}

/// Returns the summary of a line about the log itself.
pub(super) fn own(time: Moment, count: u64) -> RecordSummary {
    RecordSummary {
        time,
        party: Party::Own,
        kind: None,
        count,
        sha256: None,
    }
}

impl Lost {
    pub(super) fn write_line(&self, now: Moment, out: &mut Vec<u8>) {
        let mut event = Object::open(out);
        event.plain(field::TIME, &timestamp::rfc3339(now));
        event.plain(field::EVENT, b"records_lost");
        event.number(field::COUNT, self.count);
        event.plain(field::FIRST, &timestamp::rfc3339(self.first));
        event.plain(field::LAST, &timestamp::rfc3339(self.last));
        event.close();
        out.push(b'\n');
    }
}
