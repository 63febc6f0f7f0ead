//! The directories of databases.

#[cfg(test)]
mod tests;

use crate::engines::EngineKind;
use crate::{Provenance, ResultLine};
use siltstone_base::env::{Env, FileKind, FileOptions, PosixEnv};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The file by which a directory is known to hold what the laboratory made, and may remove.
const MARK: &str = ".siltstone-bench";

/// What is in a directory that a user names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing, or what an earlier run left, of which some or all goes.
    Removed,
    /// A database, which stays.
    Kept,
}

/// Where the databases are.
pub(crate) struct Place {
    root: PathBuf,
    is_shared: bool,
    provenance: Provenance,
    _temporary: Option<TempDir>,
}

impl Place {
    /// In `dir`, which stays, or in a temporary directory; `is_shared` by several engines.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if databases that were there before would be removed and `dir` holds something that the laboratory did not make.
    pub(crate) fn new(dir: Option<&Path>, is_shared: bool, found: Found) -> Result<Self> {
        if let Some(root) = dir {
            if found == Found::Removed {
                claim(root)?;
            }
            let provenance = Provenance::of(root);
            return Ok(Self { root: root.to_path_buf(), is_shared, provenance, _temporary: None });
        }
        let temporary = TempDir::with_prefix("siltstone-bench-")
            .map_err(|error| Error::new(ErrorKind::Io, "create a temporary directory").with_source(error))?;
        let provenance = Provenance::of(temporary.path());
        let root = temporary.path().join("db");
        claim(&root)?;
        Ok(Self { root, is_shared, provenance, _temporary: Some(temporary) })
    }

    /// The directory of them all.
    pub(crate) fn root(&self) -> PathBuf {
        self.root.clone()
    }

    /// Says in a result where it comes from.
    pub(crate) fn mark(&self, line: &mut ResultLine) {
        line.provenance = Some(self.provenance.clone());
    }

    /// The directory of an engine: the root itself if it is the only one.
    pub(crate) fn of(&self, kind: EngineKind) -> PathBuf {
        if self.is_shared { self.root.join(kind.name()) } else { self.root.clone() }
    }
}

/// Copies a database that is closed: every file under `from`, in the place of what is at `to`. Space that was only reserved stays that. The copy is safe when this returns, so that the device writes none of
/// it while time is taken.
#[expect(clippy::disallowed_methods, reason = "no engine's I/O, and the standard library leaves holes out")]
pub(crate) fn copy_database(from: &Path, to: &Path) -> Result<()> {
    fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            // The copy is in a place of its own.
            if entry.file_name() == MARK {
                continue;
            }
            let to = to.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                copy(&entry.path(), &to)?;
            } else {
                std::fs::copy(entry.path(), &to)?;
                std::fs::OpenOptions::new().write(true).open(to)?.sync_all()?;
            }
        }
        Ok(())
    }
    begin_anew(to)?;
    copy(from, to).map_err(|error| Error::io("copy", from, error))
}

/// Removes a database: every file under `dir`, but for the mark of a directory that a user named.
pub(crate) fn remove_database(dir: &Path) -> Result<()> {
    remove(dir, |name| name != MARK)
}

/// Makes a directory the laboratory's own, and removes what an earlier run left in it.
///
/// # Errors
///
/// `InvalidArgument` if there is something else in it.
pub(crate) fn begin_anew(dir: &Path) -> Result<()> {
    claim(dir)?;
    remove_database(dir)
}

/// Removes a directory with the databases that the laboratory made in it.
///
/// # Errors
///
/// `InvalidArgument` if there is something else in it.
pub(crate) fn remove_place(dir: &Path) -> Result<()> {
    check_own(&PosixEnv::new(), dir)?;
    remove(dir, |_| true)
}

/// Marks a directory that is empty or the laboratory's own already, or makes it.
fn claim(dir: &Path) -> Result<()> {
    let env = PosixEnv::new();
    check_own(&env, dir)?;
    env.create_dir_all(dir).map_err(|error| Error::io("create directory", dir, error))?;
    let mark = dir.join(MARK);
    env.create_append(&mark, &FileOptions::new(FileKind::Other)).map_err(|error| Error::io("create", &mark, error))?;
    Ok(())
}

/// Checks that nothing is lost with a directory: it, or the one that it is in, is marked.
fn check_own(env: &dyn Env, dir: &Path) -> Result<()> {
    let is_within = dir.parent().is_some_and(|parent| env.exists(&parent.join(MARK)).is_ok_and(|is_there| is_there));
    if is_within {
        return Ok(());
    }
    let is_there = env.exists(dir).map_err(|error| Error::io("look for", dir, error))?;
    let entries = if is_there { env.list_dir(dir) } else { Ok(Vec::new()) };
    let entries = entries.map_err(|error| Error::io("list", dir, error))?;
    let Some(first) = entries.first().filter(|_| entries.iter().all(|entry| entry.name != MARK)) else {
        return Ok(());
    };
    let (dir, name) = (dir.display(), &first.name);
    Err(Error::invalid_argument(format!(
        "{dir} holds something that siltstone-bench did not make ({name}) and would remove: name an empty directory or a new one"
    )))
}

/// Removes what is meant of a directory, and the directory itself if that is all of it.
fn remove(dir: &Path, is_meant: impl Fn(&str) -> bool) -> Result<()> {
    fn clear(env: &dyn Env, dir: &Path, is_meant: &dyn Fn(&str) -> bool) -> std::io::Result<()> {
        let mut is_all = true;
        for entry in env.list_dir(dir)? {
            let path = dir.join(&entry.name);
            match is_meant(&entry.name) {
                true if entry.is_dir => clear(env, &path, &|_| true)?,
                true => env.remove_file(&path)?,
                false => is_all = false,
            }
        }
        if is_all { env.remove_dir(dir) } else { Ok(()) }
    }
    let env = PosixEnv::new();
    match env.exists(dir) {
        Ok(false) => Ok(()),
        Ok(true) => clear(&env, dir, &is_meant).map_err(|error| Error::io("remove", dir, error)),
        Err(error) => Err(Error::io("look for", dir, error)),
    }
}
