//! Checkpoints: a second directory that is the database as it was at one moment, and costs no space for the tables that both have.
//!
//! Steps: keep live files; flush, if there is much in the WALs; list the files of a moment; link what is written once, copy the rest up to its
//! size; sync; write CURRENT. A crash before the last step leaves a directory that is no database.

use super::KeptFiles;
use super::transfer::NewDirectory;
use crate::db::{ColumnFamily, Db};
use crate::key::SeqNo;
use crate::options::FlushOptions;
use crate::trace::{self, Work};
use siltstone_base::{ErrorKind, Result};
use std::path::Path;

siltstone_base::define_options! {
    /// How a checkpoint is made.
    CheckpointOptions {
        /// Memtables are flushed first if the WALs have at least so many bytes; with fewer the WALs are copied. 0: always; `u64::MAX`: never, and
        /// entries that were written without the WAL and are in no table are not in the checkpoint.
        log_size_for_flush: u64 = 0,
        /// Gives write-once files a second name where the file system can; otherwise all are copied.
        links: bool = true,
    }
}

/// Makes checkpoints of a database.
///
/// ```
/// use siltstone_lsm::{Checkpoint, CheckpointOptions, Db, DbOptions};
///
/// # fn main() -> siltstone_lsm::Result<()> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// let db = Db::open(dir.path().join("db"), &DbOptions::default().create_if_missing(true))?;
/// db.put("chalk", "white")?;
/// Checkpoint::new(&db).create(dir.path().join("checkpoint"), &CheckpointOptions::default())?;
/// db.put("chalk", "grey")?;
///
/// let then = Db::open(dir.path().join("checkpoint"), &DbOptions::default())?;
/// assert_eq!(then.get("chalk")?.as_deref(), Some(&b"white"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Checkpoint {
    db: Db,
}

impl Checkpoint {
    /// Checkpoints of `db`.
    pub fn new(db: &Db) -> Self {
        Self { db: db.clone() }
    }

    /// The database.
    pub(super) fn db(&self) -> &Db {
        &self.db
    }

    /// Makes `dir`, which must not exist or be empty, the database as it is now, over all families. It is durable when this returns. Returns
    /// the largest sequence number in it: everything up to there, and nothing else, is in the checkpoint; but for entries that are written without the WAL
    /// beside this call, which may be missing.
    ///
    /// Writers wait while the files are listed, and as they do for a flush.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if there is something in `dir`, `Locked` if another checkpoint is made there, `ReadOnly` for a database that was opened for reading only, and errors of I/O; what was
    /// made of the checkpoint is then removed.
    pub fn create(&self, dir: impl AsRef<Path>, options: &CheckpointOptions) -> Result<SeqNo> {
        let db = &self.db;
        let _span = trace::enter(Work::Checkpoint(dir.as_ref()));
        let mut target = NewDirectory::create(&**db.env(), dir.as_ref())?;
        let _kept = KeptFiles::of(db);
        let live = live_files(db, options.log_size_for_flush)?;
        for file in &live.files {
            target.bring(db.dir(), &live, file, options.links)?;
        }
        target.count(db.metrics());
        target.finish(&live.current)?;
        Ok(live.seqno)
    }
}

/// The files of a moment, after a flush of all families if the WALs have at least `log_size_for_flush` bytes.
pub(super) fn live_files(db: &Db, log_size_for_flush: u64) -> Result<crate::db::LiveFiles> {
    if log_size_for_flush > 0 {
        let live = db.live_files()?;
        if live.wal_bytes() < log_size_for_flush {
            return Ok(live);
        }
    }
    loop {
        let families = db.families();
        let handles: Vec<_> = families.iter().collect();
        match db.flush_families(&handles, &FlushOptions::default()) {
            Ok(()) => return db.live_files(),
            // One that was dropped meanwhile is in no copy.
            Err(error) if error.kind() == ErrorKind::NotFound && families.iter().any(ColumnFamily::is_dropped) => {}
            Err(error) => return Err(error),
        }
    }
}
