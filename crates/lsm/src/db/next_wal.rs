//! The WAL after the one that is being written, made ahead: a writer that finds a memtable full then touches no file but to write its own entries.
//!
//! A job creates the file and reserves its space while the WAL before is written. It takes its number then, so it may be smaller than the numbers of tables that come
//! later; among WALs numbers rise. A file that nobody began to write is empty, and recovery passes it by.

use super::state::{DbInner, LiveWal};
use crate::file_names::FileName;
use crate::wal::WalWriter;
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::sync::Arc;

/// A WAL that nobody writes yet.
#[derive(Debug)]
pub(crate) struct NextWal {
    pub(crate) wal: WalWriter,
    pub(crate) live: LiveWal,
}

/// Makes one. Counts as a job that ends, so that whoever closes the database waits for it.
struct PrepareJob {
    db: Arc<DbInner>,
}

impl PrepareJob {
    /// Makes the file, unless a writer was faster.
    fn prepare(&self) {
        let db = &self.db;
        let is_wanted = || {
            let state = db.state.lock();
            !db.is_closing() && !db.errors.is_failed() && state.next_wal.is_none()
        };
        if !is_wanted() {
            return;
        }
        let number = db.file_numbers.allocate();
        // If there is no room, the writer that needs the file is told when it makes one itself.
        let Ok((wal, live)) = db.create_wal(number) else {
            let _ = db.env.remove_file(&FileName::Wal(number).path(&db.dir));
            return;
        };
        let next = NextWal { wal, live };
        let late = {
            let mut state = db.state.lock();
            let is_late = state.wals.back().is_none_or(|newest| newest.number > number);
            if is_late || state.next_wal.is_some() { Some(next) } else { state.next_wal.replace(next) }
        };
        if let Some(late) = late {
            db.discard_wal(late);
        }
    }
}

impl Job for PrepareJob {
    fn name(&self) -> &'static str {
        "next WAL"
    }

    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        self.prepare();
        Progress::Done
    }

    fn poisoned(&mut self, message: &str) {
        self.db.fail_poisoned(self.name(), message);
    }
}

impl Drop for PrepareJob {
    fn drop(&mut self) {
        self.db.job_ended();
    }
}

impl DbInner {
    /// Has the next WAL made.
    pub(crate) fn prepare_next_wal(self: &Arc<Self>) {
        {
            let mut state = self.state.lock();
            if state.next_wal.is_some() || state.background_paused > 0 || self.is_closing() {
                return;
            }
            state.ending_jobs += 1;
        }
        // Behind the flush that the switch has made due.
        self.executor.submit(Priority::Medium, Box::new(PrepareJob { db: Arc::clone(self) }));
    }

    /// Removes a WAL that nobody wrote.
    pub(crate) fn discard_wal(&self, next: NextWal) {
        let number = next.live.number;
        drop(next);
        // What stays is empty, and the next open removes it.
        let _ = self.env.remove_file(&FileName::Wal(number).path(&self.dir));
    }
}
