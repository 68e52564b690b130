//! The instruments of the process, as `/metrics` shows them.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::TryCounts;
use super::refusals::Refusals;
use crate::process;
use crate::version::{COMMIT, DATE, TARGET, VERSION};
use crawlgate_proxy::Proxy;
use crawlgate_system::metrics::exposition::Format;
use crawlgate_system::metrics::process::Process;
use crawlgate_system::metrics::{Collector, Registry, Unit, show};

/// The instruments, with the readiness at the last scrape.
pub(super) struct Instruments {
    registry: Registry,
    is_ready: Arc<AtomicBool>,
}

impl Instruments {
    /// Registers all instruments of a process, its proxy and the admin side.
    pub(super) fn of(
        process: &process::Process,
        tries: &TryCounts,
        refusals: &Refusals,
    ) -> Instruments {
        let is_ready = Arc::<AtomicBool>::default();
        let mut registry = Registry::default();
        process.proxy.register(&mut registry);
        tries.register(&mut registry);
        process.register(&mut registry);
        refusals.register(&mut registry);
        registry.register_collector(Box::new(ScrapedGauges {
            proxy: Arc::downgrade(&process.proxy),
            is_ready: Arc::clone(&is_ready),
        }));
        registry.register_collector(Box::new(Process));
        Instruments { registry, is_ready }
    }

    /// Writes them, with this readiness.
    pub(super) fn render(&self, format: Format, is_ready: bool) -> Result<Vec<u8>, fmt::Error> {
        self.is_ready.store(is_ready, Ordering::Relaxed);
        format.render(&self.registry)
    }
}

/// The gauges that are read at each scrape.
struct ScrapedGauges {
    proxy: Weak<Proxy>,
    is_ready: Arc<AtomicBool>,
}

impl Collector for ScrapedGauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        show_build(&mut encoder)?;
        let Some(proxy) = self.proxy.upgrade() else {
            return Ok(());
        };
        let mut gauge = |name: &str, help: &str, unit: Option<Unit>, value: u64| {
            let value = ConstGauge::new(value);
            show(&mut encoder, name, help, unit.as_ref(), &value)
        };
        let occupied = proxy.occupied();
        let (pace, most_held) = (proxy.gate().pace().counts(), proxy.settings().pace.max_held);
        gauge(
            "crawlgate_ready",
            "1 while GET /ready reports that requests are answered",
            None,
            u64::from(self.is_ready.load(Ordering::Relaxed)),
        )?;
        gauge(
            "crawlgate_cache",
            "Memory of the states of origins, roughly",
            Some(Unit::Bytes),
            count(proxy.gate().robots_cache().bytes()),
        )?;
        gauge(
            "crawlgate_downstream_connections",
            "Open connections of crawlers",
            None,
            count(occupied.connections),
        )?;
        gauge(
            "crawlgate_requests_in_flight",
            "Requests and tunnels in progress",
            None,
            count(occupied.requests),
        )?;
        gauge(
            "crawlgate_paced_requests",
            "Requests that wait for their turn at an origin",
            None,
            count(pace.held),
        )?;
        gauge(
            "crawlgate_paced_requests_limit",
            "Limit of requests that wait for their turn ([pace] max_held)",
            None,
            count(most_held),
        )?;
        gauge(
            "crawlgate_ca_not_after",
            "When the local CA's certificate expires, since the Unix epoch",
            Some(Unit::Seconds),
            proxy.authority().not_after().as_millis() / 1000,
        )?;
        let outcomes = [
            ("evicted", occupied.evicted),
            ("told", occupied.turned_away),
            ("closed", occupied.closed),
        ];
        show_evictions(&mut encoder, outcomes)
    }
}

fn show_build(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let labels = [("version", VERSION), ("commit", COMMIT), ("date", DATE), ("target", TARGET)];
    encoder
        .encode_descriptor(
            "crawlgate_build_info",
            "The build that runs: version, commit, day of the commit, target",
            None,
            MetricType::Gauge,
        )?
        .encode_family(&labels)?
        .encode_gauge(&1_u64)
}

/// Shows the connections that came while there was no room.
fn show_evictions(encoder: &mut DescriptorEncoder<'_>, outcomes: [(&str, u64); 3]) -> fmt::Result {
    encoder
        .encode_descriptor(
            "crawlgate_downstream_connections_full",
            "Connections of crawlers that came while there was no room: idle ones that were closed for them, \
             those that were told so, and those that were closed",
            None,
            MetricType::Counter,
        )
        .and_then(|mut encoder| {
            outcomes.iter().try_for_each(|(outcome, count)| {
                encoder
                    .encode_family(&[("outcome", *outcome)])?
                    .encode_counter::<NoLabelSet, u64, u64>(count, None)
            })
        })
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

impl fmt::Debug for ScrapedGauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScrapedGauges")
    }
}
