//! What one thread's operations cost: the difference of two readings of the counters that this thread alone writes.

use super::{COUNTERS, Counter, Counters, Metrics, PerfTimes, is_shared, slot, times};
use siltstone_base::sync::atomic::Ordering;
use std::fmt;
use std::marker::PhantomData;

/// How much a [`PerfContext`] looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum PerfLevel {
    /// Counts only: it costs nothing on the way.
    #[default]
    EnableCount,
    /// Times as well: two looks at the clock for each place of [`PerfTime`](super::PerfTime) that an operation comes to.
    EnableTime,
}

/// Counts what the calling thread does with one database from now on, other threads and background work left out. It costs nothing on the way: the counters are there anyway.
///
/// ```
/// use siltstone_lsm::{Counter, Db, DbOptions};
///
/// # fn main() -> siltstone_lsm::Result<()> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// let db = Db::open(dir.path(), &DbOptions::default().create_if_missing(true))?;
/// db.put("umber", "brown")?;
/// if let Some(perf) = db.metrics().perf_context() {
///     db.get("umber")?;
///     assert_eq!(perf.counters().get(Counter::KeysRead), 1);
///     assert_eq!(perf.counters().get(Counter::KeysWritten), 0);
/// }
/// # Ok(())
/// # }
/// ```
///
/// Blocks that a read of several keys fetches together are counted as blocks read, and once more as [read together](Counter::BlocksReadTogether). An executor that steps jobs on the thread that waits lets it count for them as well.
///
/// Thread safety: belongs to the thread that made it.
pub struct PerfContext<'a> {
    metrics: &'a Metrics,
    slot: usize,
    before: Counters,
    times_before: PerfTimes,
    level: PerfLevel,
    _of_this_thread: PhantomData<*const ()>,
}

impl PerfContext<'_> {
    /// What the thread did since. Operations count when they are over; what an iterator does counts at the latest when it is dropped.
    pub fn counters(&self) -> Counters {
        self.metrics.counters_of(self.slot).since(&self.before)
    }

    /// Where the time of the thread went since, with whatever database; all 0 on [`PerfLevel::EnableCount`].
    pub fn times(&self) -> PerfTimes {
        match self.level {
            PerfLevel::EnableCount => PerfTimes::default(),
            PerfLevel::EnableTime => times::so_far().since(&self.times_before),
        }
    }

    /// How much it looks at.
    pub fn level(&self) -> PerfLevel {
        self.level
    }
}

impl Drop for PerfContext<'_> {
    fn drop(&mut self) {
        if self.level == PerfLevel::EnableTime {
            times::stop();
        }
    }
}

impl fmt::Debug for PerfContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (counters, times) = (self.counters(), self.times());
        let counts = counters.iter().map(|(counter, value)| (counter.name(), value));
        let all = counts.chain(times.iter().map(|(what, nanos)| (what.name(), nanos)));
        f.debug_map().entries(all.filter(|(_, value)| *value > 0)).finish()
    }
}

impl Metrics {
    /// Counts what the calling thread does from now on. `None` for a thread that shares its counters, as those have to that come when 120 others are alive.
    pub fn perf_context(&self) -> Option<PerfContext<'_>> {
        self.perf_context_at(PerfLevel::EnableCount)
    }

    /// The same, and on [`PerfLevel::EnableTime`] tells as long as it exists where the time of the calling thread goes.
    pub fn perf_context_at(&self, level: PerfLevel) -> Option<PerfContext<'_>> {
        let slot = slot();
        if is_shared(slot) {
            return None;
        }
        if level == PerfLevel::EnableTime {
            times::start(&self.clock);
        }
        Some(PerfContext {
            metrics: self,
            slot,
            before: self.counters_of(slot),
            times_before: times::so_far(),
            level,
            _of_this_thread: PhantomData,
        })
    }

    fn counters_of(&self, slot: usize) -> Counters {
        let mut values = [0; COUNTERS];
        if let Some(cells) = self.slots.get(slot) {
            for (value, cell) in values.iter_mut().zip(cells.iter()) {
                *value = cell.load(Ordering::Relaxed);
            }
        }
        debug_assert_eq!(Counter::ALL.len(), COUNTERS);
        Counters { values }
    }
}
