//! Checkpoints: what they hold, while others write and when the power goes.

use super::*;
use crate::copies::transfer::NewDirectory;
use crate::file_names::FileName;
use crate::{Checkpoint, CheckpointOptions, CompactRangeOptions, ErrorKind, FlushOptions, LiveFileKind};
use siltstone_base::Result;
use siltstone_base::env::sim::{CrashConfig, CrashStates, FaultKind, FaultPlan, OpClass, OpFilter};
use siltstone_base::env::{FileKind, read_file};
use siltstone_base::expiry::{ExpiryHome, ExpiryPolicy, MAX_RECORD_BYTES, Record, Stamp};
use siltstone_base::sync::{Mutex, Rank, Weak};

fn never_flushed() -> CheckpointOptions {
    CheckpointOptions::default().log_size_for_flush(u64::MAX)
}

/// A database with rows 1 to `last`, the first half of them in tables.
fn filled(disk: &SimDisk, last: u64) -> Db {
    let db = Db::open("/db", &simulated(disk)).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    for number in 1..=last {
        write_row(&db, number, &WriteOptions::default());
        if number == last / 2 {
            db.flush(&FlushOptions::default()).unwrap();
        }
    }
    db
}

#[test]
fn a_checkpoint_is_the_database_of_its_moment() {
    for options in [CheckpointOptions::default(), never_flushed(), never_flushed().links(false)] {
        let disk = SimDisk::new();
        let db = filled(&disk, 900);
        let live = db.live_files().unwrap();
        assert!(live.of_kind(LiveFileKind::Table).count() > 0 && live.wal_bytes() > 0);
        assert_eq!(Checkpoint::new(&db).create("/copies/one", &options).unwrap(), 1800);
        let then = rows(&db);
        assert_eq!(then, rows_up_to(900));
        // What is deleted in one directory stays in the other.
        for number in 901..=1500 {
            write_row(&db, number, &WriteOptions::default());
        }
        db.flush(&FlushOptions::default()).unwrap();
        db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
        db.wait_for_background_work().unwrap();
        assert_eq!(rows_in("/copies/one", &simulated(&disk)), then);
        assert_eq!(rows(&db), rows_up_to(1500));
        db.check().unwrap();
    }
}

