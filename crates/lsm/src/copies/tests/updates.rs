//! Updates: every batch once, in order, as it was written.

use super::*;
use crate::{ColumnFamilyId, ErrorKind, FlushOptions, IngestExternalFileOptions, SstFileWriter, ValueType};
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter};
use siltstone_base::env::{Env, FileKind, PosixEnv};

type Found = Vec<(u64, Vec<(ColumnFamilyId, ValueType, Vec<u8>, Vec<u8>)>)>;

fn drain(updates: &mut crate::Updates) -> Found {
    let mut found = Found::new();
    while let Some(update) = updates.next_batch().unwrap() {
        let entries = update.batch.iter();
        let entries = entries.map(|entry| (entry.column_family, entry.kind, entry.key.to_vec(), entry.value.to_vec()));
        found.push((update.seqno, entries.collect()));
    }
    found
}

#[test]
fn batches_come_as_they_were_written() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    let mut updates = db.updates_since(0).unwrap();
    assert!(updates.next_batch().unwrap().is_none());
    let mut batch = WriteBatch::new();
    batch.put("a", "1");
    batch.put_log_data("for whoever follows");
    batch.delete_cf(&db.family(OTHER).unwrap(), "b");
    db.write(&mut batch, &WriteOptions::default()).unwrap();
    let update = updates.next_batch().unwrap().unwrap();
    assert_eq!((update.seqno, update.batch.len()), (1, 2));
    assert_eq!(update.batch.log_data().collect::<Vec<_>>(), [b"for whoever follows"], "without the engine's own");
    assert!(updates.next_batch().unwrap().is_none());
    // Over switches of the WAL, and with those that nothing else needs any more.
    let mut expected = Found::new();
    for number in 2..=1500 {
        write_row(&db, number, &WriteOptions::default());
        let (key, value) = row(number);
        let entry = |id| (ColumnFamilyId(id), ValueType::Put, key.clone(), value.clone());
        expected.push((2 * number - 1, vec![entry(0), entry(1)]));
    }
    db.flush(&FlushOptions::default()).unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(drain(&mut updates), expected);
    let mut late = db.updates_since(2001).unwrap();
    assert_eq!(drain(&mut late), expected[999..]);
    // The second entry of a batch: the batch that has it.
    assert_eq!(drain(&mut db.updates_since(2000).unwrap()), expected[998..]);
    drop((updates, late));
    let wals = disk.env().list_dir(Path::new("/db")).unwrap();
    assert!(wals.iter().filter(|entry| entry.name.ends_with(".log")).count() <= 2, "{wals:?}");
    assert_eq!(db.updates_since(1).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(drain(&mut db.updates_since(3001).unwrap()).is_empty());
}

#[test]
fn entries_that_are_in_no_wal_are_an_error() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/in")).unwrap();
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    let mut updates = db.updates_since(1).unwrap();
    db.put("a", "1").unwrap();
    let mut writer = SstFileWriter::create("/in/a.sst", &simulated(&disk), &db.default_family().options()).unwrap();
    writer.put("b", "2").unwrap();
    writer.finish().unwrap();
    let ingest = IngestExternalFileOptions::default();
    assert_eq!(db.ingest_external_files(&db.default_family(), &["/in/a.sst"], &ingest).unwrap(), 2);
    db.put("c", "3").unwrap();
    assert_eq!(updates.next_batch().unwrap().unwrap().seqno, 1);
    assert_eq!(updates.next_batch().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(db.updates_since(3).unwrap().next_batch().unwrap().unwrap().seqno, 3);
    db.put_cf(&db.default_family(), "d", "4", &WriteOptions::default().disable_wal(true)).unwrap();
    db.put("e", "5").unwrap();
    let mut updates = db.updates_since(3).unwrap();
    assert_eq!(updates.next_batch().unwrap().unwrap().seqno, 3);
    assert_eq!(updates.next_batch().unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn updates_beside_a_writer_build_the_same_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), &small(DbOptions::default())).unwrap();
    let mut found = BTreeMap::new();
    let mut last = 0;
    // Before the writer begins: the WAL of its first rows goes once they are in tables.
    let mut updates = db.updates_since(1).unwrap();
    beside_a_writer(&db, || {
        while last < 8000 {
            let Some(update) = updates.next_batch().unwrap() else {
                std::thread::yield_now();
                continue;
            };
            assert_eq!(update.seqno, last + 1);
            last += u64::from(update.batch.count());
            for entry in update.batch.iter().filter(|entry| entry.column_family.0 == 0) {
                found.insert(entry.key.to_vec(), entry.value.to_vec());
            }
        }
    });
    drop(updates);
    assert_eq!(last % 2, 0);
    assert!(found == rows_up_to(last / 2)["default"]);
    db.close().unwrap();
}

