//! Latencies: a histogram with three significant digits.

use hdrhistogram::Histogram as Counts;
use std::fmt;
use std::time::Duration;

/// Latencies above this are counted as this: one hour, in nanoseconds.
const MAX_NANOS: u64 = 3_600_000_000_000;

/// The distribution of latencies, each known to 0.1 %; the number, the mean and both ends are exact.
///
/// Recording costs a few nanoseconds and allocates only while the range grows, to 350 KiB for an hour. Threads record
/// into histograms of their own, which are merged afterwards.
#[derive(Clone)]
pub struct Histogram {
    counts: Counts<u64>,
    sum_nanos: u128,
    min_nanos: u64,
    max_nanos: u64,
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        let Ok(mut counts) = Counts::new(3) else { unreachable!("three digits are within the library's bounds") };
        counts.auto(true);
        Self { counts, sum_nanos: 0, min_nanos: u64::MAX, max_nanos: 0 }
    }

    /// Adds a latency.
    #[inline]
    pub fn record(&mut self, latency: Duration) {
        self.record_nanos(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds a latency in microseconds.
    #[inline]
    pub fn record_micros(&mut self, micros: u64) {
        self.record_nanos(micros.saturating_mul(1000));
    }

    /// Adds a latency in nanoseconds.
    #[inline]
    pub fn record_nanos(&mut self, nanos: u64) {
        let nanos = nanos.min(MAX_NANOS);
        if self.counts.record(nanos).is_ok() {
            self.sum_nanos += u128::from(nanos);
            self.min_nanos = self.min_nanos.min(nanos);
            self.max_nanos = self.max_nanos.max(nanos);
        }
    }

    /// Adds all latencies of `other`.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.add(&other.counts).is_ok() {
            self.sum_nanos += other.sum_nanos;
            self.min_nanos = self.min_nanos.min(other.min_nanos);
            self.max_nanos = self.max_nanos.max(other.max_nanos);
        }
    }

    /// Forgets all latencies and keeps the memory.
    pub fn clear(&mut self) {
        self.counts.clear();
        (self.sum_nanos, self.min_nanos, self.max_nanos) = (0, u64::MAX, 0);
    }

    /// The number of latencies.
    pub fn len(&self) -> u64 {
        self.counts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The latency in nanoseconds that a share of `quantile` (0.0 to 1.0) does not exceed; 0 if there are none.
    pub fn quantile_nanos(&self, quantile: f64) -> u64 {
        self.counts.value_at_quantile(quantile).clamp(self.min_nanos.min(self.max_nanos), self.max_nanos)
    }

    /// The mean in nanoseconds; 0 if there are none.
    pub fn mean_nanos(&self) -> f64 {
        if self.is_empty() { 0.0 } else { self.sum_nanos as f64 / self.len() as f64 }
    }

    /// The sum in nanoseconds.
    pub fn sum_nanos(&self) -> u128 {
        self.sum_nanos
    }

    /// The shortest in nanoseconds; 0 if there are none.
    pub fn min_nanos(&self) -> u64 {
        self.min_nanos.min(self.max_nanos)
    }

    /// The longest in nanoseconds; 0 if there are none.
    pub fn max_nanos(&self) -> u64 {
        self.max_nanos
    }

    /// The figures that reports print.
    pub fn summary(&self) -> LatencySummary {
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        let quantile = |quantile| micros(self.quantile_nanos(quantile));
        LatencySummary {
            count: self.len(),
            mean_micros: self.mean_nanos() / 1000.0,
            p50_micros: quantile(0.5),
            p95_micros: quantile(0.95),
            p99_micros: quantile(0.99),
            p999_micros: quantile(0.999),
            p9999_micros: quantile(0.9999),
            max_micros: micros(self.max_nanos),
        }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.summary(), f)
    }
}

/// What a [`Histogram`] comes to. Zero where there are no latencies.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LatencySummary {
    /// The number of latencies.
    pub count: u64,
    /// The mean.
    pub mean_micros: f64,
    /// The median.
    pub p50_micros: f64,
    /// The 95th percentile.
    pub p95_micros: f64,
    /// The 99th percentile.
    pub p99_micros: f64,
    /// The 99.9th percentile.
    pub p999_micros: f64,
    /// The 99.99th percentile.
    pub p9999_micros: f64,
    /// The longest.
    pub max_micros: f64,
}

#[cfg(test)]
mod tests;
