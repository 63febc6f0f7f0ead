//! The insert benchmark: rows a second and KB written a row, in memory and beyond it.

use super::{Comparison, compare};
use crate::ResultLine;
use crate::report::RunRecord;
use crate::report::conditions::{OWN_DEVICE, exceeds, fits, is_cache_alone, is_on};
use crate::report::published::PublishedTable;
use crate::report::shapes::{Binlog, settled_written_per_row};

/// One of our engines with the published one that works as it does: an LSM tree beside MyRocks, a B-tree beside the InnoDB of the shapes.
struct Counterpart {
    ours: &'static str,
    /// Its name and compaction among the figures of cached data.
    cached: (&'static str, &'static str),
    /// Its name among the figures of the two SSDs; none was published for universal compaction.
    on_ssd: Option<&'static str>,
}

const fn myrocks(ours: &'static str) -> Counterpart {
    Counterpart { ours, cached: ("myrocks", "leveled"), on_ssd: Some("myrocks") }
}

const fn innodb(ours: &'static str) -> Counterpart {
    Counterpart { ours, cached: ("innodb-5.7.10", ""), on_ssd: Some("innodb-5.7") }
}

const COUNTERPARTS: [Counterpart; 6] = [
    myrocks("lsm-leveled"),
    myrocks("lsm-classic"),
    Counterpart { ours: "lsm-universal", cached: ("myrocks", "universal"), on_ssd: None },
    innodb("btree"),
    innodb("btree-mysql84"),
    innodb("btree-ssd"),
];

/// The modelled devices, by the names of the published ones.
const SSDS: [(&str, &str); 2] = [("fast-ssd", "fast"), ("slow-ssd", "slow")];

/// The devices of loads that fit in memory, and what they are called.
const IN_MEMORY: [(&str, &str); 2] = [(OWN_DEVICE, "the machine's own device"), ("fast-ssd", "fast-ssd")];

/// The loads, uncompressed.
pub(super) fn of<'a>(runs: impl Iterator<Item = &'a RunRecord>, tables: &[PublishedTable]) -> Vec<Comparison> {
    let named = |name: &str| tables.iter().find(|table| table.name == name);
    let (Some(cached), Some(on_ssd)) =
        (named("Insert benchmark, cached"), named("Insert benchmark, slow and fast SSD"))
    else {
        return Vec::new();
    };
    let is_meant = |ResultLine { experiment, workload, compressed, .. }: &ResultLine| {
        experiment == "insert" && workload == "l" && *compressed == Some(false)
    };
    let mut found = Vec::new();
    for record in runs.filter(|record| is_meant(&record.result)) {
        let run = &record.result;
        let Some(counterpart) = COUNTERPARTS.iter().find(|counterpart| counterpart.ours == run.engine) else {
            continue;
        };
        let in_memory_on = IN_MEMORY.iter().find(|(device, _)| fits(run) && !is_cache_alone(run) && is_on(run, device));
        if let Some((_, device)) = in_memory_on {
            in_memory(record, device, counterpart, cached, on_ssd, &mut found);
        } else if exceeds(run) {
            beyond_memory(record, counterpart, on_ssd, &mut found);
        }
    }
    found
}

fn in_memory(
    record: &RunRecord,
    device: &str,
    counterpart: &Counterpart,
    cached: &PublishedTable,
    on_ssd: &PublishedTable,
    found: &mut Vec<Comparison>,
) {
    let run = &record.result;
    // The published runs with a binlog did not sync it.
    let binlog = match Binlog::of(run) {
        Some(Binlog::Off) => "off",
        Some(Binlog::Os) => "on",
        Some(Binlog::Sync) | None => return,
    };
    let (engine, compaction) = counterpart.cached;
    let conditions = [("engine", engine), ("compaction", compaction), ("binlog", binlog)];
    let published = cached.figure(&conditions, &format!("c{}", run.threads));
    let clients = if run.threads == 1 { "client" } else { "clients" };
    let about = format!("in memory, {} {clients}, binlog {binlog}, {device}", run.threads);
    let what = format!("rows a second, {about}");
    found.extend(compare(what, run, engine, published, Some(run.ops_per_s), "rows/s"));
    let Some(engine) = counterpart.on_ssd else { return };
    let conditions = [("database", "in_memory"), ("ssd", "fast"), ("engine", engine)];
    let published = on_ssd.figure(&conditions, "write_kb_per_insert");
    let (until, measured) = written(record);
    let what = format!("KB written a row{until}, {about}; published: 16 clients, fast SSD");
    found.extend(compare(what, run, engine, published, measured, "KB/row"));
}

/// KB written for each row: until nothing is left to do, where that was waited for, and otherwise until the last row was in.
fn written(record: &RunRecord) -> (&'static str, Option<f64>) {
    match settled_written_per_row(record) {
        Some(settled) => (" until all is settled", Some(settled)),
        None => ("", record.result.kb_written_per_row),
    }
}

fn beyond_memory(record: &RunRecord, counterpart: &Counterpart, table: &PublishedTable, found: &mut Vec<Comparison>) {
    let run = &record.result;
    let ssd = SSDS.iter().find(|(device, _)| is_on(run, device));
    let (Some((device, ssd)), Some(engine)) = (ssd, counterpart.on_ssd) else { return };
    let conditions = [("database", "larger_than_memory"), ("ssd", ssd), ("engine", engine)];
    let about = format!("larger than memory, {} clients, {device}; published: 16 clients", run.threads);
    let published = |column| table.figure(&conditions, column);
    let what = format!("rows a second, {about}");
    found.extend(compare(what, run, engine, published("ips"), Some(run.ops_per_s), "rows/s"));
    let (until, measured) = written(record);
    let what = format!("KB written a row{until}, {about}");
    found.extend(compare(what, run, engine, published("write_kb_per_insert"), measured, "KB/row"));
}
