//! Admission: how writers wait when background work falls behind.
//!
//! [Stops](super::write_controller) hold always. Before it comes to that, writers are slowed down: by the [pacer](super::pacing), or by RocksDB's
//! rules, as [`write_admission`](crate::DbOptions::write_admission) says.

use super::column_family::Family;
use super::error_state::RoomMaker;
use super::pacing::{Figures, Gauges, HeldBack, Kind, Pace, Pacer, level0_job, level0_next, pace};
use super::state::DbInner;
use super::super_version::SuperVersion;
use super::write_controller::Admission;
use crate::compaction::levels_with_data;
use crate::event::{StallCause, StallCondition};
use crate::metrics::{Counter, HistogramKind};
use crate::options::{CompactionStyle, WriteOptions};
use siltstone_base::executor::Waited;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::time::Duration;

/// Longest single sleep for the pacer: errors and closing are seen after it.
const MAX_WAIT: Duration = Duration::from_millis(10);

/// What a row of 400 bytes takes in a memtable for each byte of its write batch: of such rows were the fills by which the law was fitted.
const FITTED_MEMORY_PER_BYTE: f64 = 1.11;

/// Shortest sleep of who brings tables.
const MIN_WAIT: Duration = Duration::from_micros(100);

/// Bytes a second that who brings tables has for certain, so that its wait ends whatever the pace.
const LEAST_RATE: f64 = 1_048_576.0;

impl DbInner {
    /// Waits as the pacer says for the bytes that were written since it was last asked, `bytes` of this write among them.
    ///
    /// A write that must not wait is refused for what others wrote before it, never for its own size, and costs nothing then.
    #[cold]
    pub(super) fn keep_pace(
        self: &Arc<Self>,
        pacer: &Pacer,
        unpaced_bytes: &mut u64,
        bytes: u64,
        options: &WriteOptions,
    ) -> Result<()> {
        let started = self.now_nanos();
        if pacer.is_stale(started) {
            pacer.set(started, self.current_pace(pacer, started));
            self.sync_wal_early();
        }
        if options.no_slowdown {
            let before = unpaced_bytes.saturating_sub(bytes);
            if pacer.wait_for(started, before).is_some() {
                pacer.book(started, before);
                *unpaced_bytes = 0;
                return Err(delayed());
            }
            pacer.book(started, std::mem::take(unpaced_bytes));
            return Ok(());
        }
        let turn = pacer.wait_for(started, *unpaced_bytes);
        pacer.book(started, std::mem::take(unpaced_bytes));
        let Some(turn) = turn else { return Ok(()) };
        if !options.low_pri {
            pacer.hold_back(turn.until_nanos);
        }
        if self.is_pacing_unwatched() {
            self.watch_pacing();
        }
        let _waiting = self.write_queue.leader_waits(delayed());
        let mut held = HeldWrite::new(self);
        let mut now = started;
        while now < turn.until_nanos {
            let rest = Duration::from_micros((turn.until_nanos - now).div_ceil(1000));
            self.executor.sleep(rest.min(MAX_WAIT));
            held.waited(turn.cause, (self.now_nanos() - now) / 1000);
            now = self.now_nanos();
            self.errors.check()?;
            if self.is_closing() {
                return Err(closing());
            }
        }
        Ok(())
    }

    /// Lets a write of low priority wait while other writers are held back. It does so before it stands in the queue, where others would wait for it.
    #[cold]
    pub(super) fn yield_to_writers(&self, bytes: u64, options: &WriteOptions) -> Result<()> {
        let mut now = self.now_nanos();
        let mut held = HeldWrite::new(self);
        while let Some(held_back) = self.held_back(now) {
            let Some(until_nanos) = self.low_priority.wait_for(now, bytes, held_back) else { break };
            if options.no_slowdown {
                return Err(delayed());
            }
            let rest = Duration::from_micros((until_nanos - now).div_ceil(1000));
            self.executor.sleep(rest.min(MAX_WAIT));
            held.waited(held_back.cause, (self.now_nanos() - now) / 1000);
            now = self.now_nanos();
            self.errors.check()?;
            if self.is_closing() {
                return Err(closing());
            }
        }
        Ok(())
    }

