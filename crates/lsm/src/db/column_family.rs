//! Column families: independent key spaces that share the WAL.

use super::expiry::FamilyExpiry;
use super::pacing::FamilyWork;
use super::pins::Replaced;
use super::resolve::Resolver;
use super::state::Surroundings;
use super::super_version::SuperVersion;
use super::timestamps::FamilyTimestamps;
use crate::compaction::HiddenRows;
use crate::key::{ColumnFamilyId, InternalKeyComparator};
use crate::memtable::{Memtable, MemtableMemory, MemtableOptions};
use crate::options::ColumnFamilyOptions;
use crate::table_cache::{TableCache, TableCacheOptions};
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::sync::{Arc, ArcSwap, OnceLock};
use std::fmt;

/// One column family. What changes is replaced as a whole: readers take no lock.
pub(crate) struct Family {
    /// The number under which batches and the MANIFEST know it.
    pub(crate) id: u32,
    /// The name that users know it by.
    pub(crate) name: String,
    /// The opening of a database that it belongs to.
    pub(crate) instance: u64,
    /// The order of its internal keys.
    pub(crate) comparator: InternalKeyComparator,
    /// Set where keys end with timestamps.
    pub(crate) timestamps: Option<FamilyTimestamps>,
    /// Set where rows expire.
    pub(crate) expiry: Option<FamilyExpiry>,
    /// Its open tables.
    pub(crate) table_cache: Arc<TableCache>,
    /// How its entries become values.
    pub(crate) resolver: Arc<Resolver>,
    /// What readers pin. Replaced by [`publish`](Self::publish), under the state lock.
    pub(crate) super_version: ArcSwap<SuperVersion>,
    /// What its jobs tell of their progress.
    pub(crate) work: Arc<FamilyWork>,
    /// Who sees values that flushes and compactions drop for newer ones.
    pub(crate) hidden_rows: OnceLock<Arc<dyn HiddenRows>>,
    /// Set where entries belong to each other, so that compactions may delete none but what users deleted or replaced.
    pub(super) keeps_all: AtomicBool,
    /// What was in its place before.
    pub(super) replaced: Replaced,
    dropped: AtomicBool,
}

impl Family {
    pub(crate) fn new(id: u32, name: String, first: SuperVersion, surroundings: &Surroundings) -> Self {
        let options = Arc::clone(&first.options);
        let comparator = InternalKeyComparator::new(Arc::clone(&options.comparator));
        let super_version = ArcSwap::from_pointee(first);
        let cache_options = TableCacheOptions {
            comparator: comparator.clone(),
            prefix_extractor: options.prefix_extractor.clone(),
            pin_filter_partitions: options.table.pin_filter_partitions,
            expiry: options.expiry.clone(),
            block_cache: Arc::clone(&surroundings.block_cache),
            block_pool: surroundings.block_pool.clone(),
            use_direct_reads: surroundings.options.use_direct_reads,
            use_direct_io_for_compaction: surroundings.options.use_direct_io_for_flush_and_compaction,
            allow_mmap_reads: surroundings.options.allow_mmap_reads,
            merge_operator: options.merge_operator.as_ref().map(|operator| operator.name().to_owned()),
            allow_other_merge_operator: options.allow_other_merge_operator,
            metrics: Arc::clone(&surroundings.metrics),
        };
        let table_cache = Arc::new(TableCache::new(Arc::clone(&surroundings.env), &surroundings.dir, cache_options));
        let resolver = Arc::new(Resolver::new(&name, &options, &surroundings.blob_files));
        let (instance, dropped) = (surroundings.instance, AtomicBool::new(false));
        let timestamps = FamilyTimestamps::of(&options, 0);
        let (replaced, work) = (Replaced::new(), Arc::default());
        let expiry = options.expiry.as_ref().map(|policy| FamilyExpiry::new(policy, &surroundings.expiry, id));
        Self {
            id,
            name,
            instance,
            comparator,
            timestamps,
            expiry,
            table_cache,
            resolver,
            super_version,
            replaced,
            work,
            hidden_rows: OnceLock::new(),
            keeps_all: AtomicBool::new(false),
            dropped,
        }
    }

