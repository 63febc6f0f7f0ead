//! What sweeps must bear: rows of many versions, rows and entries that cannot be read, small limits, and time that passes.

use super::lazy::lazy;
use super::sweeps::{DIR, World, at_once, only_found, only_passes, open_disk, small_blocks, world};
use super::*;
use siltstone_base::clock::ManualClock;
use siltstone_base::engine::Admin;
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter, SimDisk};
use siltstone_base::executor::{Executor, StepExecutor};
use siltstone_base::index_spec::LazyIndexSpec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// As [`Slice`], but for rows with a `!`, which it cannot read while it is told so.
#[derive(Debug, Clone)]
struct Picky {
    slice: Slice,
    is_picky: Arc<AtomicBool>,
}

impl IndexExtractor for Picky {
    fn extract(&self, key: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        self.slice.extract(key, value, index_key)
    }

    fn try_extract(&self, key: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> Result<bool> {
        if self.is_picky.load(Ordering::SeqCst) && value.contains(&b'!') {
            return Err(Error::corrupt("no row"));
        }
        Ok(self.extract(key, value, index_key))
    }

    fn fixed_len(&self) -> Option<usize> {
        Some(self.slice.len)
    }
}

fn picky(name: &str, is_picky: &Arc<AtomicBool>) -> LazyTableSpec {
    let extractor = |from| Picky { slice: Slice { from, len: 2 }, is_picky: Arc::clone(is_picky) };
    let index = |from| LazyIndexSpec::new(format!("by_{from}"), Arc::new(extractor(from)));
    LazyTableSpec { name: name.to_owned(), indexes: (0..2).map(index).collect() }
}

fn upsert(db: &TableDb, table: LazyTableId, key: &str, value: &str) {
    db.upsert(table, &[row(key, value)]).unwrap();
}

/// Entries, and stale ones, of a table.
fn entries(db: &TableDb, table: LazyTableId) -> (u64, u64) {
    let checks = db.check_table(table).unwrap();
    assert!(checks.iter().all(|check| check.is_sound() && check.missing == 0), "{checks:?}");
    checks.iter().fold((0, 0), |(entries, stale), check| (entries + check.entries, stale + check.stale))
}

/// A counter with an index on when it was touched last, in one memtable.
#[test]
fn a_row_of_very_many_versions_costs_a_flush_little_memory_and_is_swept() {
    const VERSIONS: u32 = 5_000;
    let value = |version: u32| {
        let letter = |number: u32| char::from_u32('!' as u32 + number % 90).unwrap();
        format!("{}{}x", letter(version / 90), letter(version))
    };
    let options = only_found().found_bytes(64 << 10);
    let world = world(&ColumnFamilyOptions::default(), &options);
    for version in 0..VERSIONS {
        world.upsert(&[("hot", &value(version))]);
    }
    world.upsert(&[("cold", "abc")]);
    world.db.sweeper.hold_for_test(true);
    Admin::flush(&world.db).unwrap();
    let figures = world.db.sweep_figures();
    assert!(figures.missed > 0 && figures.found >= figures.missed, "{figures:?}");
    world.db.sweeper.hold_for_test(false);
    Admin::settle(&world.db).unwrap();
    let figures = world.db.sweep_figures();
    assert!(figures.removed > 50 && !figures.has_failed && figures.failures == 0, "{figures:?}");
    assert_eq!(world.by(0), "XR:hot=XRx ab:cold=abc");
    while !world.db.sweep(world.table, usize::MAX).unwrap().is_through {}
    assert_eq!(world.entries(), (4, 0));
}

/// More than one record of the WAL may hold, by the versions of one row and by those of many.
#[test]
fn small_records_of_the_wal_keep_nothing_from_being_swept() {
    for in_background in [true, false] {
        let disk = SimDisk::new();
        disk.make_durable_dir(Path::new(DIR)).unwrap();
        let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
        let shared: Arc<dyn Executor> = Arc::<StepExecutor>::clone(&executor);
        let options = DbOptions::default()
            .create_if_missing(true)
            .env(Some(disk.env()))
            .executor(Some(shared))
            .max_wal_record_bytes(1024);
        let sweeps = only_found().in_background(in_background);
        let rows = ColumnFamilyOptions::default();
        let db = TableDb::open_swept(DIR, &options, &rows, &WriteOptions::default(), &sweeps).unwrap();
        let table = db.create_lazy_table(&lazy("t")).unwrap();
        let long = "k".repeat(100);
        for version in 0..100 {
            upsert(&db, table, "hot", &format!("{version:04}"));
            upsert(&db, table, &format!("{long}{:02}", version % 50), &format!("{version:04}"));
        }
        Admin::flush(&db).unwrap();
        Admin::settle(&db).unwrap();
        if !in_background {
            assert_eq!(db.sweep(table, usize::MAX).unwrap().left, 0);
        }
        assert_eq!(entries(&db, table), (102, 0), "{:?}", db.sweep_figures());
        assert_eq!(db.sweep_figures().failures, 0);
        db.close().unwrap();
    }
}

/// A flush cannot ask the newest version what it yields, since its extractor fails for a while: the entry may be the same as before.
#[test]
fn a_row_that_cannot_be_read_for_a_while_does_not_lose_its_entry() {
    let world = world(&ColumnFamilyOptions::default(), &only_found());
    let is_picky = Arc::new(AtomicBool::new(false));
    let table = world.db.create_lazy_table(&picky("p", &is_picky)).unwrap();
    upsert(&world.db, table, "1", "abc");
    upsert(&world.db, table, "1", "abc!");
    upsert(&world.db, table, "2", "abd");
    upsert(&world.db, table, "2", "xyz");
    is_picky.store(true, Ordering::SeqCst);
    Admin::flush(&world.db).unwrap();
    Admin::settle(&world.db).unwrap();
    is_picky.store(false, Ordering::SeqCst);
    assert_eq!(by(&world.db, table, 0, &IndexScan::all()), "ab:1=abc! xy:2=xyz");
    assert_eq!(entries(&world.db, table), (4, 0));
}

/// Of the same index, of other indexes, and of other tables.
#[test]
fn a_row_that_cannot_be_read_keeps_nothing_else_from_being_swept() {
    for options in [only_found(), only_passes()] {
        let world = world(&ColumnFamilyOptions::default(), &options);
        let is_picky = Arc::new(AtomicBool::new(false));
        let table = world.db.create_lazy_table(&picky("p", &is_picky)).unwrap();
        for round in 0..2 {
            is_picky.store(false, Ordering::SeqCst);
            upsert(&world.db, table, "bad", &format!("{round}{round}{round}!"));
            is_picky.store(true, Ordering::SeqCst);
            (0..50).for_each(|key| upsert(&world.db, table, &format!("{key:02}"), &format!("{round}{key:02}")));
            (0..50).for_each(|key| world.upsert(&[(&format!("{key:02}"), &format!("{round}{key:02}"))]));
        }
        world.compact();
        Admin::settle(&world.db).unwrap();
        assert!(!world.db.sweep_figures().has_failed);
        assert_eq!(world.entries(), (100, 0), "{:?}", world.db.sweep_figures());
        is_picky.store(false, Ordering::SeqCst);
        let (all, stale) = entries(&world.db, table);
        assert!(stale <= 2 && all == 102 + stale, "{stale} of {all}: {:?}", world.db.sweep_figures());
    }
}

/// Else a step of the job, or the call of a writer that helps, takes as long as a counter has versions.
#[test]
fn a_walk_passes_a_row_of_very_many_versions_by() {
    let world = world(&ColumnFamilyOptions::default(), &SweepOptions::default().in_background(false));
    let text = "~".repeat(200);
    for version in 0..20_000 {
        world.upsert(&[("hot", &format!("{version:05}{text}"))]);
    }
    world.upsert(&[("row", "ab")]);
    world.upsert(&[("row", "cd")]);
    let tables = world.db.ground.open_tables.load();
    let table = tables.iter().find(|table| table.definition.lazy).unwrap();
    let (rows, bytes, stale) = world.db.ground.walk_for_test(table);
    assert_eq!(rows, 2);
    assert!(bytes < 1_100_000, "{bytes} bytes were looked at, of more than 4 MB");
    assert!(stale > 2, "{stale}: also of the row behind it");
    assert!(world.entries().1 > stale, "the others are left to a pass");
}

/// Else every few calls of writers would read as far as the damage.
#[test]
fn rows_that_cannot_be_walked_over_are_left_alone_for_a_while() {
    let world = world(&small_blocks().disable_auto_compactions(true), &at_once());
    (0..3).for_each(|round| world.round(round));
    Admin::flush(&world.db).unwrap();
    Admin::settle(&world.db).unwrap();
    let reads = OpFilter { class: Some(OpClass::Read), file: Some(FileKind::Table), ..OpFilter::default() };
    world.disk.set_fault(FaultPlan::sticky(FaultKind::Io, 0).filter(reads));
    (3..20).for_each(|round| world.round(round));
    let figures = world.db.sweep_figures();
    assert!((1..4).contains(&figures.failures), "{figures:?}");
    world.disk.clear_fault();
    world.executor.sleep(Duration::from_secs(3_600));
    (20..23).for_each(|round| world.round(round));
    Admin::settle(&world.db).unwrap();
    let (all, stale) = world.entries();
    assert!(stale * 100 <= all * 30, "{stale} of {all}: {:?}", world.db.sweep_figures());
}

/// It is tried again after a while, and not all the time.
#[test]
fn an_index_with_a_damaged_entry_is_left_alone_for_a_while_and_others_are_swept() {
    let world = world(&ColumnFamilyOptions::default(), &only_passes());
    let damaged = world.db.create_lazy_table(&lazy("damaged")).unwrap();
    let entry = IndexId(damaged.0 + 1).key(b"x");
    world.db.db().put(&entry, b"").unwrap();
    (0..3).for_each(|round| upsert(&world.db, damaged, "1", &format!("{round}bc")));
    (0..2).for_each(|round| world.round(round));
    Admin::settle(&world.db).unwrap();
    let figures = world.db.sweep_figures();
    assert!((1..20).contains(&figures.failures) && !figures.has_failed, "{figures:?}");
    let (all, stale) = world.entries();
    assert!(stale * 100 <= all * 20, "{stale} of {all}: {figures:?}");
    world.db.db().delete(&entry).unwrap();
    world.executor.sleep(Duration::from_secs(3_600));
    (0..40).for_each(|round| upsert(&world.db, damaged, "1", &format!("{:02}", round % 7)));
    Admin::settle(&world.db).unwrap();
    let (all, stale) = entries(&world.db, damaged);
    assert!(stale <= 1, "{stale} of {all}: {:?}", world.db.sweep_figures());
}

/// Else compactions would keep what is old for as long as a slow sweep takes.
#[test]
fn a_slow_sweep_holds_no_snapshot_for_long_and_gets_through_all_the_same() {
    let world = world(&ColumnFamilyOptions::default(), &only_passes());
    (0..2).for_each(|round| world.round(round));
    world.executor.limit_steps(16);
    let (clock, mut held) = (world.executor.manual_clock(), 0);
    let oldest = |world: &World| world.db.db().property("rocksdb.oldest-snapshot-sequence").unwrap();
    let (mut last, mut since) = (String::new(), 0);
    for step in 0..600 {
        // So that each snapshot has a number of its own.
        world.upsert(&[("zzz", &format!("{step:04}"))]);
        let now = oldest(&world);
        if now != last {
            (last, since) = (now, step);
        }
        held = if last == "0" { held } else { held.max(step - since) };
        clock.advance(Duration::from_secs(2));
        world.executor.step();
    }
    Admin::settle(&world.db).unwrap();
    let figures = world.db.sweep_figures();
    assert!(figures.passes >= 2 && figures.failures == 0, "{figures:?}");
    assert!((3..40).contains(&held), "held for {held} steps of 2 s");
    let (all, stale) = world.entries();
    assert!(stale * 100 <= all * 20, "{stale} of {all}: {figures:?}");
}

/// What a writer that helps cannot remove is not lost.
#[test]
fn helping_writers_lose_nothing_of_what_was_found() {
    let options = only_found().found_bytes(40 << 10);
    let world = world(&small_blocks().disable_auto_compactions(true), &options);
    (0..2).for_each(|round| world.round(round));
    world.executor.limit_steps(1);
    Admin::flush(&world.db).unwrap();
    for round in 2..12 {
        world.round(round);
    }
    Admin::flush(&world.db).unwrap();
    Admin::settle(&world.db).unwrap();
    let figures = world.db.sweep_figures();
    assert!(figures.removed + figures.missed >= figures.found, "{figures:?}");
    assert!(figures.failures == 0 && figures.removed > 0, "{figures:?}");
}

/// Closed in the middle of all that, and opened again.
#[test]
fn limits_that_became_smaller_leave_what_does_not_fit() {
    let world = world(&ColumnFamilyOptions::default(), &only_passes().in_background(false));
    let long = "k".repeat(2_000);
    world.upsert(&[(&long, "abc"), ("1", "abc")]);
    world.upsert(&[(&long, "xyz"), ("1", "xyz")]);
    let World { disk, executor, db, table } = world;
    db.close().unwrap();
    drop(executor);
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let shared: Arc<dyn Executor> = executor;
    let options = DbOptions::default().env(Some(disk.env())).executor(Some(shared)).max_wal_record_bytes(1024);
    let (rows, sweeps) = (ColumnFamilyOptions::default(), SweepOptions::default().in_background(false));
    let db = TableDb::open_swept(DIR, &options, &rows, &WriteOptions::default(), &sweeps).unwrap();
    assert_eq!(db.open_lazy_table(&lazy("t")).unwrap(), table);
    let swept = db.sweep(table, usize::MAX).unwrap();
    assert_eq!((swept.removed, swept.left), (2, 2));
    db.close().unwrap();
    let (_executor, db) = open_disk(&disk, &rows, &at_once());
    assert_eq!(db.open_lazy_table(&lazy("t")).unwrap(), table);
    assert_eq!(db.sweep(table, usize::MAX).unwrap().removed, 2);
}

/// Nothing is known of the indexes then, and half of what is written is taken for stale.
#[test]
fn the_first_changes_after_an_opening_do_not_walk_over_all_rows() {
    let world = world(&small_blocks(), &SweepOptions::default().in_background(false));
    for key in 0..3_000 {
        world.upsert(&[(&format!("{key:06}"), &format!("{:06}", key * 7_919 % 999_983))]);
    }
    Admin::settle(&world.db).unwrap();
    world.db.close().unwrap();
    let (executor, db) = open_disk(&world.disk, &small_blocks(), &SweepOptions::default().in_background(true));
    let table = db.open_lazy_table(&lazy("t")).unwrap();
    for key in 0..200 {
        db.upsert(table, &[row(&format!("{key:06}"), &format!("{:06}", key * 31))]).unwrap();
    }
    assert_eq!(db.sweep_figures().rows_walked, 0);
    executor.run_until_idle();
    let figures = db.sweep_figures();
    assert!(figures.rows_walked == 0 && figures.removed == 0, "{figures:?}");
}
