//! What the proxy holds of the decision log.

use std::{
    error::Error,
    fmt, io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use parking_lot::Mutex;
use tracing::error;

use super::{
    file,
    queue::{Bounds, Queue},
    record::Record,
    rotate::Rotation,
    sink::{Sink, Stream},
    writer::{self, Pace},
};
use crate::{
    clock::Clock,
    config::{LogConfig, OnFailure, Recorded},
};

const BOUNDS: Bounds = Bounds {
    wait: 8 * 1024 * 1024,
    lose: 32 * 1024 * 1024,
};

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
    records_all: AtomicBool,
    redacts_query: AtomicBool,
}

#[derive(Debug)]
struct Writer {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    /// Opens the log that `config` describes and starts its writer.
    ///
    /// # Errors
    ///
    /// The file cannot be opened for appending, is written by another process, or does not look like a log.
    pub fn open(config: &LogConfig, clock: &Clock) -> Result<Self, LogError> {
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        if let Some(path) = &config.file {
            let rotation = Rotation {
                bytes: config.rotate_bytes,
                daily: config.rotate_daily,
                keep: config.keep,
            };
            let file = file::open(path, rotation, clock.now()).map_err(|error| LogError {
                place: Place::File(path.clone()),
                error,
            })?;
            sinks.push(file);
        }
        if config.stdout {
            let stdout = Stream::stdout().map_err(|error| LogError {
                place: Place::Stdout,
                error,
            })?;
            sinks.push(Box::new(stdout));
        }
        Self::start(config, sinks, clock, BOUNDS, PACE)
    }

    fn start(
        config: &LogConfig,
        sinks: Vec<Box<dyn Sink>>,
        clock: &Clock,
        bounds: Bounds,
        pace: Pace,
    ) -> Result<Self, LogError> {
        let writer = if sinks.is_empty() {
            None
        } else {
            let queue = Arc::new(Queue::new(bounds, config.on_failure == OnFailure::Deny));
            let (theirs, clock) = (Arc::clone(&queue), clock.clone());
            let thread = thread::Builder::new()
                .name("decision-log".to_owned())
                .spawn(move || writer::run(&theirs, sinks, &clock, pace))
                .map_err(|error| LogError {
                    place: Place::Thread,
                    error,
                })?;
            Some(Writer {
                queue,
                thread: Mutex::new(Some(thread)),
            })
        };
        Ok(Self {
            writer,
            records_all: AtomicBool::new(config.decisions == Recorded::All),
            redacts_query: AtomicBool::new(config.redact_query),
        })
    }

    /// Takes over what can change while the proxy runs: which decisions are recorded, whether queries are, and what
    /// happens on failure. The places that it writes to stay.
    pub fn adopt(&self, config: &LogConfig) {
        let all = config.decisions == Recorded::All;
        self.records_all.store(all, Ordering::Relaxed);
        self.redacts_query
            .store(config.redact_query, Ordering::Relaxed);
        if let Some(writer) = &self.writer {
            writer.queue.set_deny(config.on_failure == OnFailure::Deny);
        }
    }

    /// Whether decisions with this verdict are recorded at all. Saves building a record that would be dropped.
    #[must_use]
    pub fn wants(&self, verdict: &str) -> bool {
        self.writer.is_some() && (verdict != "allow" || self.records_all.load(Ordering::Relaxed))
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

    /// Records a decision, if such decisions are recorded. Never waits for the disk.
    pub fn record(&self, record: &Record<'_>) {
        if let Some(writer) = &self.writer
            && self.wants(record.verdict)
        {
            let redact = self.redacts_query.load(Ordering::Relaxed);
            writer
                .queue
                .put(record.time, |out| record.write_line(out, redact));
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
    pub(super) fn new(log: &str, error: &io::Error) -> Self {
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
