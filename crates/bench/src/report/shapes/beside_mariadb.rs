//! Our engines beside InnoDB and MyRocks in MariaDB, on one machine and under the same limits: what `scripts/beside-mariadb` measures. What stands as published beside the ratio of InnoDB and MyRocks is from an earlier run of both.

use super::catalogue::{
    BTREE, LSM, mariadb as published, mariadb_rates as published_rates, mariadb_worst as published_worst,
};
use super::control::Label;
use super::figures::{one, rate, worst_interval};
use super::side::{On, Runs};
use super::{About, Shape, Side};

const TITLE: &str = "Beside MariaDB";
const INNODB: &str = "innodb";
const MYROCKS: &str = "myrocks";
/// Ours, whose clients take as much of the processor for a statement as SQL does in MariaDB.
const LSM_SQL: &str = "lsm-leveled+sql";
const BTREE_SQL: &str = "btree+sql";

/// So many times larger or smaller the ratio of our engines may be than that of theirs.
const FACTOR: f64 = 1.5;

/// The least rate of five seconds of an even insertion, in parts of the mean.
const EVEN: f64 = 0.5;

/// The workloads on the devices on which the script runs them: their names on the page.
const RUNS: [(&str, &str, On); 7] = [
    ("insert, limited device", "insert", On::Limited),
    ("read_only", "read_only", On::Unlimited),
    ("read_only, limited device", "read_only", On::Limited),
    ("read_write", "read_write", On::Unlimited),
    ("read_write, limited device", "read_write", On::Limited),
    ("write_only", "write_only", On::Unlimited),
    ("write_only, limited device", "write_only", On::Limited),
];

/// Those whose rates SQL's processor time decides, because no device keeps them waiting: with that time above our engines as well.
const WITH_SQL: [(&str, &str); 3] = [
    ("read_only, SQL's processor time above ours as well", "read_only"),
    ("read_write, SQL's processor time above ours as well", "read_write"),
    ("write_only, SQL's processor time above ours as well", "write_only"),
];

/// Ours with their counterparts.
const COUNTERPARTS: [(&str, &str, &str); 2] =
    [("the LSM tree over MyRocks", LSM, MYROCKS), ("the B-tree over InnoDB", BTREE, INNODB)];

/// The same with SQL's processor time above ours.
const COUNTERPARTS_WITH_SQL: [(&str, &str, &str); 2] = [
    ("the LSM tree with SQL's time over MyRocks", LSM_SQL, MYROCKS),
    ("the B-tree with SQL's time over InnoDB", BTREE_SQL, INNODB),
];

/// All of them, in the order of the page.
pub(super) fn shapes() -> Vec<Shape> {
    let ratios = RUNS.map(|(name, workload, device)| ratio(name, workload, device, (LSM, BTREE)));
    let with_sql = WITH_SQL.map(|(name, workload)| ratio(name, workload, On::Unlimited, (LSM_SQL, BTREE_SQL)));
    let counterparts = RUNS.into_iter().flat_map(|(name, workload, device)| {
        COUNTERPARTS.map(|(words, ours, theirs)| {
            let (of, by) = (side(ours, workload, device), side(theirs, workload, device));
            Shape { at_least: Some(1.0), ..Shape::between(TITLE, format!("{name}: {words}"), of, by) }
        })
    });
    // What SQL costs beyond its processor time is not in ours: these are shown, and nothing is asked.
    let counterparts_with_sql = WITH_SQL.into_iter().flat_map(|(_, workload)| {
        COUNTERPARTS_WITH_SQL.map(|(words, ours, theirs)| {
            let (of, by) = (side(ours, workload, On::Unlimited), side(theirs, workload, On::Unlimited));
            Shape::between(TITLE, format!("{workload}: {words}"), of, by)
        })
    });
    let counterparts = counterparts.chain(counterparts_with_sql);
    ratios.into_iter().chain(with_sql).chain(counterparts).chain(worst_intervals()).collect()
}

/// The ratio of our engines, over that of theirs.
fn ratio(name: &str, workload: &'static str, device: On, (lsm, btree): (&'static str, &'static str)) -> Shape {
    let claim = format!("{name}: rate of LSM tree over B-tree, over the same of MyRocks and InnoDB");
    let side = |engine| side(engine, workload, device);
    Shape {
        published: published(workload, device == On::Limited),
        published_amounts: published_rates(workload, device == On::Limited),
        relative_to: Some((side(MYROCKS), side(INNODB))),
        at_least: Some(1.0 / FACTOR),
        at_most: Some(FACTOR),
        ..Shape::between(TITLE, claim, side(lsm), side(btree))
    }
}

/// How deep the rate of inserting falls: the LSM tree's has a bound, MyRocks' is shown beside it. InnoDB, whose rate goes down for good, is what must not be called even.
fn worst_intervals() -> [Shape; 2] {
    let lines = [("the LSM tree's", LSM, Some(EVEN), None), ("MyRocks'", MYROCKS, None, published_worst())];
    lines.map(|(words, engine, at_least, published)| {
        let claim = format!("insert, limited device: {words} slowest five seconds over its mean");
        let runs = side(engine, "insert", On::Limited).runs;
        let of = Side { engine, runs, figure: worst_interval };
        Shape {
            about: About::Evenness,
            published,
            rival: Some(Label::of(INNODB)),
            at_least,
            ..Shape::between(TITLE, claim, of, Side { figure: one, ..of })
        }
    })
}

fn side(engine: &'static str, workload: &'static str, device: On) -> Side {
    let runs = Runs { experiment: "mariadb", workload, device: Some(device), ..Runs::default() };
    Side { engine, runs, figure: rate }
}
