//! A position in a block of internal keys.
//!
//! Path: get 7/7. Before: sst/reader/mod.rs.

use super::block::{Block, EntryHeader};
use super::block_builder::common_prefix;
use super::block_hash::HashBucket;
use crate::key::{InternalKeyComparator, TRAILER_LEN, trailer, user_key};
use std::cmp::Ordering;

/// No entry has this offset.
const NOWHERE: u32 = u32::MAX;

/// Bytes for a key that are there from the start.
const INITIAL_KEY_CAPACITY: usize = 64;

/// A position in a block of internal keys. The block is given with each call, so that the owner decides how it is held;
/// [`reset`](Self::reset) comes before the first call with another block.
///
/// A movement returns whether the cursor stands on an entry. If it does not, [`is_corrupt`](Self::is_corrupt) tells damage from
/// the end of the block.
#[derive(Debug)]
pub(crate) struct BlockCursor {
    /// The key of the current entry.
    key: Vec<u8>,
    /// Where the current entry begins.
    current: u32,
    value_start: u32,
    /// Where the value of the current entry ends and the next entry begins.
    next: u32,
    corrupt: bool,
    history: History,
}

/// The entries before the current one up to its restart point, so that walking backwards decodes each interval once.
#[derive(Debug)]
struct History {
    /// The entry that the rest precedes; [`NOWHERE`] if nothing is known.
    before: u32,
    keys: Vec<u8>,
    entries: Vec<PastEntry>,
}

#[derive(Debug, Clone, Copy)]
struct PastEntry {
    key_start: u32,
    at: u32,
    value_start: u32,
    next: u32,
}

impl BlockCursor {
    /// A cursor that is not positioned.
    pub(crate) fn new() -> Self {
        let history = History { before: NOWHERE, keys: Vec::new(), entries: Vec::new() };
        Self {
            key: Vec::with_capacity(INITIAL_KEY_CAPACITY),
            current: NOWHERE,
            value_start: 0,
            next: 0,
            corrupt: false,
            history,
        }
    }

