//! What `stalls` prints.

use crate::ResultLine;
use crate::figures::{megabytes, short, thousands};
use siltstone_base::text_table::TextTable;

/// One step in one line, for when it ends.
pub(super) fn progress(line: &ResultLine) -> String {
    format!(
        "{:<20} {:<16} {:>11} ops/s  {:>8.2} s  CV 15 s {:>5}  worst second {:>5}  p99.9 {:>8} us  longest {:>9} us",
        line.workload,
        line.engine,
        thousands(line.ops_per_s),
        line.seconds,
        short(line.cv_detrended),
        short(line.worst_second),
        short(line.p999_us),
        short(line.max_us)
    )
}

/// All steps.
pub(super) fn results(lines: &[ResultLine]) -> String {
    let mut table = TextTable::new([
        "step",
        "engine",
        "offered/s",
        "ops/s",
        "seconds",
        "CV",
        "CV 15 s",
        "CV of 5 s",
        "worst s",
        "worst 5 s",
        "p50 us",
        "p95 us",
        "p99 us",
        "p99.9 us",
        "p99.99 us",
        "max us",
        "warm-up max us",
        "gap us",
        "machine us",
        "late p99 us",
        "late max us",
        "writer/s",
        "CPU s",
        "device MB",
        "w-amp",
        "debt MB",
        "next limit MB",
        "delayed ms, by cause",
    ]);
    for line in lines {
        table.row([
            line.workload.clone(),
            line.engine.clone(),
            short(line.offered_ops_per_s),
            thousands(line.ops_per_s),
            short(Some(line.seconds)),
            short(line.cv_plain),
            short(line.cv_detrended),
            short(line.cv_five_seconds),
            short(line.worst_second),
            short(line.worst_five_seconds),
            short(line.p50_us),
            short(line.p95_us),
            short(line.p99_us),
            short(line.p999_us),
            short(line.p9999_us),
            short(line.max_us),
            short(line.warm_up_max_us),
            short(line.longest_gap_us),
            short(line.machine_pause_us),
            short(line.generator_late_p99_us),
            short(line.generator_late_max_us),
            short(line.writer_ops_per_s),
            short(line.cpu_s),
            megabytes(line.process_written),
            short(line.write_amp),
            megabytes(line.debt_bytes),
            megabytes(line.next_limit_bytes),
            causes(line),
        ]);
    }
    format!("\n{table}")
}

/// Where writers were delayed.
fn causes(line: &ResultLine) -> String {
    let Some(causes) = &line.stall_us else { return "-".to_owned() };
    let of = |(cause, micros): (&String, &u64)| format!("{cause} {}", thousands(*micros as f64 / 1e3));
    causes.iter().map(of).collect::<Vec<_>>().join(", ")
}
