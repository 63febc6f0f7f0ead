//! Ad serving: rows of the ladder beside the B-tree with compressed pages whose old rows a job deletes.

use super::published::{ads as published, expired as incident, inverse};
use super::{COMPRESSED, LSM, over};
use crate::report::shapes::control::Label;
use crate::report::shapes::figures::{
    expired, idle_expired, one, peak_of_writing, processor_time, read_from_device, read_from_files, space,
    written_per_upsert,
};
use crate::report::shapes::side::Runs;
use crate::report::shapes::{About, Alike, Figure, Shape, Side};

const TITLE: &str = "Ad serving";

/// The rows with the engine's own expiry.
const EXPIRING: [&str; 2] = ["ttl", "dense"];
/// The row in which nobody looks after what is idle.
const OFF: &str = "expiry-off";
const BTREE_ROW: &str = "daily-deletes";

/// So much may be expired at most.
const MOST_EXPIRED: f64 = 0.15;

/// What may be expired, in words.
const SHARES: [(&str, Figure); 2] =
    [("of all that tables hold, the largest expired part", expired), ("of the idle third, the same", idle_expired)];

pub(super) fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    shapes.extend(EXPIRING.map(|row| Shape {
        published: published("dataset"),
        at_most: Some(0.5),
        by: Side { engine: COMPRESSED, runs: of_row(BTREE_ROW), figure: space },
        ..of_lsm(
            row,
            format!("row {row}: space over that of the B-tree with compressed pages"),
            (space, About::Amount("MB on the device", 1_000_000)),
        )
    }));
    shapes.extend(EXPIRING.map(|row| {
        let claim = format!(
            "row {row}: bytes written an upsert by the B-tree with compressed pages over those by the LSM tree"
        );
        let lsm = of_lsm(row, claim, (written_per_upsert, About::Amount("bytes written an upsert", 1)));
        Shape {
            published: published("write_bandwidth_2h_average").map(inverse),
            at_least: Some(8.0),
            of: Side { engine: COMPRESSED, runs: of_row(BTREE_ROW), figure: written_per_upsert },
            ..lsm
        }
    }));
    shapes.extend(EXPIRING.map(|row| Shape {
        published: published("cpu"),
        by: Side { engine: COMPRESSED, runs: of_row(BTREE_ROW), figure: processor_time },
        ..of_lsm(
            row,
            format!("row {row}: processor time over that of the B-tree with compressed pages"),
            (processor_time, About::Amount("s of processor time", 1)),
        )
    }));
    // The page cache has most of what the LSM tree reads: what it asked of the system counts as read.
    shapes.extend(EXPIRING.map(|row| Shape {
        published: published("read_bandwidth_2h_average"),
        by: Side { engine: COMPRESSED, runs: of_row(BTREE_ROW), figure: read_from_device },
        ..of_lsm(
            row,
            format!("row {row}: bytes read, with those from the page cache, over what the device read for the B-tree with compressed pages"),
            (read_from_files, About::Amount("MB read", 1_000_000)),
        )
    }));
    shapes.extend(EXPIRING.map(|row| {
        let claim = format!("row {row}: what was written in the busiest ten seconds over the mean");
        let shape =
            of_lsm(row, claim, (peak_of_writing, About::Amount("times the mean in its busiest ten seconds", 1)));
        Shape { by: Side { figure: one, ..shape.by }, ..shape }
    }));
    shapes.extend(EXPIRING.into_iter().flat_map(|row| {
        SHARES.map(|(what, figure)| Shape { at_most: Some(MOST_EXPIRED), ..share(row, what, figure) })
    }));
    shapes.extend(SHARES.map(|(what, figure)| Shape { published: incident(), ..share(OFF, what, figure) }));
    shapes
}

fn of_row(row: &'static str) -> Runs {
    Runs { experiment: "ads", workload: row, ..Runs::default() }
}

fn of_lsm(row: &'static str, claim: String, figure: (Figure, About)) -> Shape {
    Shape { alike: Alike::ButStep, ..over(TITLE, claim, (LSM, LSM), of_row(row), figure) }
}

/// A part of what a row of the ladder holds. The control puts the row in its place in which nothing is done.
fn share(row: &'static str, what: &str, figure: Figure) -> Shape {
    let shape = of_lsm(row, format!("row {row}: {what}"), (figure, About::Amount("of 1 expired", 1)));
    Shape { by: Side { figure: one, ..shape.by }, rival: Some(Label { engine: LSM, step: Some(OFF) }), ..shape }
}
