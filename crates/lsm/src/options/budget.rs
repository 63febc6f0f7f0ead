//! All options from two numbers: how much memory and how many cores there are.

use super::{ColumnFamilyOptions, DbOptions, IndexType, TableOptions};
use crate::sst::BlockCache;
use std::sync::Arc;

/// Less than this is taken for this: memtables would be too small to be worth a table.
const LEAST_BUDGET: usize = 8 << 20;
/// All write buffers together have one part in so many of the budget.
const WRITE_BUFFERS_PART: usize = 4;
/// Two of them, one being written and one being flushed.
const WRITE_BUFFERS: usize = 2;
/// No write buffer is larger: flushes would come in lumps.
const LARGEST_WRITE_BUFFER: usize = 256 << 20;
/// What open tables, jobs and iterators take beside the cache: one part in so many.
const OTHERS_PART: usize = 8;
/// What the allocator may keep free at the end of an area: one part in so many.
const ALLOCATOR_PART: usize = 256;
/// Of the cache, so much is for compressed blocks, in hundredths. Memtables and jobs take theirs from it: 13 fortieths of the budget are left of it at the least.
const COMPRESSED_PERCENT: usize = 80;
/// More jobs to one compaction would take buffers from the rest.
const MOST_SUBCOMPACTIONS: usize = 4;
/// About one false answer in a hundred.
const BLOOM_BITS_PER_KEY: f64 = 10.0;
/// What tasks may have waiting to be written: one part in so many.
#[cfg(feature = "tokio")]
const QUEUED_PART: usize = 64;
/// What a load sorts at a time: one part in so many.
const SORTED_PART: usize = 16;
/// The base level holds so many write buffers, as by default.
const BUFFERS_PER_BASE_LEVEL: u64 = 4;

impl DbOptions {
    /// Options for a database on a machine of `cores` that may use `bytes` of memory in all (8 MiB at least).
    ///
    /// | what | share |
    /// | --- | --- |
    /// | open tables, buffers of iterators, and of jobs in part | an eighth |
    /// | the block cache | the rest: a fifth of it for uncompressed blocks, four fifths for compressed ones |
    /// | the memtables of all families, `db_write_buffer_size` | up to a quarter of the budget, 512 MiB at most, for which compressed blocks [make room](Self::charge_memtables_to_block_cache). Those of one family: two write buffers |
    /// | buffers of flushes and compactions while they work | an eighth of the memory, which compressed blocks make room for as well |
    ///
    /// The allocator keeps less free than it would by itself ([`allocator_trim_threshold`](Self::allocator_trim_threshold)). Tables are read and written past the operating system's page cache, which would be a second budget; indexes and filters of tables come and go through the block cache.
    /// There are as many background jobs as cores, two at least and 16 at most, and as many may share a large compaction, four at most. Sizes of tables and levels follow the write buffers.
    ///
    /// Everything can be changed afterwards; families that are opened by name want [`ColumnFamilyOptions::for_budget`], with the same number of bytes however many there are. What else takes memory
    /// has its `for_budget`, too: [`TransactionDbOptions::for_budget`](crate::TransactionDbOptions::for_budget), `AsyncDbOptions::for_budget` and [`BulkLoadOptions::for_budget`](crate::BulkLoadOptions::for_budget).
    ///
    /// ```
    /// use siltstone_lsm::DbOptions;
    ///
    /// let options = DbOptions::for_budget(512 << 20, 4).create_if_missing(true);
    /// assert_eq!(options.unnamed_families.write_buffer_size, 64 << 20);
    /// ```
    pub fn for_budget(bytes: usize, cores: usize) -> Self {
        let bytes = bytes.max(LEAST_BUDGET);
        let family = ColumnFamilyOptions::for_budget(bytes);
        let buffers = family.write_buffer_size * WRITE_BUFFERS;
        let cache = bytes - bytes / OTHERS_PART;
        let compressed = cache / 100 * COMPRESSED_PERCENT;
        Self::default()
            .unnamed_families(family)
            .db_write_buffer_size(buffers)
            .charge_memtables_to_block_cache(true)
            .allocator_trim_threshold((bytes / ALLOCATOR_PART).clamp(128 << 10, 1 << 20))
            .max_background_jobs(cores.clamp(2, 16))
            .max_subcompactions(cores.clamp(1, MOST_SUBCOMPACTIONS))
            .use_direct_reads(true)
            .use_direct_io_for_flush_and_compaction(true)
            .compaction_readahead_size((bytes / 256).clamp(64 << 10, 2 << 20))
            .block_cache(Some(Arc::new(BlockCache::new(cache - compressed).with_compressed_tier(compressed))))
    }
}

impl ColumnFamilyOptions {
    /// Options of a family whose database may use `bytes` of memory in all, as [`DbOptions::for_budget`] says. Give each family all of the budget, not a part of it: however many families
    /// there are, their memtables share the one limit of the database, and who is written most gets most.
    pub fn for_budget(bytes: usize) -> Self {
        let buffer = (bytes.max(LEAST_BUDGET) / WRITE_BUFFERS_PART / WRITE_BUFFERS).min(LARGEST_WRITE_BUFFER);
        let table = TableOptions::default()
            .index_type(IndexType::TwoLevel)
            .partition_filters(true)
            .bloom_bits_per_key(BLOOM_BITS_PER_KEY);
        Self::default()
            .write_buffer_size(buffer)
            .max_write_buffer_number(WRITE_BUFFERS)
            .target_file_size_base((buffer as u64).clamp(1 << 20, 64 << 20))
            .max_bytes_for_level_base(buffer as u64 * BUFFERS_PER_BASE_LEVEL)
            .table(table)
    }
}

#[cfg(feature = "tokio")]
impl crate::AsyncDbOptions {
    /// Options for a database that may use `bytes` of memory in all, as [`DbOptions::for_budget`] says: batches that wait to be written may have a 64th of it, 64 MiB at most, and those of low priority as much.
    pub fn for_budget(bytes: usize) -> Self {
        Self::default().max_queued_bytes((bytes.max(LEAST_BUDGET) / QUEUED_PART).min(64 << 20))
    }
}

impl crate::BulkLoadOptions {
    /// Options for a database that may use `bytes` of memory in all, as [`DbOptions::for_budget`] says: a load sorts a 16th of it at a time, 256 MiB at most.
    pub fn for_budget(bytes: usize) -> Self {
        Self::default().sort_buffer_bytes((bytes.max(LEAST_BUDGET) / SORTED_PART).min(256 << 20))
    }
}
