//! WALs that recovery does not need any more and that whoever follows the database may still read: they go to the folder `archive`, under their names, and stay there for a time or
//! until there are too many of them, as in RocksDB.
//!
//! The age of a WAL counts from when it came here; that of one which an earlier opening archived, from when it was last written, as in RocksDB. It is looked at whenever files are deleted,
//! and nothing goes while that is disabled. What an opening could not replay to its end never comes here: who follows would take for written what is not.

use super::state::DbInner;
use crate::file_names::FileName;
use crate::metrics::Counter;
use siltstone_base::env::{FileKind, FileOptions, IoContext, IoPriority, create_dir_durably};
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::sync::{Mutex, Rank};
use siltstone_base::{Error, Result};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Taken alone.
const RANK: Rank = Rank(345);

/// The name of the folder.
pub(crate) const FOLDER: &str = "archive";

/// The archived WALs, by number. Read from the folder when somebody first asks.
#[derive(Debug)]
pub(crate) struct WalArchive {
    inner: Mutex<Inner>,
    /// Whether somebody has asked for what is written since the database was opened.
    is_followed: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    archived: Option<BTreeMap<u64, Archived>>,
    /// WALs below were not replayed to their end, and are deleted.
    unsound_below: u64,
}

#[derive(Debug, Clone, Copy)]
struct Archived {
    /// Bytes of the file.
    len: u64,
    /// When it came; before the clock began to count, if it is negative.
    since_micros: i64,
}

impl WalArchive {
    pub(crate) fn new() -> Self {
        Self { inner: Mutex::new(RANK, Inner::default()), is_followed: AtomicBool::new(false) }
    }

    /// WALs below `number` are not to be archived.
    pub(crate) fn set_unsound_below(&self, number: u64) {
        self.inner.lock().unsound_below = number;
    }

    /// Takes note that somebody follows what is written by its WALs.
    pub(crate) fn set_followed(&self) {
        self.is_followed.store(true, Ordering::Relaxed);
    }

    /// Whether the WAL `number` is known to be archived.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.inner.lock().archived.as_ref().is_some_and(|archived| archived.contains_key(&number))
    }
}

impl DbInner {
    fn archives_wals(&self) -> bool {
        self.options.wal_ttl_seconds > 0 || self.options.wal_size_limit_mb > 0
    }

    /// Whether somebody follows what is written by its WALs, or may later.
    pub(crate) fn is_followed(&self) -> bool {
        self.archives_wals() || self.wal_archive.is_followed.load(Ordering::Relaxed)
    }

    /// Where the WAL `number` is once it is archived.
    pub(crate) fn archived_path(&self, number: u64) -> PathBuf {
        FileName::Wal(number).path(&self.dir.join(FOLDER))
    }

