//! Time in nanoseconds, for latencies.

use std::time::Instant;

/// Measures from its start. [`siltstone_base::clock`] counts in microseconds, which is too coarse for one operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[inline]
    #[expect(clippy::disallowed_methods, reason = "latencies of single operations need nanoseconds")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since the start.
    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    /// Seconds since the start.
    pub(crate) fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
