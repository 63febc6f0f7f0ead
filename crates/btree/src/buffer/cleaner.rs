//! How many pages to write: a pure function of what is dirty, how old it is, and how fast the log grows.

use crate::page::Lsn;

/// What the decision rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlushInputs {
    /// Frames of the pool.
    pub(crate) frames: usize,
    /// Dirty pages.
    pub(crate) dirty: usize,
    /// Bytes of the redo log since the checkpoint.
    pub(crate) age: u64,
    /// Bytes of the redo log that may be used.
    pub(crate) capacity: u64,
    /// Whether nothing was written for a while.
    pub(crate) is_idle: bool,
    /// Pages that became dirty since the last look for which the log grew as much as in the last interval.
    pub(crate) rate_pages: usize,
    /// Pages that were written in a second of late.
    pub(crate) written_pages: usize,
    /// Options of the same names.
    pub(crate) io_capacity: usize,
    pub(crate) io_capacity_max: usize,
    pub(crate) max_dirty_percent: usize,
    pub(crate) low_dirty_percent: usize,
    pub(crate) idle_percent: usize,
}

/// Share of the log, in percent, below which its age is no reason to write.
const LOW_WATER_PERCENT: u64 = 10;

/// Pages per second to write, as InnoDB decides it: the higher of two percentages of `io_capacity`, one for dirty pages, one for the age of the
/// oldest (`(io_capacity_max / io_capacity) * age% * sqrt(age%) / 7.5`), averaged with the rate at which pages become dirty and the one at which they
/// were written.
pub(crate) fn flush_goal(inputs: &FlushInputs) -> usize {
    if inputs.dirty == 0 {
        return 0;
    }
    let age_percent = inputs.age.saturating_mul(100) / inputs.capacity.max(1);
    let dirty_percent = inputs.dirty * 100 / inputs.frames.max(1);
    let for_dirty = match (dirty_percent, inputs.low_dirty_percent) {
        (dirty, _) if dirty >= inputs.max_dirty_percent => 100.0,
        (dirty, 1..) if dirty >= inputs.low_dirty_percent => {
            dirty as f64 * 100.0 / (inputs.max_dirty_percent + 1) as f64
        }
        _ => 0.0,
    };
    let for_age = if age_percent < LOW_WATER_PERCENT {
        0.0
    } else {
        let age = age_percent as f64;
        inputs.io_capacity_max as f64 / inputs.io_capacity.max(1) as f64 * age * age.sqrt() / 7.5
    };
    let percent = f64::max(for_dirty, for_age);
    if percent == 0.0 {
        return if inputs.is_idle { (inputs.io_capacity * inputs.idle_percent / 100).max(1) } else { 0 };
    }
    let pages = percent * inputs.io_capacity as f64 / 100.0;
    let goal = (pages + inputs.rate_pages as f64 + inputs.written_pages as f64) / 3.0;
    (goal as usize).clamp(1, inputs.io_capacity_max)
}

/// The LSN up to which the oldest pages must be written before anything more may be appended: seven eighths of the log are in use, or would be with the `wanted`
/// bytes that somebody waits for.
pub(crate) fn sync_flush_limit(end: Lsn, age: u64, capacity: u64, wanted: u64) -> Option<Lsn> {
    let most = capacity / 8 * 7;
    (age.saturating_add(wanted) > most).then(|| end.saturating_sub((capacity / 2).min(most.saturating_sub(wanted))))
}
