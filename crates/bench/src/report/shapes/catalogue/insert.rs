//! The insert benchmark.

use super::published::{
    beyond_memory, in_memory, inverse, own_beside_memory, space_per_row as space_published, untrimmed,
};
use super::{BTREE, BTREE_SSD, CLASSIC, LSM, UNIVERSAL, over};
use crate::report::shapes::control::Label;
use crate::report::shapes::crossings::Line;
use crate::report::shapes::figures::{
    BY_SECONDS, one, rate, settled_rate, settled_written_per_row, space_per_row, transition, variation,
    variation_of_seconds,
};
use crate::report::shapes::side::{Binlog, Level0, Memory, On, Runs};
use crate::report::shapes::{About, Alike, Shape, Side};

const TITLE: &str = "Insert benchmark";

/// Clients, as published, and whether the LSM tree has to be as fast as the B-tree, which is a goal of ours where it was not in the publication; and on how many cores that counts.
const CLIENTS: [(u32, bool, Option<u32>); 6] =
    [(1, true, None), (2, true, None), (4, false, None), (8, true, MANY), (12, true, MANY), (16, true, MANY)];
const MANY: Option<u32> = Some(8);

/// The modelled devices: their names, the published ones, and by what factor the LSM tree is faster.
const SSDS: [(&str, &str, &str, f64); 2] =
    [("fast SSD", "fast-ssd", "fast", 1.7), ("slow SSD", "slow-ssd", "slow", 2.2)];

/// What the binlog is, how it is called, and under what name there are published figures.
const BINLOGS: [(Binlog, &str, Option<&str>); 2] =
    [(Binlog::Os, "binlog left to the system", Some("on")), (Binlog::Sync, "binlog synced at every commit", None)];

/// Files in level 0 at which writers are slowed down.
const SLOWDOWNS: [&str; 2] = ["10", "20"];

const LOAD: Runs = Runs {
    experiment: "insert",
    workload: "l",
    clients: None,
    device: None,
    memory: None,
    is_compressed: Some(false),
    binlog: Some(Binlog::Off),
    page_cache: None,
    data_set: None,
    load: None,
    as_published: None,
    level0: Level0::Own,
    may_end_early: false,
};

fn beyond(device: &'static str) -> Runs {
    Runs { memory: Some(Memory::Beyond), device: Some(On::Model(device)), ..LOAD }
}

pub(super) fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    shapes.extend(CLIENTS.map(cached));
    shapes.extend(CLIENTS.map(universal));
    shapes.extend(BINLOGS.into_iter().flat_map(with_binlog));
    shapes.extend(SSDS.map(|(name, device, ssd, factor)| Shape {
        published: beyond_memory(ssd, "ips"),
        at_least: Some(factor),
        ..rates(format!("larger than memory, {name}: {LSM_OVER_BTREE}"), LSM, beyond(device))
    }));
    shapes.extend(SSDS.map(|(name, device, ssd, _)| Shape {
        published: beyond_memory(ssd, "ips"),
        ..over(
            TITLE,
            format!("larger than memory, {name}: {LSM_OVER_BTREE}, until nothing is left to flush and to compact"),
            (LSM, BTREE),
            beyond(device),
            (settled_rate, About::Speed),
        )
    }));
    shapes.extend(SSDS.map(|(name, device, ssd, _)| {
        let claim = format!("larger than memory, {name}: {LSM_OVER_BTREE} with the io_capacity of MySQL 8.4");
        let shape = rates(claim, LSM, beyond(device));
        let by = Side { engine: BTREE_SSD, ..shape.by };
        Shape { published: beyond_memory(ssd, "ips"), by, ..shape }
    }));
    shapes.extend(SSDS.into_iter().flat_map(|(name, device, ssd, _)| beside_memory(name, device, ssd)));
    shapes.extend(SSDS.into_iter().flat_map(|(name, device, ..)| transitions(name, device)));
    shapes.extend(SSDS.map(|(name, device, ssd, _)| Shape {
        published: beyond_memory(ssd, "write_kb_per_insert").map(inverse).map(untrimmed),
        at_least: Some(2.5),
        ..over(
            TITLE,
            format!("larger than memory, {name}: KB written a row by the B-tree over those by the LSM tree, until nothing is left to flush and to compact"),
            (BTREE, LSM),
            beyond(device),
            (settled_written_per_row, About::Amount("KB written a row", 1)),
        )
    }));
    shapes.push(Shape {
        published: space_published().map(|(myrocks, innodb)| (myrocks / innodb, myrocks / innodb)),
        published_amounts: space_published(),
        at_most: Some(0.65),
        ..over(
            TITLE,
            "space of the LSM tree over that of the B-tree, nothing compressed, once all is settled",
            (LSM, BTREE),
            Runs { workload: "settle", binlog: None, device: Some(On::NotOwn), ..LOAD },
            (space_per_row, About::Amount("bytes a row on the device", 1)),
        )
    });
    shapes.extend(variations("slow SSD", beyond("slow-ssd")));
    shapes.extend(SLOWDOWNS.into_iter().flat_map(|files| {
        // Their time is limited: the B-tree ends with fewer rows.
        let runs = Runs { level0: Level0::Slowdown(files), may_end_early: true, ..beyond("slow-ssd") };
        let name = format!("slow SSD, writers slowed down at {files} files in level 0");
        variations(&name, runs).into_iter().chain(variations_of_seconds(&name, runs))
    }));
    shapes
}

