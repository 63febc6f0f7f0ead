//! What both kinds of transactions have: a moment that is seen, and changes over it.

use super::WriteBatchWithIndex;
use super::options::TransactionDbOptions;
use crate::db::{ColumnFamily, Db, Iter, PinnedValue};
use crate::options::ReadOptions;
use crate::snapshot::Snapshot;
use siltstone_base::engine::Isolation;
use siltstone_base::{Error, ErrorKind, Result};

/// What a record of a batch takes beside key and value, at most.
const RECORD_BYTES: usize = 16;

/// A change of one key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change<'a> {
    Put(&'a [u8]),
    Merge(&'a [u8]),
    Delete,
    SingleDelete,
}

impl Change<'_> {
    fn len(self) -> usize {
        match self {
            Self::Put(value) | Self::Merge(value) => value.len(),
            Self::Delete | Self::SingleDelete => 0,
        }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) changes: WriteBatchWithIndex,
    /// What is seen, on the level `Snapshot`.
    pub(super) snapshot: Option<Snapshot>,
}

impl Work {
    pub(super) fn new(db: &Db, isolation: Isolation) -> Self {
        let snapshot = (isolation == Isolation::Snapshot).then(|| db.snapshot());
        Self { changes: WriteBatchWithIndex::new(db), snapshot }
    }

    fn read_options(&self) -> ReadOptions {
        ReadOptions::default().snapshot(self.snapshot.clone())
    }

    pub(super) fn get(&self, family: &ColumnFamily, key: &[u8]) -> Result<Option<PinnedValue>> {
        self.changes.get_cf(family, key, &self.read_options())
    }

    /// The newest value, with the transaction's own changes.
    pub(super) fn get_newest(&self, family: &ColumnFamily, key: &[u8]) -> Result<Option<PinnedValue>> {
        self.changes.get_cf(family, key, &ReadOptions::default())
    }

    pub(super) fn iter(&self, family: &ColumnFamily, options: &ReadOptions) -> Result<Iter> {
        self.changes.iter_cf(family, &options.clone().snapshot(self.snapshot.clone()))
    }

    pub(super) fn apply(&mut self, family: &ColumnFamily, key: &[u8], change: Change<'_>) -> Result<()> {
        match change {
            Change::Put(value) => self.changes.put_cf(family, key, value),
            Change::Merge(operand) => self.changes.merge_cf(family, key, operand),
            Change::Delete => self.changes.delete_cf(family, key),
            Change::SingleDelete => self.changes.single_delete_cf(family, key),
        }
    }

    /// Whether a change is more than a transaction may have.
    pub(super) fn is_beyond(&self, key: &[u8], change: Change<'_>, options: &TransactionDbOptions) -> bool {
        self.changes.size_bytes() + key.len() + change.len() + RECORD_BYTES > options.max_transaction_bytes
    }
}

#[cold]
pub(super) fn too_large(options: &TransactionDbOptions) -> Error {
    let limit = options.max_transaction_bytes;
    let message = format!("max_transaction_bytes: the transaction would have more than {limit} bytes of changes");
    Error::new(ErrorKind::LimitExceeded, message)
}

/// Refuses families whose keys may be equal though their bytes differ: locks and watched keys know bytes.
pub(super) fn check_order(family: &ColumnFamily) -> Result<()> {
    if family.0.comparator.user().equal_may_differ() {
        return Err(Error::not_supported(format!(
            "transactions in column family {}, whose comparator takes different bytes for equal",
            family.name()
        )));
    }
    Ok(())
}
