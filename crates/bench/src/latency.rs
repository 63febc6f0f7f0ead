//! Latencies and their percentiles.

use hdrhistogram::Histogram;
use siltstone_base::{Error, ErrorKind, Result};

/// The longest latency that is told from longer ones, in nanoseconds.
const LONGEST: u64 = 1_000_000_000_000;

/// Latencies of operations, exact to 1 %, of one thread or of several after [`add`](Self::add).
#[derive(Debug, Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
    longest: u64,
}

impl Latencies {
    /// No latency.
    pub fn new() -> Result<Self> {
        let histogram = Histogram::new_with_bounds(1, LONGEST, 2)
            .map_err(|error| Error::new(ErrorKind::InvalidArgument, "bounds of the histogram").with_source(error))?;
        Ok(Self { histogram, longest: 0 })
    }

    /// Takes note of an operation that took `nanos`.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.longest = self.longest.max(nanos);
        self.histogram.saturating_record(nanos);
    }

    /// Takes note of `count` operations that took `nanos` together: the percentiles see their mean, the longest latency is
    /// at most `nanos`.
    #[inline]
    pub fn record_group(&mut self, nanos: u64, count: u64) {
        self.longest = self.longest.max(nanos);
        self.histogram.saturating_record_n(nanos / count.max(1), count);
    }

    /// Adds what `other` recorded.
    pub fn add(&mut self, other: &Self) -> Result<()> {
        self.longest = self.longest.max(other.longest);
        self.histogram
            .add(&other.histogram)
            .map_err(|error| Error::new(ErrorKind::InvalidArgument, "bounds of the histogram").with_source(error))
    }

    /// Whether nothing was recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.histogram.reset();
        self.longest = 0;
    }

    /// No latency, with the bounds of these.
    pub(crate) fn none_of_such(&self) -> Self {
        Self { histogram: Histogram::new_from(&self.histogram), longest: 0 }
    }

    /// The percentiles, unless nothing was recorded.
    pub fn summary(&self) -> Option<LatencySummary> {
        // A bucket's upper end may lie above everything that was recorded.
        let micros = |quantile| self.histogram.value_at_quantile(quantile).min(self.longest) as f64 / 1e3;
        (!self.histogram.is_empty()).then(|| LatencySummary {
            p50_us: micros(0.5),
            p95_us: micros(0.95),
            p99_us: micros(0.99),
            p999_us: micros(0.999),
            p9999_us: micros(0.9999),
            max_us: self.longest as f64 / 1e3,
        })
    }
}

/// Percentiles in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencySummary {
    /// The median.
    pub p50_us: f64,
    /// 95 % were not slower.
    pub p95_us: f64,
    /// 99 % were not slower.
    pub p99_us: f64,
    /// 99.9 % were not slower.
    pub p999_us: f64,
    /// 99.99 % were not slower.
    pub p9999_us: f64,
    /// The longest.
    pub max_us: f64,
}
