//! How far the WALs are behind what was promised of them, where it was promised that they are synced every so often.
//!
//! A sync that begins when its time has come may find more than the device takes in that time, and then all that was promised is late. So it begins
//! earlier where much is unsynced, and writers are [paced](super::pacing) so that no more is than can be synced within the interval. Both go by what
//! syncs achieved. Where nothing was promised, nothing of this happens.

use super::pacing::{Meter, Pace, wal_pace};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use siltstone_base::sync::{Mutex, Rank};

/// Rank of the lock: nothing is taken under it.
const RANK: Rank = Rank(312);

/// So many bytes are always worth a sync of their own.
const LEAST_BYTES: u64 = 4 << 20;

/// What is expected of a device: so many bytes a second. It counts as if it had been measured for so many seconds.
const EXPECTED: (f64, f64) = (130e6, 0.03);

/// The first so many bytes tell nothing: a device or its limiter may take them at once, whatever it achieves later.
const TAKEN_AT_ONCE: u64 = 12 << 20;

/// What a sync achieved is believed for so many times its bytes, which the next one may have: a device or its limiter may take a little at once, and much of it slowly.
const BELIEVED: u64 = 2;

/// As many bytes as two syncs of that size have may be unsynced.
const BELIEVED_UNSYNCED: u64 = 2 * BELIEVED;

/// A sync that takes longer counts as one of so many seconds: it says that the device hung, and not for how long it will be slow.
const MOST_SECONDS: f64 = 0.5;

/// The least rate that is believed, in bytes a second.
const LEAST_RATE: f64 = 1e6;

/// A sync begins early when it is expected to take this part of the interval.
const EARLY_PART: f64 = 0.25;

/// A sync of fewer bytes tells how long the device takes to answer, and not what it achieves.
const LEAST_MEASURED_BYTES: u64 = LEAST_BYTES / 2;

/// What was written to WALs since the database was opened, and how much of it is durable.
#[derive(Debug)]
pub(crate) struct WalLag {
    /// Nothing was promised if there is none.
    interval_seconds: Option<f64>,
    /// Bytes that the WALs have grown by.
    written: AtomicU64,
    /// As many of them are durable.
    durable: AtomicU64,
    /// Whether a sync was asked for that begins before its time.
    is_early: AtomicBool,
    achieved: Mutex<Achieved>,
}

/// What syncs achieved.
#[derive(Debug)]
struct Achieved {
    meter: Meter,
    /// Bytes of the largest one.
    largest: Option<u64>,
    /// Bytes of [`TAKEN_AT_ONCE`] that were not synced yet.
    taken_at_once: u64,
    /// When the last one ended: they take turns, and one that waits achieves nothing yet.
    ended_nanos: u64,
}

impl Achieved {
    fn new() -> Self {
        Self { meter: Meter::default(), largest: None, taken_at_once: TAKEN_AT_ONCE, ended_nanos: 0 }
    }

    /// Bytes that are synced a second while a sync runs.
    fn rate(&self) -> f64 {
        self.meter.rate_beside(EXPECTED.0, EXPECTED.1).max(LEAST_RATE)
    }
}

/// A sync that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BegunSync {
    written: u64,
    nanos: u64,
}

impl WalLag {
    /// The WALs are synced every so many milliseconds; 0: nobody said how often.
    pub(crate) fn new(interval_millis: u64) -> Self {
        Self {
            interval_seconds: (interval_millis > 0).then_some(interval_millis as f64 / 1e3),
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            is_early: AtomicBool::new(false),
            achieved: Mutex::new(RANK, Achieved::new()),
        }
    }

    /// A WAL grew by so many bytes. Only the leader writes.
    #[inline]
    pub(crate) fn grew(&self, bytes: u64) {
        self.written.store(self.written.load(Ordering::Relaxed).saturating_add(bytes), Ordering::Release);
    }