    /// Forgets the position.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.key.clear();
        self.current = NOWHERE;
        self.value_start = 0;
        self.next = 0;
        self.corrupt = false;
        self.history.before = NOWHERE;
    }

    /// The internal key. REQUIRES: on an entry.
    #[inline(always)]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The value. REQUIRES: on an entry of `block`.
    #[inline(always)]
    pub(crate) fn value<'a>(&self, block: &'a Block) -> &'a [u8] {
        block.slice(self.value_start, self.next)
    }

    /// Where the value lies in its block. REQUIRES: on an entry.
    #[inline]
    pub(crate) fn value_range(&self) -> (u32, u32) {
        (self.value_start, self.next)
    }

    /// Whether the last movement found damage.
    #[inline]
    pub(crate) fn is_corrupt(&self) -> bool {
        self.corrupt
    }

    /// Moves to the next entry, or to the first one after [`reset`](Self::reset).
    #[inline]
    pub(crate) fn next(&mut self, block: &Block) -> bool {
        self.decode(block.entries(), self.next)
    }

    /// Moves to the first entry.
    pub(crate) fn seek_to_first(&mut self, block: &Block) -> bool {
        self.seek_to_restart(block, 0) && self.next(block)
    }

    /// Moves to the last entry.
    pub(crate) fn seek_to_last(&mut self, block: &Block) -> bool {
        if block.entries().is_empty() {
            self.reset();
            return false;
        }
        self.seek_to_restart(block, block.num_restarts() - 1) && self.advance_to_end_at(block, block.entries().len())
    }

    /// Moves to the first entry at or after `target`.
    #[inline]
    pub(crate) fn seek(&mut self, block: &Block, target: &[u8], comparator: &InternalKeyComparator) -> bool {
        // The last restart point before the target, or the first one.
        let (mut low, mut high) = (0, block.num_restarts() - 1);
        while low < high {
            let middle = (low + high).div_ceil(2);
            match block.restart_key(middle) {
                Some(key) if key.len() >= TRAILER_LEN => {
                    if comparator.compare(key, target) == Ordering::Less {
                        low = middle;
                    } else {
                        high = middle - 1;
                    }
                }
                _ => return self.fail(),
            }
        }
        if !self.seek_to_restart(block, low) {
            return false;
        }
        block.prefetch_interval(low);
        let entries = block.entries();
        if comparator.is_bytewise()
            && let Some(found) = self.scan(entries, target)
        {
            return found;
        }
        while self.decode(entries, self.next) {
            if comparator.compare(&self.key, target) != Ordering::Less {
                return true;
            }
        }
        false
    }

    /// Moves to the first entry at or after `target`, by the hash index of `block`, if an entry of its user key is; otherwise
    /// to any entry of another user key, or to none.
    #[inline(never)]
    pub(crate) fn seek_by_hash(&mut self, block: &Block, target: &[u8], comparator: &InternalKeyComparator) -> bool {
        let restart = match block.look_up(user_key(target)) {
            HashBucket::Restart(restart) => restart,
            HashBucket::Collision => return self.seek(block, target, comparator),
            HashBucket::Absent => {
                self.end();
                return false;
            }
        };
        if restart >= block.num_restarts() {
            return self.fail();
        }
        let end = if restart + 1 < block.num_restarts() { block.restart(restart + 1) } else { usize::MAX };
        let interval = &block.entries()[..end.min(block.entries().len())];
        if !self.seek_to_restart(block, restart) {
            return false;
        }
        if comparator.is_bytewise()
            && let Some(found) = self.scan(interval, target)
        {
            return found;
        }
        while self.decode(interval, self.next) {
            if comparator.compare(&self.key, target) != Ordering::Less {
                return true;
            }
        }
        false
    }

    /// Moves from a restart point to the first entry at or after `target`, in bytewise order, without putting
    /// together the keys that are passed. `None`, without having moved, where that takes more than this knows.
    ///
    /// It remembers how many bytes the user key before has in common with the target's. An entry that shares more with the key
    /// before differs from the target in the same byte, so it lies before the target too; one that shares no more begins
    /// with bytes of the target, and what follows them is in the entry.
    #[inline]
    fn scan(&mut self, entries: &[u8], target: &[u8]) -> Option<bool> {
        let wanted = user_key(target);
        let (mut at, mut matched, mut user_len) = (self.next as usize, 0, 0);
        loop {
            let entry = entries.get(at..)?;
            if entry.is_empty() {
                self.end();
                return Some(false);
            }
            let EntryHeader { shared, non_shared, value_len, len } = EntryHeader::decode(entry)?;
            let key_end = len.saturating_add(non_shared);
            let value_end = key_end.saturating_add(value_len);
            let tail = entry.get(len..key_end)?;
            // Damage and entries that share bytes of a trailer are left to the caller.
            let new_user_len = (shared + tail.len()).checked_sub(TRAILER_LEN)?;
            if value_end > entry.len() || shared > user_len || shared > new_user_len {
                return None;
            }
            user_len = new_user_len;
            if shared > matched {
                at += value_end;
                continue;
            }
            let (user_tail, trailer_bytes) = tail.split_last_chunk::<TRAILER_LEN>()?;
            let rest = wanted.get(shared..)?;
            let common = common_prefix(user_tail, rest);
            matched = shared + common;
            let order = match (user_tail.get(common), rest.get(common)) {
                (Some(a), Some(b)) => a.cmp(b),
                (None, Some(_)) => Ordering::Less,
                (Some(_), None) => Ordering::Greater,
                (None, None) => trailer(target).cmp(&u64::from_le_bytes(*trailer_bytes)),
            };
            if order == Ordering::Less {
                at += value_end;
                continue;
            }
            self.key.clear();
            self.key.extend_from_slice(&wanted[..shared]);
            self.key.extend_from_slice(tail);
            self.current = at as u32;
            self.value_start = (at + key_end) as u32;
            self.next = (at + value_end) as u32;
            return Some(true);
        }
    }

    /// Moves to the last entry at or before `target`.
    pub(crate) fn seek_for_prev(&mut self, block: &Block, target: &[u8], comparator: &InternalKeyComparator) -> bool {
        if self.seek(block, target, comparator) {
            return comparator.compare(&self.key, target) == Ordering::Equal || self.prev(block);
        }
        !self.corrupt && self.seek_to_last(block)
    }

    /// Moves to the previous entry. REQUIRES: on an entry of `block`.
    pub(crate) fn prev(&mut self, block: &Block) -> bool {
        if self.history.before == self.current
            && let Some(past) = self.history.entries.pop()
        {
            self.key.clear();
            self.key.extend_from_slice(&self.history.keys[past.key_start as usize..]);
            self.history.keys.truncate(past.key_start as usize);
            self.current = past.at;
            self.value_start = past.value_start;
            self.next = past.next;
            self.history.before = past.at;
            return true;
        }
        let target = self.current;
        if target == 0 || target == NOWHERE {
            self.reset();
            return false;
        }
        // The last restart point before the current entry.
        let (mut low, mut high) = (0, block.num_restarts() - 1);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if block.restart(middle) < target as usize {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        self.seek_to_restart(block, low) && self.advance_to_end_at(block, target as usize)
    }

    /// Decodes entries until one ends at `end`, remembering those before it.
    fn advance_to_end_at(&mut self, block: &Block, end: usize) -> bool {
        self.history.keys.clear();
        self.history.entries.clear();
        self.history.before = NOWHERE;
        while self.next(block) {
            if self.next as usize == end {
                self.history.before = self.current;
                return true;
            }
            if self.next as usize > end {
                return self.fail();
            }
            let key_start = self.history.keys.len() as u32;
            self.history.keys.extend_from_slice(&self.key);
            self.history.entries.push(PastEntry {
                key_start,
                at: self.current,
                value_start: self.value_start,
                next: self.next,
            });
        }
        self.fail()
    }

    /// Stands before the entry of a restart point.
    #[inline]
    fn seek_to_restart(&mut self, block: &Block, index: usize) -> bool {
        let at = block.restart(index);
        self.reset();
        if at > block.entries().len() {
            return self.fail();
        }
        self.next = at as u32;
        true
    }

    /// Decodes the entry at `at`.
    #[inline(always)]
    fn decode(&mut self, entries: &[u8], at: u32) -> bool {
        let Some(entry) = entries.get(at as usize..) else {
            return self.fail();
        };
        if entry.is_empty() {
            self.end();
            return false;
        }
        let Some(header) = EntryHeader::decode(entry) else {
            return self.fail();
        };
        let key_end = header.len.saturating_add(header.non_shared);
        let value_end = key_end.saturating_add(header.value_len);
        let key_len = header.shared.saturating_add(header.non_shared);
        if value_end > entry.len() || header.shared > self.key.len() || key_len < TRAILER_LEN {
            return self.fail();
        }
        self.key.truncate(header.shared);
        self.key.extend_from_slice(&entry[header.len..key_end]);
        self.current = at;
        self.value_start = at + key_end as u32;
        self.next = at + value_end as u32;
        true
    }

    fn end(&mut self) {
        self.reset();
        self.next = NOWHERE;
    }

    #[cold]
    fn fail(&mut self) -> bool {
        self.reset();
        self.next = NOWHERE;
        self.corrupt = true;
        false
    }
}
