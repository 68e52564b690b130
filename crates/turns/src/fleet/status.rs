//! The figures of an instance's part in its fleet: one source for the command, the API, the console and the metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::coordinator::{CoordinatorError, Observed};
use super::member::Member;
use super::overview::{EngineView, FleetCounts, FleetView, LinkView, MemberView};
use super::{Fleet, HeartbeatReply, LinkState, counts};
use crawlgate_system::clock::{Clock, Moment, Uptime};
use crawlgate_system::metrics::{Gauge, GaugeGuard};
use crawlgate_text::time_text;

/// Figures of this instance's part.
#[derive(Debug, Default)]
pub struct Status {
    members: AtomicU64,
    generation: AtomicU64,
    overrides: AtomicU64,
    failures: AtomicU64,
    /// Microseconds.
    round_trip: AtomicU64,
    leases: Gauge,
    leases_acquired: AtomicU64,
    leases_lost: AtomicU64,
    results_refused: AtomicU64,
    unsealed: AtomicU64,
    link: Mutex<Option<(LinkState, Moment)>>,
    observed: Mutex<Option<KeptReport>>,
}

/// The last report of the engine.
#[derive(Debug)]
struct KeptReport {
    observed: Observed,
    at: Uptime,
    /// See [`ahead`].
    clock_ahead_ms: Option<i64>,
}

/// Returns how far a clock that tells `now` is ahead of the engine's, in milliseconds.
pub(super) fn ahead(now: Moment, observed: &Observed) -> Option<i64> {
    let of = |moment: Moment| i64::try_from(moment.as_millis()).unwrap_or(i64::MAX);
    Some(of(now) - of(observed.engine.time?))
}

impl Status {
    pub(super) fn heard(&self, heard: &HeartbeatReply, overrides: u64) {
        self.generation.store(heard.generation, Ordering::Relaxed);
        self.members.store(heard.members, Ordering::Relaxed);
        self.overrides.store(overrides, Ordering::Relaxed);
    }

    /// Returns the number of members, this one included.
    #[must_use]
    pub fn members(&self) -> u64 {
        self.members.load(Ordering::Relaxed)
    }

