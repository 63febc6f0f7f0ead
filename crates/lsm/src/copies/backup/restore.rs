//! Verifying a backup, and making a database of it.
//!
//! Steps of a restore: look whether the list makes a database; read every file and compare its checksum; only then lock the directory, look what is in it
//! and delete that, CURRENT first; copy, comparing again; sync; write CURRENT. A crash in between leaves a directory that is no database, and the restore is
//! done again.

use super::meta::{BackedUpFile, canonical, name_in_database, stated_len};
use super::{BackupEngine, RestoreOptions};
use crate::db::WAL_ARCHIVE;
use crate::file_copy::{copy_file, read_prefix};
use crate::file_names::FileName;
use siltstone_base::checksum::crc32c;
use siltstone_base::env::{FileKind, create_dir_durably, read_file, write_file_atomically};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::Path;

/// The longest CURRENT.
const MAX_CURRENT_BYTES: u64 = 64;

impl BackupEngine {
    /// Reads every file of a backup and compares it with the list, which must be that of one database.
    ///
    /// # Errors
    ///
    /// `NotFound` for a backup that does not exist; `Corruption` or `MissingFile` names the first file that is not as it was, or the list.
    pub fn verify(&self, id: u32) -> Result<()> {
        self.verified_current(id).map(|_| ())
    }

    /// The same. Returns what CURRENT says.
    fn verified_current(&self, id: u32) -> Result<Vec<u8>> {
        let meta = self.meta(id)?;
        meta.check(id).map_err(|error| error.with_file(&self.meta_path(id)))?;
        meta.files.iter().try_for_each(|file| self.verify_file(file, id))?;
        let Some(file) = meta.file(FileName::Current, id) else {
            return Err(Error::corrupt("a backup without CURRENT"));
        };
        let path = self.dir.join(&file.path);
        let content = match read_file(&*self.env, &path, FileKind::Manifest, MAX_CURRENT_BYTES) {
            Ok(content) if crc32c(&content) == file.crc => content,
            Ok(_) => return Err(Error::corruption(&path, 0, "CURRENT of a backup changed while it was verified")),
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                return Err(Error::corruption(&path, MAX_CURRENT_BYTES, "CURRENT of a backup is too long"));
            }
            Err(error) => return Err(Error::io("read", &path, error)),
        };
        let named = std::str::from_utf8(&content).ok().and_then(|text| canonical(text.strip_suffix('\n')?));
        match named {
            Some(name @ FileName::Manifest(_)) if meta.file(name, id).is_some() => Ok(content),
            _ => Err(Error::corruption(&path, 0, "CURRENT of a backup names no MANIFEST of it")),
        }
    }

    /// Makes `dir`, in the environment of the backups, the database that backup `id` is of. Nothing is changed unless every file of the backup is as it was.
    ///
    /// # Errors
    ///
    /// Those of [`verify`](Self::verify); `AlreadyExists` if there is something in `dir` and [`replace`](RestoreOptions::replace) is not set; `Locked` if
    /// the database there is open; errors of I/O.
    pub fn restore(&self, id: u32, dir: impl AsRef<Path>, options: &RestoreOptions) -> Result<()> {
        let dir = dir.as_ref();
        let current = self.verified_current(id)?;
        let meta = self.meta(id)?;
        let env = &*self.env;
        create_dir_durably(env, dir).map_err(|error| Error::io("create", dir, error))?;
        // Before the lock, so that a directory which is not ours stays as it is; and again under it: until then others may open the database.
        self.names_to_clear(dir, options)?;
        let lock_path = FileName::Lock.path(dir);
        let _lock = env.lock_file(&lock_path).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => {
                Error::new(ErrorKind::Locked, "the database is open").with_file(&lock_path)
            }
            _ => Error::io("lock", &lock_path, error),
        })?;
        self.clear(dir, self.names_to_clear(dir, options)?)?;
        for file in &meta.files {
            let name = name_in_database(&file.path, id)?;
            if name != FileName::Current {
                self.bring_back(file, &self.dir.join(&file.path), &name.path(dir), kind_of(name))?;
            }
        }
        env.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))?;
        let (path, temporary) = (FileName::Current.path(dir), FileName::Temporary(0).path(dir));
        write_file_atomically(env, &path, &temporary, &current, FileKind::Manifest)
            .map_err(|error| Error::io("write", &path, error))
    }

    /// The files of the database in `dir`. Fails if there is anything but a lock and nothing may be replaced.
    fn names_to_clear(&self, dir: &Path, options: &RestoreOptions) -> Result<Vec<FileName>> {
        let entries = self.env.list_dir(dir).map_err(|error| Error::io("list", dir, error))?;
        let lock = FileName::Lock.to_string();
        if !options.replace && entries.iter().any(|entry| entry.name != lock) {
            return Err(Error::new(ErrorKind::AlreadyExists, "the directory is not empty").with_file(dir));
        }
        let names = entries.iter().filter(|entry| !entry.is_dir).filter_map(|entry| FileName::parse(&entry.name));
        Ok(names.collect())
    }

    fn verify_file(&self, file: &BackedUpFile, id: u32) -> Result<()> {
        let path = self.dir.join(&file.path);
        let len = self.env.file_len(&path).map_err(|error| Error::io("measure", &path, error))?;
        if stated_len(&file.path).is_some_and(|stated| stated != len) {
            return Err(Error::corruption(&path, len, "a file of a backup is not as long as its name says"));
        }
        let kind = kind_of(name_in_database(&file.path, id)?);
        let crc = read_prefix(&*self.env, &path, kind, len, |_| Ok(()))?;
        if crc != file.crc {
            return Err(Error::corruption(&path, 0, "checksum of a file of a backup is not that of its list"));
        }
        Ok(())
    }

    /// Deletes a database: first that which makes it one.
    fn clear(&self, dir: &Path, names: Vec<FileName>) -> Result<()> {
        if names.contains(&FileName::Current) {
            self.remove_file(&FileName::Current.path(dir))?;
            self.env.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))?;
        }
        // Whoever follows the database that comes would take for its own what is archived here.
        let archive = dir.join(WAL_ARCHIVE);
        let archived = match self.env.list_dir(&archive) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::io("list", &archive, error)),
        };
        for entry in archived.iter().filter(|entry| !entry.is_dir) {
            if let Some(name @ FileName::Wal(_)) = FileName::parse(&entry.name) {
                self.remove_file(&name.path(&archive))?;
            }
        }
        for name in names {
            if !matches!(name, FileName::Lock | FileName::Current | FileName::InfoLog | FileName::OldInfoLog(_)) {
                self.remove_file(&name.path(dir))?;
            }
        }
        Ok(())
    }

    fn bring_back(&self, file: &BackedUpFile, from: &Path, to: &Path, kind: FileKind) -> Result<()> {
        let env = &*self.env;
        let len = env.file_len(from).map_err(|error| Error::io("measure", from, error))?;
        if copy_file(env, from, to, kind, len)? != file.crc {
            return Err(Error::corruption(from, 0, "a file of a backup changed while it was restored"));
        }
        Ok(())
    }
}

const fn kind_of(name: FileName) -> FileKind {
    match name {
        FileName::Table(_) | FileName::LegacyTable(_) => FileKind::Table,
        FileName::Blob(_) => FileKind::Blob,
        FileName::Wal(_) => FileKind::Wal,
        FileName::Manifest(_) | FileName::Current => FileKind::Manifest,
        _ => FileKind::Other,
    }
}
