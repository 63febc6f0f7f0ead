//! The rate that a backlog asks for: a pure function, without memory of earlier rates.

/// The work of compactions that is owed at which all of the rate is used, in seconds of it. In balance, a steady stream of work is then owed for so long.
const OWED_SECONDS: f64 = 10.0;

/// The same for what is to be flushed.
const UNFLUSHED_SECONDS: f64 = 1.0;

/// The least rate, as a part of the most. RocksDB has the same.
const LEAST: u64 = 20;

/// What is to be done, of all families together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Backlog {
    /// Bytes that compactions must still read.
    pub(super) owed_bytes: u64,
    /// Bytes of sealed memtables.
    pub(super) unflushed_bytes: u64,
    /// How far level 0 is between its trigger and the slowdown, in the family where it is furthest.
    pub(super) level0_share: f64,
    /// Sealed memtables as a part of the number at which writers stop, in the family that has most of them.
    pub(super) buffers_share: f64,
    /// Whether somebody waits for a compaction that he asked for, or for room among all memtables together.
    pub(super) is_awaited: bool,
}

/// The rate for a backlog, in bytes a second: at most `most`, at least a twentieth of it.
pub(super) fn tuned_rate(most: u64, backlog: &Backlog) -> u64 {
    let seconds = |bytes: u64| bytes as f64 / most.max(1) as f64;
    let by_work = seconds(backlog.owed_bytes) / OWED_SECONDS + seconds(backlog.unflushed_bytes) / UNFLUSHED_SECONDS;
    // Writers are stopped, or a caller waits.
    let by_callers = if backlog.buffers_share >= 1.0 || backlog.is_awaited { 1.0 } else { 0.0 };
    let share = by_work.max(backlog.level0_share).max(by_callers).clamp(0.0, 1.0);
    let least = (most / LEAST).max(1);
    least.max((most as f64 * share) as u64).min(most)
}
