//! A histogram of durations, made of atomic numbers.
//!
//! The buckets are those of a native histogram of schema 3: eight to each power of two, so that a value is known to within
//! 9 %. The bounds of the classic histogram beside it are powers of two, which are bounds of the native one as well: one
//! row of numbers is both, and an observation is one addition to it and one to the sum.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{
    EncodeMetric, MetricEncoder, NativeHistogram, NativeHistogramBuckets, NoLabelSet,
};
use prometheus_client::metrics::MetricType;

/// The schema of the native histogram: a bucket's upper bound is 2^(1/8) times its lower one.
const SCHEMA: i32 = 3;

/// Buckets per power of two.
const STEPS: i32 = 1 << SCHEMA;

/// Powers of two, in seconds, that bound the buckets: from a microsecond to half an hour.
const LOWEST: i32 = -20;
const HIGHEST: i32 = 11;

/// The upper bounds of the buckets within one power of two, as fractions of it, except the last, which is the power.
const FRACTIONS: [f64; 7] = [
    0.545_253_866_332_628_8,
    0.594_603_557_501_360_5,
    0.648_419_777_325_504_8,
    0.707_106_781_186_547_5,
    0.771_105_412_703_970_4,
    0.840_896_415_253_714_4,
    0.917_004_043_204_671_1,
];

/// Number of buckets: one for the shortest times, then those between the powers of two.
const BUCKETS: usize = 1 + ((HIGHEST - LOWEST) * STEPS) as usize;

/// A histogram of times. Clones count together.
#[derive(Clone)]
pub struct DurationHistogram(Arc<Inner>);

struct Inner {
    /// The powers of two that bound the classic buckets.
    bounds: Range<i32>,
    counts: [AtomicU64; BUCKETS],
    /// Nanoseconds.
    sum: AtomicU64,
}

impl DurationHistogram {
    /// Returns a histogram with classic buckets between these powers of two of a second, which should enclose most
    /// times; the native one covers a microsecond to half an hour.
    #[must_use]
    pub fn between(bounds: Range<i32>) -> DurationHistogram {
        DurationHistogram(Arc::new(Inner {
            bounds: bounds.start.max(LOWEST)..bounds.end.min(HIGHEST),
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            sum: AtomicU64::new(0),
        }))
    }

