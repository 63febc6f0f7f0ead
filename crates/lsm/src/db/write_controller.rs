//! Turns the stall conditions of all families into what a writer does: nothing, sleep for a computed time, or park.

use super::write_stall::{Pressure, is_near_stop, next_delayed_rate, stall_condition};
use crate::event::{StallCause, StallCondition};
use crate::options::{ColumnFamilyOptions, WriteAdmission};
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::sync::{Mutex, Rank};
use std::collections::BTreeMap;
use std::time::Duration;

/// Rank of the controller: taken under the state lock.
const RANK: Rank = Rank(300);

/// Longest single sleep of a delayed writer. It looks at the condition again afterwards.
const MAX_SLEEP: Duration = Duration::from_millis(10);

/// The stall conditions of all families, and the rate that delayed writers share.
#[derive(Debug)]
pub(crate) struct WriteController {
    /// Whether any family is not normal; all that a writer looks at in the common case.
    engaged: AtomicBool,
    /// Delays are left to the pacer.
    only_stops: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    families: BTreeMap<u32, (StallCondition, Pressure)>,
    max_rate: u64,
    rate: u64,
    /// Bytes that may be admitted now, refilled by the clock at `rate`.
    credit_bytes: u64,
    refilled_micros: u64,
}

/// What a writer must do before it may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Go on.
    Admit,
    /// Let this much time pass, then ask again.
    Sleep(Duration, StallCause),
    /// Wait until the condition changes.
    Park(StallCause),
}

impl WriteController {
    /// A controller that admits up to `delayed_write_rate` bytes per second while a family is delayed.
    pub(crate) fn new(delayed_write_rate: u64, admission: WriteAdmission) -> Self {
        let inner = Inner {
            families: BTreeMap::new(),
            max_rate: delayed_write_rate,
            rate: delayed_write_rate,
            credit_bytes: 0,
            refilled_micros: 0,
        };
        let only_stops = AtomicBool::new(admission == WriteAdmission::Paced);
        Self { engaged: AtomicBool::new(false), only_stops, inner: Mutex::new(RANK, inner) }
    }

    /// Admits up to `delayed_write_rate` bytes per second from now on.
    pub(crate) fn set_delayed_write_rate(&self, delayed_write_rate: u64) {
        let mut inner = self.inner.lock();
        inner.max_rate = delayed_write_rate;
        inner.rate = delayed_write_rate;
    }

    /// Leaves delays to the pacer from now on, or not any more.
    pub(crate) fn set_admission(&self, admission: WriteAdmission) {
        let mut inner = self.inner.lock();
        self.only_stops.store(admission == WriteAdmission::Paced, Ordering::Relaxed);
        inner.credit_bytes = 0;
        self.refresh(&inner);
    }

    /// Takes note of the pressure on a family; returns its condition before and now.
    pub(crate) fn update(
        &self,
        family: u32,
        pressure: Pressure,
        options: &ColumnFamilyOptions,
    ) -> (StallCondition, StallCondition) {
        let mut inner = self.inner.lock();
        let current = stall_condition(&pressure, options);
        // As RocksDB looks at it: whether writers are delayed or stopped for the sake of any family.
        let conditions = || inner.families.values().map(|(condition, _)| condition);
        let was_delayed = conditions().any(|condition| matches!(condition, StallCondition::Delayed(_)));
        let was_stopped = conditions().any(|condition| matches!(condition, StallCondition::Stopped(_)));
        let old = inner.families.insert(family, (current, pressure));
        let (previous, previous_pressure) = old.unwrap_or((StallCondition::Normal, pressure));
        match current {
            StallCondition::Delayed(cause) if was_delayed => {
                let (before, now) = (previous_pressure.pending_compaction_bytes, pressure.pending_compaction_bytes);
                let is_near = was_stopped || is_near_stop(cause, &pressure, options);
                inner.rate = next_delayed_rate(inner.rate, inner.max_rate, before, now, is_near);
            }
            StallCondition::Delayed(_) => inner.credit_bytes = 0,
            StallCondition::Normal if was_delayed => {
                // Who recovers starts the next delay a little faster than this one ended.
                inner.rate = (inner.rate * 7 / 5).min(inner.max_rate);
            }
            StallCondition::Normal | StallCondition::Stopped(_) => {}
        }
        self.refresh(&inner);
        (previous, current)
    }

    /// Forgets a dropped family.
    pub(crate) fn forget(&self, family: u32) {
        let mut inner = self.inner.lock();
        inner.families.remove(&family);
        self.refresh(&inner);
    }

    fn refresh(&self, inner: &Inner) {
        let engages = |condition: &StallCondition| match condition {
            StallCondition::Normal => false,
            StallCondition::Delayed(_) => !self.only_stops.load(Ordering::Relaxed),
            StallCondition::Stopped(_) => true,
        };
        let engaged = inner.families.values().any(|(condition, _)| engages(condition));
        self.engaged.store(engaged, Ordering::Release);
    }

    /// Whether a writer must ask for admission at all.
    #[inline]
    pub(crate) fn is_engaged(&self) -> bool {
        self.engaged.load(Ordering::Acquire)
    }

    /// The condition that writers meet: the worst of all families.
    pub(crate) fn condition(&self) -> StallCondition {
        let inner = self.inner.lock();
        inner.condition()
    }

    /// Bytes per second admitted while delayed.
    pub(crate) fn delayed_rate(&self) -> u64 {
        self.inner.lock().rate
    }

    /// Asks to write `bytes` at `now_micros`.
    pub(crate) fn admit(&self, bytes: u64, now_micros: u64) -> Admission {
        let mut inner = self.inner.lock();
        match inner.condition() {
            StallCondition::Normal => Admission::Admit,
            StallCondition::Stopped(cause) => Admission::Park(cause),
            StallCondition::Delayed(_) if self.only_stops.load(Ordering::Relaxed) => Admission::Admit,
            StallCondition::Delayed(cause) => match inner.take(bytes, now_micros) {
                Duration::ZERO => Admission::Admit,
                wait => Admission::Sleep(wait.min(MAX_SLEEP), cause),
            },
        }
    }
}

impl Inner {
    fn condition(&self) -> StallCondition {
        let severity = |condition: &StallCondition| match condition {
            StallCondition::Normal => 0,
            StallCondition::Delayed(_) => 1,
            StallCondition::Stopped(_) => 2,
        };
        let worst = self.families.values().map(|(condition, _)| *condition).max_by_key(severity);
        worst.unwrap_or(StallCondition::Normal)
    }

    /// Takes credit for `bytes`, or says how long it takes until there is enough. Credit never exceeds one sleep's worth.
    fn take(&mut self, bytes: u64, now_micros: u64) -> Duration {
        let elapsed = now_micros.saturating_sub(self.refilled_micros);
        let most = (self.rate * MAX_SLEEP.as_micros() as u64 / 1_000_000).max(bytes);
        let refill = self.rate.saturating_mul(elapsed.min(1_000_000)) / 1_000_000;
        self.credit_bytes = self.credit_bytes.saturating_add(refill).min(most);
        self.refilled_micros = now_micros;
        if self.credit_bytes >= bytes {
            self.credit_bytes -= bytes;
            return Duration::ZERO;
        }
        let missing = bytes - self.credit_bytes;
        // Rounded up: after the wait, what is missing is there.
        Duration::from_micros(missing.saturating_mul(1_000_000).div_ceil(self.rate.max(1)).max(100))
    }
}
