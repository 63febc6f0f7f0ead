//! What the memtables of a database take, those included that only readers and jobs still hold.

use siltstone_base::sync::CachePadded;
use siltstone_base::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of the blocks of memory of all memtables that were made in it, until the last of each has gone back.
///
/// Thread safety: every method may be called from any thread.
#[derive(Debug, Default)]
pub(crate) struct MemtableMemory {
    bytes: CachePadded<AtomicUsize>,
}

impl MemtableMemory {
    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A memtable took a block of so many bytes.
    pub(super) fn took(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A block has gone back.
    pub(super) fn gave_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
