//! The cells of the insert benchmark.

use super::{Cell, EVERY_SECOND, Experiment, a_fifth, with_such_peers};
use crate::all::{AllConfig, Scale};
use crate::engines::{Device, EngineKind, EngineSettings, Level0};
use crate::insert::{BinlogMode, IndexMode, InsertConfig, Schema, Step};
use siltstone_base::engine::Durability;

/// Bytes of a row with its entries.
const ROW: u64 = 90;

/// Memory for each byte of rows, where all are to be in memory: a B-tree that got its index entries in random order takes more than twice their bytes, and room for what changes.
const IN_MEMORY: u64 = 3;

/// Clients beyond the two of the other cells, as published.
const MANY_CLIENTS: [usize; 4] = [4, 8, 12, 16];

/// Limits of level 0: files at which it is compacted, writers are slowed down, and writers stop. In the publication slowing down at 10 files made the rates jagged, and 20 and 30 were taken in its place.
const LEVEL0: [(usize, usize, usize); 2] = [(4, 10, 20), (4, 20, 30)];

/// The write buffer beneath these limits: level 0 fills and empties dozens of times.
const SMALL_WRITE_BUFFER: usize = 16 << 20;

/// The longest that a load beneath these limits takes: long enough for two dozen rates of five seconds.
const LEVEL0_SECONDS: f64 = 150.0;

/// One LSM tree of each style, and the B-tree by one of its profiles: these cells have all in memory, where a change buffer has nothing to buffer.
const EACH_STYLE: [EngineKind; 3] = [EngineKind::LsmLeveled, EngineKind::LsmUniversal, EngineKind::Btree];

/// An interval where the faster engine inserts all rows in a few times the published five seconds. The page makes rates of five seconds of these where there are enough.
const SHORT_S: f64 = 1.0;

fn inserts(config: &AllConfig, rows: u64, clients: usize, steps: &str, settings: EngineSettings) -> InsertConfig {
    let mut engines = vec![EngineKind::LsmLeveled, EngineKind::LsmClassic, EngineKind::Btree, EngineKind::BtreeMysql84];
    if config.scale != Scale::Quick {
        engines.push(EngineKind::LsmUniversal);
    }
    InsertConfig {
        engines,
        rows,
        clients,
        rows_per_commit: 100,
        schema: Schema::Of2017,
        binlog: BinlogMode::Off,
        pairs: 1,
        steps: steps.split(',').filter_map(|step| step.parse::<Step>().ok()).collect(),
        index_modes: vec![IndexMode::Eager],
        updates: 0,
        more_rows: rows / 10,
        query_seconds: config.scale.of(2.0, 5.0, 20.0),
        // Without a change buffer a slow device takes many times as long as the others do: it ends with what it has by then.
        insert_seconds: Some(config.scale.of(60.0, 300.0, 1_200.0)),
        interval_s: 5.0,
        seed: config.seed,
        dir: None,
        settings,
    }
}

fn cell(name: String, about: &'static str, seconds: f64, insert: InsertConfig) -> Cell {
    Cell::new(name, about, insert.rows * ROW, seconds, Experiment::Insert(insert))
}

/// Settings with which all rows are in memory, on a device that is limited as the others are.
fn room_for(rows: u64) -> EngineSettings {
    let settings = EngineSettings {
        device: Device::FastSsd,
        durability: EVERY_SECOND,
        direct: true,
        compress: false,
        ..EngineSettings::default()
    };
    settings.with_memory((rows * ROW * IN_MEMORY).max(64 << 20) as usize)
}

/// With everything in memory.
pub(super) fn in_memory(config: &AllConfig, clients: usize) -> Cell {
    let rows = config.scale.of(300_000, 3_000_000, 10_000_000);
    let insert = inserts(config, rows, clients, "l,settle", room_for(rows));
    cell(format!("insert-memory-{clients}"), "insert benchmark in memory", rows as f64 / 60_000.0, insert)
}

