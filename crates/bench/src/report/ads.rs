//! The tuning ladder of `ads`: one table of all rows.

use super::RunRecord;
use super::charts::{self, Caption};
use super::rates;
use super::sections::table;
use crate::figures::{megabytes, short};
use crate::{IntervalLine, ResultLine};
use siltstone_base::Result;
use std::fmt::Write;

/// A column: its name, and what it shows.
type Column = (&'static str, fn(&ResultLine) -> String);

const COLUMNS: [Column; 16] = [
    ("row", |line| line.workload.clone()),
    ("engine", |line| line.engine.clone()),
    ("device", |line| known(line.device.as_deref())),
    ("memory MB", |line| megabytes(line.memory_bytes)),
    ("durability", |line| known(line.durability.as_deref())),
    ("space MB", |line| megabytes(line.space_bytes)),
    ("bytes written an upsert", |line| short(line.written_per_upsert)),
    ("read MB", |line| megabytes(line.bytes_read)),
    ("read rise", |line| short(line.read_rise)),
    ("peak / mean written", |line| short(line.write_peak_over_mean)),
    ("expired", |line| percent(line.expired_share)),
    ("expired of the idle third", |line| percent(line.idle_expired_share)),
    ("rewritten a byte reclaimed", |line| short(line.rewritten_per_reclaimed)),
    ("CPU s", |line| short(line.cpu_s)),
    ("lag s", |line| short(line.replication_lag_s)),
    ("shutdown + startup s", |line| short(line.shutdown_s.zip(line.startup_s).map(|(down, up)| down + up))),
];

fn known(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// Fewer intervals make no curve.
const ENOUGH: usize = 4;

/// A figure of an interval, in bytes a second.
type Rate = fn(&IntervalLine) -> Option<f64>;

const CURVES: [(&str, Rate); 2] = [
    ("MB written a second.", |interval| interval.written_per_s),
    ("MB read a second.", |interval| interval.read_per_s),
];

/// What rows that are compared do not have in common.
const CACHES: &str = "From the row page-cache on the LSM tree reads and writes through the page cache, as the published set-up does, and has besides its own memory what of its files the system keeps; the B-tree goes past it and has its pool alone.";

/// The title of the chart of latencies.
const P99: &str = "p99 latencies of commits over time.";

/// All rows of the ladder that were run, what they wrote and read over time, and the latencies of their commits.
pub(super) fn ladder(records: &[RunRecord]) -> Result<String> {
    let runs: Vec<_> = records.iter().filter(|record| record.result.experiment == "ads").collect();
    let Some(first) = runs.first() else { return Ok(String::new()) };
    let rows = runs.iter().map(|run| COLUMNS.iter().map(|(_, show)| show(&run.result)).collect());
    let mut html = format!(
        "<section><h2>Ad serving</h2><article><p>{}</p><p>{CACHES}</p>{}",
        super::sections::escape(&first.result.setup),
        table(&COLUMNS.map(|(name, _)| name), rows)
    );
    let names: Vec<_> = runs.iter().map(|run| format!("{} {}", run.result.engine, run.result.workload)).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    for (what, rate) in CURVES {
        let points = |run: &RunRecord| -> Vec<_> {
            let known = run.intervals.iter().filter_map(|interval| Some((interval.interval_s, rate(interval)? / 1e6)));
            known.collect()
        };
        let lines: Vec<_> = runs.iter().enumerate().map(|(position, run)| (points(run), position)).collect();
        if lines.iter().any(|(points, _)| points.len() >= ENOUGH) {
            let caption = Caption { title: what, names: &names };
            let _ = write!(html, "<p>{what}</p>{}", charts::lines(&lines, "seconds", caption)?);
        }
    }
    let latencies = runs.iter().enumerate().map(|(position, run)| (rates::recorded_p99(run), position));
    let latencies: Vec<_> = latencies.filter(|line| charts::known(line) >= ENOUGH).collect();
    if !latencies.is_empty() {
        let caption = Caption { title: P99, names: &names };
        let _ = write!(html, "<p>{P99}</p>{}", charts::latencies(&latencies, caption)?);
    }
    Ok(html + "</article></section>")
}
