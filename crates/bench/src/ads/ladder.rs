//! The rows of the tuning ladder, and how their engines are opened.

use super::AdsConfig;
use super::generator::DAY;
use crate::ResultLine;
use crate::engines::{EngineKind, EngineSettings, LsmOptions, OpenEngine};
use siltstone_base::Result;
use siltstone_base::clock::{Clock, FastClock};
use siltstone_base::engine::Durability;
use siltstone_lsm::{ColumnFamilyOptions, CompressionType, Db, KvDb};
use siltstone_ttl::{StampLayout, Ttl, TtlDuration, TtlFilter};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Days that a row is valid.
pub(super) const VALID_DAYS: u64 = 60;

/// Bytes of a block, as of a page of the B-tree: what a codec sees at once.
const BLOCK_BYTES: usize = 16 << 10;

/// Tables into which compactions write as much as a write buffer holds.
const TABLES_OF_A_BUFFER: u64 = 8;

/// The same where space is what counts, the bytes of a block there, and the effort of Zstd: long blocks leave dictionaries nothing to do.
const DENSE_TABLES_OF_A_BUFFER: u64 = 12;
const DENSE_BLOCK_BYTES: usize = 64 << 10;
const DENSE_LEVEL: i32 = 12;

/// Where stamps lie in values.
pub(super) const LAYOUT: StampLayout = StampLayout::Prefix;

/// A row of the ladder. Each has what those before it have, but for what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// Every commit is safe before it returns; Snappy; direct reads; a compaction filter removes rows, and everything is compacted every five days.
    Commit,
    /// Commits are safe within a second.
    Second,
    /// LZ4, and Zstd level 1 at the bottom.
    Zstd,
    /// Through the page cache, with a quarter of the block cache.
    PageCache,
    /// The engine's own expiry in place of the filter, and nothing is compacted by hand.
    Ttl,
    /// The same for who has little space: Zstd level 12 on all levels, and blocks four times as long.
    Dense,
    /// The filter again, and nothing is compacted by hand: what nobody writes to is not visited.
    ExpiryOff,
    /// The B-tree with compressed pages: a job deletes what is too old once a day, a few rows at a time.
    Btree,
    /// The same B-tree with the engine's own expiry in place of the job.
    BtreePurge,
}

