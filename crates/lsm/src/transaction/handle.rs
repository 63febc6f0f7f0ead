//! A pessimistic transaction in the hands of its user.

use super::prepared::Entry;
use super::transaction_db::Core;
use super::work::{Change, Work, count_operations};
use crate::batch::{Phase, Step};
use crate::db::{ColumnFamily, Iter, PinnedValue};
use crate::options::ReadOptions;
use siltstone_base::engine::{Isolation, Savepoint, TransactionOptions};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::row_locks::LockMode;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::time::Duration;

/// Changes of rows that become visible and safe together, or not at all. One that is dropped is rolled back.
///
/// Every method that reads or writes names its family, or means the default one. A call that fails leaves the transaction as it was before. After `Deadlock`, and after
/// `Busy` on level `Snapshot`, it has to be rolled back and begun again to get on.
#[derive(Debug)]
pub struct Transaction {
    core: Arc<Core>,
    id: u64,
    isolation: Isolation,
    timeout: Option<Duration>,
    work: Work,
    /// Whether somebody else has its locks from now on.
    is_over: bool,
}

impl Transaction {
    pub(super) fn new(core: &Arc<Core>, options: &TransactionOptions) -> Self {
        Self {
            id: core.new_id(),
            isolation: options.isolation,
            timeout: options.lock_timeout,
            work: Work::new(&core.db, options.isolation),
            core: Arc::clone(core),
            is_over: false,
        }
    }

    /// The number of the transaction: the one that a [`Deadlock`](siltstone_base::row_locks::Deadlock) names. No other one has it while the database is open.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Bytes of its changes, in the form in which the WAL has them.
    pub fn size_bytes(&self) -> usize {
        self.work.changes.size_bytes()
    }

    fn default_family(&self) -> ColumnFamily {
        self.core.db.default_family()
    }

