//! What both kinds of transactions have: a moment that is seen, and changes over it.

use super::WriteBatchWithIndex;
use super::options::{Spill, TransactionDbOptions};
use crate::batch::WriteBatch;
use crate::db::{ChargedTo, ColumnFamily, Db, Iter, MemoryCharge, PinnedValue};
use crate::metrics::HistogramKind;
use crate::options::ReadOptions;
use crate::snapshot::Snapshot;
use siltstone_base::engine::{Isolation, Savepoint};
use siltstone_base::{Error, ErrorKind, Result};

/// What a record of a batch takes beside key and value, at most.
const RECORD_BYTES: usize = 16;

/// Memory is looked at whenever there are so many bytes more or less.
const CHARGE_STEP: usize = 16 << 10;

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
    /// What it holds in memory, as it was when it was last looked at.
    charge: MemoryCharge,
    /// What it holds beside its changes.
    other_bytes: usize,
    /// Bytes of changes and of other things at that time.
    charged_at: usize,
}

impl Work {
    pub(super) fn new(db: &Db, isolation: Isolation) -> Self {
        let snapshot = (isolation == Isolation::Snapshot).then(|| db.snapshot());
        Self {
            changes: WriteBatchWithIndex::new(db),
            snapshot,
            charge: db.charge(ChargedTo::Open),
            other_bytes: 0,
            charged_at: 0,
        }
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
        let applied = match change {
            Change::Put(value) => self.changes.put_cf(family, key, value),
            Change::Merge(operand) => self.changes.merge_cf(family, key, operand),
            Change::Delete => self.changes.delete_cf(family, key),
            Change::SingleDelete => self.changes.single_delete_cf(family, key),
        };
        self.account();
        applied
    }

    pub(super) fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let outcome = self.changes.rollback_to(savepoint);
        self.account();
        outcome
    }

    /// Says that the transaction holds so many bytes beside its changes.
    pub(super) fn set_other_bytes(&mut self, bytes: usize) {
        self.other_bytes = bytes;
        self.account();
    }

    /// Charges what is held in memory, if much has changed since that was done.
    fn account(&mut self) {
        let bytes = self.changes.in_memory_bytes() + self.other_bytes;
        if bytes / CHARGE_STEP != self.charged_at / CHARGE_STEP {
            self.charge.set(self.changes.memory_bytes() + self.other_bytes);
            self.charged_at = bytes;
        }
    }

    /// Whether a change is more than a transaction may have.
    pub(super) fn is_beyond(&self, key: &[u8], change: Change<'_>, options: &TransactionDbOptions) -> bool {
        self.changes.in_memory_bytes() + record_bytes(key, change) > options.max_transaction_bytes
    }

    /// Lets what is in memory go to disk where it leaves no room for a change, if that is to be.
    ///
    /// # Errors
    ///
    /// `LimitExceeded` if there is no room all the same; errors of I/O. The changes are then what they were.
    pub(super) fn spill_for(&mut self, key: &[u8], change: Change<'_>, options: &TransactionDbOptions) -> Result<()> {
        if !self.is_beyond(key, change, options) {
            self.changes.reserve_within(record_bytes(key, change), options.max_transaction_bytes);
            return Ok(());
        }
        let spills = match options.spill {
            Spill::Never => false,
            // It has nothing more to lose.
            Spill::UnlessFollowed => self.changes.has_spilled() || !self.changes.is_followed(),
            Spill::Always => true,
        };
        if spills {
            let spilled = self.changes.spill();
            self.account();
            spilled?;
        }
        if self.is_beyond(key, change, options) { Err(too_large(options, spills)) } else { Ok(()) }
    }
}

/// Bytes of a change in a batch, at most.
fn record_bytes(key: &[u8], change: Change<'_>) -> usize {
    key.len() + change.len() + RECORD_BYTES
}

#[cold]
fn too_large(options: &TransactionDbOptions, spills: bool) -> Error {
    let limit = options.max_transaction_bytes;
    let why = match options.spill {
        Spill::UnlessFollowed if !spills => ", and does not spill because somebody may follow the WALs (option spill)",
        _ => "",
    };
    let message = format!("max_transaction_bytes: the transaction would have more than {limit} bytes of changes{why}");
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

/// Counts how many operations a transaction had that was committed from memory.
pub(super) fn count_operations(db: &Db, batch: &WriteBatch, written: &Result<()>) {
    if written.is_ok() {
        db.metrics().record(HistogramKind::NumOpsPerTransaction, u64::from(batch.count()));
    }
}
