//! What the buffer pool of the B-tree engine does, by its counts: flushing, read-ahead, the resident set.

#![expect(clippy::unwrap_used, reason = "a test")]

use crate::support::explore::Extent;
use crate::support::{Life, explore_steps, new_disk, options, read_all, script};
use siltstone_base::engine::{Admin, Durability};
use siltstone_base::env::sim::{CrashConfig, CrashStates};
use siltstone_base::executor::Executor;
use siltstone_btree::{
    Counter, Db, DbOptions, Doublewrite, ErrorKind, FlushNeighbors, KvCursor, PageCompression, Shutdown,
    TransactionOptions,
};
use std::path::Path;
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
        let mut transaction = db.begin(&TransactionOptions::default()).unwrap();
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

const CODECS: [PageCompression; 3] = [PageCompression::Zlib, PageCompression::Lz4, PageCompression::Zstd];

#[test]
fn compressed_trees_take_fewer_blocks_and_read_the_same() {
    let fill = |compression: PageCompression| {
        let disk = new_disk();
        let options = DbOptions::default()
            .create_if_missing(true)
            .buffer_pool_bytes(64 * (16 << 10))
            .redo_capacity_bytes(4 << 20)
            .durability(Durability::Os)
            .page_compression(compression);
        let life = Life::new(&disk, &options);
        let db = life.open().unwrap();
        let plain = db.create_tree_with("plain", PageCompression::None).unwrap();
        for number in 0..6_000_u64 {
            db.put(scattered(number), vec![number as u8; 100]).unwrap();
            if number % 10 == 0 {
                db.put_in(&plain, scattered(number), vec![number as u8; 100]).unwrap();
            }
        }
        // Long values are pages too; replaced pages become shorter and longer.
        db.put("long", vec![9; 100_000]).unwrap();
        (0..1_000).for_each(|number| db.delete(scattered(number)).unwrap());
        db.flush().unwrap();
        let (compressed, written) = (count(&db, Counter::PagesCompressed), count(&db, Counter::PagesWritten));
        assert_eq!(compressed > 0, compression != PageCompression::None);
        assert!(count(&db, Counter::PageBytesWritten) <= written * (16 << 10));
        let (rows, report) = (read_all(&db).unwrap(), db.check().unwrap());
        let bytes = disk.env().allocated_bytes(Path::new("/db/000001.pages")).unwrap();
        let whole = disk.env().allocated_bytes(Path::new("/db/000004.pages")).unwrap();
        assert!(whole >= 9 * (16 << 10), "a tree of its own is stored as it was created: {whole}");
        assert!(db.stats().unwrap().space_bytes.unwrap() >= bytes + whole);
        // Killed, and closed: what is read comes from the disk.
        for is_killed in [true, false] {
            let after = if is_killed { disk.after_process_death() } else { disk.after_power_loss() };
            let again = Life::new(&after, &options.clone().page_compression(PageCompression::None)).open().unwrap();
            assert_eq!((read_all(&again).unwrap(), again.check().unwrap()), (rows.clone(), report));
            // Trees keep what they were created with.
            (0..600).for_each(|number| again.put(scattered(number * 7), [1; 90]).unwrap());
            again.flush().unwrap();
            assert_eq!(count(&again, Counter::PagesCompressed) > 0, compression != PageCompression::None);
            again.check().unwrap();
            again.close().unwrap();
        }
        db.close().unwrap();
        bytes
    };
    let plain = fill(PageCompression::None);
    for codec in CODECS {
        let compressed = fill(codec);
        assert!(compressed * 2 < plain, "{codec:?}: {compressed} of {plain} bytes");
    }
}

#[test]
fn compressed_pages_survive_every_crash() {
    let mut distinct = 0;
    for (seed, codec) in (61..).zip(CODECS) {
        let options = options(if seed == 61 { Durability::Commit } else { Durability::Os })
            .page_size(2048)
            .buffer_pool_bytes(64 * 2048)
            .redo_capacity_bytes(128 << 10)
            .page_compression(codec);
        let first = CrashConfig {
            seed,
            states_per_cut: 5,
            random_subsets: 3,
            tail_cuts: 2,
            tears: 4,
            ..CrashConfig::default()
        };
        let second = CrashConfig { states_per_cut: 4, random_subsets: 2, ..first.clone() };
        let extent = Extent { first, second_every: 60, second };
        let found = explore_steps(&script(seed, 220, 300, true), &options, &extent);
        let found = found.unwrap_or_else(|message| panic!("script {seed}, {codec:?}: {message}"));
        distinct += found.images.len();
    }
    println!("distinct crash states with compressed pages: {distinct}");
    assert!(distinct > 1_000, "{distinct}");
}

