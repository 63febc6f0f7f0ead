//! The index of a table: for each data block a separator, at or after its last key and before the first key of the next
//! block, and its handle.
//!
//! Files of version 3 and later store user keys as separators where no user key spans two blocks, and internal keys
//! otherwise; from version 4 on the handles are stored as differences of sizes. Two properties of the file say which.

use super::block::Layout;
use super::block_builder::common_prefix;
use super::block_slots::BlockSlots;
use super::format::{BLOCK_TRAILER_LEN, BlockHandle};
use crate::heads::Heads;
use crate::key::{self, InternalKeyComparator, TRAILER_LEN, head_of};
use siltstone_base::coding::{decode_varint32, get_varint64, zigzag_decode64};
use siltstone_base::{Error, Result};
use std::cmp::Ordering;

/// Bytes that decoded separators may take, beside 64 times the size of their block: prefix compression of damaged
/// blocks has no other bound.
const MAX_SEPARATORS_LEN: usize = 64 << 20;

/// What an allocator takes for the eight allocations of an index, in bytes.
const ALLOCATOR_OVERHEAD: usize = 8 * 16;

/// How an index block is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexEncoding {
    /// Separators are user keys.
    pub(crate) user_keys: bool,
    /// Handles are stored as differences.
    pub(crate) delta_values: bool,
    /// A first internal key follows each handle.
    pub(crate) first_keys: bool,
}

/// A decoded index, laid out for searching.
///
/// With a bytewise order a search first looks at 8 bytes of each separator behind what all of them share, as integers in
/// one array, and only then at the few separators that are equal there.
#[derive(Debug)]
pub(crate) struct Index {
    /// Separators as stored, one behind the other.
    separators: Vec<u8>,
    /// Where each separator ends.
    ends: Vec<u32>,
    offsets: Vec<u64>,
    sizes: Vec<u32>,
    user_keys: bool,
    /// Leading bytes of the user keys that all separators share.
    shared: usize,
    /// The next 8 bytes of the user key of each separator, big-endian, filled up with zeros. Empty if the order is not bytewise.
    heads: Heads,
    /// Where blocks are in memory.
    slots: BlockSlots,
}

impl Index {
    /// Decodes an index block; checks that separators ascend and that blocks lie within `file_size` bytes.
    pub(crate) fn decode(
        data: &[u8],
        encoding: IndexEncoding,
        comparator: &InternalKeyComparator,
        file_size: u64,
    ) -> Result<Self> {
        let mut index = Self {
            separators: Vec::new(),
            ends: Vec::new(),
            offsets: Vec::new(),
            sizes: Vec::new(),
            user_keys: encoding.user_keys,
            shared: 0,
            heads: Heads::default(),
            slots: BlockSlots::default(),
        };
        let Layout { entries_len, num_restarts, .. } = Layout::of(data)?;
        let mut rest = &data[..entries_len as usize];
        // Each entry of an index that is written here is a restart point.
        let entries = (num_restarts as usize).min(rest.len());
        index.ends.reserve(entries);
        index.offsets.reserve(entries);
        index.sizes.reserve(entries);
        index.separators.reserve(rest.len());
        let limit = MAX_SEPARATORS_LEN.saturating_add(data.len().saturating_mul(64));
        let mut previous = BlockHandle::default();
        while !rest.is_empty() {
            let Some((start, handle)) = index.decode_entry(&mut rest, encoding, previous, limit) else {
                return Err(Error::corrupt("bad entry of an index block"));
            };
            if handle.end_within(file_size).is_none() {
                return Err(Error::corrupt("index names a block outside the file"));
            }
            index.push_checked(start, handle, comparator)?;
            previous = handle;
        }
        index.separators.shrink_to_fit();
        index.ends.shrink_to_fit();
        index.offsets.shrink_to_fit();
        index.sizes.shrink_to_fit();
        index.build_heads(comparator);
        index.slots = BlockSlots::new(index.len());
        Ok(index)
    }

    /// Appends the separator of the entry at the front of `rest`; returns where it starts and the handle.
    fn decode_entry(
        &mut self,
        rest: &mut &[u8],
        encoding: IndexEncoding,
        previous: BlockHandle,
        limit: usize,
    ) -> Option<(usize, BlockHandle)> {
        let shared = take_varint32(rest)?;
        let non_shared = take_varint32(rest)?;
        let value_len = if encoding.delta_values { None } else { Some(take_varint32(rest)?) };
        let (tail, behind) = rest.split_at_checked(non_shared)?;
        *rest = behind;
        if self.separators.len() > limit {
            return None;
        }
        // The separator before lies directly in front.
        let (previous_start, start) = (self.start(self.ends.len().saturating_sub(1)), self.separators.len());
        if shared > start - previous_start {
            return None;
        }
        self.separators.extend_from_within(previous_start..previous_start + shared);
        self.separators.extend_from_slice(tail);
        let handle = match value_len {
            Some(value_len) => {
                let (mut value, behind) = rest.split_at_checked(value_len)?;
                *rest = behind;
                BlockHandle::decode(&mut value).ok()?
            }
            None => {
                let handle = if shared == 0 {
                    BlockHandle::decode(rest).ok()?
                } else {
                    let size = previous.size.checked_add_signed(zigzag_decode64(get_varint64(rest)?))?;
                    let offset = previous.offset.checked_add(previous.size)?.checked_add(BLOCK_TRAILER_LEN as u64)?;
                    BlockHandle { offset, size }
                };
                if encoding.first_keys {
                    let len = take_varint32(rest)?;
                    *rest = rest.get(len..)?;
                }
                handle
            }
        };
        Some((start, handle))
    }

