//! What `redmine` prints.

use crate::ResultLine;
use crate::figures::{megabytes, short};
use siltstone_base::text_table::TextTable;

fn milliseconds(micros: Option<f64>) -> String {
    short(micros.map(|micros| micros / 1e3))
}

/// One run in one line, for when it ends.
pub(super) fn progress(line: &ResultLine) -> String {
    format!(
        "{:<6} {:<17} {:<14} {:>3} clients  load {:<5} mean {:>8} ms  p95 {:>8} ms  longest {:>8} ms",
        line.data_set.as_deref().unwrap_or_default(),
        line.workload,
        line.engine,
        line.threads,
        line.device_load.unwrap_or_default(),
        milliseconds(line.mean_trimmed_us),
        milliseconds(line.p95_us),
        milliseconds(line.max_us)
    )
}

/// All runs.
pub(super) fn results(lines: &[ResultLine]) -> String {
    let mut table = TextTable::new([
        "data set",
        "operation",
        "engine",
        "clients",
        "pair",
        "load",
        "mean ms",
        "p50 ms",
        "p95 ms",
        "max ms",
        "operations",
        "CPU s",
        "RSS MB",
        "KB written",
        "space MB",
        "debt MB",
    ]);
    for line in lines {
        table.row([
            line.data_set.clone().unwrap_or_default(),
            line.workload.clone(),
            line.engine.clone(),
            line.threads.to_string(),
            line.pair.to_string(),
            line.device_load.unwrap_or_default().to_string(),
            milliseconds(line.mean_trimmed_us),
            milliseconds(line.p50_us),
            milliseconds(line.p95_us),
            milliseconds(line.max_us),
            line.ops.to_string(),
            short(line.cpu_s),
            short(line.rss_mb),
            short(line.kb_written_per_row),
            megabytes(line.space_bytes),
            megabytes(line.debt_bytes),
        ]);
    }
    format!("\n{table}")
}
