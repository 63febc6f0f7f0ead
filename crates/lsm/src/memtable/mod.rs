//! Memtables: what was written last, in memory and in order.
//!
//! A memtable is filled by one [`MemtableWriter`] at a time or by any number of [`ConcurrentMemtableWriter`]s, read by anybody at any
//! time, and sealed when the database starts another one. Entries are never removed. A reader sees an entry once its insertion
//! returned; which of the entries it *may* see is a matter of sequence numbers.
//!
//! Path: get 3/7. Before: db/read.rs. After: version/read.rs.

mod arena;
mod block;
mod immutable_list;
mod iter;
mod memory;
mod range_list;
mod skiplist;
mod spare;
#[cfg(test)]
mod tests;
mod writer;

use crate::iterator::InternalIterator;
use crate::key::{InternalKeyComparator, LookupKey, SeqNo, ValueType, trailer, user_key};
use crate::range_tombstones::RangeTombstone;
pub(crate) use immutable_list::ImmutableList;
pub(crate) use iter::{MemtableIter, MemtableValue};
pub(crate) use memory::{JobRoom, MemtableMemory};
use range_list::RangeList;
pub(crate) use range_list::RangeReader;
use siltstone_base::bloom::DynamicBloom;
use siltstone_base::checksum::xxph3;
use siltstone_base::prefix_extractor::PrefixExtractor;
use siltstone_base::sync::CachePadded;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use skiplist::{Entry, SkipList};
use std::sync::{Arc, OnceLock};
pub(crate) use writer::{ConcurrentMemtableWriter, MemtableWriter};

/// What an entry is taken to need in a memtable when its bloom filter is sized, in bytes.
const ASSUMED_ENTRY_LEN: usize = 100;

/// A search among fewer entries than this costs little more than asking a filter.
const BLOOM_FROM_ENTRIES: u64 = 256;

/// A memtable of fewer entries says nothing about the keys of the next.
const ENOUGH_TO_LEARN_FROM: u64 = 1000;

/// How a memtable is made.
#[derive(Debug, Clone)]
pub(crate) struct MemtableOptions {
    /// Bytes at which the database means to seal it: sizes the bloom filter.
    pub(crate) write_buffer_size: usize,
    /// Bits per key of a bloom filter over user keys, which is made once there are enough keys; 0 for none. Unused if keys of different
    /// bytes may be equal.
    pub(crate) bloom_bits_per_key: usize,
    /// Tells the prefixes that the bloom filter has beside the user keys.
    pub(crate) prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    /// Bytes reserved after each value for a checksum of the entry.
    pub(crate) protection_bytes: usize,
}

/// The newest visible version of a key, kept alive by itself.
#[derive(Debug)]
pub(crate) struct PinnedEntry {
    /// What it does to the key.
    pub(crate) value_type: ValueType,
    /// Its value; empty for a tombstone.
    pub(crate) value: MemtableValue,
}

/// Figures about the entries, added up when a writer is dropped.
#[derive(Debug, Default)]
struct Totals {
    entries: AtomicU64,
    deletes: AtomicU64,
    /// What the entries took in their write batches.
    batch_bytes: AtomicU64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Memtable {
    id: u64,
    list: Arc<SkipList>,
    /// The range tombstones, apart from the point entries.
    ranges: RangeList,
    /// Bits of the bloom filter; 0 if there will be none.
    bloom_bits: usize,
    /// Has every user key and every prefix, from the moment at which it is set.
    bloom: OnceLock<DynamicBloom>,
    prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    /// On a cache line of their own: every writer changes them.
    totals: CachePadded<Totals>,
    /// The oldest WAL in which entries were prepared that were committed into this memtable; `u64::MAX` if none were.
    prepared_log: AtomicU64,
}

impl Drop for Memtable {
    fn drop(&mut self) {
        self.list.memory().gave_back(self.bloom_bytes());
    }
}

impl Memtable {
    /// An empty memtable. `id` grows from one memtable of a column family to the next.
    pub(crate) fn new(id: u64, comparator: InternalKeyComparator, options: &MemtableOptions) -> Arc<Self> {
        Self::counted_in(&Arc::default(), id, comparator, options)
    }

    /// The same, whose memory is counted in `memory`.
    pub(crate) fn counted_in(
        memory: &Arc<MemtableMemory>,
        id: u64,
        comparator: InternalKeyComparator,
        options: &MemtableOptions,
    ) -> Arc<Self> {
        Self::expecting(memory, id, comparator, options, (&[], &[]))
    }

