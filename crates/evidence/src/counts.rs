//! The metrics of the way to the store and the log.

use crawlgate_system::metrics::{Counters, DurationHistogram, Registry, Unit};

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
        let Counts { writes, failures, lost, late, repeated } = self.clone();
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
