//! Seals memtables, starts the next ones with a new WAL, and syncs WALs.

use super::column_family::Family;
use super::state::{DbInner, State};
use super::super_version::SuperVersion;
use super::write::WriteSide;
use crate::event::FlushReason;
use crate::file_names::FileName;
use crate::metrics::{Counter, HistogramKind};
use crate::wal::WalWriter;
use siltstone_base::env::{FileKind, IoContext, IoPriority};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};

/// Every I/O on a WAL that a writer waits for.
pub(crate) const WAL_CONTEXT: IoContext = IoContext::new(FileKind::Wal, IoPriority::User);

impl DbInner {
    /// Switches the memtables that writers found full.
    pub(crate) fn switch_full_memtables(self: &Arc<Self>, side: &mut WriteSide) -> Result<()> {
        let full: Vec<Arc<Family>> = side.full.iter().filter_map(|id| self.family(*id)).collect();
        self.switch_memtables(side, &full, FlushReason::WriteBufferFull)?;
        side.full.clear();
        Ok(())
    }

    /// Switches the memtables of the families that pin the oldest WAL when all WALs together are too large.
    pub(crate) fn limit_wal_size(self: &Arc<Self>, side: &mut WriteSide) -> Result<()> {
        let current = side.wal.as_ref().map_or(0, WalWriter::len);
        let families = self.families.load();
        let limit = match self.live_options.load().max_total_wal_size {
            0 => families.values().map(|family| 4 * family.super_version.load().options.write_buffer_size as u64).sum(),
            limit => limit,
        };
        if side.closed_wal_bytes + current <= limit {
            return Ok(());
        }
        // Those that were deleted since do not count, and neither do those that no flush can free: memtables would be flushed again and again, however small.
        let pinned = self.who_pins_logs();
        let oldest = pinned.as_ref().map_or(side.wal_number, |(oldest, _)| *oldest);
        side.closed_wal_bytes = self.closed_wal_bytes(oldest, side.wal_number);
        if side.closed_wal_bytes + current <= limit {
            return Ok(());
        }
        // Where a sealed memtable pins the oldest one, its flush is on the way: nobody else is switched meanwhile.
        match pinned {
            Some((oldest, pinning)) if oldest < side.wal_number => {
                self.switch_memtables(side, &pinning, FlushReason::WalTotalSize)
            }
            _ => Ok(()),
        }
    }

    /// Bytes in the live WALs from `oldest` on, and below `current`.
    fn closed_wal_bytes(&self, oldest: u64, current: u64) -> u64 {
        let state = self.state.lock();
        let counted = state.wals.iter().filter(|wal| (oldest..current).contains(&wal.number));
        counted.map(|wal| wal.size).sum()
    }

    /// Seals the memtables of `families` that are not empty and asks for their flush. All of them start anew with one
    /// new WAL.
    pub(crate) fn switch_memtables(
        self: &Arc<Self>,
        side: &mut WriteSide,
        families: &[Arc<Family>],
        reason: FlushReason,
    ) -> Result<()> {
        // A family is dropped by whoever holds the write side: one that is not dropped now stays so until the end.
        let sealable = |family: &&Arc<Family>| !family.is_dropped() && !family.super_version.load().memtable.is_empty();
        let sealed: Vec<&Arc<Family>> = families.iter().filter(sealable).collect();
        if sealed.is_empty() {
            return Ok(());
        }
        // Also after writes without a WAL: the number of its first WAL tells a memtable from the one before.
        self.rotate_wal(side)?;
        {
            let mut state = self.state.lock();
            for family in &sealed {
                let old = family.super_version.load_full();
                family.publish(
                    SuperVersion {
                        memtable: Family::next_memtable(&old.options, &old.memtable, side.wal_number),
                        immutables: old.immutables.with_newest(Arc::clone(&old.memtable)),
                        version: Arc::clone(&old.version),
                        options: Arc::clone(&old.options),
                    },
                    self.clock.now_micros(),
                );
                if let Some(background) = state.families.get_mut(&family.id) {
                    background.flush_requested = Some(reason);
                }
            }
        }
        for family in &sealed {
            self.update_pressure(family);
        }
        self.schedule_only_flushes();
        Ok(())
    }

