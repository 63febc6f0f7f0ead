//! One thread of a load.

use super::interval_latencies::{Moment, Phase, Tray};
use crate::Latencies;
use crate::stopwatch::Stopwatch;
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use siltstone_base::{ErrorKind, Result};
use std::time::Duration;

/// Between two times that an engine is asked which was too busy.
const NAP: Duration = Duration::from_millis(20);

/// One thread of a load.
#[derive(Debug)]
pub(crate) struct Worker<'a> {
    /// Its number: counting threads from 0, then companions.
    pub index: usize,
    done: &'a AtomicU64,
    phase: &'a Phase,
    /// Where its latencies go. `None` of a companion, of which nobody asks.
    tray: Option<&'a Tray>,
    /// Where the run was at the last look.
    seen: Moment,
    /// Of the interval that was seen last.
    latencies: Latencies,
}

impl<'a> Worker<'a> {
    /// A thread that counts what it did in `done`. Without a tray it is a companion.
    pub(super) fn new(
        index: usize,
        done: &'a AtomicU64,
        phase: &'a Phase,
        tray: Option<&'a Tray>,
        latencies: Latencies,
    ) -> Self {
        Self { index, done, phase, tray, seen: phase.look(), latencies }
    }

    /// Calls `op` with the numbers from 0 below `ops` (a companion: until it is told to stop), or until it returns false.
    /// Time is taken once for every `group` operations. Returns the number of operations done.
    #[inline]
    pub(crate) fn drive(&mut self, ops: u64, group: u64, mut op: impl FnMut(u64) -> Result<bool>) -> Result<u64> {
        let ops = if self.tray.is_none() { u64::MAX } else { ops };
        let watch = Stopwatch::start();
        let (mut done, mut last) = (0, 0);
        let mut goes_on = !self.is_stopped();
        while goes_on && done < ops {
            let first = done;
            let end = ops.min(done + group);
            while done < end {
                if !op(done)? {
                    goes_on = false;
                    break;
                }
                done += 1;
            }
            let now = watch.nanos();
            let is_over = self.look();
            match done - first {
                0 => {}
                1 => self.latencies.record(now - last),
                count => self.latencies.record_group(now - last, count),
            }
            last = now;
            self.done.store(done, Ordering::Relaxed);
            goes_on &= !is_over;
        }
        Ok(done)
    }

    /// Whether the run is over for this thread.
    pub(crate) fn is_stopped(&self) -> bool {
        self.phase.look().is_over()
    }

    /// Takes note of one operation that took `nanos`, for loops that are not [`drive`](Self::drive)'s.
    pub(crate) fn record(&mut self, nanos: u64, ops: u64) {
        self.look();
        self.latencies.record(nanos);
        self.done.fetch_add(ops, Ordering::Relaxed);
    }

    /// Does again what the engine says it is too busy for, until that is done or the run is over.
    pub(crate) fn again_while_busy<T>(&self, mut act: impl FnMut() -> Result<T>) -> Result<T> {
        let clock = SystemClock::new();
        loop {
            match act() {
                Err(error) if error.kind() == ErrorKind::Busy && !self.is_stopped() => clock.sleep(NAP),
                done => return done,
            }
        }
    }

    /// Looks where the run is, after an operation and before it is recorded. Returns whether the run is over.
    #[inline]
    fn look(&mut self) -> bool {
        let now = self.phase.look();
        if now != self.seen {
            self.go_on_from(now);
        }
        now.is_over()
    }

    #[cold]
    fn go_on_from(&mut self, now: Moment) {
        if let Some(tray) = self.tray {
            tray.hand_over(self.seen, now, &mut self.latencies);
        }
        self.seen = now;
    }

    /// Hands over what is left, when there is nothing more to do.
    pub(super) fn finish(&mut self) {
        if let Some(tray) = self.tray {
            tray.hand_over_last(self.seen, &mut self.latencies);
        }
    }
}