    /// Archives the obsolete file `path` if it is a WAL and WALs are archived. Returns whether it is gone from where it was.
    pub(crate) fn try_archive(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| FileName::parse(&name.to_string_lossy()));
        let Some(FileName::Wal(number)) = name.filter(|_| self.archives_wals()) else { return false };
        if number < self.wal_archive.inner.lock().unsound_below {
            return false;
        }
        let written = self.written_bytes(number);
        let since_micros = self.archive_micros();
        let moved = self.load_archive().map_err(io::Error::other).and_then(|()| {
            let len = self.env.file_len(path)?.min(written);
            self.cut_off(path, len)?;
            create_dir_durably(&*self.env, &self.dir.join(FOLDER))?;
            // Whoever does not find it any more where it was looks for it in the archive.
            let mut inner = self.wal_archive.inner.lock();
            inner.archived.get_or_insert_default().insert(number, Archived { len, since_micros });
            drop(inner);
            self.env.rename(path, &self.archived_path(number))
        });
        let mut inner = self.wal_archive.inner.lock();
        if moved.is_err() {
            // What cannot be archived is deleted: it must not fill the directory.
            inner.archived.as_mut().and_then(|archived| archived.remove(&number));
            return false;
        }
        let is_purged = inner.archived.as_ref().is_none_or(|archived| !archived.contains_key(&number));
        drop(inner);
        if is_purged {
            // There were too many bytes before it was there. One that stays is found at the next opening.
            let _ = self.env.remove_file(&self.archived_path(number));
        }
        true
    }

    /// Cuts off what an append left that failed: nobody knows of it once this opening is over.
    fn cut_off(&self, path: &Path, len: u64) -> io::Result<()> {
        if self.env.file_len(path)? <= len {
            return Ok(());
        }
        let file = self.env.open_random_write(path, &FileOptions::new(FileKind::Wal))?;
        file.set_len(len)?;
        file.sync_data(IoContext::new(FileKind::Wal, IoPriority::Low))
    }

    fn archive_micros(&self) -> i64 {
        i64::try_from(self.clock.now_micros()).unwrap_or(i64::MAX)
    }

    /// The numbers of archived WALs from `from` on, ascending.
    pub(crate) fn archived_wals(&self, from: u64) -> Result<Vec<u64>> {
        self.load_archive()?;
        let inner = self.wal_archive.inner.lock();
        Ok(inner.archived.iter().flat_map(|archived| archived.range(from..)).map(|(number, _)| *number).collect())
    }

    /// Finds out what is in the folder, once.
    fn load_archive(&self) -> Result<()> {
        if self.wal_archive.inner.lock().archived.is_some() {
            return Ok(());
        }
        let folder = self.dir.join(FOLDER);
        let entries = match self.env.list_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::io("list", &folder, error)),
        };
        let (now, now_micros) = (self.clock.unix_seconds(), self.archive_micros());
        let mut archived = BTreeMap::new();
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            if let Some(name @ FileName::Wal(number)) = FileName::parse(&entry.name) {
                let path = name.path(&folder);
                let len = self.env.file_len(&path).map_err(|error| Error::io("measure", &path, error))?;
                let modified = self.env.modified_unix_seconds(&path).ok().flatten().unwrap_or(now);
                let age_micros = i64::try_from(now.saturating_sub(modified).saturating_mul(1_000_000));
                let since_micros = now_micros.saturating_sub(age_micros.unwrap_or(i64::MAX));
                archived.insert(number, Archived { len, since_micros });
            }
        }
        self.wal_archive.inner.lock().archived.get_or_insert(archived);
        Ok(())
    }

    /// Deletes archived WALs that are too old, and the oldest while there are too many bytes of them.
    pub(crate) fn purge_archive(&self) {
        if !self.archives_wals() || !self.deletions.is_enabled() || self.load_archive().is_err() {
            return;
        }
        let now = self.archive_micros();
        let (ttl, limit) = (self.options.wal_ttl_seconds, self.options.wal_size_limit_mb.saturating_mul(1 << 20));
        let mut old = Vec::new();
        {
            let mut inner = self.wal_archive.inner.lock();
            let Some(archived) = &mut inner.archived else { return };
            let mut bytes: u64 = archived.values().map(|archived| archived.len).sum();
            while let Some((number, oldest)) = archived.first_key_value().map(|(number, oldest)| (*number, *oldest)) {
                let age_seconds = now.saturating_sub(oldest.since_micros).max(0).unsigned_abs() / 1_000_000;
                if !(ttl > 0 && age_seconds >= ttl || limit > 0 && bytes > limit) {
                    break;
                }
                bytes = bytes.saturating_sub(oldest.len);
                archived.remove(&number);
                old.push(number);
            }
        }
        for number in old {
            let path = self.archived_path(number);
            // One that stays is found at the next opening.
            if self.env.remove_file(&path).is_ok() {
                self.metrics.add(Counter::ObsoleteFilesDeleted, 1);
                self.notify(|listener| listener.file_deleted(&path));
            }
        }
    }
}
