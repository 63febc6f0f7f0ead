//! Whether a workload has turned read-only: pure, from what was written and read between two looks.

use std::time::Duration;

/// Reads between two looks that make it worth the while.
const LEAST_READS: u64 = 100;

/// Looks in a row without writes and with too few reads before nobody looks any more.
const MOST_IDLE_LOOKS: u32 = 10;

/// What is known at one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// Entries that were written so far.
    pub(super) writes: u64,
    /// Reads so far.
    pub(super) reads: u64,
    /// Whether there is something in memory or in level 0 that could go down.
    pub(super) has_work: bool,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Look again after so long.
    LookAgain(Duration),
    /// Write everything down.
    Drain,
    /// Nobody needs to look until something is written.
    End,
}

/// What was seen before.
#[derive(Debug, Default)]
pub(super) struct Memory {
    last: Option<Look>,
    idle_looks: u32,
}

impl Memory {
    /// Looks once, `every` so long while there are writes or reads.
    pub(super) fn look(&mut self, now: &Look, every: Duration) -> Decision {
        let before = self.last.replace(*now);
        if !now.has_work {
            return Decision::End;
        }
        let Some(before) = before.filter(|before| before.writes == now.writes) else {
            self.idle_looks = 0;
            return Decision::LookAgain(every);
        };
        if now.reads.wrapping_sub(before.reads) >= LEAST_READS {
            self.idle_looks = 0;
            return Decision::Drain;
        }
        self.idle_looks += 1;
        if self.idle_looks >= MOST_IDLE_LOOKS {
            return Decision::End;
        }
        Decision::LookAgain(every.saturating_mul(1 << self.idle_looks))
    }

    /// Whether something was written since the last look.
    pub(super) fn has_changed(&self, now: &Look) -> bool {
        self.last.is_none_or(|last| last.writes != now.writes)
    }
}
