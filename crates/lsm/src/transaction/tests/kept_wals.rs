//! WALs that are kept for what they prepared: what goes wrong around them may neither lose what is undecided nor bring back what is decided.

use super::{all, family_options, flush, kind, on, options};
use crate::batch::{Phase, Step, WriteBatch, encode_header};
use crate::file_names::FileName;
use crate::wal::WalWriter;
use crate::{
    Counter, Db, ErrorKind, FlushOptions, Isolation, Result, TransactionDb, TransactionDbOptions, WriteOptions,
};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter, SimDisk};
use siltstone_base::env::{FileKind, FileOptions, IoContext, IoPriority, read_file};
use siltstone_base::executor::StepExecutor;
use siltstone_base::plant::{PlantedBug, with_planted};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const DIR: &str = "/db";

fn open_one(disk: &SimDisk) -> Result<TransactionDb> {
    TransactionDb::open(DIR, &options(disk), &[("default", family_options())], &TransactionDbOptions::default())
}

fn wal_path(number: u64) -> PathBuf {
    FileName::Wal(number).path(Path::new(DIR))
}

fn wals(disk: &SimDisk) -> Vec<u64> {
    let entries = disk.env().list_dir(Path::new(DIR)).unwrap();
    let numbers = entries.iter().filter_map(|entry| match FileName::parse(&entry.name) {
        Some(FileName::Wal(number)) => Some(number),
        _ => None,
    });
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

fn prepare(db: &TransactionDb, name: &str, key: &str) {
    let mut one = db.begin(&on(Isolation::Snapshot));
    one.put(key, name).unwrap();
    one.prepare(name).unwrap();
}

fn put_and_flush(db: &TransactionDb, key: &str) {
    db.put(key, "1").unwrap();
    flush(db);
}

/// The next operation of this class on a file of this kind fails without any effect.
fn fail_next(disk: &SimDisk, class: OpClass, file: FileKind) {
    let filter = OpFilter { class: Some(class), file: Some(file), ..OpFilter::default() };
    disk.set_fault(FaultPlan::once(FaultKind::Io, 0).filter(filter));
}

#[test]
fn a_flush_that_cannot_be_installed_does_not_lose_what_it_would_have_flushed() {
    let disk = SimDisk::new();
    let db = open_one(&disk).unwrap();
    prepare(&db, "x", "x");
    let first = wals(&disk)[0];
    put_and_flush(&db, "a");
    db.commit_prepared("x").unwrap();
    db.put("b", "1").unwrap();
    fail_next(&disk, OpClass::Write, FileKind::Manifest);
    assert_eq!(kind(db.db().flush(&FlushOptions::default())), ErrorKind::Io);
    // A new MANIFEST, and with it what nobody needs goes.
    db.db().live_files().unwrap();
    assert_eq!(wals(&disk)[0], first, "it prepared what is in a memtable");
    let left = disk.after_process_death();
    assert_eq!(all(&open_one(&left).unwrap()), "a=1 b=1 x=x");
    // Later attempts succeed, and let it go.
    flush(&db);
    put_and_flush(&db, "c");
    assert!(wals(&disk)[0] > first);
    assert_eq!(all(&open_one(&disk.after_process_death()).unwrap()), "a=1 b=1 c=1 x=x");
}

#[test]
fn a_family_that_is_dropped_leaves_the_wal_of_what_is_undecided() {
    let disk = SimDisk::new();
    let db = super::open(&disk);
    prepare(&db, "x", "x");
    let other = db.db().family("other").unwrap();
    db.db().put_cf(&other, "a", "1", &WriteOptions::default()).unwrap();
    put_and_flush(&db, "a");
    db.db().drop_family(&other).unwrap();
    put_and_flush(&db, "b");
    let left = disk.after_power_loss();
    assert_eq!(open_one(&left).unwrap().prepared_transactions(), [b"x"]);
}

#[test]
fn a_wal_that_is_forgotten_before_the_flush_is_missed() {
    with_planted(PlantedBug::PreparedLogIsForgotten, || {
        let disk = SimDisk::new();
        let db = super::open(&disk);
        prepare(&db, "x", "x");
        put_and_flush(&db, "a");
        db.commit_prepared("x").unwrap();
        let other = db.db().family("other").unwrap();
        db.db().put_cf(&other, "a", "1", &WriteOptions::default()).unwrap();
        db.db().flush_families(&[&other], &FlushOptions::default()).unwrap();
        assert_eq!(all(&super::open(&disk.after_process_death())), "a=1", "nothing keeps the WAL that prepared it");
    });
}

/// What stays of three transactions: one undecided, one committed and one rolled back, all behind flushes; in WALs that no family needs.
fn kept() -> (SimDisk, Vec<u64>) {
    let disk = SimDisk::new();
    let db = open_one(&disk).unwrap();
    for name in ["x", "y", "z"] {
        prepare(&db, name, name);
    }
    put_and_flush(&db, "a");
    db.commit_prepared("y").unwrap();
    db.rollback_prepared("z").unwrap();
    put_and_flush(&db, "b");
    db.put("c", "1").unwrap();
    db.db().sync_wal().unwrap();
    let left = disk.after_power_loss();
    let kept = wals(&left);
    (left, kept)
}

/// Either nobody may open the database, or nothing is missing from it.
fn check_damaged(disk: &SimDisk, what: &str) -> bool {
    let again = disk.after_process_death();
    match open_one(disk) {
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Corruption | ErrorKind::MissingFile), "{what}: {error}");
            let error = Db::open(DIR, &options(&again)).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Corruption | ErrorKind::MissingFile), "{what}: {error}");
            true
        }
        Ok(db) => {
            assert_eq!(db.prepared_transactions(), [b"x"], "{what}");
            assert_eq!(all(&db), "a=1 b=1 c=1 y=y", "{what}");
            false
        }
    }
}

