//! Failures to open the decision log, with the way out, and to record decisions.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

/// A present failure to record decisions. Cheap to clone.
#[derive(Clone, Debug, Error)]
#[error("{0}")]
pub struct LogFailed(Arc<str>);

impl LogFailed {
    pub(super) fn new(log: &str, error: &dyn Display) -> Self {
        Self(format!("decisions cannot be recorded in {log}: {error}").into())
    }

    /// Returns the failure after the last attempt, with `count` records missing: of decisions, and of events such as the end of
    /// the process.
    pub(super) fn at_the_end(&self, count: u64) -> Self {
        Self(format!("records left unwritten: {count}; {self}").into())
    }

    pub(super) fn ended() -> Self {
        Self("decisions are no longer recorded: the writer of the log has ended".into())
    }
}

/// A failure to open the decision log.
#[derive(Debug, Error)]
#[error("{}", describe(.place, .error))]
pub struct LogError {
    pub(super) place: LogPlace,
    #[source]
    pub(super) error: io::Error,
}

/// The place that cannot be opened.
#[derive(Debug)]
pub(super) enum LogPlace {
    File(PathBuf),
    Stdout,
    Thread,
}

impl LogError {
    /// Tells whether another process writes the file.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.error.kind() == io::ErrorKind::ResourceBusy
    }
}

/// Returns the failure in words, with the way out.
fn describe(place: &LogPlace, error: &io::Error) -> String {
    match place {
        LogPlace::File(path) => {
            let way_out = match error.kind() {
                io::ErrorKind::ResourceBusy => {
                    "end that process, or give this one a file of its own with [log] file"
                }
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "let this user write there, or name another file with [log] file"
                }
                _ => "name another file with [log] file, or \"\" for none",
            };
            format!("decision log {}: {error}; {way_out}", path.display())
        }
        LogPlace::Stdout => format!(
            "decision log: standard output is not open: {error}; open it, or set [log] stdout = false"
        ),
        LogPlace::Thread => format!("decision log: no thread to write it: {error}"),
    }
}
