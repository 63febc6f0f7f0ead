//! Locks that know their place in the order.

use std::ops::{Deref, DerefMut};

/// The place of a lock in the order: a thread takes locks of strictly increasing rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(pub u16);

#[cfg(debug_assertions)]
mod held {
    use super::Rank;
    use std::cell::RefCell;

    thread_local! {
        static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn push(rank: Rank) {
        // A lock may be taken while the thread's locals are being destroyed.
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            let highest = held.iter().max();
            assert!(highest.is_none_or(|highest| *highest < rank), "lock order: {rank:?} taken while holding {held:?}");
            held.push(rank);
        });
    }

    pub(super) fn pop(rank: Rank) {
        // A guard may be dropped while the thread's locals are being destroyed.
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(position) = held.iter().rposition(|other| *other == rank) {
                held.remove(position);
            }
        });
    }
}

#[cfg(not(debug_assertions))]
mod held {
    #[inline(always)]
    pub(super) fn push(_: super::Rank) {}
    #[inline(always)]
    pub(super) fn pop(_: super::Rank) {}
}

/// A mutual-exclusion lock with a rank. Not poisoned by a panic.
#[derive(Debug)]
pub struct Mutex<T> {
    rank: Rank,
    inner: parking_lot::Mutex<T>,
}

impl<T> Mutex<T> {
    /// A lock of `rank` around `value`.
    pub const fn new(rank: Rank, value: T) -> Self {
        Self { rank, inner: parking_lot::Mutex::new(value) }
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        held::push(self.rank);
        MutexGuard { rank: self.rank, inner: self.inner.lock() }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let inner = self.inner.try_lock()?;
        held::push(self.rank);
        Some(MutexGuard { rank: self.rank, inner })
    }

    /// Whether somebody holds the lock at this moment.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.inner.is_locked()
    }

    /// The value, without locking: the exclusive reference proves that nobody else has it.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

/// Proof that a [`Mutex`] is held.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    rank: Rank,
    inner: parking_lot::MutexGuard<'a, T>,
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        held::pop(self.rank);
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// A lock for many readers or one writer, with a rank. Not poisoned by a panic.
#[derive(Debug)]
pub struct RwLock<T> {
    rank: Rank,
    inner: parking_lot::RwLock<T>,
}

impl<T> RwLock<T> {
    /// A lock of `rank` around `value`.
    pub const fn new(rank: Rank, value: T) -> Self {
        Self { rank, inner: parking_lot::RwLock::new(value) }
    }

    /// Waits for shared access.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        held::push(self.rank);
        RwLockReadGuard { rank: self.rank, inner: self.inner.read() }
    }

    /// Waits for exclusive access.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        held::push(self.rank);
        RwLockWriteGuard { rank: self.rank, inner: self.inner.write() }
    }
}

/// Proof of shared access to a [`RwLock`].
#[derive(Debug)]
pub struct RwLockReadGuard<'a, T> {
    rank: Rank,
    inner: parking_lot::RwLockReadGuard<'a, T>,
}

impl<T> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        held::pop(self.rank);
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

/// Proof of exclusive access to a [`RwLock`].
#[derive(Debug)]
pub struct RwLockWriteGuard<'a, T> {
    rank: Rank,
    inner: parking_lot::RwLockWriteGuard<'a, T>,
}

impl<T> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        held::pop(self.rank);
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}
