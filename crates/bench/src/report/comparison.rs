//! Published figures beside measured ones.

use super::RunRecord;
use super::published::{PublishedTable, tables};

/// A published figure and the measured one for the same thing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    /// What is compared.
    pub what: String,
    /// The engine that was measured.
    pub engine: String,
    /// The engine of the published figure.
    pub published_engine: String,
    /// The published figure.
    pub published: f64,
    /// The measured one.
    pub measured: f64,
    /// The unit of both.
    pub unit: &'static str,
}

impl Comparison {
    /// Measured over published.
    pub(super) fn ratio(&self) -> f64 {
        self.measured / self.published
    }
}

/// Every measured figure that has a published counterpart. The published machine is not this one: ratios between engines
/// carry over, absolute figures do not.
pub(super) fn of(records: &[RunRecord]) -> Vec<Comparison> {
    let tables = tables();
    let named = |name: &str| tables.iter().find(|table| table.name == name);
    let mut found = Vec::new();
    for record in records.iter().filter(|record| record.result.experiment == "insert" && record.result.workload == "l")
    {
        if let Some(table) = named("Insert benchmark, cached") {
            rates(record, table, &mut found);
        }
        if let Some(table) = named("Insert benchmark, slow and fast SSD") {
            bytes(record, table, &mut found);
        }
    }
    found
}

fn rates(record: &RunRecord, table: &PublishedTable, found: &mut Vec<Comparison>) {
    let result = &record.result;
    let binlog = if result.binlog_bytes.is_some() { "on" } else { "off" };
    let column = format!("c{}", result.threads);
    for (engine, compaction) in [("myrocks", "leveled"), ("innodb-5.7.10", "")] {
        let conditions = [("engine", engine), ("compaction", compaction), ("binlog", binlog)];
        if let Some(published) = table.figure(&conditions, &column) {
            found.push(Comparison {
                what: format!("rows a second, {} clients, binlog {binlog}", result.threads),
                engine: result.engine.clone(),
                published_engine: engine.to_owned(),
                published,
                measured: result.ops_per_s,
                unit: "rows/s",
            });
        }
    }
}

fn bytes(record: &RunRecord, table: &PublishedTable, found: &mut Vec<Comparison>) {
    let result = &record.result;
    let Some(measured) = result.kb_written_per_row else { return };
    for engine in ["myrocks", "innodb-5.7"] {
        let conditions = [("database", "in_memory"), ("ssd", "fast"), ("engine", engine)];
        if let Some(published) = table.figure(&conditions, "write_kb_per_insert") {
            found.push(Comparison {
                what: "KB written a row, cached".to_owned(),
                engine: result.engine.clone(),
                published_engine: engine.to_owned(),
                published,
                measured,
                unit: "KB/row",
            });
        }
    }
}