impl Row {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Commit,
        Self::Second,
        Self::Zstd,
        Self::PageCache,
        Self::Ttl,
        Self::Dense,
        Self::ExpiryOff,
        Self::Btree,
        Self::BtreePurge,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Second => "second",
            Self::Zstd => "lz4-zstd1",
            Self::PageCache => "page-cache",
            Self::Ttl => "ttl",
            Self::Dense => "dense",
            Self::ExpiryOff => "expiry-off",
            Self::Btree => "daily-deletes",
            Self::BtreePurge => "purge",
        }
    }

    /// The engine that it is about.
    pub fn engine(self) -> EngineKind {
        match self {
            Self::Btree | Self::BtreePurge => EngineKind::BtreeCompressed,
            _ => EngineKind::LsmLeveled,
        }
    }

    /// Whether everything is compacted now and then.
    pub(super) fn is_compacted_by_hand(self) -> bool {
        matches!(self, Self::Commit | Self::Second | Self::Zstd | Self::PageCache)
    }

    fn durability(self) -> Durability {
        if self == Self::Commit { Durability::Commit } else { Durability::EveryMillis(1000) }
    }

    fn is_direct(self) -> bool {
        matches!(self, Self::Commit | Self::Second | Self::Zstd | Self::Btree | Self::BtreePurge)
    }

    /// What its engine is opened with.
    fn settings(self, config: &AdsConfig) -> EngineSettings {
        let mut settings = config.settings.clone();
        settings.durability = self.durability();
        settings.direct = self.is_direct() && !config.is_buffered;
        if !self.is_direct() {
            settings.cache_bytes /= 4;
        }
        settings
    }

    /// A line of results that says what its engine is given. Every row compresses, by codecs of its own.
    pub(super) fn line(self, config: &AdsConfig) -> ResultLine {
        ResultLine { compressed: Some(true), data_bytes: Some(config.data_bytes()), ..self.settings(config).line() }
    }

    /// Opens its engine in `dir`; rows expire by `clock`, and all else goes by the machine's.
    pub(super) fn open(self, config: &AdsConfig, dir: &Path, clock: &Arc<FastClock>) -> Result<Opened> {
        let settings = self.settings(config);
        let kind = self.engine();
        if !kind.is_lsm() {
            let (env, mut database) = kind.btree_options(&settings);
            if self == Self::BtreePurge {
                let duration = TtlDuration::from_seconds(VALID_DAYS * DAY)?;
                database = database
                    .expiry(Some(Arc::new(Ttl::new(LAYOUT, duration))))
                    .expiry_clock(Some(Arc::clone(clock) as Arc<dyn Clock>));
            }
            let btree = siltstone_btree::Db::open(dir, &database)?;
            let engine = OpenEngine::kv(Arc::new(btree.clone())).in_dir(dir).through(env).named(kind.name());
            return Ok(Opened { engine, lsm: None, btree: Some(btree) });
        }
        let LsmOptions { env, database, family, writes } = LsmOptions::new(&settings, kind.compaction_style());
        let database = database.expiry_clock(Some(Arc::clone(clock) as Arc<dyn Clock>));
        let family = self.family(family, &settings, clock)?;
        let engine = KvDb::open(dir, &database, &family, writes)?;
        let lsm = engine.db().clone();
        let engine = OpenEngine::kv(Arc::new(engine)).in_dir(dir).through(env).named(kind.name());
        Ok(Opened { engine, lsm: Some(lsm), btree: None })
    }

    fn family(
        self,
        family: ColumnFamilyOptions,
        settings: &EngineSettings,
        clock: &Arc<FastClock>,
    ) -> Result<ColumnFamilyOptions> {
        // As many levels as data of the published size has under the default sizes, the upper of which are small beside the last, and some of its thousands of tables: what expires in
        // one of them is little of the whole.
        let buffer = settings.write_buffer_bytes as u64;
        let (tables, block_bytes) = match self {
            Self::Dense => (DENSE_TABLES_OF_A_BUFFER, DENSE_BLOCK_BYTES),
            _ => (TABLES_OF_A_BUFFER, BLOCK_BYTES),
        };
        let family = family.target_file_size_base(buffer / tables).max_bytes_for_level_base(buffer / 2);
        let blocks = family.table.clone().block_size(block_bytes);
        let family = family.table(blocks);
        let family = match self {
            Self::Commit | Self::Second => family.compression(CompressionType::Snappy),
            Self::Dense => family.compression(CompressionType::Zstd).zstd_level(DENSE_LEVEL),
            _ => family
                .compression(CompressionType::Lz4)
                .bottommost_compression(Some(CompressionType::Zstd))
                .zstd_level(1),
        };
        let duration = TtlDuration::from_seconds(VALID_DAYS * DAY)?;
        Ok(match self {
            Self::Ttl | Self::Dense => family.expiry(Some(Arc::new(Ttl::new(LAYOUT, duration)))),
            _ => {
                let filter = TtlFilter::new(LAYOUT, duration, Arc::clone(clock) as Arc<dyn Clock>);
                family.compaction_filter(Some(Arc::new(filter)))
            }
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Row {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|row| row.name() == text);
        found.ok_or_else(|| format!("expected one of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// An engine that is open.
pub(super) struct Opened {
    pub engine: OpenEngine,
    /// The same, if it is our LSM engine.
    pub lsm: Option<Db>,
    /// The same, if it is our B-tree engine.
    pub btree: Option<siltstone_btree::Db>,
}
