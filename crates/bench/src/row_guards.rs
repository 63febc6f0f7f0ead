//! Locks of rows for clients that read rows and then change them: what transactions would hold. The lock manager is that of the engines, the same for all of them.

use siltstone_base::clock::SystemClock;
use siltstone_base::engine::TableId;
use siltstone_base::executor::ThreadExecutor;
use siltstone_base::row_locks::{LockMode, RowLocks};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};

/// Memory of all locks.
const LOCK_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub(crate) struct RowGuards {
    locks: RowLocks,
    /// Parks who waits.
    executor: ThreadExecutor,
}

/// The rows that a client has locked; dropping it gives all of them back.
#[derive(Debug)]
pub(crate) struct Guarded<'a> {
    guards: &'a RowGuards,
    owner: u64,
}

impl RowGuards {
    pub(crate) fn new() -> Result<Self> {
        let executor = ThreadExecutor::new(1, Arc::new(SystemClock::new()))
            .map_err(|error| Error::new(ErrorKind::Io, "start a thread").with_source(error))?;
        Ok(Self { locks: RowLocks::new(LOCK_BYTES), executor })
    }

    /// Locks rows of tables for client `owner`, who holds none, in the order of tables and of their numbers, so that nobody waits in a circle.
    pub(crate) fn lock(&self, owner: u64, rows: &[(TableId, u32)]) -> Result<Guarded<'_>> {
        let guarded = Guarded { guards: self, owner };
        let mut order = rows.to_vec();
        order.sort_unstable();
        order.dedup();
        for (table, row) in order {
            self.locks.lock(&self.executor, owner, table.0, &row.to_be_bytes(), LockMode::Exclusive, None)?;
        }
        Ok(guarded)
    }
}

impl Drop for Guarded<'_> {
    fn drop(&mut self) {
        self.guards.locks.release_all(self.owner);
    }
}
