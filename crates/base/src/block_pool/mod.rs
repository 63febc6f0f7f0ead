//! Buffers for blocks from size classes, so that resident memory follows what is accounted under any allocator.
//!
//! A class wastes at most one eighth of what is asked for. The buffers of a class lie in slabs, which come from the operating system and go back to it: an allocator
//! keeps what is given back in between other things, and a cache whose blocks come and go would have it keep more and more. A buffer is not zeroed when it is used again.
//!
//! What is free is of two kinds. Slots that were given back in slabs of which others are taken wait for the next buffer of their class; the first slab with room is taken from, so that the last ones become empty.
//! Where such holes are more than a quarter of a class's buffers, its slabs are trimmed one after the other: pages without any part of a buffer go back. Slabs that are empty as a whole are retained up to the pool's limit,
//! those of all classes together. Where there are more, the one that was listed first goes, unless somebody took from it since; then it is listed anew. A few of the least size that have gone wait for the next slab
//! of any pool of the process, beside what is counted here.
//!
//! Where slabs cannot be mapped, and in pools that retain nothing, buffers are the allocator's, as those of no class are.

mod buffers;
mod class;
mod memory;
mod pages;
mod slab;
mod source;

use crate::Result;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, CachePadded, Mutex, Rank};
use buffers::{Class, Leaves};
use class::{CLASSES, class_of, size_of_class};
use memory::Memory;
use source::Source;
use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Classes are taken last: a buffer may be dropped under any lock.
const RANK: Rank = Rank(990);

/// Never taken together with a class; like those, under any lock of whoever drops a buffer.
const LISTED_RANK: Rank = Rank(991);

/// A slab with more than this part of what may be retained does not stay in place of others.
const MOST_OF_ONE: usize = 4;

struct Inner {
    /// One for each class, and one for the buffers of no class, which has no slabs.
    classes: Box<[CachePadded<Mutex<Class>>]>,
    /// Bytes of memory of slabs that are empty.
    empty: AtomicUsize,
    /// Slabs that are empty, or were, by their classes; those that have been here for longest first. As long as memory is retained for one class, others need it, too: the slab of a class that becomes
    /// empty again and again would else come from the operating system each time.
    listed: Mutex<VecDeque<(usize, u32)>>,
    /// Bytes of the buffers that are alive and in a cache.
    cached: CachePadded<AtomicUsize>,
    retain_limit: usize,
    /// `None`: there are no slabs.
    source: Option<&'static Source>,
}

/// A pool of buffers. Clones share it; any thread may use it.
#[derive(Clone)]
pub struct BlockPool(Arc<Inner>);

impl BlockPool {
    /// A pool that retains at most `retain_limit` bytes of memory that no buffer is near. With 0 buffers are the allocator's.
    pub fn new(retain_limit: usize) -> Self {
        Self::with_source(retain_limit, (retain_limit > 0 && !cfg!(miri)).then_some(&source::SHARED))
    }

    fn with_source(retain_limit: usize, source: Option<&'static Source>) -> Self {
        Self(Arc::new(Inner {
            classes: (0..=CLASSES).map(|_| CachePadded::new(Mutex::new(RANK, Class::default()))).collect(),
            empty: AtomicUsize::new(0),
            listed: Mutex::new(LISTED_RANK, VecDeque::new()),
            cached: CachePadded::new(AtomicUsize::new(0)),
            retain_limit,
            source,
        }))
    }

    /// A buffer of `len` bytes whose contents are anything. Aborts like `Vec` where memory ends; for a length that
    /// a file chose there is [`try_alloc`](Self::try_alloc).
    #[inline]
    pub fn alloc(&self, len: usize) -> PooledBuf {
        let class = class_of(len);
        let size = size_of_class(class, len);
        let memory = self.take(class, size).unwrap_or_else(|| Memory::boxed(vec![0; size].into_boxed_slice()));
        self.buffer(memory, len)
    }

