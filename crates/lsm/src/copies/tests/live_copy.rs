//! Copies of a late moment: what they hold, beside a writer too.

use super::*;
use crate::{Checkpoint, CompactRangeOptions, ErrorKind, FlushOptions, LiveCopyOptions};
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{CrashConfig, CrashStates, FaultKind, FaultPlan, OpClass, OpFilter};

#[test]
fn a_live_copy_is_the_database_and_shares_nothing_with_it() {
    for flush_at in [0, u64::MAX] {
        let disk = SimDisk::new();
        let db = Db::open("/db", &simulated(&disk)).unwrap();
        db.create_family(OTHER, &db.default_family().options()).unwrap();
        (1..=600).for_each(|number| write_row(&db, number, &WriteOptions::default()));
        let options = LiveCopyOptions::default().log_size_for_flush(flush_at).last_round_bytes(0);
        let info = Checkpoint::new(&db).copy_live("/copy", &options).unwrap();
        assert_eq!(info.seqno, 1200);
        assert!(info.rounds >= 2 && info.bytes > 0, "{info:?}");
        assert!(rows_in("/copy", &simulated(&disk)) == rows_up_to(600));
        (601..=900).for_each(|number| write_row(&db, number, &WriteOptions::default()));
        db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
        assert!(rows_in("/copy", &simulated(&disk)) == rows_up_to(600));
        let error = Checkpoint::new(&db).copy_live("/copy", &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    }
}

#[test]
fn live_copies_beside_a_writer_are_prefixes_of_a_late_moment() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), &small(DbOptions::default())).unwrap();
    beside_a_writer(&db, || {
        for (number, rounds) in [(0, 1), (1, 3), (2, 20)] {
            let begun = db.latest_seqno() + 400;
            wait_for(&db, begun);
            let options = LiveCopyOptions::default().last_round_bytes(8 << 10).max_rounds(rounds);
            let copy = dir.path().join(format!("{number}"));
            let info = Checkpoint::new(&db).copy_live(&copy, &options).unwrap();
            assert!(info.seqno >= begun && info.rounds <= rounds, "{info:?} after {begun}");
            assert_eq!(info.seqno % 2, 0, "a batch is in it or not");
            assert!(rows_in(&copy, &small(DbOptions::default())) == rows_up_to(info.seqno / 2), "copy {number}");
        }
    });
    db.close().unwrap();
}

/// How a replica is made: copied beside the writer, then kept up by what was written since.
#[test]
fn a_live_copy_that_follows_the_updates_since_becomes_the_source() {
    let dir = tempfile::tempdir().unwrap();
    let options = small(DbOptions::default());
    let db = Db::open(dir.path().join("db"), &options).unwrap();
    let path = dir.path().join("copy");
    let mut followed = None;
    beside_a_writer(&db, || {
        wait_for(&db, 400);
        // A reader keeps the WALs that it has not read; so it begins before the copy. The last one must not go while it begins.
        db.disable_file_deletions();
        let mut updates = db.updates_since(db.latest_seqno()).unwrap();
        db.enable_file_deletions();
        let info = Checkpoint::new(&db).copy_live(&path, &LiveCopyOptions::default()).unwrap();
        let copy = Db::open(&path, &options.clone().create_if_missing(false)).unwrap();
        assert_eq!(copy.latest_seqno(), info.seqno);
        let end = db.latest_seqno() + 2000;
        while copy.latest_seqno() < end {
            follow(&mut updates, &copy, end);
            std::thread::yield_now();
        }
        followed = Some((updates, copy, info.seqno));
    });
    let (mut updates, copy, copied) = followed.unwrap();
    // The writer has stopped.
    let last = db.latest_seqno();
    follow(&mut updates, &copy, last);
    assert!(last >= copied + 2000, "{last} after {copied}");
    assert_eq!(copy.latest_seqno(), last);
    assert!(rows(&copy) == rows_up_to(last / 2));
    assert!(rows(&db) == rows(&copy));
    copy.check().unwrap();
    copy.close().unwrap();
    assert!(rows_in(&path, &options) == rows_up_to(last / 2));
    drop(updates);
    db.close().unwrap();
}

/// Writes to `copy` what it does not have yet of `updates`, under the same sequence numbers, up to `end` if that is there.
fn follow(updates: &mut crate::Updates, copy: &Db, end: u64) {
    while copy.latest_seqno() < end {
        let Some(mut update) = updates.next_batch().unwrap() else { return };
        let next = copy.latest_seqno() + 1;
        if update.seqno < next {
            assert!(update.seqno + u64::from(update.batch.count()) <= next, "a batch is in the copy or not");
            continue;
        }
        assert_eq!(update.seqno, next, "nothing between the copy and what follows");
        copy.write(&mut update.batch, &WriteOptions::default()).unwrap();
    }
}

#[test]
fn a_live_copy_that_fails_leaves_nothing_behind() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    (1..=100).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    db.flush(&FlushOptions::default()).unwrap();
    let filter = OpFilter { class: Some(OpClass::Sync), file: Some(FileKind::Manifest), ..OpFilter::default() };
    disk.set_fault(FaultPlan::once(FaultKind::Io, 0).filter(filter));
    Checkpoint::new(&db).copy_live("/copy", &LiveCopyOptions::default()).unwrap_err();
    assert_eq!(disk.fault_hits().len(), 1);
    disk.clear_fault();
    assert!(!disk.env().exists(Path::new("/copy")).unwrap());
    Checkpoint::new(&db).copy_live("/copy", &LiveCopyOptions::default()).unwrap();
    assert!(rows_in("/copy", &simulated(&disk)) == rows_up_to(100));
}

#[test]
fn every_crash_state_has_a_whole_live_copy_or_none() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/")).unwrap();
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    (1..=20).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    db.flush(&FlushOptions::default()).unwrap();
    (21..=30).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    disk.start_recording();
    Checkpoint::new(&db).copy_live("/copies/a", &LiveCopyOptions::default().last_round_bytes(0)).unwrap();
    let recorded = disk.recorded();
    (31..=35).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    let recording = disk.take_recording();
    let config = CrashConfig { states_per_cut: 16, random_subsets: 4, ..CrashConfig::default() };
    let (mut states, mut whole) = (0, 0);
    for state in CrashStates::new(&recording, config) {
        let Some(after) = state.disk() else { continue };
        states += 1;
        let what = format!("cut {} ({:?}), {:?}", state.cut, state.op, state.model);
        match Db::open("/copies/a", &simulated(&after).create_if_missing(false)) {
            Ok(copy) => {
                assert!(rows(&copy) == rows_up_to(30), "{what}");
                whole += 1;
            }
            Err(error) => {
                assert!(state.cut < recorded, "{what}: {error}");
                assert_eq!(error.kind(), ErrorKind::MissingFile, "{what}: {error}");
            }
        }
    }
    assert!(states > 50 && whole > 5, "{states} states, {whole} copies");
}

#[test]
fn a_live_copy_has_what_was_written_without_the_wal() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    (1..=50).for_each(|number| write_row(&db, number, &WriteOptions::default().disable_wal(true)));
    (51..=60).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    let info = Checkpoint::new(&db).copy_live("/copy", &LiveCopyOptions::default()).unwrap();
    assert_eq!(info.seqno, 120);
    assert!(rows_in("/copy", &simulated(&disk)) == rows_up_to(60));
}
