//! Why the engine takes no writes any more, if so.

use crate::event::{Event, Events};
use siltstone_base::sync::{Arc, OnceLock};
use siltstone_base::{Error, ErrorKind, Result};

/// The first error after which what is in memory and what is on disk can't be reconciled but by opening the database again: a
/// failed write or sync of the redo log, a failed sync of a tablespace, or a change that did not fit its page. It stays.
#[derive(Debug)]
pub(crate) struct Health {
    fatal: OnceLock<Error>,
    events: Arc<Events>,
}

impl Health {
    /// Good health, of which `events` hears when it ends.
    pub(crate) fn new(events: Arc<Events>) -> Self {
        Self { fatal: OnceLock::new(), events }
    }

    /// Takes note of `error`, unless one came before. Returns it.
    #[cold]
    pub(crate) fn fail(&self, error: Error) -> Error {
        if self.fatal.set(error.clone()).is_ok() {
            self.events.note(|| Event::BecameReadOnly { error: error.clone() });
        }
        error
    }

    /// Refuses if an error was noted.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match self.fatal.get() {
            None => Ok(()),
            Some(error) => {
                Err(Error::new(ErrorKind::ReadOnly, "an earlier error; open the database again")
                    .with_source(error.clone()))
            }
        }
    }

    /// The error that was noted.
    pub(crate) fn error(&self) -> Option<&Error> {
        self.fatal.get()
    }
}
