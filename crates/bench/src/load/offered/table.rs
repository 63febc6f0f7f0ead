//! What is printed of open loops.

use crate::ResultLine;
use crate::figures::{short, thousands};
use siltstone_base::text_table::TextTable;

/// The open loops among runs. `None` if there are none.
pub(crate) fn table(lines: &[ResultLine]) -> Option<String> {
    let mut table = TextTable::new([
        "open loop",
        "engine",
        "threads",
        "pair",
        "offered/s",
        "ops/s",
        "unserved",
        "p50 us",
        "p95 us",
        "p99 us",
        "p99.9 us",
        "p99.99 us",
        "max us",
        "gap us",
        "machine us",
        "late p99 us",
        "late max us",
    ]);
    let open_loops: Vec<_> = lines.iter().filter(|line| line.offered_ops_per_s.is_some()).collect();
    for line in &open_loops {
        table.row([
            line.workload.clone(),
            line.engine.clone(),
            line.threads.to_string(),
            line.pair.to_string(),
            short(line.offered_ops_per_s),
            thousands(line.ops_per_s),
            line.unserved_ops.map_or_else(|| "-".to_owned(), |ops| thousands(ops as f64)),
            short(line.p50_us),
            short(line.p95_us),
            short(line.p99_us),
            short(line.p999_us),
            short(line.p9999_us),
            short(line.max_us),
            short(line.longest_gap_us),
            short(line.machine_pause_us),
            short(line.generator_late_p99_us),
            short(line.generator_late_max_us),
        ]);
    }
    (!open_loops.is_empty()).then(|| format!("\n{table}"))
}
