//! Rows that expire: every read shows the rows that are not expired at its time, whatever the clock, snapshots, the duration, compactions and crashes do.

#![expect(clippy::unwrap_used, reason = "a test")]

mod ttl_support;

use siltstone::lsm::{
    ColumnFamilyOptions, CompactRangeOptions, CompactionStyle, CompressionType, Db, DbOptions, ErrorKind,
    ExpiryBlocker, ExpiryReport, FlushOptions, ReadOptions, WriteBatch, WriteOptions,
};
use siltstone::ttl::{StampLayout, Ttl, TtlDuration, TtlFilter};
use siltstone_base::clock::{Clock, ManualClock};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use ttl_support::{Life, Rng, Trial, seconds, small_family};

const START: u64 = 1_700_000_000;

/// Cases drawn by [`every_read_shows_what_is_not_expired`].
const CASES: u64 = 300;

#[test]
fn every_read_shows_what_is_not_expired() {
    let mut rows_removed = 0;
    let mut files_dropped = 0;
    for seed in 0..CASES {
        let mut trial = Trial::new(seed);
        trial.run();
        rows_removed += trial.rows_removed;
        files_dropped += trial.files_dropped;
    }
    assert!(rows_removed > 1000 && files_dropped > 20, "{rows_removed} rows removed, {files_dropped} files dropped");
}

fn life(disk: &SimDisk, ttl: &Arc<Ttl>, now: u64) -> Life {
    Life::open(disk, small_family(CompactionStyle::Leveled), ttl, now).unwrap()
}

fn report(db: &Db) -> ExpiryReport {
    db.expiry_report(&db.default_family()).unwrap().unwrap()
}

fn put(db: &Db, ttl: &Ttl, key: &str, stamp: u64) {
    db.put(key, ttl.layout().stamped(key.as_bytes(), stamp).unwrap()).unwrap();
}

fn keys(db: &Db, options: &ReadOptions) -> Vec<String> {
    let mut rows = db.iter(options).unwrap();
    let mut keys = Vec::new();
    rows.seek_to_first();
    while rows.valid() {
        keys.push(String::from_utf8(rows.key().to_vec()).unwrap());
        rows.next();
    }
    rows.status().unwrap();
    keys
}

#[test]
fn a_table_of_expired_rows_goes_without_being_rewritten() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(1000)));
    let life = life(&disk, &ttl, START);
    for row in 0..100 {
        put(&life.db, &ttl, &format!("row{row:03}"), START + row);
    }
    life.db.flush(&FlushOptions::default()).unwrap();
    life.db.wait_for_background_work().unwrap();
    assert_eq!(report(&life.db).next_file_drop.map(|at| at / 10), Some((START + 1000 + 99) / 10));
    let written = life.written();
    life.pass(1020);
    assert_eq!(keys(&life.db, &ReadOptions::default()).len(), 79);
    let told = report(&life.db);
    assert!(told.expired_bytes > told.table_bytes / 10 && told.oldest_expired == Some(START + 1000), "{told:?}");
    life.pass(80);
    life.db.wait_for_background_work().unwrap();
    let told = report(&life.db);
    assert_eq!((told.table_bytes, told.expired_bytes, told.rows_removed), (0, 0, 100), "{told:?}");
    assert_eq!((told.files_dropped, life.written()), (1, written));
}

#[test]
fn a_snapshot_reads_the_same_rows_until_it_is_let_go() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Suffix, seconds(100)));
    let life = life(&disk, &ttl, START);
    put(&life.db, &ttl, "chalk", START);
    put(&life.db, &ttl, "slate", START + 1000);
    life.db.flush(&FlushOptions::default()).unwrap();
    let snapshot = life.db.snapshot();
    let at_snapshot = ReadOptions::default().snapshot(Some(snapshot.clone()));
    life.pass(500);
    ttl.set_duration(seconds(10)).unwrap();
    life.pass(1);
    life.db
        .compact_range(&life.db.default_family(), None, None, &CompactRangeOptions::default().force_bottommost(true))
        .unwrap();
    assert_eq!(keys(&life.db, &at_snapshot), ["chalk", "slate"]);
    assert_eq!(keys(&life.db, &ReadOptions::default()), ["slate"]);
    assert!(report(&life.db).blockers.contains(&ExpiryBlocker::Snapshot { unix_seconds: START }));
    drop((snapshot, at_snapshot));
    life.db
        .compact_range(&life.db.default_family(), None, None, &CompactRangeOptions::default().force_bottommost(true))
        .unwrap();
    life.db.wait_for_background_work().unwrap();
    assert_eq!((report(&life.db).rows_removed, report(&life.db).blockers), (1, Vec::new()));
}

