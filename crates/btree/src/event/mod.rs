//! Events: what the engine does in the background, what writers met, and what became of trees.
//!
//! The LSM engine's events come in pairs about jobs of minutes; these are many and small. So they are values of one type, told one after the other by a job of their own: nobody who
//! notes one holds a writer up, and no lock is held while a listener runs.

mod queue;
#[cfg(test)]
mod tests;

pub(crate) use queue::Events;

use siltstone_base::Error;
use std::fmt;
use std::time::Duration;

/// Why a checkpoint was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CheckpointCause {
    /// The redo log is nearly full: writers wait for it.
    LogFull,
    /// The oldest dirty page is so much younger than the last checkpoint that recovery would read much for nothing.
    LogGrown,
    /// Nothing is dirty any more.
    Idle,
    /// The caller asked.
    Manual,
    /// The database is closed.
    Close,
}

/// Why the page cleaner, or a job beside it, wrote pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FlushCause {
    /// The redo log is nearly full: the oldest pages go without limit.
    LogFull,
    /// The age of the redo log, the number of dirty pages, or idleness asked for it.
    Adaptive,
    /// Frames were to become free.
    FreeFrames,
}

/// What recovery does, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecoveryPhase {
    /// Torn pages are restored from the doublewrite file. What is counted: pages.
    Doublewrite,
    /// The redo log is read and applied. What is counted: changes that pages lacked.
    Redo,
    /// Transactions that had not ended are rolled back, beside others' work. What is counted: transactions.
    Rollback,
}

/// Why changes were merged from the change buffer. Those that are merged since somebody reads their page are counted only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MergeCause {
    /// The change buffer is nearly full.
    Crowded,
    /// Nobody writes.
    Idle,
    /// The change buffer is full: a writer merged some before his own group.
    Full,
    /// The caller asked.
    Manual,
}

