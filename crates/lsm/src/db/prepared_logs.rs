//! Which WALs have transactions that are prepared and not decided.

use siltstone_base::sync::{Mutex, Rank};
use std::collections::BTreeMap;

/// Taken under the write side, and under the versions.
const RANK: Rank = Rank(340);

/// The WAL of every transaction that is prepared and not decided, by name. Whoever writes a step of one changes it, as the leader; anybody may ask.
#[derive(Debug)]
pub(crate) struct PreparedLogs {
    by_name: Mutex<BTreeMap<Vec<u8>, u64>>,
}

impl PreparedLogs {
    pub(crate) fn new() -> Self {
        Self { by_name: Mutex::new(RANK, BTreeMap::new()) }
    }

    /// The transaction is in the WAL `number`.
    pub(crate) fn prepared(&self, name: &[u8], number: u64) {
        self.by_name.lock().insert(name.to_vec(), number);
    }

    /// The WAL that has the transaction.
    pub(crate) fn find(&self, name: &[u8]) -> Option<u64> {
        self.by_name.lock().get(name).copied()
    }

    /// The transaction is decided, and its entries, if it was committed, are in memtables.
    pub(crate) fn decided(&self, name: &[u8]) {
        self.by_name.lock().remove(name);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.by_name.lock().len()
    }

    /// The oldest WAL that has one.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.by_name.lock().values().min().copied()
    }
}
