//! The cells of a run, and how large they are.

use super::{AllConfig, Scale};
use crate::ads::AdsConfig;
use crate::engines::{Device, EngineKind, EngineSettings, UNIVERSAL};
use crate::insert::{BinlogMode, InsertConfig};
use crate::kv::KvConfig;
use crate::redmine::{DataSet, Operation, RedmineConfig};
use crate::stalls::{Offered, StallsConfig, Step, WARM_UP_S};
use crate::sysbench::SysbenchConfig;
use crate::ycsb::YcsbConfig;
use crate::{OfferedRates, kv, machine, ycsb};
use siltstone_base::checksum::xxh3_64;
use siltstone_base::engine::Durability;
use std::path::{Path, PathBuf};

mod inserts;
mod oltp;

/// An experiment with its configuration.
#[derive(Debug, Clone)]
pub enum Experiment {
    /// Of `kv`.
    Kv(KvConfig),
    /// Of `ycsb`.
    Ycsb(YcsbConfig),
    /// Of `insert`.
    Insert(InsertConfig),
    /// Of `sysbench`.
    Sysbench(SysbenchConfig),
    /// Of `redmine`: one data set under one load.
    Redmine(RedmineConfig),
    /// Of `stalls`.
    Stalls(StallsConfig),
    /// Of `ads`.
    Ads(AdsConfig),
}

impl Experiment {
    /// The engines whose databases are there at the same time.
    pub(super) fn engines(&self) -> &[EngineKind] {
        match self {
            Self::Kv(config) => &config.engines,
            Self::Ycsb(config) => &config.engines,
            Self::Insert(config) => &config.engines,
            Self::Sysbench(config) => &config.engines,
            Self::Redmine(config) => &config.engines,
            Self::Stalls(config) => &config.engines,
            // One database after the other.
            Self::Ads(_) => &[EngineKind::BtreeCompressed],
        }
    }

    /// Where its databases are, and what engines are opened with.
    fn parts_mut(&mut self) -> (&mut Option<PathBuf>, &mut EngineSettings) {
        match self {
            Self::Kv(config) => (&mut config.dir, &mut config.settings),
            Self::Ycsb(config) => (&mut config.dir, &mut config.settings),
            Self::Insert(config) => (&mut config.dir, &mut config.settings),
            Self::Sysbench(config) => (&mut config.dir, &mut config.settings),
            Self::Redmine(config) => (&mut config.dir, &mut config.settings),
            Self::Stalls(config) => (&mut config.dir, &mut config.settings),
            Self::Ads(config) => (&mut config.dir, &mut config.settings),
        }
    }
}

/// One cell of the plan.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Its name, unique within the plan, and that of its file of results.
    pub name: String,
    /// What it is about, in a few words.
    pub about: &'static str,
    /// Bytes of disk that its largest database takes, with room for compactions.
    pub disk_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// About how long it takes on two cores.
    pub seconds: f64,
    experiment: Experiment,
}

/// Bytes of an engine's tables for each byte of rows, while compactions run; B-trees are half empty after random inserts.
const SPACE_FOR_A_BYTE: f64 = 2.5;

/// Log and device agree once a second, on every engine.
const EVERY_SECOND: Durability = Durability::EveryMillis(1_000);

/// What a process takes beside the engine's memory.
const PROCESS_BYTES: u64 = 200 << 20;

/// Bytes of a YCSB record.
const YCSB_RECORD: u64 = 1_023;

impl Cell {
    fn new(
        name: impl Into<String>,
        about: &'static str,
        data_bytes: u64,
        seconds: f64,
        mut experiment: Experiment,
    ) -> Self {
        let memory = match &mut experiment {
            Experiment::Redmine(config) => config.most_memory(),
            other => other.parts_mut().1.memory_bytes(),
        };
        // Databases of all engines stay until the cell ends, and what an engine loaded stays beside the copy that it changes.
        let has_copy = matches!(experiment, Experiment::Sysbench(_) | Experiment::Redmine(_));
        let engines = experiment.engines();
        let tables = (data_bytes as f64 * SPACE_FOR_A_BYTE) as u64;
        let database = |engine: &EngineKind| tables + engine.reserved_log_bytes();
        let copy = engines.iter().map(database).max().filter(|_| has_copy).unwrap_or(0);
        Self {
            name: name.into(),
            about,
            disk_bytes: engines.iter().map(database).sum::<u64>() + copy,
            memory_bytes: memory + PROCESS_BYTES,
            seconds: seconds * engines.len() as f64,
            experiment,
        }
    }

    /// The experiment, with its databases in `dir`.
    pub(super) fn experiment(&self, databases: &Path) -> Experiment {
        let mut experiment = self.experiment.clone();
        *experiment.parts_mut().0 = Some(databases.to_path_buf());
        experiment
    }

    #[cfg(test)]
    pub(super) fn experiment_mut(&mut self) -> &mut Experiment {
        &mut self.experiment
    }

