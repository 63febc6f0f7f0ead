//! Making a backup.
//!
//! Steps: keep live files; list the files of a moment; copy the tables that no backup has yet, each to a temporary name and then to its own; copy what is
//! the backup's own; sync; write its list, by which it exists.

use super::meta::{BackedUpFile, Meta};
use super::{BackupEngine, BackupInfo, CreateBackupOptions};
use crate::copies::KeptFiles;
use crate::copies::checkpoint::live_files;
use crate::copies::transfer::file_kind;
use crate::db::{Db, LiveFile, LiveFileKind};
use crate::file_copy::{copy_between, read_prefix};
use crate::file_names::FileName;
use crate::metrics::Counter;
use crate::sst::{TableOrigin, origin_of_table};
use crate::trace::{self, Work};
use siltstone_base::checksum::crc32c;
use siltstone_base::env::{Env, FileKind, FileOptions, write_file_atomically};
use siltstone_base::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Where tables and blob files go.
const SHARED: &str = "shared_checksum";

impl BackupEngine {
    /// Makes a backup of `db` as it is now, while others write. It is durable when this returns. Tables that an earlier backup has are not copied
    /// again.
    ///
    /// # Errors
    ///
    /// Those of [`Db::live_files`], and errors of I/O; with [`verify_shared_files`](CreateBackupOptions::verify_shared_files), `Corruption` names a shared file that is damaged: all backups that have it are.
    /// Once it is removed, the next backup copies it again, for all of them. There is no backup then; files of it that are there are removed when the backups are opened
    /// next, or another one is deleted.
    pub fn create(&mut self, db: &Db, options: &CreateBackupOptions) -> Result<BackupInfo> {
        let _span = trace::enter(Work::Backup(db.dir()));
        let _kept = KeptFiles::of(db);
        let live = live_files(db, if options.flush_before_backup { 0 } else { u64::MAX })?;
        let id = self.next_id()?;
        let private = self.dir.join("private").join(id.to_string());
        self.env.create_dir_all(&private).map_err(|error| Error::io("create", &private, error))?;
        let mut meta = Meta {
            unix_seconds: db.unix_seconds(),
            seqno: live.seqno,
            metadata: options.app_metadata.clone(),
            files: Vec::with_capacity(live.files.len() + 1),
        };
        let known = self.known_files();
        for file in &live.files {
            let copied = match file.kind {
                LiveFileKind::Table | LiveFileKind::Blob => self.share(db, file, &known, options)?,
                // The MANIFEST states the same.
                LiveFileKind::Identity => continue,
                // RocksDB refuses backups with files that it does not know.
                LiveFileKind::Expiry => continue,
                _ => self.own(id, db, file)?,
            };
            meta.files.push(copied);
        }
        meta.files.push(self.own_current(id, &live.current)?);
        self.make_durable(id, &private)?;
        let (path, temporary) = (self.meta_path(id), self.dir.join("meta").join(format!(".{id}.tmp")));
        if let Err(error) =
            write_file_atomically(&*self.env, &path, &temporary, meta.encode().as_bytes(), FileKind::Other)
        {
            let error = Error::io("write", &path, error);
            if !self.take_back(&path) {
                // The list may be there after a crash: its files stay until it is deleted.
                self.backups.insert(id, Err(error.clone()));
            }
            return Err(error);
        }
        let info = self.info(id, &meta);
        self.backups.insert(id, Ok(meta));
        Ok(info)
    }

    /// A number that no backup has or had, as far as can be seen.
    fn next_id(&self) -> Result<u32> {
        let left = self.private_ids()?.into_iter().max().unwrap_or(0);
        let last = self.backups.keys().last().copied().unwrap_or(0).max(left);
        last.checked_add(1).ok_or_else(|| Error::corrupt("the number of the last backup is out of range"))
    }

    /// Removes a list whose writing failed. Returns whether it is gone for good.
    fn take_back(&self, list: &Path) -> bool {
        self.remove_file(list).is_ok() && self.env.sync_dir(&self.dir.join("meta")).is_ok()
    }

    /// The shared files that backups have, with their checksums.
    fn known_files(&self) -> BTreeMap<String, u32> {
        let files = self.backups.values().flatten().flat_map(|meta| &meta.files);
        files.filter(|file| file.path.starts_with(SHARED)).map(|file| (file.path.clone(), file.crc)).collect()
    }

