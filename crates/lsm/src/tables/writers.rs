//! Who changes rows now: so that whoever adds an index knows when everyone does so who knows of it.
//!
//! A writer enters before it looks at the table and leaves when its changes are visible. It is counted in the turn at hand; whoever waits begins a new turn and
//! waits until those of the old one have left.

use siltstone_base::executor::{Executor, Waited};
use siltstone_base::sync::atomic::{AtomicUsize, Ordering};
use siltstone_base::sync::{CachePadded, Signal};
use siltstone_base::{Error, ErrorKind, Result};

/// The writers of one database. Any thread may enter; one at a time waits.
#[derive(Debug, Default)]
pub(super) struct Writers {
    turn: AtomicUsize,
    counts: [CachePadded<AtomicUsize>; 2],
    left: Signal,
}

/// One writer, until it is dropped.
#[derive(Debug)]
pub(super) struct Writing<'a> {
    writers: &'a Writers,
    turn: usize,
}

impl Writers {
    /// Enters.
    #[inline]
    pub(super) fn enter(&self) -> Writing<'_> {
        loop {
            let turn = self.turn.load(Ordering::SeqCst) % 2;
            self.counts[turn].fetch_add(1, Ordering::SeqCst);
            let writing = Writing { writers: self, turn };
            // Otherwise a turn began meanwhile, and nobody may have waited for this one.
            if self.turn.load(Ordering::SeqCst) % 2 == turn {
                return writing;
            }
        }
    }

    /// Waits until everyone has left who entered before. The caller holds no lock and is the only one that waits.
    pub(super) fn wait_for_earlier(&self, executor: &dyn Executor) -> Result<()> {
        let earlier = self.turn.fetch_add(1, Ordering::SeqCst) % 2;
        let has_left = || self.counts[earlier].load(Ordering::SeqCst) == 0;
        match executor.wait_until(&self.left, None, &mut || has_left()) {
            Waited::Met => Ok(()),
            _ => Err(Error::new(ErrorKind::Busy, "writers of rows do not end")),
        }
    }
}

impl Drop for Writing<'_> {
    #[inline]
    fn drop(&mut self) {
        let was_last = self.writers.counts[self.turn].fetch_sub(1, Ordering::SeqCst) == 1;
        if was_last && self.writers.turn.load(Ordering::SeqCst) % 2 != self.turn {
            self.writers.left.notify_all();
        }
    }
}
