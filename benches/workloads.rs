//! Compares the engines that exist: our LSM-tree and our B-tree, with fjall, redb, LMDB and SQLite beside them, under two durabilities; then runs a little of every experiment, and the
//! quickest cells of the published ones.
//!
//! Prints tables and writes `target/siltstone-report/index.html` with the results it was made from. Takes a few minutes;
//! `siltstone-bench kv` runs the same workloads at any size, and RocksDB beside them; `siltstone-bench all` every experiment at any scale.
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use siltstone_base::engine::Durability;
use siltstone_base::{Error, Result};
use siltstone_bench::ads::{self, AdsConfig};
use siltstone_bench::all::{self, AllConfig, Scale};
use siltstone_bench::engines::{EngineKind, EngineSettings};
use siltstone_bench::insert::{self, BinlogMode, IndexMode, InsertConfig, Schema, Step};
use siltstone_bench::kv::{self, KvConfig, Workload};
use siltstone_bench::stalls::{self, Offered, StallsConfig};
use siltstone_bench::sysbench::{self, MemorySetup, SysbenchConfig};
use siltstone_bench::ycsb::{self, YcsbConfig};
use siltstone_bench::{JsonLines, OfferedRates, Output};
use std::io::{sink, stdout};
use std::path::{Path, PathBuf};

const SEED: u64 = 42;

/// Memory that is small beside the data, so that tables, caches and compactions take part.
const MEMORY: usize = 24 << 20;

fn settings(durability: Durability) -> EngineSettings {
    EngineSettings { durability, ..EngineSettings::default() }.with_memory(MEMORY)
}

/// Single puts that the operating system keeps, and every way to read. redb and LMDB have no such durability.
fn left_to_the_system(databases: &Path) -> KvConfig {
    KvConfig {
        engines: vec![EngineKind::LsmLeveled, EngineKind::Btree, EngineKind::Fjall, EngineKind::Sqlite],
        workloads: vec![
            Workload::FillSeq,
            Workload::FillRandom,
            Workload::Overwrite,
            Workload::ReadRandom,
            Workload::ReadMissing,
            Workload::SeekRandom,
            Workload::ReadSeq,
            Workload::ReadWhileWriting,
        ],
        num: 200_000,
        value_size: 100,
        threads: 1,
        batch: 1,
        rate: None,
        pairs: 1,
        existing: false,
        interval_s: 1.0,
        seed: SEED,
        dir: Some(databases.join("kv")),
        settings: settings(Durability::Os),
    }
}

/// Batches of a hundred, each safe on the device: a durability that every engine has, and as many rows at once as the B-tree takes with so little memory.
fn safe_at_every_commit(databases: &Path) -> KvConfig {
    KvConfig {
        engines: vec![
            EngineKind::LsmLeveled,
            EngineKind::Btree,
            EngineKind::Fjall,
            EngineKind::Redb,
            EngineKind::Lmdb,
            EngineKind::Sqlite,
        ],
        workloads: vec![
            Workload::FillRandom,
            Workload::Overwrite,
            Workload::ReadRandom,
            Workload::SeekRandom,
            Workload::ReadSeq,
        ],
        batch: 100,
        settings: settings(Durability::Commit),
        ..left_to_the_system(databases)
    }
}

/// Records of a kilobyte, the popular ones asked for most often.
fn popular_records(databases: &Path) -> YcsbConfig {
    YcsbConfig {
        engines: vec![EngineKind::LsmLeveled, EngineKind::Btree, EngineKind::Fjall],
        workloads: ycsb::Workload::DEFAULT.split(',').filter_map(|name| name.parse().ok()).collect(),
        records: 50_000,
        operations: 50_000,
        fields: 10,
        threads: 1,
        offered: OfferedRates::default(),
        pairs: 1,
        interval_s: 1.0,
        seed: SEED,
        dir: Some(databases.join("ycsb")),
        settings: settings(Durability::Os),
    }
}

/// Rows with three secondary indexes.
fn rows(databases: &Path) -> InsertConfig {
    InsertConfig {
        engines: vec![EngineKind::LsmLeveled, EngineKind::Btree, EngineKind::Fjall],
        rows: 200_000,
        clients: 2,
        rows_per_commit: 100,
        schema: Schema::Of2017,
        binlog: BinlogMode::Off,
        pairs: 1,
        index_modes: vec![IndexMode::Eager],
        steps: vec![Step::Load],
        updates: 0,
        more_rows: 0,
        query_seconds: 1.0,
        insert_seconds: None,
        interval_s: 1.0,
        seed: SEED,
        dir: Some(databases.join("insert")),
        settings: settings(Durability::Os),
    }
}

