//! Numbers by kind, for a few kinds known beforehand.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// The labels of one series, with their values. All of them are words of ours.
pub type Labels = Vec<(&'static str, &'static str)>;

/// Counters, one for each kind: they only ever go up. Clones count together.
#[derive(Clone)]
pub struct Tally(Arc<[(Labels, AtomicU64)]>);

impl Tally {
    /// Returns one counter for each of these.
    pub fn of(kinds: impl IntoIterator<Item = Labels>) -> Tally {
        let zero = |labels| (labels, AtomicU64::new(0));
        Tally(kinds.into_iter().map(zero).collect())
    }

    /// Returns one counter for each value of one label.
    pub fn by(label: &'static str, values: &[&'static str]) -> Tally {
        Tally::of(values.iter().map(|value| vec![(label, *value)]))
    }

    /// Returns one counter without labels.
    pub fn one() -> Tally {
        Tally::of([Labels::new()])
    }

    /// Counts `count` of the `kind`th kind. An unknown kind is not counted.
    pub fn add(&self, kind: usize, count: u64) {
        if let Some((_, counter)) = self.0.get(kind) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Returns the count of the `kind`th kind.
    #[must_use]
    pub fn count(&self, kind: usize) -> u64 {
        self.0
            .get(kind)
            .map_or(0, |(_, counter)| counter.load(Ordering::Relaxed))
    }
}

impl EncodeMetric for Tally {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, counter) in self.0.iter() {
            let count = counter.load(Ordering::Relaxed);
            // OpenMetrics forbids empty braces.
            if labels.is_empty() {
                encoder.encode_counter::<NoLabelSet, u64, u64>(&count, None)?;
            } else {
                let mut encoder = encoder.encode_family(labels)?;
                encoder.encode_counter::<NoLabelSet, u64, u64>(&count, None)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter()).finish()
    }
}

/// Gauges, one for each kind. Clones share them.
#[derive(Clone)]
pub struct Levels(Arc<[(Labels, AtomicI64)]>);

impl Levels {
    /// Returns one gauge for each value of one label.
    pub fn by(label: &'static str, values: &[&'static str]) -> Levels {
        let zero = |value: &&'static str| (vec![(label, *value)], AtomicI64::new(0));
        Levels(values.iter().map(zero).collect())
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
        if let Some((_, level)) = self.0.get(kind) {
            level.fetch_add(by, Ordering::Relaxed);
        }
    }

    /// Returns the present number of the `kind`th kind.
    #[must_use]
    pub fn now(&self, kind: usize) -> i64 {
        self.0
            .get(kind)
            .map_or(0, |(_, level)| level.load(Ordering::Relaxed))
    }
}

impl EncodeMetric for Levels {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, level) in self.0.iter() {
            encoder
                .encode_family(labels)?
                .encode_gauge(&level.load(Ordering::Relaxed))?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

impl fmt::Debug for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter()).finish()
    }
}

/// A gauge of live guards. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Level(Arc<AtomicI64>);

impl Level {
    /// Adds one until the returned guard is dropped.
    #[must_use]
    pub fn raise(&self) -> Raised {
        self.0.fetch_add(1, Ordering::Relaxed);
        Raised(self.clone())
    }

    /// Returns the present number.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl EncodeMetric for Level {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_gauge(&self.now())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

/// A guard that a [`Level`] counts.
#[derive(Debug)]
pub struct Raised(Level);

impl Drop for Raised {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_apart_and_an_unknown_one_is_not() {
        let tally = Tally::by("result", &["good", "bad"]);
        let clone = tally.clone();
        tally.add(0, 1);
        clone.add(0, 2);
        tally.add(1, 5);
        tally.add(2, 100);
        assert_eq!([0, 1, 2].map(|kind| tally.count(kind)), [3, 5, 0]);
    }

    #[test]
    fn a_level_falls_when_a_guard_is_dropped() {
        let level = Level::default();
        let (one, two) = (level.raise(), level.clone().raise());
        assert_eq!(level.now(), 2);
        drop(one);
        assert_eq!(level.now(), 1);
        drop(two);
        assert_eq!(level.now(), 0);
    }
}