    /// An empty memtable that is filled after this one, and counted where it is: keys like those here are expected, and are found the faster for it.
    pub(crate) fn successor(&self, id: u64, options: &MemtableOptions) -> Arc<Self> {
        let (memory, comparator) = (self.list.memory(), self.comparator().clone());
        if self.num_entries() < ENOUGH_TO_LEARN_FROM {
            let expected = self.list.common_start();
            return Self::expecting(memory, id, comparator, options, (expected, expected));
        }
        let mut iter = self.iter();
        iter.seek_to_first();
        if !iter.valid() {
            return Self::expecting(memory, id, comparator, options, (&[], &[]));
        }
        let first = user_key(iter.key()).to_vec();
        iter.seek_to_last();
        Self::expecting(memory, id, comparator, options, (&first, user_key(iter.key())))
    }

    fn expecting(
        memory: &Arc<MemtableMemory>,
        id: u64,
        comparator: InternalKeyComparator,
        options: &MemtableOptions,
        expected: (&[u8], &[u8]),
    ) -> Arc<Self> {
        memory.allow_spares(options.write_buffer_size);
        let has_bloom = options.bloom_bits_per_key > 0 && !comparator.user().equal_may_differ();
        let keys = options.write_buffer_size / ASSUMED_ENTRY_LEN;
        Arc::new(Self {
            id,
            bloom_bits: if has_bloom { keys.saturating_mul(options.bloom_bits_per_key).max(1) } else { 0 },
            bloom: OnceLock::new(),
            ranges: RangeList::new(comparator.clone()),
            prefix_extractor: options.prefix_extractor.clone(),
            list: Arc::new(SkipList::new(Arc::clone(memory), comparator, options.protection_bytes, expected)),
            totals: CachePadded::default(),
            prepared_log: AtomicU64::new(u64::MAX),
        })
    }

    /// Its number within its column family.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Takes note that entries come which the WAL `number` prepared: it is needed until they are in a table.
    pub(crate) fn note_prepared_log(&self, number: u64) {
        self.prepared_log.fetch_min(number, Ordering::AcqRel);
    }

    /// The oldest WAL that prepared some of its entries.
    pub(crate) fn prepared_log(&self) -> Option<u64> {
        Some(self.prepared_log.load(Ordering::Acquire)).filter(|number| *number != u64::MAX)
    }

    /// The order of its entries.
    pub(crate) fn comparator(&self) -> &InternalKeyComparator {
        self.list.comparator()
    }

    /// The right to insert alone. `None` while any other writer lives.
    #[inline]
    pub(crate) fn writer(&self) -> Option<MemtableWriter<'_>> {
        MemtableWriter::new(self)
    }

