//! Tests of rows that expire.

use super::ExpiryReport;
use super::witness::last_change;
use crate::page::{Header, PageId, PageKind};
use crate::{
    Db, DbOptions, Durability, ErrorKind, Event, EventListener, Isolation, KvCursor, Result, TransactionOptions,
};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{Env, PosixEnv};
use siltstone_base::executor::StepExecutor;
use siltstone_base::expiry::{ExpiryHome, ExpiryPolicy, Stamp};
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::sync::{Arc, Mutex, Rank, Weak};
use std::path::Path;
use std::time::{Duration, SystemTime};

const START: u64 = 1_700_000_000;
const YEAR: u64 = 365 * 86_400;

/// Rows begin with their stamps, 8 bytes, and live for so many seconds. Saves nothing, and knows whether it was ever told where it is.
#[derive(Debug)]
struct Lives(u64, AtomicBool);

impl Lives {
    fn new() -> Arc<Self> {
        Arc::new(Self(1000, AtomicBool::new(false)))
    }
}

impl ExpiryPolicy for Lives {
    fn name(&self) -> &str {
        "lives"
    }

    fn stamp(&self, _: &[u8], value: &[u8]) -> Option<Stamp> {
        let seconds = u64::from_be_bytes(*value.first_chunk()?);
        Some(Stamp { group: 0, seconds })
    }

    fn bound(&self, _: u32, now: u64) -> Option<u64> {
        now.checked_sub(self.0)
    }

    fn expires_at(&self, stamp: Stamp) -> Option<u64> {
        stamp.seconds.checked_add(self.0)
    }

    fn attach(&self, _: Weak<dyn ExpiryHome>, _: &[u8]) -> Result<()> {
        self.1.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn view(self: Arc<Self>, _: &[u8]) -> Result<Arc<dyn ExpiryPolicy>> {
        Ok(self)
    }
}

fn options(env: Arc<dyn Env>) -> DbOptions {
    DbOptions::default()
        .create_if_missing(true)
        .page_size(4096)
        .buffer_pool_bytes(64 * 4096)
        .redo_capacity_bytes(1 << 20)
        .durability(Durability::Os)
        .env(Some(env))
        .expiry(Some(Lives::new()))
}

struct Life {
    db: Db,
    clock: Arc<ManualClock>,
    executor: Arc<StepExecutor>,
}

impl Life {
    fn open(disk: &SimDisk, now: u64, durability: Durability) -> Self {
        Self::open_in(Path::new("/db"), now, options(disk.env()).durability(durability))
    }

    fn open_in(dir: &Path, now: u64, options: DbOptions) -> Self {
        let clock = Arc::new(ManualClock::new(now));
        let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
        Self { db: Db::open(dir, &options.executor(Some(executor.clone()))).unwrap(), clock, executor }
    }

    fn new() -> (SimDisk, Self) {
        let disk = SimDisk::new();
        let life = Self::open(&disk, START, Durability::Os);
        (disk, life)
    }

    fn put(&self, key: &str, stamp: u64) {
        self.db.put(key, row(stamp, 100)).unwrap();
    }

    fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.clock.advance(Duration::from_secs(1));
            self.executor.run_until_idle();
        }
    }

    fn told(&self) -> ExpiryReport {
        self.db.expiry_report().unwrap()
    }

    /// Rows that are there, expired or not.
    fn stored(&self) -> usize {
        keys(self.db.cursor_with_expired().unwrap()).len()
    }
}

fn row(stamp: u64, len: usize) -> Vec<u8> {
    [&stamp.to_be_bytes()[..], &vec![b'v'; len]].concat()
}

fn keys(mut cursor: impl KvCursor) -> Vec<String> {
    let mut keys = Vec::new();
    let mut is_there = cursor.seek_to_first().unwrap();
    while is_there {
        keys.push(String::from_utf8(cursor.key().to_vec()).unwrap());
        is_there = cursor.next().unwrap();
    }
    keys
}

