//! Lazy tables: what readers see, what sweeps remove, and the examples that the rules come from.

use super::*;
use crate::key::SeqNo;
use crate::metrics::Counter;
use crate::options::{CompactRangeOptions, TableOptions};
use siltstone_base::engine::Admin;
use siltstone_base::index_spec::LazyIndexSpec;
use siltstone_base::sync::{OnceLock, Weak};
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) fn lazy(name: &str) -> LazyTableSpec {
    let index = |from| LazyIndexSpec::new(format!("by_{from}"), Arc::new(Slice { from, len: 2 }));
    LazyTableSpec { name: name.to_owned(), indexes: (0..2).map(index).collect() }
}

fn keys(db: &TableDb, table: LazyTableId, index: u32) -> usize {
    stored(db, &db.ground.rows).iter().filter(|key| IndexId::of_key(key) == Some(IndexId(table.0 + 1 + index))).count()
}

fn sweep(db: &TableDb, table: LazyTableId) -> Swept {
    let swept = db.sweep(table, usize::MAX).unwrap();
    assert!(swept.is_through);
    swept
}

fn compact(db: &TableDb) {
    Admin::flush(db).unwrap();
    db.db().compact_range(&db.ground.rows, None, None, &CompactRangeOptions::default().force_bottommost(true)).unwrap();
}

fn all() -> IndexScan {
    IndexScan::all()
}

#[test]
fn stale_entries_are_hidden_and_then_removed() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_lazy_table(&lazy("t")).unwrap();
    db.upsert(table, &[row("1", "abc"), row("2", "abd"), row("3", "x")]).unwrap();
    db.upsert(table, &[row("1", "xbc"), row("4", "abe")]).unwrap();
    db.delete_keys(table, &[b"2", b"9"]).unwrap();
    let check = |db: &TableDb| {
        assert_eq!(by(db, table, 0, &all()), "ab:4=abe xb:1=xbc");
        assert_eq!(by(db, table, 1, &all()), "bc:1=xbc be:4=abe");
        assert_eq!(by(db, table, 0, &all().reverse().limit(1)), "xb:1=xbc");
        assert_eq!(by(db, table, 0, &all().limit(1)), "ab:4=abe");
        assert_eq!(by(db, table, 0, &all().prefix("ab")), "ab:4=abe");
    };
    check(&db);
    assert_eq!((keys(&db, table, 0), keys(&db, table, 1)), (4, 3));
    let checks = db.check_table(table).unwrap();
    assert!(checks.iter().all(|check| check.is_sound() && check.missing == 0));
    assert_eq!(checks.iter().map(|check| check.stale).collect::<Vec<_>>(), [2, 1]);
    let swept = sweep(&db, table);
    assert_eq!((swept.entries, swept.removed, swept.left), (7, 3, 0));
    check(&db);
    assert_eq!((keys(&db, table, 0), keys(&db, table, 1)), (2, 2));
    compact(&db);
    check(&db);
    assert_eq!(sweep(&db, table).removed, 0);
}

#[test]
fn writing_reads_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_lazy_table(&lazy("t")).unwrap();
    let names: Vec<(String, String)> = (0..400).map(|i| (format!("{i:04}"), format!("{:04}", i * 7 % 400))).collect();
    let rows: Vec<Row<'_>> = names.iter().map(|(key, value)| row(key, value)).collect();
    db.upsert(table, &rows).unwrap();
    compact(&db);
    let counted = || {
        let counters = [Counter::KeysRead, Counter::IterSeeks, Counter::TablesProbed, Counter::FilterUseful];
        counters.map(|counter| db.db().metrics().get(counter))
    };
    let before = counted();
    db.upsert(table, &rows[..200]).unwrap();
    let keys: Vec<&[u8]> = names.iter().map(|(key, _)| key.as_bytes()).collect();
    db.delete_keys(table, &keys[100..300]).unwrap();
    assert_eq!(counted(), before);
}

/// A deleted row that comes again with the same value has the same entry: it was put twice, so a single delete would uncover the first one.
#[test]
fn delete_and_insert_again() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_lazy_table(&lazy("t")).unwrap();
    for round in 0..3 {
        db.upsert(table, &[row("1", "abc")]).unwrap();
        assert_eq!(by(&db, table, 0, &all()), "ab:1=abc", "round {round}");
        db.delete_keys(table, &[b"1"]).unwrap();
        Admin::flush(&db).unwrap();
        assert_eq!(by(&db, table, 0, &all()), "");
    }
    sweep(&db, table);
    compact(&db);
    assert_eq!(stored(&db, &db.ground.rows), Vec::<Vec<u8>>::new());
    db.upsert(table, &[row("1", "abc")]).unwrap();
    assert_eq!(by(&db, table, 0, &all()), "ab:1=abc");
}

