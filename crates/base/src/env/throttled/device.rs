//! The one queue of the modelled device, and how callers wait for it.

use super::model::DeviceModel;
use super::report::DeviceReport;
use crate::clock::Clock;
use crate::sync::{Arc, Mutex, Rank};
use std::time::Duration;

/// Taken below every lock of an engine.
const RANK: Rank = Rank(u16::MAX - 10);

/// A shorter sleep is put off: the operating system cannot keep it.
const SLICE_NANOS: u64 = 1_000_000;

/// The longest oversleep that the device makes up for.
const CREDIT_NANOS: u64 = 4_000_000;

/// A device that serves one operation after the other.
///
/// Thread safety: every method may be called from any thread.
///
/// Time is virtual: `free_at` is when the device will have done all that it was given. A caller whose operation ends less than
/// a slice from now does not sleep, and the time that it owes stays in `free_at`; so any rate is kept on average, whatever
/// the resolution of a sleep. A sleep that lasted too long is made up for: the device begins the next operation as
/// early as it would have without it.
pub(super) struct Device {
    model: DeviceModel,
    clock: Arc<dyn Clock>,
    begin_micros: u64,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    free_at: u64,
    /// Nanoseconds by which sleepers came back late, not yet used.
    credit: u64,
    /// Idle time before this moment was paid for with credit, or is lost.
    made_up_until: u64,
    /// Device time of what is in the page cache and waits to be written.
    dirty: u64,
    /// Operations take no time.
    is_free: bool,
    /// The file and the position that the last operation ended at.
    head: Option<(u64, u64)>,
    report: DeviceReport,
}

/// One operation: the range of a file, by its id.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) file: u64,
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl Queue {
    /// Serves what takes `nanos` after everything before it; returns when it is done.
    fn serve(&mut self, model: &DeviceModel, now: u64, nanos: u64) -> u64 {
        if self.is_free {
            return now;
        }
        self.catch_up(model, now);
        let begin = self.begin(now);
        self.occupy(model, begin, nanos);
        self.free_at
    }

    /// When the device begins an operation that it is given now: at once, after what it has to do, or, while sleepers
    /// came back late, when it was free.
    fn begin(&mut self, now: u64) -> u64 {
        if now <= self.free_at {
            return self.free_at;
        }
        // Another thread may have read the clock later and come here earlier.
        let idle = now.saturating_sub(self.free_at.max(self.made_up_until));
        self.made_up_until = self.made_up_until.max(now);
        if idle <= self.credit {
            self.credit -= idle;
            return self.free_at;
        }
        self.free_at.max(now - std::mem::take(&mut self.credit).min(now))
    }

    /// In the time that nobody asked for, the device wrote what waits to be written.
    fn catch_up(&mut self, model: &DeviceModel, now: u64) {
        let written = model.share_of(now.saturating_sub(self.free_at)).min(self.dirty);
        if written > 0 {
            self.dirty -= written;
            self.head = None;
            self.occupy(model, self.free_at, written);
        }
    }

    /// Keeps the device busy from `begin` with what takes `nanos` without competition.
    fn occupy(&mut self, model: &DeviceModel, begin: u64, nanos: u64) {
        let stretched = model.stretched(nanos);
        self.report.device_nanos += nanos;
        self.report.background_nanos += stretched.saturating_sub(nanos);
        self.free_at = begin.saturating_add(stretched);
    }

    /// Whether an operation on `range` goes on where the last one of any file ended; then moves there.
    fn moves_on(&mut self, range: Range) -> bool {
        let goes_on = self.head == Some((range.file, range.offset));
        self.head = Some((range.file, range.offset.saturating_add(range.len)));
        goes_on
    }
}

impl Device {
    pub(super) fn new(model: DeviceModel, clock: Arc<dyn Clock>) -> Self {
        let begin_micros = clock.now_micros();
        let queue = Queue { free_at: begin_micros.saturating_mul(1_000), ..Queue::default() };
        Self { model, clock, begin_micros, queue: Mutex::new(RANK, queue) }
    }

    pub(super) fn model(&self) -> &DeviceModel {
        &self.model
    }