#[test]
fn damage_to_a_compressed_page_is_corruption() {
    let disk = new_disk();
    let options = options(Durability::Os)
        .page_size(2048)
        .buffer_pool_bytes(64 * 2048)
        .redo_capacity_bytes(1 << 20)
        .doublewrite(Doublewrite::Off)
        .page_compression(PageCompression::Zstd);
    let life = Life::new(&disk, &options);
    let db = life.open().unwrap();
    for number in 0..10_u64 {
        db.put(scattered(number), vec![3; 100]).unwrap();
    }
    db.close().unwrap();
    // The root: page 2.
    for offset in (0..512).step_by(7) {
        let damaged = disk.after_process_death();
        damaged.flip(Path::new("/db/000001.pages"), 2 * 2048 + offset, 0x10).unwrap();
        let db = Life::new(&damaged, &options).open().unwrap();
        let error = db.get(scattered(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "byte {offset}: {error}");
    }
}

/// A tree of about `pages` leaves whose pages lie in the order of their rows, in a database that was opened again.
fn in_order(pages: u64, options: &DbOptions) -> (Life, Db) {
    let disk = new_disk();
    let db = Life::new(&disk, options).open().unwrap();
    for number in 0..pages * 9 {
        db.put(ordered(number), [7; 30]).unwrap();
    }
    db.close().unwrap();
    let life = Life::new(&disk, options);
    let db = life.open().unwrap();
    (life, db)
}

fn ordered(number: u64) -> Vec<u8> {
    format!("row{number:08}").into_bytes()
}

/// Reads rows in a direction, and lets jobs run after each `pause` of them. Returns how many there were.
fn scan(life: &Life, db: &Db, is_forward: bool, most: usize, pause: usize) -> usize {
    let mut cursor = db.cursor().unwrap();
    let mut found = if is_forward { cursor.seek_to_first() } else { cursor.seek_to_last() }.unwrap();
    let mut rows = 0;
    while found && rows < most {
        rows += 1;
        if rows % pause == 0 {
            life.executor.run_until_idle();
        }
        found = if is_forward { cursor.next() } else { cursor.prev() }.unwrap();
    }
    rows
}

#[test]
fn scans_find_their_next_pages_in_memory() {
    let options = small_pool().buffer_pool_bytes(4096 * 512);
    for is_forward in [true, false] {
        let (life, db) = in_order(1_500, &options);
        let rows = scan(&life, &db, is_forward, usize::MAX, 1);
        assert_eq!(rows, 1_500 * 9);
        let [read, ahead, evicted] =
            [Counter::PagesRead, Counter::PagesReadAhead, Counter::PagesReadAheadEvicted].map(|c| count(&db, c));
        assert!(ahead * 10 > read * 8, "{ahead} of {read} pages were read ahead");
        assert_eq!(evicted, 0);
        // What was read ahead was used: a second scan reads nothing.
        scan(&life, &db, is_forward, usize::MAX, 1);
        assert!(
            count(&db, Counter::PagesRead) - read < 70,
            "only what lies behind the end of the file is looked for again"
        );
        db.close().unwrap();
    }
    for options in [options.clone().read_ahead_threshold(0), options.clone()] {
        // A scan that ends early, or that need not go far, reads nothing ahead.
        let (life, db) = in_order(1_500, &options);
        let most = if options.read_ahead_threshold == 0 { usize::MAX } else { 300 };
        scan(&life, &db, true, most, 1);
        assert_eq!(count(&db, Counter::PagesReadAhead), 0);
        db.close().unwrap();
    }
}

#[test]
fn pages_around_those_in_use_are_read_if_that_is_wanted() {
    let read_ahead = |random: bool| {
        let (life, db) = in_order(1_500, &small_pool().buffer_pool_bytes(4096 * 512).random_read_ahead(random));
        for number in 0..1_500 {
            db.get(ordered(number * 7_919 % 13_500)).unwrap();
            life.executor.run_until_idle();
        }
        let ahead = count(&db, Counter::PagesReadAhead);
        db.close().unwrap();
        ahead
    };
    assert_eq!(read_ahead(false), 0);
    assert!(read_ahead(true) > 50, "{}", read_ahead(true));
}

#[test]
fn a_scan_larger_than_the_pool_leaves_what_is_young() {
    let (life, db) = in_order(3_000, &small_pool().buffer_pool_bytes(512 * 512));
    // The pool is full, then a few leaves are used again and again.
    scan(&life, &db, true, usize::MAX, 50);
    let hot = || (0..60).for_each(|number| drop(db.get(ordered(number * 211)).unwrap()));
    for _ in 0..3 {
        hot();
        life.executor.sleep(Duration::from_millis(1_500));
    }
    let before = count(&db, Counter::PagesRead);
    hot();
    assert_eq!(count(&db, Counter::PagesRead), before, "all of them are here");
    scan(&life, &db, true, usize::MAX, 50);
    scan(&life, &db, false, usize::MAX, 50);
    let before = count(&db, Counter::PagesRead);
    hot();
    assert_eq!(count(&db, Counter::PagesRead), before, "two scans of six times the pool took none of them away");
    db.close().unwrap();
}

#[test]
fn the_resident_set_comes_back() {
    let options = small_pool()
        .buffer_pool_bytes(512 * 512)
        .buffer_pool_dump_at_shutdown(true)
        .buffer_pool_load_at_startup(true)
        .io_capacity(1_000);
    let disk = new_disk();
    let life = Life::new(&disk, &options);
    let db = life.open().unwrap();
    assert_eq!((db.load_pool().unwrap(), db.startup_report().pool_pages), (0, 0), "there is no file yet");
    for number in 0..9_000 {
        db.put(ordered(number), [7; 30]).unwrap();
    }
    let rows: Vec<Vec<u8>> = (0..9_000).map(ordered).filter(|key| key.ends_with(b"3")).take(100).collect();
    rows.iter().for_each(|key| drop(db.get(key).unwrap()));
    let report = db.shut_down(Shutdown::Fast).unwrap();
    assert!(report.dumped_pages.is_some_and(|pages| pages > 400) && report.pages_written > 0, "{report:?}");

    let reads = |disk: &siltstone_base::env::sim::SimDisk, options: &DbOptions| {
        let life = Life::new(disk, options);
        let db = life.open().unwrap();
        let wanted = db.startup_report();
        assert_eq!(wanted.pool.is_none(), wanted.pool_pages > 0);
        life.executor.sleep(Duration::from_secs(2));
        let restored = count(&db, Counter::PagesRestored);
        assert!(db.startup_report().pool.is_some());
        let before = count(&db, Counter::PagesRead);
        rows.iter().for_each(|key| drop(db.get(key).unwrap()));
        (wanted.pool_pages, restored, count(&db, Counter::PagesRead) - before)
    };
    let (wanted, restored, read) = reads(&disk.after_power_loss(), &options);
    assert!(wanted > 400 && restored > 400 && read == 0, "{wanted} wanted, {restored} restored, {read} read later");
    let (_, restored, read) = reads(&disk.after_power_loss(), &options.clone().buffer_pool_load_at_startup(false));
    assert!(restored == 0 && read > 10, "{restored} restored, {read} read later");
    // A smaller pool takes what it can hold and gives nothing up for it.
    let (_, restored, _) = reads(&disk.after_power_loss(), &options.clone().buffer_pool_bytes(128 * 512));
    assert!((64..=128).contains(&restored), "{restored}");
    // Damage costs nothing but time.
    let damaged = disk.after_power_loss();
    damaged.flip(Path::new("/db/RESIDENT"), 40, 1).unwrap();
    assert_eq!(reads(&damaged, &options).0, 0);
    let only_some = options.clone().buffer_pool_dump_percent(10);
    let db = Life::new(&disk.after_power_loss(), &only_some).open().unwrap();
    assert!(db.dump_pool().unwrap() < 60);
    db.close().unwrap();
}

#[test]
fn the_beginning_and_the_end_are_reported() {
    let disk = new_disk();
    let options = small_pool().buffer_pool_bytes(512 * 512);
    let life = Life::new(&disk, &options);
    let db = life.open().unwrap();
    let mut transaction = db.begin(&TransactionOptions::default()).unwrap();
    for number in 0..200 {
        db.put(ordered(number), [7; 30]).unwrap();
        transaction.put(ordered(1_000 + number), [8; 30]).unwrap();
    }
    db.sync().unwrap();
    let crashed = disk.after_power_loss();
    drop(transaction);
    db.close().unwrap();

    let life = Life::new(&crashed, &options);
    let db = life.open().unwrap();
    let report = db.startup_report();
    assert!(report.redo_bytes > 5_000 && report.redo_changes > 200, "{report:?}");
    assert_eq!((report.unfinished_transactions, report.rollback), (1, None));
    life.executor.sleep(Duration::from_millis(10));
    assert!(db.startup_report().rollback.is_some());
    // History: rows that a transaction replaced and removed.
    let history = |db: &Db| {
        let mut transaction = db.begin(&TransactionOptions::default()).unwrap();
        (0..100).for_each(|number| transaction.delete(ordered(number)).unwrap());
        transaction.commit().unwrap();
    };
    history(&db);
    let closed = db.shut_down(Shutdown::Fast).unwrap();
    assert!(closed.pages_written > 0 && closed.dumped_pages.is_none(), "{closed:?}");
    let fast = Life::new(&crashed.after_power_loss(), &options).open().unwrap();
    assert!(fast.check().unwrap().undo_records > 100, "history waits for the next life");
    assert_eq!(fast.startup_report().redo_changes, 0);
    fast.shut_down(Shutdown::Slow).unwrap();
    let slow = Life::new(&crashed.after_power_loss(), &options).open().unwrap();
    let _ = slow.close();
}

#[test]
fn the_redo_log_takes_another_capacity_whatever_happens_meanwhile() {
    let small = options(Durability::Commit).buffer_pool_bytes(128 * 512);
    let (mut states, mut larger) = (0, 0);
    for (from, to) in [(48_u64 << 10, 100_u64 << 10), (100 << 10, 48 << 10)] {
        let disk = new_disk();
        let db = Life::new(&disk, &small.clone().redo_capacity_bytes(from)).open().unwrap();
        (0..700).for_each(|number| db.put(ordered(number), [7; 30]).unwrap());
        let rows = read_all(&db).unwrap();
        db.close().unwrap();
        disk.start_recording();
        let next = small.clone().redo_capacity_bytes(to);
        let db = Life::new(&disk, &next).open().unwrap();
        assert_eq!(read_all(&db).unwrap(), rows);
        // More than the smaller of the two holds: it turns.
        (0..1_500).for_each(|number| db.put(ordered(number), [8; 30]).unwrap());
        let recording = disk.take_recording();
        db.close().unwrap();
        let len =
            |disk: &siltstone_base::env::sim::SimDisk| disk.env().allocated_bytes(Path::new("/db/redo-0.log")).unwrap();
        assert_eq!(len(&disk) > 48 << 10, to > from, "{}", len(&disk));
        let config =
            CrashConfig { cuts: 0..60, states_per_cut: 6, random_subsets: 3, tail_cuts: 2, ..CrashConfig::default() };
        for state in CrashStates::new(&recording, config) {
            let Some(disk) = state.disk() else { continue };
            // With the new capacity, and by somebody who has not heard of it.
            for options in [&next, &small.clone().redo_capacity_bytes(from)] {
                let disk = disk.after_power_loss();
                let db = Life::new(&disk, options).open().unwrap_or_else(|error| {
                    panic!("crash after change {} ({:?}), model {}: {error}", state.cut, state.op, state.model.code())
                });
                let found = read_all(&db).unwrap();
                assert!(found["default"].len() >= 700, "{}", found["default"].len());
                db.check().unwrap();
                db.close().unwrap();
                assert!(!disk.env().exists(Path::new("/db/redo-0.new")).unwrap());
                states += 1;
                larger += usize::from(len(&disk) > 48 << 10);
            }
        }
    }
    assert!(states > 100 && larger > 30 && larger < states - 30, "{larger} of {states}");
}
