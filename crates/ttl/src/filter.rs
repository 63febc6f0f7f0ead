//! A compaction filter that removes expired rows, and does nothing else.

use crate::{StampLayout, TtlDuration};
use siltstone_base::clock::Clock;
use siltstone_base::entry_filter::{Decision, EntryFilter};
use siltstone_base::expiry::TrustedClock;
use siltstone_base::sync::Arc;

/// Removes rows in compactions that are older than a duration, as RocksDB's `DBWithTTL` does: for families whose option `compaction_filter` it is, and whose reads may
/// see expired rows until a compaction comes along. [`Ttl`](crate::Ttl) does more.
///
/// It removes no row that a snapshot sees, and no operand of a merge. Another filter may decide about the rows that stay.
///
/// It believes its clock, however far that is ahead of when the database was closed, as a [policy](crate::Ttl) does not.
///
/// ```
/// use siltstone_base::clock::SystemClock;
/// use siltstone_lsm::ColumnFamilyOptions;
/// use siltstone_ttl::{StampLayout, TtlDuration, TtlFilter};
/// use std::sync::Arc;
///
/// # fn main() -> siltstone_base::Result<()> {
/// let filter = TtlFilter::new(StampLayout::Suffix, TtlDuration::from_seconds(86_400)?, Arc::new(SystemClock::new()));
/// let family = ColumnFamilyOptions::default().compaction_filter(Some(Arc::new(filter))).periodic_compaction_seconds(43_200);
/// # drop(family);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TtlFilter {
    layout: StampLayout,
    duration: TtlDuration,
    clock: TrustedClock,
    next: Option<Arc<dyn EntryFilter>>,
}

impl TtlFilter {
    /// A filter of values with stamps in `layout`, by the time of `clock`: no faster than its monotonic time, and never backwards.
    pub fn new(layout: StampLayout, duration: TtlDuration, clock: Arc<dyn Clock>) -> Self {
        Self { layout, duration, clock: TrustedClock::new(clock, None, 0), next: None }
    }

    /// Shows the rows that are not expired to `next`, without their stamps; what it changes gets the stamp of what was there.
    #[must_use]
    pub fn then(mut self, next: Arc<dyn EntryFilter>) -> Self {
        self.next = Some(next);
        self
    }

    fn decide(&self, stamped: &[u8], next: impl FnOnce(&dyn EntryFilter, &[u8]) -> Decision) -> Decision {
        let Some((value, stamp)) = self.layout.try_split(stamped) else { return Decision::Keep };
        match self.next.as_deref().map_or(Decision::Keep, |filter| next(filter, value)) {
            Decision::Change(changed) => self.layout.stamped(&changed, stamp).map_or(Decision::Keep, Decision::Change),
            other => other,
        }
    }
}

impl EntryFilter for TtlFilter {
    fn name(&self) -> &str {
        "siltstone.TtlFilter"
    }

    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> Decision {
        let Some((_, stamp)) = self.layout.try_split(value) else { return Decision::Keep };
        if stamp.saturating_add(self.duration.seconds()) <= self.clock.now() {
            return Decision::Remove;
        }
        self.decide(value, |filter, value| filter.filter(level, key, value))
    }

    fn filter_operand(&self, level: usize, key: &[u8], operand: &[u8]) -> Decision {
        self.decide(operand, |filter, operand| filter.filter_operand(level, key, operand))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_base::clock::ManualClock;
    use std::time::Duration;

    /// Removes `gone`, and puts an `x` in the place of the others.
    #[derive(Debug)]
    struct Crossing;

    impl EntryFilter for Crossing {
        fn name(&self) -> &str {
            "crossing"
        }

        fn filter(&self, _: usize, _: &[u8], value: &[u8]) -> Decision {
            if value == b"gone" { Decision::Remove } else { Decision::Change(b"x".to_vec()) }
        }
    }

    #[test]
    fn rows_go_when_they_are_expired() {
        let clock = Arc::new(ManualClock::new(1000));
        let layout = StampLayout::Suffix;
        let filter = TtlFilter::new(layout, TtlDuration::from_seconds(60).unwrap(), clock.clone());
        let row = |value: &[u8], stamp| layout.stamped(value, stamp).unwrap();
        assert_eq!(filter.filter(0, b"k", &row(b"v", 940)), Decision::Remove);
        assert_eq!(filter.filter(0, b"k", &row(b"v", 941)), Decision::Keep);
        clock.advance(Duration::from_secs(1));
        assert_eq!(filter.filter(0, b"k", &row(b"v", 941)), Decision::Remove);
        assert_eq!(filter.filter(0, b"k", b"abc"), Decision::Keep, "it has no stamp");
        assert_eq!(filter.filter(0, b"k", &(-1_i32).to_le_bytes()), Decision::Keep, "a negative number is none");
        assert_eq!(filter.filter_operand(0, b"k", &row(b"v", 1)), Decision::Keep);
        let both = filter.then(Arc::new(Crossing));
        assert_eq!(both.filter(0, b"k", &row(b"v", 990)), Decision::Change(row(b"x", 990)));
        assert_eq!(both.filter(0, b"k", &row(b"gone", 990)), Decision::Remove);
    }
}
