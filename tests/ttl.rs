//! Rows that expire: every read shows the rows that are not expired at its time, whatever the clock, snapshots, the duration, compactions and crashes do.

#![expect(clippy::unwrap_used, reason = "a test")]

mod expiry_support;
mod ttl_cases;
mod ttl_support;

use expiry_support::{Rng, START, seconds};
use siltstone::lsm::{
    BackupEngine, BackupEngineOptions, ColumnFamilyOptions, CompactRangeOptions, CompactionStyle, CompressionType,
    Counter, CreateBackupOptions, Db, DbOptions, ErrorKind, ExpiryBlocker, ExpiryReport, FlushOptions, ReadOptions,
    RestoreOptions, WalRecoveryMode, WriteBatch, WriteOptions,
};
use siltstone::ttl::{StampLayout, Ttl, TtlDuration, TtlFilter};
use siltstone_base::clock::{Clock, FastClock, ManualClock};
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpFilter, SimDisk};
use siltstone_base::executor::StepExecutor;
use siltstone_base::plant::{PlantedBug, with_planted};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use ttl_support::{Life, Trial, small_family};

/// Cases drawn by [`every_read_shows_what_is_not_expired`].
const CASES: u64 = 2000;

/// Every second case from `first` on.
fn every_read_shows_what_is_not_expired(first: u64) {
    let mut rows_removed = 0;
    let mut files_dropped = 0;
    let mut blocks_skipped = 0;
    let mut went_back = 0;
    for seed in (first..CASES).step_by(2) {
        let mut trial = Trial::new(seed);
        trial.run();
        rows_removed += trial.rows_removed;
        files_dropped += trial.files_dropped;
        blocks_skipped += trial.blocks_skipped;
        went_back += trial.went_back;
    }
    assert!(went_back > 5, "{went_back} times rows were seen again");
    assert!(rows_removed > 1500 && files_dropped > 25, "{rows_removed} rows removed, {files_dropped} files dropped");
    assert!(blocks_skipped > 500, "{blocks_skipped} blocks skipped");
}

#[test]
fn every_read_of_an_even_case_shows_what_is_not_expired() {
    every_read_shows_what_is_not_expired(0);
}

#[test]
fn every_read_of_an_odd_case_shows_what_is_not_expired() {
    every_read_shows_what_is_not_expired(1);
}

#[test]
fn a_table_that_goes_although_older_rows_lie_beneath_is_seen() {
    let is_seen = |seed| catch_unwind(AssertUnwindSafe(|| Trial::new(seed).run())).is_err();
    assert!(with_planted(PlantedBug::ExpiredOverOlder, || (0..CASES).any(is_seen)));
}

#[test]
fn a_block_that_is_passed_by_although_older_rows_lie_beneath_is_seen() {
    let is_seen = |seed| catch_unwind(AssertUnwindSafe(|| Trial::new(seed).run())).is_err();
    assert!(with_planted(PlantedBug::ExpiredBlockOverOlder, || (0..CASES).any(is_seen)));
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
    assert!(told.expired_bytes > told.table_bytes / 12 && told.oldest_expired == Some(START + 1000), "{told:?}");
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

const YEAR: u64 = 365 * 86_400;

fn is_distrusted(told: &ExpiryReport) -> bool {
    told.blockers.iter().any(|blocker| matches!(blocker, ExpiryBlocker::DistrustedClock(_)))
}

fn compact(db: &Db) {
    let compact = CompactRangeOptions::default().force_bottommost(true);
    db.compact_range(&db.default_family(), None, None, &compact).unwrap();
    db.wait_for_background_work().unwrap();
}

/// One that had no policy until now, or whose rows are those of `DBWithTTL`: nothing is known of time but what its tables tell.
#[test]
fn a_directory_without_a_record_loses_no_row_to_a_clock_a_year_ahead() {
    let disk = SimDisk::new();
    let layout = StampLayout::Suffix;
    let options = |now| expiry_support::options(&disk, &Arc::new(StepExecutor::new(Arc::new(ManualClock::new(now)))));
    let plain = small_family(CompactionStyle::Leveled);
    let db = Db::open_families("/db", &options(START), &[("default", plain)]).unwrap();
    db.put("row", layout.stamped(b"of a month", START).unwrap()).unwrap();
    db.flush(&FlushOptions::default()).unwrap();
    db.close().unwrap();
    let ttl = Arc::new(Ttl::new(layout, seconds(30 * 86_400)));
    for _ in 0..2 {
        // The second time there is a record, of a time that was not trusted.
        let ahead = life(&disk, &ttl, START + YEAR);
        put(&ahead.db, &ttl, "another", START + YEAR);
        compact(&ahead.db);
        let told = report(&ahead.db);
        assert!(is_distrusted(&told) && told.rows_removed == 0, "{told:?}");
        ahead.close();
    }
    let right = life(&disk, &ttl, START + 60);
    assert_eq!(keys(&right.db, &ReadOptions::default()), ["another", "row"]);
    assert_eq!(report(&right.db).blockers, []);
}

#[test]
fn a_restored_backup_loses_no_row_to_a_clock_a_year_ahead() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(30 * 86_400)));
    let first = life(&disk, &ttl, START);
    put(&first.db, &ttl, "row", START);
    let options = BackupEngineOptions::default().env(Some(disk.env()));
    let mut backups = BackupEngine::open("/backups", &options).unwrap();
    let backup = backups.create(&first.db, &CreateBackupOptions::default().flush_before_backup(true)).unwrap();
    first.close();
    backups.restore(backup.id, "/restored", &RestoreOptions::default()).unwrap();
    let open = |now| Life::open_in("/restored", &disk, small_family(CompactionStyle::Leveled), &ttl, now).unwrap();
    let ahead = open(START + YEAR);
    compact(&ahead.db);
    let told = report(&ahead.db);
    assert!(is_distrusted(&told) && told.rows_removed == 0, "{told:?}");
    ahead.close();
    let right = open(START + 60);
    assert_eq!(keys(&right.db, &ReadOptions::default()), ["row"]);
}

