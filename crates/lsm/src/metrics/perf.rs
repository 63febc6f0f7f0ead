//! What one thread's operations cost: the difference of two readings of the counters that this thread alone writes.

use super::{COUNTERS, Counter, Counters, Metrics, is_shared, slot};
use siltstone_base::sync::atomic::Ordering;
use std::fmt;
use std::marker::PhantomData;

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
    _of_this_thread: PhantomData<*const ()>,
}

impl PerfContext<'_> {
    /// What the thread did since. Operations count when they are over; what an iterator does counts at the latest when it is dropped.
    pub fn counters(&self) -> Counters {
        self.metrics.counters_of(self.slot).since(&self.before)
    }
}

impl fmt::Debug for PerfContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(
                self.counters().iter().filter(|(_, value)| *value > 0).map(|(counter, value)| (counter.name(), value)),
            )
            .finish()
    }
}

impl Metrics {
    /// Counts what the calling thread does from now on. `None` for a thread that shares its counters, as those have to that come when 120 others are alive.
    pub fn perf_context(&self) -> Option<PerfContext<'_>> {
        let slot = slot();
        (!is_shared(slot)).then(|| PerfContext {
            metrics: self,
            slot,
            before: self.counters_of(slot),
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
