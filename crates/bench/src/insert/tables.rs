//! What `insert` prints.

use crate::figures::{megabytes, short, thousands};
use crate::{IntervalLine, ResultLine};
use siltstone_base::text_table::TextTable;

/// The rates of a run by interval.
pub(super) fn intervals(line: &ResultLine, intervals: &[IntervalLine]) -> String {
    let mut text = format!(
        "{} step {} pair {}: {} in {:.2} s, {}/s\n",
        line.engine,
        line.workload,
        line.pair,
        thousands(line.ops as f64),
        line.seconds,
        thousands(line.ops_per_s)
    );
    for interval in intervals {
        text += &format!("  at {:>7.1} s {:>12} /s\n", interval.interval_s, thousands(interval.ops_per_s));
    }
    text
}

/// Why a step of queries failed: its inserters did not keep their rate.
fn failure(line: &ResultLine) -> Option<String> {
    let (kept, asked) = line.inserts_behind()?;
    let (engine, step, kept, asked) = (&line.engine, &line.workload, thousands(kept), thousands(asked));
    Some(format!("{engine} step {step} failed: {kept} of {asked} rows/s were inserted beside the queries.\n"))
}

/// All runs.
pub(super) fn results(lines: &[ResultLine]) -> String {
    let mut table = TextTable::new([
        "engine",
        "step",
        "pair",
        "clients",
        "ops/s",
        "writer/s",
        "p50 us",
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
        "read MB",
        "device MB",
        "w-amp",
        "KB w/row",
        "reads/row",
        "lookups",
        "stale",
        "binlog MB",
        "space MB",
        "log MB",
        "s-amp",
        "debt MB",
        "stalled ms",
        "CV",
        "CV 15 s",
    ]);
    for line in lines {
        let stalled = line.stall_us.as_ref().map(|causes| causes.values().sum::<u64>() as f64 / 1e3);
        table.row([
            line.engine.clone(),
            line.workload.clone(),
            line.pair.to_string(),
            line.threads.to_string(),
            thousands(line.ops_per_s),
            short(line.writer_ops_per_s),
            short(line.p50_us),
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
            megabytes(line.bytes_read),
            megabytes(line.process_written),
            short(line.write_amp),
            short(line.kb_written_per_row),
            short(line.reads_per_row),
            short(line.lookups.map(|lookups| lookups as f64)),
            short(line.stale_share),
            megabytes(line.binlog_bytes),
            megabytes(line.space_bytes),
            megabytes(line.log_space_bytes),
            short(line.space_amp),
            megabytes(line.debt_bytes),
            short(stalled),
            short(line.cv_plain),
            short(line.cv_detrended),
        ]);
    }
    let mut text = format!(
        "{table}Operations are rows that are inserted, of l.x rows that get their entries, of qrN and qpN queries; latencies are those of commits, of indexes that are added, and of queries. Rows and index entries are the user's bytes. Lookups are of rows and entries, without those of sweeps; stale is the part of a lazy table's entries that led nowhere. Space is without logs that do not grow with the data, of which each is beside it.\n"
    );
    for line in lines {
        if let Some(most) = line.rows_per_commit_split {
            text += &format!("{} took at most {most} rows at once: longer commits were split.\n", line.engine);
        }
        text.extend(failure(line));
        if let Some(left) = line.rows_left_out {
            let (engine, step, left) = (&line.engine, &line.workload, thousands(left as f64));
            text += &format!(
                "{engine} step {step} was ended after {:.0} s without {left} rows: it is not compared.\n",
                line.seconds
            );
        }
    }
    text
}
