//! The engines that the laboratory can open, all with the same settings.

use siltstone_base::Result;
use siltstone_base::allocator::bound_free;
#[cfg(feature = "peers")]
use siltstone_base::engine::Kv;
use siltstone_base::env::Env;
use siltstone_lsm::{CompactionStyle, KvDb, TableDb};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

mod btree;
pub(crate) mod durabilities;
mod kv_tables;
mod level0;
mod lsm;
mod memory;
mod null;
mod open;
mod settings;
#[cfg(test)]
mod tests;

pub use kv_tables::KvTables;
pub use level0::Level0;
pub(crate) use lsm::{LsmOptions, UNIVERSAL};
pub use memory::MemoryEngine;
pub use null::NullEngine;
pub use open::OpenEngine;
pub(crate) use open::allocated_bytes;
pub(crate) use settings::config_hash;
pub use settings::{Admission, Device, EngineSettings, change_buffering};
pub use siltstone_btree::ChangeBuffering;

/// Bytes that the allocator may keep free at the end of each of its areas, whatever engine there is: by default each thread's area keeps megabytes of what was freed, beside the memory that an engine was given.
const MOST_FREE: usize = 1 << 20;

/// An engine by the name that the command line gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// Siltstone's LSM-tree with leveled compaction.
    LsmLeveled,
    /// The same with RocksDB's write admission: the classic triggers and delayed rates.
    LsmClassic,
    /// Siltstone's LSM-tree with universal compaction.
    LsmUniversal,
    /// Siltstone's LSM-tree lazily leveled: a few runs above one at the bottom.
    LsmLazy,
    /// Siltstone's B-tree with the settings of MySQL 5.6.
    Btree,
    /// The same with the settings of MySQL 8.4.
    BtreeMysql84,
    /// Siltstone's B-tree with the settings of MySQL 5.6, but for MySQL 8.4's `io_capacity`.
    BtreeSsd,
    /// Siltstone's B-tree with the settings of MySQL 5.6 and pages compressed by deflate.
    BtreeCompressed,
    /// A `BTreeMap` in memory: the model.
    Memory,
    /// Does nothing: what remains is the harness's own cost.
    Null,
    /// fjall.
    #[cfg(feature = "peers")]
    Fjall,
    /// redb.
    #[cfg(feature = "peers")]
    Redb,
    /// LMDB.
    #[cfg(feature = "peers")]
    Lmdb,
    /// SQLite.
    #[cfg(feature = "peers")]
    Sqlite,
    /// RocksDB's release build.
    #[cfg(feature = "rocksdb")]
    Rocksdb,
}

impl EngineKind {
    /// Bytes that the engine reserves on the disk for its log, whatever the size of the data.
    pub(crate) fn reserved_log_bytes(self) -> u64 {
        if self.is_btree() { btree::REDO_BYTES } else { 0 }
    }

    /// Whether it is our B-tree, whatever its settings.
    pub(crate) fn is_btree(self) -> bool {
        matches!(self, Self::Btree | Self::BtreeMysql84 | Self::BtreeSsd | Self::BtreeCompressed)
    }

