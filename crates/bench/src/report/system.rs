//! What the operating system counted of a workload, beside what the harness and the engine measured.

use super::RunRecord;
use super::sections::{Figure, Median, table};
use crate::figures::short;

const FIGURES: [(&str, Figure); 9] = [
    ("user CPU s", |run| run.result.user_cpu_s),
    ("system CPU s", |run| run.result.system_cpu_s),
    ("voluntary context switches", |run| number(run.result.voluntary_context_switches)),
    ("involuntary context switches", |run| number(run.result.involuntary_context_switches)),
    ("major page faults", |run| number(run.result.major_page_faults)),
    ("read calls", |run| number(run.result.read_syscalls)),
    ("write calls", |run| number(run.result.write_syscalls)),
    ("CPU pressure ms", |run| number(run.result.cpu_pressure_us).map(|micros| micros / 1e3)),
    ("I/O pressure ms", |run| number(run.result.io_pressure_us).map(|micros| micros / 1e3)),
];

fn number(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

/// A row for each engine, folded up; nothing, where no run knows any of it.
pub(super) fn counted(records: &[&RunRecord], names: &[&str], of: Median<'_>) -> String {
    let is_known = |figure: Figure| records.iter().any(|record| figure(record).is_some());
    let known: Vec<_> = FIGURES.iter().filter(|(_, figure)| is_known(*figure)).collect();
    if known.is_empty() {
        return String::new();
    }
    let columns: Vec<_> = std::iter::once("engine").chain(known.iter().map(|(column, _)| *column)).collect();
    let rows = names.iter().filter(|name| records.iter().any(|record| record.result.engine == **name)).map(|name| {
        let figures = known.iter().map(|(_, figure)| short(of(name, *figure)));
        std::iter::once((*name).to_owned()).chain(figures).collect()
    });
    let table = table(&columns, rows);
    format!("<details><summary>What the operating system counted</summary>{table}</details>")
}
