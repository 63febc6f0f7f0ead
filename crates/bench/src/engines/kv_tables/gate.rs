//! Who may change what of a table at the same time.

use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicU32, Ordering};
use siltstone_base::{Error, ErrorKind, Result};

/// Added by who passes alone; below it the others are counted, one each.
const ALONE: u32 = 1 << 31;

/// Who changes rows of a table passes beside others; who changes the table itself passes alone. Any thread may come. Nobody waits: who may not pass is told.
#[derive(Debug, Default)]
pub(super) struct Gate(AtomicU32);

/// Somebody passes, until this is dropped.
#[derive(Debug)]
pub(super) struct Passage {
    gate: Arc<Gate>,
    added: u32,
}

impl Gate {
    /// Passes beside others.
    ///
    /// # Errors
    ///
    /// `Busy` while somebody passes alone.
    pub(super) fn pass(self: &Arc<Self>) -> Result<Passage> {
        let before = self.0.fetch_add(1, Ordering::Acquire);
        // Dropped where it may not be, it takes back what was added.
        let passage = Passage { gate: Arc::clone(self), added: 1 };
        if before & ALONE == 0 { Ok(passage) } else { Err(busy()) }
    }

    /// Passes alone.
    ///
    /// # Errors
    ///
    /// `Busy` while anybody passes.
    pub(super) fn pass_alone(self: &Arc<Self>) -> Result<Passage> {
        match self.0.compare_exchange(0, ALONE, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(Passage { gate: Arc::clone(self), added: ALONE }),
            Err(_) => Err(busy()),
        }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.gate.0.fetch_sub(self.added, Ordering::Release);
    }
}

#[cold]
fn busy() -> Error {
    Error::new(ErrorKind::Busy, "rows of the table are being changed, or the table itself is")
}
