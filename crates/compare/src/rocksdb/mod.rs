//! RocksDB, through its C API.

use crate::PeerSettings;
use crate::error::foreign;
use crate::sync_timer::SyncTimer;
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DB, DBCompressionType, FlushOptions, Options, ReadOptions,
    WaitForCompactOptions, WriteBatch, WriteBufferManager, WriteOptions, properties,
};
use siltstone_base::Result;
use siltstone_base::engine::{Admin, Capabilities, Durability, EngineStats, Kv, KvBatch, KvCursor, KvOp};
use siltstone_base::sync::Arc;
use std::path::Path;

mod cursor;
mod text;

const NAME: &str = "rocksdb";

/// The build that `scripts/rocksdb-release` fetches.
pub(crate) const VERSION: &str = "11.8.1";

/// A RocksDB database with its default column family.
pub struct RocksdbEngine {
    db: Arc<DB>,
    write_options: WriteOptions,
    read_options: ReadOptions,
    _timer: Option<SyncTimer>,
}

impl RocksdbEngine {
    /// Opens the database in `dir`, creating it if there is none.
    pub fn open(dir: &Path, settings: &PeerSettings) -> Result<Self> {
        let db = Arc::new(DB::open(&options(settings), dir).map_err(|error| foreign(NAME, "open", error))?);
        let mut write_options = WriteOptions::default();
        write_options.set_sync(settings.durability == Durability::Commit);
        let timer = match settings.durability {
            Durability::EveryMillis(millis) => {
                let db = Arc::clone(&db);
                Some(SyncTimer::new(millis, move || db.flush_wal(true).is_ok())?)
            }
            Durability::Commit | Durability::Os => None,
        };
        let read_options = ReadOptions::default();
        Ok(Self { db, write_options, read_options, _timer: timer })
    }

    fn text(&self, property: &str) -> Result<String> {
        let value = self.db.property_value(property).map_err(|error| foreign(NAME, "property", error))?;
        Ok(value.unwrap_or_default())
    }
}

fn options(settings: &PeerSettings) -> Options {
    // What write buffers do not take, blocks have.
    let cache = Cache::new_hyper_clock_cache(settings.memory_bytes(), 0);
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&cache);
    table.set_bloom_filter(settings.bloom_bits_per_key, false);
    // As our LSM engine has it: partitions come and go through the block cache, and what leads to them stays.
    table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    table.set_partition_filters(true);
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_top_level_index_and_filter(true);
    if let Some(version) = settings.format_version {
        table.set_format_version(i32::try_from(version).unwrap_or(i32::MAX));
    }
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    // Nothing else is limited by that: 0.
    options.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager_with_cache(0, false, cache));
    options.set_compression_type(if settings.compress { DBCompressionType::Lz4 } else { DBCompressionType::None });
    options.set_optimize_filters_for_hits(settings.expects_hits);
    options.set_write_buffer_size(settings.write_buffer_bytes);
    options.set_target_file_size_base(settings.table_bytes);
    options.set_max_bytes_for_level_base(settings.level_base_bytes);
    options.set_max_write_buffer_number(i32::try_from(settings.write_buffers).unwrap_or(i32::MAX));
    options.set_max_background_jobs(i32::try_from(settings.background_jobs).unwrap_or(i32::MAX));
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_use_direct_reads(settings.direct);
    options.set_use_direct_io_for_flush_and_compaction(settings.direct);
    let files = |files: usize| i32::try_from(files).unwrap_or(i32::MAX);
    if let Some(trigger) = settings.level0_compaction_trigger {
        options.set_level_zero_file_num_compaction_trigger(files(trigger));
    }
    if let Some(trigger) = settings.level0_slowdown_trigger {
        options.set_level_zero_slowdown_writes_trigger(files(trigger));
    }
    if let Some(trigger) = settings.level0_stop_trigger {
        options.set_level_zero_stop_writes_trigger(files(trigger));
    }
    options
}

impl Admin for RocksdbEngine {
    fn name(&self) -> String {
        format!("{NAME} {VERSION}")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kv: true,
            concurrent_writers: true,
            background_work: true,
            persistent: true,
            ..Capabilities::default()
        }
    }

    fn flush(&self) -> Result<()> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        self.db.flush_opt(&options).map_err(|error| foreign(NAME, "flush", error))
    }

    fn settle(&self) -> Result<()> {
        let options = WaitForCompactOptions::default();
        self.db.wait_for_compact(&options).map_err(|error| foreign(NAME, "settle", error))
    }

    /// Compacts all it has: the binding cannot have level 0 alone compacted.
    fn drain(&self) -> Result<()> {
        self.flush()?;
        self.db.compact_range::<&[u8], &[u8]>(None, None);
        self.settle()
    }

    /// The engine's tickers would slow every call down, so its own text reports are read: bytes are good to about
    /// 10 MB, counts to a thousandth, and the stalled time has no causes.
    fn stats(&self) -> Result<EngineStats> {
        let database = self.text("rocksdb.dbstats")?;
        let family = self.text("rocksdb.cfstats-no-file-histogram")?;
        let debt = self
            .db
            .property_int_value(properties::ESTIMATE_PENDING_COMPACTION_BYTES)
            .map_err(|error| foreign(NAME, "property", error))?;
        Ok(EngineStats {
            bytes_written: text::bytes_written(&database, &family),
            bytes_read: text::bytes_compacted_read(&family),
            bytes_grain: text::BYTES_GRAIN,
            reads: None,
            space_bytes: None,
            log_bytes: None,
            debt_bytes: debt,
            next_limit_bytes: None,
            stall_micros: text::stall_micros(&database),
            counters: text::counters(&database, &family),
        })
    }

    fn close(&self) -> Result<()> {
        self.db.flush_wal(true).map_err(|error| foreign(NAME, "close", error))?;
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}

impl Kv for RocksdbEngine {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put_opt(key, value, &self.write_options).map_err(|error| foreign(NAME, "put", error))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.db.delete_opt(key, &self.write_options).map_err(|error| foreign(NAME, "delete", error))
    }

    fn write(&self, batch: &KvBatch) -> Result<()> {
        let mut foreign_batch = WriteBatch::with_capacity_bytes(batch.payload_bytes() + 16 * batch.len() + 12);
        for op in batch {
            match op {
                KvOp::Put { key, value } => foreign_batch.put(key, value),
                KvOp::Delete { key } => foreign_batch.delete(key),
                KvOp::DeleteOnce { key } => foreign_batch.single_delete(key),
            }
        }
        self.db.write_opt(foreign_batch, &self.write_options).map_err(|error| foreign(NAME, "write", error))
    }

    fn get_pinned(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.db.get_pinned_opt(key, &self.read_options).map_err(|error| foreign(NAME, "get", error))?;
        value.as_deref().map(found);
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        for (position, value) in self.db.multi_get_opt(keys, &self.read_options).into_iter().enumerate() {
            let value = value.map_err(|error| foreign(NAME, "multi_get", error))?;
            found(position, value.as_deref());
        }
        Ok(())
    }

    fn cursor(&self) -> Result<Box<dyn KvCursor>> {
        Ok(Box::new(cursor::RocksdbCursor::new(Arc::clone(&self.db))))
    }
}
