//! Planted bugs: known mistakes that a test build can make on purpose, to prove that the tests would see them.
//!
//! In a build without the feature `testing`, [`is_planted`] is a constant `false` and nothing of this remains.

/// A mistake that can be made on purpose. Each names what a user would lose by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PlantedBug {
    /// A synced write does not sync the WAL.
    SyncedWriteIsNotSynced,
    /// The directory is not synced after a WAL was created.
    NewWalIsNotInDirectory,
    /// CURRENT is renamed before the MANIFEST that it names is synced.
    CurrentBeforeManifest,
    /// The directory is not synced after CURRENT was renamed.
    CurrentRenameIsNotSynced,
    /// A flush installs its table without syncing it.
    FlushedTableIsNotSynced,
    /// A flush of one family does not sync the WAL first, so that families diverge after a power loss.
    FlushBeforeWalSync,
    /// A WAL is deleted while another family still needs it.
    WalDeletedTooEarly,
    /// A closed WAL's tail is not synced although later synced writes rely on it.
    ClosedWalTailIsNotSynced,
    /// Recovery replays a WAL beyond a torn record.
    ReplayBeyondTornRecord,
    /// After a failed append to the MANIFEST, the next edit is appended behind the broken record.
    AppendBehindBrokenManifestRecord,
    /// A failed sync of the WAL is tried again and then believed.
    FailedSyncIsRetried,
    /// A compaction ignores a read error and drops the rest of that input.
    CompactionSwallowsReadError,
    /// A compaction drops a tombstone although older data lies beneath.
    TombstoneDroppedTooEarly,
    /// A compaction drops a version that a live snapshot sees.
    SnapshotIgnoredByCompaction,
    /// Inputs of a compaction are deleted before its edit is durable.
    InputsDeletedBeforeInstall,
    /// Recovery gives a file number again that the old MANIFEST may still name.
    FileNumberReused,
    /// The B-tree's redo log takes what was written for durable.
    RedoIsNotSynced,
    /// Recovery of the B-tree applies a group of which the end is missing.
    OpenGroupIsApplied,
    /// A page is written before the redo log that covers it is durable.
    PageBeforeRedo,
    /// The end of a record in the redo log is taken for the end of its group.
    RecordTakenForGroup,
    /// A write counts as one that needs a sync before it is over.
    WriteNotedTooEarly,
    /// Recovery puts a copy of a page back that is older than the checkpoint.
    OldCopyIsPutBack,
    /// Recovery takes records that an earlier life of the database left for those of the last one.
    OlderLifeIsRead,
    /// A checkpoint forgets a page that is dirty.
    FlushListHole,
    /// A checkpoint is written before the pages that it relies on are synced.
    CheckpointBeforeSync,
    /// Pages go to their places before the doublewrite file is synced.
    DoublewriteIsNotSynced,
    /// The doublewrite file begins at its front again before the pages are durable whose copies it had.
    DoublewriteReusedTooEarly,
    /// A page is written that a group changed which is not closed.
    OpenGroupIsWritten,
    /// Recovery does not look into the doublewrite file.
    DoublewriteIsIgnored,
    /// Recovery looks into the first doublewrite file alone.
    OneDoublewriteIsRead,
    /// A split does not tell the page behind that its neighbour changed.
    SplitForgetsLeftLink,
    /// Pages that a merge emptied stay reachable from the page before.
    MergeForgetsRightLink,
    /// A tablespace is deleted before its drop is durable.
    SpaceDeletedTooEarly,
    /// A tree that was loaded is named by the catalog before its pages are durable.
    LoadIsNotSynced,
    /// Purge removes an older version of a row that a live view needs.
    PurgeIgnoresViews,
    /// The rollback of an unfinished transaction ends after its last change.
    RollbackStopsHalfway,
    /// Transactions that recovery found hold no locks.
    RecoveredLocksAreLost,
    /// A prepared transaction is rolled back at recovery.
    PreparedIsLost,
    /// A table of expired rows goes although older rows lie beneath it.
    ExpiredOverOlder,
    /// A read passes by a block of expired rows although older rows lie beneath it.
    ExpiredBlockOverOlder,
    /// Entries of secondary indexes stay as a transaction left them that is rolled back.
    EntryIsNotRolledBack,
    /// Two rows may have the same key of a unique index.
    UniqueIsNotChecked,
    /// A transaction changes a row that changed since it began.
    ConflictIsNotChecked,
    /// What is written while an optimistic transaction waits for its turn to commit is no conflict.
    ConflictIsCheckedOnce,
    /// The WAL that prepared a transaction is not kept until what was committed of it is in tables.
    PreparedLogIsForgotten,
    /// A leaf is given back while the change buffer has entries for it.
    FreedLeafKeepsEntries,
    /// A leaf gets what the change buffer has for it, and the bitmap still says that something waits.
    MergeForgetsBitmap,
    /// A cursor that steps to a leaf does not look whether entries wait for it.
    WaitingEntriesAreSkipped,
    /// The change buffer keeps more for a leaf than it has room for.
    RoomIsOverstated,
}

#[cfg(any(test, feature = "testing"))]
mod enabled {
    use super::PlantedBug;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<PlantedBug>> = const { Cell::new(None) };
    }

    /// Runs `body` on this thread with `bug` planted.
    pub fn with_planted<T>(bug: PlantedBug, body: impl FnOnce() -> T) -> T {
        struct Restore(Option<PlantedBug>);
        impl Drop for Restore {
            fn drop(&mut self) {
                PLANTED.set(self.0);
            }
        }
        let _restore = Restore(PLANTED.replace(Some(bug)));
        body()
    }

    /// Whether `bug` is planted on this thread.
    pub fn is_planted(bug: PlantedBug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// What is planted on this thread, to plant it on another.
    pub fn planted() -> Option<PlantedBug> {
        PLANTED.get()
    }
}

#[cfg(any(test, feature = "testing"))]
pub use enabled::{is_planted, planted, with_planted};

/// Whether `bug` is planted on this thread: never, in this build.
#[cfg(not(any(test, feature = "testing")))]
#[inline(always)]
pub const fn is_planted(_: PlantedBug) -> bool {
    false
}
