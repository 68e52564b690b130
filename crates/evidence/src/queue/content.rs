//! The content of the queue, under its lock.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;
use std::sync::Arc;

use super::super::error::LogFailed;
use super::super::forwarded::Forwarded;
use super::super::grounds::{self, Grounds};
use super::super::repeats::{OTHERS, Repeats};
use crawlgate_origins::identity::Identity;
use crawlgate_origins::state::State as OriginState;
use crawlgate_policy::Reason;
use crawlgate_record::{Decision, Digest, Event, EventKind, Mode, Process, Repeated, Verdict};
use crawlgate_robots::Origin;
use crawlgate_store::{self as store, Appended, Object};
use crawlgate_system::clock::{Moment, Uptime};
use crawlgate_text::DecisionId;

/// Objects that the queue remembers; then it forgets all, and later entries queue theirs again.
pub(super) const MAX_KNOWN: usize = 16_384;

/// Approximate octets of an object beside its body.
const OBJECT: usize = 64;

/// The content of a queue, under its lock.
#[derive(Debug)]
pub(super) struct Inner {
    /// Data that the writer has not taken yet.
    pub(super) next: store::Batch,
    /// Objects that were queued: later entries name them without queueing them again.
    known: HashSet<Digest, ahash::RandomState>,
    /// Number of objects in `next` that were queued before the known ones were forgotten.
    pub(super) forgotten: Option<usize>,
    /// Approximate octets in `next` beside its entries.
    pub(super) weight: usize,
    /// Octets that the writer has taken and not written yet.
    pub(super) taken: usize,
    /// The latest unwritten state of each origin and identity, with its number in the order of entries.
    pub(super) updates: HashMap<Origin, Vec<(QueuedState, u64)>>,
    /// Entries, origin updates and settings that were ever queued, and how many of them are written.
    pub(super) put: u64,
    pub(super) written: u64,
    /// Refusals that are too many for single records.
    pub(super) repeats: Repeats,
    /// SHA-256 of the configuration, once the start of this process is told.
    pub(super) configuration: Option<Digest>,
    /// True while a task waits for the entries to be written: do not gather.
    pub(super) hurry: bool,
    /// The failure that stops the writer at present.
    pub(super) failure: Option<LogFailed>,
    /// Records that found no room.
    pub(super) lost: Tally,
    /// Requests that were answered `log_failed` and have no record of their own.
    pub(super) refused: Tally,
    /// Lines of events that the store has appended and no sink has yet, with a mark at the place of the current batch.
    pub(super) appended: VecDeque<Appended>,
    /// Records of requests that were answered `log_failed` instead, with the batch of their record taken already.
    pub(super) withdrawn: Vec<DecisionId>,
    pub(super) delay: Delay,
    /// Reading of the clock when the first entry came into `next`.
    pub(super) since: Option<Uptime>,
    pub(super) life: WriterState,
}

/// The delay of records on their way to the store.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delay {
    /// True while the current batch is late: requests wait.
    pub(super) is_late: bool,
    /// True from the first long delay until a batch is in time again.
    pub(super) is_behind: bool,
    /// Late batches in a row.
    pub(super) late_in_a_row: u32,
}

/// A queued state of an origin.
#[derive(Clone, Debug)]
pub struct QueuedState {
    /// The identity of the state.
    pub identity: Identity,
    /// The User-Agent of the fetch behind the state.
    pub user_agent: Arc<str>,
    /// The state.
    pub state: Arc<OriginState>,
}

/// The life of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriterState {
    Running,
    /// The writer writes the rest of the queue, and then ends.
    Closing,
    /// The writer has ended.
    Over,
}

/// A number of requests, with the times of the first and the last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) count: u64,
    first: Moment,
    last: Moment,
}

impl Inner {
    pub(super) fn new() -> Inner {
        Inner {
            next: store::Batch::default(),
            known: HashSet::default(),
            forgotten: None,
            weight: 0,
            taken: 0,
            updates: HashMap::new(),
            put: 0,
            written: 0,
            repeats: Repeats::default(),
            configuration: None,
            hurry: false,
            failure: None,
            lost: Tally::default(),
            refused: Tally::default(),
            appended: VecDeque::new(),
            withdrawn: Vec::new(),
            delay: Delay::default(),
            since: None,
            life: WriterState::Running,
        }
    }

    pub(super) fn held(&self) -> usize {
        self.next.entries.octets() + self.weight + self.taken
    }

    /// Tells whether the store has appended events that the writer has not taken.
    pub(super) fn has_appended(&self) -> bool {
        let is_event = |one: &Appended| matches!(one, Appended::Event(_));
        self.appended.iter().any(is_event)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.next.entries.is_empty() && self.weight == 0
    }

