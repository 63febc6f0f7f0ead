//! Metrics: what the engine counts while it works, and how that is read.
//!
//! Thread safety: [`Metrics`] is written by every thread without a lock. Each thread owns one slot of a fixed number, so that
//! counting is a plain load and store to a cache line that nobody else writes; threads beyond that number share a few
//! slots with atomic additions. A slot is given back when its thread ends. A reader sums the slots: it sees every addition
//! that happened before it began, and some of those that run beside it.

mod counter;
#[cfg(feature = "metrics")]
mod facade;
mod histogram;
mod perf;

mod property;
mod statistics;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod times;

pub use counter::Counter;
#[cfg(feature = "metrics")]
pub(crate) use facade::publish;
pub use histogram::{HistogramData, HistogramKind};
pub use perf::{PerfContext, PerfLevel};
pub use property::Property;
pub use statistics::Statistics;
pub(crate) use statistics::{Gauge, prometheus_text};
pub use table::{LevelStats, MetricsTable, NextLimit};
pub use times::{PerfTime, PerfTimes};

use histogram::Histograms;
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::sync::CachePadded;
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::fmt;
use std::sync::Arc;

/// Slots of the first threads, one each.
const OWN_SLOTS: usize = 120;
/// Slots that all others share.
const SHARED_SLOTS: usize = 8;
const SLOTS: usize = OWN_SLOTS + SHARED_SLOTS;
const COUNTERS: usize = Counter::ALL.len();

/// Bit i of word w: slot 64 w + i belongs to a live thread. Shared slots are never taken.
static TAKEN: [AtomicU64; OWN_SLOTS.div_ceil(64)] = [const { AtomicU64::new(0) }; OWN_SLOTS.div_ceil(64)];

/// How many threads have got a shared slot: the next one gets the next.
static SHARERS: AtomicUsize = AtomicUsize::new(0);

/// Whether several threads may write to a slot.
#[inline]
const fn is_shared(slot: usize) -> bool {
    slot >= OWN_SLOTS
}

/// The slot of one thread, in all databases of the process.
struct Slot(usize);

impl Slot {
    fn take() -> Self {
        for (number, word) in TAKEN.iter().enumerate() {
            let mut taken = word.load(Ordering::Relaxed);
            loop {
                let free = taken.trailing_ones() as usize;
                if free >= 64 || is_shared(number * 64 + free) {
                    break;
                }
                // Acquire: what the slot's last owner counted happens before what this one does.
                match word.compare_exchange_weak(taken, taken | 1 << free, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return Self(number * 64 + free),
                    Err(now) => taken = now,
                }
            }
        }
        Self(OWN_SLOTS + SHARERS.fetch_add(1, Ordering::Relaxed) % SHARED_SLOTS)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(word) = TAKEN.get(self.0 / 64).filter(|_| !is_shared(self.0)) {
            word.fetch_and(!(1 << (self.0 % 64)), Ordering::Release);
        }
    }
}

thread_local! {
    static SLOT: Slot = Slot::take();
}

/// The slot of the calling thread; a shared one while the thread's locals are being destroyed.
#[inline]
fn slot() -> usize {
    SLOT.try_with(|slot| slot.0).unwrap_or(OWN_SLOTS)
}

/// The counters of one open database.
pub struct Metrics {
    slots: Box<[CachePadded<[AtomicU64; COUNTERS]>]>,
    histograms: Histograms,
    times_operations: AtomicBool,
    clock: Arc<dyn Clock>,
}