#[test]
fn tables_that_need_no_number_are_a_gap_all_the_same() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/in")).unwrap();
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    let mut updates = db.updates_since(1).unwrap();
    let mut writer = SstFileWriter::create("/in/a.sst", &simulated(&disk), &db.default_family().options()).unwrap();
    writer.put("b", "2").unwrap();
    writer.finish().unwrap();
    let ingest = IngestExternalFileOptions::default().snapshot_consistency(false);
    assert_eq!(db.ingest_external_files(&db.default_family(), &["/in/a.sst"], &ingest).unwrap(), 0);
    // Before anything else is written.
    assert_eq!(db.updates_since(1).unwrap_err().kind(), ErrorKind::NotFound);
    let refused = db.updates_since(2).unwrap().next_batch();
    assert!(refused.unwrap().is_none(), "nothing is missing behind it");
    db.put("c", "3").unwrap();
    assert_eq!(updates.next_batch().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(db.updates_since(2).unwrap().next_batch().unwrap().unwrap().seqno, 2);
}

#[test]
fn what_was_taken_in_last_is_missed_before_anything_follows_it() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/in")).unwrap();
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    let mut updates = db.updates_since(1).unwrap();
    db.put("a", "1").unwrap();
    assert_eq!(updates.next_batch().unwrap().unwrap().seqno, 1);
    assert!(updates.next_batch().unwrap().is_none());
    let mut writer = SstFileWriter::create("/in/a.sst", &simulated(&disk), &db.default_family().options()).unwrap();
    writer.put("b", "2").unwrap();
    writer.finish().unwrap();
    db.ingest_external_files(&db.default_family(), &["/in/a.sst"], &IngestExternalFileOptions::default()).unwrap();
    assert_eq!(updates.next_batch().unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_file_that_looks_like_the_next_wal_ends_nothing() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    let mut updates = db.updates_since(1).unwrap();
    db.put("a", "1").unwrap();
    assert_eq!(updates.next_batch().unwrap().unwrap().seqno, 1);
    let options = siltstone_base::env::FileOptions::new(FileKind::Wal);
    disk.env().create_append(Path::new("/db/900000.log"), &options).unwrap().finish().unwrap();
    assert!(updates.next_batch().unwrap().is_none());
    db.put("b", "2").unwrap();
    assert_eq!(updates.next_batch().unwrap().unwrap().seqno, 2);
}

/// The WALs below the folder that archives them.
fn archived(disk: &SimDisk) -> Vec<String> {
    let entries = disk.env().list_dir(Path::new("/db/archive")).unwrap_or_default();
    let mut names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}

fn fill(db: &Db, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        write_row(db, number, &WriteOptions::default());
        if number % 100 == 0 {
            db.flush_families(&db.families().iter().collect::<Vec<_>>(), &FlushOptions::default()).unwrap();
        }
    }
}

/// How many entries a follower finds that begins with `from`.
fn count_from(db: &Db, from: u64) -> u64 {
    let mut updates = db.updates_since(from).unwrap();
    drain(&mut updates).iter().map(|(_, entries)| entries.len() as u64).sum()
}

