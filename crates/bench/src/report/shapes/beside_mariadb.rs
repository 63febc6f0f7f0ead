//! Our engines beside InnoDB and MyRocks in MariaDB, on one machine and under the same limits: what `scripts/beside-mariadb` measures.

use super::catalogue::{BTREE, LSM};
use super::figures::rate;
use super::{Alike, Shape, Side};
use crate::ResultLine;

const TITLE: &str = "Beside MariaDB";
const INNODB: &str = "innodb";
const MYROCKS: &str = "myrocks";

/// So many times larger or smaller the ratio of our engines may be than that of theirs.
const FACTOR: f64 = 1.5;

const RATIOS: &str = "SQL and the network above InnoDB and MyRocks take the same from both, which brings their rates nearer to each other than those of engines alone.";
const COUNTERPART: &str = "What the engine does for an operation takes longer than its counterpart with SQL above it.";

type Holds = fn(&ResultLine) -> bool;

/// LSM tree over B-tree, over MyRocks over InnoDB.
const fn ratios(claim: &'static str, holds: Holds) -> Shape {
    Shape {
        experiment: TITLE,
        claim,
        published: || None,
        of: side_of(LSM, holds),
        by: side_of(BTREE, holds),
        relative_to: Some((side_of(MYROCKS, holds), side_of(INNODB, holds))),
        finer: None,
        alike: Alike::All,
        at_least: Some(1.0 / FACTOR),
        at_most: Some(FACTOR),
        otherwise: RATIOS,
    }
}

/// One of ours over its counterpart.
const fn counterpart(claim: &'static str, ours: &'static str, theirs: &'static str, holds: Holds) -> Shape {
    Shape {
        experiment: TITLE,
        claim,
        published: || None,
        of: side_of(ours, holds),
        by: side_of(theirs, holds),
        relative_to: None,
        finer: None,
        alike: Alike::All,
        at_least: Some(1.0),
        at_most: None,
        otherwise: COUNTERPART,
    }
}

const fn side_of(engine: &'static str, holds: Holds) -> Side {
    Side { engine, holds, figure: rate }
}

fn is(run: &ResultLine, workload: &str, is_limited: bool) -> bool {
    run.experiment == "mariadb"
        && run.workload == workload
        && (run.device.as_deref() != Some("unlimited")) == is_limited
}

/// All of them, in the order of the page.
pub(super) const BESIDE_MARIADB: &[Shape] = &[
    ratios("insert, limited device: rows/s of LSM tree over B-tree, over the same of MyRocks and InnoDB", |run| {
        is(run, "insert", true)
    }),
    ratios("read_only: transactions/s of LSM tree over B-tree, over the same of MyRocks and InnoDB", |run| {
        is(run, "read_only", false)
    }),
    ratios("read_only, limited device: the same", |run| is(run, "read_only", true)),
    ratios("read_write: the same", |run| is(run, "read_write", false)),
    ratios("read_write, limited device: the same", |run| is(run, "read_write", true)),
    ratios("write_only: the same", |run| is(run, "write_only", false)),
    ratios("write_only, limited device: the same", |run| is(run, "write_only", true)),
    counterpart("insert: the LSM tree over MyRocks", LSM, MYROCKS, |run| is(run, "insert", true)),
    counterpart("insert: the B-tree over InnoDB", BTREE, INNODB, |run| is(run, "insert", true)),
    counterpart("read_only: the LSM tree over MyRocks", LSM, MYROCKS, |run| is(run, "read_only", false)),
    counterpart("read_only: the B-tree over InnoDB", BTREE, INNODB, |run| is(run, "read_only", false)),
    counterpart("read_only, limited device: the LSM tree over MyRocks", LSM, MYROCKS, |run| is(run, "read_only", true)),
    counterpart("read_only, limited device: the B-tree over InnoDB", BTREE, INNODB, |run| is(run, "read_only", true)),
    counterpart("read_write: the LSM tree over MyRocks", LSM, MYROCKS, |run| is(run, "read_write", false)),
    counterpart("read_write: the B-tree over InnoDB", BTREE, INNODB, |run| is(run, "read_write", false)),
    counterpart("read_write, limited device: the LSM tree over MyRocks", LSM, MYROCKS, |run| {
        is(run, "read_write", true)
    }),
    counterpart("read_write, limited device: the B-tree over InnoDB", BTREE, INNODB, |run| is(run, "read_write", true)),
    counterpart("write_only: the LSM tree over MyRocks", LSM, MYROCKS, |run| is(run, "write_only", false)),
    counterpart("write_only: the B-tree over InnoDB", BTREE, INNODB, |run| is(run, "write_only", false)),
    counterpart("write_only, limited device: the LSM tree over MyRocks", LSM, MYROCKS, |run| {
        is(run, "write_only", true)
    }),
    counterpart("write_only, limited device: the B-tree over InnoDB", BTREE, INNODB, |run| is(run, "write_only", true)),
];