    /// Sees to it that a write-once file is among the shared ones.
    fn share(
        &self,
        db: &Db,
        file: &LiveFile,
        known: &BTreeMap<String, u32>,
        options: &CreateBackupOptions,
    ) -> Result<BackedUpFile> {
        let (env, from, kind) = (&*self.env, db.dir().join(&file.name), file_kind(file.kind));
        // RocksDB knows tables by no other name.
        let extension = if file.kind == LiveFileKind::Table { "sst" } else { "blob" };
        let path_of = |mark: &str| format!("{SHARED}/{:06}_{mark}_{}.{extension}", file.number, file.size);
        let origin = match file.kind {
            LiveFileKind::Table => origin(&**db.env(), &from, file.size)?,
            _ => None,
        };
        // One that was taken in has its number from the database, and may share its session with others that its writer wrote for other databases.
        let of_session = origin.as_ref().filter(|origin| !origin.is_external);
        let of_session = of_session.map(|origin| path_of(&format!("s{}", origin.session)));
        // What another table has that goes by the same name.
        let is_other = |path: &String| known.get(path).zip(file.crc).is_some_and(|(known, stated)| *known != stated);
        let path = match of_session.filter(|path| !is_other(path)) {
            Some(path) => path,
            // Equal bytes, as far as anybody can tell.
            None => match file.crc {
                Some(crc) => path_of(&crc.to_string()),
                None => match origin.as_ref().and_then(|origin| self.same_table(file, origin, known)) {
                    Some(path) => path,
                    None => {
                        db.metrics().add(Counter::BackupReadBytes, file.size);
                        path_of(&read_prefix(&**db.env(), &from, kind, file.size, |_| Ok(()))?.to_string())
                    }
                },
            },
        };
        let to = self.dir.join(&path);
        if let Some(crc) = known.get(&path)
            && env.file_len(&to).is_ok_and(|len| len == file.size)
        {
            if options.verify_shared_files && read_prefix(env, &to, kind, file.size, |_| Ok(()))? != *crc {
                return Err(Error::corruption(
                    &to,
                    0,
                    "checksum of a file of earlier backups is not that of their lists",
                ));
            }
            return Ok(BackedUpFile { path, crc: *crc });
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        let temporary = self.dir.join(SHARED).join(format!(".{name}.tmp"));
        let crc = copy_between(&**db.env(), &from, env, &temporary, kind, file.size)?;
        count_copied(db, file);
        if file.crc.is_some_and(|stated| stated != crc) {
            self.remove_file(&temporary)?;
            return Err(Error::corruption(&from, 0, "checksum of a table is not that of the MANIFEST"));
        }
        env.rename(&temporary, &to).map_err(|error| Error::io("rename", &to, error))?;
        Ok(BackedUpFile { path, crc })
    }

    /// The shared file that has the table `file` under a checksum that nobody knows without reading all of it: one of its number and its size, which the same writer wrote as the same of
    /// its tables.
    fn same_table(&self, file: &LiveFile, origin: &TableOrigin, known: &BTreeMap<String, u32>) -> Option<String> {
        let (begin, end) = (format!("{SHARED}/{:06}_", file.number), format!("_{}.sst", file.size));
        let mut candidates =
            known.range(begin.clone()..).map(|(path, _)| path).take_while(|path| path.starts_with(&begin));
        let is_same = |path: &&String| {
            let path = self.dir.join(path);
            let is_there = self.env.file_len(&path).is_ok_and(|len| len == file.size);
            // One that cannot be read is none: the table is then read.
            is_there && origin_of(&*self.env, &path, file.size).is_ok_and(|found| found.as_ref() == Some(origin))
        };
        candidates.find(|path| path.ends_with(&end) && is_same(path)).cloned()
    }

    /// Copies a file that only this backup has.
    fn own(&self, id: u32, db: &Db, file: &LiveFile) -> Result<BackedUpFile> {
        let path = format!("private/{id}/{}", file.name);
        let (from, to) = (db.dir().join(&file.name), self.dir.join(&path));
        let crc = copy_between(&**db.env(), &from, &*self.env, &to, file_kind(file.kind), file.size)?;
        count_copied(db, file);
        Ok(BackedUpFile { path, crc })
    }

    fn own_current(&self, id: u32, current: &str) -> Result<BackedUpFile> {
        let directory = self.dir.join("private").join(id.to_string());
        let path = FileName::Current.path(&directory);
        let temporary = FileName::Temporary(0).path(&directory);
        write_file_atomically(&*self.env, &path, &temporary, current.as_bytes(), FileKind::Manifest)
            .map_err(|error| Error::io("write", &path, error))?;
        Ok(BackedUpFile { path: format!("private/{id}/{}", FileName::Current), crc: crc32c(current.as_bytes()) })
    }

    /// Makes the names of all files durable.
    fn make_durable(&self, id: u32, private: &Path) -> Result<()> {
        debug_assert!(private.ends_with(id.to_string()));
        for path in [private, &self.dir.join("private"), &self.dir.join(SHARED)] {
            self.env.sync_dir(path).map_err(|error| Error::io("sync", path, error))?;
        }
        Ok(())
    }
}

/// Who wrote the table at `path`, if it says so in a way that can be part of a name.
fn origin(env: &dyn Env, path: &Path, len: u64) -> Result<Option<TableOrigin>> {
    let is_name = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    Ok(origin_of(env, path, len)?.filter(|origin| is_name(&origin.session)))
}

fn origin_of(env: &dyn Env, path: &Path, len: u64) -> Result<Option<TableOrigin>> {
    let file = env.open_random(path, &FileOptions::new(FileKind::Table));
    let file = file.map_err(|error| Error::io("open", path, error))?;
    origin_of_table(file, path, len)
}

fn count_copied(db: &Db, file: &LiveFile) {
    db.metrics().add_all([(Counter::BackupReadBytes, file.size), (Counter::BackupWriteBytes, file.size)]);
}
