//! Bulk load: rows in any order become tables, and those part of a database at once.
//!
//! Steps: rows that ascend go straight into tables; from the first that does not on, rows are gathered in memory, and sorted into a run of tables whenever there
//! are too many. At the end the runs are merged, a limited number of them at a time, unless each ends before the next begins; then all tables are taken in by one edit
//! of the MANIFEST. Of rows with one key the last one counts, or it is refused.
//!
//! What fails once has failed: a step that could not be done may have lost rows that it had in hand, so every later call fails, too.

mod merge;
mod run;
#[cfg(test)]
mod tests;

use crate::batch::{MAX_KEY_LEN, MAX_VALUE_LEN};
use crate::db::{ColumnFamily, Db};
use crate::holders::{Held, Holder};
use crate::key::{InternalKeyComparator, SeqNo};
use crate::options::{ColumnFamilyOptions, DbOptions, IngestExternalFileOptions, ReadOptions};
use merge::Merge;
use run::{Run, RunWriter};
use siltstone_base::env::create_dir_durably;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Runs that are merged at a time: so many files are open, each with its buffer for reading ahead.
const MOST_MERGED_RUNS: usize = 64;

siltstone_base::define_options! {
    /// How rows are loaded.
    BulkLoadOptions {
        /// Bytes of rows that are sorted in memory at a time.
        sort_buffer_bytes: usize = 64 << 20,
        /// Fails with `AlreadyExists` if two rows have one key, or if the family has a row of a key already. The family is looked through at the end, so
        /// nobody else may write such keys meanwhile.
        unique: bool = false,
        /// Older snapshots never see the rows, and optimistic transactions that looked for one of them before fail with `Busy`. Without, the rows have no sequence number where they
        /// overlap nothing: they appear in the middle of snapshots and transactions that are open, and no memtable is flushed for their sake.
        snapshot_consistency: bool = true,
    }
}

/// Loads rows into one family.
///
/// Others may read and write meanwhile. What they write before the load [ends](Self::finish) counts as older than its rows. The load takes no locks of transactions.
///
/// ```
/// use siltstone_lsm::{BulkLoadOptions, BulkLoader, Db, DbOptions};
///
/// # fn main() -> siltstone_lsm::Result<()> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// let db = Db::open(dir.path().join("db"), &DbOptions::default().create_if_missing(true))?;
/// let mut loader = BulkLoader::new(&db, &db.default_family(), dir.path().join("sorting"), &BulkLoadOptions::default())?;
/// for (rock, kind) in [("shale", "sedimentary"), ("gneiss", "metamorphic"), ("tuff", "igneous")] {
///     loader.put(rock, kind)?;
/// }
/// loader.finish()?;
/// assert_eq!(db.get("gneiss")?.as_deref(), Some(&b"metamorphic"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BulkLoader {
    db: Db,
    family: ColumnFamily,
    options: BulkLoadOptions,
    work: WorkDirectory,
    order: InternalKeyComparator,
    /// Rows that came in ascending order from the first one on.
    ascending: Option<RunWriter>,
    /// Sorted runs, oldest first.
    runs: Vec<Run>,
    /// Rows that wait to be sorted, oldest first.
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    row_bytes: usize,
    /// What those take, for the report of holders.
    held: Held,
    /// What went wrong; then rows may be missing.
    failed: Option<Error>,
}

/// Where tables are written before they are taken in. What is left of them goes with it.
#[derive(Debug)]
struct WorkDirectory {
    dir: PathBuf,
    /// For the environment.
    options: DbOptions,
    family: ColumnFamilyOptions,
    made: u64,
    db: Db,
}

impl WorkDirectory {
    /// The path of the next table.
    fn next_path(&mut self) -> PathBuf {
        self.made += 1;
        self.path(self.made)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number}.load"))
    }

    /// Deletes the tables of runs that are part of others now.
    fn remove(&self, runs: &[Run]) {
        for path in runs.iter().flat_map(|run| &run.tables) {
            // One that stays goes with the directory.
            let _ = self.db.env().remove_file(path);
        }
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        for number in 1..=self.made {
            // Tables that were taken in are there under their new names; those of merged runs are gone.
            let _ = self.db.env().remove_file(&self.path(number));
        }
        let _ = self.db.env().remove_dir(&self.dir);
    }
}

