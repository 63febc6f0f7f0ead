//! Buffers for blocks from size classes, so that resident memory follows what is accounted under any allocator.
//!
//! A class wastes at most one eighth of what is asked for. A buffer goes back to the free list of its class when it is
//! dropped, unless the pool retains its limit already; it is not zeroed when it is used again.

mod class;

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, Rank};
use crate::{Error, ErrorKind, Result};
use class::{CLASSES, class_of, size_of_class};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Free lists are taken last: a buffer may be dropped under any lock.
const RANK: Rank = Rank(990);

struct Inner {
    /// One for each class, and one for the buffers of no class, whose list stays empty.
    classes: Box<[Mutex<Class>]>,
    retained: AtomicUsize,
    /// Bytes of the buffers that are alive and in a cache.
    cached: AtomicUsize,
    retain_limit: usize,
}

#[derive(Default)]
struct Class {
    free: Vec<Box<[u8]>>,
    /// Bytes of the buffers that are alive.
    in_use: usize,
}

/// A pool of buffers. Clones share it; any thread may use it.
#[derive(Clone)]
pub struct BlockPool(Arc<Inner>);

impl BlockPool {
    /// A pool that retains at most `retain_limit` bytes of free buffers.
    pub fn new(retain_limit: usize) -> Self {
        Self(Arc::new(Inner {
            classes: (0..=CLASSES).map(|_| Mutex::new(RANK, Class::default())).collect(),
            retained: AtomicUsize::new(0),
            cached: AtomicUsize::new(0),
            retain_limit,
        }))
    }

    /// A buffer of `len` bytes whose contents are anything. Aborts like `Vec` where memory ends; for a length that
    /// a file chose there is [`try_alloc`](Self::try_alloc).
    #[inline]
    pub fn alloc(&self, len: usize) -> PooledBuf {
        let class = class_of(len);
        let size = size_of_class(class, len);
        let data = self.take(class, size).unwrap_or_else(|| vec![0; size].into_boxed_slice());
        PooledBuf { data, start: 0, len, is_cached: AtomicBool::new(false), pool: Some(self.clone()) }
    }

    /// A buffer of `len` bytes whose contents are anything.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`.
    pub fn try_alloc(&self, len: usize) -> Result<PooledBuf> {
        let class = class_of(len);
        let size = size_of_class(class, len);
        let data = match self.take(class, size) {
            Some(data) => data,
            None => {
                let mut data = Vec::new();
                if let Err(error) = data.try_reserve_exact(size) {
                    self.0.classes[class].lock().in_use -= size;
                    return Err(Error::new(ErrorKind::OutOfMemory, "block buffer").with_source(error));
                }
                data.resize(size, 0);
                data.into_boxed_slice()
            }
        };
        Ok(PooledBuf { data, start: 0, len, is_cached: AtomicBool::new(false), pool: Some(self.clone()) })
    }

    /// A buffer of `len` bytes whose first byte has an address that `align`, a power of two, divides.
    pub fn alloc_aligned(&self, len: usize, align: usize) -> PooledBuf {
        debug_assert!(align.is_power_of_two());
        let mut buffer = self.alloc(len + align.max(1) - 1);
        // The address of a boxed slice does not change while the buffer lives.
        let misaligned = buffer.data.as_ptr().addr() & (align.max(1) - 1);
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

    /// The bytes of all free buffers that are retained.
    pub fn retained(&self) -> usize {
        self.0.retained.load(Ordering::Relaxed)
    }

    /// Gives every free buffer back to the allocator.
    pub fn release_free(&self) {
        for (class, state) in self.0.classes.iter().enumerate() {
            let buffers = std::mem::take(&mut state.lock().free);
            self.0.retained.fetch_sub(buffers.len() * size_of_class(class, 0), Ordering::Relaxed);
        }
    }

    /// Counts `size` bytes as alive, and takes a free buffer of them if there is one.
    #[inline]
    fn take(&self, class: usize, size: usize) -> Option<Box<[u8]>> {
        let mut state = self.0.classes[class].lock();
        state.in_use += size;
        let data = state.free.pop()?;
        drop(state);
        self.0.retained.fetch_sub(size, Ordering::Relaxed);
        Some(data)
    }

    #[inline]
    fn give_back(&self, data: Box<[u8]>) {
        let size = data.len();
        let class = class_of(size);
        let retains =
            class < CLASSES && self.0.retained.fetch_add(size, Ordering::Relaxed) + size <= self.0.retain_limit;
        if class < CLASSES && !retains {
            self.0.retained.fetch_sub(size, Ordering::Relaxed);
        }
        let mut state = self.0.classes[class].lock();
        state.in_use -= size;
        if retains {
            state.free.push(data);
        }
    }
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
    data: Box<[u8]>,
    start: usize,
    len: usize,
    is_cached: AtomicBool,
    pool: Option<BlockPool>,
}

impl PooledBuf {
    /// A buffer that belongs to no pool.
    pub fn unpooled(data: Vec<u8>) -> Self {
        let data = data.into_boxed_slice();
        Self { start: 0, len: data.len(), data, is_cached: AtomicBool::new(false), pool: None }
    }

    /// A buffer of `len` bytes from the same pool, whose contents are anything; of no pool if this one is of none.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`.
    pub fn buffer_of(&self, len: usize) -> Result<Self> {
        match &self.pool {
            Some(pool) => pool.try_alloc(len),
            None => Ok(Self::unpooled(vec![0; len])),
        }
    }

    /// Says whether a cache holds it, for the accounting of its pool. It is in none when it is dropped.
    pub fn set_cached(&self, is_cached: bool) {
        let Some(pool) = &self.pool else { return };
        if self.is_cached.swap(is_cached, Ordering::Relaxed) == is_cached {
            return;
        }
        match is_cached {
            true => pool.0.cached.fetch_add(self.data.len(), Ordering::Relaxed),
            false => pool.0.cached.fetch_sub(self.data.len(), Ordering::Relaxed),
        };
    }

    /// The bytes of memory that it takes, for accounting: those of its size class.
    #[inline]
    pub fn capacity_charged(&self) -> usize {
        self.data.len()
    }

    /// Shortens it to the first `len` bytes; a longer `len` changes nothing.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
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
        &self.data[self.start..self.start + self.len]
    }
}

impl DerefMut for PooledBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.data[self.start..self.start + self.len]
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
        if let Some(pool) = self.pool.take() {
            pool.give_back(std::mem::take(&mut self.data));
        }
    }
}

impl fmt::Debug for PooledBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledBuf").field("len", &self.len).field("charged", &self.data.len()).finish()
    }
}

#[cfg(test)]
mod tests;
