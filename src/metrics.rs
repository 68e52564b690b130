//! What is counted: instruments that cost a request next to nothing, and the ways to show them.
//!
//! Each room counts what happens in it, in instruments that it owns and [registers](Registry) under their names. An
//! instrument is a row of atomic numbers, one for each combination of labels, all of which are known beforehand: to count
//! takes no lock and no look-up, every series is there from the start, at zero, and no stranger can make a new one. What
//! is cheap to ask for is not counted at all but read when somebody looks, by a [`Collector`].
//!
//! - [`Tally`]: how often, by kind
//! - [`Level`], [`Levels`]: how many now
//! - [`Times`]: how long, as a histogram, classic and native
//! - [`exposition`]: Prometheus text, OpenMetrics text, Prometheus protobuf
//! - [`process`]: what the system says of this process

pub mod exposition;
pub mod process;
mod tally;
mod times;

pub use prometheus_client::collector::Collector;
pub use prometheus_client::registry::{Registry, Unit};

pub use self::tally::{Labels, Level, Levels, Raised, Tally};
pub use self::times::Times;

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};

/// Shows one number that is read when somebody looks, from within a [`Collector`].
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
