//! The shapes: what was published, and the bounds within which ours is like it.

use super::figures::{BY_SECONDS, mean_time, one, rate, space, transition, variation, written_per_row};
use super::{Alike, Figure, Shape, Side};
use crate::ResultLine;
use crate::report::conditions::{OWN_DEVICE, exceeds, fits, is_on};
use crate::report::published::{PublishedTable, tables};

/// The LSM tree.
pub(in crate::report) const LSM: &str = "lsm-leveled";
/// The same with RocksDB's write admission.
pub(super) const CLASSIC: &str = "lsm-classic";
/// The B-tree.
pub(in crate::report) const BTREE: &str = "btree";

const INSERT: &str = "Insert benchmark";
const SYSBENCH: &str = "sysbench";
const REDMINE: &str = "Redmine";

// Why ours may differ from what was published.
const IN_MEMORY: &str = "On few cores compactions take from the clients what the publication's machine had to spare.";
const BEYOND: &str =
    "The device is modelled, and both engines run without the SQL layer that weighed on both of the published.";
const EVEN: &str =
    "Whatever else the machine does counts as well, and in rates of one second more than in those of five.";
const MIXED: &str = "Without SQL and network above them, what the engines themselves take of a query weighs more than in the publication.";
const DISK: &str = "What the application takes is a constant on both sides, 18 ms an operation in `all`: Rails will have taken more of it for ten tasks, and more beside a load.";

const fn side(engine: &'static str, holds: fn(&ResultLine) -> bool, figure: Figure) -> Side {
    Side { engine, holds, figure }
}

/// LSM tree over B-tree, everything else equal.
const fn lsm_over_btree(
    experiment: &'static str,
    claim: &'static str,
    published: fn() -> Option<(f64, f64)>,
    holds: fn(&ResultLine) -> bool,
    figure: Figure,
    (at_least, at_most): (Option<f64>, Option<f64>),
    otherwise: &'static str,
) -> Shape {
    let (of, by) = (side(LSM, holds, figure), side(BTREE, holds, figure));
    let (relative_to, finer, alike) = (None, None, Alike::All);
    Shape { experiment, claim, published, of, by, relative_to, finer, alike, at_least, at_most, otherwise }
}

/// B-tree over LSM tree: times and bytes, of which less is better.
const fn btree_over_lsm(
    experiment: &'static str,
    claim: &'static str,
    published: fn() -> Option<(f64, f64)>,
    holds: fn(&ResultLine) -> bool,
    figure: Figure,
    at_least: f64,
    otherwise: &'static str,
) -> Shape {
    let (of, by) = (side(BTREE, holds, figure), side(LSM, holds, figure));
    Shape {
        experiment,
        claim,
        published,
        of,
        by,
        relative_to: None,
        finer: None,
        alike: Alike::All,
        at_least: Some(at_least),
        at_most: None,
        otherwise,
    }
}

