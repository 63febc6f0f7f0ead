//! Drops: gone at once, gone after reopening, and gone from the files.

use super::*;
use crate::event::{CompactionInfo, CompactionReason, EventListener};
use crate::options::{CompactRangeOptions, CompactionStyle};
use siltstone_base::clock::ManualClock;
use siltstone_base::engine::Admin;
use siltstone_base::entry_filter::{Decision, EntryFilter};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::{Executor, StepExecutor};
use siltstone_base::sync::atomic::{AtomicUsize, Ordering};
use siltstone_base::sync::{Mutex, Rank};

/// Index ids of the keys in the shared family.
fn ids(db: &TableDb) -> Vec<u32> {
    let mut ids: Vec<u32> = stored(db, &db.ground.rows).iter().map(|key| IndexId::of_key(key).unwrap().0).collect();
    ids.dedup();
    ids
}

#[test]
fn a_dropped_table_is_gone_at_once_and_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let kept = db.create_table(&spec("kept", 1)).unwrap();
    let dropped = db.create_table(&spec("dropped", 2)).unwrap();
    insert(&db, kept, &[("1", "abc")]);
    insert(&db, dropped, &[("1", "def")]);
    db.drop_table(dropped).unwrap();
    assert_eq!(db.get_row(dropped, b"1", &mut |_| {}).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(db.drop_table(dropped).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(db.table_names(), ["kept"]);

    // A table of the same name is another table.
    let again = db.create_table(&spec("dropped", 1)).unwrap();
    assert!(again.0 > dropped.0 + 2);
    assert_eq!(get(&db, again, "1"), None);
    insert(&db, again, &[("2", "ghi")]);
    db.close().unwrap();

    let db = open(dir.path());
    assert_eq!(db.table_names(), ["dropped", "kept"]);
    assert_eq!(db.open_table(&spec("dropped", 1)).unwrap(), again);
    assert_eq!(db.open_table(&spec("kept", 1)).unwrap(), kept);
    assert_eq!(get(&db, again, "1"), None);
    assert_eq!(get(&db, again, "2").as_deref(), Some("ghi"));
    assert_eq!(scan(&db, again, 0, "", 9), ["gh2"]);
    assert_eq!(get(&db, kept, "1").as_deref(), Some("abc"));
}

/// Three tables of 500 rows and an index each, flushed together.
fn three_tables(db: &TableDb) -> [TableId; 3] {
    let tables = ["a", "b", "c"].map(|name| db.create_table(&spec(name, 1)).unwrap());
    for table in tables {
        let rows: Vec<_> = (0..500).map(|i| (format!("{i:05}"), format!("{:03}", i % 90))).collect();
        insert(db, table, &rows.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>());
    }
    Admin::flush(db).unwrap();
    tables
}

/// A compaction that began while a snapshot saw the entries keeps them, in tables that are newer than the request which waits for it.
#[test]
fn reclaim_gives_back_what_a_compaction_before_it_kept_for_a_reader() {
    for steps in 0..24 {
        let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
        executor.limit_steps(64);
        let shared: Arc<dyn Executor> = Arc::<StepExecutor>::clone(&executor);
        let disk = SimDisk::new();
        let options = DbOptions::default().create_if_missing(true).env(Some(disk.env())).executor(Some(shared));
        let rows = ColumnFamilyOptions::default().target_file_size_base(2048);
        let db = open_with(Path::new("/db"), &options, &rows);
        let tables = three_tables(&db);
        let reader = db.snapshot();
        db.drop_table(tables[1]).unwrap();
        for _ in 0..steps {
            executor.step();
        }
        drop(reader);
        db.reclaim().unwrap();
        let left: Vec<_> = ids(&db).into_iter().filter(|id| [tables[1].0, tables[1].0 + 1].contains(id)).collect();
        assert_eq!(left, [0; 0], "entries of the dropped table are left, {steps} steps");
        db.close().unwrap();
    }
}

#[test]
fn a_drop_gives_the_space_back_and_is_forgotten_when_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let tables = three_tables(&db);
    db.drop_table(tables[1]).unwrap();
    let b = [tables[1].0, tables[1].0 + 1];
    db.reclaim().unwrap();
    assert!(ids(&db).iter().all(|id| !b.contains(id)), "entries of the dropped table are left");
    assert_eq!(ids(&db).len(), 4);
    assert_eq!(scan(&db, tables[0], 0, "", usize::MAX).len(), 500);
    assert_eq!(scan(&db, tables[2], 0, "", usize::MAX).len(), 500);
    let marks = |db: &TableDb| stored(db, &db.system).iter().filter(|key| key.starts_with(b"\0\0\0\x03")).count();
    assert_eq!(marks(&db), 2);
    db.close().unwrap();

    let db = open(dir.path());
    assert_eq!(marks(&db), 0);
    let next = db.create_table(&spec("d", 0)).unwrap();
    assert_eq!(next, TableId(tables[2].0 + 2), "ids are never given out again");
}

