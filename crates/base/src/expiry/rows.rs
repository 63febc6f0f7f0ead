//! Rows of tables that expire, and what tells their policy which tables there are.

use super::TtlDuration;
use crate::{Error, Result};

/// Bytes of a stamp, big-endian, before the value of a row and of each of its index entries.
pub const ROW_STAMP_LEN: usize = 8;

/// No stamp is later: a clock tells no more.
const LATEST: u64 = (1 << 40) - 1;

/// When the rows of a table expire, and with them their index entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowExpiry {
    duration: TtlDuration,
    column: Option<u32>,
}

impl RowExpiry {
    /// So long after they were written last.
    pub const fn after(duration: TtlDuration) -> Self {
        Self { duration, column: None }
    }

    /// So long after the time in a column of theirs: 8 bytes from byte `at` of the value on, big-endian, Unix seconds. A row that is too short for it is refused.
    #[must_use]
    pub const fn from_column(mut self, at: u32) -> Self {
        self.column = Some(at);
        self
    }

    /// The same with another duration.
    #[must_use]
    pub const fn with_duration(mut self, duration: TtlDuration) -> Self {
        self.duration = duration;
        self
    }

    /// How long rows live.
    pub const fn duration(&self) -> TtlDuration {
        self.duration
    }

    /// Where the column begins; `None` if the time of writing counts.
    pub const fn column(&self) -> Option<u32> {
        self.column
    }

    /// The stamp of a row that is written at `now`, as it is stored.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a row that is too short for the column, or has in it what is no time in Unix seconds: more than 2^40, as milliseconds are, or negative numbers. It would never expire.
    pub fn stamp(&self, value: &[u8], now: u64) -> Result<[u8; ROW_STAMP_LEN]> {
        let Some(at) = self.column else { return Ok(now.to_be_bytes()) };
        let stamp = value.get(at as usize..).and_then(|rest| rest.first_chunk()).copied().ok_or_else(|| {
            Error::invalid_argument(format!("ttl: a row is too short for the column at {at} that says when it expires"))
        })?;
        match u64::from_be_bytes(stamp) {
            ..=LATEST => Ok(stamp),
            other => Err(Error::invalid_argument(format!(
                "ttl: the column at {at} that says when a row expires has {other}, which is no time in seconds since 1970"
            ))),
        }
    }
}

/// A table whose rows expire, as the policy of its family knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiringTable {
    /// The indexes of the table, that of its rows first: what keys begin with, 4 bytes big-endian. Never those of another table, also later.
    pub indexes: Vec<u32>,
    /// How long its rows live.
    pub duration: TtlDuration,
    /// Rows of this stamp and of earlier ones are expired whatever the duration is: they were when it was changed last. `None`: it never was.
    pub expired_until: Option<u64>,
}

/// The side of a policy that engines of tables tell which tables there are.
pub trait TablePolicy: Send + Sync {
    /// All tables of a database that was just opened, of which nobody has read anything. What others were is forgotten.
    ///
    /// # Errors
    ///
    /// Those of saving a file.
    fn resume(&self, tables: &[ExpiringTable]) -> Result<()>;

    /// A table is new, has new indexes, or another duration, which counts from the next second on and brings no row back. Before the first row is written that has a stamp.
    ///
    /// # Errors
    ///
    /// `LimitExceeded` for one change of durations too many, `Busy` for a change while the clock is not trusted, and those of saving a file; nothing has changed then.
    fn adopt(&self, table: &ExpiringTable) -> Result<()>;

    /// The latest stamp of the rows of a table that are expired by what was in force before `table.duration` is, and stay so; `None` if none are, or the policy does not know the table.
    fn expired_until(&self, table: &ExpiringTable) -> Option<u64>;
}