    /// The right to insert beside other writers of this kind. `None` while a [`MemtableWriter`] lives.
    #[inline]
    pub(crate) fn concurrent_writer(&self) -> Option<ConcurrentMemtableWriter<'_>> {
        ConcurrentMemtableWriter::new(self)
    }

    /// The newest version of a key that is visible at the lookup's sequence number, a tombstone included. A range tombstone that hides what
    /// there is, here or in older sources, is a [`ValueType::Delete`].
    #[inline]
    pub(crate) fn get_pinned(&self, lookup: &LookupKey) -> Option<PinnedEntry> {
        if self.ranges.count() > 0 {
            return self.get_under_ranges(lookup);
        }
        self.get_newer_than(lookup, 0)
    }

    #[cold]
    fn get_under_ranges(&self, lookup: &LookupKey) -> Option<PinnedEntry> {
        let covered = self.ranges.covering(lookup.user_key(), lookup.seqno());
        let newer = self.get_newer_than(lookup, covered);
        let deleted = || PinnedEntry { value_type: ValueType::Delete, value: MemtableValue::empty() };
        newer.or_else(|| (covered > 0).then(deleted))
    }

    /// The newest visible version of a key, if its sequence number is not below `floor`.
    #[inline]
    fn get_newer_than(&self, lookup: &LookupKey, floor: SeqNo) -> Option<PinnedEntry> {
        if !self.may_contain(lookup) {
            return None;
        }
        let key = lookup.internal_key();
        let (value_type, value) = self.list.seek_pinned(key, |entry| self.found(lookup, entry, floor))?;
        Some(PinnedEntry { value_type, value: MemtableValue::new(value) })
    }

    /// The largest number of a range tombstone over a key; 0 for none.
    pub(crate) fn newest_range_over(&self, user_key: &[u8]) -> SeqNo {
        self.ranges.covering(user_key, crate::key::MAX_SEQNO)
    }

    /// About how many point entries there are from the internal key `begin` to before `end`; exact where there are few.
    pub(crate) fn approximate_entries(&self, begin: &[u8], end: &[u8]) -> u64 {
        self.list.estimate_between(begin, end).min(self.num_entries())
    }

    /// How many range tombstones there are.
    pub(crate) fn num_ranges(&self) -> u64 {
        self.ranges.count()
    }

    /// The range tombstones, in no order.
    pub(crate) fn range_tombstones(&self) -> Vec<RangeTombstone> {
        self.ranges.to_vec()
    }

    /// All point entries, in order.
    pub(crate) fn iter(&self) -> MemtableIter {
        MemtableIter::new(Arc::clone(&self.list))
    }

    /// Bytes that the entries and the filter need, with what is lost between them. The figure to compare with the write buffer's size.
    #[inline]
    pub(crate) fn approximate_memory_usage(&self) -> usize {
        self.list.used_bytes() + self.bloom_bytes() + self.ranges.memory_usage()
    }

    /// Bytes of memory that it takes, what nothing was written to yet included.
    pub(crate) fn reserved_memory(&self) -> usize {
        self.list.reserved_bytes() + self.bloom_bytes() + self.ranges.memory_usage()
    }

    /// Bytes of its blocks of memory and of its filter, as [`MemtableMemory`] counts them.
    pub(crate) fn counted_bytes(&self) -> usize {
        self.list.block_bytes() + self.bloom_bytes()
    }

    /// Bytes of memory that an entry takes, for each that it took in its write batch: with small ones the list takes as much as they do. `None` while there are too few to tell.
    pub(crate) fn memory_per_batch_byte(&self) -> Option<f64> {
        let batch_bytes = self.totals.batch_bytes.load(Ordering::Relaxed);
        let memory = self.list.used_bytes() + self.ranges.memory_usage();
        (self.num_entries() >= ENOUGH_TO_LEARN_FROM).then(|| memory as f64 / batch_bytes.max(1) as f64)
    }

    /// How many entries there are, tombstones of both kinds included.
    #[inline]
    pub(crate) fn num_entries(&self) -> u64 {
        self.totals.entries.load(Ordering::Relaxed)
    }

    /// How many tombstones there are, of both kinds.
    pub(crate) fn num_deletes(&self) -> u64 {
        self.totals.deletes.load(Ordering::Relaxed)
    }

    /// Whether there is no entry, as far as writers that were dropped go.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.num_entries() == 0
    }

    /// Makes the bloom filter when it is worth it. REQUIRES: the caller holds the exclusive right to insert.
    #[inline]
    fn start_bloom_if_due(&self) {
        if self.is_bloom_due() {
            self.start_bloom();
        }
    }

    #[inline]
    fn is_bloom_due(&self) -> bool {
        self.bloom_bits > 0 && self.bloom.get().is_none() && self.num_entries() >= BLOOM_FROM_ENTRIES
    }

    /// Makes the bloom filter when it is worth it, before several writers insert side by side: none of them may, and the next one that is alone would make it of all that they
    /// inserted. REQUIRES: nobody inserts.
    #[inline]
    pub(crate) fn prepare_for_many(&self) {
        if self.is_bloom_due() {
            drop(self.writer());
        }
    }

    #[cfg(test)]
    pub(crate) fn has_bloom_for_test(&self) -> bool {
        self.bloom.get().is_some()
    }

    /// How many writers inserted beside others, or could have.
    #[cfg(test)]
    pub(crate) fn shared_writers_for_test(&self) -> u64 {
        self.list.shared_writers_for_test()
    }

    #[cold]
    fn start_bloom(&self) {
        self.bloom.get_or_init(|| {
            let bloom = DynamicBloom::new(self.bloom_bits);
            let mut iter = self.iter();
            iter.seek_to_first();
            while iter.valid() {
                self.add_to_bloom(&bloom, user_key(iter.key()));
                iter.next();
            }
            self.list.memory().took(bloom.memory_usage());
            bloom
        });
    }

    fn bloom_bytes(&self) -> usize {
        self.bloom.get().map_or(0, DynamicBloom::memory_usage)
    }

    #[inline]
    fn add_to_bloom(&self, bloom: &DynamicBloom, user_key: &[u8]) {
        bloom.add(xxph3(user_key));
        if let Some(extractor) = &self.prefix_extractor
            && let Some(prefix) = extractor.prefix(user_key)
        {
            bloom.add(xxph3(prefix));
        }
    }

    /// Whether there may be a key of the prefix whose XXPH3 hash is `hash`.
    pub(crate) fn may_have_prefix(&self, hash: u64) -> bool {
        self.prefix_extractor.is_none() || self.bloom.get().is_none_or(|bloom| bloom.may_contain(hash))
    }

    #[inline]
    fn may_contain(&self, lookup: &LookupKey) -> bool {
        self.bloom.get().is_none_or(|bloom| bloom.may_contain(xxph3(lookup.user_key())))
    }

    /// What an entry that a lookup came to does to its key, if it is of its key and not below `floor`.
    #[inline]
    fn found(&self, lookup: &LookupKey, entry: Entry<'_>, floor: SeqNo) -> Option<ValueType> {
        if !self.comparator().compare_user(user_key(entry.internal_key), lookup.user_key()).is_eq() {
            return None;
        }
        let trailer = trailer(entry.internal_key);
        if trailer >> 8 < floor {
            return None;
        }
        // The writers put in no other types than those that are known.
        ValueType::from_u8(trailer as u8)
    }
}
