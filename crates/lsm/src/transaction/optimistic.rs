//! Transactions that lock nothing and are validated when they commit.

use super::options::TransactionDbOptions;
use super::work::{Change, Work, check_order, count_operations};
use crate::db::{ColumnFamily, Db, Iter, PinnedValue, Watched};
use crate::key::SeqNo;
use crate::options::{ColumnFamilyOptions, DbOptions, ReadOptions, WriteOptions};
use crate::snapshot::Snapshot;
use siltstone_base::engine::{Isolation, Savepoint, TransactionOptions};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

/// What a watched key takes beside its bytes, about.
const WATCHED_BYTES: usize = 120;

/// A database with optimistic transactions. Cheap to clone; all clones are the same database.
///
/// Nobody waits for anybody: where two transactions change the same row, the second to commit fails with `Busy` and is to be run again. What is written through
/// [`db`](Self::db) counts like what other transactions commit. Such transactions cannot be prepared.
///
/// Thread safety: every method may be called from any thread.
///
/// ```
/// use siltstone_base::engine::TransactionOptions;
/// use siltstone_lsm::{DbOptions, ErrorKind, OptimisticTransactionDb, TransactionDbOptions};
///
/// # fn main() -> siltstone_lsm::Result<()> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// let options = DbOptions::default().create_if_missing(true);
/// let db = OptimisticTransactionDb::open(dir.path(), &options, &[], &TransactionDbOptions::default())?;
/// let mut transaction = db.begin(&TransactionOptions::default());
/// transaction.put("slate", "grey")?;
/// db.db().put("slate", "black")?;
/// assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Busy);
/// db.close()
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct OptimisticTransactionDb {
    db: Db,
    options: Arc<TransactionDbOptions>,
}

impl OptimisticTransactionDb {
    /// Opens the database in `dir`; `families` as for [`Db::open_families`].
    ///
    /// # Errors
    ///
    /// Those of [`Db::open_families`]; `InvalidArgument` for an option of transactions.
    pub fn open(
        dir: impl AsRef<Path>,
        options: &DbOptions,
        families: &[(&str, ColumnFamilyOptions)],
        transactions: &TransactionDbOptions,
    ) -> Result<Self> {
        transactions.validate(options)?;
        let db = Db::open_families(dir, options, families)?;
        Ok(Self { db, options: Arc::new(transactions.clone()) })
    }

    /// The database under the transactions.
    pub fn db(&self) -> &Db {
        &self.db
    }

    pub(super) fn write_options(&self) -> &WriteOptions {
        &self.options.write_options
    }

    /// Begins a transaction.
    pub fn begin(&self, options: &TransactionOptions) -> OptimisticTransaction {
        let work = Work::new(&self.db, options.isolation);
        let begun = work.snapshot.clone().unwrap_or_else(|| self.db.snapshot());
        OptimisticTransaction { owner: self.clone(), work, begun, watched: BTreeMap::new(), watched_bytes: 0 }
    }

    /// Closes the database; see [`Db::close`].
    ///
    /// # Errors
    ///
    /// Those of [`Db::close`].
    pub fn close(self) -> Result<()> {
        self.db.close()
    }
}

/// Changes of rows that become visible and safe together, or not at all. One that is dropped is rolled back.
///
/// On the level `Snapshot` a commit fails if a row that the transaction changed or read for update was changed since it began; on `ReadCommitted`, if
/// it was changed since the transaction changed it or read it for update first.
#[derive(Debug)]
pub struct OptimisticTransaction {
    owner: OptimisticTransactionDb,
    work: Work,
    /// Keeps the numbers of everything that came since: compactions forget those that no snapshot needs.
    begun: Snapshot,
    /// By family and key: the family, and the number after which a change is a conflict.
    watched: BTreeMap<(u32, Vec<u8>), (ColumnFamily, SeqNo)>,
    /// What they take, about.
    watched_bytes: usize,
}

