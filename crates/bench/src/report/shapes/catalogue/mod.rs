//! The shapes: what was published, and the bounds within which ours is like it.

use super::crossings::Line;
use super::side::Runs;
use super::{About, Figure, Shape, Side};

mod ads;
mod insert;
mod published;
mod redmine;
mod sysbench;

pub(super) use published::{mariadb, mariadb_rates, mariadb_worst};

/// The LSM tree.
pub(in crate::report) const LSM: &str = "lsm-leveled";
/// The same with RocksDB's write admission.
pub(super) const CLASSIC: &str = "lsm-classic";
/// The LSM tree that merges runs of about the same size.
const UNIVERSAL: &str = "lsm-universal";
/// The B-tree.
pub(in crate::report) const BTREE: &str = "btree";
/// The same as MySQL 8.4 sets it up by itself: without a change buffer.
pub(in crate::report) const MYSQL84: &str = "btree-mysql84";
/// The B-tree with the pages to write in the background of MySQL 8.4: by itself it has a hard disk's.
const BTREE_SSD: &str = "btree-ssd";
/// The same with pages that are compressed.
const COMPRESSED: &str = "btree-compressed";

/// All of them, in the order of the page.
pub(super) fn shapes() -> Vec<Shape> {
    [insert::shapes(), sysbench::shapes(), redmine::shapes(), ads::shapes()].concat()
}

/// What is compared along an axis, in the order of the page.
pub(super) fn lines() -> Vec<Line> {
    [insert::lines(), sysbench::lines()].concat()
}

/// One engine over another, everything else equal, without bounds.
fn over(
    experiment: &'static str,
    claim: impl Into<String>,
    (of, by): (&'static str, &'static str),
    runs: Runs,
    (figure, about): (Figure, About),
) -> Shape {
    let side = |engine| Side { engine, runs, figure };
    Shape { about, ..Shape::between(experiment, claim, side(of), side(by)) }
}
