//! The metrics of the way to the store and the log, and of the queue before it.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::gauge::ConstGauge;

use super::queue::Queue;
use crawlgate_store::Store;
use crawlgate_system::metrics::{Collector, Counters, DurationHistogram, Registry, Unit, show};

/// A destination of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputKind {
    /// The store.
    Store,
    /// The file, or standard output.
    Log,
}

/// The metrics.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    /// Duration of each batch's write to the store.
    pub(super) writes: DurationHistogram,
    failures: Counters,
    lost: Counters,
    late: Counters,
    repeated: Counters,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            // From a tenth of a millisecond to half a minute.
            writes: DurationHistogram::between(-13..6),
            failures: Counters::by("place", &["store", "log"]),
            lost: Counters::one(),
            late: Counters::one(),
            repeated: Counters::one(),
        }
    }
}

impl Counts {
    /// Counts a failed attempt to write.
    pub(super) fn failed(&self, place: OutputKind) {
        self.failures.add(place as usize, 1);
    }

    /// Counts a record without room.
    pub(super) fn lost(&self) {
        self.lost.add(0, 1);
    }

    /// Counts a batch that reaches the store late.
    pub(super) fn late(&self) {
        self.late.add(0, 1);
    }

    /// Counts a refusal without its own record.
    pub(super) fn repeat(&self) {
        self.repeated.add(0, 1);
    }

    /// Returns the number of refusals without a record of their own.
    pub(super) fn repeated(&self) -> u64 {
        self.repeated.count(0)
    }

    /// Registers the metrics, with the queue's size. Without a queue every value is 0, and stays so.
    pub(super) fn register(&self, registry: &mut Registry) {
        let Counts {
            writes,
            failures,
            lost,
            late,
            repeated,
        } = self.clone();
        registry.register_with_unit(
            "crawlgate_store_write_duration",
            "How long it took to put a batch of records, and what they rest on, into the store",
            Unit::Seconds,
            writes,
        );
        registry.register(
            "crawlgate_store_failures",
            "Attempts to write to the store or the decision log that failed; each is made again",
            failures,
        );
        registry.register(
            "crawlgate_store_late",
            "Batches of records that reached the store more than 100 ms after the first of them; requests waited",
            late,
        );
        registry.register(
            "crawlgate_refusals_without_record",
            "Refusals that were counted without a record of their own",
            repeated,
        );
        registry.register(
            "crawlgate_records_lost",
            "Records that found no room while they could not be written",
            lost,
        );
    }
}

/// The queue's content, measured at each scrape.
#[derive(Debug)]
pub(super) struct Backlog {
    pub(super) queue: Option<Arc<Queue>>,
    pub(super) store: Option<Arc<Store>>,
}

impl Collector for Backlog {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = self.queue.as_ref().map(|queue| queue.backlog());
        let now = now.unwrap_or_default();
        show(
            &mut encoder,
            "crawlgate_store_queue",
            "What is recorded and not written yet",
            Some(&Unit::Bytes),
            &ConstGauge::new(u64::try_from(now.octets).unwrap_or(u64::MAX)),
        )?;
        show(
            &mut encoder,
            "crawlgate_store_queue_records",
            "Records, robots.txt and settings that are not written yet",
            None,
            &ConstGauge::new(now.entries),
        )?;
        show(
            &mut encoder,
            "crawlgate_store_failing",
            "1 while decisions cannot be written to the store or the decision log",
            None,
            &ConstGauge::new(i64::from(now.is_failing)),
        )?;
        show(
            &mut encoder,
            "crawlgate_store_behind",
            "1 while records reach the store late and requests wait for them",
            None,
            &ConstGauge::new(i64::from(now.is_behind)),
        )?;
        let fault = self.store.as_ref().and_then(|store| store.fault());
        show(
            &mut encoder,
            "crawlgate_store_log_failing",
            "1 while the write-ahead log of the store cannot be carried over into the database",
            None,
            &ConstGauge::new(i64::from(fault.is_some())),
        )
    }
}
