//! What the proxy holds of the decision log.
//!
//! What records rest on goes the same way as they do, ahead of them: the robots.txt that were fetched
//! ([`Log::landed`]) and the settings in force ([`Log::policy`]). So no record is kept without its grounds.

use std::{
    error::Error,
    fmt, io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use parking_lot::Mutex;
use tracing::error;

use super::{
    counts::Counts,
    file,
    live::{Line, Live, Watch},
    queue::{Bounds, Landed, Queue},
    record::Record,
    repeats::Allowance,
    rotate::Rotation,
    sink::{Sink, Stream},
    writer::{self, Outlet, Pace},
};
use crate::{
    clock::Clock,
    config::{Config, Durability, OnFailure, Recorded},
    metrics::Registry,
    rep::Origin,
    store::{Landing, Store},
};

const BOUNDS: Bounds = Bounds {
    wait: 8 * 1024 * 1024,
    lose: 32 * 1024 * 1024,
};

/// What is written at once takes no more than a small part of a small store.
fn bounds(config: &Config) -> Bounds {
    let part = config.audit.max_size.map_or(u64::MAX, |most| most / 32);
    let part = usize::try_from(part).unwrap_or(usize::MAX).max(64 * 1024);
    Bounds {
        wait: BOUNDS.wait.min(part),
        lose: BOUNDS.lose.min(part.saturating_mul(4)),
    }
}

const PACE: Pace = Pace {
    gather: Duration::from_millis(10),
    retry: Duration::from_secs(1),
};

/// The decision log of a running proxy.
///
/// Dropping it writes what is left, as [`close`](Self::close) does.
#[derive(Debug)]
pub struct Log {
    /// None where decisions are recorded nowhere.
    writer: Option<Writer>,
    /// Where landings and settings are kept, and records with them.
    store: Option<Arc<dyn Store>>,
    live: Live,
    clock: Clock,
    is_strict: AtomicBool,
    records_all: AtomicBool,
    redacts_query: AtomicBool,
    refusals_per_minute: AtomicU64,
}

/// Whether a request exceeds what its client may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeds {
    /// It does not.
    Nothing,
    /// Its rate or its quota.
    ItsAllowance,
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
        store: Option<Arc<dyn Store>>,
        clock: &Clock,
    ) -> Result<Self, LogError> {
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        let log = &config.log;
        if let Some(path) = &log.file {
            let rotation = Rotation {
                bytes: log.rotate_bytes,
                daily: log.rotate_daily,
                keep: log.keep,
            };
            let file = file::open(path, rotation, clock.now()).map_err(|error| LogError {
                place: Place::File(path.clone()),
                error,
            })?;
            sinks.push(file);
        }
        if log.stdout {
            let stdout = Stream::stdout().map_err(|error| LogError {
                place: Place::Stdout,
                error,
            })?;
            sinks.push(Box::new(stdout));
        }
        Self::start(config, store, sinks, clock, bounds(config), PACE)
    }

    fn start(
        config: &Config,
        store: Option<Arc<dyn Store>>,
        sinks: Vec<Box<dyn Sink>>,
        clock: &Clock,
        bounds: Bounds,
        pace: Pace,
    ) -> Result<Self, LogError> {
        // The store first: what a shipper has read stands there, too.
        let to_store = store.clone().map(|store| Outlet::Store {
            store,
            written: false,
        });
        let sinks = sinks
            .into_iter()
            .map(|sink| Outlet::Sink { sink, written: 0 });
        let outlets: Vec<_> = to_store.into_iter().chain(sinks).collect();
        let writer = if outlets.is_empty() {
            None
        } else {
            let queue = Arc::new(Queue::new(bounds, config.log.on_failure == OnFailure::Deny));
            let (theirs, clock) = (Arc::clone(&queue), clock.clone());
            let thread = thread::Builder::new()
                .name("decision-log".to_owned())
                .spawn(move || writer::run(&theirs, outlets, &clock, pace))
                .map_err(|error| LogError {
                    place: Place::Thread,
                    error,
                })?;
            Some(Writer {
                queue,
                thread: Mutex::new(Some(thread)),
            })
        };
        let log = Self {
            writer,
            store,
            live: Live::new(),
            clock: clock.clone(),
            is_strict: AtomicBool::default(),
            records_all: AtomicBool::default(),
            redacts_query: AtomicBool::default(),
            refusals_per_minute: AtomicU64::default(),
        };
        log.adopt(config);
        Ok(log)
    }

    /// Takes over what can change while the proxy runs: which decisions are recorded, whether queries are, what happens
    /// on failure, and whether a denial's answer waits for its record. The places that it writes to stay.
    pub fn adopt(&self, config: &Config) {
        let Config { log, audit, .. } = config;
        let all = log.decisions == Recorded::All;
        self.records_all.store(all, Ordering::Relaxed);
        self.redacts_query
            .store(log.redact_query, Ordering::Relaxed);
        let strict = audit.durability == Durability::Strict;
        self.is_strict.store(strict, Ordering::Relaxed);
        let most = u64::from(audit.refusals_per_minute);
        self.refusals_per_minute.store(most, Ordering::Relaxed);
        if let Some(writer) = &self.writer {
            writer.queue.set_deny(log.on_failure == OnFailure::Deny);
        }
    }

    /// Whether a denial must be kept before its answer leaves: whoever records one awaits [`flush`](Self::flush) then.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.writer.is_some() && self.is_strict.load(Ordering::Relaxed)
    }

    /// Whether a decision with this verdict is to be recorded, or shown to somebody who watches. Saves building a record
    /// that would be dropped.
    #[must_use]
    pub fn wants(&self, verdict: &str) -> bool {
        self.records(verdict) || self.shows()
    }

    /// Whether decisions with this verdict are recorded at all.
    fn records(&self, verdict: &str) -> bool {
        self.writer.is_some() && (verdict != "allow" || self.records_all.load(Ordering::Relaxed))
    }

    /// Whether somebody watches, and there is room for another record.
    fn shows(&self) -> bool {
        self.live.is_watched() && self.live.has_room(self.clock.now())
    }

    /// Watches decisions as they come, from now on; none where too many watch already.
    #[must_use]
    pub fn watch(&self) -> Option<Watch> {
        self.live.watch()
    }

    /// Resolves when a request may be judged, since its record will find its way: at once, as a rule, and at the cost of
    /// one load. While the writer is behind, it waits for it.
    ///
    /// # Errors
    ///
    /// Records cannot be written at present, and requests are to be denied for that long (`on_failure = "deny"`). The
    /// denials that follow from this are not to be recorded: they would only fill what room is left.
    pub async fn ready(&self) -> Result<(), LogFailed> {
        match &self.writer {
            Some(writer) => writer.queue.ready().await,
            None => Ok(()),
        }
    }

    /// Records a decision, if such decisions are recorded, and shows it to those who watch. Never waits for the disk.
    /// Refusals beyond a number in each minute are counted, not recorded one by one, unless durability is strict.
    pub fn record(&self, record: &Record<'_>) {
        self.record_of(record, Exceeds::Nothing);
    }

    /// The same of a request that may exceed what its client may have: of such, few are recorded one by one.
    pub fn record_of(&self, record: &Record<'_>, exceeds: Exceeds) {
        let redact = self.redacts_query.load(Ordering::Relaxed);
        let is_recorded = self.records(record.verdict);
        if self.shows() {
            self.show(record, redact, is_recorded);
        }
        if let Some(writer) = &self.writer
            && is_recorded
        {
            let write = |out: &mut Vec<u8>| record.write_line(out, redact);
            // A count lives in memory until its minute is over: a refusal whose answer waits for the disk needs a record.
            if !record.is_refusal() || self.is_strict() {
                return writer.queue.put(record.note(), write);
            }
            let most = self.refusals_per_minute.load(Ordering::Relaxed);
            let allowance = match exceeds {
                Exceeds::Nothing => Allowance::Ordinary(most),
                Exceeds::ItsAllowance => Allowance::Exceeded,
            };
            writer.queue.put_refusal(record.note(), allowance, write);
        }
    }

    #[cold]
    fn show(&self, record: &Record<'_>, redact: bool, is_recorded: bool) {
        let mut line = Vec::with_capacity(1024);
        record.write_line(&mut line, redact);
        // A line is JSON, and so UTF-8.
        if let Ok(text) = std::str::from_utf8(&line) {
            let text = text.trim_end_matches('\n').into();
            let line = Line { text, is_recorded };
            self.live.show(line, self.clock.now());
        }
    }

    /// Why decisions cannot be recorded at present, if they cannot. The writer goes on trying.
    #[must_use]
    pub fn failure(&self) -> Option<LogFailed> {
        self.writer.as_ref()?.queue.failure()
    }

    /// The store that it writes to, if there is one.
    #[must_use]
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.store.as_ref()
    }

    /// Keeps what has become known of an origin, if there is a store. Never waits for the disk. Records that come after
    /// are kept after it.
    pub fn landed(&self, landing: Landing) {
        if let Some(writer) = self.keeper() {
            writer.queue.land(landing);
        }
    }

    /// The states of an origin that [`landed`](Self::landed) was given and that are not in the store yet, one for each
    /// identity. Who reads the store asks here first, or finds older ones.
    #[must_use]
    pub fn unwritten(&self, origin: &Origin) -> Vec<Landed> {
        self.keeper()
            .map_or_else(Vec::new, |writer| writer.queue.landed(origin))
    }

    /// Keeps the settings that records to come name by `digest`, if there is a store. Once for each digest is enough.
    pub fn policy(&self, digest: Arc<str>, text: Arc<str>) {
        if let Some(writer) = self.keeper() {
            writer.queue.policy(digest, text);
        }
    }

    fn keeper(&self) -> Option<&Writer> {
        self.writer.as_ref().filter(|_| self.store.is_some())
    }

    /// Shows what is counted of the way to the store and the log.
    pub fn register(&self, registry: &mut Registry) {
        match &self.writer {
            Some(writer) => {
                let queue = Arc::clone(&writer.queue);
                writer.queue.counts.register(registry, Some(queue));
            }
            None => Counts::default().register(registry, None),
        }
    }

    /// Resolves when everything recorded before is written.
    ///
    /// # Errors
    ///
    /// It cannot be written at present. The writer has said so when that began, and goes on trying.
    pub async fn flush(&self) -> Result<(), LogFailed> {
        match &self.writer {
            Some(writer) => writer.queue.flush().await,
            None => Ok(()),
        }
    }

    /// Whether [`close`](Self::close) was called. Where it was not, what was recorded before finds its way.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.writer
            .as_ref()
            .is_some_and(|writer| writer.queue.is_closing())
    }

    /// Writes what is left, to the disk, and ends the writer; blocks for as long as that takes. What is recorded later
    /// is lost, so this comes after the last exchange has ended. A second call does nothing.
    ///
    /// # Errors
    ///
    /// Some of it could not be written in a last attempt; the message tells how many decisions that leaves unrecorded.
    /// Nobody else says so, unless the log is dropped without a call of this.
    pub fn close(&self) -> Result<(), LogFailed> {
        let Some(writer) = &self.writer else {
            return Ok(());
        };
        writer.queue.close();
        if let Some(thread) = writer.thread.lock().take() {
            // A writer that has panicked has said so, and the outcome below shows what is missing.
            let _ = thread.join();
        }
        writer.queue.outcome()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let is_open = self
            .writer
            .as_ref()
            .is_some_and(|writer| writer.thread.lock().is_some());
        if is_open && let Err(failure) = self.close() {
            error!("{failure}");
        }
    }
}

