//! Sweeps in the background, one step at a time: what flushes and compactions find, what passes find, and that none of it is in anybody's way.

use super::lazy::lazy;
use super::*;
use crate::options::{CompactRangeOptions, TableOptions};
use siltstone_base::clock::ManualClock;
use siltstone_base::engine::Admin;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::{Executor, StepExecutor};
use siltstone_ttl::{RowExpiry, TableTtl, TtlDuration};
use std::time::Duration;

pub(super) const DIR: &str = "/db";

/// When databases are opened first.
const START: u64 = 1_700_000_000;

pub(super) struct World {
    pub(super) disk: SimDisk,
    pub(super) executor: Arc<StepExecutor>,
    pub(super) db: TableDb,
    pub(super) table: LazyTableId,
}

pub(super) fn world(rows: &ColumnFamilyOptions, sweeps: &SweepOptions) -> World {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new(DIR)).unwrap();
    let (executor, db) = open_disk(&disk, rows, sweeps);
    let table = db.create_lazy_table(&lazy("t")).unwrap();
    World { disk, executor, db, table }
}

pub(super) fn open_disk(
    disk: &SimDisk,
    rows: &ColumnFamilyOptions,
    sweeps: &SweepOptions,
) -> (Arc<StepExecutor>, TableDb) {
    open_disk_at(START, disk, rows, sweeps)
}

/// The same when it is so late.
fn open_disk_at(
    unix_seconds: u64,
    disk: &SimDisk,
    rows: &ColumnFamilyOptions,
    sweeps: &SweepOptions,
) -> (Arc<StepExecutor>, TableDb) {
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(unix_seconds))));
    let shared: Arc<dyn Executor> = Arc::<StepExecutor>::clone(&executor);
    let options = DbOptions::default().create_if_missing(true).env(Some(disk.env())).executor(Some(shared));
    let db = TableDb::open_swept(DIR, &options, rows, &WriteOptions::default(), sweeps).unwrap();
    (executor, db)
}

/// As soon as there is one stale entry.
pub(super) fn at_once() -> SweepOptions {
    SweepOptions::default().in_background(true).least_stale(1)
}

/// Only what flushes and compactions find.
pub(super) fn only_found() -> SweepOptions {
    SweepOptions::default().in_background(true).begin_per_cent(100)
}

/// Only passes.
pub(super) fn only_passes() -> SweepOptions {
    at_once().found_bytes(0).walk_rows(false)
}

impl World {
    fn steps(&self, count: u32) {
        for _ in 0..count {
            self.executor.step();
        }
    }

    pub(super) fn upsert(&self, rows: &[(&str, &str)]) {
        let rows: Vec<_> = rows.iter().map(|(key, value)| row(key, value)).collect();
        self.db.upsert(self.table, &rows).unwrap();
    }

    /// Rows 000 to 199, each a call of its own.
    pub(super) fn round(&self, round: u32) {
        for key in 0..200 {
            self.upsert(&[(&format!("{key:03}"), &format!("{:04}", (key * 7 + round * 13) % 997))]);
        }
    }

    pub(super) fn compact(&self) {
        Admin::flush(&self.db).unwrap();
        let options = CompactRangeOptions::default().force_bottommost(true);
        self.db.db().compact_range(&self.db.ground.rows, None, None, &options).unwrap();
    }

    pub(super) fn by(&self, index: usize) -> String {
        by(&self.db, self.table, index, &IndexScan::all())
    }

    /// Entries, and stale ones, of all indexes.
    pub(super) fn entries(&self) -> (u64, u64) {
        let checks = self.db.check_table(self.table).unwrap();
        assert!(checks.iter().all(|check| check.is_sound() && check.missing == 0), "{checks:?}");
        checks.iter().fold((0, 0), |(entries, stale), check| (entries + check.entries, stale + check.stale))
    }
}