    /// Whether writers are being held back, by the pacer or by RocksDB's rules.
    pub(super) fn held_back(&self, now_nanos: u64) -> Option<HeldBack> {
        if let Some(pacer) = self.pacer() {
            return pacer.held_back(now_nanos);
        }
        match self.controller.condition() {
            StallCondition::Normal => None,
            StallCondition::Delayed(cause) | StallCondition::Stopped(cause) => Some(HeldBack {
                rate: self.controller.delayed_rate() as f64,
                cause,
                until_nanos: now_nanos.saturating_add(MAX_WAIT.as_nanos() as u64),
            }),
        }
    }

    pub(super) fn now_nanos(&self) -> u64 {
        self.clock.now_micros().saturating_mul(1000)
    }

    /// The pace of the family that is furthest behind.
    fn current_pace(&self, pacer: &Pacer, now_nanos: u64) -> Pace {
        let families = self.families.load();
        let mut figures = Figures { wal_rate: self.wal_lag.rate(), ..Figures::default() };
        for family in families.values() {
            figures.flush.add(&family.work, Kind::Flush);
            figures.compaction.add(&family.work, Kind::Compaction);
            figures.owed_bytes += family.work.owed() as f64;
            figures.buffer_bytes =
                figures.buffer_bytes.max(family.super_version.load().options.write_buffer_size as f64);
        }
        let capacity = pacer.measure(now_nanos, &figures);
        let shared = self.shared_room();
        let paces = families.values().map(|family| pace(&gauges(family, shared), &capacity));
        paces.fold(self.wal_lag.pace(), Pace::min)
    }

    /// Whether a flush, of any family, should have the device for itself: the memtable that is being written fills faster than those before it
    /// get into a table, and no other may be begun; or writers wait for room among the memtables of all families.
    pub(super) fn is_flush_urgent(&self) -> bool {
        if self.pacer().is_none() {
            return false;
        }
        let families = self.families.load();
        let mut flushing = families.values().filter(|family| family.work.is_running(Kind::Flush)).peekable();
        flushing.peek().is_some() && (flushing.any(|family| Self::is_flush_late(family)) || self.are_memtables_full())
    }

    /// Whether the flush of `family` is behind its writers.
    fn is_flush_late(family: &Family) -> bool {
        let pinned = family.super_version.load();
        if pinned.immutables.is_empty() || pinned.immutables.len() + 1 < pinned.options.max_write_buffer_number {
            return false;
        }
        if pinned.immutables.len() >= pinned.options.max_write_buffer_number {
            // Writers are stopped until it is done.
            return true;
        }
        let sealed = sealed_bytes(&pinned) as f64;
        let filled = pinned.memtable.approximate_memory_usage() as f64 / pinned.options.write_buffer_size.max(1) as f64;
        filled > family.work.in_flight(Kind::Flush) as f64 / sealed.max(1.0)
    }

    /// Lets who is about to bring tables of so many bytes wait as a writer of them does: until writers are not stopped, and for as long as the rate takes that they are slowed down to. It leads
    /// nobody meanwhile, and what others may write is not less for it.
    ///
    /// Who must not wait is refused for what others wrote, never for its own size.
    pub(super) fn wait_to_bring(self: &Arc<Self>, bytes: u64, options: &WriteOptions) -> Result<()> {
        self.errors.check()?;
        if options.low_pri {
            self.yield_to_writers(bytes, options)?;
        }
        if options.no_slowdown {
            let is_behind = self.pacer().is_some_and(|pacer| pacer.wait_for(self.now_nanos(), 0).is_some());
            return if is_behind || self.controller.is_engaged() { Err(delayed()) } else { Ok(()) };
        }
        let mut held = HeldWrite::new(self);
        let mut left = bytes as f64;
        loop {
            let now = self.now_nanos();
            if let StallCondition::Stopped(cause) = self.controller.condition() {
                let parked = self.park(0);
                held.waited(cause, (self.now_nanos() - now) / 1000);
                parked?;
            } else if left > 0.0
                && let Some((rate, cause)) = self.slowed_down_to(now)
            {
                let rate = rate.max(LEAST_RATE);
                let rest = Duration::from_secs_f64((left / rate).min(MAX_WAIT.as_secs_f64()));
                self.executor.sleep(rest.max(MIN_WAIT));
                let passed = self.now_nanos().saturating_sub(now);
                left -= rate * passed as f64 / 1e9;
                held.waited(cause, passed / 1000);
            } else {
                return Ok(());
            }
            self.errors.check()?;
            if self.is_closing() {
                return Err(closing());
            }
        }
    }

