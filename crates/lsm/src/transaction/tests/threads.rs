//! Transactions of several threads.

use crate::OptimisticTransactionDb;
use crate::{
    DbOptions, Deadlock, ErrorKind, Isolation, LockMode, Result, TransactionDb, TransactionDbOptions,
    TransactionOptions,
};
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::executor::{Executor, Job, Priority, ThreadExecutor, Waited};
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use siltstone_base::sync::{Arc, Signal};
use std::time::Duration;

const KEYS: u64 = 10;

fn options() -> DbOptions {
    DbOptions::default().create_if_missing(true)
}

fn patient(isolation: Isolation) -> TransactionOptions {
    TransactionOptions::new(isolation).lock_timeout(Duration::from_secs(600))
}

#[test]
fn who_closes_a_circle_of_waits_is_told_and_the_other_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let db = TransactionDb::open(dir.path(), &options(), &[], &TransactionDbOptions::default()).unwrap();
    let mut one = db.begin(&patient(Isolation::Snapshot));
    let mut two = db.begin(&patient(Isolation::Snapshot));
    one.put("a", "1").unwrap();
    two.put("b", "2").unwrap();
    let ids = [one.id(), two.id()];
    let outcomes = std::thread::scope(|scope| {
        let first = scope.spawn(move || one.put("b", "1").map(|()| one.commit().unwrap()));
        let second = scope.spawn(move || two.put("a", "2").map(|()| two.commit().unwrap()));
        [first.join().unwrap(), second.join().unwrap()]
    });
    let errors: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].kind(), ErrorKind::Deadlock);
    let source = std::error::Error::source(errors[0]).unwrap().downcast_ref::<Deadlock>().unwrap();
    assert!(source.cycle.len() == 2 && ids.iter().all(|id| source.cycle.contains(id)), "{source}");
    let value = if outcomes[0].is_ok() { b"1" } else { b"2" };
    for key in ["a", "b"] {
        assert_eq!(db.db().get(key).unwrap().as_deref(), Some(&value[..]));
    }
    assert_eq!((db.lock_stats().locks, db.lock_stats().deadlocks), (0, 1));
}

/// Adds one to a number, again and again, and returns how often that failed.
fn add_until_done(mut add: impl FnMut() -> Result<()>) -> u64 {
    let mut failures = 0;
    loop {
        match add() {
            Ok(()) => return failures,
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::Deadlock) => failures += 1,
            Err(error) => panic!("{error}"),
        }
    }
}

fn number(value: Option<impl AsRef<[u8]>>) -> u64 {
    value.map_or(0, |value| std::str::from_utf8(value.as_ref()).unwrap().parse().unwrap())
}

fn hammer(threads: u64, rounds: u64, add: &(dyn Fn(u64, &str) -> Result<()> + Sync)) -> u64 {
    let failures = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let failures = &failures;
            scope.spawn(move || {
                for round in 0..rounds {
                    let key = format!("key{}", (thread * 7 + round * 3) % KEYS);
                    failures.fetch_add(add_until_done(|| add(thread + round, &key)), Ordering::Relaxed);
                }
            });
        }
    });
    failures.into_inner()
}

#[test]
fn many_threads_on_few_keys_lose_no_update() {
    let dir = tempfile::tempdir().unwrap();
    let db = TransactionDb::open(dir.path(), &options(), &[], &TransactionDbOptions::default()).unwrap();
    let (threads, rounds) = (64, 8);
    hammer(threads, rounds, &|turn, key| {
        let level = if turn % 2 == 0 { Isolation::Snapshot } else { Isolation::ReadCommitted };
        let mut one = db.begin(&patient(level));
        let value = number(one.get_for_update(key)?);
        one.put(key, (value + 1).to_string())?;
        one.commit()
    });
    let sum: u64 = (0..KEYS).map(|key| number(db.db().get(format!("key{key}")).unwrap())).sum();
    assert_eq!(sum, threads * rounds);
    let stats = db.lock_stats();
    assert_eq!((stats.locks, stats.waiting), (0, 0), "{stats:?}");
}

#[test]
fn many_threads_that_lock_nothing_lose_no_update() {
    let dir = tempfile::tempdir().unwrap();
    let db = OptimisticTransactionDb::open(dir.path(), &options(), &[], &TransactionDbOptions::default()).unwrap();
    let (threads, rounds) = (8, 40);
    hammer(threads, rounds, &|turn, key| {
        let level = if turn % 2 == 0 { Isolation::Snapshot } else { Isolation::ReadCommitted };
        let mut one = db.begin(&TransactionOptions::new(level));
        let value = number(one.get_for_update(key)?);
        one.put(key, (value + 1).to_string())?;
        one.commit()
    });
    let sum: u64 = (0..KEYS).map(|key| number(db.db().get(format!("key{key}")).unwrap())).sum();
    assert_eq!(sum, threads * rounds);
}