#[test]
fn what_a_flush_finds_is_removed_without_reading_a_row() {
    let world = world(&ColumnFamilyOptions::default(), &only_found());
    world.upsert(&[("1", "abc"), ("2", "abd"), ("3", "abe")]);
    world.upsert(&[("1", "xbc"), ("2", "abd")]);
    world.db.delete_keys(world.table, &[b"3"]).unwrap();
    assert_eq!(world.entries(), (7, 3));
    Admin::flush(&world.db).unwrap();
    world.executor.run_until_idle();
    assert_eq!(world.entries(), (4, 0));
    let figures = world.db.sweep_figures();
    assert_eq!((figures.found, figures.removed, figures.missed, figures.rows_read), (3, 3, 0, 0), "{figures:?}");
    assert_eq!(world.by(0), "ab:2=abd xb:1=xbc");
    assert!(!world.db.sweeper.is_busy());
}

#[test]
fn what_a_compaction_finds_is_removed_without_reading_a_row() {
    let rows = ColumnFamilyOptions::default().table(TableOptions::default().bloom_bits_per_key(10.0));
    let world = world(&rows, &only_found());
    for round in 0..3 {
        world.round(round);
        Admin::flush(&world.db).unwrap();
    }
    assert_eq!(world.db.sweep_figures().found, 0, "each table has every row once");
    let stale = world.entries().1;
    assert!(stale > 400, "{stale}");
    world.compact();
    world.executor.run_until_idle();
    assert_eq!(world.entries(), (400, 0));
    let figures = world.db.sweep_figures();
    assert_eq!(
        (figures.removed, figures.missed, figures.passes, figures.entries_read),
        (stale, 0, 0, 0),
        "{figures:?}"
    );
    assert_eq!(figures.rows_read, 0);
}

/// What a job met as the newest version is not any more: the newer one may yield again what the older one did.
#[test]
fn an_entry_that_counts_again_is_not_removed() {
    let disable = ColumnFamilyOptions::default().disable_auto_compactions(true);
    let world = world(&disable, &only_found());
    for value in ["abc", "xyz"] {
        world.upsert(&[("1", value), ("2", value)]);
        Admin::flush(&world.db).unwrap();
    }
    let steps = || while world.executor.step() {};
    // The compaction runs, and nothing else.
    world.db.sweeper.hold_for_test(true);
    world.compact();
    assert_eq!(world.db.sweep_figures().found, 4);
    world.upsert(&[("1", "abc")]);
    Admin::flush(&world.db).unwrap();
    world.upsert(&[("2", "abq")]);
    world.db.sweeper.hold_for_test(false);
    steps();
    assert_eq!(world.by(0), "ab:1=abc ab:2=abq");
    assert_eq!(world.by(1), "bc:1=abc bq:2=abq");
    let figures = world.db.sweep_figures();
    assert_eq!((figures.rows_read, figures.removed), (2, 1), "{figures:?}");
    world.compact();
    world.executor.run_until_idle();
    assert_eq!(world.entries(), (4, 0));
}

/// The row is there, and is seen again when the clock is right.
#[test]
fn an_entry_of_a_row_that_a_distrusted_clock_hides_is_not_removed() {
    let expiry = RowExpiry::after(TtlDuration::from_seconds(1000).unwrap()).from_column(3);
    let rows =
        ColumnFamilyOptions::default().disable_auto_compactions(true).expiry(Some(Arc::new(TableTtl::default())));
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new(DIR)).unwrap();
    let at = |seconds| {
        let (executor, db) = open_disk_at(START + seconds, &disk, &rows, &only_found());
        let table = db.open_expiring_lazy_table(&lazy("t"), &expiry);
        let table = table.or_else(|_| db.create_expiring_lazy_table(&lazy("t"), &expiry)).unwrap();
        World { disk: disk.clone(), executor, db, table }
    };
    let upsert = |world: &World, text: &str| {
        let value = [text.as_bytes(), &START.to_be_bytes()].concat();
        world.db.upsert(world.table, &[Row { primary_key: b"1", value: &value }]).unwrap();
    };
    let world = at(0);
    for text in ["abc", "xyz"] {
        upsert(&world, text);
        Admin::flush(&world.db).unwrap();
    }
    world.db.close().unwrap();
    let world = at(400 * 86_400);
    world.db.sweeper.hold_for_test(true);
    world.compact();
    assert_eq!(world.db.sweep_figures().found, 2);
    upsert(&world, "abc");
    world.db.sweeper.hold_for_test(false);
    world.executor.run_until_idle();
    world.db.close().unwrap();
    let world = at(10);
    assert_eq!(world.entries(), (4, 2), "none is missing");
    assert_eq!(world.db.scan_rows_by(world.table, 0, &IndexScan::all(), &mut |_, _| {}).unwrap(), 1);
}

