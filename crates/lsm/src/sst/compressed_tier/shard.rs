//! One part of the tier, with its own lock: two logs of chunks, and where in them each block is.
//!
//! Which blocks stay is decided as by S3-FIFO, a chunk at a time. Newcomers go to the probationary log; who comes back soon after it had to go, to the main one. Where the oldest chunk of a log has to go,
//! those of its blocks that were asked for, up to three quarters of it, are copied to the end of the main log first. So nothing is ever freed in between other things.

use super::chunk::{ASKS, Chunk, HEADER_LEN, RETURNED};
use hashbrown::HashTable;
use siltstone_base::cache::{CacheKey, CacheStats, Ghost};
use std::collections::VecDeque;

/// A chunk has this part of a shard's capacity.
const CHUNKS: usize = 64;

/// But no less than this, so that there is room for several blocks in it,
const LEAST_CHUNK: usize = 16 << 10;

/// and no more, so that little is copied at once,
const MOST_CHUNK: usize = 1 << 20;

/// unless it would be less than this part of the capacity: an operating system has a limit of mappings.
const MOST_CHUNKS: usize = 256;

/// The probationary log has so many hundredths, if there is anything in the main one.
const PROBATION_PERCENT: usize = 10;

/// A block goes back to the first tier when it is asked for once more than so often. To unpack it a few times costs less than to have many blocks in both.
const RETURNING_ASKS: u8 = 3;

/// So many quarters of a chunk are copied on at most when it has to go: the rest goes, whatever was asked for.
const MOST_KEPT_QUARTERS: usize = 3;

/// So many chunks have to go in turn at most before one goes with all that is in it.
const MOST_TURNS: usize = 8;

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Location {
    chunk: u32,
    at: u32,
}

/// The chunks that have memory, by number.
#[derive(Default)]
struct Chunks {
    chunks: Vec<Option<Chunk>>,
    vacant: Vec<u32>,
    /// Bytes of memory that all of them have.
    resident: usize,
}

impl Chunks {
    fn add(&mut self, bytes: usize) -> Option<u32> {
        let chunk = Chunk::new(bytes)?;
        let number = self.vacant.pop().unwrap_or(self.chunks.len() as u32);
        match self.chunks.get_mut(number as usize) {
            Some(place) => *place = Some(chunk),
            None => self.chunks.push(Some(chunk)),
        }
        Some(number)
    }

    /// Takes the memory of a chunk out, to be given back.
    fn take(&mut self, number: u32) -> Option<Chunk> {
        let chunk = self.chunks.get_mut(number as usize)?.take()?;
        self.resident -= chunk.resident();
        self.vacant.push(number);
        Some(chunk)
    }