    /// Everything is durable; nobody writes meanwhile.
    pub(crate) fn all_is_synced(&self) {
        self.durable.fetch_max(self.written.load(Ordering::Acquire), Ordering::AcqRel);
    }

    /// A sync begins, of what was written so far.
    pub(crate) fn begin(&self, now_nanos: u64) -> BegunSync {
        BegunSync { written: self.written.load(Ordering::Acquire), nanos: now_nanos }
    }

    /// No more than `unsynced_bytes` of what it is of lie in WALs that are not durable. Flushes sync WALs, too, and a WAL that only tables need goes as it is: that is not what this sync achieves.
    pub(crate) fn finds(&self, begun: BegunSync, unsynced_bytes: u64) {
        self.durable.fetch_max(begun.written.saturating_sub(unsynced_bytes), Ordering::AcqRel);
    }

    /// It has ended.
    pub(crate) fn synced(&self, begun: BegunSync, now_nanos: u64) {
        let before = self.durable.fetch_max(begun.written, Ordering::AcqRel);
        let bytes = begun.written.saturating_sub(before);
        let achieved = &mut *self.achieved.lock();
        let from_nanos = begun.nanos.max(achieved.ended_nanos);
        achieved.ended_nanos = now_nanos;
        if bytes >= LEAST_MEASURED_BYTES {
            let seconds = now_nanos.saturating_sub(from_nanos) as f64 / 1e9;
            let part = (MOST_SECONDS / seconds).min(1.0);
            let at_once = bytes.min(achieved.taken_at_once);
            achieved.taken_at_once -= at_once;
            if bytes > at_once {
                achieved.meter.add(((bytes - at_once) as f64 * part) as u64, seconds * part);
            }
            achieved.largest = achieved.largest.max(Some(bytes));
        }
    }

    /// Bytes that are synced a second while a sync runs, once that is known.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.interval_seconds?;
        let achieved = self.achieved.lock();
        achieved.largest.map(|_| achieved.rate())
    }

    /// The rate, and the bytes of the largest sync; of so many it is believed.
    fn achieved(&self) -> (f64, u64) {
        let achieved = self.achieved.lock();
        (achieved.rate(), achieved.largest.unwrap_or(LEAST_BYTES / BELIEVED))
    }

    /// The pace that keeps what is unsynced to what can be synced within the interval.
    pub(crate) fn pace(&self) -> Pace {
        let Some(interval) = self.interval_seconds else { return Pace::FREE };
        let unsynced = self.unsynced_bytes();
        if unsynced < LEAST_BYTES {
            return Pace::FREE;
        }
        let (rate, largest) = self.achieved();
        let most = (rate * interval).clamp(2.0 * LEAST_BYTES as f64, (largest * BELIEVED_UNSYNCED) as f64);
        wal_pace(unsynced as f64, most, rate)
    }

    /// Whether the caller must start a sync: there is enough for one, and nobody else does.
    pub(crate) fn begins_early(&self) -> bool {
        self.has_enough() && !self.is_early.swap(true, Ordering::AcqRel)
    }

    /// Whether who syncs early has to begin again. If not, the next one has to be started.
    pub(crate) fn goes_on_syncing(&self) -> bool {
        let goes_on = self.has_enough();
        if !goes_on {
            self.end_early();
        }
        goes_on
    }

    /// Nobody syncs early any more: the next one has to be started.
    pub(crate) fn end_early(&self) {
        self.is_early.store(false, Ordering::Release);
    }

    fn has_enough(&self) -> bool {
        let Some(interval) = self.interval_seconds else { return false };
        let (rate, largest) = self.achieved();
        let early = (rate * interval * EARLY_PART) as u64;
        self.unsynced_bytes() >= early.clamp(LEAST_BYTES, largest * BELIEVED)
    }

    /// Bytes of the WALs that are not durable.
    pub(crate) fn unsynced_bytes(&self) -> u64 {
        self.written.load(Ordering::Acquire).saturating_sub(self.durable.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests;