/// With a fifth of the data in memory.
pub(super) fn beyond_memory(config: &AllConfig, device: Device) -> Cell {
    let steps = "l,settle,l.i1,l.i2,pause,qr100,qp100,qr500,qp500,qr1000,qp1000";
    let insert = beyond_memory_of(config, device, steps);
    let seconds = insert.rows as f64 / 23_000.0 + 6.0 * insert.query_seconds;
    cell(format!("insert-{device}"), "insert benchmark, a fifth in memory", seconds, insert)
}

fn beyond_memory_of(config: &AllConfig, device: Device, steps: &str) -> InsertConfig {
    let rows = config.scale.of(400_000, 4_000_000, 10_000_000);
    let settings = EngineSettings { device, durability: EVERY_SECOND, compress: false, ..a_fifth(rows * ROW) };
    InsertConfig { interval_s: SHORT_S, ..inserts(config, rows, 2, steps, settings) }
}

/// The LSM trees of [`beyond_memory`] several times more: all of it takes them seconds, and what they do before memory is exceeded is the first two or three of these.
fn crossing_memory(config: &AllConfig, device: Device) -> Cell {
    let insert = beyond_memory_of(config, device, "l,settle");
    let insert = InsertConfig { engines: vec![EngineKind::LsmLeveled, EngineKind::LsmClassic], pairs: 8, ..insert };
    let seconds = insert.rows as f64 / 26_000.0;
    cell(format!("insert-{device}-again"), "insert benchmark, a fifth in memory, the LSM trees again", seconds, insert)
}

/// In memory with every commit in a binlog, too.
pub(super) fn with_binlog(config: &AllConfig, binlog: BinlogMode) -> Cell {
    let rows = config.scale.of(50_000, 1_000_000, 2_000_000);
    let mut insert = InsertConfig { interval_s: SHORT_S, ..inserts(config, rows, 2, "l", room_for(rows)) };
    insert.binlog = binlog;
    insert.engines.retain(|engine| EACH_STYLE.contains(engine));
    let about = "insert benchmark in memory, with a binlog";
    cell(format!("insert-binlog-{binlog}"), about, rows as f64 / 30_000.0, insert)
}

/// In memory beside engines that do their own I/O: on the machine's own device, and all through the page cache, which some of them cannot pass. Every commit is synced, the only durability that all of them have;
/// LSM trees compress, as they do by default.
pub(super) fn beside_peers(config: &AllConfig) -> Option<Cell> {
    let rows = config.scale.of(50_000, 1_000_000, 2_000_000);
    let settings = EngineSettings {
        device: Device::None,
        durability: Durability::Commit,
        direct: false,
        compress: true,
        ..room_for(rows)
    };
    // With all in memory a change buffer has nothing to buffer: one profile of the B-tree is enough.
    let ours = [EngineKind::LsmLeveled, EngineKind::Btree];
    let engines = with_such_peers(config, &ours, |_| true);
    if engines.len() == ours.len() {
        return None;
    }
    let insert = InsertConfig { engines, ..inserts(config, rows, 1, "l,settle,qr100,qp100", settings) };
    let seconds = rows as f64 / 12_000.0 + 2.0 * insert.query_seconds;
    Some(cell("insert-peers".to_owned(), "insert benchmark in memory, beside other engines", seconds, insert))
}

/// What is run where there is more time than minutes: indexes that are added later, more clients, and the limits of level 0.
pub(super) fn for_longer(config: &AllConfig) -> Vec<Cell> {
    if config.scale == Scale::Quick {
        return Vec::new();
    }
    let mut cells = vec![indexes_later(config)];
    cells.extend(MANY_CLIENTS.map(|clients| many_clients(config, clients)));
    cells.extend([Device::FastSsd, Device::SlowSsd].map(|device| crossing_memory(config, device)));
    cells.extend([Device::FastSsd, Device::SlowSsd].map(|device| in_memory_beside(config, device)));
    cells.extend([Device::FastSsd, Device::SlowSsd].map(|device| flushing(config, device)));
    cells.extend(LEVEL0.map(|limits| within_level0(config, limits)));
    cells
}