#[test]
fn snapshots_keep_what_is_swept_from_under_them() {
    let world = world(&ColumnFamilyOptions::default(), &at_once());
    let mut moments = Vec::new();
    for value in ["abc", "xyz", "abc", "qrs"] {
        world.upsert(&[("1", value)]);
        moments.push((world.db.snapshot(), value));
        world.compact();
        world.executor.run_until_idle();
    }
    for (snapshot, value) in &moments {
        let scan = IndexScan::all().at(snapshot);
        assert_eq!(by(&world.db, world.table, 0, &scan), format!("{}:1={value}", &value[..2]));
    }
    drop(moments);
    world.compact();
    Admin::settle(&world.db).unwrap();
    assert_eq!(world.entries(), (2, 0));
}

#[test]
fn an_index_is_gone_through_where_its_share_of_stale_entries_is_large() {
    let world = world(&ColumnFamilyOptions::default(), &only_passes());
    world.round(0);
    world.round(1);
    Admin::settle(&world.db).unwrap();
    let (entries, stale) = world.entries();
    assert!(stale * 100 <= entries * 20, "{stale} of {entries}");
    let figures = world.db.sweep_figures();
    assert!(figures.passes >= 2 && figures.found == 0 && !figures.has_failed, "{figures:?}");
    // Little changes: nothing is done.
    let before = world.db.sweep_figures();
    world.upsert(&[("007", "zzzz")]);
    world.executor.run_until_idle();
    assert_eq!(world.db.sweep_figures(), before);
}

#[test]
fn nothing_is_swept_where_that_is_switched_off() {
    let world = world(&ColumnFamilyOptions::default(), &at_once().in_background(false));
    (0..3).for_each(|round| world.round(round));
    let stale = world.entries().1;
    world.compact();
    Admin::settle(&world.db).unwrap();
    assert_eq!(world.entries().1, stale);
    assert_eq!(world.db.sweep_figures(), SweepFigures::default());
    assert_eq!(world.db.sweep(world.table, usize::MAX).unwrap().removed, stale);
}

#[test]
fn a_pause_holds_sweeps_back_and_they_go_on_after_it() {
    for options in [only_found(), only_passes()] {
        let world = world(&ColumnFamilyOptions::default(), &options);
        world.executor.limit_steps(1);
        (0..2).for_each(|round| world.round(round));
        Admin::flush(&world.db).unwrap();
        world.steps(3);
        world.db.db().pause_background_work().unwrap();
        world.executor.run_until_idle();
        let (stale, figures) = (world.entries().1, world.db.sweep_figures());
        assert!(stale > 0, "{figures:?}");
        world.steps(100);
        assert_eq!((world.entries().1, world.db.sweep_figures()), (stale, figures));
        world.db.db().resume_background_work();
        Admin::settle(&world.db).unwrap();
        assert_eq!(world.entries().1, 0, "{:?}", world.db.sweep_figures());
    }
}

