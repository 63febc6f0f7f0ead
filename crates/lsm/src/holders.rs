//! Memory of a database that its jobs hold while they run, and rooms above it: what they have not handed over yet.
//!
//! Each says how much it holds at the moment, and takes that back when it goes; the report of holders adds nothing up by itself.

use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use siltstone_base::sync::{Arc, CachePadded};
use std::fmt;

/// Who holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Batches of tasks that stand in line.
    QueuedWrites,
    /// Rows that loaders sort.
    Loads,
    /// Tables that are being built, by flushes, compactions and commits of transactions that spilled.
    Jobs,
}

const HOLDERS: usize = 3;

/// The bytes of all holders of one open database.
///
/// Thread safety: every method may be called from any thread. The bytes are those of some moment for each holder.
#[derive(Default)]
pub(crate) struct Holders {
    bytes: [CachePadded<AtomicU64>; HOLDERS],
}

impl Holders {
    /// Something that holds nothing yet.
    pub(crate) fn charge(self: &Arc<Self>, holder: Holder) -> Held {
        Held { holders: Arc::clone(self), holder, bytes: 0 }
    }

    /// What holders of one kind have.
    pub(crate) fn bytes(&self, holder: Holder) -> u64 {
        self.bytes[holder as usize].load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holders").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// What one holder has. Gives it back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    holders: Arc<Holders>,
    holder: Holder,
    bytes: u64,
}

impl Held {
    /// It has `bytes` now.
    #[inline]
    pub(crate) fn set(&mut self, bytes: u64) {
        // Wraps where it becomes less: the sum stays right.
        let change = bytes.wrapping_sub(self.bytes);
        if change != 0 {
            self.holders.bytes[self.holder as usize].fetch_add(change, Ordering::Relaxed);
            self.bytes = bytes;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_is_taken_back() {
        let holders = Arc::new(Holders::default());
        let (mut a, mut b) = (holders.charge(Holder::Loads), holders.charge(Holder::Loads));
        a.set(100);
        b.set(30);
        a.set(60);
        assert_eq!((holders.bytes(Holder::Loads), holders.bytes(Holder::QueuedWrites)), (90, 0));
        drop(a);
        assert_eq!(holders.bytes(Holder::Loads), 30);
        drop(b);
        assert_eq!(holders.bytes(Holder::Loads), 0);
    }
}
