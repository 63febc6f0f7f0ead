//! Trees that are truncated or loaded while others use them.

use super::super::Db;
use super::super::tests::{Map, new_disk, open_on, options, rows};
use crate::{Counter, DbOptions, Isolation, KvCursor, TransactionOptions};
use siltstone_base::ErrorKind;
use siltstone_base::engine::Admin;

fn key(number: u32) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

fn value(number: u32) -> Vec<u8> {
    let len = if number % 50 == 7 { 900 + number % 700 } else { number % 90 };
    (0..len).map(|byte| (byte + number) as u8).collect()
}

fn model(count: u32) -> Map {
    (0..count).map(|number| (key(number), value(number))).collect()
}

fn space(db: &Db) -> u64 {
    db.flush().unwrap();
    Admin::stats(db).unwrap().space_bytes.unwrap()
}

#[test]
fn a_loaded_tree_has_its_rows_and_goes_on_as_any_other() {
    for (page, frames) in [(512, 64), (4096, 64), (16 << 10, 64)] {
        let disk = new_disk();
        let options = options().page_size(page).buffer_pool_bytes(frames * page).redo_capacity_bytes(4 << 20);
        let mut db = open_on(&disk, &options).unwrap();
        for count in [0, 1, 2, 5_000] {
            let tree = db.default_tree();
            db.truncate(&tree).unwrap();
            let model = model(count);
            let redo = db.metrics().get(Counter::RedoBytes);
            let report = db.bulk_load(&tree, &model).unwrap();
            assert!(db.metrics().get(Counter::RedoBytes) - redo < 600, "rows are not logged");
            assert_eq!(report.rows, u64::from(count));
            assert_eq!(rows(&db), model);
            let checked = db.check().unwrap();
            assert_eq!((checked.rows, checked.lost_pages, checked.free_pages), (u64::from(count), 0, 0));
            let pages = (checked.leaf_pages, checked.inner_pages, checked.overflow_pages);
            assert_eq!(pages, (report.leaf_pages, report.inner_pages, report.overflow_pages));
            for number in 0..count {
                assert_eq!(db.get(key(number)).unwrap(), Some(value(number)));
            }
        }
        let mut model = model(5_000);
        for number in (0..5_000).step_by(3) {
            db.put(key(number), b"changed").unwrap();
            model.insert(key(number), b"changed".to_vec());
            db.put([key(number), b"x".to_vec()].concat(), b"between").unwrap();
            model.insert([key(number), b"x".to_vec()].concat(), b"between".to_vec());
            db.delete(key(number + 1)).unwrap();
            model.remove(&key(number + 1));
        }
        db.check().unwrap();
        drop(db);
        db = open_on(&disk, &options).unwrap();
        assert_eq!(rows(&db), model);
        model.keys().for_each(|key| db.delete(key).unwrap());
        let checked = db.check().unwrap();
        assert_eq!((checked.rows, checked.lost_pages, checked.levels), (0, 0, 1), "{checked:?}");
    }
}

