//! Setting aside what may have been lost: tables that the last edit of the MANIFEST may have named before it rotted.
//!
//! A last edit with all its bytes and another checksum may be what a crash left of a write that nobody was promised, or a durable edit
//! that was damaged later. Opening goes on without it where nothing else is missing. But a table that such an edit took in from outside
//! is in no WAL, and deleting it as a leftover would make a damaged MANIFEST a loss of rows. Where RocksDB's `RepairDB` puts what it
//! cannot use, in `lost`, it stays for whoever looks for it.

use super::state::Surroundings;
use crate::file_names::FileName;
use crate::version::VersionSet;
use siltstone_base::env::create_dir_durably;
use siltstone_base::{Error, Result};
use std::collections::HashSet;

/// The directory within that of the database.
const LOST: &str = "lost";

/// Moves every table and blob file that `versions` does not list to the directory `lost`, if the last edit of the MANIFEST was dropped
/// although all its bytes are there. Before anything that this opening makes.
pub(super) fn set_aside(surroundings: &Surroundings, versions: &VersionSet) -> Result<()> {
    if !versions.may_have_rotted() {
        return Ok(());
    }
    let (env, dir) = (&*surroundings.env, &surroundings.dir);
    let listed: HashSet<u64> = versions.listed_files().collect();
    let entries = env.list_dir(dir).map_err(|error| Error::io("list", dir, error))?;
    let unlisted =
        entries.iter().filter(|entry| !entry.is_dir).filter_map(|entry| match FileName::parse(&entry.name) {
            Some(FileName::Table(number) | FileName::LegacyTable(number) | FileName::Blob(number)) => {
                (!listed.contains(&number)).then_some(&entry.name)
            }
            _ => None,
        });
    let lost = dir.join(LOST);
    let mut is_moved = false;
    for name in unlisted {
        if !is_moved {
            create_dir_durably(env, &lost).map_err(|error| Error::io("create", &lost, error))?;
        }
        is_moved = true;
        let from = dir.join(name);
        env.rename(&from, &lost.join(name)).map_err(|error| Error::io("rename", &from, error))?;
    }
    if is_moved {
        // Its new name first: a crash between the two leaves the file with both, or with the old one.
        for changed in [&lost, dir] {
            env.sync_dir(changed).map_err(|error| Error::io("sync", changed, error))?;
        }
    }
    Ok(())
}
