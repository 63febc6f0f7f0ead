//! Writing the index of a table: one block, or partitions with a small index above them.
//!
//! ```text
//! entry = varint32 shared, varint32 non_shared, separator[shared..], handle, [varint32 len, first internal key]
//! handle = varint64 offset, varint64 size where nothing is shared, else zigzag varint64 of (size - size before)
//! ```

use super::block_builder::BlockBuilder;
use super::format::{BLOCK_TRAILER_LEN, BlockHandle};
use super::output::TableOutput;
use crate::key::{self, InternalKeyComparator, MAX_SEQNO, pack_trailer};
use crate::options::{IndexType, TableOptions};
use siltstone_base::Result;
use siltstone_base::coding::{put_varint32, put_varint64, zigzag_encode64};
use std::cmp::Ordering;

/// The type number of shortened separators that are stored as internal keys. Readers only compare it.
const SEPARATOR_TYPE: u8 = 0x10;

/// The most bytes that an entry takes beside its keys: three lengths, a handle, a restart point.
const MAX_ENTRY_OVERHEAD: usize = 3 * 5 + 2 * 10 + 4;

/// Encodes one block of separators and handles: an index, a partition of one, or the index above partitions.
#[derive(Debug)]
pub(crate) struct IndexBlockEncoder {
    block: BlockBuilder,
    /// Separators are stored as user keys.
    user_keys: bool,
    previous: BlockHandle,
}

impl IndexBlockEncoder {
    /// Begins a block with a full key at every `restart_interval`th entry.
    pub(crate) fn new(restart_interval: usize, user_keys: bool) -> Self {
        Self { block: BlockBuilder::new(restart_interval), user_keys, previous: BlockHandle::default() }
    }

    /// Appends an entry. `separator` is an internal key; the block at `handle` follows the one before without a gap.
    pub(crate) fn add(&mut self, separator: &[u8], handle: BlockHandle, first_key: Option<&[u8]>) {
        let previous = self.previous;
        let follows = previous.offset + previous.size + BLOCK_TRAILER_LEN as u64 == handle.offset;
        debug_assert!(self.block.is_empty() || follows, "blocks of an index are contiguous");
        let separator = if self.user_keys { key::user_key(separator) } else { separator };
        self.block.add_delta(separator, |shares, out| {
            if shares {
                put_varint64(out, zigzag_encode64(handle.size.wrapping_sub(previous.size) as i64));
            } else {
                handle.encode(out);
            }
            if let Some(first_key) = first_key {
                put_varint32(out, first_key.len() as u32);
                out.extend_from_slice(first_key);
            }
        });
        self.previous = handle;
    }

    /// The bytes that the block would take if it ended now.
    pub(crate) fn len(&self) -> usize {
        self.block.len()
    }

    /// Ends the block; the bytes live until [`clear`](Self::clear).
    pub(crate) fn finish(&mut self) -> &[u8] {
        self.block.finish()
    }

    /// Begins the next block.
    pub(crate) fn clear(&mut self) {
        self.block.clear();
        self.previous = BlockHandle::default();
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrittenIndex {
    /// The block that the footer or the metaindex names.
    pub(crate) handle: BlockHandle,
    /// Separators are user keys.
    pub(crate) user_keys: bool,
    /// Uncompressed bytes of all its blocks and their trailers.
    pub(crate) size: u64,
    /// Partitions; 0 for an index of one block.
    pub(crate) partitions: u64,
    /// Uncompressed bytes of the block above the partitions; 0 without partitions.
    pub(crate) top_level_size: u64,
}

/// One data block.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Where its separator ends.
    separator_end: usize,
    /// Where its first key ends.
    first_key_end: usize,
    handle: BlockHandle,
}

/// Gathers the index of a table while its blocks are written.
#[derive(Debug)]
pub(crate) struct IndexBuilder {
    kind: IndexType,
    /// Separators as internal keys, one behind the other.
    separators: Vec<u8>,
    /// First keys, if the kind of index has them.
    first_keys: Vec<u8>,
    entries: Vec<Entry>,
    /// Whether no user key spans two blocks so far.
    user_keys: bool,
    scratch: Vec<u8>,
}

impl IndexBuilder {
    pub(crate) fn new(kind: IndexType) -> Self {
        Self {
            kind,
            separators: Vec::new(),
            first_keys: Vec::new(),
            entries: Vec::new(),
            user_keys: true,
            scratch: Vec::new(),
        }
    }

    /// Takes the first key of a block that begins.
    #[inline]
    pub(crate) fn begin_block(&mut self, first_key: &[u8]) {
        if self.kind == IndexType::BinarySearchWithFirstKey {
            self.first_keys.extend_from_slice(first_key);
        }
    }