/// What `DestroyDB` leaves, or who deletes the files that he knows: EXPIRY, and perhaps IDENTITY.
#[test]
fn a_database_that_was_here_before_expires_no_row_of_the_next_one() {
    for keeps_identity in [false, true] {
        let disk = SimDisk::new();
        let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(86_400)));
        life(&disk, &ttl, START).close();
        let env = disk.env();
        for entry in env.list_dir(Path::new("/db")).unwrap() {
            if entry.name != "EXPIRY" && (entry.name != "IDENTITY" || !keeps_identity) {
                env.remove_file(&Path::new("/db").join(entry.name)).unwrap();
            }
        }
        let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(60 * 86_400)));
        let next = life(&disk, &ttl, START);
        put(&next.db, &ttl, "row", START - 30 * 86_400);
        next.db.flush(&FlushOptions::default()).unwrap();
        compact(&next.db);
        assert_eq!(keys(&next.db, &ReadOptions::default()), ["row"], "keeps IDENTITY: {keeps_identity}");
    }
}

/// The last bytes of rows whose stamps are the first ones: any of them may look long expired.
#[test]
fn rows_are_not_judged_by_the_stamps_of_another_layout() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(1000)));
    let first = life(&disk, &ttl, START);
    put(&first.db, &ttl, "row", START);
    first.close();
    let wrong = Arc::new(Ttl::new(StampLayout::Suffix, seconds(1000)));
    let error = Life::open(&disk, small_family(CompactionStyle::Leveled), &wrong, START).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let told = error.to_string();
    assert!(told.contains("siltstone.ttl.prefix") && told.contains("siltstone.ttl.suffix"), "{told}");
    let right = life(&disk, &ttl, START);
    assert_eq!(keys(&right.db, &ReadOptions::default()), ["row"]);
}

/// Without the record, tables still tell whose stamps they have: nothing of the engine's goes and removes their rows.
#[test]
fn tables_of_another_layout_are_not_rewritten_for_their_age() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(1000)));
    let first = life(&disk, &ttl, START);
    put(&first.db, &ttl, "row", START);
    first.db.flush(&FlushOptions::default()).unwrap();
    first.close();
    disk.env().remove_file(Path::new("/db/EXPIRY")).unwrap();
    let wrong = Arc::new(Ttl::new(StampLayout::Suffix, seconds(1000)));
    let second = life(&disk, &wrong, START);
    for _ in 0..20 {
        second.pass(1000);
        second.db.wait_for_background_work().unwrap();
    }
    assert_eq!((report(&second.db).rows_removed, report(&second.db).expired_bytes), (0, 0));
}

