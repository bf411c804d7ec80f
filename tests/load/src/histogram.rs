//! Latency counts in buckets of at most 1.6 % width, so that a quantile costs no memory per operation.
//!
//! Values below 64 have a bucket each; above, every power of two is cut into 64. 64 powers of 64 buckets of 8 bytes: 32 KiB.

const STEPS: u64 = 64;
const STEPS_BITS: u32 = STEPS.trailing_zeros();

/// A histogram of microseconds.
#[derive(Clone)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { buckets: vec![0; (STEPS * STEPS) as usize], count: 0, max: 0 }
    }

    pub(crate) fn add(&mut self, micros: u64) {
        self.buckets[Self::index(micros)] += 1;
        self.count += 1;
        self.max = self.max.max(micros);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The largest value added, in milliseconds.
    pub(crate) fn max_ms(&self) -> f64 {
        self.max as f64 / 1000.0
    }

    /// The value that a share `p` (0 to 1) of the operations did not exceed, in milliseconds; 0 when there are none.
    pub(crate) fn quantile_ms(&self, p: f64) -> f64 {
        let wanted = (self.count as f64 * p).ceil() as u64;
        let mut seen = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen += bucket;
            if *bucket > 0 && seen >= wanted {
                return Self::value(index) as f64 / 1000.0;
            }
        }
        0.0
    }

    fn index(micros: u64) -> usize {
        let power = 63 - micros.max(1).leading_zeros();
        if power < STEPS_BITS {
            return micros as usize;
        }
        let shift = power - STEPS_BITS;
        (u64::from(shift + 1) * STEPS + ((micros >> shift) & (STEPS - 1))) as usize
    }

    /// The smallest value of a bucket.
    fn value(index: usize) -> u64 {
        let index = index as u64;
        if index < STEPS {
            return index;
        }
        (STEPS + index % STEPS) << (index / STEPS - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;

    #[test]
    fn a_bucket_is_never_wider_than_two_percent() {
        for micros in (0..200).chain([1000, 12_345, 999_999, 1 << 40, u64::MAX]) {
            let low = Histogram::value(Histogram::index(micros));
            assert!(low <= micros, "{micros} is filed under {low}");
            assert!((micros - low) as f64 <= micros as f64 * 0.02, "{micros} is filed under {low}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values_added() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|n| histogram.add(n * 1000));
        assert!((histogram.quantile_ms(0.5) - 500.0).abs() < 10.0);
        assert!((histogram.quantile_ms(0.99) - 990.0).abs() < 20.0);
        assert!((histogram.max_ms() - 1000.0).abs() < f64::EPSILON);
        assert!(Histogram::new().quantile_ms(0.5).abs() < f64::EPSILON, "empty");
    }
}