impl OptimisticTransaction {
    /// The value of a key of `family`, if the transaction sees it.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get_cf`].
    pub fn get_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        self.work.get(family, key.as_ref())
    }

    /// The value of a key of the default family, if the transaction sees it.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get_cf`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        self.get_cf(&self.owner.db.default_family(), key)
    }

    /// The value of a key of the default family; see [`get_for_update_cf`](Self::get_for_update_cf).
    ///
    /// # Errors
    ///
    /// Those of [`get_for_update_cf`](Self::get_for_update_cf).
    pub fn get_for_update(&mut self, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        self.get_for_update_cf(&self.owner.db.default_family(), key)
    }

    /// The value of a key of `family`, if the transaction sees it. The commit fails if somebody changes it meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get_cf`]; `LimitExceeded` if the keys that the transaction changed or read for update take more than
    /// [`max_lock_bytes`](TransactionDbOptions::max_lock_bytes); `NotSupported` for a family whose comparator takes different bytes for equal.
    pub fn get_for_update_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        let key = key.as_ref();
        self.watch(family, key)?;
        self.work.get(family, key)
    }

    /// Watches a key, from the first time on that it is named.
    fn watch(&mut self, family: &ColumnFamily, key: &[u8]) -> Result<()> {
        self.owner.db.check_family(family)?;
        check_order(family)?;
        let seqno = match &self.work.snapshot {
            Some(snapshot) => snapshot.seqno(),
            // Before the key is read: a change after this is a conflict, seen or not.
            None => self.owner.db.latest_seqno(),
        };
        let bytes = key.len() + WATCHED_BYTES;
        let limit = self.owner.options.max_lock_bytes;
        let Entry::Vacant(new) = self.watched.entry((family.0.id, key.to_vec())) else { return Ok(()) };
        if self.watched_bytes + bytes > limit {
            let message =
                format!("max_lock_bytes: the keys that the transaction watches would take more than {limit} bytes");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        new.insert((family.clone(), seqno));
        self.watched_bytes += bytes;
        self.work.set_other_bytes(self.watched_bytes);
        Ok(())
    }

    /// Sets a key of the default family.
    ///
    /// # Errors
    ///
    /// Those of [`put_cf`](Self::put_cf).
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_cf(&self.owner.db.default_family(), key, value)
    }

    /// Sets a key of `family`.
    ///
    /// # Errors
    ///
    /// `LimitExceeded` if the transaction has too many bytes of watched keys, or of changes and does not [spill](TransactionDbOptions::spill), or the key or the value is too long; `NotFound` if the
    /// family was dropped; `NotSupported` for a family whose comparator takes different bytes for equal; errors of I/O where it spills.
    pub fn put_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.change(family, key.as_ref(), Change::Put(value.as_ref()))
    }

    /// Merges `operand` into the value of a key of `family`.
    ///
    /// # Errors
    ///
    /// Those of [`put_cf`](Self::put_cf); `InvalidArgument` if the family has no merge operator.
    pub fn merge_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.change(family, key.as_ref(), Change::Merge(operand.as_ref()))
    }

    /// Removes a key of the default family.
    ///
    /// # Errors
    ///
    /// Those of [`put_cf`](Self::put_cf).
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_cf(&self.owner.db.default_family(), key)
    }

    /// Removes a key of `family`.
    ///
    /// # Errors
    ///
    /// Those of [`put_cf`](Self::put_cf).
    pub fn delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.change(family, key.as_ref(), Change::Delete)
    }

    fn change(&mut self, family: &ColumnFamily, key: &[u8], change: Change<'_>) -> Result<()> {
        self.work.spill_for(key, change, &self.owner.options)?;
        self.watch(family, key)?;
        self.work.apply(family, key, change)
    }

    /// An iterator over the default family as the transaction sees it now.
    ///
    /// # Errors
    ///
    /// Those of [`Db::iter_cf`].
    pub fn iter(&self) -> Result<Iter> {
        self.iter_cf(&self.owner.db.default_family(), &ReadOptions::default())
    }

    /// An iterator over `family` as the transaction sees it now, its own changes up to now included. The options' snapshot counts for nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Db::iter_cf`].
    pub fn iter_cf(&self, family: &ColumnFamily, options: &ReadOptions) -> Result<Iter> {
        self.work.iter(family, options)
    }

    /// A place to which the transaction can be rolled back.
    pub fn savepoint(&mut self) -> Savepoint {
        self.work.changes.savepoint()
    }

    /// Undoes the changes since a savepoint, which stays; later ones are gone. Their keys stay watched.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a savepoint that is none of this transaction, or is gone.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.work.rollback_to(savepoint)
    }

    /// Makes the changes visible if nobody changed a watched key meanwhile.
    ///
    /// # Errors
    ///
    /// `Busy` if somebody did, and those of [`Db::write`]. The transaction is then rolled back, unless the WAL failed: then opening the database again decides. Of one that has
    /// [spilled](TransactionDbOptions::spill), moreover errors of files, of the MANIFEST (where that cannot be written anew either, opening decides, too), and `MergeFailed` where an operand cannot be merged.
    pub fn commit(mut self) -> Result<()> {
        let watched = std::mem::take(&mut self.watched).into_iter();
        let watched: Vec<_> = watched.map(|((_, key), (family, seqno))| Watched { family, key, seqno }).collect();
        debug_assert!(watched.iter().all(|watch| watch.seqno >= self.begun.seqno()), "a snapshot keeps the numbers");
        let options = &self.owner.options.write_options;
        if self.work.changes.has_spilled() {
            // Before much is written in vain.
            let check = self.owner.db.look_ahead(watched)?;
            return self.work.changes.take_tables(options)?.take_in(Some(check), options);
        }
        let mut batch = self.work.changes.take_batch();
        if watched.is_empty() {
            return Ok(());
        }
        let written = self.owner.db.write_if_unchanged(watched, &mut batch, options);
        count_operations(&self.owner.db, &batch, &written);
        written
    }

    /// Undoes all changes.
    pub fn rollback(self) {
        drop(self);
    }

    /// On which level it is.
    pub fn isolation(&self) -> Isolation {
        if self.work.snapshot.is_some() { Isolation::Snapshot } else { Isolation::ReadCommitted }
    }
}