    fn get(&self, number: u32) -> Option<&Chunk> {
        self.chunks.get(number as usize)?.as_ref()
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Chunk> {
        self.chunks.get_mut(number as usize)?.as_mut()
    }

    /// Appends a block to a chunk and says where it is.
    fn push(&mut self, number: u32, key: CacheKey, data: &[u8]) -> Option<Location> {
        let chunk = self.get_mut(number)?;
        let before = chunk.resident();
        let at = chunk.push(key, data)?;
        let more = chunk.resident() - before;
        self.resident += more;
        Some(Location { chunk: number, at })
    }

    /// The last chunk of a log, if a block of `len` bytes has room in it.
    fn last_with_room(&self, log: &VecDeque<u32>, len: usize) -> Option<u32> {
        let last = *log.back()?;
        self.get(last)?.has_room(len).then_some(last)
    }

    /// Bytes of memory of the chunks of a log.
    fn bytes(&self, log: &VecDeque<u32>) -> usize {
        log.iter().filter_map(|number| self.get(*number)).map(Chunk::resident).sum()
    }

    /// Bytes that the last chunk of a log may have yet.
    fn room(&self, log: &VecDeque<u32>) -> usize {
        log.back().and_then(|last| self.get(*last)).map_or(0, Chunk::room)
    }

    /// The key of the block at a location; every location of the table has one.
    #[inline]
    fn key(&self, location: Location) -> Option<CacheKey> {
        Some(self.get(location.chunk)?.key(location.at))
    }

    #[inline]
    fn hash(&self, location: Location) -> u64 {
        self.key(location).map_or(0, CacheKey::hash)
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Shard {
    capacity: usize,
    /// The capacity that is not used, so that not all shards meet theirs at once.
    slack: usize,
    table: HashTable<Location>,
    chunks: Chunks,
    /// The chunks of the logs, oldest first.
    probation: VecDeque<u32>,
    main: VecDeque<u32>,
    ghost: Ghost,
    stats: CacheStats,
}

impl Shard {
    /// Shard `number` of `shards`, for so many bytes.
    pub(super) fn new(capacity: usize, number: usize, shards: usize) -> Self {
        let slack = chunk_bytes(capacity) * number / shards.max(1);
        Self { capacity, slack, ..Self::default() }
    }

    /// Whether `key` is here.
    pub(super) fn contains(&self, hash: u64, key: CacheKey) -> bool {
        self.find(hash, key).is_some()
    }

    /// Has `found` look at the compressed bytes of `key`, if they are here. True beside what it says: the block was asked for several times, and should go back to the first tier.
    pub(super) fn get<T>(&mut self, hash: u64, key: CacheKey, found: impl FnOnce(&[u8]) -> T) -> Option<(T, bool)> {
        let Some(location) = self.find(hash, key) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        let chunk = self.chunks.get_mut(location.chunk)?;
        let flags = chunk.flags(location.at);
        // What goes back is in the way here: it has to prove itself again.
        let returns = flags & ASKS >= RETURNING_ASKS;
        chunk.set_flags(location.at, if returns { 0 } else { flags + 1 });
        Some((found(chunk.data(location.at)), returns))
    }

    /// Says that the first tier has `key` no more; true if the block is here.
    pub(super) fn is_back(&mut self, hash: u64, key: CacheKey) -> bool {
        let Some(location) = self.find(hash, key) else { return false };
        if let Some(chunk) = self.chunks.get_mut(location.chunk) {
            let flags = chunk.flags(location.at);
            chunk.set_flags(location.at, flags | RETURNED);
        }
        true
    }

    /// Puts the compressed bytes of a block in, unless they are there or have no room.
    pub(super) fn insert(&mut self, hash: u64, key: CacheKey, data: &[u8]) {
        if self.find(hash, key).is_some() {
            return;
        }
        let is_known = self.ghost.remove(hash);
        let log = if is_known { &self.main } else { &self.probation };
        let last = self.chunks.last_with_room(log, data.len()).or_else(|| self.new_last(is_known, data.len()));
        match last.is_some_and(|last| self.append(last, key, data)) {
            true => self.stats.inserts += 1,
            false => self.stats.rejections += 1,
        }
    }

    /// Forgets the block of `key`.
    pub(super) fn remove(&mut self, hash: u64, key: CacheKey) {
        let chunks = &self.chunks;
        if let Ok(entry) = self.table.find_entry(hash, |location| chunks.key(*location) == Some(key)) {
            entry.remove();
        }
    }

    /// Has so many bytes from now on; what is too much goes at once.
    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.make_room(0);
        if self.table.is_empty() {
            (self.table, self.ghost) = Default::default();
        } else if self.table.capacity() > 8 * self.table.len() {
            let chunks = &self.chunks;
            self.table.shrink_to(2 * self.table.len(), |location| chunks.hash(*location));
        }
    }

    /// Bytes of memory of the chunks, and of what leads to their blocks.
    pub(super) fn usage(&self) -> usize {
        self.chunks.resident + self.structure_bytes()
    }

    /// Adds what happened so far to `total`.
    pub(super) fn add_stats(&self, total: &mut CacheStats) {
        total.hits += self.stats.hits;
        total.misses += self.stats.misses;
        total.inserts += self.stats.inserts;
        total.evictions += self.stats.evictions;
        total.rejections += self.stats.rejections;
    }

    fn structure_bytes(&self) -> usize {
        self.table.allocation_size() + self.ghost.memory_usage()
    }

    #[inline]
    fn find(&self, hash: u64, key: CacheKey) -> Option<Location> {
        self.table.find(hash, |location| self.chunks.key(*location) == Some(key)).copied()
    }

    fn append(&mut self, number: u32, key: CacheKey, data: &[u8]) -> bool {
        let Some(here) = self.chunks.push(number, key, data) else { return false };
        let chunks = &self.chunks;
        self.table.insert_unique(key.hash(), here, |location| chunks.hash(*location));
        true
    }

    /// A new chunk at the end of a log, with room for a block of `len` bytes; `None` if there is no room for it.
    #[cold]
    fn new_last(&mut self, is_main: bool, len: usize) -> Option<u32> {
        let bytes = chunk_bytes(self.capacity);
        if bytes < HEADER_LEN + len || !self.make_room(bytes) {
            return None;
        }
        let number = self.chunks.add(bytes)?;
        let log = if is_main { &mut self.main } else { &mut self.probation };
        log.push_back(number);
        Some(number)
    }

    /// Lets chunks go until `bytes` have room beside the others; false if they have none even so.
    fn make_room(&mut self, bytes: usize) -> bool {
        for turn in 0.. {
            let limit = self.capacity.saturating_sub(self.structure_bytes() + self.slack);
            let room = self.chunks.room(&self.probation) + self.chunks.room(&self.main);
            if self.chunks.resident + room + bytes <= limit {
                return true;
            }
            if self.main.is_empty() && self.probation.is_empty() {
                break;
            }
            self.let_go(limit > 0 && turn % MOST_TURNS != MOST_TURNS - 1);
        }
        false
    }

    /// Lets the oldest chunk of a log go. If `keeps`, those of its blocks that were asked for are copied to the end of the main log.
    fn let_go(&mut self, keeps: bool) {
        let from_probation =
            self.main.is_empty() || self.chunks.bytes(&self.probation) > self.capacity / 100 * PROBATION_PERCENT;
        let log = if from_probation { &mut self.probation } else { &mut self.main };
        let Some(number) = log.pop_front() else { return };
        let Some(oldest) = self.chunks.get(number) else { return };
        let mut may_keep = if keeps { oldest.resident() / 4 * MOST_KEPT_QUARTERS } else { 0 };
        let mut kept = Vec::new();
        for at in oldest.places() {
            let (hash, here) = (oldest.key(at).hash(), Location { chunk: number, at });
            let Ok(entry) = self.table.find_entry(hash, |location| *location == here) else { continue };
            entry.remove();
            let len = HEADER_LEN + oldest.data(at).len();
            if oldest.flags(at) != 0 && may_keep >= len {
                may_keep -= len;
                kept.push(at);
                continue;
            }
            self.stats.evictions += 1;
            if from_probation {
                self.ghost.add(hash, self.table.len());
            }
        }
        // Nothing leads to it any more.
        let Some(oldest) = self.chunks.take(number) else { return };
        for at in kept {
            self.keep(oldest.key(at), oldest.data(at));
        }
    }

    /// Appends to the main log what was in a chunk that goes.
    fn keep(&mut self, key: CacheKey, data: &[u8]) {
        let last = self.chunks.last_with_room(&self.main, data.len());
        let number = last.or_else(|| {
            // It was put in when chunks were larger, perhaps.
            let bytes = chunk_bytes(self.capacity);
            let number = (bytes >= HEADER_LEN + data.len()).then(|| self.chunks.add(bytes)).flatten()?;
            self.main.push_back(number);
            Some(number)
        });
        if !number.is_some_and(|number| self.append(number, key, data)) {
            self.stats.evictions += 1;
        }
    }

    /// How many chunks there are.
    #[cfg(test)]
    pub(super) fn chunks(&self) -> usize {
        self.main.len() + self.probation.len()
    }
}

/// Bytes of a new chunk of a shard of so many bytes.
fn chunk_bytes(capacity: usize) -> usize {
    let most = MOST_CHUNK.max(capacity / MOST_CHUNKS);
    (capacity / CHUNKS).clamp(LEAST_CHUNK, most).next_multiple_of(LEAST_CHUNK)
}
