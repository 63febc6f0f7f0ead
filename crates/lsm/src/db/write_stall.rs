//! When writers are slowed down or stopped: a pure function of counters and options.

use super::super_version::SuperVersion;
use crate::compaction;
use crate::event::{StallCause, StallCondition};
use crate::options::{ColumnFamilyOptions, CompactionStyle};

/// What the stall condition of one family depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pressure {
    /// Sealed memtables that are not flushed yet.
    pub(crate) immutable_memtables: usize,
    /// What counts against the limits of level 0: its files, or sorted runs.
    pub(crate) l0_files: usize,
    /// Estimated bytes that compactions must still rewrite.
    pub(crate) pending_compaction_bytes: u64,
}

/// The pressure on a family in the state `pinned`.
pub(crate) fn pressure(pinned: &SuperVersion) -> Pressure {
    let (version, options) = (&pinned.version, &*pinned.options);
    Pressure {
        immutable_memtables: pinned.immutables.len(),
        l0_files: compaction::level0_load(version, options),
        pending_compaction_bytes: match options.compaction_style {
            CompactionStyle::Leveled => compaction::pending_compaction_bytes(version, options),
            // As in RocksDB, they slow nobody down: a large merge has time.
            CompactionStyle::Universal | CompactionStyle::Lazy | CompactionStyle::Fifo => 0,
        },
    }
}

/// The condition of a family under `pressure`. Stops come before delays; among each, memtables before level 0 before
/// pending bytes, as in RocksDB.
pub(crate) fn stall_condition(pressure: &Pressure, options: &ColumnFamilyOptions) -> StallCondition {
    let reached = |limit: u64| limit > 0 && pressure.pending_compaction_bytes >= limit;
    let compacts = !options.disable_auto_compactions;
    if pressure.immutable_memtables >= options.max_write_buffer_number {
        StallCondition::Stopped(StallCause::MemtableLimit)
    } else if compacts && pressure.l0_files >= options.level0_stop_writes_trigger {
        StallCondition::Stopped(StallCause::L0FileCount)
    } else if compacts && reached(options.hard_pending_compaction_bytes_limit) {
        StallCondition::Stopped(StallCause::PendingCompactionBytes)
    } else if options.max_write_buffer_number > 3 && pressure.immutable_memtables >= options.max_write_buffer_number - 1
    {
        StallCondition::Delayed(StallCause::MemtableLimit)
    } else if compacts && pressure.l0_files >= options.level0_slowdown_writes_trigger {
        StallCondition::Delayed(StallCause::L0FileCount)
    } else if compacts && reached(options.soft_pending_compaction_bytes_limit) {
        StallCondition::Delayed(StallCause::PendingCompactionBytes)
    } else {
        StallCondition::Normal
    }
}

/// Whether a family that is delayed for `cause` comes close to where writers stop: its rate is then cut harder.
pub(crate) fn is_near_stop(cause: StallCause, pressure: &Pressure, options: &ColumnFamilyOptions) -> bool {
    let hard = options.hard_pending_compaction_bytes_limit;
    let soft = options.soft_pending_compaction_bytes_limit;
    match cause {
        StallCause::L0FileCount => options.level0_stop_writes_trigger.saturating_sub(pressure.l0_files) <= 2,
        StallCause::PendingCompactionBytes => {
            hard > soft && pressure.pending_compaction_bytes.saturating_sub(soft) > (hard - soft) / 4 * 3
        }
        _ => false,
    }
}

/// The next rate of admitted bytes per second for a family that is delayed while writers were delayed already: RocksDB's walk on the sign of a change of its debt. Debt that falls speeds up;
/// debt that rises or stays slows down; a stop that is near, or just over, slows down harder.
pub(crate) fn next_delayed_rate(rate: u64, max_rate: u64, previous_debt: u64, debt: u64, is_near_stop: bool) -> u64 {
    const MIN_RATE: u64 = 16 << 10;
    let next = if is_near_stop {
        rate * 3 / 5
    } else if previous_debt > debt {
        rate * 5 / 4
    } else if previous_debt > 0 {
        rate * 4 / 5
    } else {
        rate
    };
    next.clamp(MIN_RATE.min(max_rate), max_rate)
}