/// The same row put again puts the same entries again; removing one of them removes all.
#[test]
fn the_same_row_put_again() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_lazy_table(&lazy("t")).unwrap();
    for _ in 0..3 {
        db.upsert(table, &[row("1", "abc"), row("1", "abc")]).unwrap();
        Admin::flush(&db).unwrap();
    }
    assert_eq!(sweep(&db, table).removed, 0);
    db.upsert(table, &[row("1", "xyz")]).unwrap();
    assert_eq!(sweep(&db, table).removed, 2);
    compact(&db);
    assert_eq!((keys(&db, table, 0), keys(&db, table, 1)), (1, 1));
    assert_eq!(by(&db, table, 0, &all()), "xy:1=xyz");
}

/// An entry that was stale counts again when its row returns to the old value, swept in between or not.
#[test]
fn a_row_returns_to_its_old_value() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_lazy_table(&lazy("t")).unwrap();
    for is_swept in [false, true, false] {
        for value in ["abc", "xyz", "abc"] {
            db.upsert(table, &[row("1", value)]).unwrap();
            if is_swept {
                sweep(&db, table);
                compact(&db);
            }
            assert_eq!(by(&db, table, 0, &all()), format!("{}:1={value}", &value[..2]));
        }
    }
    assert_eq!(sweep(&db, table).removed, 2);
    assert_eq!(by(&db, table, 1, &all()), "bc:1=abc");
}

/// A snapshot sees the entries that its rows yield, also those that were removed since.
#[test]
fn snapshots_keep_their_entries() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_lazy_table(&lazy("t")).unwrap();
    let mut moments = Vec::new();
    for value in ["abc", "xyz", "abc", "qrs"] {
        db.upsert(table, &[row("1", value)]).unwrap();
        moments.push((db.snapshot(), value));
        sweep(&db, table);
        compact(&db);
    }
    db.delete_keys(table, &[b"1"]).unwrap();
    sweep(&db, table);
    compact(&db);
    for (snapshot, value) in &moments {
        let seqno: SeqNo = snapshot.seqno();
        assert_eq!(by(&db, table, 0, &all().at(snapshot)), format!("{}:1={value}", &value[..2]), "{seqno}");
    }
    assert_eq!(by(&db, table, 0, &all()), "");
    drop(moments);
    compact(&db);
    assert_eq!(stored(&db, &db.ground.rows), Vec::<Vec<u8>>::new());
}

/// Puts a row, the first time that it is asked about a row of this value.
#[derive(Debug)]
struct PutsMeanwhile {
    db: OnceLock<Weak<TableDb>>,
    planned: Mutex<Option<(LazyTableId, &'static str, &'static str)>>,
}

impl IndexExtractor for PutsMeanwhile {
    fn extract(&self, key: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        let planned = self.planned.lock().take_if(|(_, at, _)| at.as_bytes() == value);
        if let Some((table, _, put)) = planned {
            let db = self.db.get().and_then(Weak::upgrade).unwrap();
            db.upsert(table, &[Row { primary_key: key, value: put.as_bytes() }]).unwrap();
        }
        index_key.extend_from_slice(&value[..2]);
        true
    }
}

/// Between the look at a row and the removal of its entry, the row may get its old value back: then the entry stays.
#[test]
fn a_row_that_changes_during_a_sweep_keeps_its_entry() {
    let dir = tempfile::tempdir().unwrap();
    let db = Arc::new(open(dir.path()));
    let extractor = Arc::new(PutsMeanwhile { db: OnceLock::new(), planned: Mutex::new(Rank(1), None) });
    extractor.db.set(Arc::downgrade(&db)).unwrap();
    let index = LazyIndexSpec::new("by", Arc::clone(&extractor) as Arc<dyn IndexExtractor>);
    let table = db.create_lazy_table(&LazyTableSpec { name: "t".to_owned(), indexes: vec![index] }).unwrap();
    db.upsert(table, &[row("1", "abc"), row("2", "abd")]).unwrap();
    db.upsert(table, &[row("1", "xyz"), row("2", "xyw")]).unwrap();
    *extractor.planned.lock() = Some((table, "xyz", "abc"));
    let swept = db.sweep(table, usize::MAX).unwrap();
    assert_eq!((swept.removed, swept.left), (1, 1));
    assert_eq!(by(&db, table, 0, &all()), "ab:1=abc xy:2=xyw");
    assert!(db.check_table(table).unwrap()[0].is_sound());
    // Now it is the other one that is stale.
    assert_eq!(sweep(&db, table).removed, 1);
    assert_eq!(by(&db, table, 0, &all()), "ab:1=abc xy:2=xyw");
}

