//! Metrics of connections to origins.

use std::fmt;
use std::sync::Arc;

use http::Version;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;

use super::Failure;
use super::idle::IdleBudget;
use crawlgate_origins::access::tls_fault::TlsFault;
use crawlgate_system::metrics::{Counters, Gauge, GaugeGuard, Registry};

/// The counters of connections to origins.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    open: Gauge,
    opened: Counters,
    handshakes: Counters,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            open: Gauge::default(),
            opened: Counters::by("version", &["1.1", "2", "ftp"]),
            handshakes: Counters::by("result", &["done", "distrusted", "failed"]),
        }
    }
}

impl Counts {
    /// Counts a connection for requests as open while the result is held.
    pub(super) fn opened(&self, version: Version) -> GaugeGuard {
        self.opened.add(usize::from(version == Version::HTTP_2), 1);
        self.open.raise()
    }

    /// Counts the control connection of a session over FTP in the same way.
    pub(super) fn opened_ftp(&self) -> GaugeGuard {
        self.opened.add(2, 1);
        self.open.raise()
    }

    /// Counts a TLS handshake with an origin that has ended.
    pub(super) fn shook<T>(&self, outcome: &Result<T, Failure>) {
        let kind = match outcome {
            Ok(_) => 0,
            Err(failure) if failure.tls_fault().is_some_and(TlsFault::is_of_the_certificate) => 1,
            Err(_) => 2,
        };
        self.handshakes.add(kind, 1);
    }

    /// Registers these metrics.
    pub(super) fn register(&self, registry: &mut Registry, idle: Arc<IdleBudget>) {
        let Counts { open, opened, handshakes } = self.clone();
        registry.register(
            "crawlgate_upstream_connections_opened",
            "Connections to origins that were opened for requests, by version of HTTP; ftp: sessions over FTP",
            opened,
        );
        registry.register(
            "crawlgate_upstream_connections",
            "Open connections to origins, with a request or waiting for their next one",
            Connections { open, idle },
        );
        registry.register(
            "crawlgate_upstream_handshakes",
            "TLS handshakes with origins, by outcome; distrusted: the certificate could not be verified",
            handshakes,
        );
    }
}

/// Connections by state, read when metrics are collected.
#[derive(Debug)]
struct Connections {
    open: Gauge,
    idle: Arc<IdleBudget>,
}

impl EncodeMetric for Connections {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let idle = i64::try_from(self.idle.count()).unwrap_or(i64::MAX);
        // The two numbers are not read at the same moment.
        let busy = (self.open.now() - idle).max(0);
        for (state, count) in [("busy", busy), ("idle", idle)] {
            let labels = [("state", state)];
            encoder.encode_family(&labels)?.encode_gauge(&count)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}
