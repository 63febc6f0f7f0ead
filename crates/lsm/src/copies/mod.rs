//! Copies of a database that is being written: other directories with what it held at one moment.
//!
//! All of them stand on [`Db::disable_file_deletions`] and [`Db::live_files`]: files that are live stay, and up to their sizes they are the state
//! at one moment. [`transfer`] brings files over; CURRENT comes last, so that a directory without it is no database and is refused.

mod attempts;
mod backup;
mod checkpoint;
mod follower;
mod live_copy;
mod moment;
mod read_only;
#[cfg(test)]
mod tests;
mod transfer;

pub use backup::{BackupEngine, BackupEngineOptions, BackupInfo, CreateBackupOptions, RestoreOptions};
pub use checkpoint::{Checkpoint, CheckpointOptions};
pub use follower::Follower;
pub use live_copy::{LiveCopyInfo, LiveCopyOptions};

use crate::db::Db;

/// Keeps the live files of a database for as long as it exists.
#[derive(Debug)]
struct KeptFiles<'a>(&'a Db);

impl<'a> KeptFiles<'a> {
    fn of(db: &'a Db) -> Self {
        db.disable_file_deletions();
        Self(db)
    }
}

impl Drop for KeptFiles<'_> {
    fn drop(&mut self) {
        self.0.enable_file_deletions();
    }
}