#[test]
fn sweeps_go_on_within_their_budget() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_lazy_table(&lazy("t")).unwrap();
    for round in 0..2 {
        let names: Vec<_> =
            (0..100).map(|i| (format!("{i:03}"), format!("{:02}{round}", i % 10 + round * 10))).collect();
        db.upsert(table, &names.iter().map(|(key, value)| row(key, value)).collect::<Vec<_>>()).unwrap();
    }
    // The first round was of new rows; of what took their place half may be stale.
    assert_eq!(db.lazy_figures(table).unwrap().stale_share(), 0.25);
    assert!(!db.lazy_figures(table).unwrap().is_known);
    let (mut removed, mut calls) = (0, 0);
    loop {
        let swept = db.sweep(table, 30).unwrap();
        assert!(swept.entries <= 30);
        removed += swept.removed;
        calls += 1;
        if swept.is_through {
            break;
        }
    }
    assert_eq!(removed, 200);
    assert!(calls >= 400 / 30, "{calls}");
    let figures = db.lazy_figures(table).unwrap();
    assert!(figures.is_known && figures.entries == 200 && figures.stale == 0, "{figures:?}");
    // All that was written to rows that were there made something stale: so it is expected to.
    let names: Vec<_> = (0..100).map(|i| (format!("{i:03}"), format!("{:02}9", i % 10))).collect();
    db.upsert(table, &names.iter().map(|(key, value)| row(key, value)).collect::<Vec<_>>()).unwrap();
    let figures = db.lazy_figures(table).unwrap();
    assert_eq!((figures.entries, figures.stale), (400, 200));
    assert_eq!(db.sweep_above(table, 0.5, usize::MAX).unwrap(), None);
    // What was begun goes on.
    assert_eq!(db.sweep_above(table, 0.4, 250).unwrap().map(|swept| swept.entries), Some(250));
    let swept = db.sweep_above(table, 0.25, usize::MAX).unwrap().unwrap();
    assert!(swept.is_through && swept.entries == 150, "{swept:?}");
    assert_eq!(db.sweep_above(table, 0.0, usize::MAX).unwrap(), None);
}

#[test]
fn rows_that_did_not_change_since_the_last_sweep_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let options = DbOptions::default().create_if_missing(true);
    let rows = ColumnFamilyOptions::default().table(TableOptions::default().bloom_bits_per_key(10.0));
    let db = open_with(dir.path(), &options, &rows);
    let table = db.create_lazy_table(&lazy("t")).unwrap();
    let names: Vec<_> = (0..1000).map(|i| (format!("{i:04}"), format!("{:04}", i * 7 % 1000))).collect();
    db.upsert(table, &names.iter().map(|(key, value)| row(key, value)).collect::<Vec<_>>()).unwrap();
    compact(&db);
    assert_eq!(sweep(&db, table).rows, 2000);
    db.upsert(table, &[row("0007", "zz."), row("0500", "zz.")]).unwrap();
    db.delete_keys(table, &[b"0100"]).unwrap();
    Admin::flush(&db).unwrap();
    let swept = sweep(&db, table);
    assert_eq!(swept.removed, 6);
    assert!((6..120).contains(&swept.rows), "{swept:?}");
    // A deletion is seen although nothing is left of its tombstone.
    db.delete_keys(table, &[b"0200"]).unwrap();
    compact(&db);
    let swept = sweep(&db, table);
    assert_eq!(swept.removed, 2);
    assert_eq!(by(&db, table, 0, &all()).split(' ').count(), 998);
}

/// A sweep after a load finds nothing stale; that says nothing of the updates that follow.
#[test]
fn the_trigger_lives_on_after_a_load_of_new_rows() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_lazy_table(&lazy("t")).unwrap();
    let put = |round: u32| {
        for key in 0..200 {
            db.upsert(table, &[row(&format!("{key:03}"), &format!("{:03}", (key + round) % 997))]).unwrap();
        }
    };
    put(0);
    assert_eq!(sweep(&db, table).removed, 0);
    assert_eq!(sweep(&db, table).removed, 0);
    (1..=5).for_each(put);
    assert!(db.sweep_above(table, 0.3, usize::MAX).unwrap().is_some_and(|swept| swept.removed > 0));
}