#[test]
fn expired_rows_are_hidden_at_once_and_then_removed() {
    let (_disk, life) = Life::new();
    for number in 0..500 {
        life.put(&format!("row{number:03}"), START + number % 100 * 10);
    }
    life.clock.advance(Duration::from_secs(1500));
    // Of each hundred those with stamps up to 500.
    assert_eq!(life.db.get("row000").unwrap(), None);
    assert_eq!(life.db.get("row050").unwrap(), None);
    assert!(life.db.get("row051").unwrap().is_some());
    assert_eq!((keys(life.db.cursor().unwrap()).len(), life.stored()), (5 * 49, 500));
    let mut back = life.db.cursor().unwrap();
    assert!(back.seek_to_last().unwrap() && back.key() == b"row499");
    assert!((0..244).all(|_| back.prev().unwrap()) && back.key() == b"row051" && !back.prev().unwrap());
    drop(back);
    life.pass(60);
    let told = life.told();
    assert!(told.walks > 0 && told.rows_hidden > 500, "{told:?}");
    let gone = (0..500).filter(|number| number % 100 * 10 + 1000 <= told.unix_seconds - START).count();
    assert!((5 * 51..=gone as u64).contains(&told.rows_removed), "{told:?}, {gone} are gone");
    assert_eq!(life.stored() as u64, 500 - told.rows_removed);
    assert_eq!(life.db.check().unwrap().rows as usize, life.stored());
    life.pass(1000);
    assert_eq!((life.told().rows_removed, life.stored()), (500, 0));
}

#[test]
fn a_repeatable_read_stays_repeatable_while_rows_expire_and_are_removed() {
    for durability in [Durability::Os, Durability::Commit] {
        let disk = SimDisk::new();
        let life = Life::open(&disk, START, durability);
        (0..200).for_each(|number| life.put(&format!("row{number:03}"), START + number));
        life.db.put("long", row(START, 9000)).unwrap();
        let snapshot = TransactionOptions::new(Isolation::Snapshot);
        let mut transaction = life.db.begin(&snapshot).unwrap();
        let mut cursor = life.db.cursor().unwrap();
        assert!(cursor.seek(b"row100").unwrap());
        life.pass(1150);
        assert!(life.told().rows_removed >= 100, "{:?}", life.told());
        assert_eq!((life.db.get("row100").unwrap(), life.db.get("long").unwrap()), (None, None));
        assert_eq!(transaction.get("row100").unwrap(), Some(row(START + 100, 100)));
        assert_eq!(transaction.get("long").unwrap(), Some(row(START, 9000)));
        assert_eq!(keys(transaction.cursor().unwrap()).len(), 201);
        for number in 100..200 {
            assert_eq!(cursor.key(), format!("row{number}").as_bytes());
            assert_eq!(cursor.next().unwrap(), number < 199);
        }
        // Others may write the key anew, and who began before sees what he saw.
        life.put("row100", START + 1150);
        assert_eq!(transaction.get("row100").unwrap(), Some(row(START + 100, 100)));
        let busy = transaction.put("row100", row(START, 1)).unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Busy);
        transaction.rollback().unwrap();
        drop(cursor);
        life.pass(200);
        assert_eq!(keys(life.db.cursor().unwrap()), ["row100"]);
        assert_eq!((life.stored(), life.db.check().unwrap().deleted_rows), (1, 0));
    }
}

#[test]
fn a_row_that_a_transaction_has_locked_is_left_until_it_ends() {
    let (_disk, life) = Life::new();
    life.put("locked", START);
    life.put("other", START);
    let mut transaction = life.db.begin(&TransactionOptions::new(Isolation::ReadCommitted)).unwrap();
    assert!(transaction.get_for_update("locked").unwrap().is_some());
    life.pass(1100);
    assert_eq!((life.told().rows_removed, life.told().rows_left, life.stored()), (1, 1, 1));
    assert_eq!(transaction.get("locked").unwrap(), None, "it reads what is there now");
    transaction.put("locked", row(START + 1100, 1)).unwrap();
    transaction.commit().unwrap();
    life.pass(100);
    assert_eq!((keys(life.db.cursor().unwrap()), life.told().rows_removed), (vec!["locked".to_owned()], 1));
}

