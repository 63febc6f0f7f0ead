//! The range tombstones of a memtable.
//!
//! 1. They are kept in sets of fragments, each much larger than the next, so that adding one rebuilds little.
//! 2. A search asks every set. Searches are counted while there are several: once they have cost about what it costs to make one set of all,
//!    that is done, by the reader that counts last and beside whoever adds.

use super::Memtable;
use crate::key::{InternalKeyComparator, SeqNo};
use crate::range_tombstones::{Fragments, RangeTombstone};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use siltstone_base::sync::{Arc, ArcSwap, Mutex, Rank};

const RANGE_LIST: Rank = Rank(850);

/// A set takes in the newer ones once they have this part of its tombstones. The rebuilding that an insertion costs grows with it, the number
/// of sets that a read asks with its inverse.
const GROWTH: usize = 16;

/// Tombstones for each search of several sets, above which it is too early to make one set of them.
const TOMBSTONES_PER_SEARCH: u64 = 2;

/// After so many searches of its own, a reader of several sets counts them and takes what is there by then.
const SEARCHES_AT_ONCE: u64 = 256;

/// Sets of fragments, the largest first: each has much fewer tombstones than the one before, so that there are few. A reader takes the largest
/// number that any of them says.
type FragmentSets = Vec<Arc<Fragments>>;

/// Range tombstones, added one by one and read without a lock.
///
/// Thread safety: every method may be called from any thread. Invariant: once [`add`](Self::add) returned, every read sees the tombstone.
#[derive(Debug)]
pub(crate) struct RangeList {
    order: InternalKeyComparator,
    /// How many there are: a reader that finds 0 looks no further. Stored after `sets`.
    count: AtomicU64,
    memory_usage: AtomicUsize,
    sets: ArcSwap<FragmentSets>,
    /// The tombstones of each set.
    tombstones: Mutex<Vec<Arc<Vec<RangeTombstone>>>>,
    /// Searches of several sets since they were made one last.
    searches: AtomicU64,
    /// Whether a reader is making one set of all.
    is_merging: AtomicBool,
}

impl RangeList {
    pub(super) fn new(order: InternalKeyComparator) -> Self {
        Self {
            order,
            count: AtomicU64::new(0),
            memory_usage: AtomicUsize::new(0),
            sets: ArcSwap::from_pointee(Vec::new()),
            tombstones: Mutex::new(RANGE_LIST, Vec::new()),
            searches: AtomicU64::new(0),
            is_merging: AtomicBool::new(false),
        }
    }

    /// Adds a tombstone, unless it ends where or before it begins. Returns whether it was added.
    #[cold]
    pub(super) fn add(&self, seqno: SeqNo, start: &[u8], end: &[u8]) -> bool {
        if !self.order.compare_user(start, end).is_lt() {
            return false;
        }
        let tombstone = RangeTombstone::new(start, end, seqno);
        // Its copy in the fragments, with two borders and their numbers, takes about as much again.
        let more = 3 * tombstone.memory_usage();
        let mut tombstones = self.tombstones.lock();
        let mut sets: FragmentSets = Vec::clone(&self.sets.load());
        let mut newest = vec![tombstone];
        while let Some(older) = tombstones.pop_if(|older| newest.len() * GROWTH >= older.len()) {
            sets.pop();
            let newer = std::mem::replace(&mut newest, Arc::unwrap_or_clone(older));
            newest.extend(newer);
        }
        sets.push(Arc::new(Fragments::new(&self.order, &newest)));
        tombstones.push(Arc::new(newest));
        self.sets.store(Arc::new(sets));
        self.memory_usage.fetch_add(more, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Release);
        true
    }

    /// The largest number of a tombstone over `key` that is not above `limit`; 0 if there is none.
    #[inline]
    pub(super) fn covering(&self, key: &[u8], limit: SeqNo) -> SeqNo {
        if self.count() == 0 { 0 } else { self.search(key, limit) }
    }