#[test]
fn a_longer_duration_revives_nothing_even_after_a_crash() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(100)));
    let first = life(&disk, &ttl, START);
    put(&first.db, &ttl, "old", START);
    put(&first.db, &ttl, "new", START + 150);
    first.db.flush(&FlushOptions::default()).unwrap();
    // A compaction may not take the row: what is asked here is whether reads show it.
    let snapshot = first.db.snapshot();
    first.pass(200);
    assert_eq!(keys(&first.db, &ReadOptions::default()), ["new"]);
    ttl.set_duration(seconds(100_000)).unwrap();
    first.pass(1);
    assert_eq!(keys(&first.db, &ReadOptions::default()), ["new"]);
    drop(snapshot);
    let disk = first.lose_power(&disk);
    let longest = Arc::new(Ttl::new(StampLayout::Prefix, seconds(1_000_000)));
    let second = life(&disk, &longest, START + 300);
    assert_eq!(keys(&second.db, &ReadOptions::default()), ["new"]);
}

#[test]
fn a_clock_a_year_ahead_removes_nothing_until_it_is_confirmed() {
    const YEAR: u64 = 365 * 86_400;
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(3600)));
    let first = life(&disk, &ttl, START);
    put(&first.db, &ttl, "row", START);
    first.db.flush(&FlushOptions::default()).unwrap();
    first.close();
    let second = life(&disk, &ttl, START + YEAR);
    second.db.wait_for_background_work().unwrap();
    let compact = CompactRangeOptions::default().force_bottommost(true);
    second.db.compact_range(&second.db.default_family(), None, None, &compact).unwrap();
    let told = report(&second.db);
    assert_eq!(told.rows_removed, 0);
    let is_distrusted = |blocker: &ExpiryBlocker| match blocker {
        ExpiryBlocker::DistrustedClock(jump) => (jump.known, jump.found) == (START, START + YEAR),
        _ => false,
    };
    assert!(told.blockers.iter().any(is_distrusted), "{told:?}");
    second.close();
    // The clock was wrong: nothing is lost.
    let third = life(&disk, &ttl, START + 60);
    assert_eq!(keys(&third.db, &ReadOptions::default()), ["row"]);
    third.close();
    let fourth = life(&disk, &ttl, START + YEAR);
    fourth.db.confirm_clock().unwrap();
    fourth.db.wait_for_background_work().unwrap();
    assert_eq!((report(&fourth.db).rows_removed, report(&fourth.db).table_bytes), (1, 0));
    fourth.close();
    let fifth = life(&disk, &ttl, START + YEAR + 60);
    assert_eq!(report(&fifth.db).blockers, []);
}

#[test]
fn a_clock_that_goes_back_brings_no_row_back() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(100)));
    let first = life(&disk, &ttl, START);
    put(&first.db, &ttl, "row", START);
    put(&first.db, &ttl, "young", START + 10_000);
    let snapshot = first.db.snapshot();
    first.db.flush(&FlushOptions::default()).unwrap();
    first.pass(200);
    assert_eq!(keys(&first.db, &ReadOptions::default()), ["young"]);
    drop(snapshot);
    first.close();
    let second = life(&disk, &ttl, START - 10_000);
    assert_eq!(keys(&second.db, &ReadOptions::default()), ["young"]);
}

#[test]
fn an_idle_range_is_rewritten_when_a_third_of_it_is_expired() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(10_000)));
    let family = small_family(CompactionStyle::Leveled)
        .write_buffer_size(64 << 10)
        .target_file_size_base(32 << 10)
        .compression(CompressionType::None);
    let life = Life::open(&disk, family, &ttl, START).unwrap();
    let mut rng = Rng::new(5);
    for _ in 0..2000 {
        let key = format!("row{:05}", rng.below(1500));
        life.db.put(key, ttl.layout().stamped(&[b'v'; 200], START + rng.below(5000)).unwrap()).unwrap();
    }
    life.db.flush(&FlushOptions::default()).unwrap();
    life.db.compact_range(&life.db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
    // Nobody writes any more.
    for _ in 0..200 {
        life.pass(100);
        life.db.wait_for_background_work().unwrap();
        let told = report(&life.db);
        assert!(told.expired_bytes * 5 <= told.table_bytes * 2, "{told:?}");
    }
    let told = report(&life.db);
    assert_eq!((told.table_bytes, told.expired_bytes), (0, 0));
    let metrics = life.db.metrics();
    let count = |counter| metrics.get(counter);
    use siltstone::lsm::Counter::{ExpiryBytesIn, ExpiryBytesOut};
    let given_back = count(ExpiryBytesIn) - count(ExpiryBytesOut);
    assert!(count(ExpiryBytesOut) <= 2 * given_back, "{} for {given_back}", count(ExpiryBytesOut));
}

#[test]
fn tables_that_say_nothing_are_rewritten_when_their_rows_must_be_expired() {
    let disk = SimDisk::new();
    let plain = small_family(CompactionStyle::Leveled);
    let options = |now| ttl_support::options(&disk, &Arc::new(StepExecutor::new(Arc::new(ManualClock::new(now)))));
    let db = Db::open_families("/db", &options(START), &[("default", plain)]).unwrap();
    let layout = StampLayout::Suffix;
    db.put("row", layout.stamped(b"written by another", START).unwrap()).unwrap();
    db.flush(&FlushOptions::default()).unwrap();
    db.close().unwrap();
    let ttl = Arc::new(Ttl::new(layout, seconds(100)));
    let life = life(&disk, &ttl, START + 50);
    assert_eq!(keys(&life.db, &ReadOptions::default()), ["row"]);
    life.pass(60);
    life.db.wait_for_background_work().unwrap();
    assert_eq!((report(&life.db).rows_removed, report(&life.db).table_bytes), (1, 0));
}