#[test]
fn a_duration_is_not_changed_by_a_clock_that_may_be_wrong() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(10 * 86_400)));
    let first = life(&disk, &ttl, START);
    put(&first.db, &ttl, "old", START);
    first.close();
    // Forty days later, which is right, but further than is trusted.
    let second = life(&disk, &ttl, START + 40 * 86_400);
    put(&second.db, &ttl, "young", START + 40 * 86_400);
    let snapshot = second.db.snapshot();
    let read = ReadOptions::default().snapshot(Some(snapshot));
    let error = ttl.set_duration(seconds(1000 * 86_400)).unwrap_err();
    assert!(error.kind() == ErrorKind::Busy && error.to_string().contains("confirm_clock"), "{error}");
    assert_eq!(keys(&second.db, &read), ["young"]);
    second.db.confirm_clock().unwrap();
    ttl.set_duration(seconds(1000 * 86_400)).unwrap();
    second.pass(10);
    assert_eq!(keys(&second.db, &read), ["young"]);
    assert_eq!(keys(&second.db, &ReadOptions::default()), ["young"], "what was hidden stays so");
}

/// A slip of the user's, and an opening that fails for another reason: nobody ever read by that duration.
#[test]
fn an_opening_that_fails_lets_no_row_expire() {
    let month = seconds(30 * 86_400);
    let disk = SimDisk::new();
    let first = life(&disk, &Arc::new(Ttl::new(StampLayout::Prefix, month)), START);
    first.db.create_family("other", &small_family(CompactionStyle::Leveled)).unwrap();
    put(&first.db, &Ttl::new(StampLayout::Prefix, month), "row", START);
    first.close();
    let slip = Arc::new(Ttl::new(StampLayout::Prefix, seconds(1)));
    let elsewhere = SimDisk::new();
    let taken = Arc::new(Ttl::new(StampLayout::Prefix, month));
    let holder = life(&elsewhere, &taken, START);
    let try_to_open = |default: &Arc<Ttl>, other: &Arc<Ttl>| {
        let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(START + 100))));
        let family = |ttl: &Arc<Ttl>| small_family(CompactionStyle::Leveled).expiry(Some(ttl.clone()));
        let families = [("default", family(default)), ("other", family(other))];
        Db::open_families("/db", &expiry_support::options(&disk, &executor), &families)
    };
    assert_eq!(try_to_open(&slip, &taken).unwrap_err().kind(), ErrorKind::Busy);
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, month));
    let opened = try_to_open(&ttl, &Arc::new(Ttl::new(StampLayout::Prefix, month))).unwrap();
    compact(&opened);
    assert_eq!(keys(&opened, &ReadOptions::default()), ["row"]);
    assert_eq!(ttl.duration(), month);
    opened.close().unwrap();
    // One that succeeds counts.
    drop(try_to_open(&slip, &Arc::new(Ttl::new(StampLayout::Prefix, month))).unwrap());
    let again = life(&disk, &Arc::new(Ttl::new(StampLayout::Prefix, month)), START + 100);
    assert!(keys(&again.db, &ReadOptions::default()).is_empty());
    holder.close();
}

/// A disk that fails while durations are being saved: those of one family would count at the next opening, though nobody read by them.
#[test]
fn an_opening_that_cannot_save_the_durations_of_all_families_saves_none() {
    let (month, slip) = (seconds(30 * 86_400), seconds(1));
    let policy = |duration| Arc::new(Ttl::new(StampLayout::Prefix, duration));
    let open = |disk: &SimDisk, duration, now| {
        let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(now))));
        let family = || small_family(CompactionStyle::Leveled).expiry(Some(policy(duration)));
        let families = [("default", family()), ("other", family())];
        let options = expiry_support::options(disk, &executor).create_missing_column_families(true);
        Db::open_families("/db", &options, &families)
    };
    let count = |db: &Db| {
        let row = |family| db.get_cf(&family, "row", &ReadOptions::default()).unwrap();
        [db.default_family(), db.family("other").unwrap()].into_iter().filter_map(row).count()
    };
    let mut failed = 0;
    for after in 0.. {
        let disk = SimDisk::new();
        let db = open(&disk, month, START).unwrap();
        for family in [db.default_family(), db.family("other").unwrap()] {
            let row = policy(month).layout().stamped(b"v", START).unwrap();
            db.put_cf(&family, "row", row, &WriteOptions::default()).unwrap();
        }
        db.close().unwrap();
        disk.set_fault(FaultPlan {
            filter: OpFilter { file: Some(FileKind::Other), ..OpFilter::default() },
            ..FaultPlan::once(FaultKind::Io, after)
        });
        let opened = open(&disk, slip, START + 100);
        let is_hit = !disk.fault_hits().is_empty();
        let expected = match opened {
            Ok(db) => {
                assert_eq!(count(&db), 0);
                0
            }
            Err(error) => {
                assert!(is_hit, "{error}");
                failed += 1;
                2
            }
        };
        disk.clear_fault();
        assert_eq!(count(&open(&disk, month, START + 100).unwrap()), expected, "error at operation {after}");
        if !is_hit {
            break;
        }
    }
    assert!(failed > 3, "{failed} openings failed");
}

