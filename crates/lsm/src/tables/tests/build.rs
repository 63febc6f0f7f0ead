//! Indexes that are added and dropped.

use super::*;
use siltstone_base::index_spec::LazyIndexSpec;
use std::sync::atomic::{AtomicBool, Ordering};

fn sound(db: &TableDb, table: impl Into<AnyTableId>, rows: u64) {
    for check in db.check_table(table).unwrap() {
        assert!(check.is_sound() && check.missing == 0, "{check:?}");
        assert!(check.entries - check.stale == rows, "{check:?}");
    }
}

#[test]
fn an_added_index_has_the_rows_that_were_there() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let mut wanted = spec("t", 2);
    let table = db.create_table(&spec("t", 1)).unwrap();
    let names: Vec<_> = (0..300).map(|i| (format!("{i:03}"), format!("{:03}", i * 7 % 300))).collect();
    db.insert(table, &names.iter().map(|(key, value)| row(key, value)).collect::<Vec<_>>()).unwrap();
    let before = db.snapshot();
    assert_eq!(db.add_index(table, &wanted.indexes[1]).unwrap(), 1);
    sound(&db, table, 300);
    let scan_before = db.scan_entries(table, 1, &IndexScan::all().at(&before), &mut |_| {});
    assert_eq!(scan_before.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.scan_entries(table, 1, &IndexScan::all().at(&db.snapshot()), &mut |_| {}).unwrap(), 300);
    db.update(table, &[(row("000", "000"), row("000", "777"))]).unwrap();
    wanted.indexes.push(IndexSpec::over_columns("unique", Some(0..3)).unique(true));
    assert_eq!(db.add_index(table, &wanted.indexes[2]).unwrap(), 2);
    sound(&db, table, 300);
    assert_eq!(db.insert(table, &[row("new", "777")]).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(db.add_index(table, &wanted.indexes[1]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    db.close().unwrap();

    let db = open(dir.path());
    assert_eq!(db.open_table(&spec("t", 2)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.open_table(&wanted).unwrap(), table);
    sound(&db, table, 300);
    db.drop_index(table, "by_0").unwrap();
    assert_eq!(db.drop_index(table, "by_0").unwrap_err().kind(), ErrorKind::NotFound);
    wanted.indexes.remove(0);
    assert_eq!(db.open_table(&wanted).unwrap(), table);
    assert!(scan(&db, table, 0, "77", 1)[0].starts_with("77"));
    sound(&db, table, 300);
    db.reclaim().unwrap();
    assert!(stored(&db, &db.rows).iter().all(|key| IndexId::of_key(key) != Some(IndexId(table.0 + 1))));
}

#[test]
fn an_index_that_cannot_be_made_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&spec("t", 1)).unwrap();
    insert(&db, table, &[("1", "abc"), ("2", "abd"), ("3", "xyz")]);
    let error = db.add_index(table, &IndexSpec::over_columns("unique", Some(0..2)).unique(true)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("unique index unique of table t: row 1,"), "{error}");
    assert_eq!(db.scan_index(table, 1, b"", 9, &mut |_| {}).unwrap_err().kind(), ErrorKind::NotFound);
    insert(&db, table, &[("4", "abc")]);
    sound(&db, table, 4);
    db.close().unwrap();
    let db = open(dir.path());
    db.open_table(&spec("t", 1)).unwrap();
    db.reclaim().unwrap();
    let ids: std::collections::BTreeSet<_> =
        stored(&db, &db.rows).iter().map(|key| IndexId::of_key(key).unwrap().0).collect();
    assert_eq!(ids, [table.0, table.0 + 1].into());
}

#[test]
fn rows_change_while_an_index_is_added() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&spec("t", 1)).unwrap();
    let lazy = LazyTableSpec { name: "lazy".to_owned(), indexes: Vec::new() };
    let lazy = db.create_lazy_table(&lazy).unwrap();
    let value = |key: usize, round: usize| format!("{:03}{round:03}", (key * 7 + round) % 1000);
    let name = |key: usize| format!("{key:03}");
    for key in 0..400 {
        db.insert(table, &[row(&name(key), &value(key, 0))]).unwrap();
        db.upsert(lazy, &[row(&name(key), &value(key, 0))]).unwrap();
    }
    let (is_over, has_begun) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (db, is_over, has_begun) = (&db, &is_over, &has_begun);
            scope.spawn(move || {
                // Each thread has rows of its own; a row is deleted in every third round.
                for round in 1.. {
                    if is_over.load(Ordering::Relaxed) && round > 3 {
                        break;
                    }
                    for key in (thread..400).step_by(2) {
                        let (old, new) = (value(key, round - 1), value(key, round));
                        let key = name(key);
                        match round % 3 {
                            1 => db.update(table, &[(row(&key, &old), row(&key, &new))]).unwrap(),
                            2 => db.delete(table, &[row(&key, &old)]).unwrap(),
                            _ => db.insert(table, &[row(&key, &new)]).unwrap(),
                        }
                        db.upsert(lazy, &[row(&key, &new)]).unwrap();
                        has_begun.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
        while !has_begun.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        db.add_index(table, &IndexSpec::over_columns("added", Some(1..3))).unwrap();
        db.add_lazy_index(lazy, &LazyIndexSpec::over_columns("added", Some(1..3))).unwrap();
        is_over.store(true, Ordering::Relaxed);
    });
    for check in db.check_table(table).unwrap() {
        assert!(check.is_sound() && check.stale == 0, "{check:?}");
    }
    sound(&db, lazy, 400);
    assert_eq!(db.db().metrics().get(crate::metrics::Counter::SingleDeleteMismatches), 0);
}

#[test]
fn an_index_that_is_being_built_is_not_read_nor_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&spec("t", 1)).unwrap();
    insert(&db, table, &[("1", "abc")]);
    // As a crash would leave it.
    let mut definition = db.dictionary.lock().tables["t"].clone();
    definition.add(&spec("t", 2).indexes[1], table.0 + 2).unwrap();
    definition.indexes[1].building = true;
    let mut batch = WriteBatch::new();
    for (key, value) in [next_id_row(table.0 + 3), definition.encode()] {
        batch.put_cf(&db.system, key, value);
    }
    batch.put(IndexId(table.0 + 2).key(b"bc1"), b"");
    db.db().write(&mut batch, &WriteOptions::default()).unwrap();
    db.close().unwrap();
    let db = open(dir.path());
    assert_eq!(db.open_table(&spec("t", 1)).unwrap(), table);
    assert_eq!(db.dropped.all(), [IndexId(table.0 + 2)]);
    assert_eq!(db.add_index(table, &spec("t", 2).indexes[1]).unwrap(), 1);
    sound(&db, table, 1);
    db.reclaim().unwrap();
    assert_eq!(scan(&db, table, 1, "", 9), ["bc1"]);
}