#[test]
fn pages_are_filled_as_far_as_the_option_says() {
    for percent in [50, 94, 100] {
        let options = DbOptions::default()
            .create_if_missing(true)
            .page_size(4096)
            .buffer_pool_bytes(64 * 4096)
            .bulk_fill_percent(percent);
        let db = open_on(&new_disk(), &options).unwrap();
        let tree = db.create_tree("tree").unwrap();
        let report = db.bulk_load(&tree, (0..20_000_u32).map(|number| (number.to_be_bytes(), [1; 30]))).unwrap();
        let checked = db.check().unwrap();
        let full = (checked.leaf_bytes_used * 100).div_ceil(report.leaf_pages * (4096 - 104));
        assert!((percent as u64 - 2..=percent as u64).contains(&full), "{full} of {percent}");
        assert!(checked.levels > 2 || percent == 100, "{checked:?}");
    }
    let error = open_on(&new_disk(), &options().bulk_fill_percent(49)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn rows_that_can_t_be_loaded_leave_the_tree_empty_and_no_file() {
    let disk = new_disk();
    let db = open_on(&disk, &options()).unwrap();
    let tree = db.create_tree("tree").unwrap();
    let before = space(&db);
    let mut disordered: Vec<_> = model(3_000).into_iter().collect();
    disordered.swap(2_500, 2_501);
    let mut twice: Vec<_> = model(100).into_iter().collect();
    twice.push(twice[99].clone());
    let long_key = vec![(vec![0; 65], Vec::new())];
    let long_value = vec![(vec![0; 5], vec![0; 1 << 20])];
    let limit = ErrorKind::LimitExceeded;
    for (rows, kind) in [
        (disordered, ErrorKind::InvalidArgument),
        (twice, ErrorKind::InvalidArgument),
        (long_key, limit),
        (long_value, limit),
    ] {
        assert_eq!(db.bulk_load(&tree, rows).unwrap_err().kind(), kind);
        assert!(db.tree("tree").is_some() && db.get_in(&tree, key(1)).unwrap().is_none());
        assert!(space(&db) <= before + 4096);
    }
    db.put_in(&tree, b"k", b"v").unwrap();
    assert_eq!(db.bulk_load(&tree, model(10)).unwrap_err().kind(), ErrorKind::AlreadyExists);
    db.delete_in(&tree, b"k").unwrap();
    // Somebody writes while the rows are asked for.
    let rows = model(500).into_iter().inspect(|(key, _)| {
        if key.ends_with(b"400") {
            db.put_in(&tree, b"k", b"v").unwrap();
        }
    });
    assert_eq!(db.bulk_load(&tree, rows).unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(db.get_in(&tree, b"k").unwrap(), Some(b"v".to_vec()));
    db.delete_in(&tree, b"k").unwrap();
    let rows = model(500).into_iter().inspect(|(key, _)| assert!(!key.ends_with(b"400"), "the caller panics"));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| db.bulk_load(&tree, rows)));
    assert!(panicked.is_err());
    assert!(space(&db) <= before + 4096);
    let rows = model(500).into_iter().inspect(|(key, _)| {
        if key.ends_with(b"400") {
            db.drop_tree("tree").unwrap();
        }
    });
    assert_eq!(db.bulk_load(&tree, rows).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(db.bulk_load(&tree, model(5)).is_err_and(|error| error.kind() == ErrorKind::NotFound));
    drop((db, tree));
    let db = open_on(&disk, &options()).unwrap();
    assert_eq!(db.tree_names(), ["default"]);
    db.check().unwrap();
}

#[test]
fn truncating_gives_space_back_and_leaves_handles_as_they_are() {
    let disk = new_disk();
    let mut db = open_on(&disk, &options()).unwrap();
    let empty = space(&db);
    for round in 0..9_u32 {
        let tree = db.default_tree();
        let rows_of_round = 50 + 200 * round;
        for number in 0..rows_of_round {
            db.put(key(number), value(number)).unwrap();
        }
        let mut cursor = db.cursor().unwrap();
        assert!(cursor.seek_to_first().unwrap());
        assert!(rows_of_round < 1000 || space(&db) > empty + 100_000);
        db.truncate(&tree).unwrap();
        assert!(space(&db) <= empty + 8192, "{} after {empty}", space(&db));
        assert_eq!(cursor.seek_to_first().unwrap_err().kind(), ErrorKind::NotFound);
        assert!(!db.cursor().unwrap().seek_to_first().unwrap());
        assert_eq!(db.get_in(&tree, key(3)).unwrap(), None);
        db.put_in(&tree, b"new", round.to_string()).unwrap();
        assert_eq!(db.get(b"new").unwrap(), Some(round.to_string().into_bytes()));
        if round % 3 == 2 {
            drop((cursor, tree, db));
            db = open_on(&disk, &options()).unwrap();
            assert_eq!(rows(&db), Map::from([(b"new".to_vec(), round.to_string().into_bytes())]));
        }
        db.delete(b"new").unwrap();
        db.check().unwrap();
    }
    let tree = db.create_tree("tree").unwrap();
    db.drop_tree("tree").unwrap();
    assert_eq!(db.truncate(&tree).unwrap_err().kind(), ErrorKind::NotFound);
    let names = disk.env().list_dir(std::path::Path::new("/db")).unwrap();
    assert_eq!(names.iter().filter(|entry| entry.name.ends_with(".pages")).count(), 4);
}

#[test]
fn open_transactions_lose_what_they_changed_in_a_tree_that_is_emptied_or_dropped() {
    for is_dropped in [false, true] {
        for ending in 0..4 {
            let disk = new_disk();
            let db = open_on(&disk, &options()).unwrap();
            let tree = db.create_tree("tree").unwrap();
            for number in 0..40 {
                db.put_in(&tree, key(number), value(number)).unwrap();
                db.put(key(number), b"kept").unwrap();
            }
            let mut transaction = db.begin(&TransactionOptions::new(Isolation::ReadCommitted)).unwrap();
            for number in 0..40 {
                match number % 3 {
                    0 => transaction.put_in(&tree, key(number), vec![9; 1200]).unwrap(),
                    1 => transaction.delete_in(&tree, key(number)).unwrap(),
                    _ => transaction.put_in(&tree, key(100 + number), b"new").unwrap(),
                }
                transaction.put(key(number), b"changed").unwrap();
            }
            let mut old = db.begin(&TransactionOptions::new(Isolation::Snapshot)).unwrap();
            if is_dropped {
                db.drop_tree("tree").unwrap();
                assert_eq!(transaction.put_in(&tree, b"k", b"v").unwrap_err().kind(), ErrorKind::NotFound);
                assert_eq!(old.get_in(&tree, key(1)).unwrap_err().kind(), ErrorKind::NotFound);
            } else {
                db.truncate(&tree).unwrap();
                for error in [
                    old.get_in(&tree, key(1)).unwrap_err(),
                    old.put_in(&tree, key(1), b"v").unwrap_err(),
                    old.get_for_update_in(&tree, key(1)).unwrap_err(),
                    old.cursor_in(&tree).unwrap_err(),
                ] {
                    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                }
                // The locks are gone with the rows, and the transaction goes on.
                db.put_in(&tree, key(0), b"after").unwrap();
                transaction.put_in(&tree, key(1), b"its own").unwrap();
                assert_eq!(transaction.get_in(&tree, key(2)).unwrap(), None);
            }
            let is_committed = ending == 0;
            drop(old);
            let (mut db, tree) = match ending {
                0 => {
                    transaction.commit().unwrap();
                    (db, tree)
                }
                1 => {
                    transaction.rollback().unwrap();
                    (db, tree)
                }
                2 => {
                    drop(transaction);
                    (db, tree)
                }
                _ => {
                    db.sync().unwrap();
                    let after = disk.after_process_death();
                    drop((transaction, tree, db));
                    let db = open_on(&after, &options()).unwrap();
                    let tree = db.tree("tree").unwrap_or_else(|| db.default_tree());
                    (db, tree)
                }
            };
            db.settle().unwrap();
            assert_eq!((db.history_len(), db.rolling_back_len()), (0, 0));
            let report = db.check().unwrap();
            // The number of the next transaction is all that the undo log still has.
            assert_eq!((report.lost_pages, report.undo_records, report.kept_pages), (0, 1, 0), "{report:?}");
            let expected = if is_committed { &b"changed"[..] } else { b"kept" };
            assert_eq!(db.get(key(5)).unwrap().as_deref(), Some(expected));
            if !is_dropped {
                assert_eq!(db.get_in(&tree, key(0)).unwrap().as_deref(), Some(&b"after"[..]));
                let own = db.get_in(&tree, key(1)).unwrap();
                assert_eq!(own, is_committed.then(|| b"its own".to_vec()));
            }
            db = open_on(&disk_of(&disk, db), &options()).unwrap();
            db.check().unwrap();
        }
    }
}

/// The disk once the database is closed.
fn disk_of(disk: &siltstone_base::env::sim::SimDisk, db: Db) -> siltstone_base::env::sim::SimDisk {
    let is_first = db.close().is_ok();
    drop(db);
    assert!(is_first);
    disk.clone()
}

#[test]
fn readers_of_a_tree_that_is_emptied_again_and_again_see_all_or_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let options = options().buffer_pool_bytes(256 * 512).redo_capacity_bytes(1 << 20);
    let db = Db::open(dir.path(), &options).unwrap();
    let tree = db.create_tree("tree").unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers = [0, 1].map(|_| {
            scope.spawn(|| {
                let mut found = 0_u64;
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    for number in 0..600 {
                        if let Some(seen) = db.get_in(&tree, key(number)).unwrap() {
                            assert_eq!(seen, value(number));
                            found += 1;
                        }
                    }
                    let mut cursor = db.cursor_in(&tree).unwrap();
                    let mut seen = 0;
                    let mut outcome = cursor.seek_to_first();
                    while let Ok(true) = outcome {
                        seen += 1;
                        outcome = cursor.next();
                    }
                    match outcome {
                        Ok(_) => assert!(seen == 0 || seen == 600, "{seen}"),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
                    }
                }
                found
            })
        });
        for _ in 0..40 {
            db.bulk_load(&tree, model(600)).unwrap();
            db.truncate(&tree).unwrap();
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        let found: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        println!("{found} rows found");
    });
    db.check().unwrap();
    db.close().unwrap();
}

#[test]
fn the_number_of_a_tablespace_that_a_crash_left_without_a_name_may_come_again() {
    let disk = new_disk();
    drop(open_on(&disk, &options()).unwrap());
    // The file is there, and what the log would have said of it is lost.
    let path = std::path::Path::new("/db/000003.pages");
    let file = siltstone_base::env::FileOptions::new(siltstone_base::env::FileKind::Page);
    disk.env().open_random_write(path, &file).unwrap();
    let db = open_on(&disk, &options()).unwrap();
    let tree = db.create_tree("tree").unwrap();
    db.put_in(&tree, key(1), value(1)).unwrap();
    db.sync().unwrap();
    drop((db, tree));
    let db = open_on(&disk.after_process_death(), &options()).unwrap();
    assert_eq!(db.get_in(&db.tree("tree").unwrap(), key(1)).unwrap(), Some(value(1)));
    db.check().unwrap();
}
