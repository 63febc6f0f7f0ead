//! What every engine is opened with.

use super::Level0;
use crate::{ResultLine, config_json};
use serde::{Serialize, Serializer};
use siltstone_base::Result;
use siltstone_base::checksum::xxh3_64;
use siltstone_base::engine::Durability;
use siltstone_btree::ChangeBuffering;
use std::fmt;
use std::str::FromStr;

/// A device that is modelled beneath the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// The machine's own.
    #[default]
    None,
    /// A fast SSD.
    FastSsd,
    /// A slow SSD: 10,000 page reads and 400 MB a second.
    SlowSsd,
    /// A hard disk: 80 operations a second.
    Hdd,
}

impl Device {
    const NAMES: [(Self, &'static str); 4] =
        [(Self::None, "none"), (Self::FastSsd, "fast-ssd"), (Self::SlowSsd, "slow-ssd"), (Self::Hdd, "hdd")];
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES.iter().find(|(device, _)| device == self).map_or("none", |(_, name)| name))
    }
}

impl FromStr for Device {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(device, _)| *device).ok_or("expected none, fast-ssd, slow-ssd or hdd")
    }
}

/// How our LSM engine slows writers down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admission {
    /// From the work that is owed, little by little.
    #[default]
    Paced,
    /// As RocksDB does.
    Rocksdb,
}

impl fmt::Display for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Paced => "paced",
            Self::Rocksdb => "rocksdb",
        })
    }
}

impl FromStr for Admission {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "paced" => Ok(Self::Paced),
            "rocksdb" => Ok(Self::Rocksdb),
            _ => Err("expected paced or rocksdb"),
        }
    }
}

/// RocksDB's.
const DEFAULT_WRITE_BUFFER: usize = 64 << 20;

/// Bytes of the first level of an LSM tree in those of a write buffer, as RocksDB has them by default: as much as level 0 has when it is compacted.
const LEVEL_BASE_BUFFERS: u64 = 4;

/// The least bytes of a table below level 0.
const LEAST_TABLE: u64 = 1 << 20;

/// The settings of one run, the same for all engines: LZ4, and bloom filters of 10 bits per key where there are any.
#[derive(Clone, PartialEq, Serialize)]
pub struct EngineSettings {
    /// Bytes of the block cache.
    pub cache_bytes: usize,
    /// Bytes of one write buffer.
    pub write_buffer_bytes: usize,
    /// Write buffers, being written and sealed.
    pub write_buffers: usize,
    /// Bits per key of the bloom filters.
    pub bloom_bits_per_key: f64,
    /// Flushes and compactions at the same time.
    pub background_jobs: usize,
    /// How our LSM engine slows writers down.
    #[serde(serialize_with = "config_json::name")]
    pub write_admission: Admission,
    /// Past the operating system's page cache.
    pub direct: bool,
    /// Version of RocksDB's table format. `None`: what the engine writes by itself.
    pub format_version: Option<u32>,
    /// How long a write has to be safe before it returns.
    #[serde(serialize_with = "config_json::name")]
    pub durability: Durability,
    /// The device beneath.
    #[serde(serialize_with = "config_json::name")]
    pub device: Device,
    /// What another stream asks of a modelled device, in parts of its capacity.
    pub background_load: f64,
    /// Pages that our B-tree writes in a second when it is idle; twice as many at most. `None`: what its profile says.
    pub io_capacity: Option<usize>,
    /// Which changes of indexes wait in our B-tree's change buffer. `None`: what its profile says.
    #[serde(serialize_with = "buffering_name")]
    pub change_buffering: Option<ChangeBuffering>,
    /// LSM trees compress their blocks with LZ4.
    pub compress: bool,
    /// Files in level 0 of an LSM tree, ours or RocksDB's, at which something happens.
    pub level0: Level0,
}

