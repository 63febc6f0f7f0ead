//! When something of a database was written last, as the file system says: by this its clock is judged where no file EXPIRY tells of time.

use crate::redo::is_redo_file;
use crate::space::space_of;
use siltstone_base::env::Env;
use siltstone_base::{Error, Result};
use std::io;
use std::path::Path;

/// The latest second in which a tablespace or a file of the redo log changed; `None` where the file system does not keep that. Before this opening changes any of them.
pub(super) fn last_change(env: &dyn Env, dir: &Path) -> Result<Option<u64>> {
    let entries = env.list_dir(dir).map_err(|error| Error::io("list", dir, error))?;
    let mut last = None;
    for entry in entries.iter().filter(|entry| space_of(&entry.name).is_some() || is_redo_file(&entry.name)) {
        let path = dir.join(&entry.name);
        match env.modified_unix_seconds(&path) {
            Ok(changed) => last = last.max(changed),
            // It went since: if it is missed, whoever opens it says so.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // What is not known must not be trusted.
            Err(error) => return Err(Error::io("look at", &path, error)),
        }
    }
    Ok(last)
}
