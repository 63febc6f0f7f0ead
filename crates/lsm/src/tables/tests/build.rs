//! Indexes that are added and dropped.

use super::*;
use crate::options::CompactRangeOptions;
use siltstone_base::engine::{Admin, RowChange};
use siltstone_base::index_spec::LazyIndexSpec;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) fn sound(db: &TableDb, table: impl Into<AnyTableId>, rows: u64) {
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
    assert!(stored(&db, &db.ground.rows).iter().all(|key| IndexId::of_key(key) != Some(IndexId(table.0 + 1))));
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
        stored(&db, &db.ground.rows).iter().map(|key| IndexId::of_key(key).unwrap().0).collect();
    assert_eq!(ids, [table.0, table.0 + 1].into());
}

#[test]
fn rows_change_while_an_index_is_added() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&spec("t", 1)).unwrap();
    let lazy = LazyTableSpec { name: "lazy".to_owned(), indexes: Vec::new() };
    let lazy = db.create_lazy_table(&lazy).unwrap();
    // Every second change leaves what is indexed as it was.
    let value = |key: usize, round: usize| format!("{:03}{round:03}", (key * 7 + round / 2) % 1000);
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
    // What goes now goes for good: no entry was put twice.
    Admin::flush(&db).unwrap();
    let mut left = Vec::new();
    db.scan_rows(table, b"", usize::MAX, &mut |row| left.push((row.primary_key.to_vec(), row.value.to_vec()))).unwrap();
    let left: Vec<Row<'_>> = left.iter().map(|(primary_key, value)| Row { primary_key, value }).collect();
    db.delete(table, &left).unwrap();
    none_left(&db, table);
    assert_eq!(db.db().metrics().get(crate::metrics::Counter::SingleDeleteMismatches), 0);
}

/// Nothing is stored of an eager table that has no rows, whatever was deleted where.
pub(super) fn none_left(db: &TableDb, table: TableId) {
    let ids: Vec<IndexId> = db.table(table).unwrap().definition.ids().collect();
    let own = |key: &Vec<u8>| IndexId::of_key(key).is_some_and(|id| ids.contains(&id));
    let compact = CompactRangeOptions::default().force_bottommost(true);
    for is_compacted in [false, true] {
        Admin::flush(db).unwrap();
        if is_compacted {
            db.db().compact_range(&db.ground.rows, None, None, &compact).unwrap();
        }
        assert_eq!(stored(db, &db.ground.rows).iter().filter(|key| own(key)).count(), 0, "compacted: {is_compacted}");
    }
}

/// Makes a change the first time that it is asked about a row of some value, and sorts by the first two bytes.
struct Meddles {
    at: &'static [u8],
    change: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Meddles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meddles")
    }
}

impl IndexExtractor for Meddles {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        let change = if value == self.at { self.change.lock().take() } else { None };
        if let Some(change) = change {
            change();
        }
        index_key.extend_from_slice(&value[..2]);
        true
    }

    fn fixed_len(&self) -> Option<usize> {
        Some(2)
    }
}

/// An index by the first two bytes that makes a change when the entry of the row of value `at` is made.
pub(super) fn meddling(at: &'static [u8], change: impl FnOnce() + Send + 'static) -> IndexSpec {
    let change: Box<dyn FnOnce() + Send> = Box::new(change);
    IndexSpec::new("added", Arc::new(Meddles { at, change: Mutex::new(Rank(1), Some(change)) }))
}

/// The filler finds the row changed and leaves it to its writer, who found the entry unchanged and left it alone: nobody would make it.
#[test]
fn a_row_whose_indexed_columns_stay_gets_its_entry_when_it_changes_during_the_fill() {
    let dir = tempfile::tempdir().unwrap();
    let db = Arc::new(open(dir.path()));
    let table = db.create_table(&spec("t", 1)).unwrap();
    insert(&db, table, &[("1", "abc"), ("2", "abd"), ("3", "xyz")]);
    let writer = Arc::clone(&db);
    let index = meddling(b"abd", move || {
        writer.update(table, &[(row("2", "abd"), row("2", "abe"))]).unwrap();
        writer.update(table, &[(row("2", "abe"), row("2", "abf"))]).unwrap();
    });
    assert_eq!(db.add_index(table, &index).unwrap(), 1);
    sound(&db, table, 3);
    assert_eq!(scan(&db, table, 1, "", 9), ["ab1", "ab2", "xy3"]);
    db.delete(table, &[row("1", "abc"), row("2", "abf"), row("3", "xyz")]).unwrap();
    none_left(&db, table);
}

