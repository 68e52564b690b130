//! Counters by kind, for a few kinds known beforehand.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// The labels of one series, with their values. All of them are words of ours.
pub type Labels = Vec<(&'static str, &'static str)>;

/// Counters, one for each kind: they only ever go up. Clones count together.
#[derive(Clone)]
pub struct Counters(Arc<[(Labels, AtomicU64)]>);

impl Counters {
    /// Returns one counter for each of these.
    pub fn of(kinds: impl IntoIterator<Item = Labels>) -> Counters {
        let zero = |labels| (labels, AtomicU64::new(0));
        Counters(kinds.into_iter().map(zero).collect())
    }

    /// Returns one counter for each value of one label.
    pub fn by(label: &'static str, values: &[&'static str]) -> Counters {
        Counters::of(values.iter().map(|value| vec![(label, *value)]))
    }

    /// Returns one counter without labels.
    pub fn one() -> Counters {
        Counters::of([Labels::new()])
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
        self.0.get(kind).map_or(0, |(_, counter)| counter.load(Ordering::Relaxed))
    }
}

impl EncodeMetric for Counters {
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

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_apart_and_an_unknown_one_is_not() {
        let counters = Counters::by("result", &["good", "bad"]);
        let clone = counters.clone();
        counters.add(0, 1);
        clone.add(0, 2);
        counters.add(1, 5);
        counters.add(2, 100);
        assert_eq!([0, 1, 2].map(|kind| counters.count(kind)), [3, 5, 0]);
    }
}