#[test]
fn what_a_dropped_table_shares_with_others_is_rewritten_without_being_asked() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let tables = three_tables(&db);
    db.drop_table(tables[1]).unwrap();
    db.ground.db.wait_for_background_work().unwrap();
    let b = [tables[1].0, tables[1].0 + 1];
    assert!(ids(&db).iter().all(|id| !b.contains(id)), "entries of the dropped table are left");
    assert_eq!(scan(&db, tables[0], 0, "", usize::MAX).len(), 500);
    assert_eq!(scan(&db, tables[2], 0, "", usize::MAX).len(), 500);
    let suggested = |info: &CompactionInfo| info.reason == CompactionReason::Suggested;
    assert_eq!(db.ground.db.compaction_log().iter().filter(|record| suggested(&record.info)).count(), 1);
    // Once is enough: also where nothing could go.
    let (first, last) = (IndexId(tables[0].0), IndexId(tables[2].0));
    db.ground.db.suggest_compact_range(&db.ground.rows, &first.to_bytes(), &last.end()).unwrap();
    db.ground.db.wait_for_background_work().unwrap();
    assert_eq!(db.ground.db.compaction_log().iter().filter(|record| suggested(&record.info)).count(), 2);
}

#[test]
fn a_table_that_was_dropped_right_before_the_end_gives_its_space_back_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let tables = three_tables(&db);
    db.ground.db.pause_background_work().unwrap();
    db.drop_table(tables[1]).unwrap();
    db.close().unwrap();
    let db = open(dir.path());
    db.ground.db.wait_for_background_work().unwrap();
    let b = [tables[1].0, tables[1].0 + 1];
    assert!(ids(&db).iter().all(|id| !b.contains(id)), "entries of the dropped table are left");
    assert_eq!(ids(&db).len(), 4);
}

#[test]
fn marks_stay_while_entries_are_left() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&spec("t", 1)).unwrap();
    insert(&db, table, &[("1", "abc")]);
    db.drop_table(table).unwrap();
    db.close().unwrap();
    let db = open(dir.path());
    assert_eq!(db.ground.dropped.all(), [IndexId(256), IndexId(257)]);
    db.reclaim().unwrap();
    assert_eq!(ids(&db), Vec::<u32>::new());
}

/// Removes keys that end with a byte.
#[derive(Debug)]
struct RemoveEndingWith(u8);

impl EntryFilter for RemoveEndingWith {
    fn name(&self) -> &str {
        "RemoveEndingWith"
    }

    fn filter(&self, _: usize, key: &[u8], _: &[u8]) -> Decision {
        if key.last() == Some(&self.0) { Decision::Remove } else { Decision::Keep }
    }
}

#[test]
fn the_users_filter_decides_about_what_is_not_dropped() {
    let dropped = Arc::new(DroppedIndexes::default());
    let filter = DropFilter { dropped: Arc::clone(&dropped), user: Some(Arc::new(RemoveEndingWith(b'x'))) };
    let decide = |key: &[u8]| filter.filter(3, key, b"v") == Decision::Remove;
    assert_eq!(filter.name(), "RemoveEndingWith");
    dropped.add([IndexId(258), IndexId(256)]);
    for (key, removed) in [
        (&b"\0\0\x01\0a"[..], true),
        (b"\0\0\x01\0", true),
        (b"\0\0\x01\x01a", false),
        (b"\0\0\x01\x01x", true),
        (b"\0\0\x01\x02", true),
        (b"\0\0\x01", false),
        (b"", false),
    ] {
        assert_eq!(decide(key), removed, "{key:?}");
    }
    dropped.remove(&[IndexId(256)]);
    assert!(!decide(b"\0\0\x01\0a"));
    assert!(decide(b"\0\0\x01\x02a"));
    assert_eq!(dropped.all(), [IndexId(258)]);
}

#[test]
fn inserts_beside_a_drop_succeed_or_say_that_the_table_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&spec("t", 2)).unwrap();
    let kept = db.create_table(&spec("kept", 1)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let db = &db;
            scope.spawn(move || {
                for i in 0..300 {
                    let key = format!("{thread}{i:04}");
                    let row = [Row { primary_key: key.as_bytes(), value: b"abcd" }];
                    db.insert(kept, &row).unwrap();
                    if let Err(error) = db.insert(table, &row) {
                        assert_eq!(error.kind(), ErrorKind::NotFound);
                    }
                }
            });
        }
        db.drop_table(table).unwrap();
    });
    assert_eq!(scan(&db, kept, 0, "", usize::MAX).len(), 900);
    db.reclaim().unwrap();
    assert_eq!(ids(&db), [kept.0, kept.0 + 1]);
}