/// A WAL that is damaged is found after policies were asked.
#[test]
fn an_opening_that_meets_a_damaged_wal_lets_no_row_expire() {
    let disk = SimDisk::new();
    let month = seconds(30 * 86_400);
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, month));
    let first = life(&disk, &ttl, START);
    put(&first.db, &ttl, "flushed", START);
    first.db.flush(&FlushOptions::default()).unwrap();
    put(&first.db, &ttl, "damaged", START);
    put(&first.db, &ttl, "behind", START);
    first.close();
    let names = disk.env().list_dir(Path::new("/db")).unwrap();
    let wal = names.iter().rev().find(|entry| entry.name.ends_with(".log")).unwrap();
    let path = Path::new("/db").join(&wal.name);
    disk.flip(&path, 20, 1).unwrap();
    let slip = Arc::new(Ttl::new(StampLayout::Prefix, seconds(1)));
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(START + 100))));
    let options = expiry_support::options(&disk, &executor).wal_recovery_mode(WalRecoveryMode::AbsoluteConsistency);
    let family = small_family(CompactionStyle::Leveled).expiry(Some(slip));
    let error = Db::open_families("/db", &options, &[("default", family)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    disk.flip(&path, 20, 1).unwrap();
    let again = life(&disk, &Arc::new(Ttl::new(StampLayout::Prefix, month)), START + 100);
    assert_eq!(keys(&again.db, &ReadOptions::default()), ["behind", "damaged", "flushed"]);
}

/// A process that ran for a month, or a database that nobody wrote for longer, knows what time it is when its first policy comes.
#[test]
fn a_policy_that_comes_late_removes_rows() {
    const DAY: u64 = 86_400;
    for (before, after) in [(40, 0), (0, 31), (40, 31)] {
        let disk = SimDisk::new();
        let open = |now: u64| {
            let clock = Arc::new(ManualClock::new(now));
            let executor = Arc::new(StepExecutor::new(clock.clone()));
            (Db::open("/db", &expiry_support::options(&disk, &executor)).unwrap(), clock)
        };
        let (db, _) = open(START);
        db.put("row", "value").unwrap();
        db.flush(&FlushOptions::default()).unwrap();
        db.close().unwrap();
        let (db, clock) = open(START + before * DAY);
        clock.advance(Duration::from_secs(after * DAY));
        let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(100)));
        let family = small_family(CompactionStyle::Leveled).expiry(Some(ttl.clone()));
        let family = db.create_family("late", &family).unwrap();
        let told = db.expiry_report(&family).unwrap().unwrap();
        assert!(!is_distrusted(&told), "{before} days before, {after} days after: {told:?}");
        ttl.set_duration(seconds(50)).unwrap();
    }
    // A wall clock that jumps while the process runs is as doubtful as ever.
    let disk = SimDisk::new();
    let clock = Arc::new(ManualClock::new(START));
    let db = Db::open("/db", &expiry_support::options(&disk, &Arc::new(StepExecutor::new(clock.clone())))).unwrap();
    clock.move_wall(365 * DAY as i64);
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(100)));
    let family = small_family(CompactionStyle::Leveled).expiry(Some(ttl));
    let family = db.create_family("late", &family).unwrap();
    assert!(is_distrusted(&db.expiry_report(&family).unwrap().unwrap()));
}

/// A machine without a battery for its clock: the time comes from the network when the database is open already.
#[test]
fn rows_expire_though_the_clock_was_late_at_the_opening() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(86_400)));
    let life = life(&disk, &ttl, START);
    put(&life.db, &ttl, "row", START);
    life.clock.move_wall(20 * 86_400);
    life.pass(10);
    let told = report(&life.db);
    assert!(told.blockers.contains(&ExpiryBlocker::ClockBehind { seconds: 20 * 86_400 }), "{told:?}");
    assert_eq!(keys(&life.db, &ReadOptions::default()), ["row"], "nobody said that the clock is right");
    life.db.confirm_clock().unwrap();
    assert_eq!(keys(&life.db, &ReadOptions::default()), Vec::<String>::new());
    assert_eq!(report(&life.db).unix_seconds, START + 20 * 86_400 + 10);
}