/// The decision log cannot be opened.
#[derive(Debug)]
pub struct LogError {
    place: Place,
    error: io::Error,
}

#[derive(Debug)]
enum Place {
    File(PathBuf),
    Stdout,
    Thread,
}

impl LogError {
    /// Whether another process writes the file.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.error.kind() == io::ErrorKind::ResourceBusy
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = &self.error;
        match &self.place {
            Place::File(path) => {
                let path = path.display();
                write!(f, "decision log {path}: {error}; ")?;
                f.write_str(match error.kind() {
                    io::ErrorKind::ResourceBusy => {
                        "end that process, or give this one a file of its own with [log] file"
                    }
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                        "let this user write there, or name another file with [log] file"
                    }
                    _ => "name another file with [log] file, or \"\" for none",
                })
            }
            Place::Stdout => write!(
                f,
                "decision log: standard output is not open: {error}; open it, or set [log] stdout = false"
            ),
            Place::Thread => write!(f, "decision log: no thread to write it: {error}"),
        }
    }
}

impl Error for LogError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

/// Decisions cannot be recorded at present. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogFailed(Arc<str>);

impl LogFailed {
    pub(super) fn new(log: &str, error: &dyn fmt::Display) -> Self {
        Self(format!("decisions cannot be recorded in {log}: {error}").into())
    }

    /// The same, once there are no more attempts and `count` decisions are missing.
    pub(super) fn at_the_end(&self, count: u64) -> Self {
        Self(format!("decisions left unrecorded: {count}; {self}").into())
    }

    pub(super) fn ended() -> Self {
        Self("decisions are no longer recorded: the writer of the log has ended".into())
    }
}

impl fmt::Display for LogFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for LogFailed {}

#[cfg(test)]
mod tests;
