//! What is computed from a run for a comparison.

use super::Figure;
use crate::insert::Schema;
use crate::load;
use crate::redmine::Operation;
use crate::report::{RunRecord, rates};
use std::collections::BTreeSet;

/// The middle of runs by a figure.
#[derive(Debug, Clone)]
pub(super) struct Middle<'a> {
    /// The median of the figure.
    pub(super) median: f64,
    /// The run that has it or is next to it.
    pub(super) run: &'a RunRecord,
    /// How many runs have the figure.
    pub(super) runs: usize,
    /// The commits of which they are, as far as they tell.
    pub(super) builds: BTreeSet<&'a str>,
}

/// The middle of those runs that have the figure.
pub(super) fn middle<'a>(runs: impl Iterator<Item = &'a RunRecord>, figure: Figure) -> Option<Middle<'a>> {
    let mut known: Vec<_> = runs.filter_map(|run| Some((figure(run)?, run))).collect();
    known.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let median = load::median(&known.iter().map(|(figure, _)| *figure).collect::<Vec<_>>())?;
    let commit = |(_, run): &(f64, &'a RunRecord)| run.result.provenance.as_ref()?.commit.as_deref();
    let builds = known.iter().filter_map(commit).collect();
    known.get(known.len() / 2).map(|(_, run)| Middle { median, run, runs: known.len(), builds })
}

/// Operations per second.
pub(super) fn rate(run: &RunRecord) -> Option<f64> {
    Some(run.result.ops_per_s).filter(|rate| *rate > 0.0)
}

/// The mean time of an operation.
pub(super) fn mean_time(run: &RunRecord) -> Option<f64> {
    run.result.mean_trimmed_us
}

/// The same without the time that the application takes for its requests.
pub(super) fn database_time(run: &RunRecord) -> Option<f64> {
    let operation: Operation = run.result.workload.parse().ok()?;
    let application = run.result.config.as_ref()?.get("app_ms")?.as_f64()? * 1e3 * f64::from(operation.requests());
    Some(run.result.mean_trimmed_us? - application).filter(|micros| *micros > 0.0)
}

/// Seconds of processor time.
pub(super) fn processor_time(run: &RunRecord) -> Option<f64> {
    run.result.cpu_s
}

/// Bytes that an engine read from its files, from wherever the system had them.
pub(super) fn read_from_files(run: &RunRecord) -> Option<f64> {
    run.result.bytes_read.map(|bytes| bytes as f64)
}

/// Bytes that the device read for it.
pub(super) fn read_from_device(run: &RunRecord) -> Option<f64> {
    run.result.process_read.map(|bytes| bytes as f64)
}

/// The most that was written in an interval over the mean.
pub(super) fn peak_of_writing(run: &RunRecord) -> Option<f64> {
    run.result.write_peak_over_mean
}

/// Operations per second, where the time counts until nothing is left to do behind them.
pub(super) fn settled_rate(run: &RunRecord) -> Option<f64> {
    let (seconds, later) = (run.result.seconds, run.settling?.seconds);
    Some(rate(run)? * seconds / (seconds + later)).filter(|rate| rate.is_finite())
}

/// KB written for each row until nothing is left to do.
pub(in crate::report) fn settled_written_per_row(run: &RunRecord) -> Option<f64> {
    let later = run.settling?.written? as f64 / 1e3 / run.result.ops.max(1) as f64;
    Some(run.result.kb_written_per_row? + later)
}

/// Bytes of the files at the end.
pub(super) fn space(run: &RunRecord) -> Option<f64> {
    run.result.space_bytes.map(|bytes| bytes as f64)
}

/// The same for each row of the insert benchmark.
pub(super) fn space_per_row(run: &RunRecord) -> Option<f64> {
    let rows = run.result.data_bytes? as f64 / Schema::Of2017.row_bytes() as f64;
    space(run).filter(|_| rows > 0.0).map(|bytes| bytes / rows)
}

/// So many rates of one second must be there for a variation: at the ends of a run the moving median is of no more.
const ENOUGH_SECONDS: usize = 8;