#[test]
fn a_database_that_is_only_read_knows_the_time_after_a_crash() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(50 * 86_400)));
    let first = life(&disk, &ttl, START);
    put(&first.db, &ttl, "old", START);
    put(&first.db, &ttl, "young", START + 40 * 86_400);
    first.db.flush(&FlushOptions::default()).unwrap();
    let snapshot = first.db.snapshot();
    for _ in 0..55 * 24 {
        first.pass(3600);
    }
    assert_eq!(keys(&first.db, &ReadOptions::default()), ["young"]);
    drop(snapshot);
    let disk = first.lose_power(&disk);
    // Nothing was flushed for much longer than a clock may jump, and the clock went back three days.
    let second = life(&disk, &ttl, START + 55 * 86_400);
    assert!(!is_distrusted(&report(&second.db)), "{:?}", report(&second.db));
    let disk = second.lose_power(&disk);
    let third = life(&disk, &ttl, START + 49 * 86_400);
    assert_eq!(keys(&third.db, &ReadOptions::default()), ["young"]);
}

#[test]
fn a_slip_that_is_mended_at_once_costs_no_row() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(1000)));
    let first = life(&disk, &ttl, START);
    put(&first.db, &ttl, "row", START);
    first.close();
    // The clock went back, so that time stands still: the second lasts as long as it takes.
    let second = life(&disk, &ttl, START - 500);
    ttl.set_duration(seconds(1)).unwrap();
    second.pass(300);
    ttl.set_duration(seconds(1000)).unwrap();
    second.pass(300);
    compact(&second.db);
    assert_eq!(keys(&second.db, &ReadOptions::default()), ["row"]);
}

#[test]
fn a_policy_of_a_family_that_is_dropped_is_free() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(100)));
    let other = Arc::new(Ttl::new(StampLayout::Prefix, seconds(100)));
    let life = life(&disk, &ttl, START);
    let options = small_family(CompactionStyle::Leveled).expiry(Some(other.clone()));
    let dropped = life.db.create_family("other", &options).unwrap();
    life.db.drop_family(&dropped).unwrap();
    life.db.create_family("other", &options).unwrap();
}

/// A writer who never rests: there is always a level that is over its limit, and an idle range whose rows expire.
#[test]
fn an_idle_range_is_rewritten_beside_a_writer_who_never_rests() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(100_000)));
    let family = small_family(CompactionStyle::Leveled).level0_file_num_compaction_trigger(1);
    let clock = Arc::new(ManualClock::new(START));
    // It steps any job: those of low priority get on beside the others.
    let executor = Arc::new(StepExecutor::with_seed(Arc::clone(&clock), 7));
    let family = family.compression(CompressionType::None).expiry(Some(ttl.clone()));
    let db = Db::open_families("/db", &expiry_support::options(&disk, &executor), &[("default", family)]).unwrap();
    let life = Life { db, clock, executor };
    let mut rng = Rng::new(7);
    for row in 0..800 {
        let stamp = START + rng.below(50_000);
        life.db.put(format!("idle{row:04}"), ttl.layout().stamped(&[b'v'; 100], stamp).unwrap()).unwrap();
    }
    compact(&life.db);
    life.executor.limit_steps(20);
    let busy = |row: u64| {
        let value = ttl.layout().stamped(&[b'v'; 100], START + 125_000).unwrap();
        life.db.put(format!("busy{:05}", (row * 7919) % 10_007), value).unwrap();
        // Less than what is due.
        if row.is_multiple_of(4) {
            life.executor.step();
        }
    };
    (0..1000).for_each(busy);
    life.clock.advance(Duration::from_secs(125_000));
    let mut row = 1000;
    while life.db.metrics().get(Counter::ExpiryBytesOut) == 0 {
        busy(row);
        row += 1;
        let level0 = life.db.property("rocksdb.num-files-at-level0").unwrap().parse::<u64>().unwrap();
        assert!(level0 >= 1, "the writer rests after {row} rows");
        assert!(row < 20_000, "nothing is rewritten");
    }
}

