//! What transactions larger than memory cost others: writers that wait, files, WALs that are followed.

use super::spill::{check_files, families, fill, open, small, temporary, value};
use super::{family_options, kind, on, open_with, options, rows};
use crate::{
    ColumnFamilyOptions, Counter, DbOptions, ErrorKind, EventListener, FlushOptions, Isolation, LockMode,
    OptimisticTransactionDb, ReadOptions, Spill, SpilledCommitInfo, TransactionDb, TransactionDbOptions, WriteOptions,
};
use siltstone_base::env::sim::{OpClass, SimDisk};
use siltstone_base::sync::{Mutex, Rank};
use std::sync::Arc;

/// Level 0 is full with a few tables, and nothing empties it.
fn crowded() -> [(&'static str, ColumnFamilyOptions); 3] {
    families().map(|(name, family)| {
        let family = family.level0_file_num_compaction_trigger(2).level0_slowdown_writes_trigger(3);
        (name, family.level0_stop_writes_trigger(4))
    })
}

/// Commits transactions over the same rows until one fails; returns how that failed.
fn commit_until_refused(db: &TransactionDb) -> ErrorKind {
    for number in 0..30 {
        let mut tx = db.begin(&on(Isolation::ReadCommitted));
        fill(&mut tx, db, number);
        if let Err(error) = tx.commit() {
            return error.kind();
        }
    }
    panic!("nobody waits");
}

fn tables_of_level0(db: &TransactionDb) -> usize {
    let tables = db.db().families().into_iter().flat_map(|family| db.db().table_files(&family).unwrap());
    tables.filter(|table| table.level == 0).count()
}

#[test]
fn large_commits_wait_as_writers_do_when_level_0_is_full() {
    let disk = SimDisk::new();
    let db = TransactionDb::open("/db", &options(&disk), &crowded(), &small()).unwrap();
    db.db().pause_background_work().unwrap();
    // Nothing is left that could make room.
    assert_eq!(commit_until_refused(&db), ErrorKind::Busy);
    assert_eq!(kind(db.put("z", "1")), ErrorKind::Busy, "others would wait as well");
    let full = tables_of_level0(&db);
    assert!((4..40).contains(&full), "{full}");
    assert_eq!(db.lock_stats().locks, 0);
    check_files(&disk, db.db());
    db.db().resume_background_work();
    let mut tx = db.begin(&on(Isolation::ReadCommitted));
    fill(&mut tx, &db, 77);
    tx.commit().unwrap();
    assert_eq!(db.db().get("a07").unwrap().as_deref(), Some(&value(77)[..]));
    db.db().wait_for_background_work().unwrap();
    assert!(tables_of_level0(&db) < full);
}

#[test]
fn a_large_commit_that_must_not_wait_is_refused_before_it_writes_anything() {
    let disk = SimDisk::new();
    let transactions = small().write_options(WriteOptions::default().no_slowdown(true));
    let db = TransactionDb::open("/db", &options(&disk), &crowded(), &transactions).unwrap();
    db.db().pause_background_work().unwrap();
    assert_eq!(commit_until_refused(&db), ErrorKind::Incomplete);
    let mut tx = db.begin(&on(Isolation::ReadCommitted));
    fill(&mut tx, &db, 77);
    disk.start_trace();
    assert_eq!(kind(tx.commit()), ErrorKind::Incomplete);
    assert!(!disk.take_trace().iter().any(|op| op.class == OpClass::Create));
    check_files(&disk, db.db());
    db.db().resume_background_work();
}

#[test]
fn a_large_optimistic_commit_that_has_lost_writes_no_tables() {
    let disk = SimDisk::new();
    let db = OptimisticTransactionDb::open("/db", &options(&disk), &families(), &small()).unwrap();
    let mut tx = db.begin(&on(Isolation::Snapshot));
    for row in 0..40 {
        tx.put(format!("a{row:02}"), value(1)).unwrap();
    }
    db.db().put("a39", "2").unwrap();
    disk.start_trace();
    assert_eq!(kind(tx.commit()), ErrorKind::Busy);
    let trace = disk.take_trace();
    assert!(!trace.iter().any(|op| matches!(op.class, OpClass::Create | OpClass::Write)), "{trace:?}");
}

/// Each part is one file, whatever number of families it has changes of.
#[test]
fn a_large_transaction_of_many_families_has_few_files() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let names: Vec<_> = (0..30).map(|number| format!("family{number:02}")).collect();
    let all: Vec<_> = names
        .iter()
        .map(|name| db.db().create_family(name, &ColumnFamilyOptions::default().write_buffer_size(16 << 10)).unwrap())
        .collect();
    let mut tx = db.begin(&on(Isolation::Snapshot));
    let mut most = 0;
    for number in 0..40_u64 {
        for family in &all {
            tx.put_cf(family, format!("{:02}", number % 10), value(number)).unwrap();
        }
        assert_eq!(temporary(&disk).len(), tx.parts_for_test());
        most = most.max(tx.parts_for_test());
    }
    assert!((8..24).contains(&most), "{most}");
    let expected: Vec<_> = (30..40).map(|number| (format!("{:02}", number % 10), value(number))).collect();
    for family in &all {
        let mut iter = tx.iter_cf(family, &ReadOptions::default()).unwrap();
        iter.seek_to_first();
        for (key, value) in &expected {
            assert_eq!((iter.key(), iter.value()), (key.as_bytes(), &value[..]));
            assert_eq!(tx.get_cf(family, key).unwrap().as_deref(), Some(&value[..]));
            iter.next();
        }
        assert!(!iter.valid());
    }
    tx.commit().unwrap();
    for (family, (key, value)) in all.iter().zip(expected.iter().cycle()) {
        assert_eq!(db.db().get_cf(family, key, &ReadOptions::default()).unwrap().as_deref(), Some(&value[..]));
    }
    check_files(&disk, db.db());
    db.db().check().unwrap();
}

