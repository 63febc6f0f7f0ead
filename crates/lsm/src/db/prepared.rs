//! Transactions that a WAL prepared: their entries count once a later record commits them.
//!
//! RocksDB's form, with entries written at commit: `BeginPrepare, entries, EndPrepare(name)`, later `Commit(name)` or `Rollback(name)`. The
//! entries take no sequence numbers where they are prepared; at the commit they take those behind the entries of the committing batch.

use crate::batch::{BatchEntry, BatchReader, Marker, Record, WriteBatch};
use crate::key::{ColumnFamilyId, ValueType};
use siltstone_base::{Error, Result};
use std::collections::BTreeMap;

/// The names and the entries of transactions that are prepared.
pub(crate) type PreparedBatches = Vec<(Vec<u8>, WriteBatch)>;

/// An entry with bytes of its own.
#[derive(Debug, Clone)]
pub(crate) struct PreparedEntry {
    family: ColumnFamilyId,
    kind: ValueType,
    key: Box<[u8]>,
    value: Box<[u8]>,
}

impl PreparedEntry {
    pub(crate) fn new(entry: &BatchEntry<'_>) -> Self {
        let (key, value) = (Box::from(entry.key), Box::from(entry.value));
        Self { family: entry.column_family, kind: entry.kind, key, value }
    }

    pub(crate) fn as_entry(&self) -> BatchEntry<'_> {
        BatchEntry { column_family: self.family, kind: self.kind, key: &self.key, value: &self.value }
    }
}

/// One prepared transaction.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The WAL that it is in.
    pub(crate) log_number: u64,
    /// Its entries, in order.
    pub(crate) entries: Vec<PreparedEntry>,
}

/// The transactions that are prepared and neither committed nor rolled back, by name.
#[derive(Debug, Default)]
pub(crate) struct PreparedTransactions {
    by_name: BTreeMap<Vec<u8>, Prepared>,
}

impl PreparedTransactions {
    /// A transaction is prepared.
    pub(crate) fn prepare(&mut self, name: &[u8], log_number: u64, entries: Vec<PreparedEntry>) {
        self.by_name.insert(name.to_vec(), Prepared { log_number, entries });
    }

    /// The transaction of this name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Prepared> {
        self.by_name.get(name)
    }

    /// A transaction is committed or rolled back. `None` if no WAL that is left prepared it: then its entries are in tables.
    pub(crate) fn take(&mut self, name: &[u8]) -> Option<Prepared> {
        self.by_name.remove(name)
    }

    /// How many there are, and the oldest WAL that has one.
    pub(crate) fn pending(&self) -> Option<(usize, u64)> {
        let oldest = self.by_name.values().map(|prepared| prepared.log_number).min()?;
        Some((self.by_name.len(), oldest))
    }

    /// The entries of all, by name.
    pub(crate) fn into_batches(self) -> Result<PreparedBatches> {
        let batch_of = |(name, prepared): (Vec<u8>, Prepared)| {
            let mut batch = WriteBatch::new();
            prepared.entries.iter().try_for_each(|entry| batch.add_entry(&entry.as_entry()))?;
            Ok((name, batch))
        };
        self.by_name.into_iter().map(batch_of).collect()
    }
}

/// Checks that every prepared section of a batch has its begin and its end, and that this engine knows how its transactions are committed.
pub(crate) fn check_markers(mut batch: BatchReader<'_>) -> Result<()> {
    let mut inside = false;
    while let Some(record) = batch.next_record()? {
        let Record::Marker(marker) = record else { continue };
        match marker {
            Marker::Noop => {}
            Marker::BeginPrepare if !inside => inside = true,
            Marker::EndPrepare(_) if inside => inside = false,
            Marker::Commit(_) | Marker::Rollback(_) if !inside => {}
            Marker::BeginPersistedPrepare => {
                return Err(Error::not_supported("a transaction of the write-prepared policy in a WAL"));
            }
            Marker::BeginUnprepare => {
                return Err(Error::not_supported("a transaction of the write-unprepared policy in a WAL"));
            }
            Marker::CommitWithTimestamp { .. } => {
                return Err(Error::not_supported("a transaction committed with a timestamp in a WAL"));
            }
            _ => return Err(Error::corrupt("markers of a transaction out of order in a write batch")),
        }
    }
    if inside { Err(Error::corrupt("a prepared section of a write batch has no end")) } else { Ok(()) }
}
