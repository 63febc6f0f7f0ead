//! Tables whose rows expire, against a naive model: rows with their stamps in maps, and entries that are made of the visible ones anew for every comparison. Eager and lazy, over every
//! style of compaction; the clock, which is set as well, durations, snapshots, sweeps, new indexes, crashes.

#![expect(clippy::unwrap_used, reason = "a test")]

mod expiry_support;
mod table_ttl_support;

use expiry_support::{DIR, START, seconds};
use siltstone::lsm::{ColumnFamilyOptions, CompactionStyle, ErrorKind, FlushOptions, IndexScan, TableDb, WriteOptions};
use siltstone::ttl::{RowExpiry, StampLayout, TtlDuration, TtlFilter};
use siltstone_base::clock::ManualClock;
use siltstone_base::engine::{Admin, LazyTableSpec, Row, TableId, TableSpec};
use siltstone_base::env::sim::{FaultKind, FaultPlan, SimDisk};
use siltstone_base::executor::StepExecutor;
use siltstone_base::index_spec::{FixedColumns, IndexExtractor, IndexSpec, LazyIndexSpec};
use siltstone_base::plant::{PlantedBug, with_planted};
use siltstone_base::sync::{Mutex, Rank};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use table_ttl_support::{Trial, open};

/// Cases drawn by [`index_scans_show_what_is_not_expired`].
const CASES: u64 = 2000;

#[test]
fn index_scans_show_what_is_not_expired() {
    let every_second = |first: u64| {
        let mut sums = [0; 4];
        for seed in (first..CASES).step_by(2) {
            let mut trial = Trial::new(seed);
            trial.run();
            let found = [trial.rows_removed, trial.files_dropped, trial.rows_hidden, trial.blocks_skipped];
            sums.iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
        }
        sums
    };
    let [even, odd] = std::thread::scope(|scope| {
        [0, 1].map(|first| scope.spawn(move || every_second(first))).map(|half| half.join().unwrap())
    });
    let [removed, dropped, hidden, skipped] = std::array::from_fn(|at| even[at] + odd[at]);
    assert!(removed > 3000 && dropped > 50 && hidden > 3000, "{removed} rows, {dropped} files, {hidden} hidden");
    assert!(skipped > 300, "{skipped} blocks skipped");
}

#[test]
fn every_crash_state_has_the_rows_of_a_moment_and_their_entries() {
    let styles = [CompactionStyle::Leveled, CompactionStyle::Universal, CompactionStyle::Lazy];
    let states: usize = (0..).zip(styles).map(|(seed, style)| Trial::crash_everywhere(seed, style)).sum();
    assert!(states >= 1000, "{states}");
}

#[test]
fn a_crash_that_takes_rows_is_seen() {
    for bug in [PlantedBug::SyncedWriteIsNotSynced, PlantedBug::FlushedTableIsNotSynced] {
        let look = || with_planted(bug, || Trial::crash_everywhere(0, CompactionStyle::Leveled));
        assert!(std::panic::catch_unwind(look).is_err(), "{bug:?}");
    }
}

/// A database with one clock.
struct Life {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    db: TableDb,
}

fn life() -> Life {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new(DIR)).unwrap();
    let clock = Arc::new(ManualClock::new(START));
    let (db, _) = open(&disk, CompactionStyle::Leveled, &clock).unwrap();
    Life { disk, clock, db }
}

impl Life {
    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    fn insert(&self, table: TableId, key: &str, value: &str) {
        self.db.insert(table, &[row(key, value)]).unwrap();
    }