/// All shapes, in the order of the page.
pub(super) const SHAPES: &[Shape] = &[
    lsm_over_btree(
        INSERT,
        "in memory, 1 client: rows/s of the LSM tree over those of the B-tree",
        || in_memory("c1"),
        |run| is_load(run) && fits(run) && run.threads == 1,
        rate,
        (Some(1.0), None),
        IN_MEMORY,
    ),
    lsm_over_btree(
        INSERT,
        "in memory, 2 clients: rows/s of the LSM tree over those of the B-tree",
        || in_memory("c2"),
        |run| is_load(run) && fits(run) && run.threads == 2,
        rate,
        (Some(1.0), None),
        IN_MEMORY,
    ),
    lsm_over_btree(
        INSERT,
        "in memory, 8 clients: the same; judged on 8 cores or more only",
        || in_memory("c8"),
        |run| is_load(run) && fits(run) && run.threads == 8,
        rate,
        (None, None),
        IN_MEMORY,
    ),
    lsm_over_btree(
        INSERT,
        "larger than memory, fast SSD: rows/s of the LSM tree over those of the B-tree",
        || beyond_memory("fast", "ips"),
        |run| is_load(run) && exceeds(run) && is_on(run, "fast-ssd"),
        rate,
        (Some(1.7), None),
        BEYOND,
    ),
    lsm_over_btree(
        INSERT,
        "larger than memory, slow SSD: rows/s of the LSM tree over those of the B-tree",
        || beyond_memory("slow", "ips"),
        |run| is_load(run) && exceeds(run) && is_on(run, "slow-ssd"),
        rate,
        (Some(2.2), None),
        BEYOND,
    ),
    Shape {
        experiment: INSERT,
        claim: "slow SSD: the LSM tree's rows/s once the data exceeds memory over its own before",
        published: || own_transition("slow"),
        of: side(LSM, |run| is_load(run) && exceeds(run) && is_on(run, "slow-ssd"), transition),
        by: side(LSM, |run| is_load(run) && exceeds(run) && is_on(run, "slow-ssd"), one),
        relative_to: None,
        finer: None,
        alike: Alike::All,
        at_least: Some(0.85),
        at_most: None,
        otherwise: "The first rows meet an empty tree: little is compacted yet while the data fits in memory.",
    },
    btree_over_lsm(
        INSERT,
        "larger than memory, fast SSD: KB written a row by the B-tree over those by the LSM tree",
        || beyond_memory("fast", "write_kb_per_insert").map(inverse),
        |run| is_load(run) && exceeds(run) && is_on(run, "fast-ssd"),
        written_per_row,
        2.5,
        BEYOND,
    ),
    btree_over_lsm(
        INSERT,
        "larger than memory, slow SSD: KB written a row by the B-tree over those by the LSM tree",
        || beyond_memory("slow", "write_kb_per_insert").map(inverse),
        |run| is_load(run) && exceeds(run) && is_on(run, "slow-ssd"),
        written_per_row,
        2.5,
        BEYOND,
    ),
    lsm_over_btree(
        INSERT,
        "space of the LSM tree over that of the B-tree, nothing compressed, once all is settled",
        space_published,
        |run| {
            run.experiment == "insert"
                && run.workload == "settle"
                && run.compressed == Some(false)
                && !is_on(run, OWN_DEVICE)
        },
        space,
        (None, Some(0.65)),
        "How full the pages of a B-tree are depends on the order in which rows arrive.",
    ),
    Shape {
        finer: Some(BY_SECONDS),
        ..lsm_over_btree(
            INSERT,
            "slow SSD: variation of the LSM tree's 5-s rates about their moving median of 15 over that of the B-tree's",
            || None,
            |run| is_load(run) && exceeds(run) && is_on(run, "slow-ssd"),
            variation,
            (None, Some(1.0)),
            EVEN,
        )
    },
    Shape {
        experiment: INSERT,
        claim: "slow SSD: variation of the 5-s rates about their moving median of 15 under RocksDB's write admission over that under ours",
        published: || None,
        of: side(CLASSIC, |run| is_load(run) && exceeds(run) && is_on(run, "slow-ssd"), variation),
        by: side(LSM, |run| is_load(run) && exceeds(run) && is_on(run, "slow-ssd"), variation),
        relative_to: None,
        finer: Some(BY_SECONDS),
        alike: Alike::All,
        at_least: Some(2.0),
        at_most: None,
        otherwise: EVEN,
    },
    lsm_over_btree(
        SYSBENCH,
        "write_only, a fifth in memory, slow SSD: transactions/s of the LSM tree over those of the B-tree",
        || sysbench("write_only"),
        |run| is_constrained(run, "write_only"),
        rate,
        (Some(1.4), None),
        BEYOND,
    ),
    lsm_over_btree(
        SYSBENCH,
        "read_write, a fifth in memory, slow SSD: transactions/s of the LSM tree over those of the B-tree",
        || sysbench("read_write"),
        |run| is_constrained(run, "read_write"),
        rate,
        (None, None),
        MIXED,
    ),
    lsm_over_btree(
        SYSBENCH,
        "read_only, a fifth in memory, slow SSD: the B-tree leads, by at most 1.6 times",
        || sysbench("read_only"),
        |run| is_constrained(run, "read_only"),
        rate,
        (Some(1.0 / 1.6), Some(1.0)),
        MIXED,
    ),
    redmine(
        "create_task, large, full load: mean time of the B-tree over that of the LSM tree, durability as published",
        || redmine_published("create_task"),
        |run| is_redmine(run, "create_task", 4.0, true),
        Some(2.0),
    ),
    redmine(
        "process_10_tasks, large, full load: mean time of the B-tree over that of the LSM tree, durability as published",
        || redmine_published("process_10_tasks"),
        |run| is_redmine(run, "process_10_tasks", 4.0, true),
        Some(1.6),
    ),
    redmine(
        "create_task, large, full load, equal durability: the same",
        || None,
        |run| is_redmine(run, "create_task", 4.0, false),
        None,
    ),
    redmine(
        "process_10_tasks, large, full load, equal durability: the same",
        || None,
        |run| is_redmine(run, "process_10_tasks", 4.0, false),
        None,
    ),
    growth(
        "create_task, large: the LSM tree's mean time under full load over that without load",
        || redmine_growth("create_task"),
        |run| is_redmine(run, "create_task", 4.0, true),
        |run| is_redmine(run, "create_task", 0.0, true),
    ),
    growth(
        "process_10_tasks, large: the LSM tree's mean time under full load over that without load",
        || redmine_growth("process_10_tasks"),
        |run| is_redmine(run, "process_10_tasks", 4.0, true),
        |run| is_redmine(run, "process_10_tasks", 0.0, true),
    ),
];