/// Transactions of the oltp scripts, each safe on the device, with two fifths of the rows in memory.
fn transactions(databases: &Path) -> SysbenchConfig {
    SysbenchConfig {
        engines: vec![EngineKind::LsmLeveled, EngineKind::Btree],
        workloads: vec![
            sysbench::Workload::Load,
            sysbench::Workload::Settle,
            sysbench::Workload::ReadOnly,
            sysbench::Workload::ReadWrite,
            sysbench::Workload::WriteOnly,
        ],
        tables: 2,
        rows: 50_000,
        clients: vec![4],
        seconds: 3.0,
        offered: OfferedRates::default(),
        statement_costs: Vec::new(),
        pairs: 1,
        interval_s: 1.0,
        seed: SEED,
        dir: Some(databases.join("sysbench")),
        memory: MemorySetup::Budget,
        settings: EngineSettings { direct: true, ..settings(Durability::Commit).with_memory(MEMORY / 3) },
    }
}

/// How evenly the LSM tree takes writes, by its own admission and by RocksDB's.
fn evenness(databases: &Path) -> StallsConfig {
    StallsConfig {
        engines: vec![EngineKind::LsmLeveled, EngineKind::LsmClassic],
        steps: vec![stalls::Step::Fill, stalls::Step::Settle, stalls::Step::Maximum, stalls::Step::Poisson(80)],
        num: 200_000,
        value_size: 100,
        threads: 2,
        pairs: 1,
        seconds: 4.0,
        rate: None,
        offered: Offered::Own,
        existing: false,
        interval_s: 1.0,
        seed: SEED,
        dir: Some(databases.join("stalls")),
        settings: settings(Durability::Os),
    }
}

/// Rows that expire, of several times as many bytes as memory: the LSM tree with its own expiry, and the B-tree with a job that deletes.
fn expiring(databases: &Path) -> AdsConfig {
    AdsConfig {
        rows: vec![ads::Row::Ttl, ads::Row::Btree],
        day_seconds: 0.25,
        upserts_per_day: 2_000,
        interval_s: 1.0,
        dir: Some(databases.join("ads")),
        settings: EngineSettings::default().with_memory(8 << 20),
        ..AdsConfig::of_scale(Scale::Quick, SEED)
    }
}

/// The published experiments that take less than a minute at the smallest scale.
const QUICK: [&str; 2] = ["insert-memory-1", "redmine-large-load0-published"];

/// The experiments of [`QUICK`], and the page in `dir`, which tells of the results in `also`, too.
fn quick(dir: PathBuf, also: PathBuf) -> AllConfig {
    AllConfig {
        scale: Scale::Quick,
        only: QUICK.map(str::to_owned).into(),
        peers: Vec::new(),
        also: vec![also],
        dir,
        seed: SEED,
        is_anew: true,
        dry_run: false,
    }
}

/// The target directory: the executable is `target/release/deps/workloads-…`.
fn target() -> PathBuf {
    let executable = std::env::current_exe().unwrap_or_default();
    executable.ancestors().nth(3).map_or_else(|| PathBuf::from("target"), Path::to_path_buf)
}

fn compare() -> Result<Option<PathBuf>> {
    let dir = target().join("siltstone-report");
    let json = dir.join("results.json");
    // What is too small for the last of it is told before the first.
    let planned = quick(dir.clone(), json.clone());
    all::run(&AllConfig { dry_run: true, ..planned.clone() }, &mut Output::new(&mut sink(), None, false))?;
    // Not where temporary files are: that may be memory, where nothing has to be synced.
    let in_target = |source| Error::io("create a directory in", &target(), source);
    let temporary = tempfile::tempdir_in(target()).map_err(in_target)?;
    let databases = temporary.path();
    let mut text = stdout();
    let mut output = Output::new(&mut text, Some(JsonLines::create(&json)?), false);
    output.say("Single puts, left to the operating system")?;
    kv::run(&left_to_the_system(databases), &mut output)?;
    output.say("Batches of 100 puts, each safe on the device; reads after them")?;
    kv::run(&safe_at_every_commit(databases), &mut output)?;
    output.say("YCSB: records of ten fields of 100 bytes")?;
    ycsb::run(&popular_records(databases), &mut output)?;
    output.say("Rows with three secondary indexes, two clients")?;
    insert::run(&rows(databases), &mut output)?;
    output.say("sysbench: transactions of four clients, each safe on the device")?;
    sysbench::run(&transactions(databases), &mut output)?;
    output.say("Evenness of writes: as fast as they go, and by a schedule")?;
    stalls::run(&evenness(databases), &mut output)?;
    output.say("Rows that expire, in fast time")?;
    ads::run(&expiring(databases), &mut output)?;
    all::run(&planned, &mut Output::new(&mut stdout(), None, false))
}

fn main() -> Result<()> {
    if let Some(page) = compare()? {
        println!("report: {}", page.display());
    }
    Ok(())
}