    /// Takes in the separator that begins at `start`, if it is well formed and greater than the one before.
    fn push_checked(&mut self, start: usize, handle: BlockHandle, comparator: &InternalKeyComparator) -> Result<()> {
        let separator = &self.separators[start..];
        if !self.user_keys && separator.len() < TRAILER_LEN {
            return Err(Error::corrupt("separator shorter than a trailer"));
        }
        if let Some(last) = self.ends.len().checked_sub(1)
            && self.compare_separators(comparator, self.separator(last), separator) != Ordering::Less
        {
            return Err(Error::corrupt("separators of an index do not ascend"));
        }
        let end = u32::try_from(self.separators.len()).map_err(|_| Error::corrupt("index too large"))?;
        self.ends.push(end);
        self.offsets.push(handle.offset);
        self.sizes.push(handle.size as u32);
        Ok(())
    }

    fn compare_separators(&self, comparator: &InternalKeyComparator, a: &[u8], b: &[u8]) -> Ordering {
        if self.user_keys { comparator.compare_user(a, b) } else { comparator.compare(a, b) }
    }

    fn build_heads(&mut self, comparator: &InternalKeyComparator) {
        let len = self.len();
        if len == 0 || !comparator.is_bytewise() {
            return;
        }
        self.shared = common_prefix(self.separator_user_key(0), self.separator_user_key(len - 1));
        self.heads =
            Heads::new((0..len).map(|index| head_of(&self.separator_user_key(index)[self.shared..])).collect());
    }

    /// Where the blocks are in memory, as far as that is known.
    #[inline]
    pub(crate) fn slots(&self) -> &BlockSlots {
        &self.slots
    }

    /// How many blocks there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Where block `index` lies. `index < len`.
    #[inline]
    pub(crate) fn handle(&self, index: usize) -> BlockHandle {
        BlockHandle { offset: self.offsets[index], size: u64::from(self.sizes[index]) }
    }

    /// The separator behind block `index` as a user key. `index < len`.
    #[inline]
    pub(crate) fn separator_user_key(&self, index: usize) -> &[u8] {
        let separator = self.separator(index);
        if self.user_keys { separator } else { key::user_key(separator) }
    }

    /// Whether separators are user keys: then a user key never spans two blocks.
    #[inline]
    pub(crate) fn has_user_keys(&self) -> bool {
        self.user_keys
    }

    /// The first block that may have a key at or after the internal key `target`; `len` if none.
    #[inline]
    pub(crate) fn seek(&self, target: &[u8], comparator: &InternalKeyComparator) -> usize {
        let user_key = key::user_key(target);
        let (mut low, mut high) = (0, self.len());
        if !self.heads.is_empty() {
            // All separators begin with the same bytes, and so does the first.
            let common = &self.separators[..self.shared];
            let known = self.shared.min(user_key.len());
            match user_key[..known].cmp(common) {
                Ordering::Less => return 0,
                Ordering::Greater => return self.len(),
                Ordering::Equal => {}
            }
            let wanted = head_of(&user_key[self.shared..]);
            (low, high) = self.heads.equal_range(wanted);
        }
        self.bisect(target, low, high, comparator)
    }

    /// The first of the blocks from `low` to before `high` that may have a key at or after the internal key `target`; `high` if none. `high <= len`.
    #[inline]
    pub(crate) fn bisect(
        &self,
        target: &[u8],
        mut low: usize,
        mut high: usize,
        comparator: &InternalKeyComparator,
    ) -> usize {
        let user_key = key::user_key(target);
        while low < high {
            let middle = low + (high - low) / 2;
            let order = if self.user_keys {
                comparator.compare_user(self.separator(middle), user_key)
            } else {
                comparator.compare(self.separator(middle), target)
            };
            if order == Ordering::Less {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The bytes of memory that the index takes.
    pub(crate) fn memory_usage(&self) -> usize {
        ALLOCATOR_OVERHEAD
            + self.separators.capacity()
            + self.ends.capacity() * size_of::<u32>()
            + self.sizes.capacity() * size_of::<u32>()
            + self.offsets.capacity() * size_of::<u64>()
            + self.heads.memory_usage()
            + self.slots.memory_usage()
    }

    #[inline]
    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end as usize)
    }

    #[inline]
    fn separator(&self, index: usize) -> &[u8] {
        &self.separators[self.start(index)..self.ends[index] as usize]
    }
}

fn take_varint32(input: &mut &[u8]) -> Option<usize> {
    let (value, len) = decode_varint32(input)?;
    *input = &input[len..];
    Some(value as usize)
}