/// Runs begin anywhere in their file, and direct reads where blocks of the device do.
#[test]
fn runs_are_read_past_the_page_cache_too() {
    let dir = tempfile::tempdir().unwrap();
    let options = DbOptions::default()
        .create_if_missing(true)
        .create_missing_column_families(true)
        .use_direct_reads(true)
        .use_direct_io_for_flush_and_compaction(true);
    let db = TransactionDb::open(dir.path(), &options, &families(), &small()).unwrap();
    let mut tx = db.begin(&on(Isolation::Snapshot));
    fill(&mut tx, &db, 5);
    let other = db.db().family("other").unwrap();
    for row in 0..40 {
        assert_eq!(tx.get(format!("a{row:02}")).unwrap().as_deref(), Some(&value(5)[..]));
        assert_eq!(tx.get_cf(&other, format!("b{row:02}")).unwrap().as_deref(), Some(&value(5)[..]));
    }
    let shown = rows(tx.iter_cf(&other, &ReadOptions::default()).unwrap());
    tx.commit().unwrap();
    assert_eq!(rows(db.db().iter_cf(&other, &ReadOptions::default()).unwrap()), shown);
}

/// Listens for commits.
#[derive(Debug)]
struct Commits(Mutex<Vec<SpilledCommitInfo>>);

impl EventListener for Commits {
    fn spilled_commit(&self, info: &SpilledCommitInfo) {
        self.0.lock().push(info.clone());
    }
}

/// Whether a large transaction is refused, for the sake of those who follow or of none.
fn is_refused(db: &TransactionDb, of_followers: bool) -> bool {
    let mut tx = db.begin(&on(Isolation::Snapshot));
    let outcome = (0..40).try_for_each(|row| tx.put(format!("a{row:02}"), value(1)));
    if let Err(error) = &outcome {
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        assert_eq!(error.message().contains("follow the WALs"), of_followers, "{error}");
    }
    outcome.is_err()
}

