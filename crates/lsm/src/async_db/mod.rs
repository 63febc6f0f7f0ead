//! A database in the hands of tasks: the engine is synchronous inside, and no task waits for it on a thread of its runtime.
//!
//! * A read is tried in memory first, on the spot; only what is not there is read by a thread of the [`pool`].
//! * A write stands in a [`lane`]. However many tasks wait, one thread writes for all of them, and group commit is as good as that of as many threads.
//! * A [`scan`] is filled by the pool, batch by batch, and is of the moment at which it was made.
//!
//! Everything is woken by wakers; no part of it asks which runtime polls it.

mod lane;
mod options;
mod pool;
mod scan;
#[cfg(test)]
mod tests;

pub use options::AsyncDbOptions;
pub use scan::{AsyncScan, ScannedRow};

use crate::batch::WriteBatch;
use crate::db::{ColumnFamily, Db, PinnedValue};
use crate::holders::Holder;
use crate::options::{ColumnFamilyOptions, DbOptions, FlushOptions, ReadOptions, ReadTier, WriteOptions};
use crate::snapshot::Snapshot;
use lane::{Lane, Waiting, closing};
use pool::{Answer, Pool};
use siltstone_base::executor::Priority;
use siltstone_base::sync::Arc;
use siltstone_base::{ErrorKind, Result};
use std::path::Path;
use tokio::sync::{Semaphore, oneshot};

/// Keys that are looked for on the spot, at most: a few hundred microseconds if memory has them all.
const KEYS_AT_ONCE: usize = 128;

/// What a batch that stands in line takes beside its bytes, about: itself, its options, its place, and the way back to its task.
const QUEUED_OVERHEAD: usize = 256;

/// A database that tasks use: no call blocks the thread that polls it, and a task that waits needs no thread.
///
/// ```
/// use siltstone_lsm::{AsyncDb, AsyncDbOptions, DbOptions, ReadOptions, WriteBatch, WriteOptions};
///
/// # fn main() -> siltstone_lsm::Result<()> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
/// # runtime.block_on(async {
/// let options = DbOptions::default().create_if_missing(true);
/// let db = AsyncDb::open(dir.path(), &options, &AsyncDbOptions::default()).await?;
/// db.put("granite", "igneous").await?;
///
/// let mut batch = WriteBatch::new();
/// batch.put("slate", "metamorphic");
/// batch.put("chalk", "sedimentary");
/// db.write(batch, &WriteOptions::default().sync(true)).await?;
/// assert_eq!(db.get("slate").await?.as_deref(), Some(&b"metamorphic"[..]));
///
/// let mut rows = db.scan(&db.db().default_family(), &ReadOptions::default());
/// let first = rows.next().await.expect("there are rows")?;
/// assert_eq!((first.key(), first.value()), (&b"chalk"[..], &b"sedimentary"[..]));
/// # drop(rows);
/// db.close().await
/// # })
/// # }
/// ```
///
/// Cheap to clone; all clones are the same handle. When the last one is dropped, a thread of its own closes the database, unless there are other handles on it; [`close`](Self::close) says
/// how that went.
///
/// **Cancellation.** A future that is dropped before it is ready leaves nothing behind that others would notice. Its batch was written as a whole, will be, or will never be: which of them
/// is not known, as after the death of a process. A read is just not done.
///
/// **Memory.** Batches that stand in line have at most [`max_queued_bytes`](AsyncDbOptions::max_queued_bytes), 256 for each among them, those of low priority as many of their own; tasks with more wait their turn, first come first served.
///
/// Thread safety: every method may be called from any thread, within any runtime or none.
#[derive(Debug, Clone)]
pub struct AsyncDb {
    // Dropped before the handle: when the last handle goes, it alone has what is shared.
    shared: Arc<Shared>,
    _handle: Arc<Handle>,
}

/// Has the database closed by a thread of the pool when it goes.
#[derive(Debug)]
struct Handle {
    last: Option<Arc<Shared>>,
    pool: Pool,
}

