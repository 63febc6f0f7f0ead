//! The range tombstones of a memtable.

use crate::key::{InternalKeyComparator, SeqNo};
use crate::range_tombstones::{Fragments, RangeTombstone};
use siltstone_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use siltstone_base::sync::{Arc, ArcSwap, Mutex, Rank};

const RANGE_LIST: Rank = Rank(850);

/// A set takes in the newer ones once they have this part of its tombstones. The rebuilding that an insertion costs grows with it, the number
/// of sets that a read asks with its inverse.
const GROWTH: usize = 16;

/// Sets of fragments, the largest first: each has much fewer tombstones than the one before, so that there are few. A reader takes the largest
/// number that any of them says.
pub(crate) type FragmentSets = Vec<Arc<Fragments>>;

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
    tombstones: Mutex<Vec<Vec<RangeTombstone>>>,
}

impl RangeList {
    pub(super) fn new(order: InternalKeyComparator) -> Self {
        Self {
            order,
            count: AtomicU64::new(0),
            memory_usage: AtomicUsize::new(0),
            sets: ArcSwap::from_pointee(Vec::new()),
            tombstones: Mutex::new(RANGE_LIST, Vec::new()),
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
            let newer = std::mem::replace(&mut newest, older);
            newest.extend(newer);
        }
        sets.push(Arc::new(Fragments::new(&self.order, &newest)));
        tombstones.push(newest);
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
        self.sets.load().iter().map(|set| set.covering(key, limit)).max().unwrap_or(0)
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
        (self.count() > 0).then(|| self.sets.load_full())
    }

    /// The tombstones, in no order.
    pub(super) fn to_vec(&self) -> Vec<RangeTombstone> {
        if self.count() == 0 { Vec::new() } else { self.tombstones.lock().concat() }
    }
}
