//! Loads while others read, write and change rows in transactions.

use super::*;
use crate::{
    Isolation, OptimisticTransactionDb, TransactionDb, TransactionDbOptions, TransactionOptions, WriteOptions,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn load_one(db: &Db, key: &str, options: &BulkLoadOptions) {
    let mut loader = loader(db, options);
    loader.put(key, "loaded").unwrap();
    loader.finish().unwrap();
}

#[test]
fn a_load_does_not_appear_in_the_middle_of_a_snapshot() {
    let disk = SimDisk::new();
    let db = open(&disk, small());
    let before = db.snapshot();
    load_one(&db, "k", &BulkLoadOptions::default());
    let read = ReadOptions::default().snapshot(Some(before));
    assert_eq!(db.get_cf(&db.default_family(), "k", &read).unwrap(), None);
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"loaded"[..]));
}

fn transaction_options(isolation: Isolation) -> TransactionOptions {
    TransactionOptions::new(isolation).lock_timeout(Duration::from_millis(1))
}

/// Each transaction saw that there is no row, and would put its own over the one that was loaded meanwhile.
#[test]
fn a_transaction_loses_no_row_that_a_load_brought() {
    let disk = SimDisk::new();
    let executor = StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000)));
    let options = DbOptions::default().env(Some(disk.env())).executor(Some(Arc::new(executor)));
    let options = options.create_if_missing(true);
    let transactions = TransactionDbOptions::default();

    let db = OptimisticTransactionDb::open("/db", &options, &[], &transactions).unwrap();
    for (number, isolation) in [Isolation::ReadCommitted, Isolation::Snapshot].into_iter().enumerate() {
        let key = format!("optimistic {number}");
        let mut transaction = db.begin(&transaction_options(isolation));
        assert_eq!(transaction.get_for_update(&key).unwrap(), None);
        load_one(db.db(), &key, &BulkLoadOptions::default());
        transaction.put(&key, "mine").unwrap();
        assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Busy, "{isolation:?}");
        assert_eq!(db.db().get(&key).unwrap().as_deref(), Some(&b"loaded"[..]));
    }
    db.close().unwrap();

    let db = TransactionDb::open("/db", &options, &[], &transactions).unwrap();
    let mut transaction = db.begin(&transaction_options(Isolation::Snapshot));
    assert_eq!(transaction.get("pessimistic").unwrap(), None);
    load_one(db.db(), "pessimistic", &BulkLoadOptions::default());
    assert_eq!(transaction.put("pessimistic", "mine").unwrap_err().kind(), ErrorKind::Busy);
}

/// Loads beside writers of the same family, with small memtables that are flushed and compacted all the time.
#[test]
fn loads_and_writers_beside_each_other_keep_all_rows() {
    const LOADS: u32 = 12;
    const WRITERS: u32 = 2;
    let dir = tempfile::tempdir().unwrap();
    let family = small().write_buffer_size(16 << 10).level0_file_num_compaction_trigger(2);
    let options = DbOptions::default().create_if_missing(true).unnamed_families(family);
    let db = Db::open(dir.path().join("db"), &options).unwrap();
    let is_over = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let (db, is_over) = (&db, &is_over);
        let write = move |writer: u32| {
            let mut rows = BTreeMap::new();
            let mut number = 0_u32;
            while !is_over.load(Ordering::Acquire) {
                // Between the keys of the loads, so that all tables overlap.
                let key = format!("{:05} writer {writer}", number % 500);
                let value = format!("{number}");
                let sync = WriteOptions::default().sync(number.is_multiple_of(64));
                db.put_cf(&db.default_family(), &key, &value, &sync).unwrap();
                assert_eq!(db.get(&key).unwrap().as_deref(), Some(value.as_bytes()));
                rows.insert(key.into_bytes(), value.into_bytes());
                number += 1;
            }
            rows
        };
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
        for round in 0..LOADS {
            let options = BulkLoadOptions::default().sort_buffer_bytes(4_000).snapshot_consistency(round % 2 == 0);
            let sorting = dir.path().join("sorting");
            let mut loader = BulkLoader::new(db, &db.default_family(), sorting, &options).unwrap();
            for number in (0..500).rev() {
                loader.put(format!("{number:05} load {}", round % 3), format!("{round}")).unwrap();
            }
            let before = db.snapshot();
            loader.finish().unwrap();
            let newest = db.get(format!("00499 load {}", round % 3)).unwrap();
            assert_eq!(newest.as_deref(), Some(round.to_string().as_bytes()), "seen as soon as it is in");
            if round % 2 == 0 {
                let read = ReadOptions::default().snapshot(Some(before));
                let old = db.get_cf(&db.default_family(), format!("00499 load {}", round % 3), &read).unwrap();
                let expected = round.checked_sub(3).map(|round| round.to_string().into_bytes());
                assert_eq!(old.as_deref(), expected.as_deref());
            }
        }
        is_over.store(true, Ordering::Release);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<BTreeMap<_, _>>()
    });
    let last = |load: u32| (0..LOADS).rfind(|round| round % 3 == load).unwrap().to_string().into_bytes();
    let loaded = (0..500)
        .flat_map(|number| (0..3).map(move |load| (format!("{number:05} load {load}").into_bytes(), last(load))));
    let expected: BTreeMap<_, _> = written.into_iter().chain(loaded).collect();
    assert!(rows(&db) == expected);
    db.wait_for_background_work().unwrap();
    db.check().unwrap();
    db.close().unwrap();
    let db = Db::open(dir.path().join("db"), &options).unwrap();
    assert!(rows(&db) == expected);
}
