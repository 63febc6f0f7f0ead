//! What the cache of blocks does, told apart by kinds of blocks.
//!
//! Partitions are counted where they are looked up; data blocks are what is left of all, so that a hit on one costs nothing more.

use siltstone_base::sync::CachePadded;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};

/// Shards, a power of two: files are spread over them.
const SHARDS: usize = 16;

/// A kind of blocks that caches hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CachedKind {
    /// Data blocks.
    Data,
    /// Partitions of indexes.
    Index,
    /// Partitions of filters.
    Filter,
}

/// What a cache did with blocks of one kind since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KindStats {
    /// Lookups that found their block. 0 for data blocks, which are what is left of all.
    pub(crate) hits: u64,
    /// Lookups that did not; the same.
    pub(crate) misses: u64,
    /// Blocks that were put in.
    pub(crate) inserts: u64,
    /// Their bytes in memory.
    pub(crate) inserted_bytes: u64,
}

#[derive(Debug, Default)]
struct Cells {
    hits: AtomicU64,
    misses: AtomicU64,
    inserts: AtomicU64,
    inserted_bytes: AtomicU64,
}

/// Counts by kind.
///
/// Thread safety: every method may be called from any thread.
#[derive(Debug)]
pub(super) struct KindCounts {
    shards: Box<[CachePadded<[Cells; 3]>]>,
}

impl KindCounts {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| CachePadded::new(Default::default())).collect() }
    }

    fn cells(&self, kind: CachedKind, file: u64) -> Option<&Cells> {
        self.shards.get(file as usize & (SHARDS - 1))?.get(kind as usize)
    }

    /// Counts a lookup of a partition of `file`.
    pub(super) fn looked_up(&self, kind: CachedKind, file: u64, is_hit: bool) {
        if let Some(cells) = self.cells(kind, file) {
            let counter = if is_hit { &cells.hits } else { &cells.misses };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a block of `file` that was put in.
    pub(super) fn inserted(&self, kind: CachedKind, file: u64, bytes: u64) {
        if let Some(cells) = self.cells(kind, file) {
            cells.inserts.fetch_add(1, Ordering::Relaxed);
            cells.inserted_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// What was counted so far.
    pub(super) fn get(&self, kind: CachedKind) -> KindStats {
        let cells = self.shards.iter().filter_map(|shard| shard.get(kind as usize));
        cells.fold(KindStats::default(), |sum, cells| KindStats {
            hits: sum.hits.wrapping_add(cells.hits.load(Ordering::Relaxed)),
            misses: sum.misses.wrapping_add(cells.misses.load(Ordering::Relaxed)),
            inserts: sum.inserts.wrapping_add(cells.inserts.load(Ordering::Relaxed)),
            inserted_bytes: sum.inserted_bytes.wrapping_add(cells.inserted_bytes.load(Ordering::Relaxed)),
        })
    }
}
