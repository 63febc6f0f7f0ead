//! The counter that every numbered file of a database draws from.

use siltstone_base::sync::atomic::{AtomicU64, Ordering};

/// File numbers at or above are refused: no database came that far.
pub(crate) const MAX_FILE_NUMBER: u64 = 1 << 62;

/// Hands out file numbers, each once, without a lock.
#[derive(Debug)]
pub(crate) struct FileNumbers {
    next: AtomicU64,
}

impl FileNumbers {
    /// A counter whose first number is `next`.
    pub(crate) fn new(next: u64) -> Self {
        Self { next: AtomicU64::new(next) }
    }

    /// A number that no file has or had.
    pub(crate) fn allocate(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// No number at or above was handed out.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }
}