    /// Returns the number of generations that this instance has seen.
    pub(super) fn generations(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps the time from a heartbeat to its answer.
    pub(super) fn answered_after(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.round_trip.store(micros, Ordering::Relaxed);
    }

    /// Keeps the moment at which the link came into its state.
    pub(super) fn link_is(&self, state: LinkState, now: Moment) {
        let mut link = self.link.lock();
        if link.is_none_or(|(before, _)| before != state) {
            *link = Some((state, now));
        }
    }

    /// Keeps what the engine told of itself and of the members.
    pub(super) fn observed(&self, observed: Observed, at: Uptime, now: Moment) {
        *self.observed.lock() =
            Some(KeptReport { clock_ahead_ms: ahead(now, &observed), observed, at });
    }

    /// Returns how far the clock of this instance was ahead of the engine's when it was last observed, in milliseconds.
    pub(super) fn clock_ahead_ms(&self) -> Option<i64> {
        let kept = self.observed.lock();
        kept.as_ref().and_then(|kept| kept.clock_ahead_ms)
    }

    /// Counts a lease of a fetch, which is held until the returned guard is dropped.
    #[must_use]
    pub fn lease_acquired(&self) -> GaugeGuard {
        self.leases_acquired.fetch_add(1, Ordering::Relaxed);
        self.leases.raise()
    }

    /// Counts a fetch that had lost its lease when it ended.
    pub fn lease_lost(&self) {
        self.leases_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the result of a fetch that the engine has refused, as it has a newer one.
    pub fn result_refused(&self) {
        self.results_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts octets in the engine that the fleet's key did not make.
    pub fn refused(&self) {
        self.unsealed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the engine's memory in use and its limit, as last observed.
    pub(super) fn memory(&self) -> (u64, u64) {
        let observed = self.observed.lock();
        let engine = observed.as_ref().map(|kept| &kept.observed.engine);
        engine.map_or((0, 0), |engine| (engine.used, engine.limit))
    }
}

impl Fleet {
    /// Returns how this instance's part in the fleet is now.
    #[must_use]
    pub fn view(&self) -> FleetView {
        let Status { link, observed, .. } = &*self.status;
        let now = self.clock.uptime();
        let since = link.lock().map(|(_, since)| time_text(since));
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let heard = self.link.silence(now).map(millis);
        let link = LinkView {
            state: self.link().as_str().to_owned(),
            since,
            heard_ms: heard,
            round_trip_us: heard.map(|_| read(&self.status.round_trip)),
            patience_ms: millis(self.link.patience()),
            generations: read(&self.status.generation),
            overrides: read(&self.status.overrides),
        };
        let view = match &*observed.lock() {
            Some(kept) => {
                view_of(&kept.observed, &self.settings(), now.since(kept.at), kept.clock_ahead_ms)
            }
            None => FleetView::default(),
        };
        FleetView {
            instance: Some(self.name().to_owned()),
            link: Some(link),
            counts: Some(self.counts()),
            ..view
        }
    }

    /// Returns the counts of this instance.
    pub(super) fn counts(&self) -> FleetCounts {
        let status = &self.status;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let calls = self.coordinator().counts();
        let (turns_asked, turns_granted) =
            calls.map_or((0, 0), |calls| calls.turns_asked_and_granted());
        let of = |outcome| calls.map_or(0, |calls| calls.calls(outcome));
        FleetCounts {
            heartbeats_failed: read(&status.failures),
            leases_held: u64::try_from(status.leases.now()).unwrap_or_default(),
            leases_acquired: read(&status.leases_acquired),
            leases_lost: read(&status.leases_lost),
            results_refused: read(&status.results_refused),
            turns_asked,
            turns_granted,
            scripts_refused: of(counts::Outcome::Refused),
            scripts_unanswered: of(counts::Outcome::Unanswered),
            unsealed: read(&status.unsealed),
        }
    }

    /// Returns the members with other settings, and the sections.
    pub(super) fn differing(&self) -> Vec<(String, String)> {
        let members = self.view().members.into_iter();
        let differing = members.filter(|one| !one.differs.is_empty());
        differing.map(|one| (one.name, one.differs.join(", "))).collect()
    }
}

/// Returns the view of the engine and the members. `settings` are the digests to compare those of the members with.
pub(super) fn view_of(
    observed: &Observed,
    settings: &super::member::Digests,
    age: Duration,
    clock_ahead_ms: Option<i64>,
) -> FleetView {
    let engine = &observed.engine;
    let mut members: Vec<Member> = observed.members.iter().cloned().map(Member::from).collect();
    members.sort_by(|a, b| a.name.cmp(&b.name));
    FleetView {
        instance: None,
        link: None,
        engine: Some(EngineView {
            address: engine.address.clone(),
            version: engine.version.clone(),
            memory_used: engine.used,
            memory_limit: (engine.limit > 0).then_some(engine.limit),
            generation_age_ms: engine.generation.map(millis),
            observed_ms: millis(age),
            clock_ahead_ms,
        }),
        members: members.into_iter().map(|one| member(one, settings)).collect(),
        counts: None,
    }
}

fn member(one: Member, settings: &super::member::Digests) -> MemberView {
    let report = one.report.unwrap_or_default();
    let differs = report
        .settings
        .iter()
        .filter(|(section, digest)| settings.get(*section).is_some_and(|own| own != *digest));
    MemberView {
        name: one.name,
        silent_ms: millis(one.silent),
        differs: differs.map(|(section, _)| section.clone()).collect(),
        since: (report.since > 0).then(|| time_text(Moment::from_millis(report.since))),
        version: report.version,
        link: report.link,
        overrides: report.overrides,
    }
}

/// Asks the engine of a command for the members, without being one. `settings` are the digests of its configuration.
///
/// # Errors
/// When the engine does not tell.
pub async fn view_from_outside(
    engine: &super::engine::Engine,
    config: &crawlgate_config::Config,
) -> Result<FleetView, CoordinatorError> {
    let observed = engine.observe_once().await?;
    let settings = super::member::digests(config);
    let ahead = ahead(Clock::system().now(), &observed);
    Ok(view_of(&observed, &settings, Duration::ZERO, ahead))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::coordinator::{EngineReport, MemberRow};
    use super::super::member::digests;
    use super::*;
    use crawlgate_config::Config;

    #[test]
    fn members_with_other_settings_are_named_and_those_of_older_programs_are_not() {
        let own = Config::default();
        let mut other = Config::default();
        other.pace.burst = 7;
        Arc::make_mut(&mut other.robots.signals).stamp = true;
        other.robots.cache.origins = 1;
        let report = |settings: &Config| {
            let settings = digests(settings);
            serde_json::json!({"version": "0.2.0", "link": "connected", "overrides": 3, "since": 1_000, "settings": settings})
        };
        let row = |name: &str, report: String| MemberRow {
            name: name.to_owned(),
            report,
            silent: Duration::from_millis(40),
        };
        let observed = Observed {
            engine: EngineReport::default(),
            members: vec![
                row("b", report(&other).to_string()),
                row("a", report(&own).to_string()),
                row("c", r#"{"version":"0.1.0","overrides":2}"#.to_owned()),
                row("d", "of another kind".to_owned()),
            ],
        };
        let view = view_of(&observed, &digests(&own), Duration::from_secs(2), None);
        let found: Vec<_> =
            view.members.iter().map(|one| (one.name.as_str(), one.differs.join(" "))).collect();
        let want = [("a", ""), ("b", "pace signals"), ("c", ""), ("d", "")];
        assert_eq!(found, want.map(|(name, differs)| (name, differs.to_owned())));
        let b = &view.members[1];
        assert_eq!((b.overrides, b.version.as_str(), b.silent_ms), (3, "0.2.0", 40));
        assert_eq!(b.since.as_deref(), Some("1970-01-01T00:00:01.000Z"));
        assert_eq!(view.engine.unwrap().memory_limit, None);
    }
}
