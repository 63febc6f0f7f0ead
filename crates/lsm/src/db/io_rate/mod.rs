//! The rate that flushes and compactions keep to: what they ask the limiter for, and how the rate follows the work that is owed.
//!
//! A job that has no budget left gives its place back between two steps; nobody sleeps.

#[cfg(test)]
mod tests;
mod tuning;

use super::state::DbInner;
use crate::compaction::Compaction;
use crate::event::{CompactionReason, RateLimitInfo};
use crate::metrics::{Counter, HistogramKind};
use crate::options::{CompactionStyle, DbOptions, RateLimiterMode};
use siltstone_base::clock::Clock;
use siltstone_base::env::{FileKind, IoContext, IoPriority};
use siltstone_base::rate_limiter::{RateLimit, RateLimiter, RatePriority, Ticket};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tuning::{Backlog, tuned_rate};

/// A job looks again at least so often whether it is wanted at all.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// The rate follows the backlog so often.
const TUNE_MICROS: u64 = 100_000;

/// The limiter of one database.
#[derive(Debug)]
pub(crate) struct IoRate {
    limiter: RateLimiter,
    mode: RateLimiterMode,
    /// Whether the rate follows the backlog.
    is_auto_tuned: bool,
    /// The most bytes a second. 0: no limit.
    most: AtomicU64,
    /// When it is to be looked at again.
    tune_micros: AtomicU64,
    /// The rate that listeners were told last.
    told: AtomicU64,
    /// Bytes of tables that callers had read when that was last looked at.
    seen_user_bytes: AtomicU64,
}

/// What a job has moved so far, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Moved {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

/// What one job has asked for.
#[derive(Debug)]
pub(crate) struct Metered {
    priority: RatePriority,
    asked: Moved,
    ticket: Option<Ticket>,
}

impl Metered {
    /// A job that has moved nothing yet.
    pub(crate) fn new(priority: RatePriority) -> Self {
        Self { priority, asked: Moved::default(), ticket: None }
    }
}

/// How urgent a compaction is.
pub(crate) fn rate_priority(compaction: &Compaction) -> RatePriority {
    match compaction.reason {
        CompactionReason::Ttl
        | CompactionReason::Periodic
        | CompactionReason::TombstoneDensity
        | CompactionReason::Suggested
        | CompactionReason::Expired => RatePriority::Upkeep,
        _ if compaction.start_level() == 0 => RatePriority::Level0,
        _ => RatePriority::Deep,
    }
}

impl IoRate {
    /// The limiter that the options ask for.
    pub(crate) fn new(options: &DbOptions, clock: &Arc<dyn Clock>) -> Self {
        let rate = options.rate_limiter_bytes_per_sec;
        let limit = RateLimit {
            bytes_per_second: rate,
            burst: Duration::from_micros(options.rate_limiter_refill_period_us),
            fairness: options.rate_limiter_fairness,
        };
        Self {
            limiter: RateLimiter::new(Arc::clone(clock), limit),
            mode: options.rate_limiter_mode,
            is_auto_tuned: options.rate_limiter_auto_tuned,
            most: AtomicU64::new(rate),
            tune_micros: AtomicU64::new(0),
            told: AtomicU64::new(rate),
            seen_user_bytes: AtomicU64::new(0),
        }
    }

    /// Whether the rate follows the backlog.
    pub(crate) fn is_tuned(&self) -> bool {
        self.is_auto_tuned && self.most.load(Ordering::Relaxed) > 0
    }

    /// Changes the most bytes a second; 0: no limit. Jobs that wait have the rest of their waits recomputed.
    pub(crate) fn set_rate(&self, bytes_per_second: u64) {
        self.most.store(bytes_per_second, Ordering::Relaxed);
        self.limiter.set_bytes_per_second(bytes_per_second);
        // Where the rate follows the backlog, it is looked at next.
        self.tune_micros.store(0, Ordering::Relaxed);
    }

    /// The limiter.
    pub(crate) fn limiter(&self) -> &RateLimiter {
        &self.limiter
    }

    /// How long the job has to wait before its next step. What it waits for may change meanwhile: it asks again.
    pub(crate) fn wait(&self, metered: &mut Metered) -> Option<Duration> {
        let left = self.limiter.remaining(metered.ticket.as_mut()?);
        if left.is_zero() {
            metered.ticket = None;
            return None;
        }
        Some(left.min(MAX_WAIT))
    }

    /// What of `moved` counts.
    fn counted(&self, moved: Moved) -> Moved {
        match self.mode {
            RateLimiterMode::WritesOnly => Moved { read: 0, ..moved },
            RateLimiterMode::ReadsOnly => Moved { written: 0, ..moved },
            RateLimiterMode::AllIo => moved,
        }
    }
}

