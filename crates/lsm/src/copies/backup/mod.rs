//! Backups: a directory that holds the database as it was at several moments, and each table once.
//!
//! ```text
//! meta/N              the files of backup N and their checksums; it exists once this does
//! private/N/          MANIFEST, CURRENT, OPTIONS and WALs of backup N
//! shared_checksum/    tables and blob files, named so that equal names mean equal files
//! ```
//!
//! The layout is RocksDB's: its tools restore our backups, and we restore theirs. See `docs/src/formats/backups.md`.

mod create;
mod meta;
mod restore;

use crate::file_names::FileName;
use meta::{MAX_META_BYTES, Meta, backup_id, name_in_database};
use siltstone_base::env::{DirEntry, Env, FileKind, FileLock, PosixEnv, create_dir_durably, read_file};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Bytes of all lists together that are believed.
const MAX_LISTS_BYTES: u64 = 4 * MAX_META_BYTES;

siltstone_base::define_options! {
    /// How backups are kept.
    BackupEngineOptions {
        /// Where the backups are. `None`: the file system.
        env: Option<Arc<dyn Env>> = None,
    }
}

siltstone_base::define_options! {
    /// How a backup is made.
    CreateBackupOptions {
        /// Flushes memtables first, so that the backup needs no WALs. Without, entries that were written without the WAL and are in no table are
        /// not in the backup.
        flush_before_backup: bool = false,
        /// Reads the tables and blob files that earlier backups have and this one shares, and compares their checksums. Without, one that has rotted at its old length is in the new backup too, and
        /// [`verify`](BackupEngine::verify) finds it.
        verify_shared_files: bool = false,
        /// Bytes that are kept with the backup, for the caller.
        app_metadata: Vec<u8> = Vec::new(),
    }
}

siltstone_base::define_options! {
    /// How a backup is restored.
    RestoreOptions {
        /// Deletes the database that is in the directory, once the backup is found to be whole. Without, a directory with anything in it is refused.
        replace: bool = false,
    }
}

/// What is known of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupInfo {
    /// Its number; later backups have larger ones.
    pub id: u32,
    /// When it was made, in Unix seconds.
    pub unix_seconds: u64,
    /// The largest sequence number in it.
    pub seqno: u64,
    /// Bytes of its files, those that it shares with others included.
    pub size: u64,
    /// How many files it has.
    pub num_files: usize,
    /// What the caller said of it.
    pub app_metadata: Vec<u8>,
}

/// The backups in a directory.
///
/// ```
/// use siltstone_lsm::{BackupEngine, BackupEngineOptions, CreateBackupOptions, Db, DbOptions, RestoreOptions};
///
/// # fn main() -> siltstone_lsm::Result<()> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// let db = Db::open(dir.path().join("db"), &DbOptions::default().create_if_missing(true))?;
/// db.put("flint", "hard")?;
/// let mut backups = BackupEngine::open(dir.path().join("backups"), &BackupEngineOptions::default())?;
/// let id = backups.create(&db, &CreateBackupOptions::default())?.id;
///
/// backups.restore(id, dir.path().join("restored"), &RestoreOptions::default())?;
/// let restored = Db::open(dir.path().join("restored"), &DbOptions::default())?;
/// assert_eq!(restored.get("flint")?.as_deref(), Some(&b"hard"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BackupEngine {
    env: Arc<dyn Env>,
    dir: PathBuf,
    /// Those whose list could be read, and why the others' could not.
    backups: BTreeMap<u32, Result<Meta>>,
    /// Held for as long as the engine lives.
    _lock: Box<dyn FileLock>,
}

