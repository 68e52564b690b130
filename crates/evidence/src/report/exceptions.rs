//! The exceptions of a span, out of the events of the log.

use std::collections::{BTreeMap, BTreeSet};

use super::content::{
    DropRow, Exceptions, GapRow, LogChange, LostRow, NamedCount, SettingsChange, StartRow,
};
use super::rows::{most_asked, time};
use crawlgate_record::{Mode, Verdict};
use crawlgate_store::figures::{Figures, Noted, NotedKind};
use crawlgate_text::hex;

/// Tells whether an event is the start or the end of a process.
pub(super) fn is_of_a_process(event: &Noted) -> bool {
    matches!(event.kind, NotedKind::Started { .. } | NotedKind::Stopped { .. })
}

/// Returns the exceptions. `names` are those of the logs, without a name if there is only one.
pub(super) fn exceptions(figures: &Figures, names: &[Option<String>], limit: usize) -> Exceptions {
    let mut reported: BTreeMap<&str, u64> = BTreeMap::new();
    for ((mode, verdict, reason), of) in &figures.reasons {
        if *mode == Mode::Report && *verdict != Verdict::Allow {
            *reported.entry(reason).or_default() += of.sum.requests();
        }
    }
    let reported =
        reported.into_iter().map(|(name, count)| NamedCount { name: name.to_owned(), count });
    let mut all = Exceptions {
        reported: reported.collect(),
        reported_origins: most_asked(&figures.reported, limit, true),
        opaque_tunnels: most_asked(&figures.opaque, limit, figures.knows_each_forwarded()),
        lost: Vec::new(),
        gaps: Vec::new(),
        started: Vec::new(),
        without_end: 0,
        settings: Vec::new(),
        dropped: Vec::new(),
        log_changes: Vec::new(),
        events_left_out: figures.events_left_out,
    };
    let mut processes: BTreeMap<usize, Processes> = BTreeMap::new();
    for event in &figures.events {
        let log = names.get(event.log).and_then(Option::as_ref);
        let of_log = processes.entry(event.log).or_default();
        of_log.note(event, log, &mut all);
        note(event, log, &mut all);
    }
    let running = processes.values().map(|one| one.running.len() as u64);
    all.without_end = running.sum();
    all
}

fn note(event: &Noted, log: Option<&String>, all: &mut Exceptions) {
    let (at, log) = (time(event.time), log.cloned());
    match &event.kind {
        NotedKind::Lost { count, first, last } => {
            all.lost.push(LostRow { log, count: *count, first: time(*first), last: time(*last) });
        }
        NotedKind::Started { release, .. } => {
            all.started.push(StartRow { log, time: at, release: release.clone() });
        }
        NotedKind::Settings { policy, mode, origins, clients, exempt } => {
            all.settings.push(SettingsChange {
                log,
                time: at,
                sha256: hex(policy),
                mode: mode.as_str(),
                report_origins: origins.clone(),
                report_clients: clients.clone(),
                exempt_clients: exempt.clone(),
            });
        }
        NotedKind::Dropped { index, cause } => {
            let is_it = |row: &DropRow| row.cause == cause.as_str() && row.log == log;
            let known = all.dropped.iter().position(is_it);
            match known.and_then(|known| all.dropped.get_mut(known)) {
                Some(row) => {
                    row.times += 1;
                    row.last = at;
                    row.first_kept = row.first_kept.max(index + 1);
                }
                None => all.dropped.push(DropRow {
                    log,
                    cause: cause.as_str(),
                    times: 1,
                    last: at,
                    first_kept: index + 1,
                }),
            }
        }
        NotedKind::KeyRotated { old, new, by, reason } => all.log_changes.push(LogChange {
            log,
            time: at,
            change: format!("{by} replaced the key {old} by {new}: {reason}"),
        }),
        NotedKind::Forked { log: other, size, reason } => all.log_changes.push(LogChange {
            log,
            time: at,
            change: format!("continues the log {other} of {size} records: {reason}"),
        }),
        NotedKind::Stopped { .. }
        | NotedKind::OverrideAdded { .. }
        | NotedKind::OverrideRemoved { .. } => {}
    }
}

/// The processes of a log that run, as far as it tells.
#[derive(Default)]
struct Processes {
    running: BTreeSet<u64>,
    /// The end of the last one, if none runs.
    stopped: Option<u64>,
}

impl Processes {
    fn note(&mut self, event: &Noted, log: Option<&String>, all: &mut Exceptions) {
        match &event.kind {
            NotedKind::Started { process, .. } => {
                // A clock that was set back leaves no time in between.
                if let Some(stopped) = self.stopped.take().filter(|stopped| *stopped < event.time) {
                    all.gaps.push(GapRow {
                        log: log.cloned(),
                        from: time(stopped),
                        until: time(event.time),
                    });
                }
                self.running.insert(*process);
            }
            NotedKind::Stopped { process } => {
                self.running.remove(process);
                if self.running.is_empty() {
                    self.stopped = Some(event.time);
                }
            }
            _ => {}
        }
    }
}
