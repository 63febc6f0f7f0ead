//! One shard: a hash table, and the queues that decide what goes.

use super::{CacheKey, CacheStats, Cacheable, Ghost};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Rank, RwLock};
use hashbrown::HashTable;
use std::collections::VecDeque;

/// A value may be dropped, and so its buffer be given back, under a shard's lock: below the block pool's rank.
const RANK: Rank = Rank(950);

/// Uses that take an entry from the probationary queue to the main one.
const PROMOTING_USES: u8 = 2;

/// The part of the capacity that the probationary queue may fill before it is evicted from first: one tenth.
const PROBATION_DIVISOR: usize = 10;

/// How many pinned entries one insertion passes over in vain, unless the capacity is strict.
const MAX_PINNED_PASSED: usize = 32;

/// What is known of an entry when it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing: it has to show that it is used.
    New,
    /// That it is not used again: it is the first to go.
    Passing,
    /// That it is used: it stands in the place of one that is.
    Proven,
}

/// Places that are looked at for each entry that is removed.
const SWEPT: usize = 8;

/// Half a cache line, so that a lookup touches one.
#[repr(align(32))]
struct Entry<V> {
    key: CacheKey,
    value: Arc<V>,
    charge: u32,
    in_main: bool,
    /// Tells the entry from one of the same key that was removed and whose place in a queue is still there. Should both have the same one, the entry has two places, and
    /// at worst goes early.
    stamp: u16,
}

/// A place in a queue: the hash of an entry's key with the entry's stamp in the middle, in bits that neither the table nor what it compares first uses. 8 bytes, since a queue may have twice as
/// many places as are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place(u64);

/// Where the stamp is.
const STAMP_SHIFT: u32 = 32;

/// The bits of the hash that a place keeps.
const HASH_MASK: u64 = !((u16::MAX as u64) << STAMP_SHIFT);

struct State<V> {
    table: HashTable<Entry<V>>,
    /// Entries in order of arrival, oldest in front. Every entry is in exactly one queue, once; places of removed ones are passed over.
    probation: VecDeque<Place>,
    main: VecDeque<Place>,
    next_stamp: u16,
    /// The place that is looked at next for whether it is empty, counted from the front of the main queue, and on into the other.
    swept: usize,
    probation_bytes: usize,
    usage: usize,
    capacity: usize,
    ghost: Ghost,
}

/// A part of a cache with its own lock and its own share of the capacity.
pub(super) struct Shard<V> {
    state: RwLock<State<V>>,
    strict: bool,
    /// Whether what the structures of the shard themselves take counts as used.
    counts_structures: bool,
    hits: AtomicU64,
    misses: AtomicU64,
    inserts: AtomicU64,
    evictions: AtomicU64,
    rejections: AtomicU64,
}

impl<V: Cacheable> Shard<V> {
    pub(super) fn new(capacity: usize) -> Self {
        let state = State {
            table: HashTable::new(),
            probation: VecDeque::new(),
            main: VecDeque::new(),
            next_stamp: 0,
            swept: 0,
            probation_bytes: 0,
            usage: 0,
            capacity,
            ghost: Ghost::default(),
        };
        Self {
            state: RwLock::new(RANK, state),
            strict: false,
            counts_structures: false,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            inserts: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            rejections: AtomicU64::new(0),
        }
    }

    pub(super) fn set_strict(&mut self, strict: bool) {
        self.strict = strict;
    }

    pub(super) fn set_counts_structures(&mut self, counts: bool) {
        self.counts_structures = counts;
    }

    /// The capacity that is left beside what the structures take.
    fn room(&self, state: &State<V>) -> usize {
        state.capacity.saturating_sub(self.structure_bytes(state))
    }

    fn structure_bytes(&self, state: &State<V>) -> usize {
        if self.counts_structures { state.structure_bytes() } else { 0 }
    }