#[test]
fn a_directory_with_something_in_it_is_left_alone() {
    let disk = SimDisk::new();
    let db = filled(&disk, 10);
    Checkpoint::new(&db).create("/one", &CheckpointOptions::default()).unwrap();
    let error = Checkpoint::new(&db).create("/one", &CheckpointOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(rows_in("/one", &simulated(&disk)), rows_up_to(10));
    let reader = Db::open_read_only("/one", &simulated(&disk), &[]).unwrap();
    let refused = Checkpoint::new(&reader).create("/two", &CheckpointOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    assert!(!disk.env().exists(Path::new("/two")).unwrap());
}

#[test]
fn a_checkpoint_that_fails_leaves_nothing_behind() {
    let plans =
        [(OpClass::Link, FileKind::Table), (OpClass::Sync, FileKind::Wal), (OpClass::Rename, FileKind::Manifest)];
    for (class, kind) in plans {
        let disk = SimDisk::new();
        let db = filled(&disk, 200);
        let filter = OpFilter { class: Some(class), file: Some(kind), ..OpFilter::default() };
        disk.set_fault(FaultPlan::once(FaultKind::Io, 0).filter(filter));
        let error = Checkpoint::new(&db).create("/one", &never_flushed()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert_eq!(disk.fault_hits().len(), 1);
        disk.clear_fault();
        assert!(!disk.env().exists(Path::new("/one")).unwrap());
        Checkpoint::new(&db).create("/one", &never_flushed()).unwrap();
        assert_eq!(rows_in("/one", &simulated(&disk)), rows_up_to(200));
        // Deletions go on.
        db.check().unwrap();
    }
}

#[test]
fn deletions_wait_until_as_many_asked_for_them() {
    let disk = SimDisk::new();
    let db = filled(&disk, 400);
    let tables = |db: &Db| -> Vec<String> {
        db.live_files().unwrap().of_kind(LiveFileKind::Table).map(|file| file.name.clone()).collect()
    };
    let kept = tables(&db);
    db.disable_file_deletions();
    db.disable_file_deletions();
    db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
    db.enable_file_deletions();
    let is_there = |name: &String| disk.env().exists(&Path::new("/db").join(name)).unwrap();
    assert!(kept.iter().all(is_there));
    db.enable_file_deletions();
    assert!(!kept.iter().all(is_there));
    assert!(tables(&db).iter().all(is_there));
}

#[test]
fn checkpoints_beside_a_writer_are_prefixes() {
    let dir = tempfile::tempdir().unwrap();
    let options = small(DbOptions::default());
    let db = Db::open(dir.path().join("db"), &options).unwrap();
    beside_a_writer(&db, || {
        let mut taken = 0;
        for number in 0..4 {
            wait_for(&db, taken + 600);
            let options = if number % 2 == 0 { never_flushed() } else { CheckpointOptions::default() };
            taken = Checkpoint::new(&db).create(dir.path().join(format!("{number}")), &options).unwrap();
            assert_eq!(taken % 2, 0, "a batch is in it or not");
            let found = rows_in(dir.path().join(format!("{number}")), &small(DbOptions::default()));
            assert!(found == rows_up_to(taken / 2), "checkpoint {number} is not what there was at {taken}");
        }
    });
    db.close().unwrap();
}

#[test]
fn every_crash_state_has_a_whole_checkpoint_or_none() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/")).unwrap();
    let sync = WriteOptions::default().sync(true);
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    (1..=20).for_each(|number| write_row(&db, number, &sync));
    db.flush(&FlushOptions::default()).unwrap();
    (21..=30).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    disk.start_recording();
    let mut done = Vec::new();
    for (name, options, last) in [("/copies/a", never_flushed(), 30), ("/copies/b", CheckpointOptions::default(), 35)] {
        Checkpoint::new(&db).create(name, &options).unwrap();
        done.push((name, disk.recorded(), last));
        (last + 1..=last + 5).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    }
    let recording = disk.take_recording();
    let config = CrashConfig { states_per_cut: 24, random_subsets: 8, ..CrashConfig::default() };
    let (mut states, mut whole) = (0, 0);
    for state in CrashStates::new(&recording, config) {
        let Some(after) = state.disk() else { continue };
        states += 1;
        let what = format!("cut {} ({:?}), {:?}", state.cut, state.op, state.model);
        for (name, recorded, last) in &done {
            match Db::open(name, &simulated(&after).create_if_missing(false)) {
                Ok(db) => {
                    assert!(rows(&db) == rows_up_to(*last), "{what}: {name} is not what there was");
                    db.check().unwrap();
                    whole += 1;
                }
                Err(error) => {
                    assert!(state.cut < *recorded, "{what}: {name}, which was there: {error}");
                    assert_eq!(error.kind(), ErrorKind::MissingFile, "{what}: {error}");
                }
            }
        }
        let db = Db::open("/db", &simulated(&after)).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = rows(&db);
        assert!((20..=40).any(|last| found == rows_up_to(last)), "{what}: the database is no prefix");
    }
    assert!(states > 100 && whole > 20, "{states} states, {whole} checkpoints");
}

#[test]
fn two_checkpoints_into_one_directory_do_not_spoil_each_other() {
    let disk = SimDisk::new();
    let db = filled(&disk, 100);
    disk.env().create_dir_all(Path::new("/one")).unwrap();
    // Another one has just begun.
    let lock = disk.env().lock_file(Path::new("/one/LOCK")).unwrap();
    let error = Checkpoint::new(&db).create("/one", &CheckpointOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(disk.env().exists(Path::new("/one/LOCK")).unwrap(), "nothing of the other one is removed");
    drop(lock);
    Checkpoint::new(&db).create("/one", &CheckpointOptions::default()).unwrap();
    assert!(disk.env().exists(Path::new("/one/LOCK")).unwrap(), "somebody may be about to lock it");
    assert_eq!(rows_in("/one", &simulated(&disk)), rows_up_to(100));
}

/// Lets no row expire, and saves what it is told to.
#[derive(Debug)]
struct Saves(Mutex<Option<Weak<dyn ExpiryHome>>>);

impl Saves {
    fn save(&self, state: &str) {
        let home = self.0.lock().as_ref().and_then(Weak::upgrade).unwrap();
        home.save(state.as_bytes()).unwrap();
    }
}

impl ExpiryPolicy for Saves {
    fn name(&self) -> &str {
        "saves"
    }

    fn stamp(&self, _: &[u8], _: &[u8]) -> Option<Stamp> {
        None
    }

    fn bound(&self, _: u32, _: u64) -> Option<u64> {
        None
    }

    fn expires_at(&self, _: Stamp) -> Option<u64> {
        None
    }

    fn attach(&self, home: Weak<dyn ExpiryHome>, _: &[u8]) -> Result<()> {
        *self.0.lock() = Some(home);
        Ok(())
    }

    fn view(self: Arc<Self>, _: &[u8]) -> Result<Arc<dyn ExpiryPolicy>> {
        Ok(self)
    }
}

/// The file may be the next opening's by then, and what that one saved would be gone.
#[test]
fn what_is_saved_after_closing_takes_the_place_of_nothing_in_the_next_opening() {
    let disk = SimDisk::new();
    let open = || {
        let policy = Arc::new(Saves(Mutex::new(Rank(1), None)));
        let family = ColumnFamilyOptions::default().expiry(Some(policy.clone()));
        (Db::open_families("/db", &simulated(&disk), &[("default", family)]).unwrap(), policy)
    };
    let env = disk.env();
    let saved = || read_file(&*env, Path::new("/db/EXPIRY"), FileKind::Other, MAX_RECORD_BYTES).unwrap();
    let (db, before) = open();
    before.save("old");
    let home = before.0.lock().as_ref().and_then(Weak::upgrade).unwrap();
    db.close().unwrap();
    let (db, policy) = open();
    policy.save("new");
    let then = saved();
    assert_eq!(home.save(b"late").unwrap_err().kind(), ErrorKind::Aborted);
    assert_eq!(saved(), then);
    db.close().unwrap();
}

/// Rows that lived at the checkpoint's moment would be hidden in it by a duration that came later.
#[test]
fn a_checkpoint_has_the_durations_of_its_moment() {
    let disk = SimDisk::new();
    let policy = Arc::new(Saves(Mutex::new(Rank(1), None)));
    let family = ColumnFamilyOptions::default().expiry(Some(policy.clone()));
    let db = Db::open_families("/db", &simulated(&disk), &[("default", family)]).unwrap();
    let env = disk.env();
    for (copy, before, after) in [("/none", None, "long"), ("/long", Some("long"), "short")] {
        db.put("row", "value").unwrap();
        db.flush(&FlushOptions::default()).unwrap();
        let live = db.live_files().unwrap();
        policy.save(after);
        let mut target = NewDirectory::create(&*env, Path::new(copy)).unwrap();
        for file in &live.files {
            target.bring(db.dir(), &live, file, true).unwrap();
        }
        target.finish(&live.current).unwrap();
        let bytes =
            read_file(&*env, &FileName::Expiry.path(Path::new(copy)), FileKind::Other, MAX_RECORD_BYTES).unwrap();
        assert!(live.of_kind(LiveFileKind::Expiry).all(|file| file.size == bytes.len() as u64));
        let record = Record::decode(&bytes).unwrap();
        assert_eq!(record.states.get(&0).map(|saved| saved.state.as_slice()), before.map(str::as_bytes));
        assert_eq!(rows_in(copy, &simulated(&disk))["default"].len(), 1);
    }
}