/// Counts compactions of tables' rows. The dictionary is another family, which may be compacted at any time.
#[derive(Debug, Default)]
struct RowCompactions(AtomicUsize);

impl EventListener for RowCompactions {
    fn compaction_begin(&self, info: &CompactionInfo) {
        if info.column_family == "default" {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "counts the files that are really there")]
fn a_drop_deletes_the_files_that_hold_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    // What the drop leaves may move the levels' targets, and then a compaction is due: not while they are counted.
    let rows = ColumnFamilyOptions::default()
        .write_buffer_size(64 << 10)
        .target_file_size_base(16 << 10)
        .disable_auto_compactions(true);
    let counter = Arc::new(RowCompactions::default());
    let options = DbOptions::default().create_if_missing(true).listeners(vec![counter.clone()]);
    let db = TableDb::open(dir.path(), &options, &rows, &WriteOptions::default()).unwrap();
    let tables = ["a", "b", "c"].map(|name| db.create_table(&spec(name, 1)).unwrap());
    // Values that do not compress.
    let value = |i: u64| (0..100).map(|at| (i * 31 + at * at * 7919 + i * at * 104_729) as u8).collect::<Vec<_>>();
    for table in tables {
        for i in 0..1_000_u64 {
            db.insert(table, &[Row { primary_key: &i.to_be_bytes(), value: &value(i) }]).unwrap();
        }
    }
    db.db().compact_range(&db.ground.rows, None, None, &CompactRangeOptions::default()).unwrap();
    Admin::settle(&db).unwrap();
    let files = || db.db().metrics_table(&db.ground.rows).levels[1..].iter().map(|level| level.files).sum::<u64>();
    let before = files();
    let disk_files = || std::fs::read_dir(dir.path()).unwrap().count() as u64;
    let before_on_disk = disk_files();
    let compactions = counter.0.load(Ordering::Relaxed);
    assert!(compactions > 0);
    db.drop_table(tables[1]).unwrap();
    let deleted = before - files();
    assert!(before >= 12 && deleted >= before / 3 - 2 && deleted <= before / 3 + 1, "{deleted} of {before}");
    // Files are deleted when the jobs that let them go have ended. The dictionary may have got a table and a WAL.
    db.db().pause_background_work().unwrap();
    db.db().resume_background_work();
    assert!(disk_files() <= before_on_disk - deleted + 2, "files stay on the disk");
    assert_eq!(counter.0.load(Ordering::Relaxed), compactions, "nothing is rewritten");
    for table in [tables[0], tables[2]] {
        let mut entries = 0;
        db.scan_index(table, 0, b"", usize::MAX, &mut |_| entries += 1).unwrap();
        assert_eq!(entries, 1_000);
        for i in 0..1_000_u64 {
            assert!(db.get_row(table, &i.to_be_bytes(), &mut |bytes| assert_eq!(bytes, value(i))).unwrap());
        }
    }
    db.db().check().unwrap();
}

#[test]
fn a_table_is_a_partition_whose_space_comes_back_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let rows = ColumnFamilyOptions::default()
        .write_buffer_size(64 << 10)
        .target_file_size_base(16 << 10)
        .disable_auto_compactions(true);
    let options = DbOptions::default().create_if_missing(true);
    let db = TableDb::open(dir.path(), &options, &rows, &WriteOptions::default()).unwrap();
    let days = ["monday", "tuesday", "wednesday"].map(|day| db.create_table(&spec(day, 1)).unwrap());
    for key in 0..700_u64 {
        // Values that do not compress.
        let value: Vec<u8> = (0..100).map(|at| (key * 31 + at * at * 7919 + key * at * 104_729) as u8).collect();
        for day in days {
            db.insert(day, &[Row { primary_key: &key.to_be_bytes(), value: &value }]).unwrap();
        }
    }
    Admin::flush(&db).unwrap();
    db.db().compact_range(&db.ground.rows, None, None, &CompactRangeOptions::default()).unwrap();
    let bytes = || db.db().table_files(&db.ground.rows).unwrap().iter().map(|file| file.file_size).sum::<u64>();
    let before = bytes();
    db.drop_table(days[1]).unwrap();
    assert_eq!(ids(&db), [days[0].0, days[0].0 + 1, days[2].0, days[2].0 + 1], "without a compaction");
    let after = bytes();
    assert!(after > before * 6 / 10 && after < before * 7 / 10, "{after} of {before}");
    db.drop_table(days[0]).unwrap();
    db.drop_table(days[2]).unwrap();
    assert_eq!(bytes(), 0);
}

