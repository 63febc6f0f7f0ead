//! Who holds the memory of a database.

use super::state::DbInner;
use crate::holders::Holder;
use crate::sst::BlockCache;
use siltstone_base::row_locks::RowLocks;
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicUsize, Ordering};
use siltstone_base::text_table::{TextTable, format_bytes};
use std::fmt;
use std::sync::OnceLock;

/// The bytes of memory that a database holds, by holder. Each byte is counted once, so that [`total`](Self::total) is what the database takes, but for what it takes whatever is in it (threads, lists of files)
/// and what is underway on stacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryReport {
    /// Memtables that are written or wait for their flush.
    pub memtables: u64,
    /// Memtables that were flushed and that iterators, values that were read, or jobs still hold, until the last of their memory has gone back.
    pub held_memtables: u64,
    /// Memory of memtables that were flushed, for the next ones: it is given back when nothing is written for a while.
    pub free_memtables: u64,
    /// The block cache: data blocks, and partitions of indexes and filters. All of it, if several databases share it.
    pub cached_blocks: u64,
    /// The block cache's tier of compressed blocks.
    pub compressed_blocks: u64,
    /// Indexes, filters and range tombstones of open tables, as far as they are not in the block cache.
    pub open_tables: u64,
    /// Open blob files; what was read of them belongs to who read it.
    pub blob_files: u64,
    /// Batches of tasks that stand in line.
    pub queued_writes: u64,
    /// Rows that loaders have gathered to sort them.
    pub loads: u64,
    /// What jobs gather while they build tables: bytes to be written, the index, the keys of the filter.
    pub jobs: u64,
    /// Blocks outside the cache: of iterators, compactions and reads that fill no cache.
    pub buffers: u64,
    /// Free buffers that wait to be used again.
    pub free_buffers: u64,
    /// Changes and watched keys of open transactions. What has less than 16 KiB counts for nothing.
    pub transactions: u64,
    /// Transactions that are prepared and not decided.
    pub prepared_transactions: u64,
    /// Locks of rows.
    pub row_locks: u64,
    /// Of the process: buffers of files that are written past the page cache, and of threads that read such.
    pub file_buffers: u64,
    /// Of the process: slabs of buffers that no database has any more, or needs, and that wait for the next one.
    pub free_slabs: u64,
    /// Of the process: what the allocator has and nobody uses, as far as it tells.
    pub allocator: u64,
    /// Of the process: what is resident of the program, its libraries and other files that are mapped.
    pub mapped_files: u64,
}

impl MemoryReport {
    /// The holders by name, in a fixed order.
    pub fn holders(&self) -> [(&'static str, u64); 15] {
        [
            ("memtables", self.memtables),
            ("held memtables", self.held_memtables),
            ("free memtables", self.free_memtables),
            ("cached blocks", self.cached_blocks),
            ("compressed blocks", self.compressed_blocks),
            ("open tables", self.open_tables),
            ("blob files", self.blob_files),
            ("queued writes", self.queued_writes),
            ("loads", self.loads),
            ("jobs", self.jobs),
            ("buffers", self.buffers),
            ("free buffers", self.free_buffers),
            ("transactions", self.transactions),
            ("prepared transactions", self.prepared_transactions),
            ("row locks", self.row_locks),
        ]
    }

    /// What is of the whole process, by name: with several databases each report has it.
    pub fn of_process(&self) -> [(&'static str, u64); 4] {
        [
            ("file buffers", self.file_buffers),
            ("free slabs", self.free_slabs),
            ("allocator", self.allocator),
            ("mapped files", self.mapped_files),
        ]
    }

    /// All of the database.
    pub fn total(&self) -> u64 {
        self.holders().iter().map(|(_, bytes)| bytes).sum()
    }

    /// The same with what is of the process: what a process takes that has this database alone, and little of its own.
    pub fn total_with_process(&self) -> u64 {
        self.of_process().iter().map(|(_, bytes)| bytes).sum::<u64>() + self.total()
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
        for (holder, bytes) in self.of_process() {
            table.row([format!("process: {holder}"), format_bytes(bytes)]);
        }
        table.fmt(f)
    }
}

/// Whose memory is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChargedTo {
    /// A transaction that is open.
    Open,
    /// One that is prepared.
    Prepared,
}

/// What transactions hold. The block cache makes room for it.
#[derive(Debug)]
pub(crate) struct TransactionMemory {
    cache: Arc<BlockCache>,
    open: AtomicUsize,
    prepared: AtomicUsize,
    locks: OnceLock<Arc<RowLocks>>,
}

impl TransactionMemory {
    pub(crate) fn new(cache: &Arc<BlockCache>) -> Self {
        let (open, prepared) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { cache: Arc::clone(cache), open, prepared, locks: OnceLock::new() }
    }

