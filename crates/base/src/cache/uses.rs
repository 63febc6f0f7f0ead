//! How often a cached value was used lately, noted in the value itself.

use crate::sync::atomic::{AtomicU8, Ordering};
use std::ops::Deref;

/// Uses are counted up to this.
const MAX_USES: u8 = 3;

/// A value that a [`Cache`](super::Cache) can hold.
pub trait Cacheable: Send + Sync {
    /// Where its uses are noted.
    fn uses(&self) -> &Uses;
}

/// A count of uses that saturates. Losing one to a race is harmless, so nothing here is a read-modify-write.
#[derive(Debug, Default)]
pub struct Uses(AtomicU8);

impl Uses {
    /// Notes a use.
    #[inline]
    pub fn add(&self) {
        let uses = self.get();
        if uses < MAX_USES {
            self.0.store(uses + 1, Ordering::Relaxed);
        }
    }

    /// Whether there was any lately.
    #[inline]
    pub fn any(&self) -> bool {
        self.get() > 0
    }

    #[inline]
    pub(super) fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Takes a use off; false if there is none.
    pub(super) fn take_one(&self) -> bool {
        let uses = self.get();
        self.0.store(uses.saturating_sub(1), Ordering::Relaxed);
        uses > 0
    }
}

/// Any value, with room for the note.
#[derive(Debug, Default)]
pub struct Counted<T> {
    value: T,
    uses: Uses,
}

impl<T> Counted<T> {
    /// `value`, not used yet.
    pub fn new(value: T) -> Self {
        Self { value, uses: Uses::default() }
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Send + Sync> Cacheable for Counted<T> {
    #[inline]
    fn uses(&self) -> &Uses {
        &self.uses
    }
}