#[test]
fn damage_to_a_wal_that_is_kept_for_what_it_prepared_is_told() {
    let (disk, numbers) = kept();
    assert_eq!(numbers.len(), 3, "one for what was prepared, one for the decisions, one that is needed");
    assert!(!check_damaged(&disk.after_power_loss(), "nothing is damaged"));
    let mut seen = 0;
    for number in &numbers[..2] {
        let path = wal_path(*number);
        let whole = read_file(&*disk.env(), &path, FileKind::Wal, 1 << 20).unwrap();
        for offset in 0..whole.len() {
            let left = disk.after_power_loss();
            left.flip(&path, offset as u64, 1 << (offset % 8)).unwrap();
            seen += u32::from(check_damaged(&left, &format!("bit of byte {offset} of {number}")));
        }
        for len in (0..whole.len()).step_by(7) {
            let left = disk.after_power_loss();
            rewrite(&left, *number, &whole[..len]);
            seen += u32::from(check_damaged(&left, &format!("{len} bytes of {number}")));
        }
        let left = disk.after_power_loss();
        left.env().remove_file(&path).unwrap();
        assert!(check_damaged(&left, &format!("{number} is gone")));
    }
    assert!(seen > 100, "{seen}");
}

/// Puts other bytes into a WAL, durably.
fn rewrite(disk: &SimDisk, number: u64, bytes: &[u8]) {
    append(disk, number, bytes, &[]);
}

/// The same with a record behind them.
fn append(disk: &SimDisk, number: u64, bytes: &[u8], record: &[&[u8]]) {
    let context = IoContext::new(FileKind::Wal, IoPriority::User);
    let path = wal_path(number);
    let mut file = disk.env().create_append(&path, &FileOptions::new(FileKind::Wal)).unwrap();
    file.append(bytes, context).unwrap();
    let mut writer = WalWriter::new(file, path, number, context);
    if !record.is_empty() {
        writer.add_record(record).unwrap();
    }
    writer.sync().unwrap();
    writer.finish().unwrap();
}

