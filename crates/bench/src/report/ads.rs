//! The tuning ladder of `ads`: one table of all rows.

use super::RunRecord;
use super::sections::table;
use crate::ResultLine;
use crate::figures::{megabytes, short};

/// A column: its name, and what it shows.
type Column = (&'static str, fn(&ResultLine) -> String);

const COLUMNS: [Column; 13] = [
    ("row", |line| line.workload.clone()),
    ("engine", |line| line.engine.clone()),
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

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// All rows of the ladder that were run.
pub(super) fn ladder(records: &[RunRecord]) -> String {
    let lines: Vec<_> = records.iter().map(|record| &record.result).filter(|line| line.experiment == "ads").collect();
    let Some(first) = lines.first() else { return String::new() };
    let rows = lines.iter().map(|line| COLUMNS.iter().map(|(_, show)| show(line)).collect());
    format!(
        "<section><h2>Ad serving</h2><article><p>{}</p>{}</article></section>",
        super::sections::escape(&first.setup),
        table(&COLUMNS.map(|(name, _)| name), rows)
    )
}
