//! Rates over time, in intervals of one length.

use super::RunRecord;
use crate::load::median;

/// The published length of an interval, in seconds.
pub(super) const PUBLISHED: f64 = 5.0;

/// So many rates of the published length are enough to tell how they vary: the moving median is of as many.
pub(super) const ENOUGH: usize = 15;

/// A recorded interval may be so much shorter than it should be, and still count as whole.
const NEARLY: f64 = 0.98;

/// Recorded intervals may be so much longer than what is made of them: the machine's timers are late.
const HARDLY: f64 = 1.2;

/// The ends and rates of intervals of `seconds`, made of the recorded ones; what is left at the end is too short for a rate. `None` where the recorded ones are longer.
pub(super) fn by(run: &RunRecord, seconds: f64) -> Option<Vec<(f64, f64)>> {
    if recorded_length(run)? > seconds * HARDLY {
        return None;
    }
    let (mut made, mut start, mut end, mut operations) = (Vec::new(), 0.0, 0.0, 0.0);
    for interval in &run.intervals {
        operations += interval.ops_per_s * (interval.interval_s - end);
        end = interval.interval_s;
        if end - start >= seconds * NEARLY {
            made.push((end, operations / (end - start)));
            (start, operations) = (end, 0.0);
        }
    }
    Some(made)
}

/// The length of the intervals as they were recorded. `None` without any.
pub(super) fn recorded_length(run: &RunRecord) -> Option<f64> {
    let starts = std::iter::once(0.0).chain(run.intervals.iter().map(|interval| interval.interval_s));
    let lengths = run.intervals.iter().zip(starts).map(|(interval, start)| interval.interval_s - start);
    median(&lengths.collect::<Vec<_>>())
}

/// The ends and rates of the intervals as they were recorded.
pub(super) fn recorded(run: &RunRecord) -> Vec<(f64, f64)> {
    run.intervals.iter().map(|interval| (interval.interval_s, interval.ops_per_s)).collect()
}
