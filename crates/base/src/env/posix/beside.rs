//! Whether it is of use to let the device work beside whoever reads or writes.
//!
//! Where what was begun has ended when it is needed, the device's time was saved. Where whoever needs it waits longer than he worked meanwhile, the device is what everything waits for: then little is
//! gained, and others, who would have come between, stand behind more. So after one that came so late the next ones are not begun in advance, but for one now and then.

use crate::sync::atomic::{AtomicU32, Ordering};

/// So many are not begun in advance after one that came late.
const REST: u32 = 15;

/// What is known of that. Thread safety: any thread may call anything; what two of them say at once is as if one had said it.
#[derive(Debug, Default)]
pub(in super::super) struct Beside {
    rest: AtomicU32,
}

impl Beside {
    /// Whether to begin the next one in advance.
    pub(in super::super) fn is_of_use(&self) -> bool {
        let rest = self.rest.load(Ordering::Relaxed);
        if rest > 0 {
            self.rest.store(rest - 1, Ordering::Relaxed);
        }
        rest == 0
    }

    /// One was begun in advance at `begun`, needed at `needed` and there at `done`, by any clock.
    pub(in super::super) fn came(&self, begun: u64, needed: u64, done: u64) {
        if done.saturating_sub(needed) > needed.saturating_sub(begun) {
            self.rest.store(REST, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_one_that_came_late_some_are_not_begun_in_advance() {
        let beside = Beside::default();
        let begun = |count: u32| (0..count).filter(|_| beside.is_of_use()).count();
        assert_eq!(begun(100), 100);
        beside.came(10, 20, 15);
        beside.came(10, 20, 30);
        assert_eq!(begun(100), 100);
        beside.came(10, 20, 31);
        assert_eq!(begun(REST), 0);
        assert_eq!(begun(100), 100);
        let late = (0..160).filter(|_| beside.is_of_use()).inspect(|_| beside.came(0, 0, 1));
        assert_eq!(late.count(), 10);
    }
}