#[test]
fn an_iterator_keeps_its_rows_and_is_told_of() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(100)));
    let life = life(&disk, &ttl, START);
    put(&life.db, &ttl, "row", START);
    life.db.flush(&FlushOptions::default()).unwrap();
    let mut rows = life.db.iter(&ReadOptions::default()).unwrap();
    life.pass(200);
    life.db.wait_for_background_work().unwrap();
    let told = report(&life.db);
    assert_eq!(told.table_bytes, 0);
    assert!(matches!(told.blockers[..], [ExpiryBlocker::OpenIterator { table_bytes: 1.. }]), "{told:?}");
    rows.seek_to_first();
    assert_eq!(rows.key(), b"row", "it was made before the row expired");
    drop(rows);
    life.db.wait_for_background_work().unwrap();
}

#[test]
fn batches_multi_get_and_the_default_column_hide_too() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(100)));
    let life = life(&disk, &ttl, START);
    let mut batch = WriteBatch::new();
    batch.put("a", ttl.layout().stamped(b"1", START).unwrap());
    batch.put("b", ttl.layout().stamped(b"2", START + 50).unwrap());
    life.db.write(&mut batch, &WriteOptions::default()).unwrap();
    life.pass(120);
    let family = life.db.default_family();
    let found = life.db.multi_get_cf(&family, &[b"a", b"b"], &ReadOptions::default());
    let found: Vec<bool> = found.into_iter().map(|value| value.unwrap().is_some()).collect();
    assert_eq!(found, [false, true]);
    assert!(life.db.get_entity_cf(&family, "a", &ReadOptions::default()).unwrap().is_none());
    assert!(life.db.get_entity_cf(&family, "b", &ReadOptions::default()).unwrap().is_some());
    assert_eq!(report(&life.db).rows_hidden, 2);
}

#[test]
fn what_makes_no_sense_together_is_refused() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(100)));
    let operator = siltstone::lsm::UInt64AddOperator;
    let family =
        small_family(CompactionStyle::Leveled).expiry(Some(ttl.clone())).merge_operator(Some(Arc::new(operator)));
    assert_eq!(family.validate().unwrap_err().kind(), ErrorKind::NotSupported);
    // One policy for two families.
    let life = life(&disk, &ttl, START);
    let error = life.db.create_family("other", &small_family(CompactionStyle::Leveled).expiry(Some(ttl))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(life.db.family("other").is_none());
}

#[test]
fn a_damaged_record_is_told_by_name() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(100)));
    life(&disk, &ttl, START).close();
    disk.flip(Path::new("/db/EXPIRY"), 17, 1).unwrap();
    let error = Life::open(&disk, small_family(CompactionStyle::Leveled), &ttl, START).unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(Path::new("/db/EXPIRY"))));
}

#[test]
fn a_checkpoint_remembers_what_was_expired() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(100)));
    let first = life(&disk, &ttl, START);
    put(&first.db, &ttl, "row", START);
    let snapshot = first.db.snapshot();
    first.pass(200);
    ttl.set_duration(seconds(100_000)).unwrap();
    let checkpoint = siltstone::lsm::Checkpoint::new(&first.db);
    checkpoint.create("/copy", &siltstone::lsm::CheckpointOptions::default()).unwrap();
    drop(snapshot);
    first.close();
    let options = ttl_support::options(&disk, &Arc::new(StepExecutor::new(Arc::new(ManualClock::new(START + 300)))));
    let family = small_family(CompactionStyle::Leveled).expiry(Some(ttl));
    let db = Db::open_families("/copy", &options, &[("default", family)]).unwrap();
    assert_eq!(keys(&db, &ReadOptions::default()), Vec::<String>::new());
}

#[test]
fn the_filter_alone_removes_rows_in_compactions() {
    let disk = SimDisk::new();
    let clock = Arc::new(ManualClock::new(START));
    let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
    let layout = StampLayout::Suffix;
    let filter = TtlFilter::new(layout, TtlDuration::from_seconds(100).unwrap(), Arc::clone(&clock) as Arc<dyn Clock>);
    let family =
        ColumnFamilyOptions::default().compaction_filter(Some(Arc::new(filter))).compression(CompressionType::None);
    let options: DbOptions = ttl_support::options(&disk, &executor);
    let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
    db.put("old", layout.stamped(b"1", START).unwrap()).unwrap();
    db.put("new", layout.stamped(b"2", START + 150).unwrap()).unwrap();
    clock.advance(Duration::from_secs(200));
    assert_eq!(keys(&db, &ReadOptions::default()), ["new", "old"], "reads see what no compaction has seen");
    db.flush(&FlushOptions::default()).unwrap();
    let force = CompactRangeOptions::default().force_bottommost(true);
    db.compact_range(&db.default_family(), None, None, &force).unwrap();
    assert_eq!(keys(&db, &ReadOptions::default()), ["new"]);
}
