//! Whether the rows of a table may be changed, and whether who knows the table knows all its indexes.
//!
//! Writers look at it with the lock of writers, before they change anything; it is changed with that lock, but for the end of a building that failed.

use siltstone_base::sync::atomic::{AtomicU8, Ordering};
use siltstone_base::{Error, ErrorKind, Result};

/// Its rows may be changed.
const CURRENT: u8 = 0;
/// An index is added to it.
const BUILDING: u8 = 1;
/// The table has other indexes since.
const REPLACED: u8 = 2;

/// The standing of a table. Any thread may use it.
#[derive(Debug, Default)]
pub(in super::super) struct Standing(AtomicU8);

impl Standing {
    /// Whether the table still has the indexes that it is known with; if not, it must be looked up again. `Busy` while an index is added.
    #[inline]
    pub(in super::super) fn check(&self) -> Result<bool> {
        match self.0.load(Ordering::Acquire) {
            CURRENT => Ok(true),
            BUILDING => Err(Error::new(ErrorKind::Busy, "an index is being added to the table")),
            _ => Ok(false),
        }
    }

    /// Whether the table has other indexes by now.
    pub(in super::super) fn is_replaced(&self) -> bool {
        self.0.load(Ordering::Acquire) == REPLACED
    }

    /// Lets no row change from now on. For who holds the lock of writers and found the table [current](Self::check).
    pub(super) fn set_building(&self) {
        self.0.store(BUILDING, Ordering::Release);
    }

    /// Lets rows change again, unless the table was replaced.
    pub(super) fn end_building(&self) {
        let _ = self.0.compare_exchange(BUILDING, CURRENT, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Sends whoever knows the table to the one that has its place.
    pub(super) fn set_replaced(&self) {
        self.0.store(REPLACED, Ordering::Release);
    }
}