    /// The rate that writers have now, in bytes a second, and why, if they are slowed down.
    fn slowed_down_to(self: &Arc<Self>, now_nanos: u64) -> Option<(f64, StallCause)> {
        let Some(pacer) = self.pacer() else {
            return match self.controller.condition() {
                StallCondition::Delayed(cause) => Some((self.controller.delayed_rate() as f64, cause)),
                StallCondition::Normal | StallCondition::Stopped(_) => None,
            };
        };
        if pacer.is_stale(now_nanos) {
            pacer.set(now_nanos, self.current_pace(pacer, now_nanos));
            self.sync_wal_early();
        }
        let pace = pacer.pace();
        pace.rate.is_finite().then_some((pace.rate, pace.cause))
    }

    /// Sleeps or parks until the controller admits `bytes`.
    #[cold]
    pub(super) fn wait_for_admission(&self, bytes: u64, options: &WriteOptions) -> Result<()> {
        let mut held = HeldWrite::new(self);
        let mut waiting = None;
        loop {
            let now_micros = self.clock.now_micros();
            let (cause, stopped, wait) = match self.controller.admit(bytes, now_micros) {
                Admission::Admit => return Ok(()),
                Admission::Sleep(wait, cause) => (cause, false, wait),
                Admission::Park(cause) => (cause, true, Duration::ZERO),
            };
            if options.no_slowdown {
                return Err(delayed());
            }
            waiting.get_or_insert_with(|| self.write_queue.leader_waits(delayed()));
            let parked = match stopped {
                true => self.park(bytes),
                false => {
                    self.executor.sleep(wait);
                    Ok(())
                }
            };
            held.waited(cause, self.clock.now_micros() - now_micros);
            parked?;
            self.errors.check()?;
            if self.is_closing() {
                return Err(closing());
            }
        }
    }

    /// Waits until a flush has made `has_room` true.
    #[cold]
    pub(super) fn wait_for_flush(&self, options: &WriteOptions, has_room: impl Fn() -> bool) -> Result<()> {
        if options.no_slowdown {
            return Err(delayed());
        }
        let _waiting = self.write_queue.leader_waits(delayed());
        let mut held = HeldWrite::new(self);
        let now_micros = self.clock.now_micros();
        let parked = self.park_until(|| if has_room() { Parked::No } else { Parked::Until(StallCause::MemtableLimit) });
        held.waited(StallCause::MemtableLimit, self.clock.now_micros() - now_micros);
        parked?;
        self.errors.check()
    }

    /// Waits until writers are not stopped any more, the engine fails, or it closes.
    fn park(&self, bytes: u64) -> Result<()> {
        self.park_until(|| match self.controller.admit(bytes, self.clock.now_micros()) {
            Admission::Park(cause) => Parked::Until(cause),
            Admission::Admit | Admission::Sleep(..) => Parked::No,
        })
    }

    fn park_until(&self, parked: impl Fn() -> Parked) -> Result<()> {
        let mut met = None;
        let waited = self.executor.wait_until(&self.changed, None, &mut || {
            if self.errors.is_failed() || self.is_closing() {
                return true;
            }
            let Parked::Until(cause) = parked() else { return true };
            met = room_maker(cause).and_then(|maker| self.errors.passing(maker));
            met.is_some()
        });
        if self.is_closing() {
            return Err(closing());
        }
        if let Some(error) = met {
            return Err(error);
        }
        match waited {
            Waited::Stuck => Err(Error::new(ErrorKind::Busy, "writers are stopped and no background work is left")),
            _ => Ok(()),
        }
    }
}

/// Whether a writer still waits, and for what.
enum Parked {
    No,
    Until(StallCause),
}

/// Whose failure ends the waiting. No other one does: what makes room may be under way.
fn room_maker(cause: StallCause) -> Option<RoomMaker> {
    match cause {
        StallCause::MemtableLimit => Some(RoomMaker::Flush),
        StallCause::L0FileCount | StallCause::PendingCompactionBytes => Some(RoomMaker::Compaction),
        // A sync that fails is final.
        StallCause::UnsyncedWal => None,
    }
}

