//! What `kv` prints.

use crate::ResultLine;
use crate::figures::{megabytes, short, thousands};
use siltstone_base::text_table::TextTable;

/// One run in one line, for when it ends.
pub(crate) fn progress(line: &ResultLine) -> String {
    format!(
        "{:<17} {:<14} pair {:<2} {:>12} ops/s  {:>8.2} s  p99 {:>8} us  max {:>9} us",
        line.workload,
        line.engine,
        line.pair,
        thousands(line.ops_per_s),
        line.seconds,
        short(line.p99_us),
        short(line.max_us)
    )
}

/// All runs.
pub(crate) fn results(lines: &[ResultLine]) -> String {
    let is_open_loop = lines.iter().any(|line| line.generator_late_max_us.is_some());
    let mut headings = vec![
        "workload",
        "engine",
        "pair",
        "ops/s",
        "p50 us",
        "p95 us",
        "p99 us",
        "p99.9 us",
        "p99.99 us",
        "max us",
        "machine us",
        "harness ns",
        "CPU s",
        "RSS MB",
        "user MB",
        "engine MB",
        "device MB",
        "w-amp",
        "space MB",
        "log MB",
        "s-amp",
        "debt MB",
        "stalled ms",
        "CV",
        "CV 15 s",
    ];
    if is_open_loop {
        headings.extend(["late p99 us", "late max us"]);
    }
    let mut table = TextTable::new(headings);
    for line in lines {
        let stalled = line.stall_us.as_ref().map(|causes| causes.values().sum::<u64>() as f64 / 1e3);
        let mut cells = vec![
            line.workload.clone(),
            line.engine.clone(),
            line.pair.to_string(),
            thousands(line.ops_per_s),
            short(line.p50_us),
            short(line.p95_us),
            short(line.p99_us),
            short(line.p999_us),
            short(line.p9999_us),
            short(line.max_us),
            short(line.machine_pause_us),
            short(line.harness_ns_per_op),
            short(line.cpu_s),
            short(line.rss_mb),
            megabytes(Some(line.bytes_user)),
            megabytes(line.bytes_written),
            megabytes(line.process_written),
            short(line.write_amp),
            megabytes(line.space_bytes),
            megabytes(line.log_space_bytes),
            short(line.space_amp),
            megabytes(line.debt_bytes),
            short(stalled),
            short(line.cv_plain),
            short(line.cv_detrended),
        ];
        if is_open_loop {
            cells.extend([short(line.generator_late_p99_us), short(line.generator_late_max_us)]);
        }
        table.row(cells);
    }
    format!("\n{table}")
}
