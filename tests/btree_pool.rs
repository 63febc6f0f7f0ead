//! What the buffer pool of the B-tree engine does, by its counts: flushing, read-ahead, the resident set.

mod btree_support;

use btree_support::{Life, new_disk, options};
use siltstone_base::engine::Durability;
use siltstone_base::executor::Executor;
use siltstone_btree::{Counter, Db, DbOptions, FlushNeighbors};
use std::time::Duration;

/// A key anywhere.
fn scattered(number: u64) -> Vec<u8> {
    format!("row{:08}", number.wrapping_mul(2_654_435_761) % 100_000_000).into_bytes()
}

fn count(db: &Db, counter: Counter) -> u64 {
    db.metrics().get(counter)
}

/// A pool that is smaller than the tree, and no other reason to write pages.
fn small_pool() -> DbOptions {
    options(Durability::Os).buffer_pool_bytes(256 * 512).redo_capacity_bytes(16 << 20)
}

#[test]
fn the_page_cleaner_keeps_frames_ready_for_who_needs_them() {
    let run = |pause: bool| {
        let life = Life::new(&new_disk(), &small_pool());
        let db = life.open().unwrap();
        for number in 0..6_000 {
            db.put(scattered(number), [7; 30]).unwrap();
            if pause && number % 4 == 0 {
                life.executor.sleep(Duration::from_millis(10));
            }
        }
        assert!(count(&db, Counter::PagesEvicted) > 2_000);
        let foreground = count(&db, Counter::ForegroundFlushes);
        db.check().unwrap();
        db.close().unwrap();
        foreground
    };
    let (without, with) = (run(false), run(true));
    assert!(without > 50, "where the page cleaner never runs, callers write pages: {without}");
    assert!(with <= 2, "callers wrote pages {with} times");
}

#[test]
fn neighbors_go_along() {
    let first_batch = |neighbors: FlushNeighbors| {
        let options = small_pool()
            .buffer_pool_bytes(2048 * 512)
            .flush_neighbors(neighbors)
            .io_capacity(10)
            .io_capacity_max(10)
            .max_dirty_pages_percent(1);
        let life = Life::new(&new_disk(), &options);
        let db = life.open().unwrap();
        for number in 0..3_000_u64 {
            db.put(format!("row{number:08}"), [7; 30]).unwrap();
        }
        let before = count(&db, Counter::PagesWritten);
        for _ in 0..10_000 {
            life.executor.sleep(Duration::from_millis(10));
            if count(&db, Counter::PagesWritten) > before {
                break;
            }
        }
        let written = count(&db, Counter::PagesWritten) - before;
        life.executor.sleep(Duration::from_secs(60));
        let in_a_minute = count(&db, Counter::PagesWritten) - before;
        assert!((150..=700).contains(&in_a_minute), "about ten pages a second: {in_a_minute}");
        db.check().unwrap();
        db.close().unwrap();
        written
    };
    assert_eq!(first_batch(FlushNeighbors::None), 1);
    assert!(first_batch(FlushNeighbors::Adjacent) > 8, "pages that were filled in order lie next to each other");
    assert!(first_batch(FlushNeighbors::Extent) > 8);
}

#[test]
fn writers_read_their_pages_before_they_take_the_lock() {
    let disk = new_disk();
    let life = Life::new(&disk, &small_pool());
    let db = life.open().unwrap();
    for number in 0..10_000_u64 {
        db.put(scattered(number), [7; 30]).unwrap();
    }
    let counts = || [Counter::PagesRead, Counter::PagesReadByWriter].map(|counter| count(&db, counter));
    // Rows of one operation, batches and transactions, all of pages that are mostly not here.
    let before = counts();
    for number in 0..1_000_u64 {
        db.put(scattered(number * 7 % 10_000), [8; 30]).unwrap();
    }
    let singles = counts();
    for number in 0..200_u64 {
        let mut batch = siltstone_btree::WriteBatch::new();
        (0..5).for_each(|row| batch.put(scattered((number * 31 + row * 1_987) % 10_000), [5; 30]));
        db.write(&batch).unwrap();
    }
    let batches = counts();
    for number in 0..300_u64 {
        let mut transaction = db.begin(&siltstone_btree::TransactionOptions::default()).unwrap();
        transaction.put(scattered(number * 13 % 10_000), [9; 30]).unwrap();
        transaction.commit().unwrap();
    }
    let transactions = counts();
    for (from, to) in [(before, singles), (singles, batches), (batches, transactions)] {
        let (read, late) = (to[0] - from[0], to[1] - from[1]);
        assert!(read > 150 && late * 50 <= read, "{late} of {read} pages were read under the lock of writers");
    }
    db.check().unwrap();
    db.close().unwrap();
}