#[test]
fn a_row_that_is_written_anew_while_a_walk_is_at_it_stays() {
    let (_disk, life) = Life::new();
    (0..300).for_each(|number| life.put(&format!("row{number:03}"), START));
    life.clock.advance(Duration::from_secs(1001));
    // Whatever the walk has gathered, a part of the rows is new before it comes to them.
    for number in (0..300).step_by(2) {
        life.put(&format!("row{number:03}"), START + 1001);
        if number % 20 == 0 {
            life.pass(1);
        }
    }
    life.pass(60);
    assert_eq!(keys(life.db.cursor().unwrap()).len(), 150);
    // Some were removed before they were written anew.
    assert!(life.stored() == 150 && life.told().rows_removed >= 150, "{:?}", life.told());
}

#[test]
fn a_clock_a_year_ahead_removes_nothing_until_it_is_confirmed() {
    let (disk, life) = Life::new();
    life.put("row", START);
    life.db.close().unwrap();
    let second = Life::open(&disk, START + YEAR, Durability::Os);
    second.pass(100);
    assert_eq!((second.db.get("row").unwrap(), second.told().rows_removed), (None, 0));
    let jump = second.told().distrusted.unwrap();
    assert_eq!((jump.known, jump.found), (START, START + YEAR));
    second.db.close().unwrap();
    // The clock was wrong: nothing is lost.
    let third = Life::open(&disk, START + 60, Durability::Os);
    assert!(third.db.get("row").unwrap().is_some() && third.told().distrusted.is_none());
    third.db.close().unwrap();
    let fourth = Life::open(&disk, START + YEAR, Durability::Os);
    fourth.db.confirm_clock().unwrap();
    fourth.pass(60);
    assert_eq!((fourth.told().rows_removed, fourth.stored()), (1, 0));
}

/// Lets the files of a directory say that they changed last in this second.
#[expect(clippy::disallowed_methods, reason = "the engine has no door to the times of files")]
fn date_files(dir: &Path, seconds: u64) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let file = std::fs::File::options().write(true).open(entry.unwrap().path()).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }
}

/// One that had no policy until now, or lost its record: nothing is known of time but when its files changed.
#[test]
fn a_directory_without_a_record_loses_no_row_to_a_clock_a_year_ahead() {
    for had_policy in [false, true] {
        let (dir, env) = (tempfile::tempdir().unwrap(), Arc::new(PosixEnv::new()));
        let open = |now: u64, has_policy: bool| {
            let options = options(env.clone());
            let options = if has_policy { options } else { options.expiry(None) };
            Life::open_in(dir.path(), now, options)
        };
        let first = open(START, had_policy);
        first.put("row", START);
        first.db.close().unwrap();
        if had_policy {
            env.remove_file(&dir.path().join("EXPIRY")).unwrap();
        }
        date_files(dir.path(), START);
        for _ in 0..2 {
            // The second time there is a record, of a time that was not trusted; the files tell of that one.
            let ahead = open(START + YEAR, true);
            ahead.put("another", START + YEAR);
            ahead.db.flush().unwrap();
            ahead.pass(100);
            let jump = ahead.told().distrusted.unwrap();
            assert_eq!((jump.known, jump.found), (START, START + YEAR));
            assert_eq!((ahead.told().rows_removed, ahead.stored()), (0, 2));
            ahead.db.close().unwrap();
            drop(ahead);
            date_files(dir.path(), START + YEAR);
        }
        let right = open(START + 60, true);
        assert_eq!(keys(right.db.cursor().unwrap()), ["another", "row"]);
        assert_eq!(right.told().distrusted, None);
    }
}