#[test]
fn who_follows_misses_no_transaction_unless_it_was_asked_for() {
    for archives in [false, true] {
        let options = |disk: &SimDisk| options(disk).wal_ttl_seconds(if archives { 60 } else { 0 });
        let open = |disk: &SimDisk, transactions: &TransactionDbOptions| {
            TransactionDb::open("/db", &options(disk), &families(), transactions).unwrap()
        };
        let disk = SimDisk::new();
        let db = open(&disk, &small());
        assert_eq!(is_refused(&db, true), archives);
        db.put("first", "1").unwrap();
        drop(db.db().updates_since(db.db().latest_seqno()).unwrap());
        assert!(is_refused(&db, true));
        db.close().unwrap();
        let db = open(&disk, &small().spill(Spill::Always));
        drop(db.db().updates_since(1));
        assert!(!is_refused(&db, true));
        db.close().unwrap();
        assert!(is_refused(&open(&disk, &small().spill(Spill::Never)), false));
    }
}

/// Somebody begins to follow while there is one that cannot go back into memory.
#[test]
fn a_transaction_that_has_spilled_goes_on_when_somebody_follows() {
    let disk = SimDisk::new();
    let commits = Arc::new(Commits(Mutex::new(Rank(5000), Vec::new())));
    let listener: Arc<dyn EventListener> = Arc::<Commits>::clone(&commits);
    let options = options(&disk).listeners(vec![listener]);
    let db = TransactionDb::open("/db", &options, &families(), &small()).unwrap();
    db.put("first", "1").unwrap();
    let mut tx = db.begin(&on(Isolation::Snapshot));
    fill(&mut tx, &db, 1);
    let mut updates = db.db().updates_since(1).unwrap();
    fill(&mut tx, &db, 2);
    tx.commit().unwrap();
    db.put("last", "1").unwrap();
    assert_eq!(updates.next_batch().unwrap().unwrap().seqno, 1);
    assert_eq!(kind(updates.next_batch()), ErrorKind::NotFound);
    let told = commits.0.lock().clone();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].column_families, ["default", "other"]);
    assert_eq!((told[0].seqnos.0, told[0].seqnos.1 + 1), (2, db.db().latest_seqno()));
    let tables = ["default", "other"].map(|name| db.db().table_files(&db.db().family(name).unwrap()).unwrap());
    // One is that of the flush of the first row.
    let sizes: Vec<_> =
        tables.iter().flatten().filter(|table| table.smallest != b"first").map(|table| table.file_size).collect();
    assert_eq!((told[0].tables, told[0].bytes), (sizes.len(), sizes.iter().sum()));
}

#[test]
fn a_family_of_which_all_changes_were_taken_back_may_be_dropped() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let third = db.db().family("third").unwrap();
    let mut tx = db.begin(&on(Isolation::Snapshot));
    tx.put("a", value(1)).unwrap();
    let place = tx.savepoint();
    // Some of it goes to disk with what stays.
    for row in 0..4 {
        tx.put_cf(&third, format!("{row}"), value(1)).unwrap();
    }
    tx.put("b", value(1).repeat(8)).unwrap();
    tx.rollback_to(place).unwrap();
    for row in 0..40 {
        tx.put(format!("c{row:02}"), value(1)).unwrap();
    }
    assert!(tx.has_spilled());
    db.db().drop_family(&third).unwrap();
    tx.commit().unwrap();
    assert_eq!(rows(db.db().iter(&ReadOptions::default()).unwrap()).split(' ').count(), 41);
}

