//! Redmine's operations: by data set, application processes and load of the disk.

use super::{Comparison, compare};
use crate::ResultLine;
use crate::redmine::Operation;
use crate::report::conditions::is_on;
use crate::report::published::PublishedTable;

/// One of our engines, the published one that works as it does, and the column of its times.
const COUNTERPARTS: [(&str, &str, &str); 4] = [
    ("lsm-leveled", "myrocks", "myrocks_s"),
    ("lsm-classic", "myrocks", "myrocks_s"),
    ("btree", "innodb of mysql 5.6", "mysql_innodb_s"),
    ("btree-mysql84", "innodb of mysql 5.6", "mysql_innodb_s"),
];

/// Loads of the disk, by their published names.
const LOADS: [(f64, &str); 5] = [(0.0, "0"), (0.25, "25%"), (1.0, "x1"), (2.0, "x2"), (4.0, "x4")];

/// The published cells that were measured on a hard disk, with durability as published.
pub(super) fn of<'a>(runs: impl Iterator<Item = &'a ResultLine>, tables: &[PublishedTable]) -> Vec<Comparison> {
    let Some(table) = tables.iter().find(|table| table.name == "Redmine") else { return Vec::new() };
    let is_meant =
        |run: &&ResultLine| run.experiment == "redmine" && is_on(run, "hdd") && run.as_published == Some(true);
    runs.filter(is_meant).filter_map(|run| cell(run, table)).collect()
}

fn cell(run: &ResultLine, table: &PublishedTable) -> Option<Comparison> {
    let (_, engine, column) = COUNTERPARTS.iter().find(|(ours, ..)| *ours == run.engine)?;
    let (_, load) = LOADS.iter().find(|(load, _)| run.device_load == Some(*load))?;
    let data_set = run.data_set.as_deref()?;
    let (operation, clients) = (run.workload.as_str(), run.threads.to_string());
    let conditions = [("dataset", data_set), ("operation", operation), ("clients", &clients), ("disk_load", load)];
    let published = table.figure(&conditions, column).map(|seconds| seconds * 1e3);
    let parts = operation
        .parse()
        .map_or(1, |operation: Operation| operation.requests() / operation.requests_of_published_mean());
    let what = format!(
        "mean time of {}{operation}, {data_set} data set, {clients} {}, load {load}",
        if parts > 1 { "a request of " } else { "" },
        if run.threads == 1 { "process" } else { "processes" }
    );
    compare(what, run, engine, published, run.mean_trimmed_us.map(|micros| micros / 1e3 / f64::from(parts)), "ms")
}