    /// Entries of the first index, and rows by it.
    fn seen(&self, table: TableId) -> (String, String) {
        let (mut entries, mut rows) = (Vec::new(), Vec::new());
        self.db.scan_index(table, 0, b"", 99, &mut |entry| entries.push(text(entry))).unwrap();
        let mut note = |entry: siltstone::lsm::IndexEntry<'_>, value: &[u8]| {
            rows.push(format!("{}={}", text(entry.primary_key), text(value)));
        };
        self.db.scan_rows_by(table, 0, &IndexScan::all(), &mut note).unwrap();
        (entries.join(" "), rows.join(" "))
    }

    fn check(&self, table: TableId) {
        assert!(self.db.check_table(table).unwrap().iter().all(|check| check.is_sound() && check.stale == 0));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn row<'a>(key: &'a str, value: &'a str) -> Row<'a> {
    Row { primary_key: key.as_bytes(), value: value.as_bytes() }
}

fn stones(is_unique: bool) -> TableSpec {
    let kind = IndexSpec::over_columns("kind", Some(0..1)).unique(is_unique);
    TableSpec { name: "stones".to_owned(), indexes: vec![kind.covered(Arc::new(FixedColumns::new(Some(1..2))))] }
}

fn after(secs: u64) -> RowExpiry {
    RowExpiry::after(seconds(secs))
}

/// It would have no entries of rows that are seen again when the clock is right.
#[test]
fn no_index_is_made_of_what_a_clock_shows_that_may_be_wrong() {
    const YEAR: u64 = 365 * 86_400;
    let first = life();
    let table = first.db.create_expiring_table(&stones(false), &after(100)).unwrap();
    first.insert(table, "1", "ab");
    first.db.close().unwrap();
    let at = |seconds: u64| {
        let clock = Arc::new(ManualClock::new(seconds));
        open(&first.disk, CompactionStyle::Leveled, &clock).unwrap().0
    };
    let second_index = IndexSpec::over_columns("again", Some(1..2));
    let db = at(START + YEAR);
    let mut spec = stones(false);
    let table = db.open_expiring_table(&spec, &after(100)).unwrap();
    let error = db.add_index(table, &second_index).unwrap_err();
    assert!(error.kind() == ErrorKind::Busy && error.to_string().contains("confirm_clock"), "{error}");
    db.close().unwrap();
    let db = at(START + 10);
    let table = db.open_expiring_table(&spec, &after(100)).unwrap();
    assert_eq!(db.add_index(table, &second_index).unwrap(), 1);
    let mut entries = Vec::new();
    db.scan_index(table, 1, b"", 9, &mut |key| entries.push(text(key))).unwrap();
    assert_eq!(entries, ["b1"]);
    db.close().unwrap();
    // A year later indeed, as somebody says.
    let db = at(START + YEAR);
    db.db().confirm_clock().unwrap();
    spec.indexes.push(second_index);
    let table = db.open_expiring_table(&spec, &after(100)).unwrap();
    assert_eq!(db.add_index(table, &IndexSpec::over_columns("third", Some(0..2))).unwrap(), 2);
}

#[test]
fn rows_and_their_entries_expire_together_and_stay_away_when_rows_live_longer() {
    let life = life();
    let table = life.db.create_expiring_table(&stones(false), &after(100)).unwrap();
    life.insert(table, "1", "ab");
    life.pass(50);
    life.insert(table, "2", "cd");
    assert_eq!(life.seen(table), ("a1 c2".to_owned(), "1=ab 2=cd".to_owned()));
    life.pass(50);
    assert_eq!(life.seen(table), ("c2".to_owned(), "2=cd".to_owned()));
    assert!(!life.db.get_row(table, b"1", &mut |_| {}).unwrap());
    life.db.set_row_duration(table, seconds(10_000)).unwrap();
    life.pass(1);
    assert_eq!(life.seen(table).0, "c2");
    life.db.set_row_duration(table, seconds(10)).unwrap();
    assert_eq!(life.seen(table).0, "c2", "from the next second on");
    life.pass(1);
    assert_eq!(life.seen(table).0, "");
    life.check(table);
}

#[test]
fn an_entry_lives_as_long_as_a_row_that_was_written_again() {
    let life = life();
    let table = life.db.create_expiring_table(&stones(true), &after(100)).unwrap();
    life.insert(table, "1", "ab");
    life.pass(60);
    // Neither the key of the index nor what it covers changes.
    life.db.update(table, &[(row("1", "ab"), row("1", "abc"))]).unwrap();
    life.pass(60);
    assert_eq!(life.seen(table), ("a1".to_owned(), "1=abc".to_owned()));
    life.check(table);
    life.pass(40);
    assert_eq!(life.seen(table), (String::new(), String::new()));
}

#[test]
fn an_insert_over_an_expired_row_shows_nothing_of_it() {
    let life = life();
    let table = life.db.create_expiring_table(&stones(true), &after(100)).unwrap();
    life.insert(table, "1", "ab");
    life.pass(100);
    life.insert(table, "1", "xy");
    assert_eq!(life.seen(table), ("x1".to_owned(), "1=xy".to_owned()));
    // The key of an expired row is free for another one.
    life.insert(table, "2", "ab");
    let error = life.db.insert(table, &[row("3", "ab")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    life.check(table);
}

/// The caller has read a row, which expires before he deletes it: another row has its unique key by then.
#[test]
fn deleting_a_row_that_has_expired_takes_no_key_from_another_row() {
    let life = life();
    let table = life.db.create_expiring_table(&stones(true), &after(100)).unwrap();
    life.insert(table, "1", "ab");
    life.pass(100);
    life.insert(table, "2", "ac");
    life.db.delete(table, &[row("1", "ab")]).unwrap();
    assert_eq!(life.seen(table), ("a2".to_owned(), "2=ac".to_owned()));
    let error = life.db.update(table, &[(row("1", "ab"), row("1", "ad"))]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    life.check(table);
}

#[test]
fn a_column_says_when_a_row_expires() {
    let life = life();
    let expiry = after(100).from_column(1);
    let table = life.db.create_expiring_table(&stones(false), &expiry).unwrap();
    let value = |at: u64| [&b"a"[..], &at.to_be_bytes()].concat();
    let (old, young, future) = (value(START - 99), value(START), value(START + 500));
    let row = |key, value| Row { primary_key: key, value };
    life.db.insert(table, &[row(b"1", &old), row(b"2", &young), row(b"3", &future)]).unwrap();
    let count = || life.db.scan_index(table, 0, b"", 9, &mut |_| {}).unwrap();
    assert_eq!(count(), 3);
    life.pass(1);
    assert_eq!(count(), 2);
    life.pass(99);
    assert_eq!(count(), 1);
    let error = life.db.insert(table, &[row(b"4", b"a1234567")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "too short");
    assert_eq!(count(), 1);
    life.check(table);
}

#[test]
fn a_read_at_a_snapshot_goes_on_seeing_rows_and_entries() {
    let life = life();
    let table = life.db.create_expiring_table(&stones(false), &after(100)).unwrap();
    life.insert(table, "1", "ab");
    let snapshot = life.db.snapshot();
    life.pass(1000);
    life.db.set_row_duration(table, seconds(1)).unwrap();
    Admin::settle(&life.db).unwrap();
    let mut entries = Vec::new();
    let at = IndexScan::all().at(&snapshot);
    life.db.scan_entries(table, 0, &at, &mut |entry| entries.push(text(entry.covered))).unwrap();
    assert_eq!((entries, life.db.scan_rows_by(table, 0, &at, &mut |_, _| {}).unwrap()), (vec!["b".to_owned()], 1));
    assert_eq!(life.seen(table).0, "");
}

#[test]
fn what_a_table_was_created_with_is_known_when_it_is_opened_again() {
    let Life { disk, clock, db } = life();
    let spec = stones(false);
    let table = db.create_expiring_table(&spec, &after(100)).unwrap();
    db.set_row_duration(table, seconds(200)).unwrap();
    db.insert(table, &[row("1", "ab")]).unwrap();
    db.close().unwrap();
    clock.advance(Duration::from_secs(150));
    let (db, _) = open(&disk, CompactionStyle::Leveled, &clock).unwrap();
    let kind = |outcome: siltstone::lsm::Result<TableId>| outcome.unwrap_err().kind();
    assert_eq!(kind(db.open_table(&spec)), ErrorKind::InvalidArgument);
    assert_eq!(kind(db.open_expiring_table(&spec, &after(200).from_column(0))), ErrorKind::InvalidArgument);
    let table = db.open_expiring_table(&spec, &after(200)).unwrap();
    assert_eq!(db.row_expiry(table).unwrap(), Some(after(200)));
    assert!(db.get_row(table, b"1", &mut |value| assert_eq!(value, b"ab")).unwrap());
    // Another duration is one from the next second on.
    assert_eq!(db.open_expiring_table(&spec, &after(150)).unwrap(), table);
    assert!(db.get_row(table, b"1", &mut |_| {}).unwrap());
    clock.advance(Duration::from_secs(1));
    assert!(!db.get_row(table, b"1", &mut |_| {}).unwrap());
    db.close().unwrap();
    // Without the policy the rows would be shown for ever, and with their stamps.
    let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
    let options = expiry_support::options(&disk, &executor);
    let plain = TableDb::open(DIR, &options, &ColumnFamilyOptions::default(), &WriteOptions::default());
    assert_eq!(plain.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn each_table_tells_what_of_it_is_expired() {
    let life = life();
    let short =
        life.db.create_expiring_table(&TableSpec { name: "short".to_owned(), ..stones(false) }, &after(100)).unwrap();
    let long =
        life.db.create_expiring_table(&TableSpec { name: "long".to_owned(), ..stones(false) }, &after(1000)).unwrap();
    let plain = life.db.create_table(&TableSpec { name: "plain".to_owned(), ..stones(false) }).unwrap();
    for table in [short, long, plain] {
        for key in ["1", "2", "3"] {
            life.insert(table, key, "ab");
        }
    }
    assert_eq!(life.db.expiry_report(plain).unwrap(), None);
    assert_eq!(life.db.expiry_report(short).unwrap().unwrap().entries, 0, "all is in memory");
    life.db.db().flush(&FlushOptions::default()).unwrap();
    let told = |table| {
        let told = life.db.expiry_report(table).unwrap().unwrap();
        assert!(told.expired_bytes <= told.table_bytes && told.table_bytes > 0 && told.unknown_tables == 0, "{told:?}");
        (told.entries, told.expired_entries, told.oldest_expired, told.expired_share())
    };
    assert_eq!((told(short), told(long)), ((6, 0, None, 0.0), (6, 0, None, 0.0)));
    life.pass(101);
    assert_eq!((told(short), told(long)), ((6, 6, Some(START + 100), 1.0), (6, 0, None, 0.0)));
    life.db.set_row_duration(long, seconds(50)).unwrap();
    life.pass(1);
    assert_eq!(told(long).1, 6);
    let family = life.db.db().expiry_report(&life.db.db().default_family()).unwrap().unwrap();
    let tables = [short, long].map(|table| life.db.expiry_report(table).unwrap().unwrap().expired_bytes);
    assert!(tables.iter().sum::<u64>() <= family.expired_bytes && tables[0] > 0, "{tables:?} of {family:?}");
    life.db.drop_table(short).unwrap();
    assert_eq!(life.db.expiry_report(short).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn tables_beside_live_for_ever_and_need_no_policy() {
    let life = life();
    let lasting = TableSpec { name: "lasting".to_owned(), ..stones(false) };
    let lasting = life.db.create_table(&lasting).unwrap();
    let table = life.db.create_expiring_table(&stones(false), &after(1)).unwrap();
    life.insert(lasting, "1", "ab");
    life.insert(table, "1", "ab");
    life.pass(1_000);
    assert_eq!((life.seen(lasting).0, life.seen(table).0), ("a1".to_owned(), String::new()));
    assert_eq!(life.db.set_row_duration(lasting, seconds(1)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(TtlDuration::from_seconds(0).is_err() && TtlDuration::from_signed_seconds(-1).is_err());

    let dir = tempfile::tempdir().unwrap();
    let options = siltstone::lsm::DbOptions::default().create_if_missing(true);
    let db = TableDb::open(dir.path(), &options, &ColumnFamilyOptions::default(), &WriteOptions::default()).unwrap();
    let by = LazyIndexSpec::over_columns("kind", Some(0..1));
    let lazy = LazyTableSpec { name: "t".to_owned(), indexes: vec![by] };
    let error = db.create_expiring_lazy_table(&lazy, &after(1)).unwrap_err();
    assert_eq!((error.kind(), db.table_names().len()), (ErrorKind::InvalidArgument, 0));
}

/// Entries of many rows come in as tables that are sorted beside the database.
#[test]
fn entries_of_an_index_that_is_added_later_expire_with_their_rows() {
    let life = life();
    let by_kind = stones(false).indexes.remove(0);
    let spec = TableSpec { name: "stones".to_owned(), indexes: Vec::new() };
    let table = life.db.create_expiring_table(&spec, &after(100)).unwrap();
    for number in 0..2_000 {
        if number == 1_500 {
            life.pass(50);
        }
        life.insert(table, &format!("{number:04}"), if number % 2 == 0 { "ab" } else { "cd" });
    }
    let before = life.db.snapshot();
    assert_eq!(life.db.add_index(table, &by_kind).unwrap(), 0);
    let count = || life.db.scan_rows_by(table, 0, &IndexScan::all(), &mut |_, _| {}).unwrap();
    assert_eq!(count(), 2_000);
    life.check(table);
    life.pass(50);
    assert_eq!(count(), 500);
    Admin::settle(&life.db).unwrap();
    assert_eq!(count(), 500);
    life.check(table);
    drop(before);
    life.pass(50);
    assert_eq!(count(), 0);
}

/// Reads the first byte of a row, and lets something be done the first time that it is asked.
struct Meanwhile {
    first: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meanwhile")
    }
}

impl IndexExtractor for Meanwhile {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        let first = self.first.lock().take();
        if let Some(first) = first {
            first();
        }
        index_key.extend_from_slice(&value[..1]);
        true
    }
}

/// The entry of the row as it was before would have gone before the row as it is.
#[test]
fn a_row_that_is_written_while_an_index_is_added_keeps_its_entry_as_long_as_it_lives() {
    for rows in [10, 3_000] {
        let Life { clock, db, .. } = life();
        let db = Arc::new(db);
        let spec = LazyTableSpec { name: "stones".to_owned(), indexes: Vec::new() };
        let table = db.create_expiring_lazy_table(&spec, &after(100)).unwrap();
        let names: Vec<String> = (0..rows).map(|number| format!("{number:04}")).collect();
        names.iter().for_each(|name| db.upsert(table, &[row(name, "ab")]).unwrap());
        let (other, time, written) = (Arc::clone(&db), Arc::clone(&clock), names[5].clone());
        let meanwhile = move || {
            time.advance(Duration::from_secs(50));
            other.upsert(table, &[row(&written, "ab")]).unwrap();
        };
        let extractor = Arc::new(Meanwhile { first: Mutex::new(Rank(u16::MAX), Some(Box::new(meanwhile))) });
        assert_eq!(db.add_lazy_index(table, &LazyIndexSpec::new("kind", extractor)).unwrap(), 0);
        let seen = || {
            let mut seen = Vec::new();
            let mut note = |entry: siltstone::lsm::IndexEntry<'_>, _: &[u8]| seen.push(text(entry.primary_key));
            db.scan_rows_by(table, 0, &IndexScan::all(), &mut note).unwrap();
            seen
        };
        assert_eq!(seen(), names);
        clock.advance(Duration::from_secs(50));
        assert_eq!(seen(), [names[5].clone()], "{rows} rows: it was written 50 seconds ago");
        assert!(db.check_table(table).unwrap().iter().all(|check| check.is_sound()));
        clock.advance(Duration::from_secs(50));
        assert!(seen().is_empty());
    }
}

/// Two rows have one key, and one of them expires before its turn comes.
#[test]
fn a_unique_index_is_made_though_a_row_with_the_key_of_another_one_expires_meanwhile() {
    let Life { clock, db, .. } = life();
    let table = db.create_expiring_table(&TableSpec { name: "stones".to_owned(), indexes: Vec::new() }, &after(100));
    let table = table.unwrap();
    db.insert(table, &[row("2", "ab"), row("3", "cd")]).unwrap();
    clock.advance(Duration::from_secs(50));
    db.insert(table, &[row("1", "ax")]).unwrap();
    let time = Arc::clone(&clock);
    let meanwhile = move || time.advance(Duration::from_secs(50));
    let extractor = Arc::new(Meanwhile { first: Mutex::new(Rank(u16::MAX), Some(Box::new(meanwhile))) });
    assert_eq!(db.add_index(table, &IndexSpec::new("kind", extractor).unique(true)).unwrap(), 0);
    let mut entries = Vec::new();
    db.scan_index(table, 0, b"", 9, &mut |entry| entries.push(text(entry))).unwrap();
    assert_eq!(entries, ["a1"]);
    assert!(db.check_table(table).unwrap().iter().all(|check| check.is_sound()));
    // Two that live are still two.
    db.insert(table, &[row("4", "xa"), row("5", "xb")]).unwrap_err();
    db.drop_index(table, "kind").unwrap();
    db.insert(table, &[row("4", "xa"), row("5", "xb")]).unwrap();
    let error = db.add_index(table, &IndexSpec::over_columns("kind", Some(0..1)).unique(true)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
}

/// The time that a crash leaves is that of the last look, and the machine's clock is late: entries that were expired live again beside rows that were written since.
#[test]
fn an_entry_that_a_crash_brings_back_shows_no_row_that_was_written_since() {
    const DAY: u64 = 86_400;
    for is_unique in [false, true] {
        let life = life();
        let table = life.db.create_expiring_table(&stones(is_unique), &after(DAY)).unwrap();
        life.insert(table, "1", "ab");
        life.insert(table, "2", "ef");
        life.pass(DAY + 60);
        life.insert(table, "1", "cd");
        life.insert(table, "2", "gh");
        life.db.delete(table, &[row("2", "gh")]).unwrap();
        assert_eq!(life.seen(table), ("c1".to_owned(), "1=cd".to_owned()));
        let disk = life.disk.after_power_loss();
        life.disk.power_off();
        let clock = Arc::new(ManualClock::new(START + DAY - 200));
        let (db, _) = open(&disk, CompactionStyle::Leveled, &clock).unwrap();
        let table = db.open_expiring_table(&stones(is_unique), &after(DAY)).unwrap();
        let again = Life { disk, clock, db };
        assert_eq!(again.seen(table).1, "1=cd", "unique: {is_unique}");
        again.pass(200);
        assert_eq!(again.seen(table), ("c1".to_owned(), "1=cd".to_owned()));
        again.check(table);
    }
}

/// It reads stamps out of what rows begin or end with: rows would go, and their entries stay.
#[test]
fn tables_are_not_opened_with_a_filter_that_takes_rows_without_their_entries() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new(DIR)).unwrap();
    let clock = Arc::new(ManualClock::new(START));
    let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
    let filter = TtlFilter::new(StampLayout::Suffix, seconds(100), clock);
    let rows = ColumnFamilyOptions::default().compaction_filter(Some(Arc::new(filter)));
    let options = expiry_support::options(&disk, &executor);
    let error = TableDb::open(DIR, &options, &rows, &WriteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("compaction_filter"), "{error}");
    assert!(TableDb::open(DIR, &options, &ColumnFamilyOptions::default(), &WriteOptions::default()).is_ok());
}

/// Rows would have been removed after ten seconds of a table that says that they live for hours, or an index would have been there half.
#[test]
fn what_cannot_be_stored_of_tables_that_expire_is_not_in_force() {
    let long = seconds(10_000);
    let mut failed = 0;
    for after_ops in 0..200 {
        let life = life();
        let spec = TableSpec { name: "stones".to_owned(), indexes: Vec::new() };
        let table = life.db.create_expiring_table(&spec, &RowExpiry::after(long)).unwrap();
        life.insert(table, "1", "ab");
        life.disk.set_fault(FaultPlan::once(FaultKind::Io, after_ops));
        let new = TableSpec { name: "new".to_owned(), indexes: Vec::new() };
        let outcomes = [
            life.db.set_row_duration(table, seconds(10)).is_ok(),
            life.db.add_index(table, &stones(false).indexes.remove(0)).is_ok(),
            life.db.create_expiring_table(&new, &after(5)).is_ok(),
        ];
        life.disk.clear_fault();
        let Life { disk, clock, db } = life;
        let is_shown = |db: &TableDb| db.get_row(table, b"1", &mut |_| {}).unwrap();
        let is_long = |db: &TableDb| db.row_expiry(table).unwrap().unwrap().duration() == long;
        clock.advance(Duration::from_secs(100));
        assert_eq!(is_shown(&db), is_long(&db), "{after_ops}: {outcomes:?}");
        assert!(!outcomes[0] || !is_long(&db), "{after_ops}");
        drop(db);
        clock.advance(Duration::from_secs(500));
        let (db, _) = open(&disk, CompactionStyle::Leveled, &clock).unwrap();
        let expiry = db.row_expiry(table).unwrap().unwrap();
        let grown = TableSpec { indexes: stones(false).indexes, ..spec.clone() };
        let opened = db.open_expiring_table(&grown, &expiry);
        let is_grown = opened.is_ok();
        assert!(is_grown || !outcomes[1], "{after_ops}: the index is gone");
        assert_eq!(
            opened.or_else(|_| db.open_expiring_table(&spec, &expiry)).unwrap(),
            table,
            "{after_ops}: {outcomes:?}"
        );
        clock.advance(Duration::from_secs(100));
        assert_eq!(is_shown(&db), is_long(&db), "{after_ops}: {outcomes:?}, opened again");
        if let Err(error) = db.create_expiring_table(&new, &after(5)) {
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            db.open_expiring_table(&new, &after(5)).unwrap();
        }
        db.check_table(table).unwrap().iter().for_each(|check| assert!(check.is_sound()));
        failed += usize::from(outcomes != [true; 3]);
        if outcomes == [true; 3] && after_ops > 20 {
            break;
        }
    }
    assert!(failed > 5, "{failed}");
}

#[test]
fn a_column_that_holds_no_time_in_seconds_is_refused() {
    let life = life();
    let spec = TableSpec { name: "stones".to_owned(), indexes: Vec::new() };
    let table = life.db.create_expiring_table(&spec, &RowExpiry::after(seconds(10)).from_column(0)).unwrap();
    for (stamp, is_good) in
        [(START, true), ((1 << 40) - 1, true), (1 << 40, false), (START * 1000, false), (1 << 63, false)]
    {
        let value = stamp.to_be_bytes();
        let row = Row { primary_key: &value, value: &value };
        let outcome = life.db.insert(table, &[row]);
        assert_eq!(outcome.is_ok(), is_good, "{stamp}");
        assert!(is_good || outcome.unwrap_err().kind() == ErrorKind::InvalidArgument);
    }
}

/// As in a backup, which has the dictionary and not EXPIRY: the entry of what was written before led to the row that has its place.
#[test]
fn entries_of_rows_that_were_expired_stay_away_where_only_the_dictionary_is_left() {
    let Life { disk, clock, db } = life();
    let table = db.create_expiring_table(&stones(false), &after(100)).unwrap();
    db.insert(table, &[row("1", "ab")]).unwrap();
    clock.advance(Duration::from_secs(200));
    db.insert(table, &[row("1", "cd")]).unwrap();
    db.set_row_duration(table, seconds(10_000)).unwrap();
    db.close().unwrap();
    disk.env().remove_file(&Path::new(DIR).join("EXPIRY")).unwrap();
    let (db, _) = open(&disk, CompactionStyle::Leveled, &clock).unwrap();
    let life = Life { disk, clock, db };
    let table = life.db.open_expiring_table(&stones(false), &after(10_000)).unwrap();
    let (entries, rows) = life.seen(table);
    assert_eq!((entries.split(' ').count(), rows.as_str()), (1, "1=cd"), "{entries}");
    life.check(table);
}

/// The dictionary said that rows lived for hours before anything else did, and rows went on expiring until that was so. A backup has the dictionary alone.
#[test]
fn rows_that_expired_while_a_longer_life_was_written_down_stay_away_in_a_backup() {
    let mut between = 0;
    for after_ops in 0..100 {
        let Life { disk, clock, db } = life();
        let table = db.create_expiring_table(&stones(false), &after(100)).unwrap();
        db.insert(table, &[row("1", "ab")]).unwrap();
        clock.advance(Duration::from_secs(50));
        disk.set_fault(FaultPlan::sticky(FaultKind::Io, after_ops));
        let is_set = db.set_row_duration(table, seconds(10_000)).is_ok();
        drop(db);
        let disk = disk.after_process_death();
        clock.advance(Duration::from_secs(200));
        // Whether the row is shown, and whether rows live long.
        let look = || {
            let (db, _) = open(&disk, CompactionStyle::Leveled, &clock).unwrap();
            let expiry = db.row_expiry(table).unwrap().unwrap();
            db.open_expiring_table(&stones(false), &expiry).unwrap();
            let found = (db.get_row(table, b"1", &mut |_| {}).unwrap(), expiry.duration() == seconds(10_000));
            db.close().unwrap();
            found
        };
        let found = look();
        disk.env().remove_file(&Path::new(DIR).join("EXPIRY")).unwrap();
        assert_eq!(look(), found, "{after_ops}");
        between += usize::from(found == (false, true));
        if is_set {
            break;
        }
    }
    assert!(between > 0);
}

/// What was only in the WAL goes to a table when the database is opened, before anybody asks for the tables' durations: it was told to have no stamps, and stayed for ever.
#[test]
fn rows_that_recovery_writes_expire_with_their_space() {
    let Life { disk, clock, db } = life();
    let table = db.create_expiring_table(&stones(false), &after(100)).unwrap();
    db.insert(table, &[row("1", "ab"), row("2", "cd")]).unwrap();
    db.close().unwrap();
    let (db, _) = open(&disk, CompactionStyle::Leveled, &clock).unwrap();
    let table = db.open_expiring_table(&stones(false), &after(100)).unwrap();
    // Their properties are read in the background.
    db.db().wait_for_background_work().unwrap();
    let told = db.expiry_report(table).unwrap().unwrap();
    assert_eq!((told.entries, told.unknown_tables), (4, 0), "{told:?}");
    clock.advance(Duration::from_secs(101));
    let told = db.expiry_report(table).unwrap().unwrap();
    assert_eq!((told.entries, told.expired_entries, told.unknown_tables), (4, 4, 0), "{told:?}");
}
