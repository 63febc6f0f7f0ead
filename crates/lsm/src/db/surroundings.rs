//! What a database stands on: files, threads and time, caches and memory, which the options give or which are made for it.

use super::state::Surroundings;
use crate::blob::BlobFiles;
use crate::file_names::FileName;
use crate::memtable::MemtableMemory;
use crate::metrics::Metrics;
use crate::options::DbOptions;
use crate::sst::{BlockCache, encode_session_id};
use siltstone_base::block_pool::BlockPool;
use siltstone_base::clock::SystemClock;
use siltstone_base::executor::{Executor, Priority, ThreadExecutor};
use siltstone_base::expiry::{ExpiryRoom, RoomSettings, TrustedClock};
use siltstone_base::sync::{Arc, ArcSwap};
use siltstone_base::{Error, Result};
use std::path::Path;

/// Bytes of free blocks that the pool keeps at most, and at least.
const MOST_RETAINED_BYTES: usize = 8 << 20;
const LEAST_RETAINED_BYTES: usize = 256 << 10;

/// The pool keeps a part of what the block cache may hold uncompressed.
const RETAINED_PART: usize = 8;

/// Capacity of a database's own block cache.
const DEFAULT_BLOCK_CACHE_BYTES: usize = 32 << 20;

/// Where the block cache makes room for memtables, it makes room for one part in so many of their limit beside them while jobs work.
const JOBS_PART: usize = 2;

/// What a database in `dir` stands on.
pub(super) fn surroundings(dir: &Path, options: &DbOptions) -> Result<Surroundings> {
    let env = options.environment();
    let executor: Arc<dyn Executor> = match &options.executor {
        Some(executor) => Arc::clone(executor),
        None => {
            let threads = options.max_background_jobs;
            let threads =
                ThreadExecutor::with_niceness(threads, Arc::new(SystemClock::new()), options.background_niceness);
            Arc::new(threads.map_err(|error| Error::io("start threads for", dir, error))?)
        }
    };
    let (clock, owns_executor) = (Arc::clone(executor.clock()), options.executor.is_none());
    if options.allocator_trim_threshold > 0 {
        siltstone_base::allocator::bound_free(options.allocator_trim_threshold);
    }
    let mut options = options.clone();
    // The database keeps them; a second copy in the options would keep an executor's threads alive for ever.
    options.env = None;
    options.executor = None;
    let block_cache = match &options.block_cache {
        Some(cache) => Arc::clone(cache),
        None => Arc::new(BlockCache::new(DEFAULT_BLOCK_CACHE_BYTES)),
    };
    let retained = block_cache.capacity() / RETAINED_PART;
    let block_pool = BlockPool::new(retained.clamp(LEAST_RETAINED_BYTES, MOST_RETAINED_BYTES));
    let metrics = Arc::new(Metrics::with_clock(Arc::clone(&clock)));
    if options.use_direct_reads || options.use_direct_io_for_flush_and_compaction {
        env.prepare_direct();
    }
    let blob_files = BlobFiles::new(Arc::clone(&env), dir, options.use_direct_reads, Arc::clone(&metrics));
    let blob_files = Arc::new(blob_files);
    let expiry_clock = options.expiry_clock.clone().unwrap_or_else(|| Arc::clone(&clock));
    let time_since_opening = TrustedClock::new(Arc::clone(&expiry_clock), None, 0);
    let expiry = ExpiryRoom::new(RoomSettings {
        env: Arc::clone(&env),
        path: FileName::Expiry.path(dir),
        // Only opening a database uses the name too, for a file that it needs before.
        temporary: FileName::Temporary(0).path(dir),
        clock: expiry_clock,
        pace: Arc::clone(&clock),
        jump_limit: options.max_clock_jump_seconds,
    });
    let memtable_memory = if options.charge_memtables_to_block_cache {
        let charged = Arc::clone(&block_cache);
        let most = (block_cache.capacity() + block_cache.compressed_capacity()) / 2;
        MemtableMemory::charging(options.db_write_buffer_size / JOBS_PART, move |before, now| {
            charged.charge(before.min(most), now.min(most));
        })
    } else {
        MemtableMemory::default()
    };
    // Who reads a memtable keeps its memory, but no threads.
    let jobs = Arc::downgrade(&executor);
    let memtable_memory = Arc::new(memtable_memory.with_jobs(move |job| {
        if let Some(executor) = jobs.upgrade() {
            executor.submit(Priority::High, Box::new(job));
        }
    }));
    let (upper, lower) = uuid::Uuid::new_v4().as_u64_pair();
    Ok(Surroundings {
        dir: dir.to_path_buf(),
        live_options: ArcSwap::from_pointee(options.clone()),
        options,
        env,
        executor,
        owns_executor,
        clock,
        expiry,
        time_since_opening,
        db_id: String::new(),
        session_id: encode_session_id(upper, lower.max(1)),
        instance: upper ^ lower.rotate_left(32),
        blob_files,
        block_cache,
        block_pool,
        metrics,
        holders: Arc::default(),
        memtable_memory,
    })
}
