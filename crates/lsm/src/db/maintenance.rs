//! What an operator asks of a database: flushing, compacting, taking tables in, holding work and deletions.

use super::{ColumnFamily, Db, LiveFiles};
use crate::key::SeqNo;
use crate::options::{CompactRangeOptions, FlushOptions, IngestExternalFileOptions, WaitForCompactOptions};
use siltstone_base::Result;
use siltstone_base::sync::Arc;
use std::path::Path;

impl Db {
    /// Writes the memtables of the default family to a table.
    pub fn flush(&self, options: &FlushOptions) -> Result<()> {
        self.flush_families(&[&self.default_family()], options)
    }

    /// Writes the memtables of several families to tables.
    pub fn flush_families(&self, families: &[&ColumnFamily], options: &FlushOptions) -> Result<()> {
        let families: Vec<_> = families.iter().map(|family| Arc::clone(&family.0)).collect();
        self.handle.inner.flush(&families, options)
    }

    /// Makes every write so far durable.
    pub fn sync_wal(&self) -> Result<()> {
        self.handle.inner.sync_wal()
    }

    /// Compacts the keys from `begin` (or the first) to `end` (or the last), both inclusive, of `family` down to the
    /// last level that has any of them.
    pub fn compact_range(
        &self,
        family: &ColumnFamily,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.handle.inner.compact_range(&family.0, begin, end, options)
    }

    /// Has the tables of `family` with keys from `begin` to `end`, both inclusive, rewritten in the background when nothing else is due, each one once: a filter that has changed sees their entries, and what is deleted
    /// comes nearer to its end. Returns at once; RocksDB's name. Tables of styles other than [`Leveled`](crate::CompactionStyle::Leveled) wait for their next compaction all the same, and what is in memtables for its flush. A suggestion is not remembered
    /// after the database is closed.
    ///
    /// # Errors
    ///
    /// `ColumnFamilyDropped`, and the error that made the engine read-only.
    pub fn suggest_compact_range(&self, family: &ColumnFamily, begin: &[u8], end: &[u8]) -> Result<()> {
        self.suggest_compact_ranges(family, &[(begin, end)])
    }

    /// The same of several ranges.
    pub(crate) fn suggest_compact_ranges<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        ranges: &[(K, K)],
    ) -> Result<()> {
        self.handle.inner.suggest_compact_ranges(&family.0, ranges)
    }

    /// Deletes the tables of `family` below level 0 whose keys all lie in `begin..end`, by an edit of the MANIFEST alone. Returns
    /// how many there were.
    ///
    /// Meant for ranges that nobody reads any more: older versions of keys may come back, and keys of the range that share
    /// a table with others, are in level 0 or in memtables stay. Iterators made before still see everything; reads at older snapshots do not.
    pub fn delete_files_in_range(&self, family: &ColumnFamily, begin: &[u8], end: &[u8]) -> Result<usize> {
        self.handle.inner.delete_files_in_range(&family.0, begin, end)
    }

    /// Makes tables from outside part of `family`, all of them or none: written by an [`SstFileWriter`](crate::SstFileWriter), or by RocksDB's. Their key
    /// ranges must not overlap each other. Each goes to the lowest level above which nothing overlaps it: with
    /// [`Fifo`](crate::CompactionStyle::Fifo), and while levels are merged with [`Universal`](crate::CompactionStyle::Universal) or [`Lazy`](crate::CompactionStyle::Lazy), to level 0. Durable when this returns, with every write before it. Each table has
    /// one sequence number for all its entries; returned is the largest, or 0 if they need none.
    ///
    /// What is in memtables of the family is flushed first where that is needed; writers wait for the end of it.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a file that is no such table, has another comparator or merge operator, or overlaps another; `Corruption`;
    /// `NotSupported` names what cannot be taken in. The database is then as it was.
    pub fn ingest_external_files(
        &self,
        family: &ColumnFamily,
        paths: &[impl AsRef<Path>],
        options: &IngestExternalFileOptions,
    ) -> Result<SeqNo> {
        let paths: Vec<&Path> = paths.iter().map(AsRef::as_ref).collect();
        self.handle.inner.ingest(&family.0, &paths, options, None)
    }

    /// Waits until no flush and no compaction is due or running.
    pub fn wait_for_background_work(&self) -> Result<()> {
        self.handle.inner.wait_until_idle()
    }

    /// The same, as the options say; with a flush first if they ask for it.
    ///
    /// Tables that are due again before they are done, because a period is shorter than what rewriting takes, keep it from returning: a timeout helps.
    ///
    /// # Errors
    ///
    /// `TimedOut`, `Aborted` where work is paused or the database closes, and the error that made the engine read-only.
    pub fn wait_for_compact(&self, options: &WaitForCompactOptions) -> Result<()> {
        self.handle.inner.wait_for_compact(options)
    }

    /// Flushes every family and compacts level 0, whatever its triggers say, as far as the style goes (of universal compaction, into one run), and waits until nothing is due any more: what
    /// [`drain_when_read_only_seconds`](crate::DbOptions::drain_when_read_only_seconds) does by itself once callers only read, at once. MyRocks calls it
    /// `rocksdb_force_flush_memtable_and_lzero_now`. Families without automatic compactions are only flushed. A write that comes meanwhile ends it early.
    ///
    /// # Errors
    ///
    /// `Aborted` while the database closes, and the error that made the engine read-only.
    pub fn drain(&self) -> Result<()> {
        self.handle.inner.drain_at_once()
    }

    /// Starts no new background jobs until [`resume_background_work`](Self::resume_background_work), and waits for those that run. Tables from outside, and transactions that go in as tables, whose turn among
    /// the writers comes while something is in memory that must be flushed first, fail with `Aborted` until then: others may write.
    pub fn pause_background_work(&self) -> Result<()> {
        self.handle.inner.pause()
    }

    /// Takes one [`pause_background_work`](Self::pause_background_work) back.
    pub fn resume_background_work(&self) {
        self.handle.inner.resume();
    }

    /// The files that the database is made of at this moment: who copies them, each up to its size, has the database as it was then. Writers wait for
    /// as long as it takes to list them; no I/O is done meanwhile.
    ///
    /// Files may be deleted as soon as they are not live any more, so whoever copies them calls
    /// [`disable_file_deletions`](Self::disable_file_deletions) first. [`Checkpoint`](crate::Checkpoint) does all of this.
    ///
    /// # Errors
    ///
    /// `ReadOnly` for a database that was opened for reading only, `Aborted` while the database closes and afterwards, and the error that made the engine read-only.
    pub fn live_files(&self) -> Result<LiveFiles> {
        let _making = self.make_files()?;
        self.handle.inner.live_files()
    }

    /// Keeps every live file until [`enable_file_deletions`](Self::enable_file_deletions) was called as often.
    pub fn disable_file_deletions(&self) {
        self.handle.inner.deletions.disable();
    }

    /// Takes one [`disable_file_deletions`](Self::disable_file_deletions) back; at the last, deletes what became obsolete.
    pub fn enable_file_deletions(&self) {
        let inner = &self.handle.inner;
        // Once somebody closes the database what is in the directory may be another one's, under the same numbers.
        if inner.deletions.enable()
            && let Ok(_making) = inner.make_files()
        {
            inner.delete_obsolete_files();
        }
    }
}
