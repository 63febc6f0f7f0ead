//! Building a block of prefix-compressed entries.
//!
//! ```text
//! block = entry* || restart offsets: fixed32[R] || [hash index] || fixed32 R, with the highest bit set if there is a hash index
//! entry = varint32 shared, varint32 non_shared, varint32 value_len, key[shared..], value
//! ```

use super::block::HASH_INDEX_BIT;
use super::block_hash::BlockHashBuilder;
use crate::key::user_key;
use siltstone_base::coding::{put_fixed32, put_varint32};

/// Gathers ascending entries of one block. Reused for the blocks of a file by [`clear`](Self::clear).
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    /// Encoded entries.
    entries: Vec<u8>,
    restarts: Vec<u32>,
    /// Entries since the last restart point.
    since_restart: usize,
    restart_interval: usize,
    /// The key added last, also of the block before.
    last_key: Vec<u8>,
    hash: Option<BlockHashBuilder>,
}

impl BlockBuilder {
    /// A builder of blocks with a full key at every `restart_interval`th entry.
    pub(crate) fn new(restart_interval: usize) -> Self {
        Self {
            entries: Vec::new(),
            restarts: vec![0],
            since_restart: 0,
            restart_interval: restart_interval.max(1),
            last_key: Vec::new(),
            hash: None,
        }
    }

    /// The same, of internal keys, with a hash index of `util_ratio` keys a bucket.
    #[must_use]
    pub(crate) fn with_hash_index(mut self, util_ratio: f64) -> Self {
        self.hash = Some(BlockHashBuilder::new(util_ratio));
        self
    }

    /// Appends an entry. Keys ascend: the caller checks.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        let shared = self.begin_entry(key);
        self.put_header(shared, key.len() - shared, Some(value.len()));
        self.entries.extend_from_slice(&key[shared..]);
        self.entries.extend_from_slice(value);
        if let Some(hash) = &mut self.hash {
            hash.add(user_key(key), self.restarts.len() - 1);
        }
    }

    /// Appends an entry without a length of its value, as delta-encoded indexes have. `value` appends the value, given
    /// whether the key shares bytes with the one before.
    pub(crate) fn add_delta(&mut self, key: &[u8], value: impl FnOnce(bool, &mut Vec<u8>)) {
        let shared = self.begin_entry(key);
        self.put_header(shared, key.len() - shared, None);
        self.entries.extend_from_slice(&key[shared..]);
        value(shared > 0, &mut self.entries);
    }

    /// Decides about a restart point and returns the bytes that `key` shares with the last one, which it replaces.
    #[inline]
    fn begin_entry(&mut self, key: &[u8]) -> usize {
        let shared = if self.entries.is_empty() {
            0
        } else if self.since_restart >= self.restart_interval {
            self.restarts.push(self.entries.len() as u32);
            self.since_restart = 0;
            0
        } else {
            common_prefix(&self.last_key, key)
        };
        self.since_restart += 1;
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        shared
    }

    #[inline]
    fn put_header(&mut self, shared: usize, non_shared: usize, value_len: Option<usize>) {
        if let Some(value_len) = value_len
            && (shared | non_shared | value_len) < 0x80
        {
            self.entries.extend_from_slice(&[shared as u8, non_shared as u8, value_len as u8]);
            return;
        }
        put_varint32(&mut self.entries, shared as u32);
        put_varint32(&mut self.entries, non_shared as u32);
        if let Some(value_len) = value_len {
            put_varint32(&mut self.entries, value_len as u32);
        }
    }

    /// The bytes that the block would take if it ended now.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len() + 4 * self.restarts.len() + 4 + self.hash.as_ref().map_or(0, BlockHashBuilder::len)
    }

    /// Bytes of memory that it holds.
    pub(crate) fn memory_usage(&self) -> usize {
        self.entries.capacity() + self.restarts.capacity() * size_of::<u32>() + self.last_key.capacity()
    }

    /// Whether no entry was added.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The key added last.
    #[inline]
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Ends the block; the bytes live until [`clear`](Self::clear).
    pub(crate) fn finish(&mut self) -> &[u8] {
        self.entries.reserve(4 * self.restarts.len() + 4);
        for restart in &self.restarts {
            put_fixed32(&mut self.entries, *restart);
        }
        let mut footer = self.restarts.len() as u32;
        if let Some(hash) = &self.hash
            && hash.finish(&mut self.entries)
        {
            footer |= HASH_INDEX_BIT;
        }
        put_fixed32(&mut self.entries, footer);
        &self.entries
    }

    /// Begins the next block. The last key stays known.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.restarts.truncate(1);
        self.since_restart = 0;
        if let Some(hash) = &mut self.hash {
            hash.clear();
        }
    }
}

/// The number of leading bytes that two strings have in common.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let (a_words, _) = a.as_chunks::<8>();
    let (b_words, _) = b.as_chunks::<8>();
    let mut shared = 0;
    for (a, b) in a_words.iter().zip(b_words) {
        let difference = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if difference != 0 {
            return shared + difference.trailing_zeros() as usize / 8;
        }
        shared += 8;
    }
    while shared < len && a[shared] == b[shared] {
        shared += 1;
    }
    shared
}