impl BulkLoader {
    /// Begins a load into `family`. `dir` is where rows are sorted: a directory that does not exist or is empty, best on the same file system as the
    /// database. It is removed at the end.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if there is something in `dir`, `InvalidArgument` for a family of another database, `NotFound` for one that was dropped, `NotSupported` for one whose keys have
    /// timestamps, `ReadOnly` where nothing may be written, errors of I/O.
    pub fn new(db: &Db, family: &ColumnFamily, dir: impl AsRef<Path>, options: &BulkLoadOptions) -> Result<Self> {
        db.check_loadable(family)?;
        let dir = dir.as_ref().to_path_buf();
        let env = db.env();
        create_dir_durably(&**env, &dir).map_err(|error| Error::io("create", &dir, error))?;
        if !env.list_dir(&dir).map_err(|error| Error::io("list", &dir, error))?.is_empty() {
            return Err(Error::new(ErrorKind::AlreadyExists, "the directory is not empty").with_file(&dir));
        }
        let family_options = ColumnFamilyOptions::clone(&family.options());
        let order = InternalKeyComparator::new(Arc::clone(&family_options.comparator));
        let db_options = DbOptions::default().env(Some(Arc::clone(env)));
        let work = WorkDirectory { dir, options: db_options, family: family_options, made: 0, db: db.clone() };
        let ascending = Some(RunWriter::new(&order));
        let held = db.holders().charge(Holder::Loads);
        let (db, family, options) = (db.clone(), family.clone(), options.clone());
        Ok(Self {
            db,
            family,
            options,
            work,
            order,
            ascending,
            runs: Vec::new(),
            rows: Vec::new(),
            row_bytes: 0,
            held,
            failed: None,
        })
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a key or a value that is too long: that row is not part of the load, which goes on. After any other error the load has failed, and every later call returns an error of the same
    /// kind: `AlreadyExists` where rows are [unique](BulkLoadOptions::unique) and two of those that were added so far have one key, errors of I/O.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.check_sound()?;
        if key.len() > MAX_KEY_LEN || value.len() > MAX_VALUE_LEN {
            return Err(Error::invalid_argument("a key or a value that is too long"));
        }
        let added = self.add(key, value);
        self.failed = added.as_ref().err().cloned();
        added
    }