#[test]
fn archived_wals_are_read_before_and_after_an_opening() {
    let disk = SimDisk::new();
    let options = simulated(&disk).wal_ttl_seconds(3600);
    let db = Db::open("/db", &options).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    fill(&db, 1..=1000);
    assert!(archived(&disk).len() >= 9, "{:?}", archived(&disk));
    assert_eq!(count_from(&db, 1), 2000);
    assert_eq!(count_from(&db, 1001), 1000);
    db.close().unwrap();
    let db = Db::open("/db", &simulated(&disk).wal_ttl_seconds(3600)).unwrap();
    fill(&db, 1001..=1200);
    assert_eq!(count_from(&db, 1), 2400, "from both lives, without gaps");
    db.close().unwrap();
    // Nothing is archived any more, and what is there stays.
    let before = archived(&disk);
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    fill(&db, 1201..=1300);
    assert_eq!(archived(&disk), before);
    db.close().unwrap();
}

#[test]
fn the_archive_loses_what_is_too_old_or_too_much() {
    let disk = SimDisk::new();
    let clock = Arc::new(ManualClock::new(1_700_000_000));
    let executor = StepExecutor::new(Arc::clone(&clock));
    let options = simulated(&disk).executor(Some(Arc::new(executor))).wal_ttl_seconds(100);
    let db = Db::open("/db", &options).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    fill(&db, 1..=300);
    let first = archived(&disk);
    clock.advance(std::time::Duration::from_secs(101));
    // Not while somebody follows.
    let mut updates = db.updates_since(1).unwrap();
    fill(&db, 301..=400);
    assert_eq!(drain(&mut updates).len(), 400);
    assert!(archived(&disk).starts_with(&first));
    drop(updates);
    fill(&db, 401..=500);
    let second = archived(&disk);
    assert!(!second.is_empty() && first.iter().all(|name| !second.contains(name)), "{first:?}, {second:?}");
    assert_eq!(db.updates_since(1).unwrap_err().kind(), ErrorKind::NotFound);
    db.close().unwrap();

    let db = Db::open("/db", &simulated(&disk).wal_size_limit_mb(1)).unwrap();
    for round in 0..8 {
        db.put(format!("{round}"), vec![b'x'; 300 << 10]).unwrap();
        db.flush(&FlushOptions::default()).unwrap();
    }
    let bytes: u64 =
        archived(&disk).iter().map(|name| disk.env().file_len(&Path::new("/db/archive").join(name)).unwrap()).sum();
    assert!((600 << 10..=1 << 20).contains(&bytes), "{bytes}");
    db.close().unwrap();
}

/// Its end was torn: what a follower would read there never counted.
#[test]
fn wals_that_were_not_replayed_to_their_ends_are_not_archived() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &simulated(&disk).wal_ttl_seconds(3600)).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    (1..=20).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    db.close().unwrap();
    let entries = disk.env().list_dir(Path::new("/db")).unwrap();
    let wal = entries.iter().find(|entry| entry.name.ends_with(".log")).unwrap();
    let path = Path::new("/db").join(&wal.name);
    let bytes = disk.env().file_len(&path).unwrap();
    let options = siltstone_base::env::FileOptions::new(FileKind::Wal);
    disk.env().open_random_write(&path, &options).unwrap().set_len(bytes - 10).unwrap();
    let options = simulated(&disk).wal_recovery_mode(crate::WalRecoveryMode::TolerateCorruptedTailRecords);
    let db = Db::open("/db", &options.wal_ttl_seconds(3600)).unwrap();
    assert_eq!(archived(&disk), [""; 0]);
    assert_eq!(db.updates_since(1).unwrap_err().kind(), ErrorKind::NotFound);
    fill(&db, 100..=200);
    assert!(!archived(&disk).is_empty(), "those that come are");
    db.close().unwrap();
}