/// A commit whose append failed is no commit, even if all its bytes are there; not even when tables have all else of the WAL, and nothing was written behind it.
#[test]
fn remains_of_a_decision_that_failed_do_not_decide() {
    for step in [Step::Commit, Step::Rollback] {
        for writes_behind in [false, true] {
            let disk = SimDisk::new();
            let db = open_one(&disk).unwrap();
            prepare(&db, "x", "x");
            put_and_flush(&db, "a");
            db.put("b", "1").unwrap();
            let number = *wals(&disk).last().unwrap();
            fail_next(&disk, OpClass::Write, FileKind::Wal);
            let decided = match step {
                Step::Commit => db.commit_prepared("x"),
                _ => db.rollback_prepared("x"),
            };
            assert_eq!(kind(decided), ErrorKind::Io);
            if writes_behind {
                db.put("c", "1").unwrap();
            }
            flush(&db);
            // As if the bytes had arrived nevertheless.
            let bytes = read_file(&*disk.env(), &wal_path(number), FileKind::Wal, 1 << 20).unwrap();
            let mut marker = WriteBatch::new();
            marker.set_phase(Some(Phase::new(step, b"x")));
            let ([front, body, back], count) = marker.logged();
            append(&disk, number, &bytes, &[&encode_header(100, count), front, body, back]);
            let rows = if writes_behind { "a=1 b=1 c=1" } else { "a=1 b=1" };
            for _ in 0..2 {
                let left = open_one(&disk.after_power_loss()).unwrap();
                assert_eq!(
                    (all(&left).as_str(), left.prepared_transactions()),
                    (rows, vec![b"x".to_vec()]),
                    "{step:?}"
                );
            }
            db.commit_prepared("x").unwrap();
            assert_eq!(all(&open_one(&disk.after_process_death()).unwrap()), format!("{rows} x=x"));
        }
    }
}

#[test]
fn an_undecided_transaction_does_not_make_every_family_flush_without_end() {
    let disk = SimDisk::new();
    let family = family_options().write_buffer_size(64 << 10);
    let options = options(&disk).max_total_wal_size(200 << 10);
    let families = [("default", family.clone()), ("other", family)];
    let db = TransactionDb::open(DIR, &options, &families, &TransactionDbOptions::default()).unwrap();
    let other = db.db().family("other").unwrap();
    prepare(&db, "x", "x");
    for number in 0..1000 {
        let key = format!("k{:03}", number % 300);
        match number % 5 {
            0 => db.db().put_cf(&other, key, vec![7; 1000], &WriteOptions::default()).unwrap(),
            _ => db.put(key, vec![7; 1000]).unwrap(),
        }
        if number % 10 == 0 {
            db.db().wait_for_background_work().unwrap();
        }
    }
    let flushes = db.db().metrics().counters().get(Counter::Flushes);
    assert!((10..50).contains(&flushes), "{flushes}");
    let property = |name: &str| db.db().property(name).unwrap().parse::<u64>().unwrap();
    assert_eq!(property("siltstone.prepared-transactions"), 1);
    assert!(property("siltstone.prepared-log-bytes") > 500 << 10, "it keeps most of what was written since");
    assert_eq!(open_families(&disk.after_power_loss()).prepared_transactions(), [b"x"]);
    db.rollback_prepared("x").unwrap();
    assert_eq!((property("siltstone.prepared-transactions"), property("siltstone.prepared-log-bytes")), (0, 0));
}

fn open_families(disk: &SimDisk) -> TransactionDb {
    super::open(disk)
}

