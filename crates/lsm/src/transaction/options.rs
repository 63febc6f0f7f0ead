//! Options of databases with transactions.

use crate::options::{DbOptions, WriteOptions};
use siltstone_base::{Error, Result};
use std::time::Duration;

/// The smallest limit of a transaction, in bytes.
const MIN_TRANSACTION_BYTES: usize = 1024;

siltstone_base::define_options! {
    /// How transactions are run. They are not in the OPTIONS file: they hold for one opening.
    TransactionDbOptions {
        /// How long a lock of a row is waited for, unless the transaction says otherwise. Optimistic transactions wait for none.
        lock_timeout: Duration = Duration::from_secs(1),
        /// Bytes that all locks together may take, and those that one optimistic transaction may take for the keys that it changed or read for update. A lock or a key beyond
        /// fails with `LimitExceeded`.
        max_lock_bytes: usize = 64 << 20,
        /// Bytes of changes, in the form in which the WAL has them, that one transaction may have in memory: 1 KiB to
        /// [`max_wal_record_bytes`](DbOptions::max_wal_record_bytes). It takes about twice as much memory. What becomes of one that has more, the next two options say. A single change beyond
        /// fails with `LimitExceeded`, and the transaction stays as it was.
        max_transaction_bytes: usize = 32 << 20,
        /// Lets a transaction that reaches [`max_transaction_bytes`](Self::max_transaction_bytes) go on, with what it has in temporary files in the directory of the database. It stays all or
        /// nothing; it is committed as tables that are taken in, which flushes what its families have in memory, makes everything durable, and is not in the WAL: whoever follows by
        /// [`updates_since`](crate::Db::updates_since) sees a gap. It cannot be prepared. Without, a change beyond fails with `LimitExceeded`. Locks and watched keys stay in memory: their limit is
        /// [`max_lock_bytes`](Self::max_lock_bytes).
        spill: bool = true,
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
        Ok(())
    }
}
