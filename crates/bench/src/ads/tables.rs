//! What `ads` prints.

use crate::ResultLine;
use crate::figures::{megabytes, short, thousands};
use siltstone_base::text_table::TextTable;

/// One row in one line, for when it ends.
pub(super) fn progress(line: &ResultLine) -> String {
    format!(
        "{:<14} {:<17} {:>10} upserts/s  {:>8.2} s  {:>6} bytes written an upsert  {:>8} MB",
        line.workload,
        line.engine,
        thousands(line.ops_per_s),
        line.seconds,
        short(line.written_per_upsert),
        megabytes(line.space_bytes)
    )
}

/// All rows.
pub(super) fn results(lines: &[ResultLine]) -> String {
    let mut table = TextTable::new([
        "row",
        "engine",
        "space MB",
        "written/upsert",
        "written MB",
        "read MB",
        "read rise",
        "peak/mean",
        "expired",
        "idle expired",
        "rewritten/reclaimed",
        "CPU s",
        "lag s",
        "p99 us",
        "shutdown s",
        "startup s",
    ]);
    let percent = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0));
    for line in lines {
        table.row([
            line.workload.clone(),
            line.engine.clone(),
            megabytes(line.space_bytes),
            short(line.written_per_upsert),
            megabytes(line.bytes_written),
            megabytes(line.bytes_read),
            short(line.read_rise),
            short(line.write_peak_over_mean),
            percent(line.expired_share),
            percent(line.idle_expired_share),
            short(line.rewritten_per_reclaimed),
            short(line.cpu_s),
            short(line.replication_lag_s),
            short(line.p99_us),
            short(line.shutdown_s),
            short(line.startup_s),
        ]);
    }
    format!("\n{table}")
}