    #[inline]
    pub(super) fn get(&self, hash: u64, key: &CacheKey) -> Option<Arc<V>> {
        let state = self.state.read();
        match state.find(hash, key) {
            Some(entry) => {
                let value = entry.value.clone();
                drop(state);
                value.uses().add();
                self.hits.fetch_add(1, Ordering::Relaxed);
                Some(value)
            }
            None => {
                drop(state);
                self.misses.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// Counts hits of callers that needed no lookup.
    pub(super) fn add_hits(&self, hits: u64) {
        self.hits.fetch_add(hits, Ordering::Relaxed);
    }

    pub(super) fn peek(&self, hash: u64, key: &CacheKey) -> Option<Arc<V>> {
        self.state.read().find(hash, key).map(|entry| entry.value.clone())
    }

    pub(super) fn contains(&self, hash: u64, key: &CacheKey) -> bool {
        self.state.read().find(hash, key).is_some()
    }

    /// What must go for it is added to `evicted`, for the caller to drop without the lock. A value that is refused is the error.
    pub(super) fn insert(
        &self,
        hash: u64,
        key: CacheKey,
        value: Arc<V>,
        charge: usize,
        standing: Standing,
        evicted: &mut Vec<(CacheKey, Arc<V>)>,
    ) -> Result<Arc<V>, Arc<V>> {
        let before = evicted.len();
        let mut state = self.state.write();
        if let Some(entry) = state.find(hash, &key) {
            return Ok(entry.value.clone());
        }
        if charge <= state.capacity && self.counts_structures {
            state.reserve_place();
        }
        let limit = self.room(&state).checked_sub(charge);
        let fitting = match (u32::try_from(charge), limit) {
            (Ok(charge), Some(limit)) => {
                state.evict_to(limit, self.strict, evicted);
                (state.usage <= limit || !self.strict).then_some(charge)
            }
            (_, None) if self.counts_structures && charge <= state.capacity => {
                // Many tiny entries: their places alone take the capacity. Nothing is left but to begin anew.
                state.evict_to(0, true, evicted);
                state.shrink();
                None
            }
            _ => None,
        };
        self.evictions.fetch_add((evicted.len() - before) as u64, Ordering::Relaxed);
        let Some(charge) = fitting else {
            self.rejections.fetch_add(1, Ordering::Relaxed);
            return Err(value);
        };
        self.inserts.fetch_add(1, Ordering::Relaxed);
        state.add(hash, key, value.clone(), charge, standing);
        Ok(value)
    }

    pub(super) fn remove(&self, hash: u64, key: &CacheKey) -> Option<Arc<V>> {
        let mut state = self.state.write();
        let (entry, _) = state.table.find_entry(hash, |entry| entry.key == *key).ok()?.remove();
        state.usage -= entry.charge();
        if !entry.in_main {
            state.probation_bytes -= entry.charge();
        }
        state.drop_empty_places();
        drop(state);
        Some(entry.value)
    }

    pub(super) fn erase_files(&self, files: &[u64]) {
        let mut erased = Vec::new();
        let gone = |key: &CacheKey| files.contains(&key.file);
        if !self.state.read().table.iter().any(|entry| gone(&entry.key)) {
            return;
        }
        let mut state = self.state.write();
        let state = &mut *state;
        for entry in state.table.extract_if(|entry| gone(&entry.key)) {
            state.usage -= entry.charge();
            if !entry.in_main {
                state.probation_bytes -= entry.charge();
            }
            erased.push(entry.value);
        }
        state.retain_taken_places();
    }

    pub(super) fn set_capacity(&self, capacity: usize) {
        let mut evicted = Vec::new();
        let mut state = self.state.write();
        state.capacity = capacity;
        let room = self.room(&state);
        state.evict_to(room, true, &mut evicted);
        if self.counts_structures {
            state.shrink();
        }
        self.evictions.fetch_add(evicted.len() as u64, Ordering::Relaxed);
        // The guard goes first, then the values.
        drop(state);
    }

    pub(super) fn capacity(&self) -> usize {
        self.state.read().capacity
    }

    pub(super) fn usage(&self) -> usize {
        let state = self.state.read();
        state.usage + self.structure_bytes(&state)
    }

    pub(super) fn entries(&self) -> usize {
        self.state.read().table.len()
    }

    /// Places in both queues.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        let state = self.state.read();
        state.probation.len() + state.main.len()
    }

    pub(super) fn pinned_usage(&self) -> usize {
        self.state.read().table.iter().filter(|entry| entry.is_pinned()).map(Entry::charge).sum()
    }

    pub(super) fn add_stats(&self, total: &mut CacheStats) {
        total.hits += self.hits.load(Ordering::Relaxed);
        total.misses += self.misses.load(Ordering::Relaxed);
        total.inserts += self.inserts.load(Ordering::Relaxed);
        total.evictions += self.evictions.load(Ordering::Relaxed);
        total.rejections += self.rejections.load(Ordering::Relaxed);
    }
}

impl Place {
    fn new(hash: u64, stamp: u16) -> Self {
        Self(hash & HASH_MASK | u64::from(stamp) << STAMP_SHIFT)
    }

    /// What the table is searched by.
    fn hash(self) -> u64 {
        self.0
    }

    fn is_of<V>(self, entry: &Entry<V>) -> bool {
        Self::new(entry.key.hash(), entry.stamp) == self
    }
}

impl<V> Entry<V> {
    fn charge(&self) -> usize {
        self.charge as usize
    }

    fn is_pinned(&self) -> bool {
        Arc::strong_count(&self.value) > 1
    }
}

/// What happened to the entry at the front of a queue.
enum Step {
    Evicted,
    /// It was used; it waits again, in the main queue, with fewer uses.
    PassedUsed,
    /// Somebody holds it; it waits again in the same queue.
    PassedPinned,
    /// It was removed.
    PassedEmpty,
}

impl<V: Cacheable> State<V> {
    #[inline]
    fn find(&self, hash: u64, key: &CacheKey) -> Option<&Entry<V>> {
        self.table.find(hash, |entry| entry.key == *key)
    }

    fn add(&mut self, hash: u64, key: CacheKey, value: Arc<V>, charge: u32, standing: Standing) {
        let in_main = match standing {
            Standing::New => self.ghost.remove(hash),
            Standing::Passing => false,
            Standing::Proven => true,
        };
        self.usage += charge as usize;
        self.next_stamp = self.next_stamp.wrapping_add(1);
        let stamp = self.next_stamp;
        let place = Place::new(hash, stamp);
        if in_main {
            self.main.push_back(place);
        } else {
            self.probation_bytes += charge as usize;
            if standing == Standing::Passing {
                self.probation.push_front(place);
            } else {
                self.probation.push_back(place);
            }
        }
        let entry = Entry { key, value, charge, in_main, stamp };
        self.table.insert_unique(hash, entry, |entry| entry.key.hash());
    }

    /// Bytes of the table, the queues and the ghost.
    fn structure_bytes(&self) -> usize {
        self.table.allocation_size()
            + (self.probation.capacity() + self.main.capacity()) * size_of::<Place>()
            + self.ghost.memory_usage()
    }

    /// Lets whatever structure grows for one more entry grow now, before room is made for it.
    fn reserve_place(&mut self) {
        self.table.reserve(1, |entry| entry.key.hash());
        self.probation.reserve(1);
        self.main.reserve(1);
        self.ghost.reserve(self.table.len());
    }

    /// Gives back what structures keep for many more entries than there are.
    fn shrink(&mut self) {
        let wanted = 2 * self.table.len();
        if self.table.capacity() > 4 * wanted {
            self.table.shrink_to(wanted, |entry| entry.key.hash());
        }
        for queue in [&mut self.probation, &mut self.main] {
            if queue.capacity() > 4 * wanted {
                queue.shrink_to(wanted);
            }
        }
        if self.table.is_empty() {
            self.ghost = Ghost::default();
        }
    }

    /// Evicts until at most `limit` bytes are charged, or nothing is left that can go. Unless `thorough`, a
    /// number of pinned entries in a row ends the search too.
    fn evict_to(&mut self, limit: usize, thorough: bool, evicted: &mut Vec<(CacheKey, Arc<V>)>) {
        // Pinned entries passed since anything else changed place; a queue is exhausted when it holds no others.
        let (mut pinned_probation, mut pinned_main) = (0, 0);
        while self.usage > limit {
            if !thorough && pinned_probation + pinned_main > MAX_PINNED_PASSED {
                return;
            }
            let prefer_probation = self.main.is_empty() || self.probation_bytes > self.capacity / PROBATION_DIVISOR;
            let probation_open = pinned_probation < self.probation.len();
            let main_open = pinned_main < self.main.len();
            let (step, pinned) = if probation_open && (prefer_probation || !main_open) {
                (self.step_probation(evicted), &mut pinned_probation)
            } else if main_open {
                (self.step_main(evicted), &mut pinned_main)
            } else {
                return;
            };
            match step {
                None => return,
                Some(Step::PassedPinned) => *pinned += 1,
                Some(Step::Evicted | Step::PassedEmpty) => {}
                Some(Step::PassedUsed) => (pinned_probation, pinned_main) = (0, 0),
            }
        }
    }

    /// Drops some places of removed entries, once they are more than half of those of others: a few at a time, for others wait meanwhile.
    fn drop_empty_places(&mut self) {
        let (places, taken) = (self.probation.len() + self.main.len(), self.table.len());
        if places > 2 * taken + 8 {
            // As after the removal of a large part at once.
            self.retain_taken_places();
        } else if places > taken + taken / 2 + 8 {
            (0..SWEPT).for_each(|_| self.sweep_place());
        }
    }

    /// Looks at the next place. One that is empty goes, and the oldest of its queue takes its stead.
    fn sweep_place(&mut self) {
        if self.swept >= self.main.len() + self.probation.len() {
            self.swept = 0;
        }
        let in_main = self.main.len();
        let (queue, at) = match self.swept < in_main {
            true => (&mut self.main, self.swept),
            false => (&mut self.probation, self.swept - in_main),
        };
        let Some(place) = queue.get(at).copied() else { return };
        match self.table.find(place.hash(), |entry| place.is_of(entry)) {
            Some(_) => self.swept += 1,
            None => drop(queue.swap_remove_front(at)),
        }
    }

    fn retain_taken_places(&mut self) {
        let table = &self.table;
        let is_taken = |place: &Place| table.find(place.hash(), |entry| place.is_of(entry)).is_some();
        self.probation.retain(is_taken);
        self.main.retain(is_taken);
    }

    fn step_probation(&mut self, evicted: &mut Vec<(CacheKey, Arc<V>)>) -> Option<Step> {
        let place = self.probation.pop_front()?;
        let found = self.table.find_entry(place.hash(), |entry| place.is_of(entry) && !entry.in_main);
        let Ok(mut occupied) = found else {
            return Some(Step::PassedEmpty);
        };
        let entry = occupied.get_mut();
        if entry.value.uses().get() >= PROMOTING_USES {
            entry.value.uses().clear();
            entry.in_main = true;
            self.probation_bytes -= entry.charge();
            self.main.push_back(place);
            return Some(Step::PassedUsed);
        }
        if entry.is_pinned() {
            self.probation.push_back(place);
            return Some(Step::PassedPinned);
        }
        self.probation_bytes -= entry.charge();
        let (entry, _) = occupied.remove();
        self.usage -= entry.charge();
        self.ghost.add(entry.key.hash(), self.table.len());
        evicted.push((entry.key, entry.value));
        Some(Step::Evicted)
    }

    fn step_main(&mut self, evicted: &mut Vec<(CacheKey, Arc<V>)>) -> Option<Step> {
        let place = self.main.pop_front()?;
        let found = self.table.find_entry(place.hash(), |entry| place.is_of(entry) && entry.in_main);
        let Ok(mut occupied) = found else {
            return Some(Step::PassedEmpty);
        };
        let entry = occupied.get_mut();
        if entry.value.uses().take_one() {
            self.main.push_back(place);
            return Some(Step::PassedUsed);
        }
        if entry.is_pinned() {
            self.main.push_back(place);
            return Some(Step::PassedPinned);
        }
        let (entry, _) = occupied.remove();
        self.usage -= entry.charge();
        evicted.push((entry.key, entry.value));
        Some(Step::Evicted)
    }
}
