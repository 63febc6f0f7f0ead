//! Whoever makes files outside of jobs, under names that this opening gives out: closing waits for them, because the next opening gives out the same names.

use super::admission::closing;
use super::state::DbInner;
use siltstone_base::Result;
use siltstone_base::sync::Arc;

/// Keeps the directory from being closed for as long as it exists.
#[derive(Debug)]
pub(crate) struct MakingFiles(Arc<DbInner>);

impl Drop for MakingFiles {
    fn drop(&mut self) {
        self.0.state.lock().making_files -= 1;
        self.0.changed.notify_all();
    }
}

impl DbInner {
    /// Begins to make, or to remove, files.
    ///
    /// # Errors
    ///
    /// `Aborted` if somebody closes the database, or did: what is in the directory may be another opening's.
    pub(crate) fn make_files(self: &Arc<Self>) -> Result<MakingFiles> {
        // Closing begins before it looks under this lock at who makes files.
        let mut state = self.state.lock();
        if self.is_closing() {
            return Err(closing());
        }
        state.making_files += 1;
        Ok(MakingFiles(Arc::clone(self)))
    }
}
