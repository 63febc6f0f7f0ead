//! On which machines, and of which builds, the results on the page are.

use super::RunRecord;
use super::sections::table;
use crate::{Provenance, ResultLine};
use std::collections::BTreeSet;
use std::fmt::Write;

/// What is said where nothing is known.
const UNKNOWN: &str = "-";

const COLUMNS: [&str; 7] = ["processor", "memory", "kernel", "file system", "build", "foreign engines", "results"];

/// What figures that stand beside each other should have in common: its name, the name of several, and which one it is.
type Common = (&'static str, &'static str, fn(&Provenance) -> String);

const COMMON: [Common; 2] = [("build", "builds", build), ("machine", "machines", machine)];

/// Results with the same of something.
type Group<'a, T> = (T, Vec<&'a ResultLine>);

/// Groups by what `of` says, in the order in which they appear.
fn groups<'a, T: PartialEq>(records: &'a [RunRecord], of: impl Fn(&'a ResultLine) -> T) -> Vec<Group<'a, T>> {
    let mut groups: Vec<Group<'a, T>> = Vec::new();
    for result in records.iter().map(|record| &record.result) {
        let own = of(result);
        match groups.iter_mut().find(|(other, _)| *other == own) {
            Some((_, results)) => results.push(result),
            None => groups.push((own, vec![result])),
        }
    }
    groups
}

/// A note that the results are of several builds or machines, and which are of which; nothing, where all that tell are of one.
pub(super) fn several(records: &[RunRecord]) -> String {
    let mut html = String::new();
    for (one, many, name) in COMMON {
        let groups = groups(records, |result| result.provenance.as_ref().map_or_else(|| UNKNOWN.to_owned(), name));
        let known = groups.iter().filter(|(name, _)| name != UNKNOWN).count();
        if known > 1 {
            let rows = groups.into_iter().map(|(name, results)| vec![name, of_experiments(&results)]);
            let table = table(&[one, "results"], rows);
            let _ = write!(
                html,
                "<p>The results on this page are of <b>{known} {many}</b>: between those of different ones there are differences that are not the engines'.</p>{table}"
            );
        }
    }
    if html.is_empty() { html } else { format!("<article class=\"several words\">{html}</article>") }
}

/// A row for each machine and build, in the order in which they appear; nothing, where no result says of which it is.
pub(super) fn machines(records: &[RunRecord]) -> String {
    let groups = groups(records, |result| result.provenance.as_ref());
    if groups.iter().all(|(provenance, _)| provenance.is_none()) {
        return String::new();
    }
    table(&COLUMNS, groups.iter().map(|(provenance, results)| row(*provenance, results)))
}

/// How many results there are, and of which experiments.
fn of_experiments(results: &[&ResultLine]) -> String {
    let experiments: BTreeSet<&str> = results.iter().map(|result| result.experiment.as_str()).collect();
    let experiments: Vec<_> = experiments.into_iter().collect();
    format!("{} of {}", results.len(), experiments.join(", "))
}

fn row(provenance: Option<&Provenance>, results: &[&ResultLine]) -> Vec<String> {
    let mut cells = match provenance {
        Some(provenance) => about(provenance),
        None => [UNKNOWN; COLUMNS.len() - 1].map(str::to_owned).to_vec(),
    };
    cells.push(of_experiments(results));
    cells
}

fn about(provenance: &Provenance) -> Vec<String> {
    let [cpu, cores, memory] = hardware(provenance);
    let Provenance { kernel, file_system, peers, .. } = provenance;
    let peers: Vec<_> = peers.iter().map(|(name, version)| Some(format!("{name} {version}"))).collect();
    vec![
        listed(&[cpu, cores]),
        listed(&[memory]),
        listed(std::slice::from_ref(kernel)),
        listed(std::slice::from_ref(file_system)),
        build(provenance),
        listed(&peers),
    ]
}

/// Version, commit and profile.
fn build(provenance: &Provenance) -> String {
    let Provenance { version, commit, profile, .. } = provenance;
    listed(&[version.clone(), commit.as_ref().map(|commit| format!("commit {commit}")), profile.clone()])
}

fn machine(provenance: &Provenance) -> String {
    listed(&hardware(provenance))
}

/// The processor, its cores, and memory.
fn hardware(provenance: &Provenance) -> [Option<String>; 3] {
    let Provenance { cpu, cores, memory_bytes, .. } = provenance;
    let cores = cores.map(|cores| format!("{cores} {}", if cores == 1 { "core" } else { "cores" }));
    let gigabytes = memory_bytes.map(|bytes| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)));
    [cpu.clone(), cores, gigabytes]
}

/// What is known of these, one after the other.
fn listed(parts: &[Option<String>]) -> String {
    let known: Vec<_> = parts.iter().flatten().map(String::as_str).collect();
    if known.is_empty() { UNKNOWN.to_owned() } else { known.join(", ") }
}