/// Counts how often somebody who waits looks whether it may go on.
#[derive(Debug)]
struct CountingExecutor {
    threads: ThreadExecutor,
    looks: AtomicU64,
}

impl Executor for CountingExecutor {
    fn submit(&self, priority: Priority, job: Box<dyn Job>) {
        self.threads.submit(priority, job);
    }

    fn wait_until(&self, signal: &Signal, timeout: Option<Duration>, condition: &mut dyn FnMut() -> bool) -> Waited {
        self.threads.wait_until(signal, timeout, &mut || {
            self.looks.fetch_add(1, Ordering::SeqCst);
            condition()
        })
    }

    fn sleep(&self, duration: Duration) {
        self.threads.sleep(duration);
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        self.threads.clock()
    }

    fn threads(&self) -> usize {
        self.threads.threads()
    }
}

/// Who waits is asleep until it is its turn: what others do meanwhile wakes nobody, and a lock that is handed over wakes one.
#[test]
fn who_waits_for_a_row_sleeps_until_it_is_given() {
    const WAITERS: u64 = 63;
    let dir = tempfile::tempdir().unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let threads = ThreadExecutor::new(2, clock).unwrap();
    let executor = Arc::new(CountingExecutor { threads, looks: AtomicU64::new(0) });
    let shared: Arc<dyn Executor> = Arc::<CountingExecutor>::clone(&executor);
    let transactions = TransactionDbOptions::default();
    let db = TransactionDb::open(dir.path(), &options().executor(Some(shared)), &[], &transactions).unwrap();
    let looks = || executor.looks.load(Ordering::SeqCst);
    let mut holder = db.begin(&patient(Isolation::ReadCommitted));
    holder.put("held", "0").unwrap();
    std::thread::scope(|scope| {
        let before = looks();
        for _ in 0..WAITERS {
            scope.spawn(|| {
                let mut one = db.begin(&patient(Isolation::ReadCommitted));
                let value = number(one.get_for_update("held").unwrap());
                one.put("held", (value + 1).to_string()).unwrap();
                one.commit().unwrap();
            });
        }
        while (db.lock_stats().waiting as u64) < WAITERS {
            std::thread::yield_now();
        }
        // Locks of other rows come and go, and circles of waits are looked for.
        for round in 0..1_000_u64 {
            let mut one = db.begin(&patient(Isolation::ReadCommitted));
            one.lock_cf(&db.db().default_family(), round.to_be_bytes(), LockMode::Exclusive).unwrap();
        }
        // Each looks before it sleeps; some may wake without a reason.
        let asleep = looks() - before;
        assert!(asleep <= 4 * WAITERS, "{asleep} looks of {WAITERS} that wait");
        holder.commit().unwrap();
    });
    assert_eq!(number(db.db().get("held").unwrap()), WAITERS);
    let stats = db.lock_stats();
    assert_eq!((stats.waits, stats.locks, stats.waiting), (WAITERS, 0, 0), "{stats:?}");
}

/// No time passes before a circle is found: the request that closes it is never put to sleep.
#[test]
fn who_closes_a_circle_of_waits_does_not_wait() {
    let dir = tempfile::tempdir().unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let threads = ThreadExecutor::new(2, clock).unwrap();
    let executor = Arc::new(CountingExecutor { threads, looks: AtomicU64::new(0) });
    let shared: Arc<dyn Executor> = Arc::<CountingExecutor>::clone(&executor);
    let transactions = TransactionDbOptions::default();
    let db = TransactionDb::open(dir.path(), &options().executor(Some(shared)), &[], &transactions).unwrap();
    let (mut one, mut two) = (db.begin(&patient(Isolation::Snapshot)), db.begin(&patient(Isolation::Snapshot)));
    one.put("a", "1").unwrap();
    two.put("b", "2").unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(move || one.put("b", "1").map(|()| one.commit().unwrap()));
        while db.lock_stats().waiting == 0 || executor.looks.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let waits = db.lock_stats().waits;
        assert_eq!(two.put("a", "2").unwrap_err().kind(), ErrorKind::Deadlock);
        assert_eq!(db.lock_stats().waits, waits, "it did not wait");
        two.rollback();
        first.join().unwrap().unwrap();
    });
    assert_eq!(db.db().get("b").unwrap().as_deref(), Some(&b"1"[..]));
}
