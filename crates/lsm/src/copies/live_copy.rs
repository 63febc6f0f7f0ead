//! Copying a database to a replica while it is written, so that the copy is of a late moment and writers hardly wait.
//!
//! Steps: list the files of a moment, and copy the write-once ones that are not there yet; again, as long as much came meanwhile; then list for the last time, copy what is
//! still missing and the beginnings of MANIFEST and WALs, remove what that moment does not need, and write CURRENT. Writers wait while files are listed.

use super::KeptFiles;
use super::checkpoint::{Checkpoint, live_files};
use super::transfer::NewDirectory;
use crate::db::{LiveFile, LiveFileKind, LiveFiles};
use crate::key::SeqNo;
use crate::trace::{self, Work};
use siltstone_base::Result;
use std::collections::BTreeMap;
use std::path::Path;

siltstone_base::define_options! {
    /// How a database is copied while it is written.
    LiveCopyOptions {
        /// The last round begins when no more bytes of write-once files than this are missing. What is written while they are copied is not in the copy.
        last_round_bytes: u64 = 64 << 20,
        /// Rounds at most: writers that are faster than the copying do not keep it from its end.
        max_rounds: usize = 8,
        /// Memtables are flushed before the last round if the WALs have at least so many bytes; with fewer the WALs are copied. 0: always; `u64::MAX`: never,
        /// and entries that were written without the WAL and are in no table are not in the copy.
        log_size_for_flush: u64 = 0,
    }
}

/// What a copy came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveCopyInfo {
    /// The largest sequence number in the copy: from the next one on, [`Db::updates_since`](crate::Db::updates_since) brings it up to date.
    pub seqno: SeqNo,
    /// Rounds that it took.
    pub rounds: usize,
    /// Bytes that were copied, those included that the last moment did not need.
    pub bytes: u64,
}

impl Checkpoint {
    /// Makes `dir`, which must not exist or be empty, a copy of the database that shares no file with it, over all families. It is of the moment of its last round, not of the
    /// call, and durable when this returns. As in [`create`](Self::create), nothing else is in it than what was written before that moment, and all of that but for entries that are written
    /// without the WAL beside this call. While a round runs no file of the database is deleted: what compactions replace meanwhile takes space until its end.
    ///
    /// # Errors
    ///
    /// Those of [`create`](Self::create).
    pub fn copy_live(&self, dir: impl AsRef<Path>, options: &LiveCopyOptions) -> Result<LiveCopyInfo> {
        let db = self.db();
        let _span = trace::enter(Work::Checkpoint(dir.as_ref()));
        let mut target = NewDirectory::create(&**db.env(), dir.as_ref())?;
        let mut copied = BTreeMap::new();
        let mut info = LiveCopyInfo { seqno: 0, rounds: 0, bytes: 0 };
        loop {
            info.rounds += 1;
            let is_last = info.rounds >= options.max_rounds;
            let _kept = KeptFiles::of(db);
            let mut live = db.live_files()?;
            let ends =
                is_last || missing(&live, &copied).map(|file| file.size).sum::<u64>() <= options.last_round_bytes;
            if ends && options.log_size_for_flush <= live.wal_bytes() {
                live = live_files(db, options.log_size_for_flush)?;
            }
            let missing: Vec<LiveFile> = missing(&live, &copied).cloned().collect();
            for file in missing {
                target.bring(db.dir(), &live, &file, false)?;
                info.bytes += file.size;
                copied.insert(file.name, file.kind);
            }
            if !ends {
                continue;
            }
            for name in copied.keys().filter(|name| live.files.iter().all(|file| file.name != **name)) {
                target.remove(name)?;
            }
            for file in live.files.iter().filter(|file| !file.kind.is_written_once()) {
                target.bring(db.dir(), &live, file, false)?;
                info.bytes += file.size;
            }
            info.seqno = live.seqno;
            target.count(db.metrics());
            target.finish(&live.current)?;
            return Ok(info);
        }
    }
}

/// The write-once files that are not copied yet. No two files have the same name at different times.
fn missing<'a>(live: &'a LiveFiles, copied: &'a BTreeMap<String, LiveFileKind>) -> impl Iterator<Item = &'a LiveFile> {
    live.files.iter().filter(|file| file.kind.is_written_once() && !copied.contains_key(&file.name))
}