    /// The same, whose history before the timestamp `low` may be gone.
    pub(crate) fn with_timestamp_low(self, low: u64) -> Self {
        let timestamps = FamilyTimestamps::of(&self.options(), low);
        Self { timestamps, ..self }
    }

    /// Its options, as they are now.
    pub(crate) fn options(&self) -> Arc<ColumnFamilyOptions> {
        Arc::clone(&self.super_version.load().options)
    }

    /// Lets readers see `state` from now on, which is `now_micros`.
    pub(crate) fn publish(&self, state: SuperVersion, now_micros: u64) {
        let old = self.super_version.swap(Arc::new(state));
        self.replaced.add(&old, now_micros);
    }

    /// An empty memtable whose first WAL is `log_number`, counted in `memory`.
    pub(crate) fn new_memtable(
        memory: &Arc<MemtableMemory>,
        options: &ColumnFamilyOptions,
        log_number: u64,
    ) -> Arc<Memtable> {
        let comparator = InternalKeyComparator::new(Arc::clone(&options.comparator));
        Memtable::counted_in(memory, log_number, comparator, &memtable_options(options))
    }

    /// [`new_memtable`](Self::new_memtable), to be filled after `previous`.
    pub(crate) fn next_memtable(options: &ColumnFamilyOptions, previous: &Memtable, log_number: u64) -> Arc<Memtable> {
        previous.successor(log_number, &memtable_options(options))
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    pub(crate) fn mark_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    /// The oldest WAL that holds entries of the family which no table holds, but for memtables that `is_gone` says are none; `None` if every entry is in a table.
    pub(crate) fn oldest_needed_log(&self, is_gone: impl Fn(u64) -> bool) -> Option<u64> {
        let pinned = self.super_version.load();
        let sealed = pinned.immutables.newest_first().iter().map(|memtable| memtable.id());
        let active = (!pinned.memtable.is_empty()).then(|| pinned.memtable.id());
        sealed.chain(active).filter(|id| !is_gone(*id)).min()
    }

    /// The oldest WAL that prepared entries which are in a memtable of the family, but for memtables that `is_gone` says are none.
    pub(crate) fn oldest_prepared_log(&self, is_gone: impl Fn(u64) -> bool) -> Option<u64> {
        let pinned = self.super_version.load();
        let memtables = std::iter::once(&pinned.memtable).chain(pinned.immutables.newest_first());
        memtables.filter(|memtable| !is_gone(memtable.id())).filter_map(|memtable| memtable.prepared_log()).min()
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

/// A handle on a column family. Cheap to clone; it may outlive the family, whose calls then fail with `NotFound`.
#[derive(Debug, Clone)]
pub struct ColumnFamily(pub(crate) Arc<Family>);

impl ColumnFamily {
    /// The number of the family.
    pub fn id(&self) -> ColumnFamilyId {
        ColumnFamilyId(self.0.id)
    }

    /// The name of the family.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The options of the family, as they are now.
    pub fn options(&self) -> Arc<ColumnFamilyOptions> {
        self.0.options()
    }

    /// Whether the family was dropped.
    pub fn is_dropped(&self) -> bool {
        self.0.is_dropped()
    }
}

impl From<&ColumnFamily> for ColumnFamilyId {
    fn from(family: &ColumnFamily) -> Self {
        family.id()
    }
}

fn memtable_options(options: &ColumnFamilyOptions) -> MemtableOptions {
    MemtableOptions {
        write_buffer_size: options.write_buffer_size,
        bloom_bits_per_key: options.memtable_bloom_bits_per_key,
        protection_bytes: 0,
        prefix_extractor: options.prefix_extractor.clone(),
    }
}
