//! The directory of a database apart from what is in its files: whose it is, and that one opening alone has it.

use super::archive::FOLDER as WAL_ARCHIVE;
use crate::file_names::FileName;
use siltstone_base::env::{Env, FileKind, FileLock, read_file, write_file_atomically};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::Path;

/// Most bytes of an IDENTITY file that is believed.
const MAX_IDENTITY_BYTES: u64 = 256;

/// Fails if the directory has tables or logs. No database has any before its CURRENT is durable, so CURRENT was lost, and a new database
/// would delete what is left of the old one, or show archived logs of the old one as updates of its own.
pub(super) fn refuse_remains(env: &dyn Env, dir: &Path) -> Result<()> {
    let entries = env.list_dir(dir).map_err(|error| Error::io("list", dir, error))?;
    let is_data = |name: FileName| matches!(name, FileName::Table(_) | FileName::LegacyTable(_) | FileName::Wal(_));
    let archive = dir.join(WAL_ARCHIVE);
    let archived = match env.list_dir(&archive) {
        Ok(archived) => archived,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Error::io("list", &archive, error)),
    };
    if entries.iter().chain(&archived).filter_map(|entry| FileName::parse(&entry.name)).any(is_data) {
        let message = "CURRENT is missing, but there are tables or logs of a database";
        return Err(Error::new(ErrorKind::MissingFile, message).with_file(&FileName::Current.path(dir)));
    }
    Ok(())
}

/// Takes the directory's lock.
pub(super) fn lock(env: &dyn Env, dir: &Path) -> Result<Box<dyn FileLock>> {
    let path = FileName::Lock.path(dir);
    env.lock_file(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            Error::new(ErrorKind::Locked, "the database is open, here or in another process").with_file(&path)
        }
        _ => Error::io("lock", &path, error),
    })
}

/// The id of the database, as IDENTITY says.
pub(super) fn read_identity(env: &dyn Env, dir: &Path) -> Result<Option<String>> {
    let path = FileName::Identity.path(dir);
    match read_file(env, &path, FileKind::Other, MAX_IDENTITY_BYTES) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim_end().to_owned()).filter(|id| !id.is_empty())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", &path, error)),
    }
}

/// Writes IDENTITY with the id that is known, or with a new one.
pub(super) fn write_identity(env: &dyn Env, dir: &Path, known: Option<&str>) -> Result<String> {
    let path = FileName::Identity.path(dir);
    let id = known.map_or_else(|| uuid::Uuid::new_v4().hyphenated().to_string(), str::to_owned);
    let temporary = FileName::Temporary(0).path(dir);
    write_file_atomically(env, &path, &temporary, id.as_bytes(), FileKind::Other)
        .map_err(|error| Error::io("write", &path, error))?;
    Ok(id)
}