    /// Fails once anything has failed.
    fn check_sound(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |cause| {
            Err(Error::new(cause.kind(), "the load failed before, and lacks rows").with_source(cause.clone()))
        })
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if let Some(ascending) = &mut self.ascending {
            if ascending.goes_before(key) {
                return ascending.put(&mut self.work, key, value);
            }
            self.end_ascending()?;
        }
        self.row_bytes = self.row_bytes.saturating_add(key.len() + value.len() + 2 * size_of::<Vec<u8>>());
        self.rows.push((key.to_vec(), value.to_vec()));
        self.held.set(self.row_bytes as u64);
        if self.row_bytes >= self.options.sort_buffer_bytes { self.write_run() } else { Ok(()) }
    }

    /// Makes all rows part of the database, durably: all of them or, after an error, none. Returns the largest sequence number; 0 if they need none.
    ///
    /// # Errors
    ///
    /// That of an earlier call, if one failed; `AlreadyExists` where rows are [unique](BulkLoadOptions::unique) and are not; those of
    /// [`ingest_external_files`](Db::ingest_external_files).
    pub fn finish(self) -> Result<SeqNo> {
        self.finish_if(None)
    }

    /// The same, but `Busy` if the number of the newest entry is not `only_at`, where that is given, when the rows are to come in.
    pub(crate) fn finish_if(mut self, only_at: Option<SeqNo>) -> Result<SeqNo> {
        self.check_sound()?;
        self.end_ascending()?;
        self.write_run()?;
        let runs = std::mem::take(&mut self.runs);
        let tables = if are_apart(&self.order, &runs) { runs } else { vec![self.merge(runs)?] };
        if self.options.unique {
            self.check_absent(&tables)?;
        }
        let paths: Vec<&Path> = tables.iter().flat_map(|run| &run.tables).map(PathBuf::as_path).collect();
        let options = IngestExternalFileOptions::default()
            .link_files(true)
            .snapshot_consistency(self.options.snapshot_consistency)
            // They were just written.
            .verify_checksums_before_ingest(false);
        self.db.ingest_if(&self.family, &paths, &options, only_at)
    }

    fn end_ascending(&mut self) -> Result<()> {
        if let Some(run) = self.ascending.take().map(RunWriter::finish).transpose()?.flatten() {
            self.runs.push(run);
        }
        Ok(())
    }

    /// Sorts the rows that wait into a run.
    fn write_run(&mut self) -> Result<()> {
        let mut rows = std::mem::take(&mut self.rows);
        self.row_bytes = 0;
        let order = &self.order;
        // Stable: of one key the last row comes last.
        rows.sort_by(|a, b| order.compare_user(&a.0, &b.0));
        let mut writer = RunWriter::new(order);
        let mut rows = rows.into_iter().peekable();
        while let Some((key, value)) = rows.next() {
            if rows.peek().is_some_and(|(next, _)| order.compare_user(&key, next).is_eq()) {
                self.refuse_second()?;
                continue;
            }
            writer.put(&mut self.work, &key, &value)?;
        }
        self.held.set(0);
        if let Some(run) = writer.finish()? {
            self.runs.push(run);
        }
        Ok(())
    }

    /// Merges runs, of which later ones are newer, into one.
    fn merge(&mut self, mut runs: Vec<Run>) -> Result<Run> {
        let mut at = 0;
        while runs.len() > MOST_MERGED_RUNS {
            // As few of them as leave what one pass takes, and neighbours: the result is as old as they are.
            let count = (runs.len() - MOST_MERGED_RUNS + 1).min(MOST_MERGED_RUNS);
            if at + count > runs.len() {
                at = 0;
            }
            let group: Vec<Run> = runs.drain(at..at + count).collect();
            runs.insert(at, self.merge_at_once(&group)?);
            at += 1;
        }
        self.merge_at_once(&runs)
    }

    /// Merges runs that are few enough to be open at the same time. Their tables go.
    fn merge_at_once(&mut self, runs: &[Run]) -> Result<Run> {
        let mut writer = RunWriter::new(&self.order);
        let mut merge = Merge::new(runs, &self.work, &self.order)?;
        while let Some(row) = merge.next()? {
            // Whoever closes the database may wait for the end of this.
            self.db.check_open()?;
            if row.hid_others {
                self.refuse_second()?;
            }
            writer.put(&mut self.work, &row.key, &row.value)?;
        }
        let merged = writer.finish()?.unwrap_or_default();
        drop(merge);
        self.work.remove(runs);
        Ok(merged)
    }

    fn refuse_second(&self) -> Result<()> {
        match self.options.unique {
            true => Err(Error::new(ErrorKind::AlreadyExists, "two rows of a load have one key")),
            false => Ok(()),
        }
    }

    /// Fails if the family has a key of the tables.
    fn check_absent(&self, runs: &[Run]) -> Result<()> {
        let mut known = self.db.iter_cf(&self.family, &ReadOptions::default().fill_cache(false))?;
        for run in runs {
            let mut merge = Merge::new(std::slice::from_ref(run), &self.work, &self.order)?;
            let mut is_begun = false;
            while let Some(row) = merge.next()? {
                self.db.check_open()?;
                let is_before = known.valid() && self.order.compare_user(known.key(), &row.key).is_lt();
                if !is_begun || is_before {
                    is_begun = true;
                    known.seek(&row.key);
                }
                if !known.valid() {
                    known.status()?;
                    break;
                }
                if self.order.compare_user(known.key(), &row.key).is_eq() {
                    return Err(Error::new(ErrorKind::AlreadyExists, "the family has a row of a key of the load"));
                }
            }
        }
        Ok(())
    }
}

/// Whether no two runs overlap.
fn are_apart(order: &InternalKeyComparator, runs: &[Run]) -> bool {
    let mut bounds: Vec<(&[u8], &[u8])> = runs.iter().map(|run| (&*run.smallest, &*run.largest)).collect();
    bounds.sort_by(|a, b| order.compare_user(a.0, b.0));
    bounds.windows(2).all(|pair| matches!(pair, [first, second] if order.compare_user(first.1, second.0).is_lt()))
}
