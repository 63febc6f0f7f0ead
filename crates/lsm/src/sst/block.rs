//! A decoded block: where its entries and its restart points are. See [`super::block_builder`] for the layout.
//!
//! Every length is checked before it is used: a block of arbitrary bytes is refused or walked without a panic.

use super::block_hash::{HashBucket, look_up};
use super::block_slots::HomeSlot;
use super::cache_kinds::CachedKind;
use super::index_block::Index;
use super::warm_blocks::Warmth;
use siltstone_base::block_pool::PooledBuf;
use siltstone_base::cache::{Cacheable, Uses};
use siltstone_base::coding::decode_varint32;
use siltstone_base::prefetch::{CACHE_LINE, prefetch};
use siltstone_base::{Error, Result};

/// Bit of the footer word that says that a hash index precedes it.
pub(crate) const HASH_INDEX_BIT: u32 = 1 << 31;
/// Bits of the footer word that nobody has given a meaning to.
const RESERVED_BIT: u32 = 1 << 30;
/// Bit that says that searches of an index by interpolation would be fast. A hint.
const UNIFORM_BIT: u32 = 1 << 29;
/// Bit that says that values are stored apart from keys.
pub(crate) const SEPARATED_BIT: u32 = 1 << 28;
/// Longest block that can have a hash index.
pub(crate) const MAX_HASH_INDEX_BLOCK_LEN: usize = 1 << 16;

/// Keys that are asked for before a search; blocks of the default size have no more.
const MAX_PREFETCHED_KEYS: usize = 4;

/// Cache lines of an interval that are asked for before it is searched.
const MAX_PREFETCHED_LINES: usize = 24;

/// A block whose outer structure was checked.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: PooledBuf,
    /// Where the entries end and the restart points begin.
    entries_len: u32,
    num_restarts: u32,
    /// Buckets of the hash index behind the restart points; 0 without one.
    num_buckets: u16,
    /// What the block was decoded to, if it is a partition of an index; it then has no entries.
    index: Option<Box<Index>>,
    uses: Uses,
    home: HomeSlot,
}