    /// Closes the WAL and starts the next one.
    pub(crate) fn rotate_wal(self: &Arc<Self>, side: &mut WriteSide) -> Result<()> {
        let number = self.file_numbers.allocate();
        let (next, live) = self.begin_wal(number)?;
        let old_number = std::mem::replace(&mut side.wal_number, number);
        let old = side.wal.replace(next);
        let was_broken = std::mem::take(&mut side.wal_broken);
        side.wal_entry_synced = false;
        side.next_wal_asked = false;
        side.wal_written_back = 0;
        if let Some(old) = old {
            // After a failed append this is what was acknowledged, not what the file may hold.
            let size = old.len();
            if was_broken {
                // Whoever asked for the append that broke it was told.
                drop(old.finish());
            } else {
                self.retired_wals.lock().push(old);
            }
            if was_broken && size == 0 && self.discard_newest_wal(old_number)? {
                // Every attempt to write on a full device would leave one more.
            } else {
                side.predecessors.push((old_number, size));
                side.closed_wal_bytes += size;
                if let Some(last) = self.state.lock().wals.back_mut() {
                    last.size = size;
                }
            }
        }
        let emptied = {
            let mut state = self.state.lock();
            // Of WALs that recovery does not read any more nothing is to be stated.
            side.predecessors.retain(|(stated, _)| state.wals.iter().any(|wal| wal.number == *stated));
            state.wals.push_back(live);
            self.start_empty_memtables_at(number, &mut state)
        };
        drop(emptied);
        // What an append left that failed may be a decision, and who asked for it was told that there is none. It must not come to count when nothing but what is prepared
        // keeps the WAL any more, even if nothing else is written until then. Nor may it count for one family, or be taken for damage, when another one's tables are ahead of it.
        let matters = self.prepared_logs.oldest().is_some() || self.families.load().len() > 1;
        match was_broken && !side.predecessors.is_empty() && matters {
            true => self.log_notes(side),
            false => Ok(()),
        }
    }

    /// Closes the files of WALs that nobody writes any more. To cut what was reserved behind their end can take as long as the device has work
    /// before it, so writers leave it to flushes.
    pub(crate) fn finish_retired_wals(&self) -> Result<()> {
        let retired = std::mem::take(&mut *self.retired_wals.lock());
        let finished: Vec<Result<()>> = retired.into_iter().map(WalWriter::finish).collect();
        let outcome = finished.into_iter().collect();
        if let Err(error) = &outcome {
            // The end of the closed file is unknown: what it holds must not be relied on.
            self.fail(error);
        }
        outcome
    }

    /// Removes the newest WAL, in which nothing was ever acknowledged. False if it is still there. Where nobody knows whether it is there after a crash, the next one could say neither that it
    /// is nor that it is not: the engine becomes read-only.
    fn discard_newest_wal(&self, number: u64) -> Result<bool> {
        let path = FileName::Wal(number).path(&self.dir);
        if self.env.remove_file(&path).is_err() {
            return Ok(false);
        }
        if let Err(error) = self.sync_directory() {
            self.fail(&error);
            return Err(error);
        }
        self.state.lock().wals.pop_back();
        Ok(true)
    }

    /// Families with nothing in memory need no WAL before `number`: their memtables start there.
    fn start_empty_memtables_at(&self, number: u64, _state: &mut State) -> Vec<Arc<SuperVersion>> {
        let mut replaced = Vec::new();
        for family in self.families.load().values() {
            let old = family.super_version.load_full();
            if old.memtable.is_empty() {
                family.publish(
                    SuperVersion {
                        memtable: Family::next_memtable(&old.options, &old.memtable, number),
                        immutables: old.immutables.clone(),
                        version: Arc::clone(&old.version),
                        options: Arc::clone(&old.options),
                    },
                    self.clock.now_micros(),
                );
                replaced.push(old);
            }
        }
        replaced
    }

