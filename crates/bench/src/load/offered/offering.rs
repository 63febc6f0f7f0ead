//! Arrivals at an offered rate, and the clients that serve them.

use super::OfferedRate;
use crate::load::{Arrivals, End, GapMeter, OpenLoop, Worker};
use crate::{LatencySummary, ResultLine};
use siltstone_base::Result;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};

/// Operations that arrive at random while clients serve them. Every client calls [`serve`](Self::serve) on a thread of its own.
pub(crate) struct Offering {
    per_s: f64,
    open_loop: OpenLoop,
    gaps: GapMeter,
    /// Arrivals that no client served, of the clients that have ended.
    unserved: AtomicU64,
}

impl Offering {
    /// Hands out arrivals to `threads` clients in turn, as soon as all of them serve.
    pub(crate) fn start(rate: &OfferedRate, end: End, threads: usize, seed: u64) -> Result<Self> {
        let per_s = rate.per_s;
        let open_loop = OpenLoop::start(Arrivals::poisson(per_s), end, threads, seed)?;
        Ok(Self { per_s, open_loop, gaps: GapMeter::new(), unserved: AtomicU64::new(0) })
    }

    /// Calls `operation` for everything that arrives for this thread, until there is no more or the run is over. A latency counts from the moment at which the operation was due; one that is
    /// not served by the end has waited until then, and counts as a latency, not as an operation.
    pub(crate) fn serve(&self, worker: &mut Worker<'_>, mut operation: impl FnMut() -> Result<()>) -> Result<()> {
        let mut queue = self.open_loop.queue(worker.index)?;
        let (mut goes_on, mut unserved) = (true, 0);
        while goes_on && !worker.is_stopped() {
            goes_on = queue.serve(|_, waited| {
                let is_served = !worker.is_stopped();
                if is_served {
                    self.gaps.begin();
                    operation()?;
                    self.gaps.complete();
                } else {
                    unserved += 1;
                }
                worker.record(waited(), u64::from(is_served));
                Ok(())
            })?;
        }
        self.gaps.end();
        if goes_on {
            queue.abandon(|waited| {
                unserved += 1;
                worker.record(waited, 0);
            })?;
        }
        self.unserved.fetch_add(unserved, Ordering::Relaxed);
        Ok(())
    }

    /// Whether every arrival has been handed out.
    #[cfg(test)]
    pub(super) fn is_handed_out_for_test(&self) -> bool {
        self.open_loop.is_handed_out_for_test()
    }

    /// What was offered. To be asked when all clients have ended.
    pub(crate) fn finish(self) -> Result<Offered> {
        Ok(Offered {
            per_s: self.per_s,
            lateness: self.open_loop.lateness()?,
            longest_gap_us: self.gaps.longest_us(),
            unserved: self.unserved.into_inner(),
        })
    }
}

/// What an offering was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offered {
    /// Arrivals per second, as the schedule has them on the average.
    per_s: f64,
    /// By how much the generator was late.
    lateness: Option<LatencySummary>,
    /// The longest time in which nothing was completed, in microseconds.
    longest_gap_us: f64,
    /// Arrivals that were due and not served when the run was over.
    unserved: u64,
}

impl Offered {
    /// Says so in a result.
    pub(crate) fn mark(&self, line: &mut ResultLine) {
        line.offered_ops_per_s = Some(self.per_s);
        line.generator_late_p99_us = self.lateness.map(|lateness| lateness.p99_us);
        line.generator_late_max_us = self.lateness.map(|lateness| lateness.max_us);
        line.longest_gap_us = Some(self.longest_gap_us);
        line.unserved_ops = Some(self.unserved);
    }
}