    /// Adds the block at `handle` that ends with `last_key`; `next_key` is the first key behind it, if there is one. Comes
    /// before the next block begins.
    pub(crate) fn add(
        &mut self,
        comparator: &InternalKeyComparator,
        last_key: &[u8],
        next_key: Option<&[u8]>,
        handle: BlockHandle,
    ) {
        let last_user = key::user_key(last_key);
        let mut shortened = false;
        if let Some(next_key) = next_key {
            let next_user = key::user_key(next_key);
            if comparator.compare_user(last_user, next_user) == Ordering::Less {
                self.scratch.clear();
                comparator.user().shortest_separator(last_user, next_user, &mut self.scratch);
                // A user's comparator is not trusted to keep its contract.
                shortened = self.scratch.len() <= last_user.len()
                    && comparator.compare_user(last_user, &self.scratch) == Ordering::Less
                    && comparator.compare_user(&self.scratch, next_user) == Ordering::Less;
            } else {
                self.user_keys = false;
            }
        }
        if shortened {
            self.separators.extend_from_slice(&self.scratch);
            self.separators.extend_from_slice(&pack_trailer(MAX_SEQNO, SEPARATOR_TYPE).to_le_bytes());
        } else {
            self.separators.extend_from_slice(last_key);
        }
        let (separator_end, first_key_end) = (self.separators.len(), self.first_keys.len());
        self.entries.push(Entry { separator_end, first_key_end, handle });
    }

    /// Sets the handle of block `at`, which was not known when it was added. `at < len`.
    pub(crate) fn set_handle(&mut self, at: usize, handle: BlockHandle) {
        self.entries[at].handle = handle;
    }

    /// Offsets in the file behind all blocks, which were written.
    pub(crate) fn block_ends(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().map(|entry| entry.handle.offset + entry.handle.size + BLOCK_TRAILER_LEN as u64)
    }

    /// Bytes of memory that it holds.
    pub(crate) fn memory_usage(&self) -> usize {
        self.separators.capacity() + self.first_keys.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// The separator behind the block that was added last, as an internal key.
    #[inline]
    pub(crate) fn last_separator(&self) -> &[u8] {
        let before = self.entries.len().checked_sub(2).and_then(|before| self.entries.get(before));
        &self.separators[before.map_or(0, |entry| entry.separator_end)..]
    }

    /// Whether separators will be stored as user keys: no user key spans two blocks so far.
    pub(crate) fn has_user_keys(&self) -> bool {
        self.user_keys
    }

    /// The kind of the index.
    pub(crate) fn kind(&self) -> IndexType {
        self.kind
    }

    /// Lets the index have partitions if one block of `most` bytes could not hold it.
    pub(crate) fn fit(&mut self, most: usize) {
        let keys = self.separators.len() + self.first_keys.len();
        if keys + self.entries.len() * MAX_ENTRY_OVERHEAD > most {
            self.kind = IndexType::TwoLevel;
        }
    }

    /// How many blocks were added.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// About how long the index will be.
    pub(crate) fn estimated_size(&self) -> usize {
        self.separators.len() + self.first_keys.len() + self.entries.len() * 4
    }

    /// Writes the index.
    pub(crate) fn write(&self, output: &mut TableOutput, options: &TableOptions) -> Result<WrittenIndex> {
        let interval = match self.kind {
            // The prefixes name entries by their restart points.
            IndexType::HashSearch => 1,
            _ => options.index_block_restart_interval,
        };
        let partition_size = match self.kind {
            IndexType::TwoLevel => options.metadata_block_size,
            _ => usize::MAX,
        };
        let mut block = IndexBlockEncoder::new(interval, self.user_keys);
        let mut top = IndexBlockEncoder::new(interval, self.user_keys);
        let (mut partitions, mut size) = (0, 0);
        let (mut separator_start, mut first_key_start) = (0, 0);
        for (at, entry) in self.entries.iter().enumerate() {
            let separator = &self.separators[separator_start..entry.separator_end];
            let first_key = &self.first_keys[first_key_start..entry.first_key_end];
            (separator_start, first_key_start) = (entry.separator_end, entry.first_key_end);
            block.add(separator, entry.handle, (self.kind == IndexType::BinarySearchWithFirstKey).then_some(first_key));
            let is_last = at + 1 == self.entries.len();
            if self.kind == IndexType::TwoLevel && (is_last || block.len() >= partition_size) {
                let bytes = block.finish();
                size += stored_len(bytes);
                top.add(separator, output.write_block(bytes, true)?, None);
                partitions += 1;
                block.clear();
            }
        }
        if self.kind != IndexType::TwoLevel {
            let bytes = block.finish();
            let (size, handle) = (stored_len(bytes), output.write_block(bytes, true)?);
            return Ok(WrittenIndex { handle, user_keys: self.user_keys, size, partitions: 0, top_level_size: 0 });
        }
        let bytes = top.finish();
        let top_level_size = bytes.len() as u64;
        size += stored_len(bytes);
        let handle = output.write_block(bytes, true)?;
        Ok(WrittenIndex { handle, user_keys: self.user_keys, size, partitions, top_level_size })
    }
}

fn stored_len(block: &[u8]) -> u64 {
    (block.len() + BLOCK_TRAILER_LEN) as u64
}