/// This is what configurations are named after: a knob that came later is told of where it is turned, and results of before keep their names.
impl fmt::Debug for EngineSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cache_bytes,
            write_buffer_bytes,
            write_buffers,
            bloom_bits_per_key,
            background_jobs,
            write_admission,
            direct,
            format_version,
            durability,
            device,
            background_load,
            io_capacity,
            change_buffering,
            compress,
            level0,
        } = self;
        let mut fields = f.debug_struct("EngineSettings");
        fields
            .field("cache_bytes", cache_bytes)
            .field("write_buffer_bytes", write_buffer_bytes)
            .field("write_buffers", write_buffers)
            .field("bloom_bits_per_key", bloom_bits_per_key)
            .field("background_jobs", background_jobs)
            .field("write_admission", write_admission)
            .field("direct", direct)
            .field("format_version", format_version)
            .field("durability", durability)
            .field("device", device)
            .field("background_load", background_load)
            .field("io_capacity", io_capacity)
            .field("change_buffering", change_buffering)
            .field("compress", compress);
        if !level0.is_default() {
            fields.field("level0", level0);
        }
        if *write_buffer_bytes != DEFAULT_WRITE_BUFFER {
            fields.field("levels", &(self.table_bytes(), self.level_base_bytes()));
        }
        fields.finish()
    }
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            write_buffer_bytes: DEFAULT_WRITE_BUFFER,
            write_buffers: 2,
            bloom_bits_per_key: 10.0,
            background_jobs: 2,
            write_admission: Admission::Paced,
            direct: false,
            format_version: None,
            durability: Durability::Os,
            device: Device::None,
            background_load: 0.0,
            io_capacity: None,
            change_buffering: None,
            compress: true,
            level0: Level0::default(),
        }
    }
}

impl EngineSettings {
    /// Divides `bytes` as the defaults do: two thirds for the block cache, the rest for the write buffers.
    #[must_use]
    pub fn with_memory(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes / 3 * 2;
        self.write_buffer_bytes = (bytes / 3 / self.write_buffers).max(1 << 16);
        self
    }

    /// The same memory, with write buffers of that size; the block cache has the rest. None, where there is no rest.
    pub fn with_write_buffer(self, bytes: usize) -> Option<Self> {
        let buffers = self.write_buffers.checked_mul(bytes)?;
        let cache_bytes = (self.memory_bytes() as usize).checked_sub(buffers).filter(|rest| *rest > 0)?;
        Some(Self { cache_bytes, write_buffer_bytes: bytes, ..self })
    }

    /// The same with RocksDB's write admission.
    pub(super) fn classic(&self) -> Self {
        Self { write_admission: Admission::Rocksdb, ..self.clone() }
    }

    /// A line of results that says what a run was given.
    pub(crate) fn line(&self) -> ResultLine {
        ResultLine {
            device: Some(self.device.to_string()),
            memory_bytes: Some(self.memory_bytes()),
            durability: Some(self.durability.to_string()),
            compressed: Some(self.compress),
            level0: Some(self.level0).filter(|level0| !level0.is_default()).map(|level0| level0.to_string()),
            ..ResultLine::default()
        }
    }

    /// Bytes of a table of an LSM tree below level 0: one write buffer, as RocksDB has it by default.
    pub(super) fn table_bytes(&self) -> u64 {
        (self.write_buffer_bytes as u64).max(LEAST_TABLE)
    }

    /// Bytes of the first level of an LSM tree. With the default beneath small write buffers, all of a small tree would be its first level, and each merge of level 0 would rewrite it.
    pub(super) fn level_base_bytes(&self) -> u64 {
        self.table_bytes() * LEVEL_BASE_BUFFERS
    }

