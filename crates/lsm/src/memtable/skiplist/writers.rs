//! The two tokens that give the right to insert.
//!
//! Path: put 5/5. Before: memtable/writer.rs.

#![expect(unsafe_code, reason = "writers build nodes in memory from the arena and link them")]

use super::node::{Link, Node, NodeLayout};
use super::splice::Splice;
use super::{MAX_HEIGHT, SkipList, Target};
use crate::key::pack_trailer;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// The state of a list while an exclusive writer lives.
const EXCLUSIVE: usize = usize::MAX;

/// Who may insert. On a cache line of its own: writers change it, and readers do not look at it.
pub(super) struct Tokens {
    /// 0, the number of shared writers, or [`EXCLUSIVE`].
    state: AtomicUsize,
    /// Whether there was a shared writer since the splice was used last.
    splice_is_stale: AtomicBool,
    /// Sets the seeds of shared writers apart.
    shared_writers: AtomicU64,
}

impl Tokens {
    pub(super) const fn new() -> Self {
        Self { state: AtomicUsize::new(0), splice_is_stale: AtomicBool::new(false), shared_writers: AtomicU64::new(0) }
    }

    /// How many shared writers there have been.
    #[cfg(test)]
    pub(super) fn shared_writers(&self) -> u64 {
        self.shared_writers.load(Ordering::Relaxed)
    }
}

/// What random numbers start from: 2^64 divided by the golden ratio.
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// What only the holder of the exclusive token touches.
pub(super) struct ExclusiveState {
    splice: Splice,
    random: Random,
}

impl ExclusiveState {
    /// The state of a list without entries.
    pub(super) const fn of_empty(head: Node) -> Self {
        Self { splice: Splice::of_empty(head), random: Random(SEED) }
    }
}

/// Heights of towers.
struct Random(u64);

impl Random {
    /// A height of at least 1; each more has half the probability. With prefixes in the links, steps forward cost misses and steps down
    /// do not: many levels are better than few.
    #[inline]
    fn height(&mut self) -> usize {
        // xorshift64* by Vigna; its high bits are the good ones.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
        MAX_HEIGHT.min(1 + bits.leading_zeros() as usize)
    }
}

impl SkipList {
    /// The right to insert alone, unless somebody else holds any.
    #[inline]
    pub(in super::super) fn exclusive_writer(&self) -> Option<ExclusiveWriter<'_>> {
        self.tokens.state.compare_exchange(0, EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed).ok()?;
        if self.tokens.splice_is_stale.load(Ordering::Relaxed) {
            self.tokens.splice_is_stale.store(false, Ordering::Relaxed);
            // SAFETY: this thread has just become the holder of the exclusive token (1).
            self.reset_splice(unsafe { &mut (*self.exclusive.get()).splice });
        }
        Some(ExclusiveWriter { list: self })
    }

    /// The right to insert beside other shared writers, unless an exclusive one lives.
    #[inline]
    pub(in super::super) fn shared_writer(&self) -> Option<SharedWriter<'_>> {
        let add = |state: usize| (state < EXCLUSIVE - 1).then(|| state + 1);
        self.tokens.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, add).ok()?;
        if !self.tokens.splice_is_stale.load(Ordering::Relaxed) {
            self.tokens.splice_is_stale.store(true, Ordering::Relaxed);
        }
        let number = self.tokens.shared_writers.fetch_add(1, Ordering::Relaxed) + 1;
        Some(SharedWriter { list: self, random: Random(number.wrapping_mul(SEED) | 1) })
    }
}

/// The right to insert while nobody else does.
pub(in super::super) struct ExclusiveWriter<'a> {
    list: &'a SkipList,
}

