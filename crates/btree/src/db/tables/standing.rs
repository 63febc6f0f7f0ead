//! Whether the rows of a table may be changed, whether who knows the table knows all its indexes, and which rows change while one is added.
//!
//! Writers look at it with the lock of writers, before they change anything; it is changed with that lock, but for the end of a building that failed.

use siltstone_base::sync::atomic::{AtomicU8, Ordering};
use siltstone_base::sync::{Mutex, Rank};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeSet;

/// Its rows may be changed.
const CURRENT: u8 = 0;
/// An index is added to it: rows that change are noted.
const NOTING: u8 = 1;
/// The index is about to be there: nobody begins to change rows.
const HELD: u8 = 2;
/// The table has other indexes since.
const REPLACED: u8 = 3;

/// Taken under the lock of writers.
const RANK: Rank = Rank(152);

/// The most bytes of primary keys that are noted.
const MOST_BYTES: usize = 128 << 20;

/// What a key takes beside its bytes, about.
const KEY_BYTES: usize = 48;

/// The standing of a table. Any thread may use it.
#[derive(Debug)]
pub(in super::super) struct Standing {
    standing: AtomicU8,
    changed: Mutex<Changed>,
}

/// Primary keys of rows that changed since somebody looked.
#[derive(Debug, Default)]
struct Changed {
    keys: BTreeSet<Vec<u8>>,
    bytes: usize,
    /// Whether there were more than are noted.
    is_full: bool,
}

impl Default for Standing {
    fn default() -> Self {
        Self { standing: AtomicU8::new(CURRENT), changed: Mutex::new(RANK, Changed::default()) }
    }
}

impl Standing {
    fn is(&self, standing: u8) -> bool {
        self.standing.load(Ordering::Acquire) == standing
    }

    /// Refuses to change what the table is with `Busy` while an index is added. For who holds the lock of writers.
    pub(super) fn check(&self) -> Result<()> {
        if self.is(NOTING) || self.is(HELD) { Err(busy()) } else { Ok(()) }
    }

    /// Whether the table has other indexes by now: it must be looked up again.
    #[inline]
    pub(in super::super) fn is_replaced(&self) -> bool {
        self.is(REPLACED)
    }

    /// Whether only those go on to change rows who did it before and have not ended.
    #[inline]
    pub(in super::super) fn is_held(&self) -> bool {
        self.is(HELD)
    }

    /// Takes note of a row that is about to change, if somebody must know it. For who holds the lock of writers until it has changed.
    #[inline]
    pub(in super::super) fn note(&self, key: &[u8]) {
        if !self.is(CURRENT) {
            self.changed.lock().add(key, MOST_BYTES);
        }
    }

    /// Whether a row changed since somebody looked.
    pub(super) fn is_noted(&self, key: &[u8]) -> bool {
        self.changed.lock().keys.contains(key)
    }

    /// Takes the rows away that were noted. `LimitExceeded` if they were too many.
    pub(super) fn take(&self) -> Result<BTreeSet<Vec<u8>>> {
        self.check_noted()?;
        Ok(std::mem::take(&mut *self.changed.lock()).keys)
    }

    /// Refuses to go on if more rows changed than were noted.
    pub(super) fn check_noted(&self) -> Result<()> {
        match self.changed.lock().is_full {
            true => Err(Error::new(ErrorKind::LimitExceeded, "too many rows change while the index is added")),
            false => Ok(()),
        }
    }

    /// Has rows noted that change from now on. For who holds the lock of writers and [checked](Self::check) the table.
    pub(super) fn set_noting(&self) {
        *self.changed.lock() = Changed::default();
        self.standing.store(NOTING, Ordering::Release);
    }

    /// Lets nobody begin to change rows from now on. For who holds the lock of writers.
    pub(super) fn set_held(&self) {
        self.standing.store(HELD, Ordering::Release);
    }

    /// Lets rows change again, unless the table was replaced. For who [had them noted](Self::set_noting).
    pub(super) fn end_building(&self) {
        // First: afterwards somebody else may add an index.
        *self.changed.lock() = Changed::default();
        let standing = self.standing.load(Ordering::Acquire);
        if standing == NOTING || standing == HELD {
            let _ = self.standing.compare_exchange(standing, CURRENT, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Sends whoever knows the table to the one that has its place.
    pub(super) fn set_replaced(&self) {
        self.standing.store(REPLACED, Ordering::Release);
    }
}

impl Changed {
    #[cold]
    fn add(&mut self, key: &[u8], most_bytes: usize) {
        if self.is_full || self.keys.contains(key) {
            return;
        }
        self.bytes += key.len() + KEY_BYTES;
        self.is_full = self.bytes > most_bytes;
        match self.is_full {
            true => self.keys.clear(),
            false => drop(self.keys.insert(key.to_vec())),
        }
    }
}

/// The error of who would have to wait too long for an index.
#[cold]
pub(super) fn busy() -> Error {
    Error::new(ErrorKind::Busy, "an index is being added to the table")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_noted_once_while_an_index_is_added_until_they_are_too_many() {
        let standing = Standing::default();
        standing.note(b"a");
        assert!(standing.take().unwrap().is_empty(), "nobody asks");
        standing.set_noting();
        assert_eq!(standing.check().unwrap_err().kind(), ErrorKind::Busy);
        for key in [b"b", b"a", b"b"] {
            standing.note(key);
        }
        assert!(standing.is_noted(b"a") && !standing.is_noted(b"c"));
        assert_eq!(standing.take().unwrap().into_iter().collect::<Vec<_>>(), [b"a", b"b"]);
        standing.set_held();
        standing.note(b"c");
        assert!(standing.is_held() && standing.check().is_err() && standing.is_noted(b"c"));
        standing.changed.lock().add(b"d", 2 * KEY_BYTES);
        standing.note(b"e");
        assert_eq!(standing.take().unwrap_err().kind(), ErrorKind::LimitExceeded);
        standing.end_building();
        standing.check().unwrap();
        standing.set_noting();
        assert!(standing.take().unwrap().is_empty());
        standing.set_replaced();
        standing.end_building();
        assert!(standing.is_replaced());
    }
}
