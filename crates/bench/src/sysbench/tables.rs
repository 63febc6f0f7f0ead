//! What `sysbench` prints.

use super::Workload;
use crate::ResultLine;
use crate::figures::{megabytes, short, thousands};
use crate::load::offered::workload_of;
use siltstone_base::text_table::TextTable;

/// Queries a second, as sysbench counts them.
fn queries_per_s(line: &ResultLine) -> f64 {
    let queries = workload_of(&line.workload).parse::<Workload>().map_or(1, Workload::queries);
    line.ops_per_s * f64::from(queries)
}

/// One run in one line, for when it ends.
pub(super) fn progress(line: &ResultLine) -> String {
    format!(
        "{:<17} {:<14} {:>4} clients {:>12} tx/s {:>12} queries/s  {:>8.2} s  p95 {:>8} us",
        line.workload,
        line.engine,
        line.threads,
        thousands(line.ops_per_s),
        thousands(queries_per_s(line)),
        line.seconds,
        short(line.p95_us)
    )
}

/// All runs.
pub(super) fn results(lines: &[ResultLine]) -> String {
    let mut table = TextTable::new([
        "workload",
        "engine",
        "clients",
        "pair",
        "tx/s",
        "queries/s",
        "p50 us",
        "p95 us",
        "p99 us",
        "p99.9 us",
        "max us",
        "machine us",
        "CPU s",
        "RSS MB",
        "engine MB",
        "device MB",
        "w-amp",
        "KB w/tx",
        "reads/tx",
        "space MB",
        "debt MB",
        "stalled ms",
        "CV",
        "CV 15 s",
    ]);
    for line in lines {
        let stalled = line.stall_us.as_ref().map(|causes| causes.values().sum::<u64>() as f64 / 1e3);
        table.row([
            line.workload.clone(),
            line.engine.clone(),
            line.threads.to_string(),
            line.pair.to_string(),
            thousands(line.ops_per_s),
            thousands(queries_per_s(line)),
            short(line.p50_us),
            short(line.p95_us),
            short(line.p99_us),
            short(line.p999_us),
            short(line.max_us),
            short(line.machine_pause_us),
            short(line.cpu_s),
            short(line.rss_mb),
            megabytes(line.bytes_written),
            megabytes(line.process_written),
            short(line.write_amp),
            short(line.kb_written_per_row),
            short(line.reads_per_row),
            megabytes(line.space_bytes),
            megabytes(line.debt_bytes),
            short(stalled),
            short(line.cv_plain),
            short(line.cv_detrended),
        ]);
    }
    format!("\n{table}")
}