    /// Queues the objects that this record is the first to name.
    pub(super) fn name_objects(&mut self, decision: &Decision<'_>, grounds: &Grounds<'_>) {
        for (ground, sha256) in grounds::named(decision) {
            if self.known.contains(sha256) {
                continue;
            }
            if self.known.len() >= MAX_KNOWN {
                self.known.clear();
                self.forgotten = Some(self.next.objects.len());
            }
            self.known.insert(*sha256);
            let mut body = Vec::new();
            grounds.encode(ground, decision.origin, &mut body);
            self.put_object(Object { sha256: *sha256, kind: ground.kind(), body: body.into() });
        }
    }

    pub(super) fn put_object(&mut self, object: Object) {
        self.weight += object.body.len() + OBJECT;
        self.next.objects.push(object);
    }

    /// Queues the counts of refusals at the end of their minute; at the end of the log, all of them.
    pub(super) fn tell_repeats(&mut self, now: Moment) {
        let is_last = self.life != WriterState::Running;
        let mut entries = Vec::new();
        self.repeats.drain(now, is_last, |entry| entries.push(entry));
        for entry in entries {
            self.put_repeats(&entry);
            self.put += 1;
        }
    }

    /// Queues the requests that were forwarded without a record in the last hour; at the end of the log, all of them.
    pub(super) fn tell_forwarded(&mut self, forwarded: &Forwarded, now: Moment) {
        let is_last = self.life != WriterState::Running;
        if let Some(sum) = forwarded.take(now, is_last) {
            sum.tell(|kind| self.tell(kind, now));
            self.put += 1;
        }
    }

    /// Queues the end of this process, after all else.
    pub(super) fn tell_end(&mut self, now: Moment) {
        if self.life != WriterState::Running && self.configuration.is_some() {
            self.tell_unrecorded(now);
            self.tell_process(true, now);
            self.put += 1;
            self.configuration = None;
        }
    }

    /// Queues the start of this process, or its end.
    pub(super) fn tell_process(&mut self, is_end: bool, now: Moment) {
        let Some(configuration) = self.configuration else {
            return;
        };
        let process = Process {
            number: DecisionId::process(),
            release: env!("CARGO_PKG_VERSION"),
            configuration: &configuration,
        };
        let kind = if is_end { EventKind::Stopped(process) } else { EventKind::Started(process) };
        self.tell(kind, now);
    }

    /// Queues the entry of a count without waking the writer.
    pub(super) fn put_repeats(&mut self, entry: &[u8]) {
        self.next.entries.push(|out| out.extend_from_slice(entry));
    }

    /// Queues the numbers of requests that no record tells of, since the log failed. Returns them.
    pub(super) fn tell_unrecorded(&mut self, now: Moment) -> Unrecorded {
        let (lost, refused) = (mem::take(&mut self.lost), mem::take(&mut self.refused));
        for event in [lost.lost(), refused.refused()].into_iter().flatten() {
            self.tell(event, now);
            self.put += 1;
        }
        Unrecorded { lost: lost.count, refused: refused.count }
    }

    /// Queues the entry that says which record has another answer than the request got.
    pub(super) fn tell_withdrawal(&mut self, id: DecisionId, now: Moment) {
        add_withdrawal(&mut self.next, id, now);
    }

    /// Queues the entry of an event of the log itself.
    pub(super) fn tell(&mut self, kind: EventKind<'_>, now: Moment) {
        add_event(&mut self.next, kind, now);
    }

    pub(super) fn failure(&self) -> LogFailed {
        self.failure.clone().unwrap_or_else(LogFailed::ended)
    }
}

/// Adds the entry that says which decision was answered `log_failed`.
pub(crate) fn add_withdrawal(batch: &mut store::Batch, id: DecisionId, now: Moment) {
    let decision = id.octets();
    add_event(batch, EventKind::AnsweredLogFailed { decision }, now);
}

fn add_event(batch: &mut store::Batch, kind: EventKind<'_>, now: Moment) {
    let id = DecisionId::mint(now).octets();
    batch.entries.push(|out| Event { id, kind }.encode(out));
}

/// The requests that no record tells of, after the log failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unrecorded {
    /// Records that found no room.
    pub(crate) lost: u64,
    /// Requests that were answered `log_failed`.
    pub(crate) refused: u64,
}

impl Tally {
    /// Counts a request of this time.
    pub(super) fn add(&mut self, time: Moment) {
        if self.count == 0 {
            self.first = time;
        }
        self.count += 1;
        self.last = time;
    }

    /// Returns the event that so many records were lost.
    fn lost(&self) -> Option<EventKind<'static>> {
        (self.count > 0).then(|| EventKind::Lost {
            count: self.count,
            first: self.first.as_millis(),
            last: self.last.as_millis(),
            size: None,
        })
    }

    /// Returns the event that so many requests of all clients were answered `log_failed`.
    fn refused(&self) -> Option<EventKind<'static>> {
        (self.count > 0).then(|| {
            EventKind::Repeated(Repeated {
                mode: Mode::Enforce,
                verdict: Verdict::Defer,
                reason: Reason::LogFailed.as_str(),
                client: OTHERS,
                client_name: None,
                count: self.count,
                first: self.first.as_millis(),
                last: self.last.as_millis(),
            })
        })
    }
}
