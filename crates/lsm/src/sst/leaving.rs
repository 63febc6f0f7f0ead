//! Blocks of tables that went: they leave the block cache a few at a time, whenever another block comes.
//!
//! Who drops a table last may be a user's thread, and a table may have thousands of cached blocks. So their names are noted, which takes as long as to look at the table's slots, and every block that comes into the cache has a few of them
//! taken out: they give way before a block that somebody may ask for does. A cache that nothing comes into needs no room.

use siltstone_base::cache::CacheKey;
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::sync::{Mutex, Rank};

/// Taken under any lock under which a table may be dropped, and nothing is taken under it.
const RANK: Rank = Rank(947);

/// Blocks that leave for one that comes.
const AT_ONCE: usize = 8;

/// Blocks that nobody will ask for any more.
#[derive(Debug)]
pub(super) struct Leaving {
    /// Whether there are any, for who would take the lock.
    any: AtomicBool,
    tables: Mutex<Vec<(u64, Vec<u64>)>>,
}

impl Leaving {
    pub(super) fn new() -> Self {
        Self { any: AtomicBool::new(false), tables: Mutex::new(RANK, Vec::new()) }
    }

    /// Notes the blocks of `file` at `offsets`.
    pub(super) fn add(&self, file: u64, offsets: Vec<u64>) {
        if !offsets.is_empty() {
            self.tables.lock().push((file, offsets));
            self.any.store(true, Ordering::Release);
        }
    }

    /// The next few.
    #[inline]
    pub(super) fn take_some(&self) -> [Option<CacheKey>; AT_ONCE] {
        match self.any.load(Ordering::Acquire) {
            true => self.take_noted(),
            false => [None; AT_ONCE],
        }
    }

    #[cold]
    fn take_noted(&self) -> [Option<CacheKey>; AT_ONCE] {
        let mut tables = self.tables.lock();
        let taken = std::array::from_fn(|_| {
            let (file, offsets) = tables.last_mut()?;
            let key = offsets.pop().map(|offset| CacheKey { file: *file, offset });
            if offsets.is_empty() {
                tables.pop();
            }
            key
        });
        self.any.store(!tables.is_empty(), Ordering::Release);
        taken
    }
}
