//! Opens tables that nobody opened yet, so that what they tell of the stamps of their rows is known without I/O.

use crate::db::column_family::Family;
use crate::db::state::{DbInner, State};
use crate::file_meta::FileMeta;
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::sync::{Arc, Weak};

impl DbInner {
    /// Sees to it that the stamps of tables become known that were not opened yet. The caller holds the state lock.
    pub(crate) fn schedule_stamps(self: &Arc<Self>, state: &mut State) {
        for family in self.families.load().values() {
            let Some(expiry) = &family.expiry else { continue };
            let pinned = family.super_version.load();
            if expiry.begin_reading(&pinned.version) {
                let mut unread = pinned.version.all_files().filter(|(_, file)| file.reader.get().is_none()).peekable();
                if unread.peek().is_none() {
                    expiry.end_reading();
                    continue;
                }
                state.reading_stamps += 1;
                let unread = unread.map(|(_, file)| Arc::clone(file)).collect();
                let job = ReadStamps { db: Arc::downgrade(self), family: Arc::clone(family), unread };
                self.executor.submit(Priority::Medium, Box::new(job));
            }
        }
    }
}

/// Opens tables, so that what they tell of their rows is known.
struct ReadStamps {
    db: Weak<DbInner>,
    family: Arc<Family>,
    unread: Vec<Arc<FileMeta>>,
}

impl ReadStamps {
    fn end(&self) -> Progress {
        if let Some(expiry) = &self.family.expiry {
            expiry.end_reading();
        }
        if let Some(db) = self.db.upgrade() {
            db.state.lock().reading_stamps -= 1;
            db.schedule();
            db.changed.notify_all();
        }
        Progress::Done
    }
}

impl Job for ReadStamps {
    fn name(&self) -> &'static str {
        "stamps"
    }

    fn step(&mut self, budget: &mut Budget<'_>) -> Progress {
        while let Some(file) = self.unread.pop() {
            if self.db.upgrade().is_none_or(|db| db.is_closing()) {
                break;
            }
            // Whoever needs the table meets the error.
            let _ = self.family.table_cache.reader(&file);
            if budget.spend(1) || !self.unread.is_empty() {
                return Progress::More;
            }
        }
        self.end()
    }

    fn poisoned(&mut self, message: &str) {
        if let Some(db) = self.db.upgrade() {
            db.fail_poisoned(self.name(), message);
        }
        self.end();
    }
}
