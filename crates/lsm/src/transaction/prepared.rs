//! Transactions that are prepared, in the hands of their database.

use crate::batch::WriteBatch;
use crate::db::{ChargedTo, Db, MemoryCharge};
use siltstone_base::sync::{Mutex, Rank};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// Held alone.
const RANK: Rank = Rank(330);

/// What an entry takes beside its name and its changes, about.
const ENTRY_BYTES: usize = 256;

/// Bytes of the longest name.
const MAX_NAME_LEN: usize = 64;

/// Transactions with names, each from the moment at which it is being prepared until it is decided.
#[derive(Debug)]
pub(super) struct PreparedMap {
    by_name: Mutex<BTreeMap<Vec<u8>, Option<Entry>>>,
}

/// A prepared transaction.
#[derive(Debug)]
pub(super) struct Entry {
    /// Whose locks are its locks.
    pub(super) owner: u64,
    /// Its changes.
    pub(super) batch: WriteBatch,
    /// What it takes in memory.
    _charge: MemoryCharge,
}

impl Entry {
    /// Charges what the transaction takes while it waits for a decision.
    pub(super) fn new(db: &Db, owner: u64, name: &[u8], batch: WriteBatch) -> Self {
        let mut charge = db.charge(ChargedTo::Prepared);
        charge.set(batch.memory_bytes() + name.len() + ENTRY_BYTES);
        Self { owner, batch, _charge: charge }
    }
}

impl PreparedMap {
    pub(super) fn new() -> Self {
        Self { by_name: Mutex::new(RANK, BTreeMap::new()) }
    }

    /// Takes a name that nobody has.
    pub(super) fn reserve(&self, name: &[u8]) -> Result<()> {
        if name.is_empty() || name.len() > MAX_NAME_LEN {
            return Err(Error::invalid_argument("the name of a prepared transaction has 1 to 64 bytes"));
        }
        let mut by_name = self.by_name.lock();
        if by_name.contains_key(name) {
            return Err(Error::new(ErrorKind::AlreadyExists, "a transaction is prepared under this name"));
        }
        by_name.insert(name.to_vec(), None);
        Ok(())
    }

    /// Lets anyone decide about the transaction of a name.
    pub(super) fn put(&self, name: &[u8], entry: Entry) {
        self.by_name.lock().insert(name.to_vec(), Some(entry));
    }

    /// Takes a transaction, so that one caller decides about it. Its name stays taken.
    pub(super) fn take(&self, name: &[u8]) -> Result<Entry> {
        let missing = || Error::new(ErrorKind::NotFound, "no transaction is prepared under this name");
        self.by_name.lock().get_mut(name).and_then(Option::take).ok_or_else(missing)
    }

    /// Frees a name.
    pub(super) fn free(&self, name: &[u8]) {
        self.by_name.lock().remove(name);
    }

    /// The names of those that wait for a decision, sorted.
    pub(super) fn names(&self) -> Vec<Vec<u8>> {
        let by_name = self.by_name.lock();
        by_name.iter().filter(|(_, entry)| entry.is_some()).map(|(name, _)| name.clone()).collect()
    }
}
