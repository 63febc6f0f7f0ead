//! Deletes files that nobody needs any more: tables and blob files that no version lists, WALs that no family needs, old MANIFESTs.

use super::state::{DbInner, ObsoleteWal};
use crate::file_names::FileName;
use crate::metrics::Counter;
use siltstone_base::env::DirEntry;
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::sync::{Arc, Mutex, Rank};
use siltstone_base::{Error, Result};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Obsolete WALs whose sizes are remembered after they were deleted, while nobody keeps files.
const OBSOLETE_WALS: usize = 64;

/// Rank of the list: taken under the state lock.
const RANK: Rank = Rank(350);

/// What may be deleted, and whether anything may.
///
/// [`disable`](Self::disable) is what checkpoints, backups and tailing of the WAL stand on: while it is in force, every file that was
/// live when it was called stays.
#[derive(Debug)]
pub(crate) struct FileDeletions {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    disabled: usize,
    pending: Vec<PathBuf>,
}

impl FileDeletions {
    pub(crate) fn new() -> Self {
        Self { inner: Mutex::new(RANK, Inner::default()) }
    }

    /// Keeps every file until [`enable`](Self::enable) was called as often.
    pub(crate) fn disable(&self) {
        self.inner.lock().disabled += 1;
    }

    /// Takes one [`disable`](Self::disable) back. Returns whether files may be deleted now.
    pub(crate) fn enable(&self) -> bool {
        let mut inner = self.inner.lock();
        inner.disabled = inner.disabled.saturating_sub(1);
        inner.disabled == 0
    }

    /// Whether files may be deleted.
    pub(crate) fn is_enabled(&self) -> bool {
        self.inner.lock().disabled == 0
    }

    /// Adds files, and takes what may be deleted now.
    fn add_and_take(&self, files: Vec<PathBuf>) -> Vec<PathBuf> {
        let mut inner = self.inner.lock();
        inner.pending.extend(files);
        if inner.disabled == 0 { std::mem::take(&mut inner.pending) } else { Vec::new() }
    }

    /// Puts a file back that could not be deleted.
    fn put_back(&self, file: PathBuf) {
        self.inner.lock().pending.push(file);
    }
}

/// Deletes obsolete tables behind a flush, one in a step: to delete one may take longer than the next flush shall wait for the thread that is kept for it.
struct DeleteJob {
    db: Arc<DbInner>,
}

impl Job for DeleteJob {
    fn name(&self) -> &'static str {
        "deletion"
    }

    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        // Nothing is taken while the MANIFEST is broken; who mends it deletes all.
        match self.db.delete_obsolete(1) > 0 && !self.db.obsolete_tables.is_empty() {
            true => Progress::More,
            false => Progress::Done,
        }
    }

    fn poisoned(&mut self, message: &str) {
        self.db.fail_poisoned(self.name(), message);
    }
}

impl Drop for DeleteJob {
    fn drop(&mut self) {
        self.db.job_ended();
    }
}

impl DbInner {
    /// Deletes what became obsolete. The caller holds no lock.
    ///
    /// While the outcome of the last append to the MANIFEST is unknown nothing is deleted: what looks obsolete may be what
    /// the MANIFEST on disk names.
    pub(crate) fn delete_obsolete_files(&self) {
        self.delete_obsolete(usize::MAX);
    }

    /// The same for a flush that ends, but for tables, which a job of their own deletes soon. It counts before the flush does not any more.
    pub(crate) fn delete_obsolete_files_of_flush(self: &Arc<Self>) {
        self.delete_obsolete(0);
        if !self.read_only && !self.obsolete_tables.is_empty() {
            self.state.lock().ending_jobs += 1;
            self.executor.submit(Priority::Low, Box::new(DeleteJob { db: Arc::clone(self) }));
        }
    }

    /// Deletes what became obsolete, and of tables and blob files so many at most. Returns how many these were.
    fn delete_obsolete(&self, most_tables: usize) -> usize {
        if self.read_only {
            return 0;
        }
        let mut files = Vec::new();
        let (manifest_number, kept_log) = {
            let versions = self.versions.lock();
            if versions.is_manifest_broken() {
                return 0;
            }
            // Under the lock: what an edit that fails from now on may have named comes to the list later.
            while files.len() < most_tables
                && let Some(name) = self.obsolete_tables.pop()
            {
                if let FileName::Blob(number) = name {
                    self.blob_files.forget(number);
                }
                files.push(name.path(&self.dir));
            }
            (versions.manifest_number(), versions.min_log_number_to_keep())
        };
        let tables = files.len();
        files.extend(self.obsolete_manifests(manifest_number));
        files.extend(self.take_obsolete_wals(kept_log));
        self.delete_files(files);
        self.purge_archive();
        tables
    }