/// Changes some rows, the first time that it is asked about a row of this value.
#[derive(Debug)]
struct ChangesRows {
    db: OnceLock<(Weak<TableDb>, LazyTableId)>,
    at: &'static str,
    rows: [&'static str; 3],
    is_done: AtomicBool,
}

impl IndexExtractor for ChangesRows {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        if value == self.at.as_bytes()
            && let Some((db, table)) = self.db.get()
            && let Some(db) = db.upgrade()
            && !self.is_done.swap(true, Ordering::Relaxed)
        {
            let rows = self.rows.map(|key| row(key, "qr"));
            db.upsert(*table, &rows).unwrap();
        }
        index_key.extend_from_slice(&value[..2]);
        true
    }
}

/// Rows that are known to be unchanged are passed over by later sweeps: so no entry may be left of a row that did not change, whatever other rows do.
#[test]
fn a_sweep_leaves_only_entries_whose_own_rows_change() {
    let dir = tempfile::tempdir().unwrap();
    let options = DbOptions::default().create_if_missing(true);
    let rows = ColumnFamilyOptions::default().table(TableOptions::default().bloom_bits_per_key(10.0));
    let db = Arc::new(open_with(dir.path(), &options, &rows));
    let (at, rows, is_done) = ("xy000", ["003", "010", "040"], AtomicBool::new(false));
    let extractor = Arc::new(ChangesRows { db: OnceLock::new(), at, rows, is_done });
    let index = LazyIndexSpec::new("by", Arc::clone(&extractor) as Arc<dyn IndexExtractor>);
    let table = db.create_lazy_table(&LazyTableSpec { name: "t".to_owned(), indexes: vec![index] }).unwrap();
    for kind in ["ab", "xy"] {
        let values: Vec<_> = (0..60).map(|key| (format!("{key:03}"), format!("{kind}{key:03}"))).collect();
        db.upsert(table, &values.iter().map(|(key, value)| row(key, value)).collect::<Vec<_>>()).unwrap();
    }
    compact(&db);
    extractor.db.set((Arc::downgrade(&db), table)).unwrap();
    let swept = sweep(&db, table);
    assert_eq!((swept.entries, swept.removed, swept.left), (120, 57, 3));
    Admin::flush(&*db).unwrap();
    // The three of the first kind, and now also those of the second.
    let swept = sweep(&db, table);
    assert_eq!((swept.removed, swept.left), (6, 0));
    assert!(swept.rows < 30, "most are known to be unchanged: {swept:?}");
    assert_eq!(db.check_table(table).unwrap()[0].stale, 0);
    assert_eq!(keys(&db, table, 0), 60);
}

/// Rows that are large are not held by the thousand.
#[test]
fn few_large_rows_are_held_at_a_time() {
    use super::super::fetch::BatchLen;
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_lazy_table(&lazy("t")).unwrap();
    let value = |kind: &str| format!("{kind}{}", "v".repeat(300_000));
    for kind in ["abc", "xyz"] {
        for key in 0..20 {
            db.upsert(table, &[row(&format!("{key:03}"), &value(kind))]).unwrap();
        }
    }
    let mut batch_len = BatchLen::default();
    let read = |count: usize| -> Vec<_> {
        (0..count).map(|key| db.db().get(IndexId(table.0).key(format!("{key:03}").as_bytes())).unwrap()).collect()
    };
    batch_len.note(&read(16));
    assert_eq!(batch_len.get(), 3);
    batch_len.note(&read(3));
    assert_eq!(batch_len.get(), 3);
    (0..9).for_each(|_| batch_len.note(&[const { None }; 3]));
    assert_eq!(batch_len.get(), 256);
    assert_eq!(sweep(&db, table).removed, 40);
    assert_eq!(db.scan_rows_by(table, 0, &all(), &mut |_, _| {}).unwrap(), 20);
    assert!(db.check_table(table).unwrap().iter().all(|check| check.is_sound() && check.stale == 0));
}

/// What the sample took off was taken off once more: the index had as many entries as there are numbers.
#[test]
fn a_sweep_by_hand_that_a_sample_came_between_leaves_figures_that_can_be() {
    let counts = figures::LazyCounts::default();
    counts.note_written(10, 5);
    let by_hand = counts.mark();
    counts.note_sampled(counts.mark(), 10, 10, 2);
    counts.note_swept(by_hand, 10, 2);
    assert_eq!((counts.figures().entries, counts.at_worst()), (10, (10, 0)));
}
