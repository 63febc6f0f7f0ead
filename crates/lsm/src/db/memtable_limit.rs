//! One limit of the memtables of all families together: `db_write_buffer_size`.
//!
//! Half of it is for memtables that are written: when they have that much together, the largest is sealed and flushed. The other half is for those that wait for their flush:
//! where the whole is used up, writers wait until a flush has freed some. A sixteenth of the limit is kept free, for what is written between two looks and for batches that others add to a group.
//!
//! A look walks over all families, so it is not taken at every write: writes count what they add at most, and the next look is due when that could matter. A batch that is
//! larger than half of the limit waits until nothing else is in memory, and is then written all the same.

use super::column_family::Family;
use super::state::DbInner;
use super::write::WriteSide;
use crate::event::FlushReason;
use crate::options::WriteOptions;
use siltstone_base::Result;
use siltstone_base::sync::Arc;

/// One part in so many of the limit lies between two looks.
const STEPS: u64 = 16;

/// What an entry of a batch takes in a memtable beside its bytes there, at most.
pub(super) const ENTRY_OVERHEAD: u64 = 96;

/// The bytes of all memtables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemtableBytes {
    /// Of those that are written and have something in them.
    pub(super) written: u64,
    /// Of those that have nothing in them.
    pub(super) empty: u64,
    /// Of those that wait for their flush.
    pub(super) sealed: u64,
}

/// What is left of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// So many bytes may be written, after those that come now, before it is looked at again.
    Bytes(u64),
    /// A memtable should be sealed.
    Seal,
    /// Nothing, until a flush is done.
    None,
}

impl MemtableBytes {
    fn total(self) -> u64 {
        self.written.saturating_add(self.empty).saturating_add(self.sealed)
    }
}

/// What `bytes` leave of `limit` for `coming` more.
pub(super) fn room(bytes: MemtableBytes, coming: u64, limit: u64) -> Room {
    let step = limit / STEPS;
    let before_sealing = (limit / 2).saturating_sub(bytes.written.saturating_add(coming));
    let before_waiting = limit.saturating_sub(bytes.total().saturating_add(coming));
    if before_sealing <= step && bytes.written > 0 {
        Room::Seal
    } else if before_waiting <= step && bytes.sealed > 0 {
        Room::None
    } else {
        Room::Bytes(before_sealing.min(before_waiting.saturating_sub(step)).max(step / 4))
    }
}

impl DbInner {
    /// The bytes of the memtables of all families.
    pub(super) fn memtable_bytes(&self) -> MemtableBytes {
        let mut bytes = MemtableBytes { written: 0, empty: 0, sealed: 0 };
        for family in self.families.load().values() {
            let pinned = family.super_version.load();
            let sealed = pinned.immutables.newest_first().iter();
            bytes.sealed += sealed.map(|memtable| memtable.approximate_memory_usage() as u64).sum::<u64>();
            let newest = if pinned.memtable.is_empty() { &mut bytes.empty } else { &mut bytes.written };
            *newest += pinned.memtable.approximate_memory_usage() as u64;
        }
        bytes
    }

    /// What may still be written into memtables of any family until writers wait for a flush; `None`: there is no such limit.
    pub(crate) fn shared_memtable_room(&self) -> Option<u64> {
        let limit = self.options.db_write_buffer_size as u64;
        (limit > 0).then(|| limit.saturating_sub(self.memtable_bytes().total()))
    }

    /// Whether writers wait for room among the memtables of all families together.
    pub(super) fn are_memtables_full(&self) -> bool {
        let limit = self.options.db_write_buffer_size as u64;
        limit > 0 && room(self.memtable_bytes(), 0, limit) == Room::None
    }

    /// Keeps to the limit before a group that begins with `coming` bytes is written: seals what is largest, and waits for a flush where that is not enough.
    #[cold]
    pub(super) fn limit_memtables(
        self: &Arc<Self>,
        side: &mut WriteSide,
        coming: u64,
        options: &WriteOptions,
    ) -> Result<()> {
        let limit = self.options.db_write_buffer_size as u64;
        loop {
            match room(self.memtable_bytes(), coming, limit) {
                Room::Bytes(bytes) => {
                    side.memtable_growth = 0;
                    side.memtable_room = bytes;
                    return Ok(());
                }
                Room::Seal => {
                    let Some(largest) = self.largest_memtable() else { return Ok(()) };
                    self.switch_memtables(side, &[largest], FlushReason::MemtableTotalSize)?;
                }
                Room::None => {
                    self.wait_for_flush(options, || room(self.memtable_bytes(), coming, limit) != Room::None)?
                }
            }
        }
    }

    /// The family whose memtable has most, of those that are not empty.
    fn largest_memtable(&self) -> Option<Arc<Family>> {
        let families = self.families.load();
        let bytes = |family: &&Arc<Family>| family.super_version.load().memtable.approximate_memory_usage();
        let filled = families.values().filter(|family| !family.super_version.load().memtable.is_empty());
        filled.max_by_key(bytes).map(Arc::clone)
    }

    /// The bytes that the limit leaves to all families; `None` without one.
    pub(super) fn shared_room(&self) -> Option<u64> {
        let limit = self.options.db_write_buffer_size as u64;
        let bytes = (limit > 0).then(|| self.memtable_bytes())?;
        Some((limit - limit / STEPS).saturating_sub(bytes.total()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(written: u64, sealed: u64, coming: u64) -> Room {
        room(MemtableBytes { written, empty: 0, sealed }, coming, 1600)
    }

    #[test]
    fn half_is_for_what_is_written() {
        assert_eq!(of(0, 0, 0), Room::Bytes(800));
        assert_eq!(of(699, 0, 0), Room::Bytes(101));
        assert_eq!(of(700, 0, 0), Room::Seal);
        assert_eq!(of(600, 0, 100), Room::Seal);
        assert_eq!(of(0, 1300, 0), Room::Bytes(200));
        assert_eq!(of(0, 1499, 0), Room::Bytes(25));
        assert_eq!(of(0, 1500, 0), Room::None);
        assert_eq!(of(0, 1300, 200), Room::None);
        assert_eq!(of(700, 1500, 0), Room::Seal);
        assert_eq!(of(600, 900, 0), Room::None);
        assert_eq!(room(MemtableBytes { written: 600, empty: 100, sealed: 800 }, 0, 1600), Room::None);
    }

    #[test]
    fn a_batch_larger_than_the_limit_is_written_when_nothing_else_is_there() {
        assert_eq!(of(1, 0, 5000), Room::Seal);
        assert_eq!(of(0, 1, 5000), Room::None);
        assert_eq!(of(0, 0, 5000), Room::Bytes(25));
        // A limit of next to nothing.
        assert_eq!(room(MemtableBytes { written: 0, empty: 9, sealed: 0 }, 1, 1), Room::Bytes(0));
    }
}
