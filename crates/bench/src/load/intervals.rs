//! What happened within each interval of a run.

use super::Gauge;
use crate::{LatencySummary, ProcessUsage};

/// One interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    /// Its end, in seconds from the start of the run.
    pub(crate) end_s: f64,
    pub(crate) ops_per_s: f64,
    /// Of the operations that were completed within it. Arrivals that were abandoned when the run was over count in the last one.
    pub(crate) latencies: Option<LatencySummary>,
    /// Bytes that the process wrote to the device layer, per second.
    pub(crate) written_per_s: Option<f64>,
    /// Bytes that the process read from there, per second.
    pub(crate) read_per_s: Option<f64>,
    /// Bytes that files occupied at its end.
    pub(crate) space_bytes: Option<u64>,
}

/// Those that have ended, and where the current one began.
pub(super) struct Intervals<'a> {
    /// Length of an interval in seconds.
    length: f64,
    space: Option<Gauge<'a>>,
    at: f64,
    ops: u64,
    io: (Option<u64>, Option<u64>),
    pub(super) ended: Vec<Interval>,
}

impl<'a> Intervals<'a> {
    pub(super) fn new(length: f64, space: Option<Gauge<'a>>) -> Self {
        Self { length, space, at: 0.0, ops: 0, io: ProcessUsage::io(), ended: Vec::new() }
    }

    /// Whether the current one has its length by then.
    pub(super) fn is_over_at(&self, now: f64) -> bool {
        now - self.at >= self.length
    }

    /// The run is over. A last interval that is too short for a rate is left out, unless it is the only one.
    pub(super) fn finish(&mut self, now: f64, ops: u64) {
        if now - self.at > self.length / 2.0 || self.ended.is_empty() {
            self.end(now, ops);
        }
    }

    /// Ends the current one: the time, and the operations until then.
    pub(super) fn end(&mut self, now: f64, ops: u64) {
        let (passed, io) = ((now - self.at).max(1e-9), ProcessUsage::io());
        let rate = |now: Option<u64>, then: Option<u64>| {
            now.zip(then).map(|(now, then)| now.saturating_sub(then) as f64 / passed)
        };
        self.ended.push(Interval {
            end_s: now,
            ops_per_s: (ops - self.ops) as f64 / passed,
            latencies: None,
            written_per_s: rate(io.0, self.io.0),
            read_per_s: rate(io.1, self.io.1),
            space_bytes: self.space.and_then(|space| space()),
        });
        (self.at, self.ops, self.io) = (now, ops, io);
    }
}
