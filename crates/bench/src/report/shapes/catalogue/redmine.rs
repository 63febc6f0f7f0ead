//! Redmine on a hard disk.

use super::published::{redmine as published, redmine_growth, redmine_space};
use super::{BTREE, LSM, over};
use crate::report::shapes::control::Label;
use crate::report::shapes::figures::{database_time, mean_time, space};
use crate::report::shapes::side::{On, Runs};
use crate::report::shapes::{About, Alike, Shape, Side};

const TITLE: &str = "Redmine";

/// The operations, and by what factor the LSM tree is faster under full load.
const OPERATIONS: [(&str, f64); 2] = [("create_task", 2.0), ("process_10_tasks", 1.6)];

/// Full load: so many application processes, and another stream that asks for so many times what the disk has.
const FULL: (u32, f64) = (4, 4.0);
/// No load: one process, and nothing else.
const NONE: (u32, f64) = (1, 0.0);

const DATA_SETS: [&str; 3] = ["small", "large", "giant"];

pub(super) fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    let times = "mean time of the B-tree over that of the LSM tree";
    let row = |claim: String, runs| Shape {
        alike: Alike::ButDurability,
        ..over(TITLE, claim, (BTREE, LSM), runs, (mean_time, About::Speed))
    };
    // The large data set is the one of which factors are asked.
    for data_set in ["large", "small"] {
        shapes.extend(OPERATIONS.map(|(operation, factor)| Shape {
            published: published(data_set, operation, "4", "x4"),
            at_least: (data_set == "large").then_some(factor),
            ..row(
                format!("{operation}, {data_set}, full load (4 processes, load x4): {times}, durability as published"),
                Runs { data_set: Some(data_set), ..of_operation(operation, FULL, true) },
            )
        }));
        shapes.extend(OPERATIONS.map(|(operation, _)| Shape {
            published: published(data_set, operation, "1", "0"),
            ..row(
                format!("{operation}, {data_set}, no load (1 process): {times}, durability as published"),
                Runs { data_set: Some(data_set), ..of_operation(operation, NONE, true) },
            )
        }));
    }
    shapes.extend(OPERATIONS.map(|(operation, _)| {
        let claim = format!("{operation}, large, full load (4 processes, load x4), equal durability: {times}");
        row(claim, of_operation(operation, FULL, false))
    }));
    shapes.extend(OPERATIONS.map(|(operation, _)| growth(operation)));
    // Most of a time is the application's, which no engine shortens: that of the database by itself is shown, and nothing is asked.
    shapes.extend(OPERATIONS.map(|(operation, _)| {
        let claim = format!("{operation}, large, full load (4 processes, load x4), equal durability: {times}");
        of_database(row(claim, of_operation(operation, FULL, false)))
    }));
    // Ten tasks without load find nothing in memory at first, which is most of what their few operations take.
    shapes.push(of_database(growth("create_task")));
    shapes.extend(DATA_SETS.map(|data_set| Shape {
        published: redmine_space(data_set),
        alike: Alike::ButDurability,
        ..over(
            TITLE,
            format!("{data_set} data set, once it is loaded: space of the LSM tree over that of the B-tree"),
            (LSM, BTREE),
            // The search adds nothing to what was loaded.
            Runs { data_set: Some(data_set), ..of_operation("search", NONE, true) },
            (space, About::Amount("MB on the device", 1_000_000)),
        )
    }));
    shapes
}

fn of_operation(operation: &'static str, (clients, load): (u32, f64), as_published: bool) -> Runs {
    Runs {
        experiment: "redmine",
        workload: operation,
        clients: Some(clients),
        load: Some(load),
        data_set: Some("large"),
        device: Some(On::Model("hdd")),
        as_published: Some(as_published),
        ..Runs::default()
    }
}

/// The same of the time that the database takes.
fn of_database(shape: Shape) -> Shape {
    Shape {
        claim: shape.claim + ", without the application's time",
        published: None,
        at_most: None,
        of: Side { figure: database_time, ..shape.of },
        by: Side { figure: database_time, ..shape.by },
        ..shape
    }
}

fn growth(operation: &'static str) -> Shape {
    let claim = format!(
        "{operation}, large: the LSM tree's mean time under full load (4 processes, load x4) over that of one process without load"
    );
    let full = of_operation(operation, FULL, true);
    let shape = over(TITLE, claim, (LSM, LSM), full, (mean_time, About::Speed));
    Shape {
        published: redmine_growth(operation),
        by: Side { runs: of_operation(operation, NONE, true), ..shape.by },
        rival: Some(Label::of(BTREE)),
        alike: Alike::ButLoadAndClients,
        at_most: Some(1.4),
        ..shape
    }
}