impl Cacheable for Block {
    #[inline]
    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl Block {
    /// Checks the outer structure of the first `len` bytes of `bytes`, a block without its trailer, and keeps those.
    pub(crate) fn new(mut bytes: PooledBuf, len: usize) -> Result<Self> {
        if bytes.len() < len {
            return Err(Error::corrupt("block shorter than its size"));
        }
        bytes.truncate(len);
        let Layout { entries_len, num_restarts, num_buckets } = Layout::of(&bytes)?;
        Ok(Self {
            bytes,
            entries_len,
            num_restarts,
            num_buckets,
            index: None,
            uses: Uses::default(),
            home: HomeSlot::default(),
        })
    }

    /// A partition of an index, so that the cache of blocks can keep it.
    pub(crate) fn of_index(index: Index) -> Self {
        let no_entries = vec![0, 0, 0, 0, 1, 0, 0, 0];
        Self {
            bytes: PooledBuf::unpooled(no_entries),
            entries_len: 0,
            num_restarts: 1,
            num_buckets: 0,
            index: Some(Box::new(index)),
            uses: Uses::default(),
            home: HomeSlot::default(),
        }
    }

    /// A partition of a filter, so that the cache of blocks can keep it.
    pub(crate) fn of_filter(bytes: PooledBuf) -> Result<Self> {
        let no_entries = PooledBuf::unpooled(vec![0, 0, 0, 0, 1, 0, 0, 0]);
        let len = no_entries.len();
        // The structure is that of no entries, whatever the bytes are.
        Ok(Self { bytes, ..Self::new(no_entries, len)? })
    }

    /// Where an index knows it.
    #[inline]
    pub(super) fn home(&self) -> &HomeSlot {
        &self.home
    }

    /// All bytes of the block.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the block has entries of its own: it is no partition of an index or a filter.
    pub(crate) fn is_data(&self) -> bool {
        self.entries_len > 0 && self.index.is_none()
    }

    /// What a cache counts it with.
    pub(crate) fn cached_kind(&self) -> CachedKind {
        match self.index {
            Some(_) => CachedKind::Index,
            None if self.entries_len > 0 => CachedKind::Data,
            None => CachedKind::Filter,
        }
    }

    /// What is known of the block, if it is in the cache.
    pub(super) fn warmth(&self) -> Warmth {
        if self.uses.any() { Warmth::Used } else { Warmth::Cached }
    }

    /// Says whether a cache holds the block, for the accounting of the pool.
    pub(crate) fn set_cached(&self, is_cached: bool) {
        self.bytes.set_cached(is_cached);
    }

    /// The partition of an index that the block is, if it is one.
    #[inline]
    pub(crate) fn index(&self) -> Option<&Index> {
        self.index.as_deref()
    }

    /// Asks for the memory of the restart points.
    #[inline]
    pub(crate) fn prefetch_restarts(&self) {
        prefetch(self.bytes.as_ptr().wrapping_add(self.entries_len as usize));
    }

    /// Asks for the memory of the keys at the first restart points.
    #[inline]
    pub(crate) fn prefetch_restart_keys(&self) {
        for index in 0..self.num_restarts().min(MAX_PREFETCHED_KEYS) {
            prefetch(self.bytes.as_ptr().wrapping_add(self.restart(index)));
        }
    }

    /// Asks for the memory of the entries from a restart point to the next one, or of the first of them.
    #[inline]
    pub(crate) fn prefetch_interval(&self, index: usize) {
        let end = if index + 1 < self.num_restarts() { self.restart(index + 1) } else { self.entries_len as usize };
        let start = self.restart(index);
        for line in 0..(end.saturating_sub(start) / CACHE_LINE).min(MAX_PREFETCHED_LINES) {
            prefetch(self.bytes.as_ptr().wrapping_add(start + line * CACHE_LINE));
        }
    }

    /// The entries, one behind the other.
    #[inline(always)]
    pub(crate) fn entries(&self) -> &[u8] {
        &self.bytes[..self.entries_len as usize]
    }

    /// How many restart points there are: at least 1.
    #[inline]
    pub(crate) fn num_restarts(&self) -> usize {
        self.num_restarts as usize
    }

    /// Where the entry of a restart point begins. `index < num_restarts`.
    #[inline]
    pub(crate) fn restart(&self, index: usize) -> usize {
        let at = self.entries_len as usize + 4 * index;
        match self.bytes.get(at..).and_then(|bytes| bytes.first_chunk()) {
            Some(word) => u32::from_le_bytes(*word) as usize,
            None => usize::MAX,
        }
    }

    /// The full key of the entry at a restart point; `None` if the block is corrupt there.
    #[inline]
    pub(crate) fn restart_key(&self, index: usize) -> Option<&[u8]> {
        let entry = self.entries().get(self.restart(index)..)?;
        let header = EntryHeader::decode(entry)?;
        if header.shared != 0 {
            return None;
        }
        entry.get(header.len..header.len.checked_add(header.non_shared)?)
    }

    /// Whether the block has a hash index.
    #[inline(always)]
    pub(crate) fn has_hash_index(&self) -> bool {
        self.num_buckets > 0
    }

    /// Where the hash index says that `user_key` is.
    #[inline]
    pub(crate) fn look_up(&self, user_key: &[u8]) -> HashBucket {
        let start = self.entries_len as usize + 4 * self.num_restarts as usize;
        match self.bytes.get(start..start + usize::from(self.num_buckets)) {
            Some(buckets) if !buckets.is_empty() => look_up(buckets, user_key),
            _ => HashBucket::Collision,
        }
    }

    /// The bytes from `start` to `end` of the block.
    #[inline]
    pub(crate) fn slice(&self, start: u32, end: u32) -> &[u8] {
        &self.bytes[start as usize..end as usize]
    }

    /// The bytes of memory that the block takes.
    pub(crate) fn memory_usage(&self) -> usize {
        let index = self.index.as_ref().map_or(0, |index| index.memory_usage() + size_of::<Index>());
        self.bytes.capacity_charged() + size_of::<Self>() + index
    }
}

/// The parts of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Where the entries end and the restart points begin.
    pub(crate) entries_len: u32,
    /// Restart points: at least 1.
    pub(crate) num_restarts: u32,
    /// Buckets of the hash index behind them; 0 without one.
    num_buckets: u16,
}