    /// Every engine of this build.
    pub const ALL: &'static [Self] = &[
        Self::LsmLeveled,
        Self::LsmClassic,
        Self::LsmUniversal,
        Self::LsmLazy,
        Self::Btree,
        Self::BtreeMysql84,
        Self::BtreeSsd,
        Self::BtreeCompressed,
        Self::Memory,
        Self::Null,
        #[cfg(feature = "peers")]
        Self::Fjall,
        #[cfg(feature = "peers")]
        Self::Redb,
        #[cfg(feature = "peers")]
        Self::Lmdb,
        #[cfg(feature = "peers")]
        Self::Sqlite,
        #[cfg(feature = "rocksdb")]
        Self::Rocksdb,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::LsmLeveled => "lsm-leveled",
            Self::LsmClassic => "lsm-classic",
            Self::LsmUniversal => "lsm-universal",
            Self::LsmLazy => "lsm-lazy",
            Self::Btree => "btree",
            Self::BtreeMysql84 => "btree-mysql84",
            Self::BtreeSsd => "btree-ssd",
            Self::BtreeCompressed => "btree-compressed",
            Self::Memory => "memory",
            Self::Null => "null",
            #[cfg(feature = "peers")]
            Self::Fjall => "fjall",
            #[cfg(feature = "peers")]
            Self::Redb => "redb",
            #[cfg(feature = "peers")]
            Self::Lmdb => "lmdb",
            #[cfg(feature = "peers")]
            Self::Sqlite => "sqlite",
            #[cfg(feature = "rocksdb")]
            Self::Rocksdb => "rocksdb",
        }
    }

    /// Whether it can read and write past the operating system's page cache.
    pub fn has_direct_io(self) -> bool {
        match self {
            #[cfg(feature = "peers")]
            Self::Fjall | Self::Redb | Self::Lmdb | Self::Sqlite => false,
            _ => true,
        }
    }

    /// Whether it is our LSM engine.
    pub fn is_lsm(self) -> bool {
        matches!(self, Self::LsmLeveled | Self::LsmClassic | Self::LsmUniversal | Self::LsmLazy)
    }

    /// Whether it is an LSM tree, ours or somebody else's.
    pub fn is_lsm_tree(self) -> bool {
        match self {
            #[cfg(feature = "peers")]
            Self::Fjall => true,
            #[cfg(feature = "rocksdb")]
            Self::Rocksdb => true,
            _ => self.is_lsm(),
        }
    }

    /// Whether it is somebody else's: it does its own I/O, so that no device can be modelled beneath it.
    pub fn is_foreign(self) -> bool {
        match self {
            #[cfg(feature = "peers")]
            Self::Fjall | Self::Redb | Self::Lmdb | Self::Sqlite => true,
            #[cfg(feature = "rocksdb")]
            Self::Rocksdb => true,
            _ => false,
        }
    }

    pub(crate) fn compaction_style(self) -> CompactionStyle {
        match self {
            Self::LsmUniversal => CompactionStyle::Universal,
            Self::LsmLazy => CompactionStyle::Lazy,
            _ => CompactionStyle::Leveled,
        }
    }

    /// Opens the engine in `dir` for keys and values, creating what is not there.
    pub fn open_kv(self, dir: &Path, settings: &EngineSettings) -> Result<OpenEngine> {
        bound_free(MOST_FREE);
        #[cfg(feature = "peers")]
        use siltstone_compare::{fjall::FjallEngine, lmdb::LmdbEngine, redb::RedbEngine, sqlite::SqliteEngine};
        Ok(match self {
            Self::LsmLeveled | Self::LsmUniversal | Self::LsmLazy => {
                let lsm = LsmOptions::new(settings, self.compaction_style());
                let engine = KvDb::open(dir, &lsm.database, &lsm.family, lsm.writes)?;
                OpenEngine::kv(Arc::new(engine)).in_dir(dir).through(lsm.env).named(self.name())
            }
            Self::LsmClassic => Self::LsmLeveled.open_kv(dir, &settings.classic())?.named(self.name()),
            Self::Btree | Self::BtreeMysql84 | Self::BtreeSsd | Self::BtreeCompressed => {
                let (env, options) = btree::options(self, settings);
                let engine = siltstone_btree::Db::open(dir, &options)?;
                OpenEngine::kv(Arc::new(engine)).in_dir(dir).through(env).named(self.name())
            }
            Self::Memory => OpenEngine::both(Arc::new(MemoryEngine::new())),
            Self::Null => OpenEngine::kv(Arc::new(NullEngine::new())),
            #[cfg(feature = "peers")]
            Self::Fjall => OpenEngine::kv(Arc::new(FjallEngine::open(dir, &settings.for_peers()?)?)).in_dir(dir),
            #[cfg(feature = "peers")]
            Self::Redb => OpenEngine::kv(Arc::new(RedbEngine::open(dir, &settings.for_peers()?)?)).in_dir(dir),
            #[cfg(feature = "peers")]
            Self::Lmdb => OpenEngine::kv(Arc::new(LmdbEngine::open(dir, &settings.for_peers()?)?)).in_dir(dir),
            #[cfg(feature = "peers")]
            Self::Sqlite => OpenEngine::kv(Arc::new(SqliteEngine::open(dir, &settings.for_peers()?)?)).in_dir(dir),
            #[cfg(feature = "rocksdb")]
            Self::Rocksdb => {
                let engine = siltstone_compare::rocksdb::RocksdbEngine::open(dir, &settings.for_peers()?)?;
                OpenEngine::kv(Arc::new(engine)).in_dir(dir)
            }
        })
    }

    /// Our B-tree's options for a run, and where its files are.
    pub(crate) fn btree_options(self, settings: &EngineSettings) -> (Arc<dyn Env>, siltstone_btree::DbOptions) {
        btree::options(self, settings)
    }

    /// Opens the engine in `dir` for tables, creating what is not there.
    pub fn open_tables(self, dir: &Path, settings: &EngineSettings) -> Result<OpenEngine> {
        bound_free(MOST_FREE);
        #[cfg(feature = "peers")]
        use siltstone_compare::{fjall::FjallEngine, lmdb::LmdbEngine, redb::RedbEngine, sqlite::SqliteEngine};
        #[cfg(feature = "peers")]
        fn over<K: Kv + 'static>(kv: K, dir: &Path) -> Result<OpenEngine> {
            Ok(OpenEngine::tables(Arc::new(KvTables::open(kv)?)).in_dir(dir))
        }
        #[cfg(feature = "peers")]
        let peers = || settings.for_tables_of_peers();
        Ok(match self {
            Self::LsmLeveled | Self::LsmUniversal | Self::LsmLazy => {
                let lsm = LsmOptions::new(settings, self.compaction_style());
                // As MyRocks has it: rows of a table are looked for where they are.
                let family = lsm.family.optimize_filters_for_hits(true);
                let engine = TableDb::open(dir, &lsm.database, &family, &lsm.writes)?;
                OpenEngine::all_tables(Arc::new(engine)).in_dir(dir).through(lsm.env).named(self.name())
            }
            Self::LsmClassic => Self::LsmLeveled.open_tables(dir, &settings.classic())?.named(self.name()),
            Self::Btree | Self::BtreeMysql84 | Self::BtreeSsd | Self::BtreeCompressed => {
                let (env, options) = btree::options(self, settings);
                let engine = siltstone_btree::Db::open(dir, &options)?;
                OpenEngine::tables(Arc::new(engine)).in_dir(dir).through(env).named(self.name())
            }
            Self::Memory => OpenEngine::both(Arc::new(MemoryEngine::new())),
            Self::Null => OpenEngine::tables(Arc::new(KvTables::open(NullEngine::new())?)),
            #[cfg(feature = "peers")]
            Self::Fjall => over(FjallEngine::open(dir, &peers()?)?, dir)?,
            #[cfg(feature = "peers")]
            Self::Redb => over(RedbEngine::open(dir, &peers()?)?, dir)?,
            #[cfg(feature = "peers")]
            Self::Lmdb => over(LmdbEngine::open(dir, &peers()?)?, dir)?,
            #[cfg(feature = "peers")]
            Self::Sqlite => over(SqliteEngine::open(dir, &peers()?)?, dir)?,
            #[cfg(feature = "rocksdb")]
            Self::Rocksdb => over(siltstone_compare::rocksdb::RocksdbEngine::open(dir, &peers()?)?, dir)?,
        })
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for EngineKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|kind| kind.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("this build has the engines {}", names.join(", "))
        })
    }
}