/// Many rows, in tables of which a drop deletes the files at once.
fn many(db: &TableDb, name: &str) -> TableId {
    let table = db.create_table(&spec(name, 1)).unwrap();
    let names: Vec<_> = (0..300).map(|i| (format!("{i:03}"), format!("{:03}", i * 7 % 300))).collect();
    db.insert(table, &names.iter().map(|(key, value)| row(key, value)).collect::<Vec<_>>()).unwrap();
    Admin::flush(db).unwrap();
    let options = CompactRangeOptions::default().force_bottommost(true);
    db.db().compact_range(&db.ground.rows, None, None, &options).unwrap();
    table
}

/// A reader that began before a drop sees all, or is told; never a part, and never that the database is damaged.
#[test]
fn a_scan_beside_a_drop_sees_all_or_ends_with_not_found() {
    use super::super::scan::Walk;
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    // What is read through an iterator stays.
    let table = many(&db, "entries");
    let mut seen = 0;
    let drop_at_first = |seen: &mut usize, table| {
        *seen += 1;
        if *seen == 1 {
            db.drop_table(table).unwrap();
            db.reclaim().unwrap();
        }
    };
    db.scan_entries(table, 0, &IndexScan::all(), &mut |_| drop_at_first(&mut seen, table)).unwrap();
    assert_eq!(seen, 300);
    let (table, mut seen) = (many(&db, "rows"), 0);
    db.scan_rows(table, b"", usize::MAX, &mut |_| drop_at_first(&mut seen, table)).unwrap();
    assert_eq!(seen, 300);
    // Rows of entries are looked up as they are now.
    let (table, mut seen) = (many(&db, "rows by entries"), 0);
    let outcome = db.scan_rows_by(table, 0, &IndexScan::all(), &mut |_, _| drop_at_first(&mut seen, table));
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(seen < 300);
    // Of an index that goes, all entries are there, and all rows.
    let (table, mut seen) = (many(&db, "index"), 0);
    let scanned = db.scan_rows_by(table, 0, &IndexScan::all(), &mut |_, _| {
        seen += 1;
        if seen == 1 {
            db.drop_index(table, "by_0").unwrap();
            db.reclaim().unwrap();
        }
    });
    assert_eq!(scanned.unwrap(), 300);
    // Whoever found the table and comes too late for its files.
    let table = many(&db, "late");
    let known = db.table(table).unwrap();
    db.drop_table(table).unwrap();
    let walk = Walk::new(&db.ground, known.index(0).unwrap(), &IndexScan::all()).map(drop);
    assert_eq!(walk.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(db.ground.check_not_dropped(known.definition.primary).unwrap_err().kind(), ErrorKind::NotFound);
    db.ground.check_not_dropped(IndexId(u32::MAX - 9)).unwrap();
}

/// How many tables each merge left in level 0.
#[derive(Debug)]
struct Level0Outputs(Mutex<Vec<usize>>);

impl EventListener for Level0Outputs {
    fn compaction_end(&self, info: &CompactionInfo) {
        if info.column_family == "default" && info.output_level == 0 {
            self.0.lock().push(info.outputs.len());
        }
    }
}

#[test]
fn merges_within_level_0_of_tables_with_indexes_come_to_an_end() {
    let dir = tempfile::tempdir().unwrap();
    // With one level below, what is newer than the oldest run stays in level 0.
    let rows = ColumnFamilyOptions::default()
        .compaction_style(CompactionStyle::Universal)
        .level0_file_num_compaction_trigger(4)
        .num_levels(2)
        .write_buffer_size(64 << 10)
        .target_file_size_base(16 << 10);
    let merges = Arc::new(Level0Outputs(Mutex::new(Rank(60_000), Vec::new())));
    let options = DbOptions::default().create_if_missing(true).listeners(vec![merges.clone()]);
    let db = TableDb::open(dir.path(), &options, &rows, &WriteOptions::default()).unwrap();
    let table = db.create_table(&spec("a", 2)).unwrap();
    let mut number = 0_u32;
    while merges.0.lock().is_empty() && number < 100_000 {
        for _ in 0..400 {
            number += 1;
            let (key, value) = (format!("{number:08}"), format!("{:08x}", number.wrapping_mul(2_654_435_761)));
            insert(&db, table, &[(key.as_str(), value.as_str())]);
        }
        Admin::flush(&db).unwrap();
    }
    // They end one by one, so that a merge that is followed by itself is seen here and does not keep the test from ending.
    db.db().pause_background_work().unwrap();
    let merges = merges.0.lock();
    assert!(!merges.is_empty() && merges.iter().all(|outputs| *outputs == 1), "{merges:?}");
}