impl ExclusiveWriter<'_> {
    /// Inserts an entry. Returns `false`, and inserts nothing, if the list has one of the same internal key.
    #[inline]
    pub(in super::super) fn insert(&mut self, user_key: &[u8], seqno: u64, value_type: u8, value: &[u8]) -> bool {
        let list = self.list;
        // SAFETY: this is the exclusive token (1), and it is borrowed mutably.
        let ExclusiveState { splice, random } = unsafe { &mut *list.exclusive.get() };
        let trailer = pack_trailer(seqno, value_type);
        let target = Target { prefix: list.prefixes.of(user_key), user_key, trailer };
        let old_height = list.height.load(Ordering::Relaxed);
        let mut level = 0;
        while level < old_height && !list.brackets(splice, level, &target) {
            level += 1;
        }
        list.search_splice(splice, level, old_height, &target);
        if list.is_duplicate(splice, &target) {
            return false;
        }
        let height = random.height();
        let layout = NodeLayout::new(height, user_key, value, list.protection_bytes);
        // SAFETY: only writers allocate, and this one is alone (1).
        let memory = unsafe { list.arena.allocate_exclusive(layout.total) };
        // SAFETY: the memory is new and as large as the layout says.
        let node = unsafe { layout.write_entry(memory, user_key, trailer, value) };
        for level in 0..height {
            splice.next_prefix[level] = list.successor_prefix(splice, level, &target);
            let next =
                Link { next: AtomicPtr::new(splice.next[level].0), prefix: AtomicU64::new(splice.next_prefix[level]) };
            // SAFETY: the node has `height` links before its entry, and nobody can reach them yet.
            unsafe { node.0.cast::<Link>().sub(level + 1).write(next) };
        }
        for level in 0..height {
            // SAFETY: nodes of the splice are reachable and higher than the level.
            let link = unsafe { splice.prev[level].link(level) };
            // Before the successor (5).
            link.prefix.store(target.prefix, Ordering::Relaxed);
            link.next.store(node.0, Ordering::Release);
            splice.prev[level] = node;
            splice.prev_prefix[level] = target.prefix;
        }
        if height > old_height {
            list.height.store(height, Ordering::Relaxed);
        }
        true
    }
}

impl Drop for ExclusiveWriter<'_> {
    #[inline]
    fn drop(&mut self) {
        self.list.tokens.state.store(0, Ordering::Release);
    }
}

/// The right to insert beside other writers of this kind.
pub(in super::super) struct SharedWriter<'a> {
    list: &'a SkipList,
    random: Random,
}

impl SharedWriter<'_> {
    /// Inserts an entry. Returns `false`, and inserts nothing, if the list has one of the same internal key.
    #[inline]
    pub(in super::super) fn insert(&mut self, user_key: &[u8], seqno: u64, value_type: u8, value: &[u8]) -> bool {
        let list = self.list;
        let trailer = pack_trailer(seqno, value_type);
        let target = Target { prefix: list.prefixes.of(user_key), user_key, trailer };
        let height = self.random.height();
        if height > list.height.load(Ordering::Relaxed) {
            list.height.fetch_max(height, Ordering::Relaxed);
        }
        let mut splice = Splice::of_empty(list.head);
        let all = list.height.load(Ordering::Relaxed);
        list.search_splice(&mut splice, all, all, &target);
        if list.is_duplicate(&splice, &target) {
            return false;
        }
        let layout = NodeLayout::new(height, user_key, value, list.protection_bytes);
        let memory = list.arena.allocate(layout.total);
        // SAFETY: the memory is new and as large as the layout says.
        let node = unsafe { layout.write_entry(memory, user_key, trailer, value) };
        for level in 0..height {
            // SAFETY: the node has `height` links before its entry, and they cannot be reached before they are written: a search reaches a
            // link of a node only at a level at which the node is linked.
            unsafe {
                node.0.cast::<Link>().sub(level + 1).write(Link::to_nowhere());
            }
        }
        for level in 0..height {
            loop {
                let next = splice.next[level];
                // SAFETY: `node` has this level, and so has `prev`, which is reachable.
                let (own, link) = unsafe { (node.link(level), splice.prev[level].link(level)) };
                own.next.store(next.0, Ordering::Relaxed);
                own.prefix.store(list.successor_prefix(&splice, level, &target), Ordering::Relaxed);
                // Before the successor (5).
                link.prefix.fetch_min(target.prefix, Ordering::Relaxed);
                if link.next.compare_exchange(next.0, node.0, Ordering::Release, Ordering::Relaxed).is_ok() {
                    break;
                }
                // SAFETY: as above.
                let (prev, prefix, next, next_prefix) = unsafe {
                    list.walk::<true>(splice.prev[level], splice.prev_prefix[level], level, Node::NULL, &target)
                };
                splice.prev[level] = prev;
                splice.prev_prefix[level] = prefix;
                splice.next[level] = next;
                splice.next_prefix[level] = next_prefix;
                if level == 0 && list.is_duplicate(&splice, &target) {
                    return false;
                }
            }
        }
        true
    }
}

impl Drop for SharedWriter<'_> {
    #[inline]
    fn drop(&mut self) {
        self.list.tokens.state.fetch_sub(1, Ordering::Release);
    }
}
