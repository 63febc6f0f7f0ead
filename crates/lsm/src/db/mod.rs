//! The database: the only room that owns locks, jobs and the order of publication.
//!
//! Path: put 1/5. After: db/write.rs.
//! Path: get 1/7. After: db/read.rs.

mod admission;
mod approximate;
mod archive;
mod attached;
#[cfg(feature = "tokio")]
mod attend;
mod background;
mod check;
mod checked;
mod close;
mod column_family;
mod compact;
mod compaction_log;
mod company;
mod delete_files;
mod directory;
mod doors;
mod error_state;
mod expiry;
mod families;
mod flush;
mod ingest;
mod insert;
mod io_rate;
mod iter;
mod kept_logs;
mod key_versions;
mod live_files;
mod lost_files;
mod maintenance;
mod making_files;
mod manual;
mod memory;
mod memtable_limit;
mod memtable_switch;
mod merge_operators;
mod multi_get;
mod newest;
mod next_limit;
mod next_wal;
mod obsolete_files;
mod open;
mod open_tables;
mod options_file;
mod pacing;
mod pacing_watch;
mod pins;
mod prefix_walk;
mod prepare_again;
mod prepared;
mod prepared_logs;
mod prepared_updates;
mod properties;
mod ranges;
mod read;
mod read_only_turn;
mod recovery;
mod reports;
mod resolve;
mod set_options;
mod state;
mod statistics;
mod subcompactions;
mod super_version;
mod surroundings;
mod table_files;
#[cfg(test)]
mod tests;
mod timestamps;
mod unchanged;
mod updates;
mod wal_damage;
mod wal_lag;
mod wal_note;
mod wal_promise;
mod wal_sync;
mod write;
mod write_controller;
mod write_group;
mod write_queue;
mod write_stall;

pub use approximate::ApproximateSize;
pub(crate) use archive::FOLDER as WAL_ARCHIVE;
pub(crate) use attached::{AttachedWork, PendingWrite, UpkeepMeter};
pub use check::TreeReport;
pub(crate) use checked::Watched;
pub use column_family::ColumnFamily;
pub use compaction_log::CompactionRecord;
pub use expiry::{ExpiryBlocker, ExpiryReport, TableExpiryReport};
pub(crate) use ingest::{ChangedTables, Depth};
pub(crate) use io_rate::Moved;
pub use iter::Iter;
pub(crate) use iter::{FIRST_OWN_SEQNO, OWN_SEQNOS, OwnEntries};
pub use live_files::{LiveFile, LiveFileKind, LiveFiles};
pub(crate) use making_files::MakingFiles;
pub use memory::MemoryReport;
pub(crate) use memory::{ChargedTo, MemoryCharge};
pub(crate) use open_tables::OpenTables;
pub use pins::{IterPins, PinnedState};
pub use read::PinnedValue;
pub use table_files::TableFile;
pub(crate) use unchanged::Moment;
pub use updates::{UpdateBatch, Updates};

use crate::batch::WriteBatch;
use crate::key::SeqNo;
use crate::options::{ColumnFamilyOptions, DbOptions, LoadedOptions, ReadOptions, WriteOptions};
use crate::snapshot::Snapshot;
use crate::wide_columns::WideColumn;
use siltstone_base::Result;
use siltstone_base::env::Env;
use siltstone_base::sync::Arc;
use state::DbInner;
use std::cell::RefCell;
use std::path::Path;

/// An open database.
///
/// Cheap to clone; all clones are the same database, which closes when the last one is dropped.
/// [`close`](Self::close) does the same and returns what went wrong.
///
/// Thread safety: every method may be called from any thread.
#[derive(Debug, Clone)]
pub struct Db {
    handle: Arc<Handle>,
}

/// Closes the database when the user's last clone is gone; jobs hold the inner part alone.
#[derive(Debug)]
struct Handle {
    inner: Arc<DbInner>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Whoever wants to see the error calls `close`, and whoever wants to wait for another who closes.
        let _ = self.inner.close_first();
    }
}

thread_local! {
    /// The batch of single puts and deletes, kept for its memory.
    static SINGLE: RefCell<WriteBatch> = const { RefCell::new(WriteBatch::new()) };
}

impl Db {
    /// Opens the database in `dir` with the options' [`unnamed_families`](DbOptions::unnamed_families) for every column family that it has.
    pub fn open(dir: impl AsRef<Path>, options: &DbOptions) -> Result<Self> {
        Self::open_families(dir, options, &[])
    }