/// The variation of the rates of five seconds: their deviation from the moving median of the 15 around each, over their mean, so that a rate which goes down and stays there varies no more than
/// one that stays up.
pub(super) fn variation(run: &RunRecord) -> Option<f64> {
    variation_of(run, rates::PUBLISHED, rates::ENOUGH)
}

/// The same of the rates of one second, which every run has.
pub(super) fn variation_of_seconds(run: &RunRecord) -> Option<f64> {
    run.result.cv_detrended
}

/// The same of the rates of one second, for runs that have too few of five.
pub(super) const BY_SECONDS: (Figure, &str) =
    (|run| variation_of(run, 1.0, ENOUGH_SECONDS), "of rates of 1 s, for there are too few of 5 s");

fn variation_of(run: &RunRecord, seconds: f64, enough: usize) -> Option<f64> {
    let rates: Vec<f64> = rates::by(run, seconds)?.into_iter().map(|(_, rate)| rate).collect();
    if rates.len() < enough {
        return None;
    }
    load::variation(&rates).map(|(_, detrended)| detrended)
}

/// So many rates of five seconds must be there for one of them to be the least of a run.
const ENOUGH_FOR_LEAST: usize = 5;

/// The least rate of five seconds over the mean of all of them.
pub(super) fn worst_interval(run: &RunRecord) -> Option<f64> {
    let rates = rates::by(run, rates::PUBLISHED).filter(|rates| rates.len() >= ENOUGH_FOR_LEAST)?;
    let least = rates.iter().map(|(_, rate)| *rate).min_by(f64::total_cmp)?;
    let mean = rates.iter().map(|(_, rate)| rate).sum::<f64>() / rates.len() as f64;
    (mean > 0.0).then_some(least / mean)
}

/// A part of a run.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    seconds: f64,
    rows: f64,
    /// Bytes; `None` where the system does not count them.
    written: Option<f64>,
}

/// What was done until the data was as large as memory, and once it was half as large again.
fn beside_memory(run: &RunRecord) -> Option<[Part; 2]> {
    let result = &run.result;
    let memory = result.memory_bytes? as f64;
    let row_bytes = result.bytes_user as f64 / result.ops.max(1) as f64;
    let (mut rows, mut end) = (0.0, 0.0);
    let mut parts = [Part { written: Some(0.0), ..Part::default() }; 2];
    let [before, after] = &mut parts;
    for interval in &run.intervals {
        let seconds = interval.interval_s - end;
        let more = interval.ops_per_s * seconds;
        let place = if (rows + more) * row_bytes <= memory {
            Some(&mut *before)
        } else if rows * row_bytes >= memory * 1.5 {
            Some(&mut *after)
        } else {
            None
        };
        if let Some(part) = place {
            part.seconds += seconds;
            part.rows += more;
            part.written = part.written.zip(interval.written_per_s).map(|(sum, rate)| sum + rate * seconds);
        }
        rows += more;
        end = interval.interval_s;
    }
    parts.iter().all(|part| part.seconds > 0.0 && part.rows > 0.0).then_some(parts)
}

/// The rate once the data was half as large again as memory, over the rate until it was as large.
pub(super) fn transition(run: &RunRecord) -> Option<f64> {
    let [before, after] = beside_memory(run)?.map(|part| part.rows / part.seconds);
    Some(after / before)
}

/// KB written for each row until then, and from then on.
pub(super) fn written_beside_memory(run: &RunRecord) -> Option<[f64; 2]> {
    let [before, after] = beside_memory(run)?.map(|part| part.written.map(|bytes| bytes / part.rows / 1e3));
    Some([before?, after?])
}

/// Bytes written for each upsert.
pub(super) fn written_per_upsert(run: &RunRecord) -> Option<f64> {
    run.result.written_per_upsert
}

/// The largest part of what tables held that was expired.
pub(super) fn expired(run: &RunRecord) -> Option<f64> {
    run.result.expired_share
}

/// The same of what nobody writes to any more.
pub(super) fn idle_expired(run: &RunRecord) -> Option<f64> {
    run.result.idle_expired_share
}

/// The same for every run, so that a ratio is the figure of its first side.
pub(super) fn one(_: &RunRecord) -> Option<f64> {
    Some(1.0)
}
