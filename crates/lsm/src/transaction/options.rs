//! Options of databases with transactions.

use crate::options::{DbOptions, WriteOptions};
use siltstone_base::{Error, Result};
use std::time::Duration;

/// The smallest limit of a transaction, in bytes.
const MIN_TRANSACTION_BYTES: usize = 1024;

/// Whether a transaction goes on, with files, once it is too large for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Spill {
    /// No transaction does.
    Never,
    /// Every one does, unless somebody follows what is written by its WALs and would miss it: where WALs are archived ([`wal_ttl_seconds`](DbOptions::wal_ttl_seconds),
    /// [`wal_size_limit_mb`](DbOptions::wal_size_limit_mb)), or [`updates_since`](crate::Db::updates_since) was called since the database was opened. One that has spilled by then stays what it is.
    #[default]
    UnlessFollowed,
    /// Every one does. Who follows sees a gap, and has to begin anew from a copy.
    Always,
}

siltstone_base::define_options! {
    /// How transactions are run. They are not in the OPTIONS file: they hold for one opening.
    TransactionDbOptions {
        /// How long a lock of a row is waited for, unless the transaction says otherwise. Optimistic transactions wait for none.
        lock_timeout: Duration = Duration::from_secs(1),
        /// Bytes that all locks together may take, and those that one optimistic transaction may take for the keys that it changed or read for update. A lock or a key beyond
        /// fails with `LimitExceeded`. Locks of transactions that were prepared before the database was opened count for neither this limit nor the next.
        max_lock_bytes: usize = 64 << 20,
        /// Bytes that the locks of one transaction may take, so that the others have something left: 1 KiB to [`max_lock_bytes`](Self::max_lock_bytes). 0: three quarters of that. A lock beyond fails with
        /// `LimitExceeded`.
        max_transaction_lock_bytes: usize = 0,
        /// Bytes of changes, in the form in which the WAL has them, that one transaction may have in memory: 1 KiB to
        /// [`max_wal_record_bytes`](DbOptions::max_wal_record_bytes). It takes about twice as much memory. What becomes of one that has more, the next two options say. A single change beyond
        /// fails with `LimitExceeded`, and the transaction stays as it was.
        max_transaction_bytes: usize = 32 << 20,
        /// Lets a transaction that reaches [`max_transaction_bytes`](Self::max_transaction_bytes) go on, with what it has in temporary files in the directory of the database. It stays all or
        /// nothing; it is committed as tables that are taken in, which flushes what its families have in memory, makes everything durable, and is not in the WAL: whoever follows by
        /// [`updates_since`](crate::Db::updates_since) sees a gap, for which reason it depends on that by default. It cannot be prepared. Without, a change beyond fails with `LimitExceeded`. Operands
        /// that the merge operator cannot join become a put of what the transaction reads, which hides what writers past the locks do meanwhile. Locks and watched keys stay in memory: their limits
        /// are [`max_lock_bytes`](Self::max_lock_bytes) and [`max_transaction_lock_bytes`](Self::max_transaction_lock_bytes).
        spill: Spill = Spill::UnlessFollowed,
        /// Lets a transaction that reaches [`max_transaction_bytes`](Self::max_transaction_bytes) commit what it has instead, and go on with its locks: it is then no
        /// longer all or nothing. Its savepoints are gone by that, and on the level `Snapshot` it sees a new moment from then on. Optimistic transactions never do.
        commit_in_the_middle: bool = false,
        /// How transactions are committed, and how writes outside of transactions are made. Preparing always syncs the WAL.
        write_options: WriteOptions = WriteOptions::default(),
    }
}

impl TransactionDbOptions {
    /// Options for a database that may use `bytes` of memory in all, as [`DbOptions::for_budget`] says: a transaction may have a 64th of it in changes, 32 MiB at most, and all locks a 32nd, 64 MiB
    /// at most. What transactions hold is taken from the block cache.
    pub fn for_budget(bytes: usize) -> Self {
        let largest = Self::default();
        Self::default()
            .max_transaction_bytes((bytes / 64).clamp(64 << 10, largest.max_transaction_bytes))
            .max_lock_bytes((bytes / 32).clamp(128 << 10, largest.max_lock_bytes))
    }

    /// Checks every option against its bounds.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names the option.
    pub fn validate(&self, database: &DbOptions) -> Result<()> {
        let limits = MIN_TRANSACTION_BYTES..=database.max_wal_record_bytes;
        if !limits.contains(&self.max_transaction_bytes) {
            return Err(Error::invalid_argument(format!(
                "max_transaction_bytes: {} is not within {} and {}",
                self.max_transaction_bytes,
                limits.start(),
                limits.end()
            )));
        }
        if self.max_lock_bytes < MIN_TRANSACTION_BYTES {
            return Err(Error::invalid_argument(format!(
                "max_lock_bytes: {} is less than {MIN_TRANSACTION_BYTES}",
                self.max_lock_bytes
            )));
        }
        let limits = MIN_TRANSACTION_BYTES..=self.max_lock_bytes;
        if self.max_transaction_lock_bytes > 0 && !limits.contains(&self.max_transaction_lock_bytes) {
            return Err(Error::invalid_argument(format!(
                "max_transaction_lock_bytes: {} is not within {} and {}",
                self.max_transaction_lock_bytes,
                limits.start(),
                limits.end()
            )));
        }
        Ok(())
    }

    /// Bytes that the locks of one transaction may take.
    pub(super) fn lock_bytes_of_one(&self) -> usize {
        match self.max_transaction_lock_bytes {
            0 => self.max_lock_bytes / 4 * 3,
            bytes => bytes,
        }
    }
}
