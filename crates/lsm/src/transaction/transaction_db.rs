//! A database whose transactions lock rows.

use super::handle::Transaction;
use super::options::TransactionDbOptions;
use super::prepared::{Entry, PreparedMap};
use super::work::check_order;
use crate::batch::{Phase, Step, WriteBatch};
use crate::db::{ColumnFamily, Db};
use crate::key::ValueType;
use crate::options::{ColumnFamilyOptions, DbOptions, WriteOptions};
use siltstone_base::engine::TransactionOptions;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::row_locks::{LockMode, RowLockStats, RowLocks};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use siltstone_base::{Error, Result};
use std::path::Path;
use std::time::Duration;

/// A database with pessimistic transactions. Cheap to clone; all clones are the same database.
///
/// Everybody who writes does so through this handle: what is written through [`db`](Self::db) takes no locks, and transactions do not notice it in time. Reads
/// through it are as good as any.
///
/// Locks are of keys: a family whose comparator takes different bytes for equal is refused (`NotSupported`), and so are range deletes. There are no locks of gaps.
///
/// Thread safety: every method may be called from any thread.
///
/// ```
/// use siltstone_base::engine::TransactionOptions;
/// use siltstone_lsm::{DbOptions, TransactionDb, TransactionDbOptions};
///
/// # fn main() -> siltstone_lsm::Result<()> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// let options = DbOptions::default().create_if_missing(true);
/// let db = TransactionDb::open(dir.path(), &options, &[], &TransactionDbOptions::default())?;
/// db.put("stones", "3")?;
///
/// let mut transaction = db.begin(&TransactionOptions::default());
/// let stones = transaction.get_for_update("stones")?.map_or(0, |value| value.len());
/// transaction.put("stones", (stones + 3).to_string())?;
/// assert_eq!(db.db().get("stones")?.as_deref(), Some(&b"3"[..]));
/// transaction.commit()?;
/// assert_eq!(db.db().get("stones")?.as_deref(), Some(&b"4"[..]));
/// db.close()
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TransactionDb {
    pub(super) core: Arc<Core>,
}

/// What the handle and its transactions share.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) db: Db,
    pub(super) locks: Arc<RowLocks>,
    pub(super) options: TransactionDbOptions,
    pub(super) prepared: PreparedMap,
    next_id: AtomicU64,
}

impl Core {
    /// A number that no other transaction has while the database is open.
    pub(super) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Locks a key; returns whether it was not locked before. The caller holds no lock of the engine.
    pub(super) fn lock(
        &self,
        owner: u64,
        family: &ColumnFamily,
        key: &[u8],
        mode: LockMode,
        timeout: Option<Duration>,
    ) -> Result<bool> {
        self.db.check_family(family)?;
        check_order(family)?;
        let held = self.locks.mode(owner, family.0.id, key);
        if held == Some(LockMode::Exclusive) || held == Some(mode) {
            return Ok(false);
        }
        let timeout = Some(timeout.unwrap_or(self.options.lock_timeout));
        self.locks.lock(self.db.executor(), owner, family.0.id, key, mode, timeout)?;
        Ok(held.is_none())
    }

    /// Takes the locks of all keys of a batch, in order, so that batches do not wait for one another in a circle.
    fn lock_batch(&self, owner: u64, batch: &WriteBatch) -> Result<()> {
        let mut keys = Vec::with_capacity(batch.len());
        for entry in batch {
            if entry.kind == ValueType::RangeDelete {
                return Err(Error::not_supported("deleting a range where rows are locked"));
            }
            keys.push((entry.column_family.0, entry.key));
        }
        keys.sort_unstable();
        keys.dedup();
        let families = self.db.families();
        for (id, key) in keys {
            // A family that does not exist is refused by the write.
            if let Some(family) = families.iter().find(|family| family.0.id == id) {
                self.lock(owner, family, key, LockMode::Exclusive, None)?;
            }
        }
        Ok(())
    }

    pub(super) fn prepare_options(&self, sync: bool) -> WriteOptions {
        self.options.write_options.clone().sync(sync)
    }
}

impl TransactionDb {
    /// Opens the database in `dir`; `families` as for [`Db::open_families`]. Transactions that were prepared and not decided are there again, with the locks of
    /// what they changed, before this returns.
    ///
    /// # Errors
    ///
    /// Those of [`Db::open_families`]; `InvalidArgument` for an option of transactions; `NotSupported` for one that is prepared and deletes a range, as RocksDB's may.
    pub fn open(
        dir: impl AsRef<Path>,
        options: &DbOptions,
        families: &[(&str, ColumnFamilyOptions)],
        transactions: &TransactionDbOptions,
    ) -> Result<Self> {
        transactions.validate(options)?;
        let (db, recovered) = Db::open_prepared(dir.as_ref(), options, families)?;
        let core = Core {
            db,
            locks: Arc::new(RowLocks::new(transactions.max_lock_bytes).limit_owners(transactions.lock_bytes_of_one())),
            options: transactions.clone(),
            prepared: PreparedMap::new(),
            next_id: AtomicU64::new(1),
        };
        core.db.count_locks(&core.locks);
        for (name, batch) in recovered {
            if batch.iter().any(|entry| entry.kind == ValueType::RangeDelete) {
                return Err(Error::not_supported(
                    "a transaction that is prepared and deletes a range, whose rows have no locks",
                ));
            }
            let owner = core.new_id();
            if !is_planted(PlantedBug::RecoveredLocksAreLost) {
                batch.iter().for_each(|entry| core.locks.restore(owner, entry.column_family.0, entry.key));
            }
            let entry = Entry::new(&core.db, owner, &name, batch);
            core.prepared.put(&name, entry);
        }
        Ok(Self { core: Arc::new(core) })
    }