    /// A buffer of `len` bytes whose contents are anything.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`.
    pub fn try_alloc(&self, len: usize) -> Result<PooledBuf> {
        let class = class_of(len);
        let size = size_of_class(class, len);
        let memory = match self.take(class, size) {
            Some(memory) => memory,
            None => Memory::try_boxed(size).inspect_err(|_| self.0.classes[class].lock().in_use -= size)?,
        };
        Ok(self.buffer(memory, len))
    }

    #[inline]
    fn buffer(&self, memory: Memory, len: usize) -> PooledBuf {
        PooledBuf { memory, start: 0, len, is_cached: AtomicBool::new(false), pool: Some(self.clone()) }
    }

    /// A buffer of `len` bytes whose first byte has an address that `align`, a power of two, divides.
    pub fn alloc_aligned(&self, len: usize, align: usize) -> PooledBuf {
        debug_assert!(align.is_power_of_two());
        let mask = align.max(1) - 1;
        // Slots of a size that is a multiple lie right by themselves, unless that of a page is smaller.
        let class = class_of(len);
        if self.0.source.is_some() && class < CLASSES && size_of_class(class, len) & mask == 0 {
            let buffer = self.alloc(len);
            if buffer.memory.bytes().as_ptr().addr() & mask == 0 {
                return buffer;
            }
        }
        let mut buffer = self.alloc(len + mask);
        // The address of a buffer does not change while it lives.
        let misaligned = buffer.memory.bytes().as_ptr().addr() & mask;
        if misaligned != 0 {
            buffer.start = align - misaligned;
        }
        buffer.len = len;
        buffer
    }

    /// The bytes of all buffers that are alive.
    pub fn in_use(&self) -> usize {
        self.0.classes.iter().map(|class| class.lock().in_use).sum()
    }

    /// The bytes among them of buffers that are [in a cache](PooledBuf::set_cached).
    pub fn cached(&self) -> usize {
        self.0.cached.load(Ordering::Relaxed)
    }

    /// The bytes of memory that are there for buffers and that none uses.
    pub fn retained(&self) -> usize {
        self.0.classes.iter().map(|class| class.lock().free_bytes()).sum()
    }

    /// Gives all memory back to the operating system that no buffer uses, but for what shares a page with one.
    #[cfg(test)]
    pub(crate) fn release_free(&self) {
        for class in &self.0.classes {
            let mut class = class.lock();
            class.trim_all();
            let slabs = class.remove_empty();
            drop(class);
            let bytes: usize = slabs.iter().map(slab::Slab::resident_bytes).sum();
            self.0.empty.fetch_sub(bytes, Ordering::Relaxed);
            slabs.into_iter().for_each(slab::Slab::release);
        }
    }

    /// Counts `size` bytes as alive, and takes a slot for them if there is one, or can be.
    #[inline]
    fn take(&self, class: usize, size: usize) -> Option<Memory> {
        let mut state = self.0.classes[class].lock();
        state.in_use += size;
        if class == CLASSES {
            return None;
        }
        let taken = match state.take(size) {
            Some(taken) => taken,
            None => {
                let resident = state.grow(size, self.0.source?)?;
                self.0.empty.fetch_add(resident, Ordering::Relaxed);
                state.take(size)?
            }
        };
        let (memory, was_empty) = taken;
        if was_empty > 0 {
            // Under the lock: else others would give slabs back for what is in use already.
            self.0.empty.fetch_sub(was_empty, Ordering::Relaxed);
        }
        Some(memory)
    }

    #[inline]
    fn give_back(&self, memory: Memory) {
        let size = memory.len();
        let Some(place) = memory.place() else {
            self.0.classes[class_of(size)].lock().in_use -= size;
            return memory.free();
        };
        let class = class_of(size);
        let mut state = self.0.classes[class].lock();
        state.in_use -= size;
        let Some(emptied) = state.give_back(place, size) else { return };
        let empty = self.0.empty.load(Ordering::Relaxed) + emptied.bytes;
        if emptied.is_new && empty > self.0.retain_limit && emptied.bytes > self.0.retain_limit / MOST_OF_ONE {
            let slab = state.remove(emptied.slab);
            drop(state);
            if let Some(slab) = slab {
                slab.release();
            }
            return;
        }
        self.0.empty.fetch_add(emptied.bytes, Ordering::Relaxed);
        drop(state);
        if emptied.is_new {
            self.0.listed.lock().push_back((class, emptied.slab));
        }
        self.retain_less();
    }