    /// The value of a key of the default family, if the transaction sees it.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get_cf`](crate::Db::get_cf).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        self.get_cf(&self.default_family(), key)
    }

    /// The value of a key of `family`, if the transaction sees it.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get_cf`](crate::Db::get_cf).
    pub fn get_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        self.work.get(family, key.as_ref())
    }

    /// Locks a key of the default family, which need not exist, and reads its newest value, which nobody changes before the transaction ends.
    ///
    /// # Errors
    ///
    /// Those of [`lock_cf`](Self::lock_cf) and of [`get`](Self::get).
    pub fn get_for_update(&mut self, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        self.get_for_update_cf(&self.default_family(), key, LockMode::Exclusive)
    }

    /// Locks a key of `family`, which need not exist, and reads its newest value, which nobody changes before the transaction ends. Others may lock it too if
    /// it is locked shared.
    ///
    /// # Errors
    ///
    /// Those of [`lock_cf`](Self::lock_cf) and of [`get`](Self::get).
    pub fn get_for_update_cf(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        mode: LockMode,
    ) -> Result<Option<PinnedValue>> {
        let key = key.as_ref();
        let is_new = self.lock_row(family, key, mode)?;
        self.work.get_newest(family, key).inspect_err(|_| self.give_back(is_new, family, key))
    }

    /// Locks a key of `family`, which need not exist, until the transaction ends.
    ///
    /// # Errors
    ///
    /// `TimedOut` if someone else holds the lock for too long; `Deadlock`, with a [`Deadlock`](siltstone_base::row_locks::Deadlock) as its source; `Busy` on the level
    /// `Snapshot` if the row changed since the transaction began; `LimitExceeded` if all locks, or those of the transaction, take too much memory; `NotFound` if the family was dropped;
    /// `NotSupported` for a family that cannot have locks.
    pub fn lock_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>, mode: LockMode) -> Result<()> {
        self.lock_row(family, key.as_ref(), mode).map(|_| ())
    }

    /// Locks a row, and checks that it is the one that the transaction sees. Returns whether it was not locked before.
    fn lock_row(&self, family: &ColumnFamily, key: &[u8], mode: LockMode) -> Result<bool> {
        let is_new = self.core.lock(self.id, family, key, mode, self.timeout)?;
        if is_new && let Some(snapshot) = &self.work.snapshot {
            // Who held the lock before has written by now.
            let is_changed = self.core.db.is_changed_since(family, key, snapshot.seqno());
            let checked = is_changed.and_then(|is_changed| match is_changed {
                true if !is_planted(PlantedBug::ConflictIsNotChecked) => {
                    Err(Error::new(ErrorKind::Busy, "a row changed since the transaction began"))
                }
                _ => Ok(()),
            });
            checked.inspect_err(|_| self.give_back(true, family, key))?;
        }
        Ok(is_new)
    }

    /// A call that fails keeps no lock that it took.
    fn give_back(&self, is_new: bool, family: &ColumnFamily, key: &[u8]) {
        if is_new {
            self.core.locks.unlock(self.id, family.0.id, key);
        }
    }

    /// Sets a key of the default family.
    ///
    /// # Errors
    ///
    /// Those of [`put_cf`](Self::put_cf).
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_cf(&self.default_family(), key, value)
    }

    /// Sets a key of `family`.
    ///
    /// # Errors
    ///
    /// Those of [`lock_cf`](Self::lock_cf); `LimitExceeded` if the transaction has too many bytes of changes and does not [spill](crate::TransactionDbOptions::spill), or the key or the value is too
    /// long; errors of I/O where it spills.
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

    /// Removes a key of the default family, and locks it also if it does not exist.
    ///
    /// # Errors
    ///
    /// Those of [`put_cf`](Self::put_cf).
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_cf(&self.default_family(), key)
    }

    /// Removes a key of `family`, and locks it also if it does not exist.
    ///
    /// # Errors
    ///
    /// Those of [`put_cf`](Self::put_cf).
    pub fn delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.change(family, key.as_ref(), Change::Delete)
    }

    /// Removes a key of `family`, of which [`WriteBatch::single_delete`](crate::WriteBatch::single_delete) says what must hold.
    ///
    /// # Errors
    ///
    /// Those of [`put_cf`](Self::put_cf).
    pub fn single_delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.change(family, key.as_ref(), Change::SingleDelete)
    }

    fn change(&mut self, family: &ColumnFamily, key: &[u8], change: Change<'_>) -> Result<()> {
        let is_new = self.lock_row(family, key, LockMode::Exclusive)?;
        let changed = self.make_room(key, change).and_then(|()| self.work.apply(family, key, change));
        changed.inspect_err(|_| self.give_back(is_new, family, key))
    }

    /// Commits what was changed before a change that is too much, lets it go to disk, or refuses the change.
    fn make_room(&mut self, key: &[u8], change: Change<'_>) -> Result<()> {
        let options = &self.core.options;
        if options.commit_in_the_middle && self.work.is_beyond(key, change, options) && !self.work.changes.is_empty() {
            self.work.changes.write(&options.write_options)?;
            if self.work.snapshot.is_some() {
                self.work.snapshot = Some(self.core.db.snapshot());
            }
        }
        self.work.spill_for(key, change, options)
    }

    /// An iterator over the default family as the transaction sees it now.
    ///
    /// # Errors
    ///
    /// Those of [`Db::iter_cf`](crate::Db::iter_cf).
    pub fn iter(&self) -> Result<Iter> {
        self.iter_cf(&self.default_family(), &ReadOptions::default())
    }

    /// An iterator over `family` as the transaction sees it now, its own changes up to now included. The options' snapshot counts for nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Db::iter_cf`](crate::Db::iter_cf).
    pub fn iter_cf(&self, family: &ColumnFamily, options: &ReadOptions) -> Result<Iter> {
        self.work.iter(family, options)
    }

    /// A place to which the transaction can be rolled back.
    pub fn savepoint(&mut self) -> Savepoint {
        self.work.changes.savepoint()
    }

    /// Undoes the changes since a savepoint, which stays; later ones are gone. Locks stay.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a savepoint that is none of this transaction, or is gone.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.work.rollback_to(savepoint)
    }

    /// Makes the changes visible, and as safe as [`write_options`](crate::TransactionDbOptions::write_options) say.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write`](crate::Db::write). The transaction is then rolled back, unless the WAL failed: then opening the database again decides. Of one that has
    /// [spilled](crate::TransactionDbOptions::spill), moreover errors of files, of the MANIFEST (where that cannot be written anew either, opening decides, too), and `MergeFailed` where an operand cannot be merged.
    pub fn commit(mut self) -> Result<()> {
        if self.has_spilled() {
            let options = &self.core.options.write_options;
            return self.work.changes.take_tables(options)?.take_in(None, options);
        }
        // Nothing is read any more: what is written is not held twice meanwhile.
        let mut batch = self.work.changes.take_batch();
        if batch.is_empty() {
            return Ok(());
        }
        // The locks are given back behind this.
        let written = self.core.db.write(&mut batch, &self.core.options.write_options);
        count_operations(&self.core.db, &batch, &written);
        written
    }

    /// Undoes all changes.
    pub fn rollback(self) {
        drop(self);
    }

    /// Makes the changes safe under a name, without deciding about them: they and their locks survive a crash, until
    /// [`commit_prepared`](crate::TransactionDb::commit_prepared) or [`rollback_prepared`](crate::TransactionDb::rollback_prepared). Locks of rows that were only read
    /// survive no crash.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `InvalidArgument` for a name that is empty or longer than 64 bytes; those of [`check_preparable`](Self::check_preparable) and of
    /// [`commit`](Self::commit). The transaction is then rolled back.
    pub fn prepare(self, name: impl AsRef<[u8]>) -> Result<()> {
        let (name, core) = (name.as_ref(), Arc::clone(&self.core));
        let entry = self.prepare_with(name, true)?;
        core.prepared.put(name, entry);
        Ok(())
    }

    /// Whether the transaction can be prepared: who has to choose between preparing and something else asks before. It stays as it is.
    ///
    /// # Errors
    ///
    /// `NotSupported` if it has [spilled](crate::TransactionDbOptions::spill): what is prepared is in the WAL, and in memory until somebody decides. `InvalidArgument` where transactions
    /// are written without a WAL.
    pub fn check_preparable(&self) -> Result<()> {
        if self.core.options.write_options.disable_wal {
            return Err(Error::invalid_argument("disable_wal: a transaction is prepared in the WAL"));
        }
        if self.has_spilled() {
            return Err(Error::not_supported("preparing a transaction that has spilled: max_transaction_bytes"));
        }
        Ok(())
    }

    /// Whether it was too large for memory, and has changes in files.
    pub fn has_spilled(&self) -> bool {
        self.work.changes.has_spilled()
    }

    /// Prepares it under a name that is taken from now on. Nobody can decide about it yet.
    pub(super) fn prepare_with(mut self, name: &[u8], sync: bool) -> Result<Entry> {
        let core = Arc::clone(&self.core);
        let options = core.prepare_options(sync);
        self.check_preparable()?;
        core.prepared.reserve(name)?;
        let mut batch = self.work.changes.take_batch();
        batch.set_phase(Some(Phase::new(Step::Prepare, name)));
        if let Err(error) = core.db.write(&mut batch, &options) {
            core.prepared.free(name);
            return Err(error);
        }
        self.is_over = true;
        batch.shrink();
        Ok(Entry::new(&core.db, self.id, name, batch))
    }

    #[cfg(test)]
    pub(super) fn parts_for_test(&self) -> usize {
        self.work.changes.parts_for_test()
    }

    /// On which level it is.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.is_over {
            self.core.locks.release_all(self.id);
        }
    }
}