    /// The database under the transactions: to read, to flush, to ask for families.
    pub fn db(&self) -> &Db {
        &self.core.db
    }

    /// Begins a transaction.
    pub fn begin(&self, options: &TransactionOptions) -> Transaction {
        Transaction::new(&self.core, options)
    }

    /// Sets `key` to `value` in the default family, as a transaction of its own.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write).
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        self.write(&mut batch)
    }

    /// Deletes `key` from the default family, as a transaction of its own.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(key);
        self.write(&mut batch)
    }

    /// Applies a batch, all of it or nothing, as a transaction of its own: waits for the locks of all its keys. The batch can be used again.
    ///
    /// # Errors
    ///
    /// `TimedOut`, `Deadlock`, `NotSupported` for a range to delete, and those of [`Db::write`].
    pub fn write(&self, batch: &mut WriteBatch) -> Result<()> {
        let core = &*self.core;
        let owner = core.new_id();
        let outcome = core.lock_batch(owner, batch).and_then(|()| core.db.write(batch, &core.options.write_options));
        core.locks.release_all(owner);
        outcome
    }

    /// The names of prepared transactions, sorted: those of this life of the database and of earlier ones.
    pub fn prepared_transactions(&self) -> Vec<Vec<u8>> {
        self.core.prepared.names()
    }

    /// Prepares several transactions, each under its name, with one sync of the WAL for all. All of them are prepared or, after an error, rolled back.
    ///
    /// # Errors
    ///
    /// Those of [`Transaction::prepare`]. Where the WAL failed, those that reached it are still prepared.
    pub fn prepare_all<'a>(&self, transactions: impl IntoIterator<Item = (Transaction, &'a [u8])>) -> Result<()> {
        let mut names = Vec::new();
        let mut outcome = Ok(());
        let mut entries = Vec::new();
        for (transaction, name) in transactions {
            if outcome.is_ok() {
                match transaction.prepare_with(name, false) {
                    Ok(entry) => entries.push((name, entry)),
                    Err(error) => outcome = Err(error),
                }
            }
        }
        if !entries.is_empty() {
            outcome = outcome.and_then(|()| self.core.db.sync_wal());
        }
        // Nobody decides about what is not safe yet.
        for (name, entry) in entries {
            self.core.prepared.put(name, entry);
            names.push(name);
        }
        if outcome.is_err() {
            // The first error is the one to tell.
            names.into_iter().for_each(|name| drop(self.rollback_prepared(name)));
        }
        outcome
    }

    /// Commits a prepared transaction.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none of that name; those of [`Transaction::commit`]. It is then still prepared, unless the WAL failed and the machine stops before anything else
    /// is written: then opening the database again decides.
    pub fn commit_prepared(&self, name: impl AsRef<[u8]>) -> Result<()> {
        self.decide(name.as_ref(), Step::Commit)
    }

    /// Rolls a prepared transaction back.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none of that name; those of [`Db::write`]. It is then still prepared, as after [`commit_prepared`](Self::commit_prepared).
    pub fn rollback_prepared(&self, name: impl AsRef<[u8]>) -> Result<()> {
        self.decide(name.as_ref(), Step::Rollback)
    }

    fn decide(&self, name: &[u8], step: Step) -> Result<()> {
        let core = &*self.core;
        let mut entry = core.prepared.take(name)?;
        entry.batch.set_phase(Some(Phase::new(step, name)));
        // A decision is logged whatever the options say: the WAL that has what was prepared may stay for others.
        let options = core.options.write_options.clone().disable_wal(false);
        if let Err(error) = core.db.write(&mut entry.batch, &options) {
            core.prepared.put(name, entry);
            return Err(error);
        }
        core.prepared.free(name);
        core.locks.release_all(entry.owner);
        Ok(())
    }

    /// What the locks count.
    pub fn lock_stats(&self) -> RowLockStats {
        self.core.locks.stats()
    }

    /// Closes the database; see [`Db::close`]. Transactions that are open can only be dropped then.
    ///
    /// # Errors
    ///
    /// Those of [`Db::close`].
    pub fn close(self) -> Result<()> {
        self.core.db.clone().close()
    }
}