/// By hand and in the background, an index is swept by one at a time; none waits for the other for ever.
#[test]
fn sweeps_by_hand_come_in_between() {
    let world = world(&ColumnFamilyOptions::default(), &at_once().step_entries(16));
    world.executor.limit_steps(1);
    let mut by_hand = 0;
    for round in 0..4 {
        world.round(round);
        world.steps(20);
        by_hand += world.db.sweep(world.table, 50).unwrap().entries;
    }
    assert!(by_hand >= 100);
    Admin::settle(&world.db).unwrap();
    while !world.db.sweep(world.table, usize::MAX).unwrap().is_through {}
    while !world.db.sweep(world.table, usize::MAX).unwrap().is_through {}
    assert_eq!(world.entries(), (400, 0));
}

#[test]
fn closing_and_dropping_wait_for_no_sweep() {
    for options in [only_found(), only_passes()] {
        for is_closed in [true, false] {
            let world = world(&ColumnFamilyOptions::default(), &options);
            world.executor.limit_steps(1);
            (0..2).for_each(|round| world.round(round));
            Admin::flush(&world.db).unwrap();
            world.steps(5);
            let World { disk, executor, db, table } = world;
            match is_closed {
                true => db.close().unwrap(),
                false => drop(db),
            }
            executor.run_until_idle();
            assert_eq!(executor.pending(), 0);
            let (_executor, db) = open_disk(&disk, &ColumnFamilyOptions::default(), &options);
            assert_eq!(db.open_lazy_table(&lazy("t")).unwrap(), table);
            assert!(db.check_table(table).unwrap().iter().all(|check| check.is_sound() && check.missing == 0));
        }
    }
}

/// A table that goes takes along what is being swept of it.
#[test]
fn a_dropped_table_is_swept_no_more() {
    for options in [only_found(), only_passes().step_entries(16)] {
        let world = world(&ColumnFamilyOptions::default(), &options);
        world.executor.limit_steps(1);
        (0..2).for_each(|round| world.round(round));
        Admin::flush(&world.db).unwrap();
        world.steps(5);
        world.db.drop_index(world.table, "by_0").unwrap();
        world.steps(5);
        world.db.drop_table(world.table).unwrap();
        Admin::settle(&world.db).unwrap();
        let figures = world.db.sweep_figures();
        assert!(!figures.has_failed && !world.db.sweeper.is_busy(), "{figures:?}");
    }
}

/// Tables of many small blocks: an index is sampled before it is gone through.
pub(super) fn small_blocks() -> ColumnFamilyOptions {
    ColumnFamilyOptions::default()
        .write_buffer_size(64 << 10)
        .table(TableOptions::default().block_size(256).bloom_bits_per_key(10.0))
}

#[test]
fn rows_in_the_order_of_their_keys_cost_sweeps_nothing_after_an_opening_neither() {
    let world = world(&small_blocks(), &SweepOptions::default().in_background(true).least_stale(1));
    let load = |db: &TableDb, table, keys: std::ops::Range<u32>| {
        for key in keys {
            db.upsert(table, &[row(&format!("{key:06}"), &format!("{:06}", key * 7 % 1_000))]).unwrap();
        }
        Admin::settle(db).unwrap();
        let (swept, figures) = (db.sweep_figures(), db.lazy_figures(table).unwrap());
        assert_eq!((swept.samples, swept.walks, swept.passes, figures.stale), (0, 0, 0, 0), "{swept:?} {figures:?}");
        figures.entries
    };
    assert_eq!(load(&world.db, world.table, 0..3_000), 6_000);
    world.db.close().unwrap();
    let (_, db) = open_disk(&world.disk, &small_blocks(), &SweepOptions::default().in_background(true).least_stale(1));
    let table = db.open_lazy_table(&lazy("t")).unwrap();
    assert_eq!(load(&db, table, 3_000..6_000), 6_000, "since it was opened");
    // Rows that are there are no new ones.
    db.upsert(table, &[row("000000", "abc"), row("000001", "abd")]).unwrap();
    assert_eq!(db.lazy_figures(table).unwrap().stale, 2, "half of the entries");
}

