//! What the threads of a run share, and what each of them does.

use super::dismissal::Dismissal;
use super::interval_latencies::{Phase, Tray};
use super::{Load, Worker};
use crate::stopwatch::Stopwatch;
use crate::{Latencies, PauseMeter};
use siltstone_base::Result;
use siltstone_base::sync::CachePadded;
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Barrier;

/// What the threads of a run share.
pub(super) struct Shared {
    /// All threads, and the main one, begin at the same time.
    pub(super) begin: Barrier,
    pub(super) phase: Phase,
    pub(super) dismissal: Dismissal,
    /// Of the counting threads.
    pub(super) trays: Vec<CachePadded<Tray>>,
    /// Operations of each thread: of counting ones, then of companions.
    pub(super) counters: Vec<CachePadded<AtomicU64>>,
    /// Counting threads that have ended.
    ended: AtomicUsize,
    failed: AtomicBool,
}

impl Shared {
    pub(super) fn new(load: &Load<'_>) -> Self {
        let all = load.threads + load.companions;
        Self {
            begin: Barrier::new(all + 1),
            phase: Phase::start(),
            dismissal: Dismissal::default(),
            trays: (0..load.threads).map(|_| CachePadded::new(Tray::new())).collect(),
            counters: (0..all).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
            ended: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        }
    }

    /// What the thread of this number does, which counts in `done`: returns the outcome of its work, and how many seconds that took.
    pub(super) fn work<T>(
        &self,
        index: usize,
        done: &AtomicU64,
        latencies: Latencies,
        work: impl Fn(&mut Worker<'_>) -> Result<T>,
    ) -> (Result<T>, f64) {
        let tray = self.trays.get(index).map(|tray| &**tray);
        let mut worker = Worker::new(index, done, &self.phase, tray, latencies);
        self.begin.wait();
        let watch = Stopwatch::start();
        let mut ending = Ending { shared: self, is_companion: tray.is_none(), is_ok: false };
        let outcome = work(&mut worker);
        let seconds = watch.seconds();
        worker.finish();
        ending.is_ok = outcome.is_ok();
        drop(ending);
        self.dismissal.wait();
        (outcome, seconds)
    }

    /// Operations of the counting threads so far.
    pub(super) fn ops(&self) -> u64 {
        self.counters.iter().take(self.trays.len()).map(|counter| counter.load(Ordering::Relaxed)).sum()
    }

    /// Operations of the companions so far.
    pub(super) fn companion_ops(&self) -> u64 {
        self.counters.iter().skip(self.trays.len()).map(|counter| counter.load(Ordering::Relaxed)).sum()
    }

    /// Whether a thread has failed.
    pub(super) fn is_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Whether all counting threads have ended.
    pub(super) fn is_done(&self) -> bool {
        self.ended.load(Ordering::Acquire) == self.trays.len()
    }
}

/// Ends a run for all its threads when it is dropped, also if the main one panics: that waits for them.
pub(super) struct Conclusion<'a> {
    pub(super) shared: &'a Shared,
    pub(super) pauses: &'a PauseMeter,
}

impl Drop for Conclusion<'_> {
    fn drop(&mut self) {
        self.shared.phase.end_run();
        self.shared.dismissal.give();
        self.pauses.stop();
    }
}

/// Says that a thread has ended, and how, also if it panics.
struct Ending<'a> {
    shared: &'a Shared,
    is_companion: bool,
    is_ok: bool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !self.is_ok {
            self.shared.failed.store(true, Ordering::Release);
        }
        if !self.is_companion {
            self.shared.ended.fetch_add(1, Ordering::Release);
        }
    }
}
