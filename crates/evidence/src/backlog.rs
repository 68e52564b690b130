//! The metrics of the queue.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::gauge::ConstGauge;

use super::queue::Queue;
use crawlgate_store::Store;
use crawlgate_system::metrics::{Collector, Unit, show};

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
