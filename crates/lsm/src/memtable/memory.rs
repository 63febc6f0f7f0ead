//! What the memtables of a database take, those included that only readers and jobs still hold.

use siltstone_base::sync::CachePadded;
use siltstone_base::sync::atomic::{AtomicUsize, Ordering};
use std::fmt;

/// What is charged falls once memtables take one part in so many of it: not with each flush, which the next memtable follows.
const EMPTY_PART: usize = 16;

/// Is told what is charged: how many bytes before, and how many now.
type Charge = Box<dyn Fn(usize, usize) + Send + Sync>;

/// Bytes of the blocks of memory of all memtables that were made in it, until the last of each has gone back.
///
/// Thread safety: every method may be called from any thread.
#[derive(Default)]
pub(crate) struct MemtableMemory {
    bytes: CachePadded<AtomicUsize>,
    /// Bytes that somebody else makes room for, and who.
    charged: AtomicUsize,
    charge: Option<Charge>,
}

impl MemtableMemory {
    /// The same, for which somebody else makes room. `charge` is told when memtables take more than they ever did since they were last empty, and when they are empty, more or less: who makes room has
    /// much to do, and would do it again with each memtable. Calls may come in another order than what they tell.
    pub(crate) fn charging(charge: impl Fn(usize, usize) + Send + Sync + 'static) -> Self {
        Self { charge: Some(Box::new(charge)), ..Self::default() }
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A memtable took a block of so many bytes.
    pub(super) fn took(&self, bytes: usize) {
        let now = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.charge_where(|charged| now > charged);
    }

    /// A block has gone back.
    pub(super) fn gave_back(&self, bytes: usize) {
        let now = self.bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        self.charge_where(|charged| now <= charged / EMPTY_PART);
    }

    /// Charges what memtables take now, if that is due.
    fn charge_where(&self, is_due: impl Fn(usize) -> bool) {
        let Some(charge) = &self.charge else { return };
        let mut charged = self.charged.load(Ordering::Relaxed);
        while is_due(charged) {
            let now = self.bytes();
            match self.charged.compare_exchange_weak(charged, now, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return charge(charged, now),
                Err(other) => charged = other,
            }
        }
    }
}

impl fmt::Debug for MemtableMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let charged = self.charged.load(Ordering::Relaxed);
        f.debug_struct("MemtableMemory")
            .field("bytes", &self.bytes())
            .field("charged", &charged)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_base::sync::{Arc, Mutex, Rank};

    #[test]
    fn what_is_charged_rises_with_memtables_and_falls_once_they_are_empty() {
        let told = Arc::new(Mutex::new(Rank(1), Vec::new()));
        let calls = Arc::clone(&told);
        let memory = MemtableMemory::charging(move |before, now| calls.lock().push((before, now)));
        (0..4).for_each(|_| memory.took(100));
        memory.gave_back(200);
        memory.took(100);
        memory.took(200);
        memory.gave_back(475);
        assert_eq!(memory.bytes(), 25);
        memory.gave_back(25);
        assert_eq!(*told.lock(), [(0, 100), (100, 200), (200, 300), (300, 400), (400, 500), (500, 25), (25, 0)]);
        let alone = MemtableMemory::default();
        alone.took(10);
        alone.gave_back(10);
        assert_eq!((alone.bytes(), alone.charged.into_inner()), (0, 0));
    }
}