#[test]
fn one_transaction_leaves_locks_for_the_others() {
    let disk = SimDisk::new();
    let transactions = TransactionDbOptions::default().max_lock_bytes(64 << 10);
    let db = open_with(&disk, &transactions).unwrap();
    let mut large = db.begin(&on(Isolation::ReadCommitted));
    let lock = |tx: &mut crate::Transaction, number: u32| {
        tx.lock_cf(&db.db().default_family(), number.to_be_bytes(), LockMode::Exclusive)
    };
    let held = (0..).take_while(|number| lock(&mut large, *number).is_ok()).count() as u32;
    assert_eq!(kind(lock(&mut large, held)), ErrorKind::LimitExceeded);
    assert_eq!(kind(large.put("new", "1")), ErrorKind::LimitExceeded);
    large.put(0_u32.to_be_bytes(), "what is locked may be changed").unwrap();
    let bytes = db.lock_stats().bytes;
    assert!((40 << 10..=48 << 10).contains(&bytes), "{bytes}");
    assert_eq!(db.lock_stats().locks as u32, held, "what was refused is not held");
    let mut other = db.begin(&on(Isolation::ReadCommitted));
    assert_eq!(kind(lock(&mut other, 0)), ErrorKind::TimedOut);
    (held..held + 10).for_each(|number| lock(&mut other, number).unwrap());
    db.put("new", "2").unwrap();
    large.commit().unwrap();
    other.commit().unwrap();
    assert_eq!((db.lock_stats().locks, db.lock_stats().bytes), (0, 0));
}

/// It waits for its decision, perhaps for days.
#[test]
fn a_large_prepared_transaction_of_an_earlier_life_leaves_locks_for_the_others() {
    let disk = SimDisk::new();
    let db = open_with(&disk, &TransactionDbOptions::default()).unwrap();
    let mut large = db.begin(&on(Isolation::ReadCommitted));
    (0..500_u32).for_each(|number| large.put(number.to_be_bytes(), "1").unwrap());
    large.prepare("large").unwrap();
    db.close().unwrap();
    let few = TransactionDbOptions::default().max_lock_bytes(8 << 10);
    let db = open_with(&disk, &few).unwrap();
    assert_eq!(db.lock_stats().locks, 500);
    let mut one = db.begin(&on(Isolation::ReadCommitted));
    assert_eq!(kind(one.put(7_u32.to_be_bytes(), "2")), ErrorKind::TimedOut);
    one.put("other", "2").unwrap();
    one.commit().unwrap();
    let mut many = db.begin(&on(Isolation::ReadCommitted));
    let held = (1_000..2_000_u32).take_while(|number| many.put(number.to_be_bytes(), "2").is_ok()).count();
    assert!((10..40).contains(&held), "{held}");
    many.rollback();
    db.commit_prepared("large").unwrap();
    assert_eq!((db.lock_stats().locks, db.lock_stats().bytes), (0, 0));
    assert_eq!(db.db().get(7_u32.to_be_bytes()).unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn the_limit_of_one_transactions_locks_has_bounds() {
    let open = |limit: usize| {
        let transactions = TransactionDbOptions::default().max_lock_bytes(4096).max_transaction_lock_bytes(limit);
        TransactionDb::open("/db", &options(&SimDisk::new()), &[("default", family_options())], &transactions)
    };
    for limit in [1, 1023, 4097] {
        let message = open(limit).unwrap_err().message().to_owned();
        assert_eq!(message, format!("max_transaction_lock_bytes: {limit} is not within 1024 and 4096"));
    }
    for limit in [0, 1024, 4096] {
        open(limit).unwrap();
    }
}

/// A large transaction flushes what its families have in memory: once beside writers, not again for the little that came meanwhile.
#[test]
fn what_is_in_memory_is_flushed_before_writers_wait() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    db.put("a00", "before").unwrap();
    let other = db.db().family("other").unwrap();
    let mut tx = db.begin(&on(Isolation::ReadCommitted));
    fill(&mut tx, &db, 1);
    db.db().put_cf(&other, "before", "1", &WriteOptions::default()).unwrap();
    let flushes = || db.db().metrics().counters().get(Counter::Flushes);
    let before = flushes();
    tx.commit().unwrap();
    assert_eq!(flushes() - before, 2, "one of each family");
    assert_eq!(db.db().get_cf(&other, "before", &ReadOptions::default()).unwrap().as_deref(), Some(&b"1"[..]));
    db.db().flush(&FlushOptions::default()).unwrap();
}