    /// Opens the database in `dir`. `families` gives the options of families by name; one that it does not name gets
    /// [`unnamed_families`](DbOptions::unnamed_families).
    ///
    /// # Errors
    ///
    /// `Locked` if it is open already, `InvalidArgument` for a bad option, a family named twice, or one whose comparator or merge operator has another name than the one that it was
    /// written with (both are named), `Corruption` or `MissingFile` with the file
    /// if the directory is damaged, `NotFound` for a named family that does not exist (unless
    /// [`create_missing_column_families`](DbOptions::create_missing_column_families) is set).
    pub fn open_families(
        dir: impl AsRef<Path>,
        options: &DbOptions,
        families: &[(&str, ColumnFamilyOptions)],
    ) -> Result<Self> {
        let inner = open::open(dir.as_ref(), options, families)?;
        Ok(Self { handle: Arc::new(Handle { inner }) })
    }

    /// Opens the database in `dir` for reading only. What it shows is of one moment if nobody writes the directory meanwhile, as seen through the environment of `options`.
    pub(crate) fn open_read_only_in_place(
        dir: &Path,
        options: &DbOptions,
        families: &[(&str, ColumnFamilyOptions)],
    ) -> Result<Self> {
        let inner = open::open_read_only(dir, options, families, None)?;
        Ok(Self { handle: Arc::new(Handle { inner }) })
    }

    /// The same, with every table open before a WAL is replayed, so that all can be read after somebody else has deleted them. `open` has those that an earlier opening or attempt
    /// opened, and afterwards those of this one; if it fails, those that it got so far, too.
    pub(crate) fn open_read_only_with_tables(
        dir: &Path,
        options: &DbOptions,
        families: &[(&str, ColumnFamilyOptions)],
        open: &mut OpenTables,
    ) -> Result<Self> {
        let inner = open::open_read_only(dir, options, families, Some(&mut *open))?;
        open.keep_those_of(&inner);
        Ok(Self { handle: Arc::new(Handle { inner }) })
    }

    /// The names of the column families of the database in `dir`, if nobody writes the directory meanwhile, as seen through the environment of `options`.
    pub(crate) fn list_column_families_in_place(dir: &Path, options: &DbOptions) -> Result<Vec<String>> {
        open::list_column_families(dir, options)
    }

    /// What the newest OPTIONS file of the database in `dir` says; the database need not be open. Only the environment of `options` is
    /// used.
    ///
    /// # Errors
    ///
    /// `MissingFile` if there is none; `Corruption` with the file and the line.
    pub fn load_latest_options(dir: impl AsRef<Path>, options: &DbOptions) -> Result<LoadedOptions> {
        open::load_latest_options(dir.as_ref(), options)
    }

