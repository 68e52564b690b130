//! Gauges: by kind, for a few kinds known beforehand, and by live guards.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;

use super::counters::Labels;

/// Gauges, one for each kind. Clones share them.
#[derive(Clone)]
pub struct Gauges(Arc<[(Labels, AtomicI64)]>);

impl Gauges {
    /// Returns one gauge for each value of one label.
    pub fn by(label: &'static str, values: &[&'static str]) -> Gauges {
        let zero = |value: &&'static str| (vec![(label, *value)], AtomicI64::new(0));
        Gauges(values.iter().map(zero).collect())
    }

    /// Adds one to the `kind`th kind.
    pub fn raise(&self, kind: usize) {
        self.change(kind, 1);
    }

    /// Subtracts one from the `kind`th kind.
    pub fn lower(&self, kind: usize) {
        self.change(kind, -1);
    }

    fn change(&self, kind: usize, by: i64) {
        if let Some((_, gauge)) = self.0.get(kind) {
            gauge.fetch_add(by, Ordering::Relaxed);
        }
    }

    /// Returns the present number of the `kind`th kind.
    #[must_use]
    pub fn now(&self, kind: usize) -> i64 {
        self.0.get(kind).map_or(0, |(_, gauge)| gauge.load(Ordering::Relaxed))
    }
}

impl EncodeMetric for Gauges {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, gauge) in self.0.iter() {
            encoder.encode_family(labels)?.encode_gauge(&gauge.load(Ordering::Relaxed))?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter()).finish()
    }
}

/// A gauge of live guards. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicI64>);

impl Gauge {
    /// Adds one until the returned guard is dropped.
    #[must_use]
    pub fn raise(&self) -> GaugeGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        GaugeGuard(self.clone())
    }

    /// Returns the present number.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl EncodeMetric for Gauge {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_gauge(&self.now())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

/// A guard that a [`Gauge`] counts.
#[derive(Debug)]
pub struct GaugeGuard(Gauge);

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_falls_when_a_guard_is_dropped() {
        let gauge = Gauge::default();
        let (one, two) = (gauge.raise(), gauge.clone().raise());
        assert_eq!(gauge.now(), 2);
        drop(one);
        assert_eq!(gauge.now(), 1);
        drop(two);
        assert_eq!(gauge.now(), 0);
    }
}