    #[cold]
    fn search(&self, key: &[u8], limit: SeqNo) -> SeqNo {
        let sets = self.sets.load();
        if sets.len() > 1 {
            self.count_searches(1);
        }
        sets.iter().map(|set| set.covering(key, limit)).max().unwrap_or(0)
    }

    /// Counts searches of several sets, and makes one of them when that is due.
    fn count_searches(&self, searches: u64) {
        let searches = searches + self.searches.fetch_add(searches, Ordering::Relaxed);
        if searches.saturating_mul(TOMBSTONES_PER_SEARCH) >= self.count() {
            self.merge();
        }
    }

    /// Makes one set of all. Tombstones that come meanwhile stay apart.
    #[cold]
    fn merge(&self) {
        if self.is_merging.swap(true, Ordering::Acquire) {
            return;
        }
        let parts = Vec::clone(&self.tombstones.lock());
        let all: Vec<RangeTombstone> = parts.iter().flat_map(|part| part.iter().cloned()).collect();
        let merged = Arc::new(Fragments::new(&self.order, &all));
        {
            let mut tombstones = self.tombstones.lock();
            // Adding one may have put some of the sets together.
            let are_there = tombstones.get(..parts.len()).is_some_and(|now| now.iter().zip(&parts).all(same_part));
            if are_there {
                let mut sets: FragmentSets = Vec::clone(&self.sets.load());
                sets.splice(..parts.len(), [merged]);
                tombstones.splice(..parts.len(), [Arc::new(all)]);
                self.sets.store(Arc::new(sets));
            }
        }
        self.searches.store(0, Ordering::Relaxed);
        self.is_merging.store(false, Ordering::Release);
    }

    /// How many tombstones there are.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// The bytes of memory that they take, about.
    #[inline]
    pub(super) fn memory_usage(&self) -> usize {
        self.memory_usage.load(Ordering::Relaxed)
    }

    /// The fragments of all that was added so far; `None` if there is nothing.
    pub(super) fn fragments(&self) -> Option<Arc<FragmentSets>> {
        if self.count() == 0 {
            return None;
        }
        let sets = self.sets.load_full();
        if sets.len() == 1 {
            return Some(sets);
        }
        self.count_searches(1);
        Some(self.sets.load_full())
    }

    /// The tombstones, in no order.
    pub(super) fn to_vec(&self) -> Vec<RangeTombstone> {
        let parts = Vec::clone(&self.tombstones.lock());
        parts.iter().flat_map(|part| part.iter().cloned()).collect()
    }
}

fn same_part((a, b): (&Arc<Vec<RangeTombstone>>, &Arc<Vec<RangeTombstone>>)) -> bool {
    Arc::ptr_eq(a, b)
}

/// Searches the range tombstones that a memtable had when the reader began, and perhaps newer ones.
#[derive(Debug)]
pub(crate) struct RangeReader {
    memtable: Arc<Memtable>,
    sets: Arc<FragmentSets>,
    searches: u64,
}

impl RangeReader {
    /// A reader of all that was added to `memtable` so far; `None` if there is nothing.
    pub(crate) fn new(memtable: &Arc<Memtable>) -> Option<Self> {
        let sets = memtable.ranges.fragments()?;
        Some(Self { memtable: Arc::clone(memtable), sets, searches: 0 })
    }

    /// To be called before each search: searches of several sets are counted.
    #[inline]
    pub(crate) fn before_search(&mut self) {
        if self.sets.len() > 1 {
            self.searches += 1;
            if self.searches == SEARCHES_AT_ONCE {
                self.take_newer();
            }
        }
    }

    #[cold]
    fn take_newer(&mut self) {
        let ranges = &self.memtable.ranges;
        ranges.count_searches(std::mem::take(&mut self.searches));
        self.sets = ranges.sets.load_full();
    }

    /// The sets, the largest first.
    #[inline]
    pub(crate) fn sets(&self) -> impl Iterator<Item = &Fragments> {
        self.sets.iter().map(|set| &**set)
    }
}