impl Metrics {
    /// All counters at 0.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock::new()))
    }

    /// The same, with times by `clock`.
    pub(crate) fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self {
            slots: (0..SLOTS).map(|_| CachePadded::new([const { AtomicU64::new(0) }; COUNTERS])).collect(),
            histograms: Histograms::new(),
            times_operations: AtomicBool::new(false),
            clock,
        }
    }

    /// Measures from now on how long each get and each write takes, and other things of which [`HistogramKind`] and [`Counter`] say so, or no longer. It costs two looks at
    /// the clock each; background work is always measured as a whole. Iterators measure as it was when they were made.
    pub fn set_times_operations(&self, times_operations: bool) {
        self.times_operations.store(times_operations, Ordering::Relaxed);
    }

    /// Whether gets and writes are measured.
    #[inline]
    pub fn times_operations(&self) -> bool {
        self.times_operations.load(Ordering::Relaxed)
    }

    /// When a measurement begins, in nanoseconds; `None` unless operations are timed. For [`end_micros`](Self::end_micros) and [`end_nanos`](Self::end_nanos).
    #[inline]
    pub(crate) fn begin(&self) -> Option<u64> {
        if self.times_operations() { Some(self.clock.now_nanos()) } else { None }
    }

    /// Counts the microseconds of a measurement, if one began.
    #[inline]
    pub(crate) fn end_micros(&self, kind: HistogramKind, began: Option<u64>) {
        if let Some(nanos) = self.nanos_since(began) {
            self.record(kind, nanos / 1_000);
        }
    }

    /// Counts the nanoseconds of a measurement, if one began.
    #[inline]
    pub(crate) fn end_nanos(&self, kind: HistogramKind, began: Option<u64>) {
        if let Some(nanos) = self.nanos_since(began) {
            self.record(kind, nanos);
        }
    }

    /// The nanoseconds of a measurement, if one began.
    #[inline]
    pub(crate) fn nanos_since(&self, began: Option<u64>) -> Option<u64> {
        began.map(|began| self.clock.now_nanos().saturating_sub(began))
    }

    /// Does `work` and counts its microseconds, whether or not operations are timed. For what happens seldom.
    pub(crate) fn measured<T>(&self, kind: HistogramKind, work: impl FnOnce() -> T) -> T {
        let began = self.clock.now_micros();
        let outcome = work();
        self.record(kind, self.clock.now_micros().saturating_sub(began));
        outcome
    }

    /// Counts a value of a distribution.
    pub fn record(&self, kind: HistogramKind, value: u64) {
        self.histograms.record(kind, value);
    }

    /// A distribution.
    pub fn histogram(&self, kind: HistogramKind) -> HistogramData {
        self.histograms.get(kind)
    }

    /// All distributions by name.
    pub fn histograms(&self) -> Vec<(&'static str, HistogramData)> {
        HistogramKind::ALL.iter().map(|kind| (kind.name(), self.histogram(*kind))).collect()
    }

    /// Adds `amount` to a counter.
    #[inline]
    pub fn add(&self, counter: Counter, amount: u64) {
        self.add_all([(counter, amount)]);
    }

    /// Adds to several counters at once; the calling thread's slot is looked up only once.
    #[inline]
    pub fn add_all<const N: usize>(&self, amounts: [(Counter, u64); N]) {
        let slot = slot();
        let cells = &self.slots[slot];
        for (counter, amount) in amounts {
            let cell = &cells[counter as usize];
            if is_shared(slot) {
                cell.fetch_add(amount, Ordering::Relaxed);
            } else {
                // Only this thread writes the cell.
                cell.store(cell.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
            }
        }
    }

    /// The value of a counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.slots.iter().fold(0, |sum, cells| sum.wrapping_add(cells[counter as usize].load(Ordering::Relaxed)))
    }

    /// The values of all counters.
    pub fn counters(&self) -> Counters {
        Counters { values: std::array::from_fn(|index| self.get(Counter::ALL[index])) }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counters().fmt(f)
    }
}

/// The values of all counters at one moment.
#[derive(Clone, PartialEq, Eq)]
pub struct Counters {
    values: [u64; COUNTERS],
}

impl Counters {
    /// The value of a counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize]
    }

    /// All counters with their values.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Counter::ALL.iter().copied().zip(self.values)
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self { values: std::array::from_fn(|index| self.values[index].wrapping_sub(earlier.values[index])) }
    }

    /// Bytes that went to disk: WAL, flushes and compactions. The MANIFEST, which is small beside them, is not counted.
    pub fn disk_bytes_written(&self) -> u64 {
        [Counter::WalBytes, Counter::FlushWriteBytes, Counter::CompactWriteBytes]
            .into_iter()
            .fold(0, |sum, counter| sum.wrapping_add(self.get(counter)))
    }

    /// Bytes written to disk per byte that callers wrote; `None` before the first write.
    pub fn write_amplification(&self) -> Option<f64> {
        let user = self.get(Counter::BytesWritten);
        (user > 0).then(|| self.disk_bytes_written() as f64 / user as f64)
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(counter, value)| (counter.name(), value))).finish()
    }
}
