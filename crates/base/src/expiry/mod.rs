//! Rows that expire: what an engine asks about them, and what it may believe about time.
//!
//! An engine with an [`ExpiryPolicy`] hides rows from reads once they are expired and removes them when that is cheap. Both follow from one number a group of
//! rows, the *bound*: rows whose stamp is at or before it are expired. The bound of a moment never changes afterwards, so that a reader at an old snapshot sees
//! the same rows for as long as it reads, and never falls as time goes on, so that no row comes back.

mod duration;
mod record;
mod room;
mod rows;
#[cfg(test)]
mod tests;
mod trusted_clock;

pub use duration::TtlDuration;
pub use record::{MAX_RECORD_BYTES, Record, Saved};
pub use room::{ExpiryRoom, Known, PolicyHome, RoomSettings};
pub use rows::{ExpiringTable, ROW_STAMP_LEN, RowExpiry, TablePolicy};
pub use trusted_clock::{ClockJump, HeldTime, TrustedClock};

use crate::Result;
use crate::sync::{Arc, Weak};
use std::fmt;

/// When a row began to live, and among whose rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Rows of one group live equally long: an index, a table, or 0 for all rows of a family.
    pub group: u32,
    /// Unix seconds.
    pub seconds: u64,
}

/// Says which rows are expired.
///
/// Thread safety: every method may be called from any thread, by reads as well: none of them waits.
pub trait ExpiryPolicy: Send + Sync + fmt::Debug {
    /// Names the policy and how stamps lie in rows. What was collected of stamps under another name is not believed.
    fn name(&self) -> &str;

    /// The stamp of a row; `None` for one that never expires. Always the same for the same row.
    fn stamp(&self, key: &[u8], value: &[u8]) -> Option<Stamp>;

    /// The latest stamp of `group` that is expired at `now`, in Unix seconds; `None` if none is.
    ///
    /// Never less for a later `now`, and always the same for one `now` that is past.
    fn bound(&self, group: u32, now: u64) -> Option<u64>;

    /// When a row with this stamp expires, as things stand, in Unix seconds; `None` if never.
    fn expires_at(&self, stamp: Stamp) -> Option<u64>;

    /// Whether a row with this stamp is expired at `now`.
    fn is_expired(&self, stamp: Stamp, now: u64) -> bool {
        self.bound(stamp.group, now).is_some_and(|bound| stamp.seconds <= bound)
    }

    /// Whether a row is expired at `now`.
    fn is_row_expired(&self, key: &[u8], value: &[u8], now: u64) -> bool {
        self.stamp(key, value).is_some_and(|stamp| self.is_expired(stamp, now))
    }

    /// Tells the policy that rows of its family are in an engine that was just opened, and what it had [saved](ExpiryHome::save) there; empty if nothing. It then takes
    /// back what it said before about which rows are expired, or saves what it says now, so that none of them comes back.
    ///
    /// # Errors
    ///
    /// `Busy` if the rows of another open family are its own already, `Corruption` for a state that is none, and those of saving.
    fn attach(&self, home: Weak<dyn ExpiryHome>, saved: &[u8]) -> Result<()>;

    /// The policy by which rows expire that somebody else writes, who has [saved](ExpiryHome::save) this, or nothing: for an opening for reading only. Whatever comes after, `self` being attached or
    /// changed or not, it says what it says now. It has the same name. A policy that never changes is its own.
    ///
    /// # Errors
    ///
    /// `Corruption` for a state that is none, `NotSupported` for one of a newer version.
    fn view(self: Arc<Self>, saved: &[u8]) -> Result<Arc<dyn ExpiryPolicy>>;

    /// The side of a policy by which rows of tables expire, each table's after a time of its own; `None` of another one.
    fn tables(&self) -> Option<&dyn TablePolicy> {
        None
    }
}

/// Where the family of an [`ExpiryPolicy`] is.
pub trait ExpiryHome: Send + Sync + fmt::Debug {
    /// The latest time that is trusted, in Unix seconds.
    fn trusted_now(&self) -> u64;

    /// Calls `change` with the time, in Unix seconds, which stands still meanwhile: nobody reads as of a later second before the call returns. So a change that counts
    /// from the next second on changes nothing that anybody saw.
    ///
    /// # Errors
    ///
    /// `Busy` while the database is being opened or the clock is not trusted, and those of `change`.
    fn while_time_stands(&self, change: &mut dyn FnMut(u64) -> Result<()>) -> Result<()>;

    /// Keeps what the policy must know when the family is opened the next time. Durable when the call returns; what is saved while the database is being opened is so once that has succeeded, and
    /// forgotten if it has not: nobody read by it.
    ///
    /// # Errors
    ///
    /// Those of writing a file, and `Aborted` once the database is closed; what was saved before stays, or is saved again as soon as that can be done.
    fn save(&self, state: &[u8]) -> Result<()>;
}
