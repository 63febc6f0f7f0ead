//! The rates and latencies of a workload over time.

use super::RunRecord;
use super::charts::{self, BrokenLine, Caption, Line};
use super::rates;
use siltstone_base::Result;
use std::fmt::Write;

/// Fewer intervals make no curve.
const ENOUGH: usize = 3;

/// A chart of rates and one of p99 latencies, where at least half of the runs have intervals (a curve of one alone, which was slow, compares nothing), of the first run of each engine: of the published five seconds if every run was long enough for them, or else as they were recorded. `title` names a chart
/// by what it shows.
pub(super) fn over_time(records: &[&RunRecord], names: &[&str], title: &dyn Fn(&str) -> String) -> Result<String> {
    let all: Vec<_> = records.iter().copied().filter(|record| record.intervals.len() >= ENOUGH).collect();
    let Some(first) = all.first().filter(|_| all.len() * 2 >= records.len()) else { return Ok(String::new()) };
    let of_engine = |engine: &str| all.iter().position(|run| run.result.engine == engine);
    let firsts = all.iter().enumerate().filter(|(at, run)| of_engine(&run.result.engine) == Some(*at));
    let runs: Vec<_> = firsts.map(|(_, run)| *run).collect();
    let position = |run: &RunRecord| names.iter().position(|name| *name == run.result.engine).unwrap_or(0);
    let is_long = |run: &&RunRecord| rates::by(run, rates::PUBLISHED).is_some_and(|made| made.len() >= rates::ENOUGH);
    let are_long = runs.iter().all(is_long);
    let length = if are_long { rates::PUBLISHED } else { rates::recorded_length(first).unwrap_or_default() };
    let rates_of = |run: &RunRecord| match are_long {
        true => rates::by(run, length).unwrap_or_default(),
        false => rates::recorded(run),
    };
    let latencies_of = |run: &RunRecord| match are_long {
        true => rates::p99_by(run, length).unwrap_or_default(),
        false => rates::recorded_p99(run),
    };
    let of_rates: Vec<Line> = runs.iter().map(|run| (rates_of(run), position(run))).collect();
    let of_latencies = runs.iter().map(|run| (latencies_of(run), position(run)));
    let of_latencies: Vec<BrokenLine> = of_latencies.filter(|line| charts::known(line) >= ENOUGH).collect();
    let rates_title = title("rates over time");
    let which = if runs.len() < all.len() { " Of several runs of an engine its first one is drawn." } else { "" };
    let mut html = format!(
        "<p>Rates of {length:.1} s each, over time.{which}</p>{}",
        charts::lines(&of_rates, "seconds", Caption { title: &rates_title, names })?
    );
    if !of_latencies.is_empty() {
        let title = title("p99 over time");
        let what = what_latencies(length, rates::recorded_length(first).unwrap_or(length));
        let chart = charts::latencies(&of_latencies, Caption { title: &title, names })?;
        let _ = write!(html, "<p>{what} A line breaks where nothing was completed.</p>{chart}");
    }
    Ok(html)
}

/// What latencies of intervals of `length` seconds are, where they were recorded for every `recorded` seconds.
fn what_latencies(length: f64, recorded: f64) -> String {
    match recorded < length / 2.0 {
        true => format!("p99 latencies over time: of {length:.1} s each the largest of {recorded:.1} s."),
        false => format!("p99 latencies of {length:.1} s each, over time."),
    }
}
