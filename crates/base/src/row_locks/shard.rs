//! One shard: the queues of the rows that fell into it.

use super::queue::Queue;
use crate::checksum::xxh3_64;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};
use hashbrown::HashTable;

/// Bytes of a lock beside its key: the entries of its shard and of its owner, the queue, and what allocations cost.
const ENTRY_BYTES: usize = 192;

/// Bytes that the lock of a row with this key takes.
pub(super) fn lock_bytes(key: &[u8]) -> usize {
    key.len() + ENTRY_BYTES
}

/// A row that somebody locks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RowKey {
    pub(super) hash: u64,
    pub(super) space: u32,
    pub(super) bytes: Box<[u8]>,
}

impl RowKey {
    pub(super) fn hash_of(space: u32, key: &[u8]) -> u64 {
        xxh3_64(key) ^ u64::from(space).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// Bytes that a lock of it takes.
    pub(super) fn size_bytes(&self) -> usize {
        lock_bytes(&self.bytes)
    }

    fn is(&self, space: u32, key: &[u8]) -> bool {
        self.space == space && *self.bytes == *key
    }
}

/// A row and its queue.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) row: Arc<RowKey>,
    pub(super) queue: Queue,
}

/// A part of all rows that are locked. It lists no row without a queue.
#[derive(Debug, Default)]
pub(super) struct Shard {
    table: HashTable<Entry>,
}

impl Shard {
    pub(super) fn find(&self, hash: u64, space: u32, key: &[u8]) -> Option<&Entry> {
        self.table.find(hash, |entry| entry.row.is(space, key))
    }

    pub(super) fn find_mut(&mut self, row: &RowKey) -> Option<&mut Entry> {
        self.table.find_mut(row.hash, |entry| *entry.row == *row)
    }

    /// The entry of a row; a new one is charged to `bytes`.
    pub(super) fn entry(&mut self, hash: u64, space: u32, key: &[u8], bytes: &AtomicUsize) -> &mut Entry {
        let found = self.table.entry(hash, |entry| entry.row.is(space, key), |entry| entry.row.hash);
        found
            .or_insert_with(|| {
                bytes.fetch_add(lock_bytes(key), Ordering::AcqRel);
                Entry { row: Arc::new(RowKey { hash, space, bytes: key.into() }), queue: Queue::default() }
            })
            .into_mut()
    }

    /// Forgets a row that nobody locks any more.
    pub(super) fn remove_if_unused(&mut self, row: &RowKey, bytes: &AtomicUsize) {
        let found = self.table.find_entry(row.hash, |entry| *entry.row == *row);
        if let Ok(found) = found.map_err(drop)
            && found.get().queue.is_unused()
        {
            found.remove();
            bytes.fetch_sub(row.size_bytes(), Ordering::AcqRel);
        }
    }
}
