//! WALs that recovery does not need any more and that whoever follows the database may still read: they go to the folder `archive`, under their names, and stay there for a time or
//! until there are too many of them, as in RocksDB.
//!
//! The age of a WAL counts from when it came here; that of one which an earlier opening archived, from this opening. It is looked at whenever files are deleted, and nothing goes while
//! that is disabled. What an opening could not replay to its end never comes here: who follows would take for written what is not.

use super::state::DbInner;
use crate::file_names::FileName;
use crate::metrics::Counter;
use siltstone_base::env::create_dir_durably;
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
    /// How much of it is whole, as far as that is known.
    written: u64,
    /// When it came.
    since_micros: u64,
}

impl WalArchive {
    pub(crate) fn new() -> Self {
        Self { inner: Mutex::new(RANK, Inner::default()) }
    }

    /// WALs below `number` are not to be archived.
    pub(crate) fn set_unsound_below(&self, number: u64) {
        self.inner.lock().unsound_below = number;
    }

    /// How much of an archived WAL is whole; `None` if it is none.
    pub(crate) fn written_bytes(&self, number: u64) -> Option<u64> {
        self.inner.lock().archived.as_ref()?.get(&number).map(|archived| archived.written)
    }
}

impl DbInner {
    fn archives_wals(&self) -> bool {
        self.options.wal_ttl_seconds > 0 || self.options.wal_size_limit_mb > 0
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
        let since_micros = self.clock.now_micros();
        let moved = self.load_archive().map_err(io::Error::other).and_then(|()| {
            let len = self.env.file_len(path)?;
            create_dir_durably(&*self.env, &self.dir.join(FOLDER))?;
            self.env.rename(path, &self.archived_path(number))?;
            Ok(len)
        });
        // What cannot be archived is deleted: it must not fill the directory.
        let Ok(len) = moved else { return false };
        let mut inner = self.wal_archive.inner.lock();
        inner.archived.get_or_insert_default().insert(number, Archived { len, written, since_micros });
        true
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
        let since_micros = self.clock.now_micros();
        let mut archived = BTreeMap::new();
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            if let Some(name @ FileName::Wal(number)) = FileName::parse(&entry.name) {
                let path = name.path(&folder);
                let len = self.env.file_len(&path).map_err(|error| Error::io("measure", &path, error))?;
                archived.insert(number, Archived { len, written: u64::MAX, since_micros });
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
        let now = self.clock.now_micros();
        let (ttl, limit) = (self.options.wal_ttl_seconds, self.options.wal_size_limit_mb.saturating_mul(1 << 20));
        let mut old = Vec::new();
        {
            let mut inner = self.wal_archive.inner.lock();
            let Some(archived) = &mut inner.archived else { return };
            let mut bytes: u64 = archived.values().map(|archived| archived.len).sum();
            while let Some((number, oldest)) = archived.first_key_value().map(|(number, oldest)| (*number, *oldest)) {
                let age_seconds = now.saturating_sub(oldest.since_micros) / 1_000_000;
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
