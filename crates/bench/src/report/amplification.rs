//! What a growing database writes, reads and occupies, for each byte of its rows.

use super::RunRecord;
use super::charts::{self, Caption, Line};
use siltstone_base::Result;
use std::fmt::Write;

/// Steps that only add rows.
const GROWING: [&str; 2] = ["l", "l.i0"];

/// Fewer intervals make no curve.
const ENOUGH: usize = 4;

/// What is less than this everywhere is nothing: rows in memory are not read.
const LEAST: f64 = 0.01;

/// Bytes written, read and occupied for each byte of the rows that are there, at the end of an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// Millions of rows.
    pub(super) rows: f64,
    /// Of all that was written and read so far.
    pub(super) written: Option<f64>,
    pub(super) read: Option<f64>,
    pub(super) space: Option<f64>,
}

/// The points of a run. None where the size of its rows is unknown.
pub(super) fn points(run: &RunRecord) -> Vec<Point> {
    let bytes_per_row = run.result.bytes_user as f64 / run.result.ops.max(1) as f64;
    if bytes_per_row <= 0.0 {
        return Vec::new();
    }
    let (mut rows, mut start) = (0.0, 0.0);
    let (mut written, mut read) = (Some(0.0), Some(0.0));
    let point = |interval: &crate::IntervalLine| {
        let seconds = interval.interval_s - start;
        let add = |sum: Option<f64>, rate: Option<f64>| sum.zip(rate).map(|(sum, rate)| sum + rate * seconds);
        (written, read) = (add(written, interval.written_per_s), add(read, interval.read_per_s));
        rows += interval.ops_per_s * seconds;
        start = interval.interval_s;
        let each = |bytes: f64| bytes / (rows * bytes_per_row).max(1.0);
        let space = interval.space_bytes.map(|bytes| each(bytes as f64));
        Point { rows: rows / 1e6, written: written.map(each), read: read.map(each), space }
    };
    run.intervals.iter().map(point).collect()
}

/// A figure of a point.
type Figure = fn(&Point) -> Option<f64>;

const CURVES: [(&str, Figure); 3] = [
    ("Written for each byte of rows, by their number.", |point| point.written),
    ("Read for each byte of rows, by their number.", |point| point.read),
    ("Occupied for each byte of rows, by their number.", |point| point.space),
];

/// A chart for each of them, where rows were added for long enough.
pub(super) fn over_size(runs: &[&RunRecord], names: &[&str]) -> Result<String> {
    let growing = runs.iter().filter(|run| GROWING.contains(&run.result.workload.as_str()));
    let position = |run: &RunRecord| names.iter().position(|name| *name == run.result.engine).unwrap_or(0);
    let curves: Vec<_> = growing.map(|run| (points(run), position(run))).collect();
    let mut html = String::new();
    for (what, figure) in CURVES {
        let line = |(points, position): &(Vec<Point>, usize)| -> Line {
            (points.iter().filter_map(|point| Some((point.rows, figure(point)?))).collect(), *position)
        };
        let lines: Vec<_> = curves.iter().map(line).filter(|(points, _)| points.len() >= ENOUGH).collect();
        if lines.iter().flat_map(|(points, _)| points).any(|(_, bytes)| *bytes >= LEAST) {
            let caption = Caption { title: what, names };
            let _ = write!(html, "<p>{what}</p>{}", charts::lines(&lines, "millions of rows", caption)?);
        }
    }
    Ok(html)
}
