//! The background error: what keeps the engine from accepting writes, and whether that can pass by itself.

use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::sync::{Mutex, Rank};
use siltstone_base::{Error, ErrorKind};

/// Rank of the error state: taken under any other lock of the database.
const RANK: Rank = Rank(400);

/// What background work makes room by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoomMaker {
    /// Writes memtables to tables.
    Flush,
    /// Takes tables from level 0, and bytes from what is owed.
    Compaction,
}

/// The first fatal error of an open database. It sticks until the database is opened again.
///
/// Errors that can pass by themselves (a full device while a table is written) are kept apart: the job that met one is
/// tried again, and writers see it only when they run out of the room that such a job makes.
#[derive(Debug)]
pub(crate) struct ErrorState {
    failed: AtomicBool,
    cause: Mutex<Option<Error>>,
    /// The errors that flushes and compactions met last and will try to leave behind; each is cleared by the next success of its kind. That of compactions is cleared as the next one begins, too, and where none will
    /// come: what was met once says nothing of it.
    passing: Mutex<[Option<Error>; 2]>,
}

impl ErrorState {
    pub(crate) fn new() -> Self {
        Self { failed: AtomicBool::new(false), cause: Mutex::new(RANK, None), passing: Mutex::new(RANK, [None, None]) }
    }

    /// Makes the engine read-only because of `cause`, unless it is. Returns whether this call did it.
    pub(crate) fn fail(&self, cause: &Error) -> bool {
        let mut slot = self.cause.lock();
        let first = slot.is_none();
        if first {
            *slot = Some(cause.clone());
            self.failed.store(true, Ordering::Release);
        }
        first
    }

    /// Fails with `ReadOnly` and the cause if the engine is read-only.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.failed.load(Ordering::Acquire) { Err(self.read_only()) } else { Ok(()) }
    }

    /// Whether the engine is read-only.
    pub(crate) fn is_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Takes note of an error that background work will try to leave behind, or of its success.
    pub(crate) fn set_passing(&self, maker: RoomMaker, error: Option<Error>) {
        self.passing.lock()[maker as usize] = error;
    }

    /// The error that background work of this kind tries to leave behind, if it met one.
    pub(crate) fn passing(&self, maker: RoomMaker) -> Option<Error> {
        self.passing.lock()[maker as usize].clone()
    }

    /// Whether background work of any kind tries to leave an error behind.
    pub(crate) fn has_passing(&self) -> bool {
        self.passing.lock().iter().any(Option::is_some)
    }

    /// Why the engine is read-only, if it is.
    pub(crate) fn cause(&self) -> Option<Error> {
        self.cause.lock().clone()
    }

    #[cold]
    fn read_only(&self) -> Error {
        let error = Error::new(ErrorKind::ReadOnly, "the engine accepts no writes after a background error");
        match self.cause() {
            Some(cause) => error.with_source(cause),
            None => error,
        }
    }
}
