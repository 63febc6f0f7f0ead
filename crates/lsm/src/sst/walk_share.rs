//! Which part of a walk's entries is in a table, for tables that read ahead.

use std::fmt;

/// Knows it; asked when there is something to read.
pub(crate) trait WalkShare: fmt::Debug + Send + Sync {
    /// The part of all entries in the table's range of keys that the table is likely to have: above 0, at most 1.
    fn get(&self) -> f64;
}
