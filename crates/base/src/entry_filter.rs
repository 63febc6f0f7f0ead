//! The user's hook on compaction and purge.

use std::fmt;

/// What becomes of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It stays as it is.
    Keep,
    /// It is removed as if it had been deleted; so its key must not be one of those that are single-deleted.
    Remove,
    /// Its value is replaced.
    Change(Vec<u8>),
}

/// Looks at the newest version of a key while the engine rewrites it, and decides.
///
/// [`filter`](Self::filter) is called for values only, not for wide-column entities and values in blob files, and only for versions that no live snapshot can see an older state of. A panic poisons the job
/// that made the call, not the process.
pub trait EntryFilter: Send + Sync + fmt::Debug {
    /// The name, for events.
    fn name(&self) -> &str;

    /// Decides about one entry that is being written to `level` (0 is the newest; the B-tree always says 0).
    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> Decision;

    /// Decides about one operand of a merge that no snapshot sees, before it is merged with others. Removing it lets the key's other operands and its
    /// value stay; changing it changes this operand. The default keeps it.
    ///
    /// What operands are merged to is shown to [`filter`](Self::filter) when it is rewritten the next time, not at once.
    fn filter_operand(&self, level: usize, key: &[u8], operand: &[u8]) -> Decision {
        let _ = (level, key, operand);
        Decision::Keep
    }

    /// The part of the keys that `key` lies in, by a number; the keys of a part lie together. Compactions end a table where the part changes, unless it is very small: so that
    /// the tables of a part that is dropped one day hold nothing else. By default all keys are one part.
    fn part(&self, key: &[u8]) -> u64 {
        let _ = key;
        0
    }
}