    /// What its file of results names as its cell: another for every other experiment, down to the last setting. What results name as their configuration is the same for all that may be
    /// compared, whichever engines and steps there were and however long they took.
    pub(super) fn identity(&self) -> String {
        let mut words = format!("{:?}", self.experiment);
        // No setting says this. Cells without that engine keep the names that they had before it was said.
        if self.experiment.engines().contains(&EngineKind::LsmUniversal) {
            words += &format!(" universal {UNIVERSAL}");
        }
        // Nor these.
        if matches!(self.experiment, Experiment::Stalls(_)) {
            words += &format!(" warm-up {WARM_UP_S}");
        }
        // Nor that these steps flush first.
        if let Experiment::Insert(config) = &self.experiment
            && config.steps.contains(&crate::insert::Step::Settle)
        {
            words += " settled flushed";
        }
        // Nor when tables get their index.
        if matches!(self.experiment, Experiment::Sysbench(_)) {
            words += " index after rows";
        }
        // Nor this, of which the application's time is made, nor that what was loaded is flushed and drained.
        if let Experiment::Redmine(config) = &self.experiment {
            let requests: Vec<_> = config.operations.iter().map(|operation| operation.requests()).collect();
            words += &format!(" requests {requests:?} loaded drained");
        }
        format!("{:016x}", xxh3_64(words.as_bytes()))
    }
}

/// The cells of a run, in the order in which they are run.
pub fn plan(config: &AllConfig) -> Vec<Cell> {
    let mut cells = vec![key_value(config), popular_records(config)];
    cells.extend([1, 2].map(|clients| inserts::in_memory(config, clients)));
    cells.extend([Device::FastSsd, Device::SlowSsd].map(|device| inserts::beyond_memory(config, device)));
    cells.extend([BinlogMode::Os, BinlogMode::Sync].map(|binlog| inserts::with_binlog(config, binlog)));
    cells.extend(inserts::for_longer(config));
    cells.extend(inserts::beside_peers(config));
    cells.extend(oltp::parts_in_memory(config));
    cells.push(oltp::page_cache(config));
    cells.extend(oltp::beside_peers(config));
    cells.extend(redmine(config));
    cells.push(evenness(config));
    cells.push(ad_serving(config));
    let jobs = background_jobs(machine::cores());
    cells.iter_mut().for_each(|cell| cell.experiment.parts_mut().1.background_jobs = jobs);
    cells
}

/// Flushes and compactions of LSM trees at the same time: half of the cores are for them, and two of a machine with few.
pub(super) fn background_jobs(cores: Option<u32>) -> usize {
    cores.map_or(2, |cores| cores as usize / 2).max(2)
}

/// Data of so many bytes under a fifth of that in memory, past the page cache.
fn a_fifth(data_bytes: u64) -> EngineSettings {
    let memory = (data_bytes / 5).max(16 << 20) as usize;
    EngineSettings { direct: true, ..EngineSettings::default().with_memory(memory) }
}

/// Ours, and those of the others that read and write past the page cache.
fn with_peers(config: &AllConfig, ours: &[EngineKind]) -> Vec<EngineKind> {
    with_such_peers(config, ours, EngineKind::has_direct_io)
}

/// Ours, and those of the others that can run the cell.
fn with_such_peers(config: &AllConfig, ours: &[EngineKind], can: fn(EngineKind) -> bool) -> Vec<EngineKind> {
    let others = config.peers.iter().filter(|peer| can(**peer) && !ours.contains(peer));
    ours.iter().chain(others).copied().collect()
}

fn key_value(config: &AllConfig) -> Cell {
    let num = config.scale.of(150_000, 1_000_000, 2_000_000);
    let experiment = Experiment::Kv(KvConfig {
        engines: with_peers(config, &[EngineKind::LsmLeveled, EngineKind::LsmUniversal, EngineKind::Btree]),
        workloads: kv::Workload::DEFAULT.split(',').filter_map(|name| name.parse().ok()).collect(),
        num,
        value_size: 100,
        threads: 1,
        batch: 1,
        rate: None,
        pairs: 1,
        existing: false,
        interval_s: 5.0,
        seed: config.seed,
        dir: None,
        settings: a_fifth(num * 116),
    });
    Cell::new("kv", "db_bench's workloads, a part in memory", num * 116, num as f64 / 2_000.0, experiment)
}

/// What is offered after a closed loop: a part of the rate that an engine had there. Minutes have no time for it.
fn second_phase(config: &AllConfig) -> OfferedRates {
    let fractions = if config.scale == Scale::Quick { Vec::new() } else { vec![0.8] };
    OfferedRates { fractions, rates: Vec::new() }
}

/// How many times as long as a closed loop both phases of as many operations take: at a part of the rate, so many times longer.
fn both_phases(offered: &OfferedRates) -> f64 {
    1.0 + offered.fractions.iter().map(|fraction| 1.0 / fraction).sum::<f64>()
}