/// Tables with range tombstones do not tell when their rows expire, and count as old by when they were written: by a clock that is behind, long ago.
#[test]
fn tables_are_not_rewritten_again_and_again_where_the_clock_went_back() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(1000)));
    life(&disk, &ttl, START).close();
    let second = life(&disk, &ttl, START - 100_000);
    put(&second.db, &ttl, "row", START);
    let snapshot = second.db.snapshot();
    second.db.delete_range("a", "z").unwrap();
    second.db.flush(&FlushOptions::default()).unwrap();
    let is_over = (0..10_000).any(|_| !second.executor.step());
    assert!(is_over, "{} bytes were written", second.written());
    drop(snapshot);
}

#[test]
fn a_walk_passes_by_expired_tables_that_something_keeps() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(1000)));
    let life = life(&disk, &ttl, START);
    let snapshot = life.db.snapshot();
    for row in 0..500 {
        put(&life.db, &ttl, &format!("row{row:03}"), START);
    }
    compact(&life.db);
    life.pass(2000);
    assert!(report(&life.db).table_bytes > 0, "the snapshot keeps them");
    assert_eq!(keys(&life.db, &ReadOptions::default()), Vec::<String>::new());
    assert_eq!(report(&life.db).rows_hidden, 0, "no row was looked at");
    drop(snapshot);
}

#[test]
fn a_transaction_does_not_see_its_own_expired_row() {
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(1000)));
    let life = life(&disk, &ttl, START);
    let mut batch = siltstone::lsm::WriteBatchWithIndex::new(&life.db);
    batch.put("row", ttl.layout().stamped(b"old", START - 2000).unwrap()).unwrap();
    batch.put("new", ttl.layout().stamped(b"new", START).unwrap()).unwrap();
    let read = ReadOptions::default();
    assert!(batch.get("row", &read).unwrap().is_none() && batch.get("new", &read).unwrap().is_some());
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
    let options = |now| expiry_support::options(&disk, &Arc::new(StepExecutor::new(Arc::new(ManualClock::new(now)))));
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

/// A simulation in which an hour is a second: rows go in time, though nobody does anything but timers.
#[test]
fn rows_age_by_a_clock_of_their_own() {
    const MACHINE: u64 = START + 500_000_000;
    let disk = SimDisk::new();
    let ttl = Arc::new(Ttl::new(StampLayout::Prefix, seconds(100 * 3600)));
    let open = |now: u64| {
        let machine = Arc::new(ManualClock::new(MACHINE));
        let executor = Arc::new(StepExecutor::new(Arc::clone(&machine)));
        let fast: Arc<dyn Clock> = Arc::new(FastClock::new(machine.clone(), 3600, now));
        let family = small_family(CompactionStyle::Leveled).expiry(Some(ttl.clone()));
        let options = expiry_support::options(&disk, &executor).expiry_clock(Some(fast));
        (Db::open_families("/db", &options, &[("default", family)]).unwrap(), machine, executor)
    };
    let (db, machine, executor) = open(START);
    for row in 0..100 {
        put(&db, &ttl, &format!("row{row:03}"), START + row * 3600);
    }
    db.flush(&FlushOptions::default()).unwrap();
    db.wait_for_background_work().unwrap();
    let pass = |seconds| {
        machine.advance(Duration::from_secs(seconds));
        executor.run_until_idle();
    };
    pass(99);
    assert_eq!(keys(&db, &ReadOptions::default()).len(), 100);
    let snapshot = db.snapshot();
    pass(50);
    assert_eq!(keys(&db, &ReadOptions::default()).len(), 50);
    assert_eq!(keys(&db, &ReadOptions::default().snapshot(Some(snapshot))).len(), 100);
    // Nobody does anything any more; only timers look.
    pass(1);
    for _ in 0..60 {
        pass(1);
    }
    let told = report(&db);
    assert_eq!((told.unix_seconds, told.table_bytes, told.rows_removed), (START + 210 * 3600, 0, 100), "{told:?}");
    db.close().unwrap();
    // It goes on where it was.
    let (db, ..) = open(START + 210 * 3600);
    assert_eq!(report(&db).blockers, []);
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
    let options = expiry_support::options(&disk, &Arc::new(StepExecutor::new(Arc::new(ManualClock::new(START + 300)))));
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
    let options: DbOptions = expiry_support::options(&disk, &executor);
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