    /// Lets operations take no time, or their time again; what was written meanwhile is on the device.
    pub(super) fn set_free(&self, is_free: bool) {
        let now = self.now_nanos();
        let mut queue = self.queue.lock();
        queue.catch_up(&self.model, now);
        queue.is_free = is_free;
        queue.dirty = 0;
        queue.free_at = now;
        queue.head = None;
    }

    /// Now, in nanoseconds of the clock. A caller asks before it does the real operation, which thus runs beside the modelled
    /// one: the two cost the longer of their times.
    pub(super) fn now_nanos(&self) -> u64 {
        self.clock.now_micros().saturating_mul(1_000)
    }

    /// Reads a range; `read_ahead`: the page cache had asked for it together with what comes before. Returns when it is there.
    pub(super) fn read(&self, now: u64, range: Range, read_ahead: bool) -> u64 {
        let mut queue = self.queue.lock();
        let goes_on = queue.moves_on(range) && self.model.is_rotating || read_ahead;
        queue.report.reads += 1;
        queue.report.read_bytes += range.len;
        queue.serve(&self.model, now, self.model.read_nanos(range.len, goes_on))
    }

    /// Writes a range past the page cache; `goes_on`: where the last write of the file ended. Returns when it is there.
    pub(super) fn write(&self, now: u64, range: Range, goes_on: bool) -> u64 {
        let mut queue = self.queue.lock();
        queue.moves_on(range);
        queue.report.writes += 1;
        queue.report.written_bytes += range.len;
        queue.serve(&self.model, now, self.model.write_nanos(range.len, goes_on))
    }

    /// Takes a write into the page cache. Returns the device time that it will cost, and until when the writer waits: for
    /// what exceeds the limit of what may wait to be written.
    pub(super) fn write_back(&self, now: u64, len: u64, goes_on: bool) -> (u64, u64) {
        let nanos = self.model.write_nanos(len, goes_on);
        let mut queue = self.queue.lock();
        queue.report.writes += 1;
        queue.report.written_bytes += len;
        queue.catch_up(&self.model, now);
        queue.dirty = queue.dirty.saturating_add(nanos);
        let excess = queue.dirty.saturating_sub(self.model.dirty_nanos());
        if excess == 0 {
            return (nanos, now);
        }
        queue.dirty -= excess;
        // The head is somewhere else afterwards.
        queue.head = None;
        (nanos, queue.serve(&self.model, now, excess))
    }

    /// Writes what is left of `dirty` nanoseconds of a file in the page cache, and syncs. Returns when it is done.
    pub(super) fn sync(&self, now: u64, dirty: u64) -> u64 {
        let mut queue = self.queue.lock();
        queue.catch_up(&self.model, now);
        let rest = dirty.min(queue.dirty);
        queue.dirty -= rest;
        queue.head = None;
        queue.report.syncs += 1;
        queue.serve(&self.model, now, rest.saturating_add(self.model.sync_nanos()))
    }

    /// Forgets what a removed file had in the page cache.
    pub(super) fn forget(&self, dirty: u64) {
        let now = self.now_nanos();
        let mut queue = self.queue.lock();
        queue.catch_up(&self.model, now);
        queue.dirty = queue.dirty.saturating_sub(dirty);
    }

    /// Lets the caller wait until `done`, unless that is less than a slice away.
    pub(super) fn wait(&self, done: u64) {
        let debt = done.saturating_sub(self.now_nanos());
        if debt < SLICE_NANOS {
            return;
        }
        self.clock.sleep(Duration::from_micros(debt.div_ceil(1_000)));
        let late = self.now_nanos().saturating_sub(done);
        let mut queue = self.queue.lock();
        queue.report.slept_nanos += debt + late;
        queue.report.sleeps += 1;
        queue.credit = queue.credit.max(late.min(CREDIT_NANOS));
    }

    /// What was done so far; of the page cache the caller adds.
    pub(super) fn report(&self) -> DeviceReport {
        let now = self.now_nanos();
        let mut queue = self.queue.lock();
        queue.catch_up(&self.model, now);
        let report = queue.report.clone();
        DeviceReport {
            model: Some(self.model.clone()),
            elapsed_nanos: now.saturating_sub(self.begin_micros.saturating_mul(1_000)),
            owed_nanos: queue.free_at.saturating_sub(now),
            dirty_nanos: queue.dirty,
            ..report
        }
    }
}