fn popular_records(config: &AllConfig) -> Cell {
    let records = config.scale.of(50_000, 250_000, 500_000);
    let offered = second_phase(config);
    let length = records as f64 / 1_000.0 * both_phases(&offered);
    let experiment = Experiment::Ycsb(YcsbConfig {
        engines: with_peers(config, &[EngineKind::LsmLeveled, EngineKind::Btree]),
        workloads: ycsb::Workload::DEFAULT.split(',').filter_map(|name| name.parse().ok()).collect(),
        records,
        operations: records,
        fields: 10,
        threads: 2,
        offered,
        pairs: 1,
        interval_s: 5.0,
        seed: config.seed,
        dir: None,
        settings: a_fifth(records * YCSB_RECORD),
    });
    Cell::new("ycsb", "YCSB A to F, a part in memory", records * YCSB_RECORD, length, experiment)
}

/// Milliseconds that the application takes for a request: the published mean of the quickest operation, in which the database has hardly any part.
const REDMINE_APP_MS: f64 = 18.0;

/// Redmine on a hard disk that has nothing else to do, and on one of which another stream asks for four times what it has; with the durability that was
/// published, and with the same for both engines. At night also the largest data set, and loads in between.
fn redmine(config: &AllConfig) -> Vec<Cell> {
    let is_night = config.scale == Scale::Night;
    let mut cells = Vec::new();
    for data_set in [DataSet::Small, DataSet::Large, DataSet::Giant] {
        for load in [0.0, 0.25, 1.0, 2.0, 4.0] {
            for as_published in [true, false] {
                let is_between = load > 0.0 && load < 4.0;
                let is_extra = is_between || data_set == DataSet::Giant;
                if is_extra && !is_night || is_between && (data_set == DataSet::Giant || !as_published) {
                    continue;
                }
                // Under load an operation takes seconds, and the first ones find nothing in memory.
                let seconds =
                    if load > 0.0 { config.scale.of(1.0, 20.0, 20.0) } else { config.scale.of(1.0, 5.0, 10.0) };
                // Full load is four processes beside four streams.
                let clients = match data_set {
                    DataSet::Giant if load > 0.0 => vec![1, 4],
                    _ if is_extra => vec![1],
                    _ => config.scale.of(vec![1], vec![1, 4], vec![1, 2, 4]),
                };
                let length = seconds * (clients.len() * Operation::ALL.len()) as f64 + data_set.bytes() as f64 / 8e6;
                let experiment = Experiment::Redmine(RedmineConfig {
                    engines: vec![EngineKind::LsmLeveled, EngineKind::Btree, EngineKind::BtreeMysql84],
                    data_sets: vec![data_set],
                    operations: Operation::ALL.to_vec(),
                    clients,
                    transactions: 20,
                    loads: vec![load],
                    load_file_bytes: 0,
                    seconds,
                    pairs: 1,
                    interval_s: 5.0,
                    app_ms: REDMINE_APP_MS,
                    as_published,
                    seed: config.seed,
                    dir: None,
                    settings: EngineSettings {
                        device: Device::Hdd,
                        durability: Durability::Commit,
                        direct: true,
                        ..EngineSettings::default()
                    },
                    memory_is_given: false,
                });
                let mode = if as_published { "published" } else { "equal" };
                let name = format!("redmine-{data_set}-load{load}-{mode}");
                cells.push(Cell::new(name, "Redmine on a hard disk", data_set.bytes(), length, experiment));
            }
        }
    }
    cells
}

fn evenness(config: &AllConfig) -> Cell {
    let num = config.scale.of(500_000, 3_000_000, 6_000_000);
    let seconds = config.scale.of(4.0, 20.0, 30.0);
    let steps = if config.scale == Scale::Quick { Step::FEW } else { Step::DEFAULT };
    let steps: Vec<Step> = steps.split(',').filter_map(|step| step.parse().ok()).collect();
    let warm_ups: f64 = steps.iter().map(|step| step.warm_up_seconds(seconds)).sum();
    let length = num as f64 / 70_000.0 + steps.len() as f64 * seconds * 1.5 + warm_ups;
    let mut ours = vec![EngineKind::LsmLeveled, EngineKind::LsmClassic];
    if config.scale != Scale::Quick {
        ours.push(EngineKind::Btree);
    }
    let experiment = Experiment::Stalls(StallsConfig {
        pairs: 1,
        engines: with_peers(config, &ours),
        steps,
        num,
        value_size: 400,
        threads: 1,
        seconds,
        rate: None,
        offered: Offered::Own,
        existing: false,
        interval_s: 1.0,
        seed: config.seed,
        dir: None,
        settings: EngineSettings { direct: true, ..EngineSettings::default() },
    });
    Cell::new("stalls", "evenness: closed loop, then arrivals at parts of the maximum", num * 416, length, experiment)
}

fn ad_serving(config: &AllConfig) -> Cell {
    let experiment = AdsConfig::of_scale(config.scale, config.seed);
    let seconds = experiment.days as f64 * experiment.day_seconds * experiment.rows.len() as f64;
    let data_bytes = experiment.data_bytes();
    Cell::new(
        "ads",
        "rows that expire, up the published tuning ladder",
        data_bytes,
        seconds,
        Experiment::Ads(experiment),
    )
}

#[cfg(test)]
pub(super) fn sizes(scale: Scale) -> Vec<(String, u64, f64)> {
    let config = AllConfig { scale, ..super::tests::config() };
    plan(&config).into_iter().map(|cell| (cell.name, cell.disk_bytes, cell.seconds)).collect()
}
