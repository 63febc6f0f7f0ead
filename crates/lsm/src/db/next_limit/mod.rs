//! How much may still be written until a limit is met: a pure function of counters.

use super::write_stall::Pressure;
use crate::event::{StallCause, StallCondition};
use crate::metrics::NextLimit;
use crate::options::{ColumnFamilyOptions, CompactionStyle};

/// What the distance to the limits of a family depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Distance {
    /// What the limits look at.
    pub(crate) pressure: Pressure,
    /// What counts against the limits of level 0 with the next file: in the universal style runs that are no pressure yet are among it.
    pub(crate) level0_count: usize,
    /// Bytes of the memtable that is being written.
    pub(crate) active_bytes: u64,
    /// Bytes of sealed memtables.
    pub(crate) sealed_bytes: u64,
    /// What is left of the memory of the memtables of all families together; `None`: it has no limit.
    pub(crate) shared_room: Option<u64>,
    /// Bytes that compactions have to rewrite for a byte that is flushed, about.
    pub(crate) amplification: f64,
    /// Slowdown limits do nothing: writers are paced.
    pub(crate) only_stops: bool,
}

/// The limits of a family, the next one first. That of memtables is as far as it is if no flush ended from now on; the others, if no compaction did.
pub(crate) fn next_limits(distance: &Distance, options: &ColumnFamilyOptions) -> Vec<NextLimit> {
    let mut limits = vec![memtables(distance, options)];
    if !options.disable_auto_compactions {
        if options.compaction_style != CompactionStyle::Fifo {
            limits.push(level0(distance, options));
        }
        if options.compaction_style == CompactionStyle::Leveled {
            limits.extend(pending(distance, options));
        }
    }
    limits.sort_by_key(|limit| limit.bytes);
    limits
}

/// The slowdown at `slowdown`, if it does anything and comes before the stop at `stop`.
fn nearer(distance: &Distance, cause: StallCause, slowdown: Option<u64>, stop: u64) -> NextLimit {
    match slowdown.filter(|slowdown| !distance.only_stops && (0..stop).contains(slowdown)) {
        Some(bytes) if bytes > 0 => NextLimit { condition: StallCondition::Delayed(cause), bytes },
        _ => NextLimit { condition: StallCondition::Stopped(cause), bytes: stop },
    }
}

fn memtables(distance: &Distance, options: &ColumnFamilyOptions) -> NextLimit {
    let room = |memtables: usize| {
        let free = memtables.saturating_sub(distance.pressure.immutable_memtables) as u64;
        free.saturating_mul(options.write_buffer_size as u64).saturating_sub(distance.active_bytes)
    };
    let most = options.max_write_buffer_number;
    let slowdown = (most > 3).then(|| room(most - 1));
    let stop = room(most).min(distance.shared_room.unwrap_or(u64::MAX));
    nearer(distance, StallCause::MemtableLimit, slowdown, stop)
}

fn level0(distance: &Distance, options: &ColumnFamilyOptions) -> NextLimit {
    let in_memory = distance.active_bytes.saturating_add(distance.sealed_bytes);
    let room = |files: usize| {
        let free = files.saturating_sub(distance.level0_count) as u64;
        free.saturating_mul(options.write_buffer_size as u64).saturating_sub(in_memory)
    };
    let slowdown = room(options.level0_slowdown_writes_trigger);
    nearer(distance, StallCause::L0FileCount, Some(slowdown), room(options.level0_stop_writes_trigger))
}

fn pending(distance: &Distance, options: &ColumnFamilyOptions) -> Option<NextLimit> {
    let in_memory = distance.active_bytes.saturating_add(distance.sealed_bytes);
    let room = |limit: u64| {
        let free = limit.saturating_sub(distance.pressure.pending_compaction_bytes) as f64;
        ((free / distance.amplification.max(1.0)) as u64).saturating_sub(in_memory)
    };
    let limit = |bytes: u64| (bytes > 0).then(|| room(bytes));
    let (soft, hard) =
        (limit(options.soft_pending_compaction_bytes_limit), limit(options.hard_pending_compaction_bytes_limit));
    match (soft, hard) {
        (_, Some(hard)) => Some(nearer(distance, StallCause::PendingCompactionBytes, soft, hard)),
        (Some(bytes), None) if !distance.only_stops => {
            Some(NextLimit { condition: StallCondition::Delayed(StallCause::PendingCompactionBytes), bytes })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