impl DbInner {
    /// Asks the limiter for what a job has moved since it last asked; returns how long it then has to wait before its next step.
    pub(crate) fn meter(&self, metered: &mut Metered, moved: Moved) -> Option<Duration> {
        let rate = &self.io_rate;
        // What is written may shrink: blocks that wait for a dictionary do when it is there.
        let since = Moved {
            read: moved.read.saturating_sub(metered.asked.read),
            written: moved.written.saturating_sub(metered.asked.written),
        };
        metered.asked.read += since.read;
        metered.asked.written += since.written;
        if !rate.limiter.is_limited() {
            // What was moved and read meanwhile is free, also if a limit comes.
            rate.seen_user_bytes.store(0, Ordering::Relaxed);
            return None;
        }
        self.follow_backlog();
        self.count_user_reads();
        let counted = rate.counted(since);
        let mut ticket = rate.limiter.request(counted.read.saturating_add(counted.written), metered.priority);
        let wait = rate.limiter.remaining(&mut ticket);
        self.count_request(counted, wait);
        if wait.is_zero() {
            return None;
        }
        metered.ticket = Some(ticket);
        Some(wait.min(MAX_WAIT))
    }

    /// Counts what the limiter was asked for, and what it answered.
    fn count_request(&self, counted: Moved, wait: Duration) {
        if counted == Moved::default() {
            return;
        }
        let (requests, delayed, waited, each) = if counted.written > 0 {
            (
                Counter::RateLimiterWrites,
                Counter::RateLimiterDelayedWrites,
                Counter::RateLimiterWriteWaitMicros,
                HistogramKind::RateLimiterWriteWait,
            )
        } else {
            (
                Counter::RateLimiterReads,
                Counter::RateLimiterDelayedReads,
                Counter::RateLimiterReadWaitMicros,
                HistogramKind::RateLimiterReadWait,
            )
        };
        self.metrics.add_all([
            (Counter::RateLimiterBytesRead, counted.read),
            (Counter::RateLimiterBytesWritten, counted.written),
            (requests, 1),
        ]);
        if !wait.is_zero() {
            let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
            self.metrics.add_all([(delayed, 1), (waited, micros)]);
            self.metrics.record(each, micros);
        }
    }

    /// Takes what callers have read of tables since this was last done from what the others may have.
    fn count_user_reads(&self) {
        let rate = &self.io_rate;
        if rate.mode == RateLimiterMode::WritesOnly {
            return;
        }
        let context = IoContext::new(FileKind::Table, IoPriority::User);
        let now = self.env.io_stats().read_bytes(context);
        let before = rate.seen_user_bytes.swap(now, Ordering::Relaxed);
        // The first look, and another one that overtook this.
        if before > 0 && now > before {
            rate.limiter.request(now - before, RatePriority::User);
        }
    }

    /// Lets the rate follow the work that is owed, if it is time for that.
    fn follow_backlog(&self) {
        let rate = &self.io_rate;
        if !rate.is_tuned() {
            return;
        }
        let most = rate.most.load(Ordering::Relaxed);
        let now = self.clock.now_micros();
        let due = rate.tune_micros.load(Ordering::Relaxed);
        let next = now.saturating_add(TUNE_MICROS);
        if now < due || rate.tune_micros.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let backlog = self.backlog();
        let current = tuned_rate(most, &backlog);
        rate.limiter.set_bytes_per_second(current);
        // It may have been changed meanwhile.
        let most_now = rate.most.load(Ordering::Relaxed);
        if most_now != most {
            rate.limiter.set_bytes_per_second(most_now);
            return;
        }
        let previous = rate.told.load(Ordering::Relaxed);
        if current.abs_diff(previous) >= previous / 4 {
            rate.told.store(current, Ordering::Relaxed);
            let Backlog { owed_bytes, unflushed_bytes, .. } = backlog;
            let info = RateLimitInfo { previous, current, owed_bytes, unflushed_bytes };
            self.notify(|listener| listener.rate_limit_changed(&info));
        }
    }

    /// What all families together owe.
    fn backlog(&self) -> Backlog {
        let is_asked_for = !self.state.lock().manual.is_empty();
        let mut backlog = Backlog { is_awaited: is_asked_for || self.are_memtables_full(), ..Backlog::default() };
        for family in self.families.load().values() {
            let pinned = family.super_version.load();
            let options = &pinned.options;
            let sealed = pinned.immutables.newest_first().iter();
            let unflushed: usize = sealed.map(|memtable| memtable.approximate_memory_usage()).sum();
            backlog.owed_bytes = backlog.owed_bytes.saturating_add(family.work.owed());
            backlog.unflushed_bytes = backlog.unflushed_bytes.saturating_add(unflushed as u64);
            if !options.disable_auto_compactions && options.compaction_style != CompactionStyle::Fifo {
                let trigger = options.level0_file_num_compaction_trigger;
                let room = options.level0_slowdown_writes_trigger.saturating_sub(trigger).max(1);
                let files = pinned.version.files(0).len().saturating_sub(trigger);
                backlog.level0_share = backlog.level0_share.max(files as f64 / room as f64);
            }
            let buffers = options.max_write_buffer_number;
            backlog.buffers_share = backlog.buffers_share.max(pinned.immutables.len() as f64 / buffers as f64);
        }
        backlog
    }
}
