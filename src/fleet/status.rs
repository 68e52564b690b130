//! The figures of an instance's part in its fleet, for `/metrics`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{Fleet, Heard, LinkState};
use crate::metrics::{Collector, show};

/// Figures of this instance's part.
#[derive(Debug, Default)]
pub struct Status {
    members: AtomicU64,
    generation: AtomicU64,
    failures: AtomicU64,
    leases_lost: AtomicU64,
    refused: AtomicU64,
}

impl Status {
    pub(super) fn heard(&self, heard: &Heard) {
        self.generation.store(heard.generation, Ordering::Relaxed);
        self.members.store(heard.members, Ordering::Relaxed);
    }

    /// Returns the number of members, this one included.
    #[must_use]
    pub fn members(&self) -> u64 {
        self.members.load(Ordering::Relaxed)
    }

    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a fetch that had lost its lease when it ended.
    pub fn lease_lost(&self) {
        self.leases_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts octets in the engine that the fleet's key did not make.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// The instruments of the fleet.
#[derive(Debug)]
pub(super) struct Instruments(pub(super) Arc<Fleet>);

impl Collector for Instruments {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Instruments(fleet) = self;
        let status = fleet.status();
        let link = LinkState::ALL
            .iter()
            .position(|state| *state == fleet.link());
        let link = link.unwrap_or_default() as u64;
        let members = status.members();
        let generation = status.generation.load(Ordering::Relaxed);
        let gauges = [
            (
                "crawlgate_fleet_link",
                "Link to the fleet's engine: 0 connected, 1 doubtful, 2 cut off.",
                link,
            ),
            (
                "crawlgate_fleet_members",
                "Members of the fleet, this one included.",
                members,
            ),
            (
                "crawlgate_fleet_generation",
                "Times that the engine was found without its knowledge, plus one.",
                generation,
            ),
        ];
        for (name, help, value) in gauges {
            show(
                &mut encoder,
                name,
                help,
                None,
                &ConstGauge::new(value as i64),
            )?;
        }
        let counters = [
            (
                "crawlgate_fleet_heartbeats_failed",
                "Heartbeats without an answer.",
                &status.failures,
            ),
            (
                "crawlgate_fleet_leases_lost",
                "Fetches of robots.txt that lost their lease to another instance.",
                &status.leases_lost,
            ),
            (
                "crawlgate_fleet_refused",
                "States and overrides in the engine that the fleet's key did not make.",
                &status.refused,
            ),
        ];
        for (name, help, value) in counters {
            let value = ConstCounter::new(value.load(Ordering::Relaxed));
            show(&mut encoder, name, help, None, &value)?;
        }
        Ok(())
    }
}
