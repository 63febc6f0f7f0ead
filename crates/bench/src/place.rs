//! The directories of databases.

use crate::engines::EngineKind;
use crate::{Provenance, ResultLine};
use siltstone_base::env::{Env, PosixEnv};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Where the databases are.
pub(crate) struct Place {
    root: PathBuf,
    is_shared: bool,
    provenance: Provenance,
    _temporary: Option<TempDir>,
}

impl Place {
    /// In `dir`, which stays, or in a temporary directory; `is_shared` by several engines.
    pub(crate) fn new(dir: Option<&Path>, is_shared: bool) -> Result<Self> {
        if let Some(root) = dir {
            let provenance = Provenance::of(root);
            return Ok(Self { root: root.to_path_buf(), is_shared, provenance, _temporary: None });
        }
        let temporary = TempDir::with_prefix("siltstone-bench-")
            .map_err(|error| Error::new(ErrorKind::Io, "create a temporary directory").with_source(error))?;
        let provenance = Provenance::of(temporary.path());
        Ok(Self { root: temporary.path().join("db"), is_shared, provenance, _temporary: Some(temporary) })
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
    remove_database(to)?;
    copy(from, to).map_err(|error| Error::io("copy", from, error))
}

/// Removes a database: every file under `dir`.
pub(crate) fn remove_database(dir: &Path) -> Result<()> {
    fn clear(env: &dyn Env, dir: &Path) -> std::io::Result<()> {
        for entry in env.list_dir(dir)? {
            let path = dir.join(&entry.name);
            if entry.is_dir { clear(env, &path)? } else { env.remove_file(&path)? }
        }
        env.remove_dir(dir)
    }
    let env = PosixEnv::new();
    match env.exists(dir) {
        Ok(false) => Ok(()),
        Ok(true) => clear(&env, dir).map_err(|error| Error::io("remove", dir, error)),
        Err(error) => Err(Error::io("look for", dir, error)),
    }
}
