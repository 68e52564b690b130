//! Metrics: instruments that cost a request next to nothing, and their exposition.
//!
//! Each room counts its own events, in instruments that it owns and [registers](Registry) under their names. An
//! instrument is a row of atomic numbers, one for each combination of labels, all known beforehand: counting takes no
//! lock and no look-up, every series exists from the start, at zero, and no client can create a new one. A number that
//! is cheap to measure is not counted at all: a [`Collector`] reads it at each scrape.
//!
//! - [`Counters`]: counters, by kind
//! - [`Gauge`], [`Gauges`]: present numbers
//! - [`DurationHistogram`]: durations, as a histogram, classic and native
//! - [`exposition`]: Prometheus text, OpenMetrics text, Prometheus protobuf
//! - [`process`]: the system's figures of this process

mod counters;
mod duration_histogram;
pub mod exposition;
mod gauges;
pub mod process;

pub use prometheus_client::collector::Collector;
pub use prometheus_client::registry::{Registry, Unit};

pub use self::counters::{Counters, Labels};
pub use self::duration_histogram::DurationHistogram;
pub use self::gauges::{Gauge, GaugeGuard, Gauges};

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};

/// Shows one number measured at the time of a scrape, from within a [`Collector`].
///
/// # Errors
/// When the text cannot be written.
pub fn show(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    metric: &dyn EncodeMetric,
) -> fmt::Result {
    let encoder = encoder.encode_descriptor(name, help, unit, metric.metric_type())?;
    metric.encode(encoder)
}
