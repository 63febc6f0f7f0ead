//! Inner structures with a handle each, for the benchmarks that time them alone.

use crate::iterator::{InternalIterator, MergingIter};
use crate::key::{InternalKeyComparator, LookupKey, MAX_SEQNO, ValueType, append_internal_key};
use crate::memtable::{Memtable, MemtableIter, MemtableOptions};
use crate::sst::{Block, BlockBuilder, BlockCursor};
use siltstone_base::block_pool::PooledBuf;
use siltstone_base::comparator::Bytewise;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::fmt;

fn comparator() -> InternalKeyComparator {
    InternalKeyComparator::new(Arc::new(Bytewise))
}

/// A memtable: the skip list and its arena.
#[derive(Debug)]
pub struct MemtableProbe(Arc<Memtable>);

impl MemtableProbe {
    /// A memtable without a bloom filter that holds `entries` under sequence numbers from 1.
    ///
    /// # Errors
    ///
    /// `Busy`, which a memtable that nobody else has never is.
    pub fn filled<'a>(entries: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Result<Self> {
        let options = MemtableOptions {
            write_buffer_size: 64 << 20,
            bloom_bits_per_key: 0,
            prefix_extractor: None,
            protection_bytes: 0,
        };
        let memtable = Memtable::new(1, comparator(), &options);
        {
            let mut writer =
                memtable.writer().ok_or_else(|| Error::new(ErrorKind::Busy, "the memtable has a writer"))?;
            for (seqno, (key, value)) in (1..).zip(entries) {
                writer.add(seqno, ValueType::Put, key, value);
            }
        }
        Ok(Self(memtable))
    }

    /// Whether the newest version of `key` is a value.
    pub fn has(&self, key: &[u8]) -> bool {
        let lookup = LookupKey::new(key, MAX_SEQNO);
        self.0.get_pinned(&lookup).is_some_and(|entry| entry.value_type == ValueType::Put)
    }
}

/// A merge of several memtables.
pub struct MergeProbe(MergingIter<MemtableIter>);

impl MergeProbe {
    /// A merge of `memtables`.
    pub fn of(memtables: &[MemtableProbe]) -> Self {
        Self(MergingIter::new(comparator(), memtables.iter().map(|memtable| memtable.0.iter()).collect()))
    }

    /// Walks over all entries; returns their number.
    pub fn walk(&mut self) -> usize {
        let mut entries = 0;
        self.0.seek_to_first();
        while self.0.valid() {
            entries += 1;
            self.0.next();
        }
        entries
    }
}

impl fmt::Debug for MergeProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MergeProbe").finish_non_exhaustive()
    }
}

/// A data block as it lies in the cache.
#[derive(Debug)]
pub struct BlockProbe {
    block: Block,
    cursor: BlockCursor,
    comparator: InternalKeyComparator,
    target: Vec<u8>,
}

impl BlockProbe {
    /// A block of `entries`, which are sorted, with a full key every 16.
    ///
    /// # Errors
    ///
    /// `Corruption`, which a block that was just built never is.
    pub fn build<'a>(entries: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Result<Self> {
        let mut builder = BlockBuilder::new(16);
        let mut key = Vec::new();
        for (user_key, value) in entries {
            key.clear();
            append_internal_key(&mut key, user_key, 1, ValueType::Put);
            builder.add(&key, value);
        }
        let bytes = builder.finish().to_vec();
        let len = bytes.len();
        let block = Block::new(PooledBuf::unpooled(bytes), len)?;
        Ok(Self { block, cursor: BlockCursor::new(), comparator: comparator(), target: Vec::new() })
    }

    /// Whether there is an entry at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> bool {
        self.target.clear();
        append_internal_key(&mut self.target, key, MAX_SEQNO, ValueType::Put);
        self.cursor.seek(&self.block, &self.target, &self.comparator)
    }

    /// Walks over all entries; returns the bytes of their keys and values.
    pub fn walk(&mut self) -> usize {
        let mut bytes = 0;
        let mut found = self.cursor.seek_to_first(&self.block);
        while found {
            bytes += self.cursor.key().len() + self.cursor.value(&self.block).len();
            found = self.cursor.next(&self.block);
        }
        bytes
    }
}
