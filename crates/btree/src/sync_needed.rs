//! Whether a file has bytes that no sync covers.

use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::atomic::{AtomicBool, Ordering};

/// Knows whether something was written to a file since its last sync began.
///
/// The rule: a write is noted when it is over, and before anybody is told that it is; a sync takes the note before it begins. Then whoever is told of a write finds its note, or the note was taken by a
/// sync that covers it. A write that were noted before it is over could lose its note to a sync that comes too early for it, and the next one would do nothing.
///
/// Any thread may write. Syncs of one file come one after the other, under a lock of the caller: who finds no note believes that the sync that took it is over.
#[derive(Debug)]
pub(crate) struct SyncNeeded(AtomicBool);

impl SyncNeeded {
    /// For a file in which an earlier life may have left something.
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(true))
    }

    /// Writes, and notes that. Nobody is told of the write before this returns.
    pub(crate) fn write<T>(&self, write: impl FnOnce() -> T) -> T {
        if is_planted(PlantedBug::WriteNotedTooEarly) {
            self.0.store(true, Ordering::Release);
            return write();
        }
        let outcome = write();
        // Also where it failed: a part of it may be there.
        self.0.store(true, Ordering::Release);
        outcome
    }

    /// Syncs if there is something to sync. A failure is final for the file.
    pub(crate) fn sync<E>(&self, sync: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        if self.0.swap(false, Ordering::AcqRel) { sync() } else { Ok(()) }
    }
}
