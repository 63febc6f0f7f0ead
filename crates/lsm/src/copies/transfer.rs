//! Directories that become databases, file by file.

use crate::db::{LiveFile, LiveFileKind, LiveFiles};
use crate::file_copy::{copy_file, link_or_copy};
use crate::file_names::FileName;
use crate::metrics::{Counter, Metrics};
use siltstone_base::env::{Env, FileKind, FileLock, create_dir_durably, write_file_atomically};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// What a live file is to the environment.
pub(super) const fn file_kind(kind: LiveFileKind) -> FileKind {
    match kind {
        LiveFileKind::Table => FileKind::Table,
        LiveFileKind::Blob => FileKind::Blob,
        LiveFileKind::Wal => FileKind::Wal,
        LiveFileKind::Manifest => FileKind::Manifest,
        LiveFileKind::Options | LiveFileKind::Identity | LiveFileKind::Expiry => FileKind::Other,
    }
}

/// A directory that becomes a database when its CURRENT is written. It is locked as a database is, so that nobody makes another one there meanwhile.
#[derive(Debug)]
pub(super) struct NewDirectory<'a> {
    env: &'a dyn Env,
    dir: PathBuf,
    made: Vec<PathBuf>,
    /// Bytes that were copied and not linked.
    copied: u64,
    is_done: bool,
    lock: Option<Box<dyn FileLock>>,
}

impl<'a> NewDirectory<'a> {
    /// Creates `dir`, which must not exist or be empty.
    pub(super) fn create(env: &'a dyn Env, dir: &Path) -> Result<Self> {
        create_dir_durably(env, dir).map_err(|error| Error::io("create", dir, error))?;
        // Before the lock, so that a directory which is not ours stays as it is; and again under it.
        check_empty(env, dir)?;
        let path = FileName::Lock.path(dir);
        let lock = env.lock_file(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => {
                Error::new(ErrorKind::Locked, "another database is being made here").with_file(&path)
            }
            _ => Error::io("lock", &path, error),
        })?;
        let new = Self { env, dir: dir.to_path_buf(), made: Vec::new(), copied: 0, is_done: false, lock: Some(lock) };
        check_empty(env, dir)?;
        Ok(new)
    }

    /// The path of a file that will be there.
    pub(super) fn add(&mut self, name: &str) -> PathBuf {
        let path = self.dir.join(name);
        self.made.push(path.clone());
        path
    }

    /// Brings one of the `live` files over from `source`: write-once ones by a second name if `links`.
    pub(super) fn bring(&mut self, source: &Path, live: &LiveFiles, file: &LiveFile, links: bool) -> Result<()> {
        let (from, to) = (source.join(&file.name), self.add(&file.name));
        let kind = file_kind(file.kind);
        if let (LiveFileKind::Expiry, Some(bytes)) = (file.kind, &live.expiry) {
            // Another one may have taken its place since.
            let temporary = self.add(&FileName::Temporary(0).to_string());
            self.copied += file.size;
            return write_file_atomically(self.env, &to, &temporary, bytes, kind)
                .map_err(|error| Error::io("write", &to, error));
        }
        if links && file.kind.is_written_once() {
            self.copied += link_or_copy(self.env, &from, &to, kind, file.size)?;
        } else {
            copy_file(self.env, &from, &to, kind, file.size)?;
            self.copied += file.size;
        }
        Ok(())
    }

    /// Counts what was copied so far.
    pub(super) fn count(&self, metrics: &Metrics) {
        metrics.add_all([(Counter::CheckpointReadBytes, self.copied), (Counter::CheckpointWriteBytes, self.copied)]);
    }

    /// Removes a file that was brought over.
    pub(super) fn remove(&mut self, name: &str) -> Result<()> {
        let path = self.dir.join(name);
        self.env.remove_file(&path).map_err(|error| Error::io("delete", &path, error))
    }

    /// Makes all names durable, then the directory a database, whose CURRENT says `current`.
    pub(super) fn finish(mut self, current: &str) -> Result<()> {
        self.env.sync_dir(&self.dir).map_err(|error| Error::io("sync", &self.dir, error))?;
        let (path, temporary) =
            (self.add(&FileName::Current.to_string()), self.add(&FileName::Temporary(0).to_string()));
        write_file_atomically(self.env, &path, &temporary, current.as_bytes(), FileKind::Manifest)
            .map_err(|error| Error::io("write", &path, error))?;
        self.is_done = true;
        Ok(())
    }
}

/// Fails if there is anything but a lock in `dir`.
fn check_empty(env: &dyn Env, dir: &Path) -> Result<()> {
    let entries = env.list_dir(dir).map_err(|error| Error::io("list", dir, error))?;
    let lock = FileName::Lock.to_string();
    match entries.iter().all(|entry| entry.name == lock) {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::AlreadyExists, "the directory is not empty").with_file(dir)),
    }
}

impl Drop for NewDirectory<'_> {
    /// Removes what was made of a database that never was; the error that counts is the one before.
    fn drop(&mut self) {
        if self.is_done {
            // The lock is given back, and its file stays: somebody may have opened it to lock the database.
            return;
        }
        // CURRENT first: what is left without it is refused.
        for path in self.made.iter().rev() {
            let _ = self.env.remove_file(path);
        }
        if let Some(lock) = self.lock.take() {
            let _ = self.env.remove_file(&FileName::Lock.path(&self.dir));
            drop(lock);
        }
        let _ = self.env.remove_dir(&self.dir);
    }
}