    /// Counts one duration.
    pub fn observe(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.0.counts.get(bucket(nanos)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.0.sum.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns the number of observations.
    #[must_use]
    pub fn count(&self) -> u64 {
        let counts = self.0.counts.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// Returns the bucket of a time: the first with an upper bound not below it.
fn bucket(nanos: u64) -> usize {
    #[allow(clippy::cast_precision_loss, reason = "a bucket is wider than that")]
    let seconds = nanos as f64 / 1e9;
    let bits = seconds.to_bits();
    // seconds = fraction × 2^power, with a fraction from 0.5 to below 1, as a float is made. Zero is far below all.
    let power = i32::try_from(bits >> 52).unwrap_or_default() - 1022;
    let fraction = f64::from_bits((bits & ((1 << 52) - 1)) | (1022 << 52));
    // One half exactly is the power below, the upper bound of its own bucket.
    let step =
        if fraction > 0.5 { 1 + FRACTIONS.partition_point(|bound| *bound < fraction) } else { 0 };
    let step = i32::try_from(step).unwrap_or_default();
    let index = (power - 1 - LOWEST) * STEPS + step;
    usize::try_from(index.max(0)).unwrap_or_default().min(BUCKETS - 1)
}

impl EncodeMetric for DurationHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        // Read once, so that both histograms show the same numbers.
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts: Vec<u64> = self.0.counts.iter().map(load).collect();
        let (nearly_none, rest) = counts.split_first().ok_or(fmt::Error)?;
        #[allow(clippy::cast_precision_loss, reason = "a sum of times need not be exact")]
        let sum = self.0.sum.load(Ordering::Relaxed) as f64 / 1e9;
        let (spans, deltas) = sparse(rest);
        let none = NativeHistogramBuckets { spans: &[], deltas: &[] };
        encoder.encode_histogram_with_native::<NoLabelSet>(
            sum,
            counts.iter().sum(),
            &classic(&counts, &self.0.bounds),
            None,
            NativeHistogram {
                schema: SCHEMA,
                zero_threshold: 2_f64.powi(LOWEST),
                zero_count: *nearly_none,
                negative: none,
                positive: NativeHistogramBuckets { spans: &spans, deltas: &deltas },
                created: None,
            },
        )
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// Returns the counts by classic bucket, not cumulated, the last without a bound.
fn classic(counts: &[u64], bounds: &Range<i32>) -> Vec<(f64, u64)> {
    let mut from = 0;
    let mut classic = Vec::new();
    for power in bounds.clone() {
        let to = usize::try_from((power - LOWEST) * STEPS).unwrap_or_default() + 1;
        let within = counts.get(from..to).unwrap_or_default();
        classic.push((2_f64.powi(power), within.iter().sum()));
        from = to;
    }
    let beyond = counts.get(from..).unwrap_or_default();
    classic.push((f64::INFINITY, beyond.iter().sum()));
    classic
}

/// Returns the counts in the form of a native histogram: spans of filled buckets, and the differences between them.
fn sparse(counts: &[u64]) -> (Vec<(i32, u32)>, Vec<i64>) {
    let (mut spans, mut deltas) = (Vec::<(i32, u32)>::new(), Vec::new());
    let mut before = 0;
    let mut next = 0;
    for (index, count) in (LOWEST * STEPS + 1..).zip(counts) {
        if *count == 0 {
            continue;
        }
        match spans.last_mut() {
            Some((_, length)) if index == next => *length += 1,
            // The first span starts from bucket 0, each other where the one before it ends.
            _ => spans.push((index - next, 1)),
        }
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        deltas.push(count - before);
        before = count;
        next = index + 1;
    }
    (spans, deltas)
}

impl fmt::Debug for DurationHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurationHistogram").field("count", &self.count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the bounds of a bucket, in seconds.
    fn bounds(bucket: usize) -> (f64, f64) {
        let power = |step: usize| 2_f64.powf(f64::from(LOWEST) + step as f64 / f64::from(STEPS));
        match bucket {
            0 => (-1.0, power(0)),
            _ if bucket == BUCKETS - 1 => (power(bucket - 1), f64::INFINITY),
            _ => (power(bucket - 1), power(bucket)),
        }
    }

    #[test]
    fn a_power_of_two_is_the_upper_bound_of_its_bucket() {
        for (nanos, expected) in [
            (0, 0),
            (1, 0),
            // 2^-9 s is 1953125 ns, exactly.
            (1_953_124, (-9 - LOWEST) * STEPS),
            (1_953_125, (-9 - LOWEST) * STEPS),
            (1_953_126, (-9 - LOWEST) * STEPS + 1),
            (1_000_000_000, -LOWEST * STEPS),
            (1_000_000_001, -LOWEST * STEPS + 1),
            (u64::MAX, BUCKETS as i32 - 1),
        ] {
            assert_eq!(bucket(nanos) as i32, expected, "{nanos} ns");
        }
    }

    proptest! {
        #[test]
        fn a_time_lies_between_the_bounds_of_its_bucket(nanos in 0..10_000_000_000_000_u64) {
            let (above, upto) = bounds(bucket(nanos));
            let seconds = nanos as f64 / 1e9;
            // These bounds are computed and the bucket's are constants: they differ in the last digit.
            prop_assert!(above * (1.0 - 1e-12) < seconds && seconds <= upto * (1.0 + 1e-12), "{nanos}");
        }
    }

    #[test]
    fn both_histograms_show_the_same() {
        let times = DurationHistogram::between(-2..1);
        for millis in [100, 250, 251, 900, 1000, 1001, 70_000] {
            times.observe(Duration::from_millis(millis));
        }
        let counts: Vec<u64> =
            times.0.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert_eq!(
            classic(&counts, &times.0.bounds),
            [(0.25, 2), (0.5, 1), (1.0, 2), (f64::INFINITY, 2)]
        );
        let (spans, deltas) = sparse(&counts[1..]);
        let absolute: i64 = deltas
            .iter()
            .scan(0, |count, delta| {
                *count += delta;
                Some(*count)
            })
            .sum();
        assert_eq!(absolute, 7);
        let buckets: u32 = spans.iter().map(|(_, length)| length).sum();
        assert_eq!(buckets as usize, deltas.len());
        // 0.1 s lies in (2^(-27/8), 2^(-26/8)]: bucket -26.
        assert_eq!(spans[0], (-26, 1));
    }
}