const fn redmine(
    claim: &'static str,
    published: fn() -> Option<(f64, f64)>,
    holds: fn(&ResultLine) -> bool,
    at_least: Option<f64>,
) -> Shape {
    let (of, by) = (side(BTREE, holds, mean_time), side(LSM, holds, mean_time));
    let alike = Alike::ButDurability;
    Shape {
        experiment: REDMINE,
        claim,
        published,
        of,
        by,
        relative_to: None,
        finer: None,
        alike,
        at_least,
        at_most: None,
        otherwise: DISK,
    }
}

const fn growth(
    claim: &'static str,
    published: fn() -> Option<(f64, f64)>,
    loaded: fn(&ResultLine) -> bool,
    idle: fn(&ResultLine) -> bool,
) -> Shape {
    let (of, by) = (side(LSM, loaded, mean_time), side(LSM, idle, mean_time));
    let (at_least, at_most) = (None, Some(1.4));
    Shape {
        experiment: REDMINE,
        claim,
        published,
        of,
        by,
        relative_to: None,
        finer: None,
        alike: Alike::ButLoad,
        at_least,
        at_most,
        otherwise: DISK,
    }
}

fn is_load(run: &ResultLine) -> bool {
    run.experiment == "insert" && run.workload == "l" && run.compressed == Some(false) && run.binlog_bytes.is_none()
}

/// About a fifth of the data in memory, by eight clients.
fn is_constrained(run: &ResultLine, workload: &str) -> bool {
    run.experiment == "sysbench"
        && run.workload == workload
        && run.threads == 8
        && exceeds(run)
        && is_on(run, "slow-ssd")
}

fn is_redmine(run: &ResultLine, operation: &str, load: f64, as_published: bool) -> bool {
    run.experiment == "redmine"
        && run.workload == operation
        && run.threads == 1
        && run.data_set.as_deref() == Some("large")
        && is_on(run, "hdd")
        && run.device_load == Some(load)
        && run.as_published == Some(as_published)
}

fn table(name: &str) -> Option<PublishedTable> {
    tables().into_iter().find(|table| table.name == name)
}

/// One figure as a range.
fn at(figure: f64) -> (f64, f64) {
    (figure, figure)
}

fn inverse((least, most): (f64, f64)) -> (f64, f64) {
    (1.0 / most, 1.0 / least)
}

fn range(figures: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    figures.map(at).reduce(|(least, most), (other, _)| (least.min(other), most.max(other)))
}

fn in_memory(clients: &str) -> Option<(f64, f64)> {
    let table = table("Insert benchmark, cached")?;
    let of = |engine, compaction| {
        table.figure(&[("engine", engine), ("compaction", compaction), ("binlog", "off")], clients)
    };
    Some(at(of("myrocks", "leveled")? / of("innodb-5.7.10", "")?))
}

fn beyond_memory(ssd: &str, column: &str) -> Option<(f64, f64)> {
    let table = table("Insert benchmark, slow and fast SSD")?;
    let of = |engine| table.figure(&[("database", "larger_than_memory"), ("ssd", ssd), ("engine", engine)], column);
    Some(at(of("myrocks")? / of("innodb-5.7")?))
}

fn own_transition(ssd: &str) -> Option<(f64, f64)> {
    let table = table("Insert benchmark, slow and fast SSD")?;
    let of = |database| table.figure(&[("database", database), ("ssd", ssd), ("engine", "myrocks")], "ips");
    Some(at(of("larger_than_memory")? / of("in_memory")?))
}

fn space_published() -> Option<(f64, f64)> {
    let table = table("Insert benchmark, space")?;
    let of = |engine| table.figure(&[("engine", engine)], "size_gb");
    Some(at(of("myrocks")? / of("innodb-5.7.10")?))
}

/// By 8 clients: the least and the most of the three sizes of memory.
fn sysbench(workload: &str) -> Option<(f64, f64)> {
    let table = table("sysbench")?;
    range(["32", "64", "128"].into_iter().filter_map(|memory| {
        let of = |engine| table.figure(&[("workload", workload), ("engine", engine), ("memory_gb", memory)], "t8");
        Some(of("myrocks")? / of("innodb")?)
    }))
}

/// By 1 client under full load: the two InnoDBs over MyRocks.
fn redmine_published(operation: &str) -> Option<(f64, f64)> {
    let table = table("Redmine")?;
    let conditions = [("dataset", "large"), ("operation", operation), ("clients", "1"), ("disk_load", "x4")];
    range(["mysql_slower", "mariadb_slower"].into_iter().filter_map(|column| table.figure(&conditions, column)))
}

fn redmine_growth(operation: &str) -> Option<(f64, f64)> {
    let table = table("Redmine")?;
    let of = |load| {
        let conditions = [("dataset", "large"), ("operation", operation), ("clients", "1"), ("disk_load", load)];
        table.figure(&conditions, "myrocks_s")
    };
    Some(at(of("x4")? / of("0")?))
}