macro_rules! events {
    ($( $(#[$meta:meta])* $variant:ident { $( $(#[$field_meta:meta])* $field:ident: $type:ty, )* } = $name:literal, )*) => {
        /// What happened.
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub enum Event {
            $( $(#[$meta])* #[non_exhaustive] $variant { $( $(#[$field_meta])* $field: $type, )* }, )*
        }

        impl Event {
            /// The names of all events, in the order of the book.
            pub const NAMES: &'static [&'static str] = &[$( $name, )*];

            /// The name of the event.
            pub const fn name(&self) -> &'static str {
                match self {
                    $( Self::$variant { .. } => $name, )*
                }
            }
        }
    };
}

events! {
    /// A checkpoint begins: tablespaces are synced, and then the redo log says from where recovery would begin.
    CheckpointBegun {
        /// Why.
        cause: CheckpointCause,
    } = "checkpoint.begun",
    /// A checkpoint ended.
    CheckpointEnded {
        /// Why it was written.
        cause: CheckpointCause,
        /// From where recovery would begin now; as before, if it failed.
        lsn: u64,
        /// How long it took.
        duration: Duration,
        /// Why it failed, if it did.
        error: Option<Error>,
    } = "checkpoint.ended",
    /// The page cleaner, or a job beside it, wrote pages.
    PagesFlushed {
        /// Why.
        cause: FlushCause,
        /// How many.
        pages: u64,
        /// How long it took.
        duration: Duration,
    } = "pages.flushed",
    /// Three quarters of the redo log are in use: writers may have to wait soon.
    RedoNearlyFull {
        /// Bytes between the checkpoint and the end of the log.
        age: u64,
        /// Bytes that the log holds.
        capacity: u64,
    } = "redo.nearly_full",
    /// The redo log was nearly full, and half of it is free again.
    RedoRelieved {
        /// Bytes between the checkpoint and the end of the log.
        age: u64,
        /// Bytes that the log holds.
        capacity: u64,
    } = "redo.relieved",
    /// A writer waited for room in the redo log.
    WriterWaited {
        /// How long.
        duration: Duration,
    } = "redo.writer_waited",
    /// Transactions waited for one another; the one that closed the circle got the error.
    DeadlockFound {
        /// The numbers of the transactions, each waiting for the next, and the last for the first.
        cycle: Vec<u64>,
    } = "locks.deadlock",
    /// A transaction or a batch waited for the lock of a row for as long as it may.
    LockTimedOut {
        /// Its number.
        owner: u64,
        /// How long it waited.
        duration: Duration,
    } = "locks.timed_out",
    /// A part of recovery begins.
    RecoveryBegun {
        /// Which.
        phase: RecoveryPhase,
    } = "recovery.begun",
    /// A part of recovery ended.
    RecoveryEnded {
        /// Which.
        phase: RecoveryPhase,
        /// How long it took.
        duration: Duration,
        /// How much it did.
        count: u64,
    } = "recovery.ended",
    /// Changes of index entries were merged into their pages.
    ChangesMerged {
        /// Why.
        cause: MergeCause,
        /// Into how many pages.
        pages: u64,
    } = "change_buffer.merged",
    /// The change buffer may not grow any more: until it is shorter pages are read.
    ChangeBufferFull {
        /// Pages that it has.
        pages: u64,
        /// Pages that it may have.
        max_pages: u64,
    } = "change_buffer.full",
    /// More history waits for purge than may: writers are slowed down.
    PurgeLags {
        /// Committed transactions that wait.
        history_len: u64,
        /// How long the write waited that met it first.
        delay: Duration,
    } = "purge.lags",
    /// No more history waits than may.
    PurgeCaughtUp {
        /// Committed transactions that wait.
        history_len: u64,
    } = "purge.caught_up",
    /// Background work failed, and is tried again.
    BackgroundFailed {
        /// The name of the job.
        job: &'static str,
        /// Why.
        error: Error,
    } = "background.failed",
    /// An error after which the engine takes no more writes, until it is opened again.
    BecameReadOnly {
        /// The error.
        error: Error,
    } = "health.read_only",
    /// A tree was created.
    TreeCreated {
        /// Its name.
        name: String,
    } = "tree.created",
    /// A tree was dropped.
    TreeDropped {
        /// Its name.
        name: String,
    } = "tree.dropped",
    /// All rows of a tree were removed at once.
    TreeTruncated {
        /// Its name.
        name: String,
    } = "tree.truncated",
    /// A tree was filled by a bulk load.
    TreeLoaded {
        /// Its name.
        name: String,
        /// How many rows.
        rows: u64,
    } = "tree.loaded",
    /// A table was created, with its indexes.
    TableCreated {
        /// Its name.
        name: String,
    } = "table.created",
    /// A table was dropped, with its indexes.
    TableDropped {
        /// Its name.
        name: String,
    } = "table.dropped",
    /// An index was added to a table.
    IndexAdded {
        /// The table.
        table: String,
        /// The index.
        index: String,
        /// How many rows have an entry.
        entries: u64,
    } = "index.added",
    /// An index of a table was dropped.
    IndexDropped {
        /// The table.
        table: String,
        /// The index.
        index: String,
    } = "index.dropped",
    /// Events came faster than the listeners took them: these were not told.
    EventsLost {
        /// How many.
        count: u64,
    } = "events.lost",
}

/// Is told what the engine does, one event after the other, in the order in which they were noted, by a background job; by [`Db::open`](crate::Db::open) what recovery does; and by who
/// closes the database what is left. No lock of the engine is held: a listener may use the database. A slow one keeps one thread of the executor busy, and loses events
/// when 1,024 wait for it ([`EventsLost`](Event::EventsLost) says how many). One that panics makes the engine read-only, with `Poisoned` as the cause. Events of a database that is dropped
/// without being closed may be left untold.
pub trait EventListener: Send + Sync + fmt::Debug {
    /// Something happened.
    fn on_event(&self, event: &Event);
}