/// A write that may have to wait, in several turns and for several causes. One that had to is counted once, however its waiting ended. Those of its group wait with it, and are not counted.
struct HeldWrite<'a> {
    db: &'a DbInner,
    /// `None` until it waits.
    waited_micros: Option<u64>,
}

impl<'a> HeldWrite<'a> {
    fn new(db: &'a DbInner) -> Self {
        Self { db, waited_micros: None }
    }

    fn waited(&mut self, cause: StallCause, micros: u64) {
        self.db.metrics.add(Counter::stall_micros(cause), micros);
        *self.waited_micros.get_or_insert(0) += micros;
    }
}

impl Drop for HeldWrite<'_> {
    fn drop(&mut self) {
        if let Some(micros) = self.waited_micros {
            self.db.metrics.add(Counter::StalledWrites, 1);
            self.db.metrics.record(HistogramKind::WriteStall, micros);
        }
    }
}

/// What the pace of a family depends on, now; `shared_room` is what all of them may still write, if that is limited.
fn gauges(family: &Family, shared_room: Option<u64>) -> Gauges {
    let pinned = family.super_version.load();
    let (options, work) = (&pinned.options, &family.work);
    let free_buffers = options.max_write_buffer_number.saturating_sub(1 + pinned.immutables.len());
    let free = (free_buffers + 1).saturating_mul(options.write_buffer_size);
    let active = pinned.memtable.approximate_memory_usage();
    let room = free.saturating_sub(active);
    let room = shared_room.map_or(room, |shared| room.min(usize::try_from(shared).unwrap_or(usize::MAX)));
    // Levels are sorted runs, too.
    let other_runs = match options.compaction_style {
        CompactionStyle::Universal => levels_with_data(&pinned.version),
        CompactionStyle::Leveled | CompactionStyle::Lazy | CompactionStyle::Fifo => 0,
    };
    let compacts = !options.disable_auto_compactions && options.compaction_style != CompactionStyle::Fifo;
    let level0 = level0_job(&pinned.version, options, work.level0_job());
    let sealed = sealed_bytes(&pinned);
    let unflushed = sealed.saturating_sub(work.in_flight(Kind::Flush));
    Gauges {
        room_bytes: room as f64,
        unflushed_bytes: unflushed as f64,
        l0_files: pinned.version.files(0).len() as f64 - work.l0_files_done(),
        l0_all_files: pinned.version.files(0).len() as f64,
        l0_taken_files: level0.files,
        l0_left_bytes: level0.left_bytes,
        l0_total_bytes: level0.total_bytes,
        l0_next_bytes: level0_next(&pinned.version, options, level0.total_bytes),
        l0_trigger: options.level0_file_num_compaction_trigger as f64,
        l0_stop: match compacts {
            true => options.level0_stop_writes_trigger.saturating_sub(other_runs) as f64,
            false => f64::INFINITY,
        },
        compacts,
        owed_bytes: work.owed() as f64,
        owed_stop: match options.hard_pending_compaction_bytes_limit {
            0 => f64::INFINITY,
            bytes => bytes as f64,
        },
        buffered_bytes: active as f64 + unflushed as f64,
        unfiled_bytes: active as f64 + sealed as f64,
        max_buffered_bytes: options.max_write_buffer_number.saturating_mul(options.write_buffer_size) as f64,
        buffer_bytes: options.write_buffer_size as f64,
        memory_per_byte: memory_per_byte(&pinned),
    }
}

/// Bytes of memory for each that is written, as the newest memtable tells that has enough; in those of the rows with which the law's constants were fitted.
fn memory_per_byte(pinned: &SuperVersion) -> f64 {
    let sealed = || pinned.immutables.newest_first().iter().find_map(|memtable| memtable.memory_per_batch_byte());
    let memory = pinned.memtable.memory_per_batch_byte().or_else(sealed).unwrap_or(1.0);
    (memory / FITTED_MEMORY_PER_BYTE).max(1.0)
}

fn sealed_bytes(pinned: &SuperVersion) -> u64 {
    pinned.immutables.newest_first().iter().map(|memtable| memtable.approximate_memory_usage() as u64).sum()
}

#[cold]
pub(super) fn closing() -> Error {
    Error::new(ErrorKind::Aborted, "the database is closing")
}

#[cold]
fn delayed() -> Error {
    Error::new(ErrorKind::Incomplete, "the write would have had to wait for room")
}
