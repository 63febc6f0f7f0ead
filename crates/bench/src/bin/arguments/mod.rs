//! The command line.

use clap::Args;
use siltstone_base::engine::Durability;
use siltstone_base::{Error, Result};
use siltstone_bench::engines::{
    Admission, ChangeBuffering, Device, EngineKind, EngineSettings, Level0, change_buffering,
};
use std::path::PathBuf;

pub mod ads;
pub mod all;
pub mod insert;
pub mod insert_sql;
pub mod kv;
pub mod open_loops;
pub mod redmine;
pub mod report;
pub mod soak;
pub mod stalls;
pub mod sysbench;
pub mod ycsb;

/// What every experiment takes.
#[derive(Debug, Args)]
pub struct CommonArguments {
    /// Engines; several run alternately.
    #[arg(long, value_delimiter = ',', default_value = "lsm-leveled")]
    pub engine: Vec<EngineKind>,
    /// The engine's whole memory. Default: 256 MiB of block cache beside two write buffers of 64 MiB.
    #[arg(long, value_name = "MIB")]
    pub memory_mb: Option<usize>,
    /// One write buffer of LSM trees, of which there are two; the block cache has the rest of the memory. Default: a sixth of the memory.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=1 << 14))]
    pub write_buffer_mb: Option<u32>,
    /// A device modelled beneath our engines: none, fast-ssd, slow-ssd or hdd.
    #[arg(long, default_value_t = Device::None)]
    pub device: Device,
    /// Read tables, flush and compact past the operating system's page cache.
    #[arg(long)]
    pub direct: bool,
    /// How long a write has to be safe before it returns: commit, second, os or a number of milliseconds such as 250ms.
    #[arg(long, default_value_t = Durability::Os)]
    pub durability: Durability,
    /// Version of RocksDB's table format: 5, 6 or 7.
    #[arg(long, value_parser = clap::value_parser!(u32).range(5..=7))]
    pub format_version: Option<u32>,
    /// Flushes and compactions at the same time.
    #[arg(long, default_value_t = 2)]
    pub background_jobs: usize,
    /// How our LSM engine slows writers down: paced, or rocksdb for the classic triggers and rates.
    #[arg(long, value_name = "WAY", default_value_t = Admission::Paced)]
    pub write_admission: Admission,
    /// Files in level 0 of our LSM engine and RocksDB at which it is compacted; with universal compaction sorted runs. Default: what the engine does by itself.
    #[arg(long, visible_alias = "l0-trigger", value_name = "FILES", value_parser = level0_files())]
    pub level0_trigger: Option<u32>,
    /// Files in level 0 at which writers are slowed down.
    #[arg(long, visible_alias = "l0-slowdown", value_name = "FILES", value_parser = level0_files())]
    pub level0_slowdown: Option<u32>,
    /// Files in level 0 at which writers stop.
    #[arg(long, visible_alias = "l0-stop", value_name = "FILES", value_parser = level0_files())]
    pub level0_stop: Option<u32>,
    /// Pages that our B-tree writes in a second when it is idle; twice as many at most.
    #[arg(long, value_name = "PAGES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub io_capacity: Option<u32>,
    /// Which changes of indexes wait in our B-tree's change buffer: none, inserts, deletes, changes, purges or all. Default: what its profile says.
    #[arg(long, value_name = "CHANGES", value_parser = change_buffering)]
    pub change_buffer: Option<ChangeBuffering>,
    /// LSM trees do not compress their blocks.
    #[arg(long)]
    pub no_compression: bool,
    /// Length of an interval.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub interval: f64,
    /// Draws keys and values.
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Where the database is, and stays; with several engines, a directory for each in it. What an earlier run left in it is removed first, and a directory that holds anything else is refused. Default:
    /// a temporary directory.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Results as JSON, one object a line.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Numbers of files that level 0 may have.
fn level0_files() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=1 << 20)
}

impl CommonArguments {
    /// What the engines are opened with.
    pub fn settings(&self) -> Result<EngineSettings> {
        let files = |files: Option<u32>| files.map(|files| files as usize);
        let level0 = Level0 {
            compaction: files(self.level0_trigger),
            slowdown: files(self.level0_slowdown),
            stop: files(self.level0_stop),
        };
        level0.check()?;
        let mut settings = EngineSettings {
            direct: self.direct,
            format_version: self.format_version,
            durability: self.durability,
            device: self.device,
            background_jobs: self.background_jobs,
            write_admission: self.write_admission,
            io_capacity: self.io_capacity.map(|pages| pages as usize),
            change_buffering: self.change_buffer,
            compress: !self.no_compression,
            level0,
            ..EngineSettings::default()
        };
        if let Some(mb) = self.memory_mb {
            if !(1..=1 << 20).contains(&mb) {
                return Err(Error::invalid_argument("--memory-mb must be 1 to 1048576"));
            }
            settings = settings.with_memory(mb << 20);
        }
        if let Some(mb) = self.write_buffer_mb {
            let too_large = || Error::invalid_argument("--write-buffer-mb leaves no memory for the block cache");
            settings = settings.with_write_buffer((mb as usize) << 20).ok_or_else(too_large)?;
        }
        Ok(settings)
    }
}
