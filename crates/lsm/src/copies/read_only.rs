//! Opening a database for reading only, which somebody else may be writing.

use super::attempts::open_at;
use super::moment;
use crate::db::Db;
use crate::options::{ColumnFamilyOptions, DbOptions, WalRecoveryMode};
use siltstone_base::{ErrorKind, Result};
use std::path::Path;

impl Db {
    /// Opens the database in `dir` for reading only: takes no lock and changes no file. Shows what its tables and WALs held
    /// when it was opened, also where somebody else is writing it: all of one moment. Tables are opened when they are first read, and a writer may have deleted them by then; a
    /// [`Follower`](crate::Follower) has all of them open.
    ///
    /// # Errors
    ///
    /// Those of [`open_families`](Self::open_families), but for `Locked`; `Busy` if the directory changed again and again meanwhile.
    pub fn open_read_only(
        dir: impl AsRef<Path>,
        options: &DbOptions,
        families: &[(&str, ColumnFamilyOptions)],
    ) -> Result<Self> {
        let dir = dir.as_ref();
        at_a_moment(dir, options, |options| Self::open_read_only_in_place(dir, options, families))
    }

    /// The names of the column families of the database in `dir`, which need not be open.
    pub fn list_column_families(dir: impl AsRef<Path>, options: &DbOptions) -> Result<Vec<String>> {
        let dir = dir.as_ref();
        at_a_moment(dir, options, |options| Self::list_column_families_in_place(dir, options))
    }
}

/// What `open` makes of the directory as it is at a moment, with the options that are for that.
fn at_a_moment<T>(dir: &Path, options: &DbOptions, open: impl Fn(&DbOptions) -> Result<T>) -> Result<T> {
    let env = options.environment();
    let first = match moment::now(dir, &env) {
        Ok(first) => first,
        Err(error) if error.kind() == ErrorKind::Busy => return Err(error),
        // What is wrong with the directory is told where it is met.
        Err(_) => return open(options),
    };
    let opened = open_at(dir, &env, first, |moment, is_later| {
        let mut options = options.clone().env(Some(moment));
        if is_later && options.wal_recovery_mode == WalRecoveryMode::AbsoluteConsistency {
            // Somebody is writing: the newest WAL may end within a record.
            options.wal_recovery_mode = WalRecoveryMode::TolerateCorruptedTailRecords;
        }
        open(&options)
    });
    opened.map(|(opened, _)| opened)
}
