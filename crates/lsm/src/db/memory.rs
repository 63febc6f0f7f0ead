//! Who holds the memory of a database.

use super::holders::Holder;
use super::state::DbInner;
use siltstone_base::text_table::{TextTable, format_bytes};
use std::fmt;

/// The bytes of memory that a database holds, by holder. Each byte is counted once, so that [`total`](Self::total) is what the database takes, but for what it takes whatever is in it (threads, lists of files)
/// and what is underway on stacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryReport {
    /// Memtables that are written or wait for their flush.
    pub memtables: u64,
    /// Memtables that were flushed and that iterators or snapshots of reads still hold.
    pub held_memtables: u64,
    /// The block cache: data blocks, and partitions of indexes and filters. All of it, if several databases share it.
    pub cached_blocks: u64,
    /// The block cache's tier of compressed blocks.
    pub compressed_blocks: u64,
    /// Indexes, filters and range tombstones of open tables, as far as they are not in the block cache.
    pub open_tables: u64,
    /// Open blob files; what was read of them belongs to who read it.
    pub blob_files: u64,
    /// Changes of transactions that are under way, and of batches that can be read, with their indexes, about. Those that are prepared, or wait in a [`WriteBatch`](crate::WriteBatch), are not counted here.
    pub transactions: u64,
    /// Row locks, held and waited for.
    pub row_locks: u64,
    /// Batches of tasks that stand in line.
    pub queued_writes: u64,
    /// Rows that loaders have gathered to sort them.
    pub loads: u64,
    /// Blocks outside the cache: of iterators, compactions and reads that fill no cache.
    pub buffers: u64,
    /// Free buffers that wait to be used again.
    pub free_buffers: u64,
}

impl MemoryReport {
    /// The holders by name, in a fixed order.
    pub fn holders(&self) -> [(&'static str, u64); 12] {
        [
            ("memtables", self.memtables),
            ("held memtables", self.held_memtables),
            ("cached blocks", self.cached_blocks),
            ("compressed blocks", self.compressed_blocks),
            ("open tables", self.open_tables),
            ("blob files", self.blob_files),
            ("transactions", self.transactions),
            ("row locks", self.row_locks),
            ("queued writes", self.queued_writes),
            ("loads", self.loads),
            ("buffers", self.buffers),
            ("free buffers", self.free_buffers),
        ]
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.holders().iter().map(|(_, bytes)| bytes).sum()
    }
}

impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = TextTable::new(["holder", "size"]);
        for (holder, bytes) in self.holders() {
            table.row([holder.to_string(), format_bytes(bytes)]);
        }
        table.rule();
        table.row(["total".to_string(), format_bytes(self.total())]);
        table.fmt(f)
    }
}

impl DbInner {
    /// Who holds how much at the moment.
    pub(crate) fn memory_report(&self) -> MemoryReport {
        let families = self.families.load();
        let mut report = MemoryReport {
            cached_blocks: self.block_cache.usage() as u64,
            compressed_blocks: self.block_cache.compressed_usage() as u64,
            free_buffers: self.block_pool.retained() as u64,
            blob_files: self.blob_files.memory_usage() as u64,
            transactions: self.holders.bytes(Holder::Transactions),
            row_locks: self.holders.row_lock_bytes(),
            queued_writes: self.holders.bytes(Holder::QueuedWrites),
            loads: self.holders.bytes(Holder::Loads),
            ..MemoryReport::default()
        };
        for family in families.values() {
            let pinned = family.super_version.load();
            report.memtables +=
                pinned.memtables().map(|memtable| memtable.approximate_memory_usage() as u64).sum::<u64>();
            report.held_memtables += family.replaced.bytes_beside(&pinned).0;
            let readers = pinned.version.all_files().filter_map(|(_, file)| file.reader.get());
            report.open_tables += readers.map(|reader| reader.memory_usage() as u64).sum::<u64>();
        }
        // What the cache holds of other databases, and what it holds beside buffers, is not of this pool.
        report.buffers = self.block_pool.in_use().saturating_sub(self.block_pool.cached()) as u64;
        report
    }
}