#[derive(Debug)]
struct Shared {
    db: Db,
    writes: Arc<Lane>,
    low_priority: Arc<Lane>,
    /// Permits are bytes.
    room: Arc<Semaphore>,
    /// The same of batches of low priority, which must not keep others out.
    low_room: Arc<Semaphore>,
    options: AsyncDbOptions,
    /// Permits to have something done that may take long: one thread of the pool is left for reads.
    errands: Arc<Semaphore>,
    /// Of gets without options.
    in_memory: ReadOptions,
    pool: Pool,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let last = self.last.take();
        self.pool.run(Priority::Medium, move || drop(last));
    }
}

impl AsyncDb {
    /// Opens the database in `dir`: [`Db::open`].
    ///
    /// # Errors
    ///
    /// Those of [`Db::open`], and `InvalidArgument` for an option of tasks.
    pub async fn open(dir: impl AsRef<Path>, options: &DbOptions, tasks: &AsyncDbOptions) -> Result<Self> {
        Self::open_families(dir, options, &[], tasks).await
    }

    /// Opens the database in `dir`, with options for families by name: [`Db::open_families`].
    ///
    /// # Errors
    ///
    /// Those of [`Db::open_families`], and `InvalidArgument` for an option of tasks.
    pub async fn open_families(
        dir: impl AsRef<Path>,
        options: &DbOptions,
        families: &[(&str, ColumnFamilyOptions)],
        tasks: &AsyncDbOptions,
    ) -> Result<Self> {
        tasks.validate()?;
        let (dir, options) = (dir.as_ref().to_path_buf(), options.clone());
        let families: Vec<_> = families.iter().map(|(name, options)| ((*name).to_owned(), options.clone())).collect();
        let pool = Pool::new(tasks.io_threads, &dir)?;
        // Whoever opens keeps its own thread: this future may go away meanwhile, and must not wait for that.
        let kept = pool.clone();
        let opened = pool.ask(Priority::Medium, move || {
            let _kept = kept;
            let families: Vec<_> = families.iter().map(|(name, options)| (name.as_str(), options.clone())).collect();
            Db::open_families(dir, &options, &families)
        });
        Ok(Self::of(&opened.await??, tasks, pool))
    }

    /// Lets tasks use a database that is open. Others may go on to use `db`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names an option, `Io` where threads cannot be started.
    pub fn new(db: &Db, tasks: &AsyncDbOptions) -> Result<Self> {
        tasks.validate()?;
        Ok(Self::of(db, tasks, Pool::new(tasks.io_threads, db.dir())?))
    }

    fn of(db: &Db, tasks: &AsyncDbOptions, pool: Pool) -> Self {
        let shared = Shared {
            db: db.clone(),
            writes: Lane::new(db, &pool, Priority::High),
            low_priority: Lane::new(db, &pool, Priority::Medium),
            room: Arc::new(Semaphore::new(tasks.max_queued_bytes)),
            low_room: Arc::new(Semaphore::new(tasks.max_queued_bytes)),
            options: tasks.clone(),
            errands: Arc::new(Semaphore::new(tasks.io_threads)),
            in_memory: ReadOptions::default().read_tier(ReadTier::BlockCache),
            pool: pool.clone(),
        };
        let shared = Arc::new(shared);
        Self { _handle: Arc::new(Handle { last: Some(Arc::clone(&shared)), pool }), shared }
    }

    /// The database, for everything that waits for nothing: snapshots, families, properties, counters. What else it can do blocks the caller: [`run`](Self::run) does it
    /// elsewhere.
    pub fn db(&self) -> &Db {
        &self.shared.db
    }

