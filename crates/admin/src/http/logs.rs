//! The logs that a request reads: that of this process, and collected copies of others.

use std::sync::Arc;

use http::StatusCode;

use super::AppState;
use super::problem::Problem;
use crawlgate_config::Config;
use crawlgate_store::collection::Collection;
use crawlgate_store::logs::{Fault, Log, Logs, Lookup, unknown};
use crawlgate_store::{Store, StoreErrorKind, StoredDecision};

/// Logs that one request may read.
const MAX_LOGS: usize = 256;

/// Records that a page passes in its logs, at most. The reader may continue a search that finds little.
pub(super) const MAX_PASSED: u64 = 20_000;

/// A decision, with the log that it is in.
pub(super) struct FoundDecision {
    pub(super) log: Log,
    pub(super) store: Arc<Store>,
    pub(super) decision: StoredDecision,
    /// The configuration of a gate that has the log.
    pub(super) config: Config,
}

impl AppState {
    /// Returns the logs that a request names: those of `wanted`, names with commas between them or `*`, or else the one of
    /// this process.
    ///
    /// # Errors
    /// 404 for an unknown log, or if the process has no store; 400 for too many.
    pub(super) fn logs(&self, wanted: Option<&str>) -> Result<Logs, Problem> {
        let Some(wanted) = wanted else {
            self.require_store()?;
            let own = self.own_log().ok_or_else(|| {
                Problem::busy("the key of the log cannot be read, so the log has no name")
            })?;
            return Ok(Logs::one(own));
        };
        let wanted: Vec<&str> = wanted.split(',').map(str::trim).collect();
        let chosen = self.all_logs()?.choose(&wanted);
        let chosen = chosen.map_err(|error| match error.kind {
            StoreErrorKind::Missing => Problem::missing(format!("log {error}")),
            _ => error.into(),
        })?;
        match chosen.len() {
            0 => Err(Problem::missing("log: this process has no store, and no log is collected")),
            1..=MAX_LOGS => Ok(chosen),
            count => Err(Problem::bad(format!(
                "log: at most {MAX_LOGS} are read at once, and these are {count}; name fewer, with commas between them"
            ))),
        }
    }

    /// Returns all logs. A collection that is not there yet has none.
    ///
    /// # Errors
    /// 503 if the collection cannot be read.
    pub(super) fn all_logs(&self) -> Result<Logs, Problem> {
        let collection = self.proxy().settings().audit.collection.clone();
        let collection = collection.map(|folder| Collection::at(&folder));
        let logs = Logs::of(self.own_log(), collection.as_ref(), self.copies().clone());
        match logs {
            Err(error) if error.kind == StoreErrorKind::Missing => {
                Ok(Logs::of(self.own_log(), None, self.copies().clone())?)
            }
            logs => Ok(logs?),
        }
    }

    /// Tells whether logs of other machines are collected here.
    pub(super) fn has_collection(&self) -> bool {
        self.proxy().settings().audit.collection.is_some()
    }

    /// Returns the log of this process.
    pub(super) fn own_log(&self) -> Option<Log> {
        let store = Arc::clone(self.store()?);
        Some(Log::running(self.own_name()?.clone(), store))
    }

    /// Returns the decision of an identifier, out of the logs that a request names.
    ///
    /// # Errors
    /// 404 if none has it, 409 if more than one has such a one.
    pub(super) async fn find(
        &self,
        id: &str,
        wanted: Option<&str>,
    ) -> Result<FoundDecision, Problem> {
        let logs = self.logs(wanted)?;
        let Lookup { mut found, faults } = logs.find(id).await;
        let Some(listed) = found.pop() else {
            return Err(match (logs.only(), faults.first()) {
                (Some(_), Some(fault)) => fault.error.clone().into(),
                _ => self.unknown(id, wanted, &faults),
            });
        };
        if let Some(other) = found.pop() {
            let why = format!(
                "{id}: the logs {} and {} have decisions with identifiers that begin so; write more of it",
                other.log, listed.log
            );
            return Err(Problem::new(StatusCode::CONFLICT, why));
        }
        let log = logs.named(listed.log.as_str())?.clone();
        Ok(FoundDecision {
            store: logs.open(&log).await?,
            config: log.config(&self.proxy().settings()),
            decision: listed.entry,
            log,
        })
    }

    fn unknown(&self, id: &str, wanted: Option<&str>, faults: &[Fault]) -> Problem {
        let mut why = unknown(id);
        if wanted.is_none() && self.has_collection() {
            why += "; log=* looks for it in collected logs, too";
        }
        for fault in faults {
            why += &format!("; not searched: {fault}");
        }
        Problem::missing(why)
    }
}
