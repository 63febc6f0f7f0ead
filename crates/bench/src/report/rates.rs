//! Rates and latencies over time, in intervals of one length.

use super::RunRecord;
use crate::IntervalLine;
use crate::load::median;

/// The published length of an interval, in seconds.
pub(super) const PUBLISHED: f64 = 5.0;

/// So many rates of the published length are enough to tell how they vary: the moving median is of as many.
pub(super) const ENOUGH: usize = 15;

/// A recorded interval may be so much shorter than it should be, and still count as whole.
const NEARLY: f64 = 0.98;

/// Recorded intervals may be so much longer than what is made of them: the machine's timers are late.
const HARDLY: f64 = 1.2;

/// Recorded intervals that make one of another length.
struct Part<'a> {
    start: f64,
    end: f64,
    intervals: &'a [IntervalLine],
}

/// Intervals of `seconds`, made of the recorded ones; what is left at the end is too short for a rate. `None` where the recorded ones are longer.
fn parts(run: &RunRecord, seconds: f64) -> Option<Vec<Part<'_>>> {
    if recorded_length(run)? > seconds * HARDLY {
        return None;
    }
    let (mut made, mut first, mut start) = (Vec::new(), 0, 0.0);
    for (number, interval) in run.intervals.iter().enumerate() {
        let end = interval.interval_s;
        if end - start >= seconds * NEARLY {
            made.push(Part { start, end, intervals: run.intervals.get(first..=number).unwrap_or_default() });
            (start, first) = (end, number + 1);
        }
    }
    Some(made)
}

/// The ends and rates of intervals of `seconds`, made of the recorded ones. `None` where those are longer.
pub(super) fn by(run: &RunRecord, seconds: f64) -> Option<Vec<(f64, f64)>> {
    let rate = |part: &Part<'_>| {
        let (mut operations, mut end) = (0.0, part.start);
        for interval in part.intervals {
            operations += interval.ops_per_s * (interval.interval_s - end);
            end = interval.interval_s;
        }
        (part.end, operations / (part.end - part.start))
    };
    Some(parts(run, seconds)?.iter().map(rate).collect())
}

/// The ends of the same intervals, and the largest p99 latency within each, in microseconds: percentiles have no mean. `None` where nothing was completed.
pub(super) fn p99_by(run: &RunRecord, seconds: f64) -> Option<Vec<(f64, Option<f64>)>> {
    let p99 = |part: &Part<'_>| {
        let known = part.intervals.iter().filter_map(|interval| interval.p99_us);
        (part.end, known.max_by(f64::total_cmp))
    };
    Some(parts(run, seconds)?.iter().map(p99).collect())
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

/// The ends of the intervals as they were recorded, and their p99 latencies in microseconds. `None` where nothing was completed.
pub(super) fn recorded_p99(run: &RunRecord) -> Vec<(f64, Option<f64>)> {
    run.intervals.iter().map(|interval| (interval.interval_s, interval.p99_us)).collect()
}
