//! A tablespace that is being written and that nothing leads to.

use super::super::state::State;
use crate::mtr::{Close, Mtr};
use crate::options::PageCompression;
use siltstone_base::Result;
use siltstone_base::sync::Arc;

/// The number of such a tablespace, and its file. Unless it is kept, it is gone when this is dropped, for which nobody may hold the lock of writers; a crash leaves a file that
/// the catalog does not name, which opening deletes.
#[derive(Debug)]
pub(in super::super) struct NewSpace<'a> {
    state: &'a Arc<State>,
    number: u32,
    is_kept: bool,
}

impl<'a> NewSpace<'a> {
    /// Takes the next number and creates the file. For who holds the lock of writers, with room in the redo log for a definition and no group open.
    pub(in super::super) fn create(state: &'a Arc<State>, compression: PageCompression) -> Result<Self> {
        let number = state.create_space(compression)?;
        let taken = (|| {
            let mut mtr = Mtr::new(&state.pool);
            state.take_space(number, &mut mtr)?;
            mtr.commit(Close::Group)
        })();
        if let Err(error) = taken {
            // The log never spoke of it.
            let _ = state.spaces.delete(number);
            return Err(error);
        }
        Ok(Self { state, number, is_kept: false })
    }

    pub(in super::super) fn number(&self) -> u32 {
        self.number
    }

    /// From here on the log decides whether it stays.
    pub(in super::super) fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for NewSpace<'_> {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let _writer = self.state.writer.lock();
        // A directory that was closed may be another one's by now: its opening deletes the file.
        if self.state.check_open().is_ok() {
            self.state.forget_space(self.number);
        }
    }
}