/// One that goes between the look at the directory and that at the file would keep a database from opening.
#[test]
#[expect(clippy::disallowed_methods, reason = "the engine makes no links that lead nowhere")]
fn a_file_that_is_gone_when_it_is_looked_at_tells_of_no_time() {
    let (dir, env) = (tempfile::tempdir().unwrap(), PosixEnv::new());
    std::fs::write(dir.path().join("000001.pages"), "page").unwrap();
    std::fs::write(dir.path().join("notes"), "later").unwrap();
    date_files(dir.path(), START);
    std::os::unix::fs::symlink("nowhere", dir.path().join("000002.pages")).unwrap();
    assert_eq!(last_change(&env, dir.path()).unwrap(), Some(START));
    std::os::unix::fs::symlink("redo-0.log", dir.path().join("redo-0.log")).unwrap();
    assert_eq!(last_change(&env, dir.path()).unwrap_err().kind(), ErrorKind::Io);
}

/// Of a hundred thousand tables each would be looked at whenever the database is opened.
#[test]
fn files_are_not_asked_for_the_time_where_there_is_a_record() {
    let (disk, life) = Life::new();
    life.db.close().unwrap();
    drop(life);
    let opened = || {
        let before = disk.op_count();
        Life::open(&disk, START + 60, Durability::Os).db.close().unwrap();
        disk.op_count() - before
    };
    let with_record = opened();
    disk.env().remove_file(Path::new("/db/EXPIRY")).unwrap();
    assert!(opened() > with_record);
}

/// A new one has nothing to lose, whatever its clock says.
#[test]
fn a_new_database_trusts_its_clock() {
    let (dir, env) = (tempfile::tempdir().unwrap(), Arc::new(PosixEnv::new()));
    let life = Life::open_in(dir.path(), START + 1000 * YEAR, options(env));
    assert_eq!(life.told().distrusted, None);
}

/// A shorter duration that was tried in vain would hide rows for good.
#[test]
fn an_opening_that_fails_puts_no_duration_in_force() {
    let disk = SimDisk::new();
    let life = Life::open(&disk, START, Durability::Os);
    life.db.create_tree("other").unwrap();
    life.db.close().unwrap();
    drop(life);
    let env = disk.env();
    let (path, aside) = (Path::new("/db/000004.pages"), Path::new("/db/aside"));
    env.rename(path, aside).unwrap();
    let policy = Lives::new();
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(START))));
    let options = options(env.clone()).expiry(Some(policy.clone())).executor(Some(executor));
    assert_eq!(Db::open("/db", &options).unwrap_err().kind(), ErrorKind::MissingFile);
    assert!(!policy.1.load(Ordering::Relaxed));
    env.rename(aside, path).unwrap();
    Db::open("/db", &options).unwrap().close().unwrap();
    assert!(policy.1.load(Ordering::Relaxed));
}

/// Takes note of what its jobs could not do.
#[derive(Debug)]
struct Failures(Mutex<Vec<String>>);

impl EventListener for Failures {
    fn on_event(&self, event: &Event) {
        if let Event::BackgroundFailed { job: "expiry", error } = event {
            self.0.lock().push(error.to_string());
        }
    }
}

/// Pages of the default tree that are like this, in the order of their numbers.
fn pages_like(db: &Db, is_like: impl Fn(&Header) -> bool) -> Vec<u32> {
    let handle = db.default_tree();
    let tree = handle.0.tree();
    let is_wanted = |number: &u32| {
        let page = tree.pool().shared(PageId::new(tree.space(), *number));
        page.is_ok_and(|page| is_like(&Header::read(page.bytes())))
    };
    (1..tree.page_count().unwrap()).filter(is_wanted).collect()
}

