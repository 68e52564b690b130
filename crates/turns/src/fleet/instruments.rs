//! The metrics of a fleet, read at each scrape from the figures that its status keeps.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::overview::FleetCounts;
use super::{Fleet, LinkState};
use crawlgate_system::metrics::{Collector, Unit, show};

/// The instruments of the fleet.
#[derive(Debug)]
pub(super) struct Instruments(pub(super) Arc<Fleet>);

impl Collector for Instruments {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Instruments(fleet) = self;
        let counts = fleet.counts();
        for (name, help, unit, value) in gauges(fleet, &counts) {
            let value = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            show(&mut encoder, name, help, unit.as_ref(), &value)?;
        }
        for (name, help, value) in counters(&counts) {
            show(&mut encoder, name, help, None, &ConstCounter::new(value))?;
        }
        Ok(())
    }
}

/// Returns name, help, unit and value of each gauge.
fn gauges(
    fleet: &Fleet,
    counts: &FleetCounts,
) -> [(&'static str, &'static str, Option<Unit>, u64); 8] {
    let link = LinkState::ALL.iter().position(|state| *state == fleet.link());
    let link = link.unwrap_or_default() as u64;
    let status = fleet.status();
    let (used, limit) = status.memory();
    let apart = status.clock_ahead_ms().unwrap_or_default().unsigned_abs() / 1_000;
    let differing = fleet.differing().len() as u64;
    #[rustfmt::skip] // one row, one metric
    let gauges = [
        ("crawlgate_fleet_link", "Link to the fleet's engine: 0 connected, 1 doubtful, 2 cut off.", None, link),
        ("crawlgate_fleet_members", "Members of the fleet, this one included.", None, status.members()),
        ("crawlgate_fleet_generation", "Times that the engine was found without its knowledge, plus one.", None, status.generations()),
        ("crawlgate_fleet_settings_differ", "Members with other settings than this instance.", None, differing),
        ("crawlgate_fleet_leases_held", "Leases of fetches that this instance holds.", None, counts.leases_held),
        ("crawlgate_fleet_engine_memory", "Memory of the fleet's engine in use.", Some(Unit::Bytes), used),
        ("crawlgate_fleet_engine_memory_limit", "Memory of the fleet's engine at most; 0: no limit.", Some(Unit::Bytes), limit),
        ("crawlgate_fleet_clock_apart", "Difference between the clocks of this instance and of the engine.", Some(Unit::Seconds), apart),
    ];
    gauges
}

/// Returns name, help and value of each counter.
fn counters(counts: &FleetCounts) -> [(&'static str, &'static str, u64); 7] {
    #[rustfmt::skip] // one row, one metric
    let counters = [
        ("crawlgate_fleet_heartbeats_failed", "Heartbeats without an answer.", counts.heartbeats_failed),
        ("crawlgate_fleet_leases_acquired", "Leases of fetches that this instance was given.", counts.leases_acquired),
        ("crawlgate_fleet_leases_lost", "Fetches of robots.txt that lost their lease to another instance.", counts.leases_lost),
        ("crawlgate_fleet_results_refused", "Results of fetches that the engine refused, as it had newer ones.", counts.results_refused),
        ("crawlgate_fleet_turns_asked", "Turns at origins that this instance asked for.", counts.turns_asked),
        ("crawlgate_fleet_turns_granted", "Turns at origins that this instance was granted.", counts.turns_granted),
        ("crawlgate_fleet_refused", "States and overrides in the engine that the fleet's key did not make.", counts.unsealed),
    ];
    counters
}