/// What was committed of an old WAL, into a family that nobody writes any more, lets that WAL go when WALs are too large.
#[test]
fn a_committed_transaction_in_an_idle_family_does_not_keep_its_wal() {
    let disk = SimDisk::new();
    let family = family_options().write_buffer_size(64 << 10);
    let options = options(&disk).max_total_wal_size(200 << 10);
    let families = [("default", family.clone()), ("other", family)];
    let db = TransactionDb::open(DIR, &options, &families, &TransactionDbOptions::default()).unwrap();
    let other = db.db().family("other").unwrap();
    let mut one = db.begin(&on(Isolation::Snapshot));
    one.put_cf(&other, "x", "1").unwrap();
    one.prepare("x").unwrap();
    let first = wals(&disk)[0];
    put_and_flush(&db, "a");
    db.commit_prepared("x").unwrap();
    for number in 0..1000 {
        db.put(format!("k{:03}", number % 300), vec![7; 1000]).unwrap();
        if number % 10 == 0 {
            db.db().wait_for_background_work().unwrap();
        }
    }
    assert!(wals(&disk)[0] > first, "{:?}", wals(&disk));
    let found = open_families(&disk.after_power_loss());
    assert_eq!(
        found.db().get_cf(&found.db().family("other").unwrap(), "x", &Default::default()).unwrap().as_deref(),
        Some(&b"1"[..])
    );
}

#[test]
fn a_decision_is_logged_even_where_nothing_else_is() {
    for commits in [false, true] {
        let disk = SimDisk::new();
        let db = open_one(&disk).unwrap();
        prepare(&db, "x", "x");
        db.close().unwrap();
        let unlogged = TransactionDbOptions::default().write_options(WriteOptions::default().disable_wal(true));
        let db = TransactionDb::open(DIR, &options(&disk), &[("default", family_options())], &unlogged).unwrap();
        match commits {
            true => db.commit_prepared("x").unwrap(),
            false => db.rollback_prepared("x").unwrap(),
        }
        let left = open_one(&disk.after_process_death()).unwrap();
        assert_eq!(left.prepared_transactions(), Vec::<Vec<u8>>::new());
        assert_eq!(all(&left), if commits { "x=x" } else { "" });
    }
}

#[test]
fn a_rollback_that_nothing_follows_is_synced_in_the_background() {
    let disk = SimDisk::new();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let options = options(&disk).executor(Some(executor.clone())).wal_sync_interval_millis(20);
    let families = [("default", family_options())];
    let db = TransactionDb::open(DIR, &options, &families, &TransactionDbOptions::default()).unwrap();
    db.put("a", "1").unwrap();
    prepare(&db, "x", "x");
    let pass = || {
        for _ in 0..3 {
            executor.manual_clock().advance(Duration::from_millis(21));
            while executor.step() {}
        }
    };
    pass();
    db.rollback_prepared("x").unwrap();
    assert_eq!(open_one(&disk.after_power_loss()).unwrap().prepared_transactions(), [b"x"]);
    pass();
    assert_eq!(open_one(&disk.after_power_loss()).unwrap().prepared_transactions(), Vec::<Vec<u8>>::new());
    // Nothing new: nothing is synced.
    let syncs = || db.db().metrics().counters().get(Counter::WalSyncs);
    let before = syncs();
    pass();
    assert_eq!(syncs(), before);
}

/// The power goes while what is prepared is being prepared again. The first recovery finds more in memory than the disk has; what it did not make count must not count.
#[test]
fn a_second_crash_while_opening_shows_no_more_than_is_durable() {
    let disk = SimDisk::new();
    let db = open_one(&disk).unwrap();
    prepare(&db, "x", "x");
    db.put("a", "1").unwrap();
    // In memory alone: the name of the next one, and what it needs.
    let filter = OpFilter { class: Some(OpClass::Sync), file: Some(FileKind::Wal), ..OpFilter::default() };
    disk.set_fault(FaultPlan::once(FaultKind::SyncLies, 0).filter(filter));
    prepare(&db, "y", "y");
    let first = disk.after_process_death();
    // The recovery stops before the MANIFEST counts.
    fail_next(&first, OpClass::Write, FileKind::Manifest);
    assert_eq!(open_one(&first).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(wals(&first).len(), 2, "the old one and the new one");
    first.clear_fault();
    let second = first.after_power_loss();
    let db = open_one(&second).unwrap();
    assert_eq!((all(&db).as_str(), db.prepared_transactions()), ("", vec![b"x".to_vec()]));
    // Where the machine goes on, everything is there.
    let db = open_one(&first).unwrap();
    assert_eq!((all(&db).as_str(), db.prepared_transactions().len()), ("a=1", 2));
}
