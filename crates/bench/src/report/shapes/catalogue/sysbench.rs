//! sysbench.

use super::published::{Range, sysbench as published};
use super::{BTREE, LSM, MYSQL84, over};
use crate::report::shapes::crossings::Line;
use crate::report::shapes::figures::rate;
use crate::report::shapes::side::{Memory, On, Runs};
use crate::report::shapes::{About, Shape, Side};

const TITLE: &str = "sysbench";

/// The mixes, and the bounds with a fifth of the data in memory: what is read only may be up to 1.6 times as fast in the B-tree.
const MIXES: [(&str, Option<f64>, Option<f64>); 3] =
    [("write_only", Some(1.4), None), ("read_write", None, None), ("read_only", Some(1.0 / 1.6), Some(1.0))];

/// The published sizes of memory, in GB, that are less and more than the third of the data that a memory cgroup has.
const A_THIRD: [&str; 2] = ["32", "64"];

/// The one that is about a fifth of the data.
const A_FIFTH: &str = "32";

/// The other parts of the data in memory, with the published size of memory that is about as much.
const PARTS: [(&str, f64, &str); 2] = [("two fifths", 2.0, "64"), ("four fifths", 4.0, "128")];

const CLIENTS: u32 = 8;

pub(super) fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    shapes.extend(MIXES.map(|(mix, at_least, at_most)| {
        let about = match at_most {
            Some(_) => "the B-tree leads, by at most 1.6 times",
            None => "transactions/s of the LSM tree over those of the B-tree",
        };
        let claim = format!("{mix}, a fifth in memory, slow SSD: {about}");
        let shape = row(claim, on_slow_ssd(mix, Memory::Beyond), published(mix, &[A_FIFTH]));
        Shape { at_least, at_most, ..shape }
    }));
    shapes.extend(PARTS.into_iter().flat_map(|(part, fifths, memory)| {
        MIXES.map(|(mix, ..)| {
            let claim = format!("{mix}, {part} in memory, slow SSD: LSM tree over B-tree; published: {memory} GB");
            row(claim, on_slow_ssd(mix, Memory::Fifths(fifths)), published(mix, &[memory]))
        })
    }));
    shapes.extend(MIXES.map(|(mix, ..)| {
        let claim = format!("{mix}, a fifth in memory, slow SSD: LSM tree over the B-tree as MySQL 8.4 sets it up");
        let shape = row(claim, on_slow_ssd(mix, Memory::Beyond), published(mix, &[A_FIFTH]));
        Shape { by: Side { engine: MYSQL84, ..shape.by }, ..shape }
    }));
    shapes.extend([(BTREE, "B-tree"), (MYSQL84, "the B-tree as MySQL 8.4 sets it up")].into_iter().flat_map(
        |(btree, name)| {
            MIXES.map(|(mix, ..)| {
                let runs = Runs { page_cache: Some(true), memory: Some(Memory::Half), ..of_mix(mix) };
                let claim = format!("{mix}, in a memory cgroup of a third, the LSM tree by the page cache: LSM tree over {name}; published: 32 and 64 GB");
                let shape = row(claim, runs, published(mix, &A_THIRD));
                Shape { by: Side { engine: btree, ..shape.by }, ..shape }
            })
        },
    ));
    shapes
}

/// Each mix by how much of the data is in memory.
pub(super) fn lines() -> Vec<Line> {
    let parts = [("a fifth", 1.0, A_FIFTH)].into_iter().chain(PARTS);
    let line = |(mix, ..): (&'static str, Option<f64>, Option<f64>)| {
        let point = |(part, fifths, memory): (&str, f64, &str)| {
            let runs = on_slow_ssd(mix, Memory::Fifths(fifths));
            (format!("{part} in memory"), row(String::new(), runs, published(mix, &[memory])))
        };
        Line {
            experiment: TITLE,
            claim: format!("{mix}, slow SSD, {CLIENTS} clients: LSM tree over B-tree, by memory"),
            points: parts.clone().map(point).collect(),
        }
    };
    MIXES.map(line).to_vec()
}

fn of_mix(mix: &'static str) -> Runs {
    Runs { experiment: "sysbench", workload: mix, clients: Some(CLIENTS), ..Runs::default() }
}

fn on_slow_ssd(mix: &'static str, memory: Memory) -> Runs {
    Runs { memory: Some(memory), device: Some(On::Model("slow-ssd")), page_cache: Some(false), ..of_mix(mix) }
}

fn row(claim: String, runs: Runs, published: Range) -> Shape {
    Shape { published, ..over(TITLE, claim, (LSM, BTREE), runs, (rate, About::Speed)) }
}
