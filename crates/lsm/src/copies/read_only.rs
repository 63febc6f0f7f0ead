//! Opening a database for reading only, which somebody else may be writing.

use super::moment;
use crate::db::Db;
use crate::options::{ColumnFamilyOptions, DbOptions};
use siltstone_base::sync::Arc;
use siltstone_base::{ErrorKind, Result};
use std::path::Path;

impl Db {
    /// Opens the database in `dir` for reading only: takes no lock and changes no file. Shows what its tables and WALs held
    /// when it was opened, also where somebody else is writing it: all of one moment. Tables are opened when they are first read, and a writer may have deleted them by then; a
    /// [`Follower`](crate::Follower) has all of them open.
    ///
    /// # Errors
    ///
    /// Those of [`open_families`](Self::open_families), but for `Locked`; `Busy` if the MANIFEST changed again and again meanwhile.
    pub fn open_read_only(
        dir: impl AsRef<Path>,
        options: &DbOptions,
        families: &[(&str, ColumnFamilyOptions)],
    ) -> Result<Self> {
        let dir = dir.as_ref();
        let moment = match moment::now(dir, &options.environment()) {
            Ok((_, moment)) => moment,
            Err(error) if error.kind() == ErrorKind::Busy => return Err(error),
            // What is wrong with the directory is told where it is met.
            Err(_) => return Self::open_read_only_in_place(dir, options, families),
        };
        let db = Self::open_read_only_in_place(dir, &options.clone().env(Some(Arc::clone(&moment) as _)), families);
        moment.release();
        db
    }
}