    /// Counts what these locks take, too. They are limited by themselves.
    pub(crate) fn add_locks(&self, locks: &Arc<RowLocks>) {
        // The first ones stay: a database has one set of locks.
        let _ = self.locks.set(Arc::clone(locks));
    }
}

/// Memory of one transaction, until it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryCharge {
    memory: Arc<TransactionMemory>,
    to: ChargedTo,
    bytes: usize,
}

impl MemoryCharge {
    /// Nothing yet.
    pub(crate) fn new(memory: &Arc<TransactionMemory>, to: ChargedTo) -> Self {
        Self { memory: Arc::clone(memory), to, bytes: 0 }
    }

    /// It is `bytes` from now on.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes == self.bytes {
            return;
        }
        let counter = match self.to {
            ChargedTo::Open => &self.memory.open,
            ChargedTo::Prepared => &self.memory.prepared,
        };
        counter.fetch_add(bytes, Ordering::Relaxed);
        counter.fetch_sub(self.bytes, Ordering::Relaxed);
        self.memory.cache.charge(self.bytes, bytes);
        self.bytes = bytes;
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl DbInner {
    /// Who holds how much at the moment.
    pub(crate) fn memory_report(&self) -> MemoryReport {
        let families = self.families.load();
        let memory = &self.transaction_memory;
        let mut report = MemoryReport {
            cached_blocks: self.block_cache.usage() as u64,
            compressed_blocks: self.block_cache.compressed_usage() as u64,
            free_buffers: self.block_pool.retained() as u64,
            transactions: memory.open.load(Ordering::Relaxed) as u64,
            prepared_transactions: memory.prepared.load(Ordering::Relaxed) as u64,
            row_locks: memory.locks.get().map_or(0, |locks| locks.stats().bytes as u64),
            blob_files: self.blob_files.memory_usage() as u64,
            file_buffers: siltstone_base::env::buffer_bytes(),
            free_slabs: siltstone_base::block_pool::waiting_bytes() as u64,
            allocator: siltstone_base::allocator::free_bytes(),
            mapped_files: siltstone_base::allocator::mapped_file_bytes(),
            queued_writes: self.holders.bytes(Holder::QueuedWrites),
            loads: self.holders.bytes(Holder::Loads),
            jobs: self.holders.bytes(Holder::Jobs),
            ..MemoryReport::default()
        };
        let mut newest = 0;
        for family in families.values() {
            let pinned = family.super_version.load();
            report.memtables += pinned.memtables().map(|memtable| memtable.reserved_memory() as u64).sum::<u64>();
            newest += pinned.memtables().map(|memtable| memtable.counted_bytes()).sum::<usize>();
            let readers = pinned.version.all_files().filter_map(|(_, file)| file.reader.get());
            report.open_tables += readers.map(|reader| reader.memory_usage() as u64).sum::<u64>();
        }
        let spare = self.memtable_memory.spare_bytes();
        report.held_memtables = self.memtable_memory.bytes().saturating_sub(newest + spare) as u64;
        report.free_memtables = spare as u64;
        // What the cache holds of other databases, and what it holds beside buffers, is not of this pool.
        report.buffers = self.block_pool.in_use().saturating_sub(self.block_pool.cached()) as u64;
        report
    }
}
