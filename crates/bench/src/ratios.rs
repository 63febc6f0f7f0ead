//! One engine against another, run by run of the same pair.

use crate::ResultLine;
use crate::engines::EngineKind;
use crate::figures::{megabytes, short};
use crate::load::median;
use siltstone_base::text_table::TextTable;

/// Pairs below which a quotient is not called a ratio.
const PAIRS: usize = 5;

/// The first of `engines` against each other one, for each of `workloads`.
pub(crate) fn table(lines: &[ResultLine], engines: &[EngineKind], workloads: &[&str], pairs: u32) -> String {
    of_names(lines, &in_order(lines, engines), workloads, pairs)
}

/// The last of all that ran against each other one, for each of `workloads`.
pub(crate) fn of_all(lines: &[ResultLine], workloads: &[&str], pairs: u32) -> String {
    let mut names: Vec<String> = Vec::new();
    for line in lines.iter().filter(|line| line.pair == 1).rev() {
        if !names.contains(&line.engine) {
            names.push(line.engine.clone());
        }
    }
    of_names(lines, &names, workloads, pairs)
}

fn of_names(lines: &[ResultLine], names: &[String], workloads: &[&str], pairs: u32) -> String {
    let Some((first, others)) = names.split_first() else { return String::new() };
    let mut text = String::new();
    for other in others {
        let rows: Vec<_> = workloads.iter().filter_map(|workload| row(lines, workload, first, other)).collect();
        if rows.is_empty() {
            continue;
        }
        text += &format!("\n{first} / {other}, runs of the same pair\n");
        let mut table = TextTable::new([
            "workload",
            "pairs",
            "median",
            "smallest",
            "ops/s",
            "ops/s",
            "longest us",
            "longest us",
            "machine us",
            "CPU s",
            "CPU s",
            "device MB",
            "device MB",
            "debt MB",
            "debt MB",
            "harness ns",
        ]);
        for row in rows {
            table.row(row);
        }
        text += &table.to_string();
        if (pairs as usize) < PAIRS {
            text += &format!("Fewer than {PAIRS} pairs: an indication, not a ratio.\n");
        }
    }
    text
}

/// The engines' names in results, in the order of the command line.
fn in_order(lines: &[ResultLine], engines: &[EngineKind]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for kind in engines {
        let found = lines.iter().find(|line| line.engine.split(' ').next() == Some(kind.name()));
        if let Some(line) = found.filter(|line| !names.contains(&line.engine)) {
            names.push(line.engine.clone());
        }
    }
    names
}

/// A quotient for each pair, or, of a single pair of long runs, for each of their segments.
fn quotients(pairs: &[(&&ResultLine, &&ResultLine)]) -> Vec<f64> {
    if let [(a, b)] = pairs
        && let (Some(a), Some(b)) = (&a.segment_ops_per_s, &b.segment_ops_per_s)
    {
        return a.iter().zip(b).filter(|(_, b)| **b > 0.0).map(|(a, b)| a / b).collect();
    }
    pairs.iter().map(|(a, b)| a.ops_per_s / b.ops_per_s).collect()
}

fn row(lines: &[ResultLine], workload: &str, first: &str, other: &str) -> Option<Vec<String>> {
    let of = |engine: &str| -> Vec<&ResultLine> {
        let mut found: Vec<_> =
            lines.iter().filter(|line| line.workload == workload && line.engine == engine).collect();
        found.sort_by_key(|line| line.pair);
        found
    };
    let (ours, theirs) = (of(first), of(other));
    // The same workload may stand in the list more than once: then its runs stand in the same order within a pair.
    let are_whole = |a: &ResultLine, b: &ResultLine| a.rows_left_out.is_none() && b.rows_left_out.is_none();
    let are_pair = |a: &ResultLine, b: &ResultLine| a.pair == b.pair && b.ops_per_s > 0.0 && are_whole(a, b);
    let pairs: Vec<_> = ours.iter().zip(&theirs).filter(|(a, b)| are_pair(a, b)).collect();
    let quotients = quotients(&pairs);
    let smallest = quotients.iter().copied().min_by(f64::total_cmp)?;
    let middle = |lines: &[&ResultLine], figure: fn(&ResultLine) -> Option<f64>| {
        median(&lines.iter().filter_map(|line| figure(line)).collect::<Vec<_>>())
    };
    let bytes = |lines: &[&ResultLine], figure: fn(&ResultLine) -> Option<f64>| {
        megabytes(middle(lines, figure).map(|bytes| bytes as u64))
    };
    let everyone: Vec<_> = ours.iter().chain(&theirs).copied().collect();
    Some(vec![
        workload.to_owned(),
        quotients.len().to_string(),
        short(median(&quotients)),
        short(Some(smallest)),
        short(middle(&ours, |line| Some(line.ops_per_s))),
        short(middle(&theirs, |line| Some(line.ops_per_s))),
        short(middle(&ours, |line| line.max_us)),
        short(middle(&theirs, |line| line.max_us)),
        short(middle(&everyone, |line| line.machine_pause_us)),
        short(middle(&ours, |line| line.cpu_s)),
        short(middle(&theirs, |line| line.cpu_s)),
        bytes(&ours, |line| line.process_written.map(|bytes| bytes as f64)),
        bytes(&theirs, |line| line.process_written.map(|bytes| bytes as f64)),
        bytes(&ours, |line| line.debt_bytes.map(|bytes| bytes as f64)),
        bytes(&theirs, |line| line.debt_bytes.map(|bytes| bytes as f64)),
        short(middle(&everyone, |line| line.harness_ns_per_op)),
    ])
}