    /// Sets `key` to `value` in the default family.
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write_single(&WriteOptions::default(), |batch| batch.put(key, value))
    }

    /// Sets `key` to `value` in `family`.
    pub fn put_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.handle.inner.check_handle(&family.0)?;
        self.write_single(options, |batch| batch.put_cf(family, key, value))
    }

    /// Deletes `key` from the default family.
    #[inline]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_single(&WriteOptions::default(), |batch| batch.delete(key))
    }

    /// Deletes `key` from `family`.
    pub fn delete_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.handle.inner.check_handle(&family.0)?;
        self.write_single(options, |batch| batch.delete_cf(family, key))
    }

    /// Merges `operand` into the value of `key` in the default family, whose [`merge_operator`](ColumnFamilyOptions::merge_operator) puts them
    /// together. Reads nothing.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the family has no merge operator, and those of [`write`](Self::write).
    #[inline]
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.write_single(&WriteOptions::default(), |batch| batch.merge(key, operand))
    }

    /// Merges `operand` into the value of `key` in `family`.
    pub fn merge_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.handle.inner.check_handle(&family.0)?;
        self.write_single(options, |batch| batch.merge_cf(family, key, operand))
    }

    /// Deletes `key`, which was put once since it was last single-deleted, from the default family. [`WriteBatch::single_delete`] says what must hold.
    #[inline]
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_single(&WriteOptions::default(), |batch| batch.single_delete(key))
    }

    /// [`single_delete`](Self::single_delete) in `family`.
    pub fn single_delete_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.handle.inner.check_handle(&family.0)?;
        self.write_single(options, |batch| batch.single_delete_cf(family, key))
    }

    /// Deletes every key from `begin` to `end`, exclusive, from the default family, by one entry however many they are.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `end` is before `begin` in the family's order; equal keys delete nothing. Otherwise those of [`write`](Self::write).
    pub fn delete_range(&self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.write_single(&WriteOptions::default(), |batch| batch.delete_range(begin, end))
    }

    /// [`delete_range`](Self::delete_range) in `family`.
    pub fn delete_range_cf(
        &self,
        family: &ColumnFamily,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.handle.inner.check_handle(&family.0)?;
        self.write_single(options, |batch| batch.delete_range_cf(family, begin, end))
    }

    /// Applies a batch, all of it or nothing, over all its families. The batch can be used again.
    ///
    /// # Errors
    ///
    /// `ReadOnly` after a fatal background error, `NoSpace` while the device is full, `Incomplete` where
    /// [`no_slowdown`](WriteOptions::no_slowdown) forbids to wait, `NotFound` for a family that does not exist, `InvalidArgument` for a merge in
    /// a family without an operator. After an error none of the batch is
    /// visible; after a failed sync it may be there once the database is opened again.
    #[inline]
    pub fn write(&self, batch: &mut WriteBatch, options: &WriteOptions) -> Result<()> {
        self.handle.inner.write(batch, options)
    }

    /// The value of `key` in the default family, or `None`.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        let inner = &self.handle.inner;
        inner.get(&inner.default_family, key.as_ref(), &inner.default_read_options)
    }

    /// The value of `key` in `family`, or `None`.
    #[inline]
    pub fn get_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<PinnedValue>> {
        self.handle.inner.get(&family.0, key.as_ref(), options)
    }

    /// Whether `key` may have a value in `family`. `false` is certain; `true` is what memtables, filters and cached blocks do not rule out. No block of a
    /// table is read.
    pub fn key_may_exist(&self, family: &ColumnFamily, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<bool> {
        self.handle.inner.key_may_exist(&family.0, key.as_ref(), options)
    }

    /// The values of `keys` in `family`, all as of the same moment. What tables must read for them is read together, so that the device has several requests at a time; an
    /// error is that of the keys that need what could not be read.
    pub fn multi_get_cf(
        &self,
        family: &ColumnFamily,
        keys: &[&[u8]],
        options: &ReadOptions,
    ) -> Vec<Result<Option<PinnedValue>>> {
        self.handle.inner.multi_get(&family.0, keys, options)
    }

    /// The columns of `key` in `family`, in order of their names, or `None`. A plain value is the one column with the empty name, which of an
    /// entity is what [`get`](Self::get) shows.
    pub fn get_entity_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<Vec<WideColumn>>> {
        self.handle.inner.get_entity(&family.0, key.as_ref(), options)
    }

    /// An iterator over the default family.
    pub fn iter(&self, options: &ReadOptions) -> Result<Iter> {
        self.handle.inner.iter(&self.handle.inner.default_family, options)
    }

    /// An iterator over `family`.
    pub fn iter_cf(&self, family: &ColumnFamily, options: &ReadOptions) -> Result<Iter> {
        self.handle.inner.iter(&family.0, options)
    }

    /// Iterators over several families that show the same moment.
    pub fn iters(&self, families: &[&ColumnFamily], options: &ReadOptions) -> Result<Vec<Iter>> {
        let families: Vec<_> = families.iter().map(|family| &*family.0).collect();
        self.handle.inner.iters(&families, options)
    }

    /// The state of all families at this moment.
    pub fn snapshot(&self) -> Snapshot {
        let inner = &self.handle.inner;
        inner.snapshots.acquire(|| inner.visible())
    }

    /// Says that the wall clock is right, though it went forward far before the database was opened, or while it is open: rows expire by it from now on, and are removed.
    /// See [`max_clock_jump_seconds`](DbOptions::max_clock_jump_seconds).
    ///
    /// # Errors
    ///
    /// `ReadOnly`, and those of writing a file: then the time is trusted until the database is closed.
    pub fn confirm_clock(&self) -> Result<()> {
        self.handle.inner.confirm_clock()
    }

    /// The largest sequence number that a read sees now.
    pub fn latest_seqno(&self) -> SeqNo {
        self.handle.inner.visible()
    }

    /// The default family.
    pub fn default_family(&self) -> ColumnFamily {
        ColumnFamily(Arc::clone(&self.handle.inner.default_family))
    }

    /// The family of this name.
    pub fn family(&self, name: &str) -> Option<ColumnFamily> {
        let families = self.handle.inner.families.load();
        families.values().find(|family| family.name == name).map(|family| ColumnFamily(Arc::clone(family)))
    }

    /// All families, in the order of their numbers.
    pub fn families(&self) -> Vec<ColumnFamily> {
        self.handle.inner.families.load().values().cloned().map(ColumnFamily).collect()
    }

    /// Creates a family.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`, `InvalidArgument` for a bad option, and errors of the MANIFEST.
    pub fn create_family(&self, name: &str, options: &ColumnFamilyOptions) -> Result<ColumnFamily> {
        self.handle.inner.create_family(name, options).map(ColumnFamily)
    }

    /// Changes options of `family` by their names, to values as an OPTIONS file has them: all of them or, after an error, none. They hold from now on, and
    /// a new OPTIONS file says so; a compaction that runs ends with the old ones.
    ///
    /// What RocksDB lets change may change, and moreover [`compaction_style`](ColumnFamilyOptions::compaction_style): the new one goes on from
    /// the tree that it finds. Parts of an option that has some are changed alone: `("compaction_options_universal", "{size_ratio=5;}")`, or
    /// `("compaction_options_universal.size_ratio", "5")`. The layout of tables changes for those that come next, but for what readers hold
    /// ([`pin_filter_partitions`](crate::TableOptions::pin_filter_partitions)): as `("block_size", "8K")`, or as RocksDB writes it, `("block_based_table_factory", "{block_size=8192;}")`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names an option that cannot change while the database is open, a value that is none of it, or a bound; and the FIFO style for a family that keeps the rows or the
    /// indexes of tables, whose entries must not go by themselves. `NotSupported` names an option or a value that this engine does not have. After an error of I/O the options hold, and the next change writes the file.
    pub fn set_options(&self, family: &ColumnFamily, changes: &[(&str, &str)]) -> Result<()> {
        self.handle.inner.set_options(&family.0, changes)
    }

    /// The same for options of the database.
    pub fn set_db_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.handle.inner.set_db_options(changes)
    }

    /// The options of the database, as they are now.
    pub fn options(&self) -> Arc<DbOptions> {
        self.handle.inner.live_options.load_full()
    }

    /// Drops a family: it is gone at once, and its files are deleted when the last reader lets them go.
    pub fn drop_family(&self, family: &ColumnFamily) -> Result<()> {
        self.handle.inner.drop_family(&family.0)
    }

    /// The directory of the database.
    pub fn dir(&self) -> &Path {
        &self.handle.inner.dir
    }

    /// The environment that the database does its I/O through.
    pub(crate) fn env(&self) -> &Arc<dyn Env> {
        &self.handle.inner.env
    }

    /// Who holds memory of the database outside of it.
    pub(crate) fn holders(&self) -> &Arc<crate::holders::Holders> {
        &self.handle.inner.holders
    }

    /// Seconds since 1970, by the clock of the database.
    pub(crate) fn unix_seconds(&self) -> u64 {
        self.handle.inner.clock.unix_seconds()
    }

    /// Opens every table.
    #[cfg(test)]
    pub(crate) fn open_tables_for_test(&self) -> Result<()> {
        let mut open = OpenTables::default();
        self.handle.inner.families.load().values().try_for_each(|family| open.open_all(family))
    }

    /// The batches that were written from the entry of number `seqno` on, in order, as the WALs have them; those that are written later follow.
    ///
    /// While the result exists no file of the database is deleted, so that nothing of what follows gets lost.
    ///
    /// # Errors
    ///
    /// `NotFound` if the entry of that number is in no WAL any more, or never was: it was flushed and its WAL deleted, written without the WAL, or taken in
    /// with a table.
    pub fn updates_since(&self, seqno: SeqNo) -> Result<Updates> {
        Updates::since(self, seqno)
    }

    /// Stops background work, makes the WAL durable and gives the directory's lock back. Where another clone is being closed, waits until
    /// that is done. On other clones writes and
    /// all else that changes the database fail with `Aborted` from now on; reads go on until their clones and iterators are dropped, but may
    /// miss files once somebody else has opened the directory.
    pub fn close(self) -> Result<()> {
        self.handle.inner.close()
    }

    #[inline]
    fn write_single(&self, options: &WriteOptions, fill: impl FnOnce(&mut WriteBatch)) -> Result<()> {
        // The batch is taken out while it is used: a listener that writes again then gets one of its own.
        let mut batch = SINGLE.with(|single| std::mem::take(&mut *single.borrow_mut()));
        batch.clear();
        fill(&mut batch);
        let outcome = self.handle.inner.write(&mut batch, options);
        if batch.size_bytes() <= 1 << 20 {
            SINGLE.with(|single| *single.borrow_mut() = batch);
        }
        outcome
    }
}