/// Rows that a writer who knows of the index changed before the fill's snapshot have their entries already: put once more, they would come back from the dead.
#[test]
fn no_entry_is_put_twice_by_a_writer_before_the_fill_and_by_the_fill() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&spec("t", 1)).unwrap();
    insert(&db, table, &[("1", "abc"), ("2", "abd")]);
    // A writer that does not end keeps the fill waiting.
    let slow = db.writers.enter();
    std::thread::scope(|scope| {
        let adding = scope.spawn(|| db.add_index(table, &spec("t", 2).indexes[1]).unwrap());
        while db.table(table).unwrap().indexes.len() < 2 {
            std::thread::yield_now();
        }
        insert(&db, table, &[("7", "xyz")]);
        db.update(table, &[(row("1", "abc"), row("1", "qrs"))]).unwrap();
        // What was put by now is in a table, and what the fill puts in a memtable.
        Admin::flush(&db).unwrap();
        drop(slow);
        assert_eq!(adding.join().unwrap(), 1);
    });
    sound(&db, table, 3);
    assert_eq!(scan(&db, table, 1, "", 9), ["bd2", "rs1", "yz7"]);
    Admin::flush(&db).unwrap();
    db.delete(table, &[row("7", "xyz"), row("1", "qrs"), row("2", "abd")]).unwrap();
    assert_eq!(scan(&db, table, 1, "", 9), Vec::<String>::new());
    none_left(&db, table);
}

/// A row without an entry yet would not hold its key against others, and would take theirs away with it.
#[test]
fn rows_do_not_change_while_a_unique_index_is_added() {
    let dir = tempfile::tempdir().unwrap();
    let db = Arc::new(open(dir.path()));
    let table = db.create_table(&spec("t", 1)).unwrap();
    insert(&db, table, &[("1", "abc"), ("2", "xyz")]);
    let writer = Arc::clone(&db);
    let index = meddling(b"abc", move || {
        let kind = |outcome: Result<()>| outcome.unwrap_err().kind();
        assert_eq!(kind(writer.insert(table, &[row("3", "abq")])), ErrorKind::Busy);
        assert_eq!(kind(writer.delete(table, &[row("1", "abc")])), ErrorKind::Busy);
        assert_eq!(kind(writer.update(table, &[(row("1", "abc"), row("1", "abd"))])), ErrorKind::Busy);
        assert_eq!(kind(writer.commit(&[(table, RowChange::Insert(row("3", "abq")))])), ErrorKind::Busy);
    });
    // A writer that began before may still put a row.
    let slow = db.writers.enter();
    std::thread::scope(|scope| {
        let adding = scope.spawn(|| db.add_index(table, &index.unique(true)).unwrap());
        while db.table(table).unwrap().indexes.len() < 2 {
            std::thread::yield_now();
        }
        assert_eq!(db.insert(table, &[row("3", "xyq")]).unwrap_err().kind(), ErrorKind::Busy);
        assert_eq!(get(&db, table, "1").as_deref(), Some("abc"), "rows can be read");
        drop(slow);
        assert_eq!(adding.join().unwrap(), 1);
    });
    sound(&db, table, 2);
    assert_eq!(db.insert(table, &[row("3", "abq")]).unwrap_err().kind(), ErrorKind::AlreadyExists);
    db.delete(table, &[row("1", "abc")]).unwrap();
    insert(&db, table, &[("3", "abq")]);
    sound(&db, table, 2);
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
    assert_eq!(db.ground.dropped.all(), [IndexId(table.0 + 2)]);
    assert_eq!(db.add_index(table, &spec("t", 2).indexes[1]).unwrap(), 1);
    sound(&db, table, 1);
    db.reclaim().unwrap();
    assert_eq!(scan(&db, table, 1, "", 9), ["bc1"]);
}

