//! What was published for the shapes.

use crate::report::published::{PublishedTable, tables};

/// The least and the most of published ratios.
pub(super) type Range = Option<(f64, f64)>;

fn table(name: &str) -> Option<PublishedTable> {
    tables().into_iter().find(|table| table.name == name)
}

/// One figure as a range.
fn at(figure: f64) -> (f64, f64) {
    (figure, figure)
}

/// Of the first over the second, that of the second over the first.
pub(super) fn inverse((least, most): (f64, f64)) -> (f64, f64) {
    (1.0 / most, 1.0 / least)
}

/// Of a ratio whose second figure counts bytes that were trimmed as written, which makes it about twice as large: that, and what it is without them.
pub(super) fn untrimmed((least, most): (f64, f64)) -> (f64, f64) {
    (least, most * TRIMMED)
}

/// What trimmed bytes make of what RocksDB wrote, as the heading of the published figures says.
const TRIMMED: f64 = 2.0;

fn range(figures: impl Iterator<Item = f64>) -> Range {
    figures.map(at).reduce(|(least, most), (other, _)| (least.min(other), most.max(other)))
}

/// Rows a second of MyRocks with this compaction over those of InnoDB, cached.
pub(super) fn in_memory(compaction: &str, binlog: &str, clients: u32) -> Range {
    let table = table("Insert benchmark, cached")?;
    let of = |engine, compaction| {
        let conditions = [("engine", engine), ("compaction", compaction), ("binlog", binlog)];
        table.figure(&conditions, &format!("c{clients}"))
    };
    Some(at(of("myrocks", compaction)? / of("innodb-5.7.10", "")?))
}

/// A figure of MyRocks over that of InnoDB, larger than memory.
pub(super) fn beyond_memory(ssd: &str, column: &str) -> Range {
    let table = table("Insert benchmark, slow and fast SSD")?;
    let of = |engine| table.figure(&[("database", "larger_than_memory"), ("ssd", ssd), ("engine", engine)], column);
    Some(at(of("myrocks")? / of("innodb-5.7")?))
}

/// Rows a second of an engine, larger than memory over in memory.
pub(super) fn own_beside_memory(ssd: &str, engine: &str) -> Range {
    let table = table("Insert benchmark, slow and fast SSD")?;
    let of = |database| table.figure(&[("database", database), ("ssd", ssd), ("engine", engine)], "ips");
    Some(at(of("larger_than_memory")? / of("in_memory")?))
}

/// Bytes that a row takes in MyRocks and in InnoDB, nothing compressed.
pub(super) fn space_per_row() -> Option<(f64, f64)> {
    let table = table("Insert benchmark, space")?;
    let of = |engine| Some(table.figure(&[("engine", engine)], "size_gb")? * 1e9 / ROWS_OF_SPACE);
    Some((of("myrocks")?, of("innodb-5.7.10")?))
}

/// The rows that those tables had, as the heading of the published figures says.
const ROWS_OF_SPACE: f64 = 2e9;

/// Queries a second of MyRocks over those of InnoDB by 8 clients, on machines of so many GB.
pub(super) fn sysbench(workload: &str, memories: &[&str]) -> Range {
    let table = table("sysbench")?;
    range(memories.iter().filter_map(|memory| {
        let of = |engine| table.figure(&[("workload", workload), ("engine", engine), ("memory_gb", memory)], "t8");
        Some(of("myrocks")? / of("innodb")?)
    }))
}

/// By so many application processes under such a load, of a data set: the times of the two InnoDBs over that of MyRocks.
pub(super) fn redmine(data_set: &str, operation: &str, clients: &str, load: &str) -> Range {
    let table = table("Redmine")?;
    let conditions = [("dataset", data_set), ("operation", operation), ("clients", clients), ("disk_load", load)];
    range(["mysql_slower", "mariadb_slower"].into_iter().filter_map(|column| table.figure(&conditions, column)))
}

/// MyRocks' own time by 4 application processes under full load over that by one without load.
pub(super) fn redmine_growth(operation: &str) -> Range {
    let table = table("Redmine")?;
    let of = |clients, load| {
        let conditions = [("dataset", "large"), ("operation", operation), ("clients", clients), ("disk_load", load)];
        table.figure(&conditions, "myrocks_s")
    };
    Some(at(of("4", "x4")? / of("1", "0")?))
}

/// Space of MyRocks over that of the two InnoDBs once a data set was loaded.
pub(super) fn redmine_space(data_set: &str) -> Range {
    let table = table("Redmine, space")?;
    let of = |column| table.figure(&[("dataset", data_set)], column);
    let myrocks = of("myrocks_mb")?;
    range(["mysql_innodb_mb", "mariadb_innodb_mb"].into_iter().filter_map(|column| Some(myrocks / of(column)?)))
}

/// A figure of MyRocks over that of InnoDB with compressed pages.
pub(super) fn ads(metric: &str) -> Range {
    let table = table("Ad serving")?;
    let of = |engine| table.figure(&[("metric", metric)], engine);
    Some(at(of("myrocks")? / of("innodb")?))
}

/// Operations a second of MyRocks over those of InnoDB, both in MariaDB, of a workload on a device with limits or without.
pub(in crate::report::shapes) fn mariadb(workload: &str, is_limited: bool) -> Range {
    let device = if is_limited { "limited" } else { "unlimited" };
    let conditions = [("workload", workload), ("device", device)];
    Some(at(table(MARIADB)?.figure(&conditions, "myrocks_over_innodb")?))
}

/// Operations a second of MyRocks and of InnoDB there, where they are known.
pub(in crate::report::shapes) fn mariadb_rates(workload: &str, is_limited: bool) -> Option<(f64, f64)> {
    let device = if is_limited { "limited" } else { "unlimited" };
    let (table, conditions) = (table(MARIADB)?, [("workload", workload), ("device", device)]);
    table.figure(&conditions, "myrocks_per_s").zip(table.figure(&conditions, "innodb_per_s"))
}

/// The slowest five seconds of MyRocks there over its mean, while it inserted.
pub(in crate::report::shapes) fn mariadb_worst() -> Range {
    Some(at(table(MARIADB)?.figure(&[("workload", "insert")], "myrocks_worst_over_mean")?))
}

const MARIADB: &str = "MariaDB, one run";

/// What was expired of a set of tables that no compaction had visited.
pub(super) fn expired() -> Range {
    let million = table("Ad serving")?.figure(&[("metric", "expired_rows_when_compaction_never_ran")], "myrocks")?;
    Some(at(million / MILLION_ROWS_OF_THE_INCIDENT))
}

/// The rows of that set, in millions, as the unit of the table says.
const MILLION_ROWS_OF_THE_INCIDENT: f64 = 600.0;