/// The rows of [`beyond_memory`] with all of them in memory, and nothing else changed: the write buffers are the same, and the cache is larger.
fn in_memory_beside(config: &AllConfig, device: Device) -> Cell {
    let beyond = beyond_memory_of(config, device, "l");
    let settings = EngineSettings { cache_bytes: (beyond.rows * ROW * IN_MEMORY) as usize, ..beyond.settings.clone() };
    let insert = InsertConfig { engines: vec![EngineKind::LsmLeveled, EngineKind::Btree], settings, ..beyond };
    let seconds = insert.rows as f64 / 80_000.0;
    cell(format!("insert-{device}-in-memory"), "insert benchmark, the same rows in memory", seconds, insert)
}

/// The rows of [`beyond_memory`] in the B-tree that writes as many pages in the background as MySQL 8.4 lets it.
fn flushing(config: &AllConfig, device: Device) -> Cell {
    let insert = InsertConfig { engines: vec![EngineKind::BtreeSsd], ..beyond_memory_of(config, device, "l,settle") };
    let about = "insert benchmark, a fifth in memory, the B-tree flushing more";
    let seconds = insert.rows as f64 / 23_000.0;
    cell(format!("insert-{device}-flushing"), about, seconds, insert)
}

/// In memory, the indexes added to rows that are there.
fn indexes_later(config: &AllConfig) -> Cell {
    let rows = config.scale.of(300_000, 3_000_000, 6_000_000);
    let insert =
        InsertConfig { engines: EACH_STYLE.to_vec(), ..inserts(config, rows, 2, "l.i0,l.x,settle", room_for(rows)) };
    let about = "insert benchmark in memory, indexes added to the rows";
    cell("insert-memory-indexes-later".to_owned(), about, rows as f64 / 40_000.0, insert)
}

/// In memory, by more clients than the other cells have.
fn many_clients(config: &AllConfig, clients: usize) -> Cell {
    let rows = config.scale.of(300_000, 2_000_000, 4_000_000);
    let insert = InsertConfig {
        engines: EACH_STYLE.to_vec(),
        interval_s: SHORT_S,
        ..inserts(config, rows, clients, "l,settle", room_for(rows))
    };
    let about = "insert benchmark in memory, many clients";
    cell(format!("insert-memory-{clients}"), about, rows as f64 / 60_000.0, insert)
}

/// With the memory of [`beyond_memory`], which the B-tree exceeds in this time, too, both ways of write admission beneath limits of level 0, beside both profiles of the B-tree.
fn within_level0(config: &AllConfig, (compaction, slowdown, stop): (usize, usize, usize)) -> Cell {
    let rows = config.scale.of(400_000, 24_000_000, 40_000_000);
    let memory = a_fifth(config.scale.of(400_000, 4_000_000, 8_000_000) * ROW);
    let settings = EngineSettings {
        device: Device::SlowSsd,
        durability: EVERY_SECOND,
        compress: false,
        level0: Level0::of(compaction, slowdown, stop),
        cache_bytes: memory.memory_bytes() as usize - memory.write_buffers * SMALL_WRITE_BUFFER,
        write_buffer_bytes: SMALL_WRITE_BUFFER,
        ..memory
    };
    let insert = InsertConfig {
        engines: vec![EngineKind::LsmLeveled, EngineKind::LsmClassic, EngineKind::Btree, EngineKind::BtreeMysql84],
        insert_seconds: Some(config.scale.of(60.0, LEVEL0_SECONDS, 2.0 * LEVEL0_SECONDS)),
        ..inserts(config, rows, 2, "l", settings)
    };
    let name = format!("insert-level0-{compaction}-{slowdown}-{stop}");
    let seconds = config.scale.of(20.0, LEVEL0_SECONDS, 2.0 * LEVEL0_SECONDS);
    cell(name, "insert benchmark, larger than memory, limits of level 0", seconds, insert)
}