    /// Bytes of the block cache and the write buffers together.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.cache_bytes + self.write_buffers * self.write_buffer_bytes) as u64
    }

    /// What differs from the machine as it is: memory, device, I/O, format.
    pub(crate) fn in_words(&self) -> String {
        let mib = |bytes: usize| bytes >> 20;
        let (cache, buffers, buffer) = (mib(self.cache_bytes), self.write_buffers, mib(self.write_buffer_bytes));
        let mut words = format!(", {cache} MiB of cache, {buffers} write buffers of {buffer} MiB");
        if self.device != Device::None {
            words += &format!(", device {}", self.device);
            if self.background_load > 0.0 {
                words += &format!(" under a load of {}", self.background_load);
            }
        }
        if self.direct {
            words += ", direct I/O";
        }
        if self.write_admission != Admission::Paced {
            words += &format!(", write admission {}", self.write_admission);
        }
        if !self.level0.is_default() {
            words += &format!(", level 0 of LSM trees {} (files at compaction, slowdown, stop)", self.level0);
        }
        if let Some(pages) = self.io_capacity {
            words += &format!(", I/O capacity {pages}");
        }
        if let Some(buffering) = self.change_buffering {
            words += &format!(", change buffer {}", name_of(buffering));
        }
        if let Some(version) = self.format_version {
            words += &format!(", format version {version}");
        }
        if !self.compress {
            words += ", not compressed";
        }
        words
    }

    /// The same for foreign engines, which cannot run on a modelled device.
    #[cfg(feature = "peers")]
    pub(crate) fn for_peers(&self) -> Result<siltstone_compare::PeerSettings> {
        if self.device != Device::None {
            return Err(siltstone_base::Error::not_supported("foreign engines do not run on a modelled device"));
        }
        Ok(siltstone_compare::PeerSettings {
            cache_bytes: self.cache_bytes,
            write_buffer_bytes: self.write_buffer_bytes,
            write_buffers: self.write_buffers,
            table_bytes: self.table_bytes(),
            level_base_bytes: self.level_base_bytes(),
            bloom_bits_per_key: self.bloom_bits_per_key,
            expects_hits: false,
            compress: self.compress,
            background_jobs: self.background_jobs,
            direct: self.direct,
            format_version: self.format_version,
            durability: self.durability,
            level0_compaction_trigger: self.level0.compaction,
            level0_slowdown_trigger: self.level0.slowdown,
            level0_stop_trigger: self.level0.stop,
        })
    }

    /// The same under tables: as MyRocks has it, and our LSM engine there, rows are looked for where they are.
    #[cfg(feature = "peers")]
    pub(crate) fn for_tables_of_peers(&self) -> Result<siltstone_compare::PeerSettings> {
        Ok(siltstone_compare::PeerSettings { expects_hits: true, ..self.for_peers()? })
    }
}

const CHANGE_BUFFERINGS: [(ChangeBuffering, &str); 6] = [
    (ChangeBuffering::None, "none"),
    (ChangeBuffering::Inserts, "inserts"),
    (ChangeBuffering::Deletes, "deletes"),
    (ChangeBuffering::Changes, "changes"),
    (ChangeBuffering::Purges, "purges"),
    (ChangeBuffering::All, "all"),
];

fn name_of(buffering: ChangeBuffering) -> &'static str {
    CHANGE_BUFFERINGS.iter().find(|(other, _)| *other == buffering).map_or("", |(_, name)| name)
}

/// Which changes may wait, by InnoDB's name.
pub fn change_buffering(text: &str) -> Result<ChangeBuffering, &'static str> {
    let found = CHANGE_BUFFERINGS.iter().find(|(_, name)| *name == text);
    found.map(|(buffering, _)| *buffering).ok_or("expected none, inserts, deletes, changes, purges or all")
}

/// Serialises InnoDB's name of what may wait.
fn buffering_name<S: Serializer>(buffering: &Option<ChangeBuffering>, serializer: S) -> Result<S::Ok, S::Error> {
    buffering.map(name_of).serialize(serializer)
}

/// A short name for a configuration: equal for equal values of `parts`.
pub(crate) fn config_hash(parts: &impl Serialize, settings: &EngineSettings) -> String {
    let parts = serde_json::to_string(parts).unwrap_or_default();
    format!("{:016x}", xxh3_64(format!("{parts} {settings:?}").as_bytes()))
}
