//! The proxy's handle of the decision log.
//!
//! The grounds of records go the same way before them: fetched robots.txt ([`Log::origin_updated`]) and the settings in
//! force ([`Log::policy`]). So the store keeps no record without its grounds.

mod settings;

use std::{
    cell::Cell,
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use aws_lc_rs::digest::{SHA256, digest};
use parking_lot::Mutex;
use tracing::error;

use self::settings::Settings;
pub use super::repeats::Exceeds;
use super::{
    backlog::Backlog,
    counts::Counts,
    error::{LogError, LogFailed, LogPlace},
    file,
    grounds::{self, Grounds},
    live::{Line, Live, Watch},
    queue::{Bounds, Queue, QueuedState},
    repeats::{Allowance, Refusal},
    rotate::Rotation,
    sink::{Sink, Stream},
    writer::{self, Output, WriterDelays},
};
use crawlgate_config::{Config, Durability, OnFailure, Recorded};
use crawlgate_record::{self as entry, Decision, Entry};
use crawlgate_robots::Origin;
use crawlgate_store::{Object, ObjectKind, OriginUpdate, Store};
use crawlgate_system::clock::{Clock, Moment};
use crawlgate_system::metrics::Registry;
use crawlgate_text::DecisionId;

const BOUNDS: Bounds =
    Bounds { write: 2 * 1024 * 1024, wait: 8 * 1024 * 1024, lose: 32 * 1024 * 1024 };

/// Returns bounds under which one write takes only a small part of a small store.
fn bounds(config: &Config) -> Bounds {
    let part = config.audit.max_size.map_or(u64::MAX, |limit| limit / 32);
    let part = usize::try_from(part).unwrap_or(usize::MAX).max(64 * 1024);
    Bounds {
        write: BOUNDS.write.min(part),
        wait: BOUNDS.wait.min(part),
        lose: BOUNDS.lose.min(part.saturating_mul(4)),
    }
}

const PACE: WriterDelays = WriterDelays {
    // Each batch costs a millisecond of CPU time, whatever its size; a decision is in the store within 100 ms.
    gather: Duration::from_millis(80),
    retry: Duration::from_secs(1),
};

/// The decision log of a running proxy.
///
/// A dropped log writes the rest, as [`close`](Self::close) does.
#[derive(Debug)]
pub struct Log {
    /// `None` if decisions are recorded nowhere.
    writer: Option<Writer>,
    /// The store of origin updates, settings and records.
    store: Option<Arc<Store>>,
    live: Live,
    clock: Clock,
    is_strict: AtomicBool,
    /// The [`Recorded`] decisions.
    recorded: AtomicU8,
    redacts_query: AtomicBool,
    refusals_per_minute: AtomicU64,
    /// The settings that were recorded last.
    settings: Mutex<Option<Settings>>,
}

#[derive(Debug)]
struct Writer {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    /// Opens the log that `config` describes, beside the store if there is one, and starts the writer of both.
    ///
    /// # Errors
    ///
    /// The file cannot be opened for appending, is written by another process, or does not look like a log.
    pub fn open(
        config: &Config,
        store: Option<Arc<Store>>,
        clock: &Clock,
    ) -> Result<Self, LogError> {
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        let log = &config.log;
        if let Some(path) = &log.file {
            let rotation =
                Rotation { bytes: log.rotate_bytes, daily: log.rotate_daily, keep: log.keep };
            let file = file::open(path, rotation, clock.now())
                .map_err(|error| LogError { place: LogPlace::File(path.clone()), error })?;
            sinks.push(file);
        }
        if log.stdout {
            let stdout =
                Stream::stdout().map_err(|error| LogError { place: LogPlace::Stdout, error })?;
            sinks.push(Box::new(stdout));
        }
        Self::start(config, store, sinks, clock, bounds(config), PACE)
    }

    fn start(
        config: &Config,
        store: Option<Arc<Store>>,
        sinks: Vec<Box<dyn Sink>>,
        clock: &Clock,
        bounds: Bounds,
        pace: WriterDelays,
    ) -> Result<Self, LogError> {
        let live = Live::new();
        // The store first: every line that a shipper has read is in the store, too.
        let to_store = store.clone().map(|store| Output::Store { store, written: false });
        let sinks = sinks.into_iter().map(|sink| Output::Sink { sink, written: 0 });
        let outputs: Vec<_> = to_store.into_iter().chain(sinks).collect();
        let writer = if outputs.is_empty() {
            None
        } else {
            let queue = Arc::new(Queue::new(
                bounds,
                config.log.on_failure == OnFailure::Deny,
                clock.clone(),
            ));
            if let Some(store) = &store {
                let queue = Arc::clone(&queue);
                let telling = store.tell_appended(Arc::new(move |one| queue.appended(one)));
                // A store that cannot be read refuses writes, too, and says so then.
                let _ = writer::wait(telling, || None);
            }
            let (theirs, live) = (Arc::clone(&queue), live.clone());
            let clock = clock.clone();
            let thread = thread::Builder::new()
                .name("decision-log".to_owned())
                .spawn(move || writer::run(&theirs, outputs, &live, &clock, pace))
                .map_err(|error| LogError { place: LogPlace::Thread, error })?;
            Some(Writer { queue, thread: Mutex::new(Some(thread)) })
        };
        let log = Self {
            writer,
            store,
            live,
            clock: clock.clone(),
            is_strict: AtomicBool::default(),
            recorded: AtomicU8::default(),
            redacts_query: AtomicBool::default(),
            refusals_per_minute: AtomicU64::default(),
            settings: Mutex::default(),
        };
        log.adopt(config);
        Ok(log)
    }

    /// Adopts the settings that can change while the proxy runs: the recorded decisions and queries, the behaviour on
    /// failure, and whether a denial's answer waits for its record. The destinations stay.
    pub fn adopt(&self, config: &Config) {
        let Config { log, audit, .. } = config;
        self.recorded.store(log.decisions as u8, Ordering::Relaxed);
        self.redacts_query.store(log.redact_query, Ordering::Relaxed);
        let strict = audit.durability == Durability::Strict;
        if let Some(writer) = &self.writer {
            writer.queue.set_strict(strict);
        }
        // An answer waits only for a batch that is taken as a strict one.
        self.is_strict.store(strict, Ordering::Release);
        let limit = audit.refusals_per_minute.map_or(u64::MAX, u64::from);
        self.refusals_per_minute.store(limit, Ordering::Relaxed);
        if let Some(writer) = &self.writer {
            writer.queue.set_deny(log.on_failure == OnFailure::Deny);
        }
    }

    /// Tells whether a denial must be kept before its answer leaves: the caller then awaits [`flush`](Self::flush).
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.writer.is_some() && self.is_strict.load(Ordering::Acquire)
    }

    /// Tells whether decisions are recorded, or shown to a watcher, for which `least` is the least setting that records
    /// them. Saves building a record that would be dropped.
    #[must_use]
    pub fn wants(&self, least: Recorded) -> bool {
        self.records(least) || self.shows()
    }

    /// Tells whether such decisions are recorded.
    #[must_use]
    pub fn records(&self, least: Recorded) -> bool {
        self.writer.is_some() && self.recorded.load(Ordering::Relaxed) >= least as u8
    }

    /// Tells whether there is a watcher, and room for another record.
    fn shows(&self) -> bool {
        self.live.is_watched() && self.live.has_room(self.clock.now())
    }

    /// Watches decisions from now on; `None` if there are too many watchers.
    #[must_use]
    pub fn watch(&self) -> Option<Watch> {
        self.live.watch()
    }

    /// Resolves when the log can take the record of another request: at once, as a rule, at the cost of one load. While
    /// the writer is behind, this call waits for it.
    ///
    /// # Errors
    ///
    /// Records cannot be written at present, and requests are to be denied for that long (`on_failure = "deny"`). The
    /// caller does not record these denials: they would only fill the remaining room.
    pub async fn ready(&self) -> Result<(), LogFailed> {
        match &self.writer {
            Some(writer) => writer.queue.ready().await,
            None => Ok(()),
        }
    }

    /// Tells whether records leave out the queries of URLs.
    #[must_use]
    pub fn redacts_query(&self) -> bool {
        self.redacts_query.load(Ordering::Relaxed)
    }

    /// Records a decision with its grounds, if decisions are recorded for which `least` is the least setting that records
    /// them, and shows it to watchers. Never waits for the disk. Refusals beyond a number in each minute are counted, not
    /// recorded one by one, unless durability is strict; of those on requests that exceed their client's limits, few are
    /// recorded. Returns false if the record finds no room: it is lost, and a flush does not wait for it.
    pub fn record(
        &self,
        decision: &Decision<'_>,
        grounds: &Grounds<'_>,
        least: Recorded,
        exceeds: Exceeds,
    ) -> bool {
        thread_local! {
            /// A buffer for entries: encoded outside of the queue's lock, and without an allocation.
            static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
        }

        let is_recorded = self.records(least);
        let is_shown = self.shows();
        let writer = self.writer.as_ref().filter(|_| is_recorded);
        let writer = writer.filter(|writer| self.admits(writer, decision, exceeds));
        if writer.is_none() && !is_shown {
            return true;
        }
        // A thread that ends has no buffer any more.
        let mut entry = SCRATCH.try_with(Cell::take).unwrap_or_default();
        entry.clear();
        decision.encode(entry::Bounds::of(decision.reason), &mut entry);
        if is_shown {
            self.show(decision, grounds, &entry, is_recorded);
        }
        let has_room = writer.is_none_or(|writer| writer.queue.put(decision, grounds, &entry));
        let _ = SCRATCH.try_with(|scratch| scratch.set(entry));
        has_room
    }

    /// Tells whether a decision gets its own record.
    fn admits(&self, writer: &Writer, decision: &Decision<'_>, exceeds: Exceeds) -> bool {
        // A count lives in memory until its minute is over: a refusal with an answer that waits for the disk needs a
        // record.
        if !decision.is_refusal() || self.is_strict() {
            return true;
        }
        let limit = self.refusals_per_minute.load(Ordering::Relaxed);
        match Allowance::of(decision, exceeds, limit) {
            Some(allowance) => writer.queue.admits(&Refusal::of(decision), allowance),
            None => true,
        }
    }

    #[cold]
    fn show(
        &self,
        decision: &Decision<'_>,
        grounds: &Grounds<'_>,
        entry: &[u8],
        is_recorded: bool,
    ) {
        let objects = grounds::named(decision).map(|(ground, sha256)| {
            let mut body = Vec::new();
            grounds.encode(ground, decision.origin, &mut body);
            (*sha256, body)
        });
        let objects: HashMap<_, _> = objects.collect();
        let mut line = Vec::with_capacity(1024);
        let written =
            Entry::read(entry).map(|entry| entry::write_line(&entry, &objects, &mut line));
        debug_assert!(matches!(written, Ok(Ok(()))), "{written:?}");
        // A line is JSON, and so UTF-8.
        if let Ok(text) = std::str::from_utf8(&line) {
            let text = text.trim_end_matches('\n').into();
            let line = Line { entry: entry.into(), text, is_recorded };
            self.live.show(line, self.clock.now());
        }
    }

    /// Returns how many refusals were counted without a record of their own.
    #[must_use]
    pub fn refused_without_record(&self) -> u64 {
        let writer = self.writer.as_ref();
        writer.map_or(0, |writer| writer.queue.counts.repeated())
    }

    /// Counts a request that was forwarded without a record, by the name of its client or else by its address.
    pub fn forwarded(&self, name: Option<&Arc<str>>, address: IpAddr, time: Moment) {
        if let Some(writer) = &self.writer {
            writer.queue.forwarded.count(name, address, time);
        }
    }

    /// Records that this process has begun, and its settings. Its end is then recorded, too. Called before the first
    /// request.
    pub fn begin(&self, config: &Config) {
        let Some(writer) = &self.writer else { return };
        let configuration = digest(&SHA256, config.to_toml().as_bytes());
        let configuration = configuration.as_ref().try_into().unwrap_or_default();
        writer.queue.begin(configuration, self.clock.now());
        self.settings(config);
    }

    /// Records the settings that come into force, if they are others than before and the start of this process is
    /// recorded. Called before the first request that is judged by them.
    pub fn settings(&self, config: &Config) {
        let Some(writer) = &self.writer else { return };
        if !writer.queue.has_begun() {
            return;
        }
        let settings = Settings::of(config);
        let mut recorded = self.settings.lock();
        if recorded.as_ref() == Some(&settings) {
            return;
        }
        // Before the first entry that names them.
        self.policy(&config.robots.policy_settings().text());
        settings.tell(|kind| writer.queue.tell(kind, self.clock.now()));
        *recorded = Some(settings);
    }

    /// Takes back the record of a request that was answered `log_failed` instead. If it is stored already, an entry of
    /// its own says so.
    pub fn withdraw(&self, id: DecisionId) {
        if let Some(writer) = &self.writer {
            writer.queue.withdraw(id, self.clock.now());
        }
    }

    /// Records that a request which had gone out was answered `log_failed`, beside its record.
    pub fn answered_log_failed(&self, id: DecisionId) {
        if let Some(writer) = &self.writer {
            writer.queue.answered_log_failed(id, self.clock.now());
        }
    }

    /// Tells whether records reach the store late, and some wait for it now.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        let writer = self.writer.as_ref();
        writer.is_some_and(|writer| writer.queue.backlog().holds_up_requests())
    }

    /// Returns the failure that prevents recording at present, if any. The writer keeps trying.
    #[must_use]
    pub fn failure(&self) -> Option<LogFailed> {
        self.writer.as_ref()?.queue.failure()
    }

    /// Returns the store behind the log, if there is one.
    #[must_use]
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.store.as_ref()
    }

    /// Keeps the update of an origin, if there is a store. Never waits for the disk. Later records are kept after it.
    pub fn origin_updated(&self, update: OriginUpdate) {
        if let Some(writer) = self.store_writer() {
            writer.queue.put_update(update);
        }
    }

    /// Returns the states of an origin from [`origin_updated`](Self::origin_updated) that are not stored yet, one
    /// for each identity. A reader of the store asks here first, or finds older states.
    #[must_use]
    pub fn unwritten(&self, origin: &Origin) -> Vec<QueuedState> {
        self.store_writer().map_or_else(Vec::new, |writer| writer.queue.queued_states(origin))
    }

    /// Keeps the text of settings that later records name by its digest, if there is a store. Once for each text is
    /// enough.
    pub fn policy(&self, text: &str) {
        if let Some(writer) = self.store_writer() {
            let object = Object::new(ObjectKind::PolicySettings, text.as_bytes());
            writer.queue.object(object);
        }
    }

    fn store_writer(&self) -> Option<&Writer> {
        self.writer.as_ref().filter(|_| self.store.is_some())
    }

    /// Registers the metrics of the way to the store and the log.
    pub fn register(&self, registry: &mut Registry) {
        let queue = self.writer.as_ref().map(|writer| &writer.queue);
        match queue {
            Some(queue) => queue.counts.register(registry),
            None => Counts::default().register(registry),
        }
        registry.register_collector(Box::new(Backlog {
            queue: queue.cloned(),
            store: self.store.clone(),
        }));
    }

    /// Resolves when everything recorded before is written.
    ///
    /// # Errors
    ///
    /// The records cannot be written at present. The writer has reported that when it began, and keeps trying.
    pub async fn flush(&self) -> Result<(), LogFailed> {
        match &self.writer {
            Some(writer) => writer.queue.flush().await,
            None => Ok(()),
        }
    }

    /// Records the counts so far of requests without a record of their own, which otherwise wait for the end of their hour or
    /// minute, and resolves when all of it is written.
    ///
    /// # Errors
    ///
    /// As for [`flush`](Self::flush).
    pub async fn flush_counts(&self) -> Result<(), LogFailed> {
        if let Some(writer) = &self.writer {
            writer.queue.tell_counts(self.clock.now());
        }
        self.flush().await
    }

    /// Tells whether [`close`](Self::close) was called. If it was not, earlier records still reach their destinations.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.queue.is_closing())
    }

    /// Writes the rest to the disk and ends the writer; blocks for as long as that takes. Later records are lost, so
    /// the caller closes the log after the last exchange. A second call does nothing.
    ///
    /// # Errors
    ///
    /// Some of it could not be written in a last attempt; the message tells how many decisions that leaves unrecorded.
    /// A dropped log logs this message itself; otherwise only the caller can report it.
    pub fn close(&self) -> Result<(), LogFailed> {
        let Some(writer) = &self.writer else {
            return Ok(());
        };
        writer.queue.close();
        if let Some(thread) = writer.thread.lock().take() {
            // A panicked writer has reported its panic, and the outcome below shows the loss.
            let _ = thread.join();
        }
        writer.queue.outcome()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let is_open = self.writer.as_ref().is_some_and(|writer| writer.thread.lock().is_some());
        if is_open && let Err(failure) = self.close() {
            error!("{failure}");
        }
    }
}

#[cfg(test)]
mod tests;