/// A device that was full for a moment kept the table from being changed, and any index from being added, until the process ended.
#[test]
fn a_table_whose_index_could_not_be_made_for_a_moment_is_written_on() {
    let (mut failed, mut left) = (0, 0);
    for (after_ops, is_full_for_long) in (0..40).flat_map(|after_ops| [(after_ops, false), (after_ops, true)]) {
        let disk = SimDisk::new();
        let options = DbOptions::default().env(Some(disk.env())).create_if_missing(true);
        let db = open_with(Path::new("/db"), &options, &ColumnFamilyOptions::default());
        let table = db.create_table(&spec("t", 1)).unwrap();
        insert(&db, table, &[("1", "abc"), ("2", "xyz")]);
        let unique = IndexSpec::over_columns("unique", Some(0..3)).unique(true);
        // A sync that fails is another matter: nothing is written after it.
        let writes = OpFilter { class: Some(OpClass::Write), ..OpFilter::default() };
        let plan = if is_full_for_long { FaultPlan::sticky } else { FaultPlan::once };
        disk.set_fault(plan(FaultKind::NoSpace, after_ops).filter(writes));
        let added = db.add_index(table, &unique);
        disk.clear_fault();
        if added.is_ok() {
            continue;
        }
        failed += 1;
        left += usize::from(db.dictionary.lock().left.is_some());
        // A flush that failed is tried again after a while, and until then nothing is written.
        while let Err(error) = db.insert(table, &[row("3", "abc")]) {
            assert!([ErrorKind::NoSpace, ErrorKind::Busy].contains(&error.kind()), "{error}");
            std::thread::yield_now();
        }
        assert_eq!(db.dictionary.lock().left, None);
        sound(&db, table, 3);
        db.delete(table, &[row("3", "abc")]).unwrap();
        assert_eq!(db.add_index(table, &unique).unwrap(), 1, "{after_ops}");
        sound(&db, table, 2);
        db.close().unwrap();
        let db = open_with(Path::new("/db"), &options, &ColumnFamilyOptions::default());
        let grown = TableSpec { indexes: vec![spec("t", 1).indexes.remove(0), unique], ..spec("t", 1) };
        assert_eq!(db.open_table(&grown).unwrap(), table, "{after_ops}");
        sound(&db, table, 2);
        insert(&db, table, &[("3", "new")]);
        sound(&db, table, 3);
    }
    assert!(failed > 1 && left > 0, "{failed} {left}");
}

/// That an index is whole is in the WAL, and its entries were in memory alone.
#[test]
fn an_index_that_is_added_without_a_wal_is_whole_after_the_next_opening() {
    let dir = tempfile::tempdir().unwrap();
    let options = DbOptions::default().create_if_missing(true);
    let open = |writes: &WriteOptions| {
        let sweeps = SweepOptions::default().in_background(false);
        TableDb::open_swept(dir.path(), &options, &ColumnFamilyOptions::default(), writes, &sweeps).unwrap()
    };
    let db = open(&WriteOptions::default().disable_wal(true));
    let table = db.create_table(&spec("t", 1)).unwrap();
    insert(&db, table, &[("1", "abc"), ("2", "abd"), ("3", "xyz")]);
    db.db().flush_families(&[&db.ground.rows], &FlushOptions::default()).unwrap();
    let unique = IndexSpec::over_columns("unique", Some(0..3)).unique(true);
    db.add_index(table, &unique).unwrap();
    db.close().unwrap();
    let db = open(&WriteOptions::default());
    let mut wanted = spec("t", 1);
    wanted.indexes.push(unique);
    let table = db.open_table(&wanted).unwrap();
    sound(&db, table, 3);
    assert_eq!(db.insert(table, &[row("4", "abc")]).unwrap_err().kind(), ErrorKind::AlreadyExists);
}

/// It would take whatever a row begins with for a stamp, and leave the entries of what it removes.
#[test]
fn a_policy_that_knows_nothing_of_tables_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let policy = Arc::new(crate::expiry::test_policy::AtItsStamp);
    let rows = ColumnFamilyOptions::default().expiry(Some(policy));
    let options = DbOptions::default().create_if_missing(true);
    let opened = TableDb::open(dir.path(), &options, &rows, &WriteOptions::default());
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::InvalidArgument);
}