    /// Gives empty slabs back to the operating system until no more are retained than may be, in the order in which they were listed.
    fn retain_less(&self) {
        while self.0.empty.load(Ordering::Relaxed) > self.0.retain_limit {
            let Some((class, number)) = self.0.listed.lock().pop_front() else { return };
            let leaves = {
                let mut state = self.0.classes[class].lock();
                let leaves = state.leave(number);
                if let Leaves::Now(slab) = &leaves {
                    self.0.empty.fetch_sub(slab.resident_bytes(), Ordering::Relaxed);
                }
                leaves
            };
            match leaves {
                Leaves::Now(slab) => slab.release(),
                Leaves::Later => self.0.listed.lock().push_back((class, number)),
                Leaves::Never => {}
            }
        }
    }
}

/// Bytes of memory of this process that no pool has, and that wait for the next slab: 4 MiB at most.
pub fn waiting_bytes() -> usize {
    source::SHARED.waiting_bytes()
}

impl fmt::Debug for BlockPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockPool")
            .field("in_use", &self.in_use())
            .field("retained", &self.retained())
            .field("retain_limit", &self.0.retain_limit)
            .finish()
    }
}

/// A buffer that goes back to its [`BlockPool`] when it is dropped.
pub struct PooledBuf {
    memory: Memory,
    start: usize,
    len: usize,
    is_cached: AtomicBool,
    pool: Option<BlockPool>,
}

impl PooledBuf {
    /// A buffer that belongs to no pool.
    pub fn unpooled(data: Vec<u8>) -> Self {
        let memory = Memory::boxed(data.into_boxed_slice());
        Self { start: 0, len: memory.len(), memory, is_cached: AtomicBool::new(false), pool: None }
    }

    /// Says whether a cache holds it, for the accounting of its pool. It is in none when it is dropped.
    pub fn set_cached(&self, is_cached: bool) {
        let Some(pool) = &self.pool else { return };
        if self.is_cached.swap(is_cached, Ordering::Relaxed) == is_cached {
            return;
        }
        match is_cached {
            true => pool.0.cached.fetch_add(self.memory.len(), Ordering::Relaxed),
            false => pool.0.cached.fetch_sub(self.memory.len(), Ordering::Relaxed),
        };
    }

    /// The bytes of memory that it takes, for accounting: those of its size class.
    #[inline]
    pub fn capacity_charged(&self) -> usize {
        self.memory.len()
    }

    /// Shortens it to the first `len` bytes; a longer `len` changes nothing.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Makes it `len` bytes long, whose contents are anything, if its memory has so many from its first byte on. Returns whether it has.
    pub fn resize_within(&mut self, len: usize) -> bool {
        let fits = len <= self.memory.len() - self.start;
        if fits {
            self.len = len;
        }
        fits
    }

    /// Drops the first `count` bytes, or all if there are fewer.
    #[inline]
    pub fn advance(&mut self, count: usize) {
        let count = count.min(self.len);
        self.start += count;
        self.len -= count;
    }
}

impl Deref for PooledBuf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.memory.bytes()[self.start..self.start + self.len]
    }
}

impl DerefMut for PooledBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[self.start..self.start + self.len]
    }
}

impl AsRef<[u8]> for PooledBuf {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for PooledBuf {
    #[inline]
    fn drop(&mut self) {
        if self.is_cached.load(Ordering::Relaxed) {
            self.set_cached(false);
        }
        let memory = std::mem::replace(&mut self.memory, Memory::empty());
        match self.pool.take() {
            Some(pool) => pool.give_back(memory),
            None => memory.free(),
        }
    }
}

impl fmt::Debug for PooledBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledBuf").field("len", &self.len).field("charged", &self.memory.len()).finish()
    }
}

#[cfg(test)]
mod tests;
