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

/// The rows that a client locks; dropping it gives all of them back.
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

    /// Lets client `owner`, who holds no lock, lock rows one after the other.
    pub(crate) fn guard(&self, owner: u64) -> Guarded<'_> {
        Guarded { guards: self, owner }
    }
}

impl Guarded<'_> {
    /// Locks one more row, when nobody else has it any more.
    ///
    /// # Errors
    ///
    /// `Deadlock` if clients would then wait for one another in a circle.
    pub(crate) fn lock(&self, table: TableId, row: u32) -> Result<()> {
        let RowGuards { locks, executor } = self.guards;
        locks.lock(executor, self.owner, table.0, &row.to_be_bytes(), LockMode::Exclusive, None)
    }
}

impl Drop for Guarded<'_> {
    fn drop(&mut self) {
        self.guards.locks.release_all(self.owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn of_clients_that_wait_in_a_circle_one_is_told() {
        let (guards, barrier) = (RowGuards::new().unwrap(), Barrier::new(2));
        let [one, two] = [(TableId(1), 1), (TableId(2), 1)];
        let mut outcomes = std::thread::scope(|scope| {
            let clients = [(1, one, two), (2, two, one)].map(|(owner, first, second)| {
                let (guards, barrier) = (&guards, &barrier);
                scope.spawn(move || {
                    let guarded = guards.guard(owner);
                    guarded.lock(first.0, first.1).unwrap();
                    barrier.wait();
                    guarded.lock(second.0, second.1).map_err(|error| error.kind())
                })
            });
            clients.map(|client| client.join().unwrap())
        });
        outcomes.sort_unstable_by_key(Result::is_err);
        assert_eq!(outcomes, [Ok(()), Err(ErrorKind::Deadlock)]);
        // What they held is free again.
        let guarded = guards.guard(3);
        [one, two].into_iter().for_each(|(table, row)| guarded.lock(table, row).unwrap());
    }
}