impl Layout {
    /// Takes the block `data` apart.
    pub(crate) fn of(data: &[u8]) -> Result<Self> {
        let Some((rest, word)) = data.split_last_chunk::<4>() else {
            return Err(Error::corrupt("block too short"));
        };
        let word = u32::from_le_bytes(*word);
        if word & SEPARATED_BIT != 0 {
            return Err(Error::not_supported("blocks with separated keys and values"));
        }
        if word & RESERVED_BIT != 0 {
            return Err(Error::corrupt("unknown bit in the footer of a block"));
        }
        let (mut rest, mut num_buckets) = (rest, 0);
        if word & HASH_INDEX_BIT != 0 {
            let found = rest.split_last_chunk::<2>().filter(|_| data.len() <= MAX_HASH_INDEX_BLOCK_LEN);
            let without = found.and_then(|(rest, n)| {
                num_buckets = u16::from_le_bytes(*n);
                let end = rest.len().checked_sub(usize::from(num_buckets))?;
                rest.get(..end)
            });
            rest = without.ok_or_else(|| Error::corrupt("bad hash index of a block"))?;
        }
        let num_restarts = word & !(HASH_INDEX_BIT | UNIFORM_BIT);
        let entries_len = (num_restarts as usize).checked_mul(4).and_then(|len| rest.len().checked_sub(len));
        match entries_len {
            Some(entries_len) if num_restarts > 0 => match u32::try_from(entries_len) {
                Ok(entries_len) => Ok(Self { entries_len, num_restarts, num_buckets }),
                Err(_) => Err(Error::corrupt("block too long")),
            },
            _ => Err(Error::corrupt("bad restart points of a block")),
        }
    }
}

/// The three numbers before an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryHeader {
    /// Leading bytes that the key shares with the one before.
    pub(crate) shared: usize,
    /// Bytes of the key that follow.
    pub(crate) non_shared: usize,
    /// Bytes of the value behind them.
    pub(crate) value_len: usize,
    /// Bytes of the header itself.
    pub(crate) len: usize,
}

impl EntryHeader {
    /// Reads the header at the front of `entry`.
    #[inline(always)]
    pub(crate) fn decode(entry: &[u8]) -> Option<Self> {
        if let Some(&[shared, non_shared, value_len]) = entry.first_chunk::<3>()
            && (shared | non_shared | value_len) < 0x80
        {
            return Some(Self {
                shared: usize::from(shared),
                non_shared: usize::from(non_shared),
                value_len: usize::from(value_len),
                len: 3,
            });
        }
        Self::decode_long(entry)
    }

    #[inline(never)]
    fn decode_long(entry: &[u8]) -> Option<Self> {
        let (shared, a) = decode_varint32(entry)?;
        let (non_shared, b) = decode_varint32(entry.get(a..)?)?;
        let (value_len, c) = decode_varint32(entry.get(a + b..)?)?;
        Some(Self {
            shared: shared as usize,
            non_shared: non_shared as usize,
            value_len: value_len as usize,
            len: a + b + c,
        })
    }
}

/// Calls `visit` for each entry of the block `data`, front to back; stops at the first error. For the small blocks of
/// metadata.
pub(crate) fn for_each_entry(data: &[u8], mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
    let mut rest = &data[..Layout::of(data)?.entries_len as usize];
    let mut key = Vec::new();
    while !rest.is_empty() {
        let corrupt = || Error::corrupt("bad entry of a block");
        let header = EntryHeader::decode(rest).ok_or_else(corrupt)?;
        let key_end = header.len.checked_add(header.non_shared).ok_or_else(corrupt)?;
        let value_end = key_end.checked_add(header.value_len).ok_or_else(corrupt)?;
        let (Some(tail), Some(value), true) =
            (rest.get(header.len..key_end), rest.get(key_end..value_end), header.shared <= key.len())
        else {
            return Err(corrupt());
        };
        key.truncate(header.shared);
        key.extend_from_slice(tail);
        visit(&key, value)?;
        rest = &rest[value_end..];
    }
    Ok(())
}