impl BackupEngine {
    /// Opens the directory of backups, which is created if there is none, and removes what unfinished backups left behind.
    ///
    /// # Errors
    ///
    /// `Locked` if another engine has it open; `LimitExceeded` if the lists of all backups are too large together; errors of I/O, those of reading a list included. A backup whose list is
    /// damaged is no error here: see [`list`](Self::list) and [`damaged`](Self::damaged).
    pub fn open(dir: impl AsRef<Path>, options: &BackupEngineOptions) -> Result<Self> {
        let dir = dir.as_ref().to_path_buf();
        let env: Arc<dyn Env> = match &options.env {
            Some(env) => Arc::clone(env),
            None => Arc::new(PosixEnv::new()),
        };
        for part in ["meta", "private", "shared_checksum"] {
            let path = dir.join(part);
            create_dir_durably(&*env, &path).map_err(|error| Error::io("create", &path, error))?;
        }
        let path = dir.join("LOCK");
        let lock = env.lock_file(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => Error::new(ErrorKind::Locked, "the backups are open").with_file(&path),
            _ => Error::io("lock", &path, error),
        })?;
        let mut engine = Self { env, dir, backups: BTreeMap::new(), _lock: lock };
        engine.read_lists()?;
        engine.collect_garbage()?;
        Ok(engine)
    }

    /// The backups, oldest first. Sizes are those that files have now; a file that is missing has none.
    pub fn list(&self) -> Vec<BackupInfo> {
        let readable = self.backups.iter().filter_map(|(id, meta)| Some((*id, meta.as_ref().ok()?)));
        readable.map(|(id, meta)| self.info(id, meta)).collect()
    }

    /// The backups whose list cannot be read, and why. Their files stay until they are [deleted](Self::delete).
    pub fn damaged(&self) -> Vec<(u32, Error)> {
        self.backups.iter().filter_map(|(id, meta)| Some((*id, meta.as_ref().err()?.clone()))).collect()
    }

    /// Deletes a backup, and the files that no other has.
    ///
    /// # Errors
    ///
    /// `NotFound`; errors of I/O, after which the backup is gone and some of its files may be there until the next deletion.
    pub fn delete(&mut self, id: u32) -> Result<()> {
        if !self.backups.contains_key(&id) {
            return Err(no_such_backup(id));
        }
        let (meta, directory) = (self.meta_path(id), self.dir.join("meta"));
        // It may be gone: one whose writing failed was taken back, perhaps not durably.
        self.remove_file(&meta)?;
        self.env.sync_dir(&directory).map_err(|error| Error::io("sync", &directory, error))?;
        self.backups.remove(&id);
        self.collect_garbage()
    }

    /// Deletes all backups but the newest `keep` that can be read. What cannot be read is neither counted nor deleted.
    ///
    /// # Errors
    ///
    /// As [`delete`](Self::delete).
    pub fn purge_old(&mut self, keep: usize) -> Result<()> {
        let readable = self.backups.iter().filter(|(_, backup)| backup.is_ok());
        let ids: Vec<u32> = readable.map(|(id, _)| *id).collect();
        let old = ids.len().saturating_sub(keep);
        ids.into_iter().take(old).try_for_each(|id| self.delete(id))
    }

    fn info(&self, id: u32, meta: &Meta) -> BackupInfo {
        let sizes = meta.files.iter().map(|file| self.env.file_len(&self.dir.join(&file.path)).unwrap_or(0));
        BackupInfo {
            id,
            unix_seconds: meta.unix_seconds,
            seqno: meta.seqno,
            size: sizes.sum(),
            num_files: meta.files.len(),
            app_metadata: meta.metadata.clone(),
        }
    }

    fn meta_path(&self, id: u32) -> PathBuf {
        self.dir.join("meta").join(id.to_string())
    }

    fn meta(&self, id: u32) -> Result<&Meta> {
        let meta = self.backups.get(&id).ok_or_else(|| no_such_backup(id))?;
        meta.as_ref().map_err(Clone::clone)
    }

    fn read_lists(&mut self) -> Result<()> {
        self.read_lists_within(MAX_LISTS_BYTES)
    }

    /// Only what a list says can show that it is damaged: one that could not be read now may be read the next time, and whoever takes it for damaged deletes it.
    fn read_lists_within(&mut self, mut left: u64) -> Result<()> {
        for name in self.names("meta")? {
            let Some(id) = backup_id(&name) else { continue };
            let path = self.meta_path(id);
            let meta = match read_file(&*self.env, &path, FileKind::Other, MAX_META_BYTES.min(left)) {
                Ok(text) => {
                    left -= (text.len() as u64).min(left);
                    Meta::decode(&text, id).map_err(|error| error.with_file(&path))
                }
                Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge && left >= MAX_META_BYTES => {
                    Err(Error::corruption(&path, MAX_META_BYTES, "the list of a backup is too long"))
                }
                Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                    let message = format!("the lists of all backups have more than {MAX_LISTS_BYTES} bytes together");
                    return Err(Error::new(ErrorKind::LimitExceeded, message).with_file(&path));
                }
                Err(error) => return Err(Error::io("read", &path, error)),
            };
            self.backups.insert(id, meta);
        }
        Ok(())
    }

    fn entries(&self, part: &str) -> Result<Vec<DirEntry>> {
        let path = self.dir.join(part);
        self.env.list_dir(&path).map_err(|error| Error::io("list", &path, error))
    }

    /// The names of files in a part of the directory.
    fn names(&self, part: &str) -> Result<Vec<String>> {
        let files = self.entries(part)?.into_iter().filter(|entry| !entry.is_dir);
        Ok(files.map(|entry| entry.name).collect())
    }

    /// The backups that have a directory of their own.
    fn private_ids(&self) -> Result<Vec<u32>> {
        let directories = self.entries("private")?.into_iter().filter(|entry| entry.is_dir);
        Ok(directories.filter_map(|entry| backup_id(&entry.name)).collect())
    }

    /// Removes files that no backup lists, and nothing that has a name which no file of backups has. Shared files stay while the list of some backup
    /// cannot be read: it may need them.
    fn collect_garbage(&self) -> Result<()> {
        for name in self.names("meta")? {
            let begun = name.strip_suffix(".tmp").map(|name| name.strip_prefix('.').unwrap_or(name));
            if begun.and_then(backup_id).is_some() {
                self.remove_file(&self.dir.join("meta").join(name))?;
            }
        }
        for id in self.private_ids()? {
            if !self.backups.contains_key(&id) {
                self.remove_private(id)?;
            }
        }
        if self.backups.values().any(Result::is_err) {
            return Ok(());
        }
        let files = self.backups.values().flatten().flat_map(|meta| &meta.files);
        let listed: BTreeSet<&str> = files.filter_map(|file| file.path.strip_prefix("shared_checksum/")).collect();
        for name in self.names("shared_checksum")? {
            let begun = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp"));
            let is_ours = name_in_database(&format!("shared_checksum/{}", begun.unwrap_or(&name)), 0).is_ok();
            if is_ours && !listed.contains(name.as_str()) {
                self.remove_file(&self.dir.join("shared_checksum").join(name))?;
            }
        }
        Ok(())
    }

    /// Removes what backup `id` has for itself. The directory stays if there is more in it.
    fn remove_private(&self, id: u32) -> Result<()> {
        let part = format!("private/{id}");
        let path = self.dir.join(&part);
        for name in self.names(&part)? {
            if FileName::parse(&name).is_some() {
                self.remove_file(&path.join(name))?;
            }
        }
        match self.env.remove_dir(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::DirectoryNotEmpty => {
                Err(Error::io("delete", &path, error))
            }
            _ => Ok(()),
        }
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        match self.env.remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("delete", path, error)),
            _ => Ok(()),
        }
    }
}

#[cold]
fn no_such_backup(id: u32) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no backup {id}"))
}
