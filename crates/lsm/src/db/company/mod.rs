//! Whether a leader waits a moment for other writers, so that their batches are inserted beside its own.
//!
//! Two writers of large batches otherwise take turns: while one inserts, the other waits, and when that leads, the first is still making its next batch. Each of them alone would be as
//! fast as both. A leader of a large batch who waits until the other comes loses little of the time that inserting takes, and both insert at the same time.

use siltstone_base::clock::Clock;
use siltstone_base::executor::give_way;

#[cfg(test)]
mod tests;

/// Inserting a batch of so many bytes takes longer than waking a writer who does it beside the leader.
pub(super) const LARGE_BATCH_BYTES: usize = 4 << 10;

/// A writer of fewer bytes is not woken to insert them.
pub(super) const WORTH_WAKING_BYTES: usize = 1 << 10;

/// A leader waits for a microsecond for each so many bytes of its batch: about a quarter of the time that it takes to insert them.
const BYTES_A_MICROSECOND: usize = 64;

/// The longest that a leader waits, in microseconds.
const LONGEST_WAIT: u64 = 500;

/// Looks between two at the clock.
const LOOKS: u32 = 64;

/// Looks at the clock at most: a simulated one stands still meanwhile.
const MOST_CLOCKS: u32 = 1_000;

/// After more waits in vain not fewer leaders wait.
const MOST_IN_VAIN: u32 = 8;

/// What was seen of other writers. Only leaders touch it.
#[derive(Debug, Default)]
pub(super) struct Expectation {
    /// The last group had more than one batch.
    had: bool,
    /// Leaders that waited in vain, one after the other.
    in_vain: u32,
    /// Leaders that have not waited since.
    passed: u32,
}

impl Expectation {
    /// Whether the leader of a batch of so many bytes is to wait. `came_second`: it has itself waited for another leader.
    ///
    /// After each wait in vain twice as many leaders pass before the next one waits.
    pub(super) fn is_expected(&mut self, bytes: usize, came_second: bool) -> bool {
        if bytes < LARGE_BATCH_BYTES || !(came_second || self.had) {
            return false;
        }
        self.passed += 1;
        self.passed >= 1 << self.in_vain.min(MOST_IN_VAIN)
    }

    /// A leader has waited; whether somebody came along in time.
    pub(super) fn waited(&mut self, had_company: bool) {
        self.in_vain = if had_company { 0 } else { self.in_vain.saturating_add(1) };
        self.passed = 0;
    }

    /// A group of so many batches is written.
    pub(super) fn grouped(&mut self, batches: usize) {
        self.had = batches > 1;
    }
}

/// Waits until somebody has come, but no longer than is worth it for a batch of so many bytes. Returns whether somebody has, in that time: a thread that offers the processor may get it back
/// late.
pub(super) fn wait(clock: &dyn Clock, bytes: usize, has_come: impl Fn() -> bool) -> bool {
    let end = clock.now_micros() + ((bytes / BYTES_A_MICROSECOND) as u64).min(LONGEST_WAIT);
    for _ in 0..MOST_CLOCKS {
        for _ in 0..LOOKS {
            if has_come() {
                return clock.now_micros() <= end;
            }
            std::hint::spin_loop();
        }
        if clock.now_micros() >= end {
            return false;
        }
        give_way();
    }
    false
}
