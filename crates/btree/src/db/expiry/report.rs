//! What there is to tell about rows that expire.

use super::super::Db;
use super::RowExpiry;
use siltstone_base::Result;
use siltstone_base::expiry::{ClockJump, TrustedClock};
use siltstone_base::sync::atomic::{AtomicU64, Ordering};

/// What there is to tell about a database whose rows expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpiryReport {
    /// The time by which rows are expired, in Unix seconds.
    pub unix_seconds: u64,
    /// Rows that reads met and did not see, since the database was opened.
    pub rows_hidden: u64,
    /// Expired rows that were removed since then.
    pub rows_removed: u64,
    /// Walks through the whole tree that ended since then.
    pub walks: u64,
    /// Expired rows that the last of them left, because transactions had their locks.
    pub rows_left: u64,
    /// Leaves that it could not read: their rows stay. An event names each.
    pub leaves_damaged: u64,
    /// Nothing is removed because the clock went forward further than is trusted: see [`Db::confirm_clock`].
    pub distrusted: Option<ClockJump>,
    /// By how many seconds the time is behind the wall clock, which went forward faster than the monotonic clock: see [`Db::confirm_clock`].
    pub seconds_behind: u64,
}

impl RowExpiry {
    fn report(&self) -> ExpiryReport {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ExpiryReport {
            unix_seconds: self.now(),
            rows_hidden: count(&self.counts.hidden),
            rows_removed: count(&self.counts.removed),
            walks: count(&self.counts.walks),
            rows_left: count(&self.counts.left),
            leaves_damaged: count(&self.counts.damaged),
            distrusted: self.room.distrusted(),
            seconds_behind: self.room.clock().map_or(0, TrustedClock::behind),
        }
    }
}

impl Db {
    /// What there is to tell about rows that expire; `None` without the option [`expiry`](crate::DbOptions::expiry).
    pub fn expiry_report(&self) -> Option<ExpiryReport> {
        self.0.default_tree.expiry().map(|expiry| expiry.report())
    }

    /// Says that the wall clock is right, though it went forward far before the database was opened, or while it is open: rows expire by it from now on, and are removed.
    /// See [`max_clock_jump_seconds`](crate::DbOptions::max_clock_jump_seconds).
    ///
    /// # Errors
    ///
    /// `Aborted` after closing, and those of writing a file.
    pub fn confirm_clock(&self) -> Result<()> {
        self.0.check_open()?;
        self.0.default_tree.expiry().map_or(Ok(()), |expiry| expiry.confirm_clock())
    }
}
