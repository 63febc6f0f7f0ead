//! The LSM engine with the settings of a run.

use super::{Admission, Device, EngineSettings, Level0};
use siltstone_base::clock::SystemClock;
use siltstone_base::engine::Durability;
use siltstone_base::env::{DeviceModel, Env, PosixEnv, ThrottledEnv};
use siltstone_lsm::{
    BlockCache, ColumnFamilyOptions, CompactionStyle, CompressionType, DbOptions, IndexType, TableOptions,
    WriteAdmission, WriteOptions,
};
use std::sync::Arc;

/// Runs of the universal style at which they are merged, writers are slowed down, and writers stop, where a run of the laboratory is given no numbers of its own. Filters let few gets see more than one of
/// the runs; there is a level for each, and as many may be flushed meanwhile.
pub(crate) const UNIVERSAL: Level0 = Level0::of(16, 36, 56);

/// What the engine is opened with.
pub(crate) struct LsmOptions {
    pub env: Arc<dyn Env>,
    pub database: DbOptions,
    pub family: ColumnFamilyOptions,
    pub writes: WriteOptions,
}

impl LsmOptions {
    pub(crate) fn new(settings: &EngineSettings, style: CompactionStyle) -> Self {
        let env = env_of(settings.device, settings.background_load);
        let sync_millis = match settings.durability {
            Durability::EveryMillis(millis) => millis,
            Durability::Commit | Durability::Os => 0,
        };
        let database = DbOptions::default()
            .create_if_missing(true)
            .max_background_jobs(settings.background_jobs)
            .write_admission(match settings.write_admission {
                Admission::Paced => WriteAdmission::Paced,
                Admission::Rocksdb => WriteAdmission::Rocksdb,
            })
            // What write buffers do not take, blocks have.
            .block_cache(Some(Arc::new(BlockCache::new(settings.memory_bytes() as usize))))
            .charge_memtables_to_block_cache(true)
            .use_direct_reads(settings.direct)
            .use_direct_io_for_flush_and_compaction(settings.direct)
            .wal_sync_interval_millis(sync_millis)
            .env(Some(Arc::clone(&env)));
        // Indexes and filters come and go through the block cache: pages that lead to others take a B-tree's memory, too.
        let mut table = TableOptions::default()
            .index_type(IndexType::TwoLevel)
            .partition_filters(true)
            .bloom_bits_per_key(settings.bloom_bits_per_key);
        if let Some(version) = settings.format_version {
            table = table.format_version(version);
        }
        let mut family = ColumnFamilyOptions::default();
        if !settings.compress {
            family = family.compression(CompressionType::None);
        }
        if style == CompactionStyle::Universal {
            family = UNIVERSAL.apply(family.compaction_style(style), style);
        }
        if style == CompactionStyle::Lazy {
            // A level for each of the runs that wait in tiers.
            family = family.compaction_style(style).num_levels(9);
        }
        let family = family
            .write_buffer_size(settings.write_buffer_bytes)
            .max_write_buffer_number(settings.write_buffers)
            .target_file_size_base(settings.table_bytes())
            .max_bytes_for_level_base(settings.level_base_bytes())
            .table(table);
        let family = settings.level0.apply(family, style);
        let writes = WriteOptions::default().sync(settings.durability == Durability::Commit);
        Self { env, database, family, writes }
    }
}

/// The operating system's files, or those on a modelled device.
pub(super) fn env_of(device: Device, background_load: f64) -> Arc<dyn Env> {
    let posix: Arc<dyn Env> = Arc::new(PosixEnv::new());
    let model = match device {
        Device::None => return posix,
        Device::FastSsd => DeviceModel::fast_ssd(),
        Device::SlowSsd => DeviceModel::slow_ssd(),
        Device::Hdd => DeviceModel::hdd(),
    };
    Arc::new(ThrottledEnv::new(posix, model.with_background_load(background_load), Arc::new(SystemClock::new())))
}