/// Both styles of compaction by the number of clients.
pub(super) fn lines() -> Vec<Line> {
    type Of = fn((u32, bool, Option<u32>)) -> Shape;
    let styles: [(&str, Of); 2] = [("leveled", cached), ("universal", universal)];
    let line = |(style, of): (&str, Of)| Line {
        experiment: TITLE,
        claim: format!("in memory, {style} compaction: {LSM_OVER_BTREE}, by clients"),
        points: CLIENTS.map(|point| (clients_words(point.0), of(point))).to_vec(),
    };
    styles.map(line).to_vec()
}

const LSM_OVER_BTREE: &str = "rows/s of the LSM tree over those of the B-tree";

fn rates(claim: String, lsm: &'static str, runs: Runs) -> Shape {
    over(TITLE, claim, (lsm, BTREE), runs, (rate, About::Speed))
}

fn clients_words(clients: u32) -> String {
    format!("{clients} client{}", if clients == 1 { "" } else { "s" })
}

fn of_clients(clients: u32) -> (String, Runs) {
    let name = format!("in memory, {}", clients_words(clients));
    (name, Runs { memory: Some(Memory::All), clients: Some(clients), ..LOAD })
}

fn cached((clients, has_bound, least_cores): (u32, bool, Option<u32>)) -> Shape {
    let (name, runs) = of_clients(clients);
    Shape {
        published: in_memory("leveled", "off", clients),
        at_least: has_bound.then_some(1.0),
        least_cores,
        ..rates(format!("{name}: {LSM_OVER_BTREE}"), LSM, runs)
    }
}

fn universal((clients, has_bound, least_cores): (u32, bool, Option<u32>)) -> Shape {
    let (name, runs) = of_clients(clients);
    let claim = format!("universal compaction, {name}: {LSM_OVER_BTREE}");
    Shape {
        published: in_memory("universal", "off", clients),
        at_least: has_bound.then_some(1.0),
        least_cores,
        ..rates(claim, UNIVERSAL, runs)
    }
}

fn with_binlog((binlog, how, name): (Binlog, &'static str, Option<&'static str>)) -> [Shape; 2] {
    let clients = 2;
    [(LSM, "leveled"), (UNIVERSAL, "universal")].map(|(engine, compaction)| {
        let (about, runs) = of_clients(clients);
        let claim = format!("{how}, {compaction} compaction, {about}: {LSM_OVER_BTREE}");
        let runs = Runs { binlog: Some(binlog), ..runs };
        Shape { published: name.and_then(|name| in_memory(compaction, name, clients)), ..rates(claim, engine, runs) }
    })
}

/// An engine beside itself, by its name in words and in the publication: the LSM tree has a bound, the B-tree is shown beside it.
const OWN: [(&str, &str, &str, Option<f64>); 2] =
    [("LSM tree", LSM, "myrocks", Some(0.85)), ("B-tree", BTREE, "innodb-5.7", None)];

/// The other of both.
fn rival(engine: &str) -> Option<Label> {
    Some(Label::of(if engine == LSM { BTREE } else { LSM }))
}

/// Each engine's rate with data larger than memory over its own with all in memory, two runs, as published.
fn beside_memory(name: &str, device: &'static str, ssd: &str) -> [Shape; 2] {
    OWN.map(|(words, engine, published, at_least)| {
        let claim =
            format!("{name}: the {words}'s rows/s larger than memory over its own with a cache for all, a run of each");
        let shape = over(TITLE, claim, (engine, engine), beyond(device), (rate, About::Crossing));
        let in_memory = Runs { memory: Some(Memory::AllInCache), ..shape.by.runs };
        Shape {
            published: own_beside_memory(ssd, published),
            by: Side { runs: in_memory, ..shape.by },
            rival: rival(engine),
            alike: Alike::ButMemory,
            at_least,
            ..shape
        }
    })
}

/// Each engine's rate within one run, once the data exceeds memory over its own before, of which nothing was published.
fn transitions(name: &str, device: &'static str) -> [Shape; 2] {
    OWN.map(|(words, engine, _, at_least)| {
        let claim =
            format!("{name}: the {words}'s rows/s once the data exceeds memory over its own before, within a run");
        let shape = over(TITLE, claim, (engine, engine), beyond(device), (transition, About::Crossing));
        Shape { by: Side { figure: one, ..shape.by }, rival: rival(engine), at_least, ..shape }
    })
}

/// The same of the rates of one second: level 0 of a small tree fills and empties within five.
fn variations_of_seconds(name: &str, runs: Runs) -> [Shape; 2] {
    let figure = variation_of_seconds as super::Figure;
    variations(name, runs).map(|shape| Shape {
        claim: shape.claim.replace("5-s", "1-s"),
        of: Side { figure, ..shape.of },
        by: Side { figure, ..shape.by },
        finer: None,
        ..shape
    })
}

/// How even rates are: ours beside the B-tree, and RocksDB's admission beside ours.
fn variations(name: &str, runs: Runs) -> [Shape; 2] {
    let what = "5-s rates about their moving median of 15";
    let claim = format!("{name}: variation of the LSM tree's {what} over that of the B-tree's");
    let classic = format!("{name}: variation of the {what} under RocksDB's write admission over that under ours");
    let figure = (variation as super::Figure, About::Evenness);
    [
        Shape { at_most: Some(1.0), finer: Some(BY_SECONDS), ..over(TITLE, claim, (LSM, BTREE), runs, figure) },
        Shape { at_least: Some(2.0), finer: Some(BY_SECONDS), ..over(TITLE, classic, (CLASSIC, LSM), runs, figure) },
    ]
}
