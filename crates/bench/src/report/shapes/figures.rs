//! What is computed from a run for a comparison.

use crate::report::RunRecord;

/// Operations per second.
pub(super) fn rate(run: &RunRecord) -> Option<f64> {
    Some(run.result.ops_per_s).filter(|rate| *rate > 0.0)
}

/// The mean time of an operation.
pub(super) fn mean_time(run: &RunRecord) -> Option<f64> {
    run.result.mean_trimmed_us
}

/// KB written for each row.
pub(super) fn written_per_row(run: &RunRecord) -> Option<f64> {
    run.result.kb_written_per_row
}

/// Bytes of the files at the end.
pub(super) fn space(run: &RunRecord) -> Option<f64> {
    run.result.space_bytes.map(|bytes| bytes as f64)
}

/// The longest mean of five seconds that must be there for a variation.
const FEWEST_INTERVALS: usize = 6;

/// Standard deviation of the rates of intervals over their mean. The last interval, which may be shorter, does not count.
pub(super) fn variation(run: &RunRecord) -> Option<f64> {
    let rates: Vec<f64> = run.intervals.iter().map(|interval| interval.ops_per_s).collect();
    let rates = rates.split_last().map(|(_, full)| full).filter(|full| full.len() >= FEWEST_INTERVALS)?;
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / rates.len() as f64;
    (mean > 0.0).then(|| variance.sqrt() / mean)
}

/// The rate once the data was half as large again as memory, over the rate until it was as large.
pub(super) fn transition(run: &RunRecord) -> Option<f64> {
    let result = &run.result;
    let memory = result.memory_bytes? as f64;
    let row_bytes = result.bytes_user as f64 / result.ops.max(1) as f64;
    let (mut rows, mut end) = (0.0, 0.0);
    let (mut before, mut after) = ((0.0, 0.0), (0.0, 0.0));
    for interval in &run.intervals {
        let seconds = interval.interval_s - end;
        let more = interval.ops_per_s * seconds;
        let place = if (rows + more) * row_bytes <= memory {
            Some(&mut before)
        } else if rows * row_bytes >= memory * 1.5 {
            Some(&mut after)
        } else {
            None
        };
        if let Some((seconds_of, rows_of)) = place {
            *seconds_of += seconds;
            *rows_of += more;
        }
        rows += more;
        end = interval.interval_s;
    }
    let rate = |(seconds, rows): (f64, f64)| (seconds > 0.0).then(|| rows / seconds);
    Some(rate(after)? / rate(before)?)
}

/// The same for every run, so that a ratio is the figure of its first side.
pub(super) fn one(_: &RunRecord) -> Option<f64> {
    Some(1.0)
}
