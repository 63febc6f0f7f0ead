//! The cells of sysbench.

use super::{Cell, Experiment, second_phase, with_peers};
use crate::OfferedRates;
use crate::all::{AllConfig, Scale};
use crate::engines::{Device, EngineKind, EngineSettings};
use crate::sysbench::{MemorySetup, ROW_BYTES, SysbenchConfig, WARMED, Workload};
use siltstone_base::engine::Durability;

const TABLES: u32 = 4;

/// The least memory with which eight clients find pages for what they change at once.
const LEAST_MEMORY: u64 = 4 << 20;

/// The part of the runs before which what was loaded is copied, since rows were changed, or will be.
const COPIED: f64 = 0.6;

/// Bytes of that copy in a second.
const COPIED_PER_S: f64 = 1e8;

/// Bytes of all tables of so many rows each.
fn data_bytes(rows: u32) -> u64 {
    u64::from(rows) * u64::from(TABLES) * ROW_BYTES
}

/// Rows of each table where a part of all is in memory.
fn rows(config: &AllConfig) -> u32 {
    config.scale.of(28_000, 250_000, 500_000)
}

/// Seconds of a workload there.
fn seconds(config: &AllConfig) -> f64 {
    config.scale.of(3.0, 20.0, 29.0)
}

/// With so many fifths of the data in memory, every commit synced, past the page cache.
fn settings(rows: u32, fifths: u64, device: Device) -> EngineSettings {
    let memory = (data_bytes(rows) / 5 * fifths).max(LEAST_MEMORY) as usize;
    EngineSettings {
        device,
        durability: Durability::Commit,
        direct: true,
        ..EngineSettings::default().with_memory(memory)
    }
}

fn oltp(config: &AllConfig, rows: u32, workloads: &str, seconds: f64, settings: EngineSettings) -> SysbenchConfig {
    SysbenchConfig {
        engines: vec![EngineKind::LsmLeveled, EngineKind::Btree, EngineKind::BtreeMysql84],
        workloads: workloads.split(',').filter_map(|name| name.parse().ok()).collect(),
        tables: TABLES,
        rows,
        clients: vec![8],
        seconds,
        offered: OfferedRates::default(),
        statement_costs: Vec::new(),
        pairs: 1,
        interval_s: 5.0,
        seed: config.seed,
        dir: None,
        memory: MemorySetup::Budget,
        settings,
    }
}

/// About how many seconds an engine takes that loads so many bytes in one: the load, then each run with what comes before it.
fn length(sysbench: &SysbenchConfig, loaded_per_s: f64) -> f64 {
    let data = data_bytes(sysbench.rows) as f64;
    let workloads = sysbench.workloads.iter().filter(|workload| workload.has_clients()).count();
    let runs = workloads * sysbench.clients.len() * (1 + sysbench.offered.fractions.len());
    data / loaded_per_s + runs as f64 * (sysbench.seconds * (1.0 + 2.0 * WARMED) + COPIED * data / COPIED_PER_S)
}

/// On a slow device, with a fifth, two fifths and four fifths of the data in memory; with a fifth also in two phases. At night by more clients, of which a fifth has all numbers.
pub(super) fn parts_in_memory(config: &AllConfig) -> [Cell; 3] {
    let rows = rows(config);
    [("fifth", 1), ("two-fifths", 2), ("four-fifths", 4)].map(|(name, fifths)| {
        let settings = settings(rows, fifths, Device::SlowSsd);
        let mut sysbench = oltp(config, rows, Workload::DEFAULT, seconds(config), settings);
        if config.scale == Scale::Night {
            sysbench.clients.extend(if fifths == 1 { &[16, 32, 64][..] } else { &[64] });
        }
        if fifths == 1 {
            sysbench.offered = second_phase(config);
        }
        let about = "sysbench on a slow SSD, a part in memory";
        let length = length(&sysbench, 4e6);
        Cell::new(format!("sysbench-{name}"), about, data_bytes(rows), length, Experiment::Sysbench(sysbench))
    })
}

/// With the page cache in the place of a large block cache, in a cgroup with a third of the data's bytes; the machine's own device.
pub(super) fn page_cache(config: &AllConfig) -> Cell {
    let rows = config.scale.of(20_000, 1_000_000, 1_500_000);
    let data = data_bytes(rows);
    let memory = (data / 3).max(256 << 20) as usize;
    let seconds = config.scale.of(2.0, 20.0, 30.0);
    let settings = EngineSettings { durability: Durability::Commit, ..EngineSettings::default().with_memory(memory) };
    let workloads = "load,settle,read_only,read_write,write_only";
    let sysbench =
        SysbenchConfig { memory: MemorySetup::PageCache, ..oltp(config, rows, workloads, seconds, settings) };
    let length = length(&sysbench, 8e6);
    let about = "sysbench in a memory cgroup, by the page cache";
    Cell::new("sysbench-page-cache", about, data, length, Experiment::Sysbench(sysbench))
}

/// With a fifth of the data in memory, beside engines that do their own I/O: on the machine's own device. Those that cannot pass the page cache would have all of the machine's memory, and are not there.
pub(super) fn beside_peers(config: &AllConfig) -> Option<Cell> {
    let rows = rows(config);
    let settings = settings(rows, 1, Device::None);
    let mut sysbench = oltp(config, rows, Workload::DEFAULT, seconds(config), settings);
    let ours = sysbench.engines.len();
    sysbench.engines = with_peers(config, &sysbench.engines);
    let about = "sysbench beside other engines, a fifth in memory";
    let length = length(&sysbench, 4e6);
    let has_peers = sysbench.engines.len() > ours;
    has_peers.then(|| Cell::new("sysbench-peers", about, data_bytes(rows), length, Experiment::Sysbench(sysbench)))
}
