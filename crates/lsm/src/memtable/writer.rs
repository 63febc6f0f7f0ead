//! The two ways to fill a memtable.
//!
//! Path: put 4/5. Before: wal/writer.rs. After: memtable/skiplist/writers.rs.

use super::Memtable;
use super::skiplist::{ExclusiveWriter, SharedWriter};
use crate::key::{SeqNo, ValueType};
use siltstone_base::sync::atomic::{AtomicU64, Ordering};

/// Bytes of an entry in a write batch beside its key and its value: its type, and their lengths.
const ENTRY_HEADER: usize = 3;

/// What a writer has inserted so far; the memtable takes it over when the writer is dropped.
#[derive(Debug, Default)]
struct Added {
    entries: u64,
    deletes: u64,
    batch_bytes: u64,
}

impl Added {
    #[inline]
    fn count(&mut self, value_type: ValueType, user_key: &[u8], value: &[u8]) {
        self.entries += 1;
        self.deletes += u64::from(value_type.is_tombstone());
        self.batch_bytes += (ENTRY_HEADER + user_key.len() + value.len()) as u64;
    }

    /// Counts a range tombstone that was `added`, and passes that on.
    fn count_range(&mut self, added: bool, user_key: &[u8], end: &[u8]) -> bool {
        if added {
            self.count(ValueType::RangeDelete, user_key, end);
        }
        added
    }
}

/// Inserts while nobody else does. Where each insertion starts to search is where the last one ended, also that of an earlier writer:
/// ascending keys need no search.
pub(crate) struct MemtableWriter<'a> {
    memtable: &'a Memtable,
    list: ExclusiveWriter<'a>,
    added: Added,
}

impl<'a> MemtableWriter<'a> {
    #[inline]
    pub(super) fn new(memtable: &'a Memtable) -> Option<Self> {
        let list = memtable.list.exclusive_writer()?;
        memtable.start_bloom_if_due();
        Some(Self { memtable, list, added: Added::default() })
    }

    /// Inserts a version of a key. Returns `false`, and inserts nothing, if the memtable has one of the same sequence number and type.
    /// A [`ValueType::RangeDelete`] deletes from `user_key` to `value`, exclusive; one over no key is not inserted.
    ///
    /// REQUIRES: key and value within the limits of a write batch.
    #[inline]
    pub(crate) fn add(&mut self, seqno: SeqNo, value_type: ValueType, user_key: &[u8], value: &[u8]) -> bool {
        if value_type == ValueType::RangeDelete {
            let added = self.memtable.ranges.add(seqno, user_key, value);
            return self.added.count_range(added, user_key, value);
        }
        if let Some(bloom) = self.memtable.bloom.get() {
            self.memtable.add_to_bloom(bloom, user_key);
        }
        let inserted = self.list.insert(user_key, seqno, value_type as u8, value);
        if inserted {
            self.added.count(value_type, user_key, value);
        }
        inserted
    }
}

impl Drop for MemtableWriter<'_> {
    #[inline]
    fn drop(&mut self) {
        // The list's token, which is dropped after this, excludes other writers: no addition is lost.
        let (totals, added) = (&self.memtable.totals, &self.added);
        let add = |total: &AtomicU64, more: u64| {
            total.store(total.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        };
        add(&totals.entries, added.entries);
        add(&totals.deletes, added.deletes);
        add(&totals.batch_bytes, added.batch_bytes);
    }
}

/// Inserts beside other writers of this kind.
pub(crate) struct ConcurrentMemtableWriter<'a> {
    memtable: &'a Memtable,
    list: SharedWriter<'a>,
    added: Added,
}

impl<'a> ConcurrentMemtableWriter<'a> {
    #[inline]
    pub(super) fn new(memtable: &'a Memtable) -> Option<Self> {
        Some(Self { memtable, list: memtable.list.shared_writer()?, added: Added::default() })
    }

    /// Inserts a version of a key. Returns `false`, and inserts nothing, if the memtable has one of the same sequence number and type.
    /// A [`ValueType::RangeDelete`] deletes from `user_key` to `value`, exclusive; one over no key is not inserted.
    ///
    /// REQUIRES: key and value within the limits of a write batch.
    #[inline]
    pub(crate) fn add(&mut self, seqno: SeqNo, value_type: ValueType, user_key: &[u8], value: &[u8]) -> bool {
        if value_type == ValueType::RangeDelete {
            let added = self.memtable.ranges.add(seqno, user_key, value);
            return self.added.count_range(added, user_key, value);
        }
        if let Some(bloom) = self.memtable.bloom.get() {
            self.memtable.add_to_bloom(bloom, user_key);
        }
        let inserted = self.list.insert(user_key, seqno, value_type as u8, value);
        if inserted {
            self.added.count(value_type, user_key, value);
        }
        inserted
    }
}

impl Drop for ConcurrentMemtableWriter<'_> {
    fn drop(&mut self) {
        let (totals, added) = (&self.memtable.totals, &self.added);
        totals.entries.fetch_add(added.entries, Ordering::Relaxed);
        totals.deletes.fetch_add(added.deletes, Ordering::Relaxed);
        totals.batch_bytes.fetch_add(added.batch_bytes, Ordering::Relaxed);
    }
}
