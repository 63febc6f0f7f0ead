//! Keeps writers to the pace.

use super::law::{Capacity, Pace};
use super::meter::{Amplification, Meter};
use super::work::{FamilyWork, Kind};
use crate::event::StallCause;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use siltstone_base::sync::{Mutex, Rank};

/// Taken by the leader of a commit group, below the controller's.
const RANK: Rank = Rank(310);

/// Writers wait for about so long at a time.
const QUANTUM_NANOS: f64 = 200_000.0;

/// Writers ask at least after so many bytes.
const MAX_QUANTUM_BYTES: f64 = 32_768.0;

/// What was not used for so long is lost: after a pause, writers may make up for no more than this.
const SLACK_NANOS: u64 = 5_000_000;

/// No write waits longer for its own bytes.
const MAX_COST_NANOS: u64 = 1_000_000_000;

/// The pace is computed anew after so long.
const REFRESH_NANOS: u64 = 1_000_000;

/// Work is measured over at least so long at a time, and no longer than that: who looks seldom cannot tell work from idle time.
const SAMPLE_SECONDS: (f64, f64) = (0.05, 0.2);

/// A compaction is expected to read so many bytes of tables in the time in which a flush writes one of a memtable, before one was measured: tables are about half as
/// large as their memtables, and both kinds of work share the device.
const COMPACTION_PER_FLUSH: f64 = 0.45;

/// A flush is expected to work through so many bytes of a memtable in the time in which one of the WAL is synced, before one was measured: tables are about half as large
/// as their memtables, and compactions, which are yet to come, share the device with it.
const FLUSH_PER_WAL: f64 = 1.0;

/// No flush is expected to work through more bytes a second before one was measured: a sync may find that all is on the device already, and its rate then says nothing of what a thread does.
const FLUSH_AT_MOST: f64 = 400e6;

/// Beside what flushes achieve, so many bytes a second are counted for so many seconds: the first one does not go unseen, and a device that takes a little at once and
/// much of it slowly is not believed too much.
const FIRST_FLUSH: (f64, f64) = (100e6, 0.1);

/// Writers count as held back for so long after the last wait of one: between two waits they write what they waited for.
const HELD_BACK_NANOS: u64 = 10_000_000;

/// Computes waits from the pace; measures what jobs achieve. Never sleeps itself.
#[derive(Debug)]
pub(crate) struct Pacer {
    /// Bytes that writers may write before they ask.
    quantum_bytes: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    pace: Pace,
    refreshed_nanos: u64,
    /// Until when the pace is spoken for.
    until_nanos: u64,
    /// Until when writers count as held back.
    held_back_until_nanos: u64,
    flush: Measured,
    compaction: Measured,
    amplification: Amplification,
    /// Bytes flushed, and work made for compactions, when that was last looked at.
    seen: Option<(f64, f64)>,
}

/// One kind of work as it was last looked at.
#[derive(Debug, Default)]
struct Measured {
    meter: Meter,
    seen_nanos: u64,
    done: u64,
    was_running: bool,
}

/// What a writer must do before it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Wait until then.
    pub(crate) until_nanos: u64,
    /// Because of this.
    pub(crate) cause: StallCause,
}

/// Writers that have to wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HeldBack {
    /// What is admitted, in bytes a second.
    pub(crate) rate: f64,
    /// What is scarcest.
    pub(crate) cause: StallCause,
    /// They count as held back until then, unless another one has to wait.
    pub(crate) until_nanos: u64,
}

/// What all families together have done of a kind of work, and whether any of it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Done {
    /// By jobs that are measured.
    pub(crate) bytes: u64,
    /// Whether one of them runs.
    pub(crate) is_running: bool,
    /// By all jobs.
    pub(crate) all_bytes: u64,
}

impl Done {
    /// Adds what one family has done.
    pub(crate) fn add(&mut self, work: &FamilyWork, kind: Kind) {
        let (measured, is_running) = work.measured(kind);
        self.all_bytes += work.done(kind);
        self.bytes += measured;
        self.is_running |= is_running;
    }
}

/// What is measured, of all families together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Figures {
    /// What flushes have done.
    pub(crate) flush: Done,
    /// What compactions have done.
    pub(crate) compaction: Done,
    /// What they owe.
    pub(crate) owed_bytes: f64,
    /// The largest write buffer.
    pub(crate) buffer_bytes: f64,
    /// Bytes of the WAL that are synced a second while a sync runs, if that is known and matters.
    pub(crate) wal_rate: Option<f64>,
}

impl Pacer {
    pub(crate) fn new() -> Self {
        let inner = Inner {
            pace: Pace::FREE,
            refreshed_nanos: 0,
            until_nanos: 0,
            held_back_until_nanos: 0,
            flush: Measured::default(),
            compaction: Measured::default(),
            amplification: Amplification::default(),
            seen: None,
        };
        Self { quantum_bytes: AtomicU64::new(MAX_QUANTUM_BYTES as u64), inner: Mutex::new(RANK, inner) }
    }

    /// Whether writers that have written `bytes` since they last asked must ask.
    #[inline]
    pub(crate) fn is_due(&self, bytes: u64) -> bool {
        bytes >= self.quantum_bytes.load(Ordering::Relaxed)
    }

    /// The rate that is admitted, in bytes a second; `None` without a limit.
    pub(crate) fn rate(&self) -> Option<u64> {
        let rate = self.inner.lock().pace.rate;
        rate.is_finite().then_some(rate as u64)
    }

