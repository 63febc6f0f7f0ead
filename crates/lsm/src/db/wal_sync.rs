//! Syncing the WAL in the background every so many milliseconds, earlier where much is unsynced, and when a caller asks.

use super::state::DbInner;
use crate::file_names::FileName;
use siltstone_base::Result;
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::sync::{Arc, Weak};
use std::time::Duration;

/// Syncs the WALs again and again while the database is open.
struct WalSyncJob {
    db: Weak<DbInner>,
    every: Duration,
    /// Number and length of the WAL that was synced last.
    synced_up_to: (u64, u64),
}

impl Job for WalSyncJob {
    fn name(&self) -> &'static str {
        "wal sync"
    }

    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        let Some(db) = self.db.upgrade() else { return Progress::Done };
        if db.is_closing() || db.errors.is_failed() {
            return Progress::Done;
        }
        // Not the visible number: a transaction that is rolled back takes none.
        let written = db.written_wal();
        if written > self.synced_up_to {
            match db.sync_wal_beside_writers() {
                Ok(()) => self.synced_up_to = written,
                Err(error) => {
                    db.fail(&error);
                    return Progress::Done;
                }
            }
        }
        Progress::After(self.every)
    }

    fn poisoned(&mut self, message: &str) {
        if let Some(db) = self.db.upgrade() {
            db.fail_poisoned("wal sync", message);
        }
    }
}

/// Syncs the WALs before their time has come, until little is unsynced.
struct EarlySyncJob {
    db: Weak<DbInner>,
}

impl Job for EarlySyncJob {
    fn name(&self) -> &'static str {
        "early wal sync"
    }

    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        let Some(db) = self.db.upgrade() else { return Progress::Done };
        if db.is_closing() || db.errors.is_failed() {
            db.wal_lag.end_early();
            return Progress::Done;
        }
        if let Err(error) = db.sync_wal_beside_writers() {
            db.fail(&error);
            db.wal_lag.end_early();
            return Progress::Done;
        }
        if db.wal_lag.goes_on_syncing() { Progress::More } else { Progress::Done }
    }

    fn poisoned(&mut self, message: &str) {
        if let Some(db) = self.db.upgrade() {
            db.fail_poisoned("early wal sync", message);
        }
    }
}

impl DbInner {
    /// Starts a sync of the WALs now if it would take too long once its time has come.
    pub(super) fn sync_wal_early(self: &Arc<Self>) {
        if self.wal_lag.begins_early() {
            self.executor.submit(Priority::High, Box::new(EarlySyncJob { db: Arc::downgrade(self) }));
        }
    }

    /// Starts the job that syncs every `wal_sync_interval_millis`, if that is set.
    pub(crate) fn start_wal_sync(self: &Arc<Self>) {
        let millis = self.options.wal_sync_interval_millis;
        if millis > 0 {
            let every = Duration::from_millis(millis);
            let job = WalSyncJob { db: Arc::downgrade(self), every, synced_up_to: (0, 0) };
            self.executor.submit(Priority::High, Box::new(job));
        }
    }

    /// Number and length of the WAL that is written.
    fn written_wal(&self) -> (u64, u64) {
        let state = self.state.lock();
        state.wals.back().map_or((0, 0), |wal| (wal.number, wal.written.load(Ordering::Acquire)))
    }

    /// Bytes in the WALs behind what is known to be durable.
    pub(super) fn unsynced_wal_bytes(&self) -> u64 {
        let durable = self.durable_wal.point();
        let state = self.state.lock();
        let behind = state.wals.iter().filter(|wal| !wal.synced && wal.number >= durable.number);
        let unsynced = behind.map(|wal| {
            let durable = if wal.number == durable.number { durable.offset } else { 0 };
            wal.written.load(Ordering::Acquire).saturating_sub(durable)
        });
        unsynced.fold(0, u64::saturating_add)
    }

    /// Makes every write so far durable.
    pub(crate) fn sync_wal(&self) -> Result<()> {
        self.check_writable()?;
        let mut leader = self.lock_write_side();
        self.check_writable()?;
        self.sync_wals(&mut leader.side)
    }

    /// The same without keeping writers waiting: through second handles, the oldest WAL first.
    fn sync_wal_beside_writers(&self) -> Result<()> {
        let begun = self.wal_lag.begin(self.now_nanos());
        self.wal_lag.finds(begun, self.unsynced_wal_bytes());
        let current = {
            let state = self.state.lock();
            state.wals.back().map(|wal| (wal.number, Arc::clone(&wal.sync), Arc::clone(&wal.written)))
        };
        let Some((number, sync, written)) = current else { return Ok(()) };
        let written = written.load(Ordering::Acquire);
        self.sync_closed_wals(number)?;
        let path = FileName::Wal(number).path(&self.dir);
        self.sync_once(|| {
            sync.sync_data(super::memtable_switch::WAL_CONTEXT)
                .map_err(|error| siltstone_base::Error::io("sync", &path, error))
        })?;
        self.sync_directory()?;
        self.durable_wal.raise(number, written);
        self.wal_lag.synced(begun, self.now_nanos());
        Ok(())
    }
}
