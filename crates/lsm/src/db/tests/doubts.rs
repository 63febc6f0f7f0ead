//! What an operation that failed may have left behind: nobody may see it later beneath what was acknowledged since.

use super::basics::options;
use crate::db::DbInner;
use crate::event::{CompactionInfo, EventListener};
use crate::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Counter, Db, DbOptions, ErrorKind, FlushOptions,
    IngestExternalFileOptions, ReadOptions, SstFileWriter, WriteOptions,
};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter, SimDisk};
use siltstone_base::executor::StepExecutor;
use siltstone_base::sync::{Arc, Mutex, Rank, Weak};
use std::path::Path;
use std::sync::OnceLock;

fn synced() -> WriteOptions {
    WriteOptions::default().sync(true)
}

fn open(disk: &SimDisk) -> (Db, ColumnFamily) {
    let named = [("other", ColumnFamilyOptions::default())];
    let db = Db::open_families("/db", &options(disk).create_missing_column_families(true), &named).unwrap();
    let other = db.family("other").unwrap();
    (db, other)
}

fn get(db: &Db, family: &ColumnFamily, key: &str) -> Option<String> {
    let value = db.get_cf(family, key, &ReadOptions::default()).unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn fail(disk: &SimDisk, kind: FaultKind, class: OpClass, file: Option<FileKind>, times: u64) {
    let filter = OpFilter { class: Some(class), file, ..OpFilter::default() };
    disk.set_fault(FaultPlan::once(kind, 0).times(times).filter(filter));
}

fn names(disk: &SimDisk) -> Vec<String> {
    let mut names: Vec<_> =
        disk.env().list_dir(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}

/// The record that drops it may be in the MANIFEST though its sync failed: rows that are synced afterwards went with it.
#[test]
fn a_family_whose_drop_failed_keeps_what_is_written_to_it_afterwards() {
    for kind in [FaultKind::Io, FaultKind::SyncFailsVisible] {
        let disk = SimDisk::new();
        let (db, other) = open(&disk);
        db.put_cf(&other, "before", "1", &synced()).unwrap();
        fail(&disk, kind, OpClass::Sync, Some(FileKind::Manifest), 1);
        assert_eq!(db.drop_family(&other).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(disk.fault_hits().len(), 1);
        db.put_cf(&other, "after", "2", &synced()).unwrap();
        let survivors = [disk.after_process_death(), disk.after_power_loss()];
        db.close().unwrap();
        for disk in survivors.iter().chain([&disk]) {
            let (db, other) = open(disk);
            assert_eq!(get(&db, &other, "before").as_deref(), Some("1"));
            assert_eq!(get(&db, &other, "after").as_deref(), Some("2"));
            db.check().unwrap();
            db.close().unwrap();
        }
    }
}

#[test]
fn nothing_is_acknowledged_while_nobody_knows_whether_a_family_is_there() {
    let disk = SimDisk::new();
    let (db, other) = open(&disk);
    db.put_cf(&other, "before", "1", &synced()).unwrap();
    fail(&disk, FaultKind::Io, OpClass::Sync, Some(FileKind::Manifest), u64::MAX);
    assert_eq!(db.drop_family(&other).unwrap_err().kind(), ErrorKind::Io);
    disk.clear_fault();
    assert_eq!(db.put_cf(&other, "after", "2", &synced()).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert!(db.background_error().is_some());
    assert_eq!(get(&db, &other, "before").as_deref(), Some("1"));
}

/// On a full device the MANIFEST of another edit may be broken, and a new one cannot be made: that says nothing of a family that is dropped, which may be tried again.
#[test]
fn a_drop_that_never_reached_the_manifest_leaves_the_engine_as_it_was() {
    let disk = SimDisk::new();
    let (db, other) = open(&disk);
    db.put("a", "1").unwrap();
    fail(&disk, FaultKind::NoSpace, OpClass::Write, Some(FileKind::Manifest), 1);
    assert!(db.create_family("third", &ColumnFamilyOptions::default()).is_err());
    fail(&disk, FaultKind::NoSpace, OpClass::Create, Some(FileKind::Manifest), u64::MAX);
    assert_eq!(db.drop_family(&other).unwrap_err().kind(), ErrorKind::NoSpace);
    disk.clear_fault();
    db.put_cf(&other, "b", "2", &synced()).unwrap();
    assert_eq!(get(&db, &other, "b").as_deref(), Some("2"));
    db.drop_family(&other).unwrap();
    db.close().unwrap();
}

fn table(disk: &SimDisk, name: &str) -> String {
    disk.make_durable_dir(Path::new("/in")).unwrap();
    let path = format!("/in/{name}.sst");
    let mut writer = SstFileWriter::create(&path, &options(disk), &ColumnFamilyOptions::default()).unwrap();
    for key in ["row1", "row2"] {
        writer.put(key, "brought").unwrap();
    }
    writer.finish().unwrap();
    path
}

/// Readers saw the rows that were there in between.
#[test]
fn an_ingest_that_failed_does_not_show_its_rows_after_the_next_opening() {
    for kind in [FaultKind::Io, FaultKind::SyncFailsVisible] {
        let disk = SimDisk::new();
        let (db, _) = open(&disk);
        db.put("row1", "written").unwrap();
        let path = table(&disk, "a");
        db.flush(&FlushOptions::default()).unwrap();
        fail(&disk, kind, OpClass::Sync, Some(FileKind::Manifest), 1);
        let ingested = db.ingest_external_files(&db.default_family(), &[&path], &IngestExternalFileOptions::default());
        assert_eq!((ingested.unwrap_err().kind(), disk.fault_hits().len()), (ErrorKind::Io, 1));
        assert_eq!(get(&db, &db.default_family(), "row1").as_deref(), Some("written"));
        let killed = disk.after_process_death();
        db.close().unwrap();
        for disk in [killed, disk] {
            let (db, _) = open(&disk);
            assert_eq!(get(&db, &db.default_family(), "row1").as_deref(), Some("written"));
            assert_eq!(get(&db, &db.default_family(), "row2"), None);
            db.check().unwrap();
        }
    }
}

/// The WAL of which nothing was ever acknowledged is removed, and the next one would name it as its predecessor: a write that is synced there was lost, or nothing opened any more.
#[test]
fn a_wal_that_may_or_may_not_be_there_takes_no_acknowledged_write_along() {
    let disk = SimDisk::new();
    let (db, _) = open(&disk);
    fail(&disk, FaultKind::NoSpace, OpClass::Write, Some(FileKind::Wal), 1);
    assert_eq!(db.put("refused", "1").unwrap_err().kind(), ErrorKind::NoSpace);
    fail(&disk, FaultKind::Io, OpClass::SyncDir, None, 1);
    let mut acknowledged = Vec::new();
    for key in ["a", "b"] {
        if db.put_cf(&db.default_family(), key, "1", &synced()).is_ok() {
            acknowledged.push(key);
        }
    }
    assert_eq!(disk.fault_hits().len(), 1);
    for disk in [disk.after_process_death(), disk.after_power_loss()] {
        let (db, _) = open(&disk);
        for key in &acknowledged {
            assert_eq!(get(&db, &db.default_family(), key).as_deref(), Some("1"));
        }
        assert_eq!(get(&db, &db.default_family(), "refused"), None);
    }
}

/// Half of a record is at the end of a WAL that one family still needs. Nothing is missing, though the tables of the other are ahead of it.
#[test]
fn what_a_failed_write_left_is_not_taken_for_damage_after_the_flush_of_another_family() {
    for fault in [FaultKind::ShortWrite, FaultKind::ShortWriteNoSpace] {
        let disk = SimDisk::new();
        let (db, other) = open(&disk);
        db.put_cf(&db.default_family(), "a", "1", &synced()).unwrap();
        db.put_cf(&other, "b", "2", &synced()).unwrap();
        fail(&disk, fault, OpClass::Write, Some(FileKind::Wal), 1);
        assert!(db.put("refused", "x".repeat(100)).is_err());
        assert_eq!(disk.fault_hits().len(), 1);
        db.flush_families(&[&other], &FlushOptions::default()).unwrap();
        let survivors = [disk.after_process_death(), disk.after_power_loss()];
        db.close().unwrap();
        for disk in survivors.iter().chain([&disk]) {
            let (db, other) = open(disk);
            assert_eq!(get(&db, &db.default_family(), "a").as_deref(), Some("1"));
            assert_eq!(get(&db, &other, "b").as_deref(), Some("2"));
            assert_eq!(get(&db, &db.default_family(), "refused"), None);
            db.compact_range(&other, None, None, &CompactRangeOptions::default()).unwrap();
            db.close().unwrap();
        }
    }
}

/// The next opening gives out the same names: a table that was brought under one of them took the place of one of its own, or went with it.
#[test]
fn closing_waits_for_tables_that_are_being_brought() {
    let disk = SimDisk::new();
    let path = table(&disk, "a");
    let with_threads = DbOptions::default().create_if_missing(true).env(Some(disk.env()));
    let db = Db::open("/db", &with_threads).unwrap();
    db.put("a", "1").unwrap();
    db.flush(&FlushOptions::default()).unwrap();
    // A flush is over for who waits for it before its job has deleted the WAL.
    db.wait_for_background_work().unwrap();
    let tables = || names(&disk).iter().filter(|name| name.ends_with(".sst")).count();
    let before = tables();
    let inner = &db.handle.inner;
    let leader = inner.lock_write_side();
    std::thread::scope(|scope| {
        let ingesting = scope.spawn(|| {
            let family = db.default_family();
            db.ingest_external_files(&family, &[&path], &IngestExternalFileOptions::default())
        });
        while tables() == before {
            std::thread::yield_now();
        }
        let closing = scope.spawn(|| inner.close());
        while !inner.is_closing() {
            std::thread::yield_now();
        }
        assert_eq!(inner.state.lock().making_files, 1);
        drop(leader);
        assert_eq!(ingesting.join().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
        closing.join().unwrap().unwrap();
    });
    let db = Db::open("/db", &with_threads).unwrap();
    assert_eq!(get(&db, &db.default_family(), "a").as_deref(), Some("1"));
    assert_eq!(get(&db, &db.default_family(), "row1"), None);
    db.close().unwrap();
}

/// Numbers of tables that could not be brought are given out again by the next opening: what the first one still had to delete under them were tables with acknowledged rows.
#[test]
fn what_may_be_deleted_again_after_closing_are_no_tables_of_the_next_opening() {
    let disk = SimDisk::new();
    let paths = [table(&disk, "a"), table(&disk, "b"), table(&disk, "c")];
    let db = Db::open("/db", &options(&disk)).unwrap();
    db.put_cf(&db.default_family(), "a", "1", &synced()).unwrap();
    let before = db.clone();
    before.disable_file_deletions();
    let links = IngestExternalFileOptions::default().link_files(true).failed_move_fall_back_to_copy(false);
    for path in &paths {
        fail(&disk, FaultKind::Io, OpClass::Link, None, 1);
        assert!(db.ingest_external_files(&db.default_family(), &[path], &links).is_err());
        assert_eq!(disk.fault_hits().len(), 1);
    }
    disk.clear_fault();
    db.close().unwrap();
    let db = Db::open("/db", &options(&disk)).unwrap();
    let there = names(&disk);
    assert!(there.iter().any(|name| name.ends_with(".sst")));
    before.enable_file_deletions();
    assert_eq!(names(&disk), there);
    assert_eq!(before.live_files().unwrap_err().kind(), ErrorKind::Aborted);
    let in_range = before.delete_files_in_range(&before.default_family(), b"", b"z");
    assert_eq!(in_range.unwrap_err().kind(), ErrorKind::Aborted);
    drop(db);
    let db = Db::open("/db", &options(&disk.after_power_loss())).unwrap();
    assert_eq!(get(&db, &db.default_family(), "a").as_deref(), Some("1"));
}

/// Tables of one key in level 0, more than it should have.
fn flush_six(db: &Db, family: &ColumnFamily) {
    for value in ["1", "2", "3", "4", "5", "6"] {
        db.put_cf(family, "key", value, &WriteOptions::default()).unwrap();
        db.flush_families(&[family], &FlushOptions::default()).unwrap();
    }
}

/// Looks, as each compaction begins, whether an error is kept for writers who have no room.
#[derive(Debug)]
struct Begins {
    inner: OnceLock<Weak<DbInner>>,
    kept: Mutex<Vec<bool>>,
}

impl EventListener for Begins {
    fn compaction_begin(&self, _: &CompactionInfo) {
        let inner = self.inner.get().and_then(Weak::upgrade).unwrap();
        let is_kept = inner.errors.has_passing();
        self.kept.lock().push(is_kept);
    }
}

#[test]
fn what_a_compaction_once_met_fails_no_write_that_waits_for_the_next_one() {
    let disk = SimDisk::new();
    let begins = Arc::new(Begins { inner: OnceLock::new(), kept: Mutex::new(Rank(60_000), Vec::new()) });
    let listener: Arc<dyn EventListener> = Arc::<Begins>::clone(&begins);
    let family = ColumnFamilyOptions::default().disable_auto_compactions(true);
    let db = Db::open("/db", &options(&disk).listeners(vec![listener]).unnamed_families(family)).unwrap();
    begins.inner.set(Arc::downgrade(&db.handle.inner)).unwrap();
    flush_six(&db, &db.default_family());
    fail(&disk, FaultKind::NoSpace, OpClass::Create, Some(FileKind::Table), 1);
    db.set_options(&db.default_family(), &[("disable_auto_compactions", "false")]).unwrap();
    for _ in 0..2 {
        // Who waits is told what a compaction meets.
        let _ = db.wait_for_background_work();
    }
    assert_eq!(disk.fault_hits().len(), 1);
    let kept = begins.kept.lock().clone();
    assert!(kept.len() > 1 && !kept.contains(&true), "{kept:?}");
    db.close().unwrap();
}

#[test]
fn a_write_without_a_wal_that_is_to_be_durable_is_refused() {
    let disk = SimDisk::new();
    let (db, _) = open(&disk);
    let both = WriteOptions::default().sync(true).disable_wal(true);
    assert_eq!(db.put_cf(&db.default_family(), "a", "1", &both).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(get(&db, &db.default_family(), "a"), None);
}

/// Its error is told to who asked. Writers who find no room wait for the flush that is under way.
#[test]
fn a_compaction_that_was_asked_for_and_failed_fails_no_write() {
    let disk = SimDisk::new();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let family = ColumnFamilyOptions::default().disable_auto_compactions(true).max_write_buffer_number(2);
    let options = options(&disk).executor(Some(executor)).unnamed_families(family.write_buffer_size(64 << 10));
    let db = Db::open("/db", &options).unwrap();
    for value in ["1", "2"] {
        db.put("key", value).unwrap();
        db.flush(&FlushOptions::default()).unwrap();
    }
    for _ in 0..4 {
        fail(&disk, FaultKind::Io, OpClass::Create, Some(FileKind::Table), 1);
        let asked = db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default());
        assert_eq!(asked.unwrap_err().kind(), ErrorKind::Io);
    }
    for number in 0..100_u64 {
        db.put(number.to_be_bytes(), [0; 4_000]).unwrap();
    }
    assert!(db.metrics().counters().get(Counter::StalledWrites) > 0, "nobody had to wait");
    db.check().unwrap();
    db.close().unwrap();
}

/// Nobody tries again what it met: it was told to writers who had no room for good, and no WAL was made ahead any more.
#[test]
fn what_a_compaction_met_fails_no_write_once_its_family_is_gone_or_compacts_by_itself_no_more() {
    for is_dropped in [true, false] {
        let disk = SimDisk::new();
        let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
        let db = Db::open("/db", &options(&disk).executor(Some(executor.clone()))).unwrap();
        let family = ColumnFamilyOptions::default().disable_auto_compactions(true);
        let other = db.create_family("other", &family).unwrap();
        flush_six(&db, &other);
        fail(&disk, FaultKind::NoSpace, OpClass::Create, Some(FileKind::Table), 1);
        db.set_options(&other, &[("disable_auto_compactions", "false")]).unwrap();
        let errors = &db.handle.inner.errors;
        while !errors.has_passing() {
            assert!(executor.step(), "no compaction met the fault");
        }
        match is_dropped {
            true => db.drop_family(&other).unwrap(),
            false => db.set_options(&other, &[("disable_auto_compactions", "true")]).unwrap(),
        }
        assert!(!errors.has_passing());
        db.put("key", "1").unwrap();
        db.close().unwrap();
    }
}