    /// The rate that is admitted, and what is scarcest.
    pub(crate) fn pace(&self) -> Pace {
        self.inner.lock().pace
    }

    /// Whether the pace is due to be computed anew.
    pub(crate) fn is_stale(&self, now_nanos: u64) -> bool {
        now_nanos.saturating_sub(self.inner.lock().refreshed_nanos) >= REFRESH_NANOS
    }

    /// Takes note of what jobs have done and what is owed; returns what they achieve.
    pub(crate) fn measure(&self, now_nanos: u64, figures: &Figures) -> Capacity {
        let inner = &mut *self.inner.lock();
        inner.flush.look(now_nanos, figures.flush);
        inner.compaction.look(now_nanos, figures.compaction);
        let now = (figures.flush.all_bytes as f64, figures.owed_bytes + figures.compaction.all_bytes as f64);
        let before = *inner.seen.get_or_insert(now);
        if now.0 < before.0 {
            // A family was dropped, or a job failed.
            inner.seen = Some(now);
        } else if now.0 - before.0 >= figures.buffer_bytes / 8.0 {
            inner.amplification.add(now.1 - before.1, now.0 - before.0, figures.buffer_bytes);
            inner.seen = Some(now);
        }
        let amplification = inner.amplification.ratio();
        let wal = figures.wal_rate;
        let measured = inner.flush.meter.rate();
        // The first flush begins behind a sync of the WAL: what it achieves in its first moments says little.
        let flush = match wal {
            Some(rate) => Some(inner.flush.meter.rate_or((rate * FLUSH_PER_WAL).min(FLUSH_AT_MOST))),
            None => {
                let is_known = measured.is_some() || figures.flush.is_running;
                is_known.then(|| inner.flush.meter.rate_beside(FIRST_FLUSH.0, FIRST_FLUSH.1))
            }
        };
        let compaction = flush.map(|flush| inner.compaction.meter.rate_or(flush * COMPACTION_PER_FLUSH));
        let guessed = inner.compaction.meter.guessed();
        Capacity { flush, is_flush_guessed: measured.is_none(), compaction, guessed, amplification, wal }
    }

    /// Sets the pace.
    pub(crate) fn set(&self, now_nanos: u64, pace: Pace) {
        let mut inner = self.inner.lock();
        inner.pace = pace;
        inner.refreshed_nanos = now_nanos;
        let quantum = (pace.rate * QUANTUM_NANOS / 1e9).clamp(1.0, MAX_QUANTUM_BYTES);
        self.quantum_bytes.store(quantum as u64, Ordering::Relaxed);
    }

    /// Until when a writer of `bytes` has to wait; `None` if it may go on. Waits shorter than half a quantum are left to the next writer.
    pub(crate) fn wait_for(&self, now_nanos: u64, bytes: u64) -> Option<Turn> {
        let inner = self.inner.lock();
        let until_nanos = inner.until(now_nanos, bytes);
        let waits = until_nanos.saturating_sub(now_nanos) as f64 > QUANTUM_NANOS / 2.0;
        waits.then_some(Turn { until_nanos, cause: inner.pace.cause })
    }

    /// Takes note that a writer waits until `until_nanos`.
    pub(crate) fn hold_back(&self, until_nanos: u64) {
        self.inner.lock().held_back_until_nanos = until_nanos.saturating_add(HELD_BACK_NANOS);
    }

    /// Whether writers are being held back.
    pub(crate) fn held_back(&self, now_nanos: u64) -> Option<HeldBack> {
        let inner = self.inner.lock();
        let (Pace { rate, cause }, until_nanos) = (inner.pace, inner.held_back_until_nanos);
        (until_nanos > now_nanos).then_some(HeldBack { rate, cause, until_nanos })
    }

    /// Until when writers count as held back, as far as that is known now, and what is scarcest.
    pub(crate) fn last_held_back(&self) -> (u64, StallCause) {
        let inner = self.inner.lock();
        (inner.held_back_until_nanos, inner.pace.cause)
    }

    /// Books `bytes`.
    pub(crate) fn book(&self, now_nanos: u64, bytes: u64) {
        let mut inner = self.inner.lock();
        inner.until_nanos = inner.until(now_nanos, bytes);
    }
}

impl Inner {
    /// Until when the pace is spoken for with `bytes` more.
    fn until(&self, now_nanos: u64, bytes: u64) -> u64 {
        let cost = (bytes as f64 / self.pace.rate * 1e9) as u64;
        let from = self.until_nanos.max(now_nanos.saturating_sub(SLACK_NANOS));
        from.saturating_add(cost.min(MAX_COST_NANOS))
    }
}

impl Measured {
    fn look(&mut self, now_nanos: u64, done: Done) {
        let seconds = now_nanos.saturating_sub(self.seen_nanos) as f64 / 1e9;
        if seconds < SAMPLE_SECONDS.0 && done.is_running == self.was_running {
            return;
        }
        let ran_throughout = self.was_running && done.is_running && seconds <= SAMPLE_SECONDS.1;
        if ran_throughout || (self.was_running && seconds < SAMPLE_SECONDS.0) {
            self.meter.add(done.bytes.saturating_sub(self.done), seconds);
        }
        *self = Self { meter: self.meter, seen_nanos: now_nanos, done: done.bytes, was_running: done.is_running };
    }
}
