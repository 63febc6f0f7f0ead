//! Closing: stop background work, make the WAL durable, give the lock back; and waiting for background work.

use super::expiry::FamilyExpiry;
use super::state::DbInner;
use crate::options::{FlushOptions, WaitForCompactOptions};
use crate::wal::WalWriter;
use siltstone_base::executor::Waited;
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::sync::{Arc, Weak};
use siltstone_base::{Error, ErrorKind, Result};

/// Tells those who wait for the end of closing, however it comes.
struct TellClosed<'a>(&'a DbInner);

impl Drop for TellClosed<'_> {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
        self.0.changed.notify_all();
    }
}

impl DbInner {
    /// Closes the database, or waits until whoever closes it has done so.
    pub(crate) fn close(&self) -> Result<()> {
        match self.close_first() {
            Some(closed) => closed,
            None => self.wait(|| self.closed.load(Ordering::Acquire)),
        }
    }

    /// Closes the database; `None` if somebody else does, or did.
    pub(crate) fn close_first(&self) -> Option<Result<()>> {
        if self.closing.swap(true, Ordering::AcqRel) {
            return None;
        }
        let _tell = TellClosed(self);
        Some(self.stop_and_sync())
    }

    fn stop_and_sync(&self) -> Result<()> {
        self.changed.notify_all();
        if self.read_only {
            self.let_policies_go();
            return Ok(());
        }
        self.wait(|| self.jobs_running() == 0 && self.state.lock().making_files == 0)?;
        self.expiry.close(true);
        self.let_policies_go();
        self.drop_next_wal();
        let synced = self.close_wal();
        // The next opening writes a MANIFEST of its own.
        self.versions.lock().close();
        drop(self.lock.lock().take());
        // What a failed engine could not sync was never promised; the caller has seen the error.
        match self.errors.cause() {
            Some(cause) => Err(cause),
            None => synced,
        }
    }

    /// Rows of another database may be theirs from now on.
    fn let_policies_go(&self) {
        self.families.load().values().filter_map(|family| family.expiry.as_ref()).for_each(FamilyExpiry::detach);
    }

    fn close_wal(&self) -> Result<()> {
        let mut leader = self.lock_write_side();
        if self.errors.is_failed() {
            return Ok(());
        }
        self.sync_wals(&mut leader.side)?;
        let finished = leader.side.wal.take().map_or(Ok(()), WalWriter::finish);
        // What a failed append left behind was never acknowledged.
        if leader.side.wal_broken { Ok(()) } else { finished }
    }

    fn jobs_running(&self) -> usize {
        let state = self.state.lock();
        state.running_flushes
            + state.running_compactions
            + state.reading_stamps
            + state.ending_jobs
            + state.attached_turns
    }

    /// Waits until the jobs that run have ended.
    fn wait_for_jobs(&self) -> Result<()> {
        self.wait(|| self.jobs_running() == 0)
    }

    /// Whether background work is paused, and none is left that runs.
    pub(crate) fn is_resting(&self) -> bool {
        self.state.lock().background_paused > 0 && self.jobs_running() == 0
    }

    /// Starts no new jobs until `resume`, and waits for those that run.
    pub(crate) fn pause(&self) -> Result<()> {
        self.state.lock().background_paused += 1;
        self.changed.notify_all();
        self.wait_for_jobs()
    }

    /// Takes one `pause` back.
    pub(crate) fn resume(self: &Arc<Self>) {
        {
            let mut state = self.state.lock();
            state.background_paused = state.background_paused.saturating_sub(1);
        }
        self.schedule();
        if let Some(attached) = self.attached.get().and_then(Weak::upgrade) {
            attached.resume();
        }
    }

    /// Waits until no job is due or running.
    pub(crate) fn wait_until_idle(self: &Arc<Self>) -> Result<()> {
        self.wait_for_compact(&WaitForCompactOptions::default())
    }

    /// Whether background work is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.state.lock().background_paused > 0
    }

    /// The same, as `options` say.
    pub(crate) fn wait_for_compact(self: &Arc<Self>, options: &WaitForCompactOptions) -> Result<()> {
        // Nothing runs in a database that is open for reading only, whatever may be due.
        if self.read_only {
            return Ok(());
        }
        if options.flush {
            let families: Vec<_> = self.families.load().values().cloned().collect();
            self.flush(&families, &FlushOptions::default().wait(false))?;
        }
        self.schedule();
        let is_paused = || options.abort_on_pause && self.is_paused();
        let is_done = || {
            let is_idle = self.is_idle();
            if !is_idle {
                // What became due by itself after the last job had looked, such as by a snapshot that went, has nobody else to start it.
                self.schedule();
            }
            is_idle
        };
        let mut is_over = || self.errors.is_failed() || self.is_closing() || is_paused() || is_done();
        match self.executor.wait_until(&self.changed, options.timeout, &mut is_over) {
            Waited::Met if is_paused() => Err(Error::new(ErrorKind::Aborted, "background work is paused")),
            Waited::Met => self.check_writable(),
            Waited::TimedOut => Err(Error::new(ErrorKind::TimedOut, "background work is not done yet")),
            Waited::Stuck => Err(stuck()),
        }
    }

    /// Whether no job runs and none is due. A family that waits to try again after a failure is not idle.
    fn is_idle(&self) -> bool {
        let state = self.state.lock();
        let jobs = state.running_flushes + state.running_compactions + state.reading_stamps + state.ending_jobs;
        if jobs > 0 || !state.manual.is_empty() {
            return false;
        }
        self.families.load().values().all(|family| {
            let pinned = family.super_version.load();
            let flush_due = state
                .families
                .get(&family.id)
                .is_some_and(|background| background.flush_requested.is_some() && !pinned.immutables.is_empty());
            !flush_due && !self.compaction_is_due(family, &pinned, &state)
        })
    }

    /// Waits until `condition` holds. The caller holds no lock.
    pub(crate) fn wait(&self, mut condition: impl FnMut() -> bool) -> Result<()> {
        match self.executor.wait_until(&self.changed, None, &mut condition) {
            Waited::Met => Ok(()),
            Waited::TimedOut | Waited::Stuck => Err(stuck()),
        }
    }
}

fn stuck() -> Error {
    Error::new(ErrorKind::Busy, "waited for background work, and none is left to run")
}