    /// The value of `key` in the default family, or `None`.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`].
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        let (shared, key) = (&*self.shared, key.as_ref());
        let family = shared.db.default_family();
        match shared.db.get_cf(&family, key, &shared.in_memory) {
            Err(error) if error.kind() == ErrorKind::Incomplete => {
                let (db, key) = (shared.db.clone(), key.to_vec());
                shared.pool.ask(Priority::Medium, move || db.get(key)).await?
            }
            found => found,
        }
    }

    /// The value of `key` in `family`, or `None`.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get_cf`].
    pub async fn get_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<PinnedValue>> {
        let (shared, key) = (&*self.shared, key.as_ref());
        match shared.db.get_cf(family, key, &options.clone().read_tier(ReadTier::BlockCache)) {
            Err(error) if error.kind() == ErrorKind::Incomplete && options.read_tier == ReadTier::All => {
                let (db, family, key, options) = (shared.db.clone(), family.clone(), key.to_vec(), options.clone());
                shared.pool.ask(Priority::Medium, move || db.get_cf(&family, key, &options)).await?
            }
            found => found,
        }
    }

    /// The values of `keys` in `family`, all as of the same moment.
    ///
    /// # Errors
    ///
    /// Those of [`Db::multi_get_cf`], each for its key; `Poisoned` for all of them.
    pub async fn multi_get_cf(
        &self,
        family: &ColumnFamily,
        keys: &[impl AsRef<[u8]>],
        options: &ReadOptions,
    ) -> Result<Vec<Result<Option<PinnedValue>>>> {
        let shared = &*self.shared;
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let stays = options.read_tier != ReadTier::All;
        if stays || keys.len() <= KEYS_AT_ONCE {
            let in_memory = options.clone().read_tier(ReadTier::BlockCache);
            let found = shared.db.multi_get_cf(family, &keys, &in_memory);
            let is_incomplete = |found: &Result<_>| found.as_ref().is_err_and(|e| e.kind() == ErrorKind::Incomplete);
            if stays || !found.iter().any(is_incomplete) {
                return Ok(found);
            }
        }
        // All of them again, so that they are of one moment.
        let keys: Vec<Vec<u8>> = keys.into_iter().map(<[u8]>::to_vec).collect();
        let (db, family, options) = (shared.db.clone(), family.clone(), options.clone());
        let answer = shared.pool.ask(Priority::Medium, move || {
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            db.multi_get_cf(&family, &keys, &options)
        });
        answer.await
    }

    /// Sets `key` to `value` in the default family.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write).
    pub async fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write_single(&WriteOptions::default(), |batch| batch.put(key, value)).await
    }

    /// Sets `key` to `value` in `family`.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write).
    pub async fn put_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.db().check_family(family)?;
        self.write_single(options, |batch| batch.put_cf(family, key, value)).await
    }

    /// Deletes `key` from the default family.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write).
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_single(&WriteOptions::default(), |batch| batch.delete(key)).await
    }

    /// Deletes `key` from `family`.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write).
    pub async fn delete_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.db().check_family(family)?;
        self.write_single(options, |batch| batch.delete_cf(family, key)).await
    }

    /// Merges `operand` into the value of `key` in `family`.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write).
    pub async fn merge_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.db().check_family(family)?;
        self.write_single(options, |batch| batch.merge_cf(family, key, operand)).await
    }

    async fn write_single(&self, options: &WriteOptions, fill: impl FnOnce(&mut WriteBatch)) -> Result<()> {
        let mut batch = WriteBatch::new();
        fill(&mut batch);
        self.write(batch, options).await
    }

    /// Applies a batch, all of it or nothing. Batches of one task that are written one after the other, and those of tasks that begin to wait one after the other, are
    /// applied in that order, as far as they have the same [priority](WriteOptions::low_pri).
    ///
    /// # Errors
    ///
    /// Those of [`Db::write`]; `Aborted` once the database is closing, and nothing is written then.
    pub async fn write(&self, batch: WriteBatch, options: &WriteOptions) -> Result<()> {
        let shared = &*self.shared;
        let bytes = batch.size_bytes().saturating_add(QUEUED_OVERHEAD).min(shared.options.max_queued_bytes);
        let (lane, room) = match options.low_pri {
            true => (&shared.low_priority, &shared.low_room),
            false => (&shared.writes, &shared.room),
        };
        let room = Arc::clone(room).acquire_many_owned(u32::try_from(bytes).unwrap_or(u32::MAX));
        let room = room.await.map_err(|_| closing())?;
        let (done, outcome) = oneshot::channel();
        let mut held = shared.db.holders().charge(Holder::QueuedWrites);
        held.set((batch.size_bytes() + QUEUED_OVERHEAD) as u64);
        lane.push(Waiting { batch, options: options.clone(), done, room, held })?;
        Answer::new(outcome).await?
    }

    /// Bytes of batches that stand in line, those included that are being written, with 256 for each batch.
    pub fn queued_bytes(&self) -> usize {
        let shared = &*self.shared;
        let used = |room: &Semaphore| shared.options.max_queued_bytes.saturating_sub(room.available_permits());
        used(&shared.room) + used(&shared.low_room)
    }

    /// The rows of `family` in order, within the bounds of `options`; of this moment, or of the options' snapshot.
    pub fn scan(&self, family: &ColumnFamily, options: &ReadOptions) -> AsyncScan {
        AsyncScan::new(self, family, options, false)
    }

    /// The same from the last row to the first.
    pub fn scan_backward(&self, family: &ColumnFamily, options: &ReadOptions) -> AsyncScan {
        AsyncScan::new(self, family, options, true)
    }

    /// The state of all families at this moment.
    pub fn snapshot(&self) -> Snapshot {
        self.db().snapshot()
    }

    /// Writes the memtables of several families to tables.
    ///
    /// # Errors
    ///
    /// Those of [`Db::flush_families`].
    pub async fn flush_families(&self, families: &[&ColumnFamily], options: &FlushOptions) -> Result<()> {
        let families: Vec<ColumnFamily> = families.iter().map(|family| (*family).clone()).collect();
        let options = options.clone();
        self.run(move |db| db.flush_families(&families.iter().collect::<Vec<_>>(), &options)).await
    }

    /// Writes the memtables of the default family to a table.
    ///
    /// # Errors
    ///
    /// Those of [`Db::flush`].
    pub async fn flush(&self, options: &FlushOptions) -> Result<()> {
        self.flush_families(&[&self.db().default_family()], options).await
    }

    /// Makes every write so far durable.
    ///
    /// # Errors
    ///
    /// Those of [`Db::sync_wal`].
    pub async fn sync_wal(&self) -> Result<()> {
        self.run(Db::sync_wal).await
    }

    /// Has `work` done by a thread of the pool: compactions, checkpoints, transactions, whatever may block. It keeps that thread for as long as it takes; as much as
    /// [`io_threads`](AsyncDbOptions::io_threads) is done at once, and one thread more stays free for reads.
    ///
    /// # Errors
    ///
    /// Those of `work`; `Poisoned` if it panics; `Aborted` once the database is closing. If this future is dropped before a thread is free, the work is not done; afterwards it is.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce(&Db) -> Result<T> + Send + 'static) -> Result<T> {
        let shared = &*self.shared;
        let db = shared.db.clone();
        let errand = Arc::clone(&shared.errands).acquire_owned().await.map_err(|_| closing())?;
        // It may go on after this future is gone: whoever does it gives the permit back.
        let work = move || {
            let _errand = errand;
            work(&db)
        };
        shared.pool.ask(Priority::Medium, work).await?
    }

    /// Closes the database: [`Db::close`]. Tasks whose batches stand in line, on this handle or on a clone, get `Aborted`; so do all that write later. What is being written is.
    ///
    /// # Errors
    ///
    /// Those of [`Db::close`].
    pub async fn close(self) -> Result<()> {
        let shared = &*self.shared;
        shared.room.close();
        shared.low_room.close();
        shared.errands.close();
        shared.writes.close();
        shared.low_priority.close();
        let db = shared.db.clone();
        let (sender, closed) = oneshot::channel();
        // It is closed whether or not somebody waits for that.
        shared.pool.run(Priority::High, move || {
            let _ = sender.send(db.close());
        });
        Answer::new(closed).await?
    }
}
