//! A distribution: count, sum, extremes and quantiles, updated without a lock.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Buckets for each power of two; the error of a quantile is at most 1/16.
const STEPS: usize = 16;
/// Values from 0 to 2^40 are told apart; larger ones share the last bucket.
const BUCKETS: usize = 37 * STEPS;

/// Upstream's `AvgMinMaxPercentileCounter`. The unit is the caller's (milliseconds, bytes, requests).
#[derive(Debug)]
pub struct Summary {
    count: AtomicU64,
    sum: AtomicU64,
    min: AtomicI64,
    max: AtomicU64,
    buckets: Vec<AtomicU64>,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            count: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            min: AtomicI64::new(i64::MAX),
            max: AtomicU64::new(0),
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Summary {
    /// Adds one value.
    pub fn record(&self, value: u64) {
        self.record_many(value, 1);
    }

    /// Adds one value `times` times.
    pub fn record_many(&self, value: u64, times: u64) {
        self.count.fetch_add(times, Ordering::Relaxed);
        self.sum.fetch_add(value.saturating_mul(times), Ordering::Relaxed);
        self.min.fetch_min(i64::try_from(value).unwrap_or(i64::MAX), Ordering::Relaxed);
        self.max.fetch_max(value, Ordering::Relaxed);
        self.buckets[bucket_of(value)].fetch_add(times, Ordering::Relaxed);
    }

    /// Notes an extreme that one of the recorded values stood for.
    pub fn raise_max(&self, value: u64) {
        self.max.fetch_max(value, Ordering::Relaxed);
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }

    /// 0 without values.
    pub fn min(&self) -> i64 {
        match self.min.load(Ordering::Relaxed) {
            i64::MAX => 0,
            min => min,
        }
    }

    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// The mean, to four decimals as upstream rounds it; 0 without values.
    pub fn avg(&self) -> f64 {
        let count = self.count();
        if count == 0 { 0.0 } else { (self.sum() as f64 / count as f64 * 10_000.0).round() / 10_000.0 }
    }

    /// The value below which `q` (0 to 1) of the values lie; 0 without values.
    pub fn quantile(&self, q: f64) -> u64 {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let rank = (total as f64 * q).ceil() as u64;
        let mut seen = 0;
        for (index, count) in counts.into_iter().enumerate() {
            seen += count;
            if count > 0 && seen >= rank {
                return low_end(index).min(self.max());
            }
        }
        0
    }

    /// Forgets everything (`srst`).
    pub fn reset(&self) {
        self.count.store(0, Ordering::Relaxed);
        self.sum.store(0, Ordering::Relaxed);
        self.min.store(i64::MAX, Ordering::Relaxed);
        self.max.store(0, Ordering::Relaxed);
        self.buckets.iter().for_each(|bucket| bucket.store(0, Ordering::Relaxed));
    }
}

/// Values below [`STEPS`] have a bucket each; above, each power of two is cut into [`STEPS`].
fn bucket_of(value: u64) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let exponent = value.ilog2() as usize;
    let step = (value >> (exponent - 4)) as usize - STEPS;
    ((exponent - 3) * STEPS + step).min(BUCKETS - 1)
}

fn low_end(index: usize) -> u64 {
    if index < STEPS {
        return index as u64;
    }
    let exponent = index / STEPS + 3;
    ((STEPS + index % STEPS) as u64) << (exponent - 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_falls_into_a_bucket_that_starts_at_or_below_it() {
        for value in (0..100_000).chain([1 << 20, (1 << 39) + 5, (1 << 40) - 1]) {
            let low = low_end(bucket_of(value));
            assert!(low <= value && value - low <= value / 16, "{value} got {low}");
        }
    }

    #[test]
    fn quantiles_extremes_and_mean_describe_what_was_recorded() {
        let summary = Summary::default();
        assert_eq!((summary.min(), summary.max(), summary.quantile(0.5)), (0, 0, 0));
        (1..=100).for_each(|value| summary.record(value));
        assert_eq!((summary.count(), summary.sum(), summary.min(), summary.max()), (100, 5050, 1, 100));
        assert_eq!((summary.quantile(0.5), summary.quantile(0.99), summary.avg()), (50, 96, 50.5));
        summary.reset();
        assert_eq!((summary.count(), summary.min(), summary.quantile(0.9)), (0, 0, 0));
    }
}