    /// Makes all that the WALs hold durable: the closed ones first, then the one being written, then, once, its entry in
    /// the directory. A failure is final: the engine becomes read-only.
    pub(crate) fn sync_wals(&self, side: &mut WriteSide) -> Result<()> {
        let outcome = self.try_sync_wals(side);
        if let Err(error) = &outcome {
            if is_planted(PlantedBug::FailedSyncIsRetried) {
                let again = self.state.lock().wals.back().map(|wal| Arc::clone(&wal.sync));
                return again.map_or(Ok(()), |sync| {
                    sync.sync_data(WAL_CONTEXT).map_err(|source| Error::io("sync", &self.dir, source))
                });
            }
            self.fail(error);
        }
        outcome
    }

    fn try_sync_wals(&self, side: &mut WriteSide) -> Result<()> {
        if !is_planted(PlantedBug::ClosedWalTailIsNotSynced) {
            self.sync_closed_wals(side.wal_number)?;
        }
        self.sync_current_wal(side)?;
        if !side.wal_entry_synced && !is_planted(PlantedBug::NewWalIsNotInDirectory) {
            self.sync_directory()?;
        }
        side.wal_entry_synced = true;
        self.wal_lag.all_is_synced();
        self.durable_wal.raise(side.wal_number, side.wal.as_ref().map_or(0, WalWriter::len));
        Ok(())
    }

    fn sync_current_wal(&self, side: &mut WriteSide) -> Result<()> {
        let beside =
            side.wal_broken.then(|| self.state.lock().wals.back().map(|live| Arc::clone(&live.sync))).flatten();
        let (path, wal) = (FileName::Wal(side.wal_number).path(&self.dir), &mut side.wal);
        self.sync_once(|| match (beside, wal) {
            // After a failed append the writer refuses everything; what it acknowledged before is in the file.
            (Some(handle), _) => handle.sync_data(WAL_CONTEXT).map_err(|error| Error::io("sync", &path, error)),
            (None, Some(wal)) => wal.sync(),
            (None, None) => Ok(()),
        })
    }

    /// Runs a sync of a WAL unless an earlier one has failed; that this one fails is known before the next can begin.
    pub(crate) fn sync_once(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let turn = self.wal_sync.lock();
        if is_planted(PlantedBug::FailedSyncIsRetried) {
            drop(turn);
            return sync();
        }
        self.errors.check()?;
        let started_micros = self.clock.now_micros();
        let outcome = sync();
        let micros = self.clock.now_micros().saturating_sub(started_micros);
        let first = outcome.as_ref().err().filter(|error| self.errors.fail(error));
        drop(turn);
        match first {
            Some(error) => self.tell_failure(error),
            None if outcome.is_ok() => {
                self.metrics.add(Counter::WalSyncs, 1);
                self.metrics.record(HistogramKind::WalFileSync, micros);
            }
            None => {}
        }
        outcome
    }

    /// Syncs every WAL below `number` that is not durable yet.
    pub(crate) fn sync_closed_wals(&self, number: u64) -> Result<()> {
        self.finish_retired_wals()?;
        let unsynced: Vec<_> = {
            let state = self.state.lock();
            let closed = state.wals.iter().filter(|wal| wal.number < number && !wal.synced);
            closed.map(|wal| (wal.number, Arc::clone(&wal.sync))).collect()
        };
        if unsynced.is_empty() {
            return Ok(());
        }
        for (number, sync) in &unsynced {
            let path = FileName::Wal(*number).path(&self.dir);
            self.sync_once(|| sync.sync_data(WAL_CONTEXT).map_err(|error| Error::io("sync", &path, error)))?;
        }
        self.sync_directory()?;
        self.durable_wal.raise(number, 0);
        let mut state = self.state.lock();
        for wal in &mut state.wals {
            wal.synced |= unsynced.iter().any(|(number, _)| *number == wal.number);
        }
        Ok(())
    }

    /// Makes the entries of the database's directory durable.
    pub(crate) fn sync_directory(&self) -> Result<()> {
        self.env.sync_dir(&self.dir).map_err(|error| Error::io("sync", &self.dir, error))
    }
}
