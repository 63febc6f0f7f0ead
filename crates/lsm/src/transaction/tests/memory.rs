//! What transactions hold in memory is charged, and the report of holders names it.

use super::{family_options, on, options};
use crate::{BlockCache, Isolation, OptimisticTransactionDb, ReadOptions, TransactionDb, TransactionDbOptions};
use siltstone_base::env::sim::SimDisk;
use std::sync::Arc;

const CACHE: [usize; 2] = [2 << 20, 3 << 20];

fn cache() -> Arc<BlockCache> {
    Arc::new(BlockCache::new(CACHE[0]).with_compressed_tier(CACHE[1]))
}

fn open(disk: &SimDisk, cache: &Arc<BlockCache>, limit: usize) -> TransactionDb {
    let options = options(disk).block_cache(Some(Arc::clone(cache)));
    let transactions = TransactionDbOptions::default().max_transaction_bytes(limit);
    TransactionDb::open("/db", &options, &[("default", family_options())], &transactions).unwrap()
}

/// Fills the cache by reading more than it holds.
fn fill_cache(db: &TransactionDb) {
    let text = "a row that can be compressed, ".repeat(6);
    if db.db().get("row00000").unwrap().is_none() {
        for number in 0..40_000 {
            db.db().put(format!("row{number:05}"), format!("{number}{text}")).unwrap();
        }
        db.db().flush(&Default::default()).unwrap();
    }
    for _ in 0..2 {
        let mut iter = db.db().iter(&ReadOptions::default()).unwrap();
        iter.seek_to_first();
        while iter.valid() {
            iter.next();
        }
        iter.status().unwrap();
    }
}

#[test]
fn prepared_transactions_are_charged_until_somebody_decides() {
    let (disk, cache) = (SimDisk::new(), cache());
    let db = open(&disk, &cache, 1 << 20);
    fill_cache(&db);
    let full = db.db().memory_report();
    assert_eq!((full.prepared_transactions, full.row_locks, cache.charged()), (0, 0, 0));
    assert!(cache.usage() > CACHE[0] / 2 && cache.compressed_usage() > CACHE[1] / 8, "{full}");
    for number in 0..20 {
        let mut one = db.begin(&on(Isolation::ReadCommitted));
        one.put(format!("prepared{number}"), vec![number; 100_000]).unwrap();
        one.prepare([number]).unwrap();
    }
    let check = |db: &TransactionDb| {
        let report = db.db().memory_report();
        assert!((2_000_000..2_100_000).contains(&report.prepared_transactions), "{report}");
        assert_eq!(report.prepared_transactions, cache.charged() as u64);
        assert_eq!(report.transactions, 0, "{report}");
        assert!(report.row_locks > 0, "{report}");
        assert!(report.to_string().contains("prepared transactions"), "{report}");
        let held = cache.usage() + cache.compressed_usage() + cache.charged();
        assert!(held <= CACHE[0] + CACHE[1] + (64 << 10), "{report}");
    };
    check(&db);
    fill_cache(&db);
    check(&db);
    // What was prepared in an earlier life is held as well.
    db.close().unwrap();
    assert_eq!(cache.charged(), 0);
    let db = open(&disk, &cache, 1 << 20);
    fill_cache(&db);
    check(&db);
    for number in 0..20 {
        match number % 2 {
            0 => db.commit_prepared([number]).unwrap(),
            _ => db.rollback_prepared([number]).unwrap(),
        }
    }
    let report = db.db().memory_report();
    assert_eq!((report.prepared_transactions, report.row_locks, cache.charged()), (0, 0, 0));
    assert_eq!((cache.capacity(), cache.compressed_capacity()), (CACHE[0], CACHE[1]));
    fill_cache(&db);
    assert!(cache.usage() > CACHE[0] / 2);
}

/// However large a transaction is, it holds about twice its limit.
#[test]
fn what_an_open_transaction_holds_is_bounded_and_charged() {
    const LIMIT: usize = 256 << 10;
    let (disk, cache) = (SimDisk::new(), cache());
    let db = open(&disk, &cache, LIMIT);
    let mut one = db.begin(&on(Isolation::Snapshot));
    let (mut most, mut place) = (0, None);
    for number in 0..40_000_u32 {
        one.put(number.wrapping_mul(0x9E37_79B9).to_be_bytes(), [number as u8; 200]).unwrap();
        if number % 100 == 0 {
            let report = db.db().memory_report();
            most = most.max(report.transactions);
            assert_eq!(report.transactions, cache.charged() as u64);
            assert!(report.row_locks > 0);
        }
        if number == 20_000 {
            place = Some(one.savepoint());
        }
    }
    assert!(one.size_bytes() > 30 * LIMIT, "{}", one.size_bytes());
    // What goes into the WAL and the memtable that reads ask: never three times.
    assert!((LIMIT as u64..3 * LIMIT as u64).contains(&most), "{most}");
    one.rollback_to(place.unwrap()).unwrap();
    one.commit().unwrap();
    let report = db.db().memory_report();
    assert_eq!((report.transactions, report.row_locks, cache.charged()), (0, 0, 0), "{report}");
    assert_eq!(db.db().iter(&ReadOptions::default()).map(count).unwrap(), 20_001);
}

fn count(mut iter: crate::Iter) -> usize {
    let mut count = 0;
    iter.seek_to_first();
    while iter.valid() {
        count += 1;
        iter.next();
    }
    count
}

#[test]
fn keys_that_are_watched_are_charged() {
    let (disk, cache) = (SimDisk::new(), cache());
    let options = options(&disk).block_cache(Some(Arc::clone(&cache)));
    let db = OptimisticTransactionDb::open("/db", &options, &[], &TransactionDbOptions::default()).unwrap();
    let mut one = db.begin(&on(Isolation::Snapshot));
    for number in 0..1_000_u32 {
        one.get_for_update(number.to_be_bytes()).unwrap();
    }
    assert!((100_000..200_000).contains(&db.db().memory_report().transactions));
    one.commit().unwrap();
    assert_eq!((db.db().memory_report().transactions, cache.charged()), (0, 0));
}
