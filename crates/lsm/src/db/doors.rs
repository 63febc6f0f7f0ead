//! What transactions need of a database beyond what users need.

use super::admission::closing;
use super::checked::{Check, Watched};
use super::ingest::ChangedTables;
use super::iter::OwnEntries;
use super::making_files::MakingFiles;
use super::memory::{ChargedTo, MemoryCharge};
use super::newest::Lookup;
use super::prepared::PreparedBatches;
use super::timestamps::refuse_writing;
use super::{ColumnFamily, Db, Handle, Iter, PinnedValue, open};
use crate::batch::WriteBatch;
use crate::file_names::FileName;
use crate::key::{InternalKeyComparator, SeqNo};
use crate::options::{ColumnFamilyOptions, DbOptions, IngestExternalFileOptions, ReadOptions, WriteOptions};
use crate::sst::TableReaderOptions;
use siltstone_base::Result;
use siltstone_base::env::IoPriority;
use siltstone_base::executor::Executor;
use siltstone_base::row_locks::RowLocks;
use siltstone_base::sync::Arc;
use std::path::{Path, PathBuf};

impl Db {
    /// Opens a database as [`open_families`](Self::open_families) does, that may have transactions which are prepared and not decided. They are prepared
    /// again when this returns: their names, and their entries.
    pub(crate) fn open_prepared(
        dir: &Path,
        options: &DbOptions,
        families: &[(&str, ColumnFamilyOptions)],
    ) -> Result<(Self, PreparedBatches)> {
        let (inner, prepared) = open::open_prepared(dir, options, families)?;
        Ok((Self { handle: Arc::new(Handle { inner }) }, prepared))
    }

    /// Who lets threads wait.
    pub(crate) fn executor(&self) -> &dyn Executor {
        &*self.handle.inner.executor
    }

    /// Fails if a family was dropped, or belongs to another database.
    pub(crate) fn check_family(&self, family: &ColumnFamily) -> Result<()> {
        self.handle.inner.check_readable(&family.0)
    }

    /// Fails unless tables may be taken into `family` now, as far as that can be told without them.
    pub(crate) fn check_loadable(&self, family: &ColumnFamily) -> Result<()> {
        self.handle.inner.check_writable()?;
        self.check_family(family)?;
        refuse_writing(&family.0.name, &family.0.options())
    }

    /// [`ingest_external_files`](Self::ingest_external_files), but `Busy` if the newest number is not `only_at` any more, where that is given.
    pub(crate) fn ingest_if(
        &self,
        family: &ColumnFamily,
        paths: &[&Path],
        options: &IngestExternalFileOptions,
        only_at: Option<SeqNo>,
    ) -> Result<SeqNo> {
        self.handle.inner.ingest(&family.0, paths, options, only_at)
    }

    /// What a batch has of its own for a key, unless it is expired for a read.
    pub(crate) fn shown(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        found: PinnedValue,
        options: &ReadOptions,
    ) -> Option<PinnedValue> {
        let inner = &self.handle.inner;
        match &family.0.expiry {
            None => Some(found),
            Some(expiry) => inner.unexpired(expiry, key, Some(found), inner.read_time(options)),
        }
    }

    /// An iterator that shows a batch's own entries over those of the database.
    pub(crate) fn iter_over(&self, family: &ColumnFamily, own: &OwnEntries<'_>, options: &ReadOptions) -> Result<Iter> {
        self.handle.inner.iter_over(&family.0, own, options)
    }

    /// Whether a key changed after `seqno`, of which a snapshot is held, or of an older state.
    pub(crate) fn is_changed_since(&self, family: &ColumnFamily, key: &[u8], seqno: SeqNo) -> Result<bool> {
        let pinned = family.0.super_version.load();
        self.handle.inner.is_changed_since(&family.0, &pinned, key, seqno, Lookup::Everywhere)
    }

    /// Writes `batch`, which may be empty, unless a watched key has changed: then fails with `Busy`.
    pub(crate) fn write_if_unchanged(
        &self,
        watched: Vec<Watched>,
        batch: &mut WriteBatch,
        options: &WriteOptions,
    ) -> Result<()> {
        self.handle.inner.write_if_unchanged(watched, batch, options)
    }

    /// Whether rows that are expired at `unix_seconds`, the time of a reader, are so whatever becomes of the clock.
    pub(crate) fn hides_for_good(&self, unix_seconds: u64) -> bool {
        self.handle.inner.hides_for_good(unix_seconds)
    }

    /// Fails while the time by which rows expire is not trusted.
    pub(crate) fn check_clock(&self) -> Result<()> {
        self.handle.inner.check_clock()
    }

    /// Charges memory that a transaction holds.
    pub(crate) fn charge(&self, to: ChargedTo) -> MemoryCharge {
        MemoryCharge::new(&self.handle.inner.transaction_memory, to)
    }

    /// Counts what locks of rows take among the holders of memory.
    pub(crate) fn count_locks(&self, locks: &Arc<RowLocks>) {
        self.handle.inner.transaction_memory.add_locks(locks);
    }

    /// Looks whether a watched key has changed, which is then `Busy`, for who has much to do before it commits.
    pub(crate) fn look_ahead(&self, watched: Vec<Watched>) -> Result<Check> {
        self.handle.inner.look_ahead(watched)
    }

    /// Whether somebody follows what is written by its WALs, or may later.
    pub(crate) fn is_followed(&self) -> bool {
        self.handle.inner.is_followed()
    }

    /// Begins tables that will be taken in, those of all families at once.
    pub(crate) fn changed_tables(&self) -> ChangedTables {
        ChangedTables::new(&self.handle.inner)
    }

    /// The path of a file that nobody has, and that the next opening removes if it is there then.
    pub(crate) fn temporary_path(&self) -> PathBuf {
        let inner = &self.handle.inner;
        FileName::Temporary(inner.file_numbers.allocate()).path(&inner.dir)
    }

    /// Removes a file of such a name, now or, if that fails, with others that nobody needs.
    pub(crate) fn remove_temporary(&self, path: &Path) {
        if self.env().remove_file(path).is_err() {
            self.handle.inner.delete_files(vec![path.to_path_buf()]);
        }
    }

    /// How a table is read that is part of no version, with keys in this order.
    pub(crate) fn reader_options(&self, comparator: InternalKeyComparator) -> TableReaderOptions {
        let inner = &self.handle.inner;
        TableReaderOptions {
            comparator,
            block_cache: Arc::clone(&inner.block_cache),
            block_pool: inner.block_pool.clone(),
            unique_id: None,
            largest_seqno: None,
            prefix_extractor: None,
            pin_filter_partitions: false,
            expiry: None,
            priority: IoPriority::User,
            metrics: Arc::clone(&inner.metrics),
        }
    }

    /// Keeps the database from being closed while files are made.
    ///
    /// # Errors
    ///
    /// `Aborted` if it is being closed already.
    pub(crate) fn make_files(&self) -> Result<MakingFiles> {
        self.handle.inner.make_files()
    }

    /// Fails with `Aborted` if somebody closes the database, or has closed it.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closing() { Err(closing()) } else { Ok(()) }
    }

    /// Whether somebody closes the database, or has closed it. What is in the directory may be another one's then.
    pub(crate) fn is_closing(&self) -> bool {
        self.handle.inner.is_closing()
    }
}