/// However often a database is opened, an archived WAL gets as old as it is.
#[test]
fn the_archive_of_a_database_that_is_opened_every_day_does_not_grow_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let archived = || {
        let entries = PosixEnv::new().list_dir(&dir.path().join("archive")).unwrap();
        entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>()
    };
    let visit = |seconds_later: u64| {
        let clock = Arc::new(ManualClock::new(SystemClock::new().unix_seconds() + seconds_later));
        let options = DbOptions::default().create_if_missing(true).wal_ttl_seconds(3600);
        let db = Db::open(dir.path(), &options.executor(Some(Arc::new(StepExecutor::new(clock))))).unwrap();
        for round in 0..3 {
            db.put(format!("{round}"), "value").unwrap();
            db.flush(&FlushOptions::default()).unwrap();
        }
        db.close().unwrap();
        archived()
    };
    let first = visit(0);
    assert!(first.len() >= 2, "{first:?}");
    let second = visit(1800);
    assert!(first.iter().all(|name| second.contains(name)), "{second:?}");
    let third = visit(7200);
    assert!(!third.is_empty() && first.iter().all(|name| !third.contains(name)), "{third:?}");
}

/// They would be read as what the new database wrote.
#[test]
fn a_new_database_is_not_made_over_the_archived_wals_of_another() {
    let disk = SimDisk::new();
    let options = simulated(&disk).wal_ttl_seconds(3600);
    let db = Db::open("/db", &options).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    fill(&db, 1..=200);
    db.close().unwrap();
    for entry in disk.env().list_dir(Path::new("/db")).unwrap().iter().filter(|entry| !entry.is_dir) {
        disk.env().remove_file(&Path::new("/db").join(&entry.name)).unwrap();
    }
    let before = archived(&disk);
    assert!(!before.is_empty());
    let error = Db::open("/db", &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingFile, "{error}");
    assert_eq!(archived(&disk), before);
}

/// What is behind the last whole write is known to the opening in which the write failed, and to no later one.
#[test]
fn what_a_failed_append_left_is_not_shown_from_the_archive() {
    let disk = SimDisk::new();
    let options = simulated(&disk).wal_ttl_seconds(3600);
    let db = Db::open("/db", &options).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    (1..=20).for_each(|number| write_row(&db, number, &WriteOptions::default()));
    let appends = OpFilter { class: Some(OpClass::Write), file: Some(FileKind::Wal), ..OpFilter::default() };
    disk.set_fault(FaultPlan::once(FaultKind::ShortWriteNoSpace, 0).filter(appends));
    let failed = db.put("failed", vec![b'x'; 100 << 10]).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::NoSpace);
    disk.clear_fault();
    while db.put("later", "value").is_err() {}
    db.flush_families(&db.families().iter().collect::<Vec<_>>(), &FlushOptions::default()).unwrap();
    assert_eq!(count_from(&db, 1), 41);
    db.close().unwrap();
    let db = Db::open("/db", &simulated(&disk).wal_ttl_seconds(3600)).unwrap();
    assert_eq!(count_from(&db, 1), 41);
    db.close().unwrap();
}

/// Whoever keeps files may keep them for many WALs.
#[test]
fn what_a_failed_append_left_is_not_shown_from_the_archive_after_files_were_kept_for_long() {
    let disk = SimDisk::new();
    let options = simulated(&disk).wal_ttl_seconds(3600);
    let db = Db::open("/db", &options).unwrap();
    db.put("first", "value").unwrap();
    db.disable_file_deletions();
    let appends = OpFilter { class: Some(OpClass::Write), file: Some(FileKind::Wal), ..OpFilter::default() };
    disk.set_fault(FaultPlan::once(FaultKind::ShortWriteNoSpace, 0).filter(appends));
    db.put("failed", vec![b'x'; 100 << 10]).unwrap_err();
    disk.clear_fault();
    while db.put("later", "value").is_err() {}
    for number in 0..70 {
        db.put("later", number.to_string()).unwrap();
        db.flush(&FlushOptions::default()).unwrap();
    }
    db.enable_file_deletions();
    db.put("last", "value").unwrap();
    db.flush(&FlushOptions::default()).unwrap();
    assert_eq!(count_from(&db, 1), 73);
    db.close().unwrap();
}
