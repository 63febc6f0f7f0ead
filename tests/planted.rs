//! Known mistakes, made on purpose: the crash and error tests must see each of them.

mod harness;

use harness::crash::{Effort, explore};
use harness::faults::run_with_fault;
use harness::workloads;
use siltstone_base::env::sim::{FaultKind, FaultPlan};
use siltstone_base::plant::{PlantedBug, with_planted};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What looks for a mistake.
#[derive(Debug, Clone, Copy)]
enum Search {
    /// Crash states of scripts of these kinds.
    Crash(&'static [&'static str]),
    /// Failing operations in scripts of these kinds.
    Faults(&'static [&'static str], &'static [FaultKind]),
}

/// Scripts of each kind that are tried.
const SEEDS: u64 = 6;

/// What the first search that sees a mistake says, and its name.
fn hunt(search: Search) -> Option<(String, String)> {
    let caught = |name: String, body: &dyn Fn() -> Result<(), String>| {
        let outcome = catch_unwind(AssertUnwindSafe(body));
        let message = match outcome {
            Ok(Ok(())) => return None,
            Ok(Err(message)) => message,
            Err(_) => "a panic".to_owned(),
        };
        Some((name, message))
    };
    match search {
        Search::Crash(kinds) => {
            let scripts = (1..=SEEDS).flat_map(|seed| kinds.iter().map(move |kind| workloads::script(kind, seed)));
            scripts.into_iter().find_map(|script| {
                let body = || explore(&script, &Effort::default()).map(drop);
                caught(format!("crash.rs, script {}", script.name), &body)
            })
        }
        Search::Faults(kinds, faults) => {
            let scripts = (1..=SEEDS).flat_map(|seed| kinds.iter().map(move |kind| workloads::script(kind, seed)));
            scripts.into_iter().find_map(|script| {
                let body = || {
                    for kind in faults {
                        let mut after = 0;
                        while run_with_fault(&script, FaultPlan::once(*kind, after))?.is_some() {
                            after += 1;
                        }
                    }
                    Ok(())
                };
                caught(format!("io_errors.rs, script {}", script.name), &body)
            })
        }
    }
}

/// Demands that a planted mistake is seen, and says by what.
fn assert_caught(bug: PlantedBug, search: Search) -> String {
    let found = with_planted(bug, || hunt(search));
    match found {
        Some((by, message)) => format!("{bug:?}: caught by {by}: {message}"),
        None => panic!("{bug:?} was not seen by {search:?}"),
    }
}

macro_rules! planted {
    ($($test:ident: $bug:ident, $search:expr;)+) => {
        $(
            #[test]
            fn $test() {
                println!("{}", assert_caught(PlantedBug::$bug, $search));
            }
        )+
    };
}

planted! {
    a_synced_write_without_a_sync: SyncedWriteIsNotSynced, Search::Crash(&["wal"]);
    a_new_wal_without_a_name: NewWalIsNotInDirectory, Search::Crash(&["wal", "reopen"]);
    current_before_its_manifest: CurrentBeforeManifest, Search::Crash(&["manifest"]);
    a_renamed_current_that_is_not_synced: CurrentRenameIsNotSynced, Search::Crash(&["manifest", "families"]);
    a_flushed_table_without_a_sync: FlushedTableIsNotSynced, Search::Crash(&["wal"]);
    families_that_diverge: FlushBeforeWalSync, Search::Crash(&["unsynced"]);
    a_wal_deleted_too_early: WalDeletedTooEarly, Search::Crash(&["unsynced"]);
    a_closed_wal_without_its_tail: ClosedWalTailIsNotSynced, Search::Crash(&["unsynced", "wal"]);
    replay_beyond_a_torn_record: ReplayBeyondTornRecord, Search::Crash(&["unsynced", "wal"]);
    a_manifest_that_goes_on_behind_damage: AppendBehindBrokenManifestRecord,
        Search::Faults(&["manifest", "wal"], &[FaultKind::ShortWrite, FaultKind::Io]);
    a_failed_sync_that_is_believed: FailedSyncIsRetried, Search::Faults(&["wal"], &[FaultKind::SyncFailsVisible]);
    a_compaction_that_swallows_errors: CompactionSwallowsReadError, Search::Faults(&["compaction"], &[FaultKind::Io]);
    a_tombstone_dropped_too_early: TombstoneDroppedTooEarly, Search::Crash(&["deep", "compaction"]);
    a_compaction_that_ignores_snapshots: SnapshotIgnoredByCompaction, Search::Crash(&["compaction", "deep"]);
    inputs_deleted_before_the_install: InputsDeletedBeforeInstall, Search::Crash(&["compaction"]);
    a_file_number_given_twice: FileNumberReused, Search::Crash(&["reopen", "unsynced", "manifest"]);
}