/// One page that cannot be read kept the rows of all leaves behind it for ever.
#[test]
fn rows_behind_a_page_that_is_damaged_are_removed_none_the_less() {
    let is_between = |header: &Header| header.left != 0 && header.right != 0;
    let is_leaf = |header: &Header| header.kind() == Some(PageKind::Leaf);
    type IsLike<'a> = &'a dyn Fn(&Header) -> bool;
    let cases: [(IsLike<'_>, usize); 5] = [
        (&|header| is_leaf(header) && is_between(header), 1),
        (&|header| is_leaf(header) && is_between(header), 3),
        (&|header| is_leaf(header) && header.right == 0, 1),
        (&|header| header.kind() == Some(PageKind::Inner) && header.level == 1 && is_between(header), 1),
        (&|header| header.level == 1 && header.left != 0 && header.right == 0, 1),
    ];
    for (case, (is_like, count)) in cases.into_iter().enumerate() {
        let disk = SimDisk::new();
        let failures = Arc::new(Failures(Mutex::new(Rank(1), Vec::new())));
        let options = options(disk.env()).page_size(512).buffer_pool_bytes(512 * 512);
        let open = |now: u64| {
            let told: Arc<dyn EventListener> = failures.clone();
            Life::open_in(Path::new("/db"), now, options.clone().listeners(vec![told]))
        };
        let life = open(START);
        (0..1000).for_each(|number| life.db.put(format!("row{number:04}"), row(START, 20)).unwrap());
        let broken: Vec<u32> = pages_like(&life.db, is_like).into_iter().take(count).collect();
        assert_eq!(broken.len(), count, "case {case}");
        life.db.close().unwrap();
        drop(life);
        for number in &broken {
            disk.flip(Path::new("/db/000001.pages"), u64::from(*number) * 512 + 300, 1).unwrap();
        }
        let again = open(START + 10);
        again.pass(2500);
        let (told, kept) = (again.told(), 1000 - again.told().rows_removed);
        assert!(told.walks > 1, "case {case}: {told:?}");
        let failures = failures.0.lock();
        for number in &broken {
            let named = format!("page 1:{number}:");
            assert!(failures.iter().any(|error| error.contains(&named)), "case {case}: {failures:?}");
        }
        if case < 3 {
            // Eight rows fill a leaf.
            assert_eq!(told.leaves_damaged, count as u64, "case {case}: {told:?}");
            assert!((1..=8 * count as u64).contains(&kept), "case {case}: {told:?}");
        } else {
            assert!((1..250).contains(&kept), "case {case}: {told:?}");
        }
        again.put("row", START);
    }
}

#[test]
fn what_was_removed_stays_away_and_what_was_not_stays_hidden_after_a_power_loss() {
    let disk = SimDisk::new();
    let life = Life::open(&disk, START, Durability::Commit);
    (0..100).for_each(|number| life.put(&format!("row{number:03}"), START + number * 20));
    life.pass(1500);
    let (left, hidden) = (life.stored(), 100 - keys(life.db.cursor().unwrap()).len());
    assert!(left < 100 && hidden >= 100 - left);
    let lost = disk.after_power_loss();
    disk.power_off();
    life.executor.abandon_all();
    // An error is what a lost disk answers.
    let _ = life.db.close();
    let again = Life::open(&lost, START + 1500, Durability::Commit);
    assert_eq!((again.stored(), keys(again.db.cursor().unwrap()).len()), (left, 100 - hidden));
    again.db.check().unwrap();
    again.pass(1600);
    assert_eq!(again.stored(), 0);
}

#[test]
fn a_tree_that_is_truncated_while_a_walk_is_in_it_is_walked_anew() {
    let (_disk, life) = Life::new();
    (0..300).for_each(|number| life.put(&format!("row{number:03}"), START));
    life.pass(5);
    life.db.truncate(&life.db.default_tree()).unwrap();
    (0..10).for_each(|number| life.put(&format!("row{number:03}"), START + number));
    life.pass(1200);
    assert_eq!((life.stored(), life.told().rows_removed), (0, 10));
}