/// The index had too little for a sample when it was begun to go through it.
#[test]
fn an_index_that_has_grown_is_sampled_before_it_is_gone_through_further() {
    let sweeps = SweepOptions::default().in_background(true).least_stale(500).walk_rows(false).step_entries(64);
    let world = world(&small_blocks(), &sweeps);
    let upsert = |key: u32| world.upsert(&[(&format!("{key:06}"), &format!("{:06}", key * 7 % 1_000))]);
    // Not in their order: they might be there.
    (0..600).rev().for_each(upsert);
    world.steps(2);
    (600..20_000).rev().for_each(upsert);
    Admin::settle(&world.db).unwrap();
    let figures = world.db.sweep_figures();
    assert!(figures.samples > 0 && figures.passes == 0 && figures.entries_read < 10_000, "{figures:?}");
}

#[test]
fn new_rows_alone_are_sampled_and_not_gone_through() {
    let world = world(&small_blocks(), &SweepOptions::default().in_background(true).least_stale(500));
    let mut state = 5_u32;
    for key in 0..6_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // In an order in which they might be there.
        world.upsert(&[(&format!("{:06}", key * 7_919 % 6_000), &format!("{:06}", state >> 12))]);
        world.executor.run_until_idle();
    }
    let figures = world.db.sweep_figures();
    assert_eq!((figures.found, figures.removed), (0, 0), "{figures:?}");
    assert!((1..40).contains(&figures.samples), "{figures:?}");
    // The index had fewer blocks than a sample has places when it was gone through.
    assert!(figures.entries_read < 20_000, "{figures:?}");
    assert!(world.db.lazy_figures(world.table).unwrap().is_known);
}

#[test]
fn a_sample_that_shows_many_stale_entries_begins_a_pass() {
    let rows = small_blocks().disable_auto_compactions(true);
    let sweeps = SweepOptions::default().in_background(true).least_stale(500).found_bytes(0).walk_rows(false);
    let world = world(&rows, &sweeps);
    for round in 0..4 {
        for key in 0..1_500 {
            world.upsert(&[(&format!("{key:06}"), &format!("{:06}", (key * 7_919 + round * 104_729) % 999_983))]);
        }
        Admin::flush(&world.db).unwrap();
        Admin::settle(&world.db).unwrap();
        let (entries, stale) = world.entries();
        assert!(stale * 100 < entries * 30, "round {round}: {stale} of {entries}: {:?}", world.db.sweep_figures());
    }
    let figures = world.db.sweep_figures();
    assert!(figures.samples > 0 && figures.passes > 0, "{figures:?}");
}

/// Rows that change again and again, in a tree whose upper levels hold as much as the last one: less than 30 % of the entries are stale at any time.
#[test]
fn steady_changes_leave_less_than_a_third_stale() {
    let rows = small_blocks().target_file_size_base(32 << 10).max_bytes_for_level_base(128 << 10);
    let world = world(&rows, &SweepOptions::default().in_background(true).least_stale(200));
    let mut state = 5_u32;
    let mut draw = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    for key in 0..4_000 {
        world.upsert(&[(&format!("{key:06}"), &format!("{:08}", draw()))]);
    }
    Admin::settle(&world.db).unwrap();
    for round in 0..10 {
        for _ in 0..1_200 {
            let (key, value) = (draw() % 4_000, draw());
            world.upsert(&[(&format!("{key:06}"), &format!("{value:08}"))]);
            world.executor.sleep(Duration::from_micros(200));
        }
        let (entries, stale) = world.entries();
        assert!(stale * 100 < entries * 30, "round {round}: {stale} of {entries}: {:?}", world.db.sweep_figures());
    }
    let figures = world.db.sweep_figures();
    assert!(figures.missed == 0 && !figures.has_failed, "{figures:?}");
}