    /// Deletes `files`, now or when files may be deleted again.
    pub(crate) fn delete_files(&self, files: Vec<PathBuf>) {
        for file in self.deletions.add_and_take(files) {
            self.delete_file(&file);
        }
    }

    /// The MANIFESTs before `current`, when it is a new one. The directory is listed only then.
    fn obsolete_manifests(&self, current: u64) -> Vec<PathBuf> {
        if self.deleted_manifests_below.swap(current, Ordering::AcqRel) == current {
            return Vec::new();
        }
        let names = self.env.list_dir(&self.dir).unwrap_or_default();
        let old = |entry: DirEntry| match FileName::parse(&entry.name) {
            Some(name @ FileName::Manifest(number)) if number < current => Some(name.path(&self.dir)),
            _ => None,
        };
        names.into_iter().filter_map(old).collect()
    }

    /// Deletes what an earlier process left behind: tables and blob files that no version lists, WALs that were replayed, old MANIFESTs
    /// and temporary files. The caller has just opened the database.
    pub(crate) fn delete_leftovers(&self) -> Result<()> {
        let (live, manifest_number): (HashSet<u64>, u64) = {
            let versions = self.versions.lock();
            (versions.listed_files().collect(), versions.manifest_number())
        };
        let wal_number = self.state.lock().wals.front().map_or(0, |wal| wal.number);
        let entries = self.env.list_dir(&self.dir).map_err(|error| Error::io("list", &self.dir, error))?;
        let mut files = Vec::new();
        for entry in entries {
            let Some(name) = FileName::parse(&entry.name) else { continue };
            let left_over = match name {
                FileName::Table(number) | FileName::LegacyTable(number) | FileName::Blob(number) => {
                    !live.contains(&number)
                }
                FileName::Wal(number) => number < wal_number,
                FileName::Manifest(number) => number < manifest_number,
                FileName::Temporary(_) | FileName::TemporaryOptions(_) => true,
                _ => false,
            };
            if left_over && !entry.is_dir {
                files.push(name.path(&self.dir));
            }
        }
        self.delete_files(files);
        Ok(())
    }

    /// Forgets the WALs below `kept_log` that no family needs, and returns their files. The MANIFEST states `kept_log`: recovery takes
    /// a later WAL that is not there for one whose name was lost.
    fn take_obsolete_wals(&self, kept_log: u64) -> Vec<PathBuf> {
        let mut state = self.state.lock();
        let families = self.families.load();
        let needed = families.values().filter_map(|family| family.oldest_needed_log(|_| false));
        let needed = match is_planted(PlantedBug::WalDeletedTooEarly) {
            true => needed.max(),
            false => Some(needed.fold(kept_log, u64::min)),
        };
        let mut obsolete = Vec::new();
        // The last one is being written.
        while state.wals.len() > 1
            && let Some(oldest) = state.wals.front()
            && needed.is_none_or(|needed| oldest.number < needed)
        {
            obsolete.push(FileName::Wal(oldest.number).path(&self.dir));
            let wal = ObsoleteWal { number: oldest.number, size: oldest.size, is_gone: false };
            state.wals.pop_front();
            state.obsolete_wals.push_back(wal);
        }
        obsolete
    }

    /// Takes note that an obsolete WAL is deleted or archived. Somebody may read it all the same, and asks where it ends.
    fn note_gone(&self, file: &Path) {
        let name = file.file_name().and_then(|name| FileName::parse(&name.to_string_lossy()));
        let Some(FileName::Wal(number)) = name else { return };
        let mut state = self.state.lock();
        state.obsolete_wals.iter_mut().filter(|wal| wal.number == number).for_each(|wal| wal.is_gone = true);
        if !self.deletions.is_enabled() {
            return;
        }
        while state.obsolete_wals.len() > OBSOLETE_WALS && state.obsolete_wals.front().is_some_and(|wal| wal.is_gone) {
            state.obsolete_wals.pop_front();
        }
    }

    fn delete_file(&self, file: &Path) {
        if self.try_archive(file) {
            self.note_gone(file);
            return;
        }
        match self.env.remove_file(file) {
            Ok(()) => {
                self.note_gone(file);
                self.metrics.add(Counter::ObsoleteFilesDeleted, 1);
                self.notify(|listener| listener.file_deleted(file));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => self.note_gone(file),
            Err(_) => self.deletions.put_back(file.to_path_buf()),
        }
    }
}
