//! History that grows faster than purge removes it: writers are slowed down.

use super::super::state::State;
use crate::event::Event;
use crate::metrics::Counter;
use siltstone_base::sync::atomic::Ordering;
use std::time::Duration;

/// How much history there may be, and how writers wait where it is more.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct HistoryLimit {
    /// Committed transactions that may wait for purge; 0: as many as there are.
    pub(in super::super) most: usize,
    /// The longest wait of one write.
    pub(in super::super) longest: Duration,
}

/// How long a write waits: from half of a unit at the limit on, one unit more for each time that the history is as long as the limit, as in InnoDB. A unit is 10 ms.
pub(super) fn delay(history: usize, limit: HistoryLimit) -> Duration {
    if limit.most == 0 || history <= limit.most {
        return Duration::ZERO;
    }
    let micros = (history as u128 * 10_000 / limit.most as u128).saturating_sub(5_000);
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)).min(limit.longest)
}

impl State {
    /// Lets a writer wait while there is more history than there may be. The caller holds no lock.
    #[inline]
    pub(in super::super) fn hold_back(&self) {
        if self.history_limit.most > 0 && self.transactions.history.load(Ordering::Relaxed) > self.history_limit.most {
            self.hold_back_for_purge();
        }
    }

    #[cold]
    fn hold_back_for_purge(&self) {
        let history = self.transactions.history.load(Ordering::Relaxed);
        let delay = delay(history, self.history_limit);
        if !self.transactions.is_lagging.swap(true, Ordering::AcqRel) {
            self.events.note(|| Event::PurgeLags { history_len: history as u64, delay });
        }
        if !delay.is_zero() {
            self.executor.sleep(delay);
            self.metrics.add(Counter::HistoryMicros, u64::try_from(delay.as_micros()).unwrap_or(u64::MAX));
        }
    }

    /// Takes note that purge removed some history.
    pub(super) fn note_purged(&self) {
        let history = self.transactions.history.load(Ordering::Relaxed);
        if history <= self.history_limit.most && self.transactions.is_lagging.swap(false, Ordering::AcqRel) {
            self.events.note(|| Event::PurgeCaughtUp { history_len: history as u64 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_the_history_the_longer_a_write_waits() {
        let limit = HistoryLimit { most: 100, longest: Duration::from_millis(300) };
        let millis = |history| delay(history, limit).as_millis();
        let of = |histories: [usize; 6]| histories.map(millis);
        assert_eq!(of([0, 100, 110, 200, 1_000, usize::MAX]), [0, 0, 6, 15, 95, 300]);
        assert_eq!(delay(1 << 40, HistoryLimit { most: 0, ..limit }), Duration::ZERO);
    }
}
