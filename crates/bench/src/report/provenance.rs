//! On which machines, and of which builds, the results on the page are.

use super::RunRecord;
use super::sections::table;
use crate::{Provenance, ResultLine};
use std::collections::BTreeSet;

/// What is said where nothing is known.
const UNKNOWN: &str = "-";

const COLUMNS: [&str; 7] = ["processor", "memory", "kernel", "file system", "build", "foreign engines", "results"];

/// A row for each machine and build, in the order in which they appear; nothing, where no result says of which it is.
pub(super) fn machines(records: &[RunRecord]) -> String {
    let mut groups: Vec<(Option<&Provenance>, Vec<&ResultLine>)> = Vec::new();
    for result in records.iter().map(|record| &record.result) {
        let provenance = result.provenance.as_ref();
        match groups.iter_mut().find(|(other, _)| *other == provenance) {
            Some((_, results)) => results.push(result),
            None => groups.push((provenance, vec![result])),
        }
    }
    if groups.iter().all(|(provenance, _)| provenance.is_none()) {
        return String::new();
    }
    table(&COLUMNS, groups.iter().map(|(provenance, results)| row(*provenance, results)))
}

fn row(provenance: Option<&Provenance>, results: &[&ResultLine]) -> Vec<String> {
    let experiments: BTreeSet<&str> = results.iter().map(|result| result.experiment.as_str()).collect();
    let experiments: Vec<_> = experiments.into_iter().collect();
    let results = format!("{} of {}", results.len(), experiments.join(", "));
    let mut cells = match provenance {
        Some(provenance) => about(provenance),
        None => [UNKNOWN; COLUMNS.len() - 1].map(str::to_owned).to_vec(),
    };
    cells.push(results);
    cells
}

fn about(provenance: &Provenance) -> Vec<String> {
    let Provenance { cpu, cores, memory_bytes, kernel, file_system, version, commit, profile, peers } = provenance;
    let gigabytes = memory_bytes.map(|bytes| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)));
    let build = [version.clone(), commit.as_ref().map(|commit| format!("commit {commit}")), profile.clone()];
    let peers: Vec<_> = peers.iter().map(|(name, version)| Some(format!("{name} {version}"))).collect();
    vec![
        listed(&[cpu.clone(), cores.map(|cores| format!("{cores} {}", if cores == 1 { "core" } else { "cores" }))]),
        listed(&[gigabytes]),
        listed(std::slice::from_ref(kernel)),
        listed(std::slice::from_ref(file_system)),
        listed(&build),
        listed(&peers),
    ]
}

/// What is known of these, one after the other.
fn listed(parts: &[Option<String>]) -> String {
    let known: Vec<_> = parts.iter().flatten().map(String::as_str).collect();
    if known.is_empty() { UNKNOWN.to_owned() } else { known.join(", ") }
}
