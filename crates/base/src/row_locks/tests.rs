//! Row locks: scripts, a naive model, waits, memory, threads.

#![expect(clippy::disallowed_methods, reason = "the tests start threads of their own")]

use super::*;
use crate::clock::{Clock, ManualClock, SystemClock};
use crate::executor::{Priority, StepExecutor, ThreadExecutor};
use crate::script::{Command, run_dir};
use crate::sync::atomic::AtomicUsize;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::task::{Context, Wake, Waker};

const NO_LIMIT: usize = usize::MAX;

fn cycle_of(error: &Error) -> Vec<u64> {
    let source = std::error::Error::source(error).unwrap();
    source.downcast_ref::<Deadlock>().unwrap().cycle.clone()
}

/// Rows of one letter under script: `lock 1 a x`, `release 1`, `cancel 1`, `grant 1 a`.
fn run(locks: &'static RowLocks, waits: &mut BTreeMap<u64, (String, LockWait<'static>)>, command: &Command) -> String {
    let owner = command.arguments[0].key.parse().unwrap();
    let key = command.arguments.get(1).map_or("", |arg| &arg.key).to_owned();
    let mut out = Vec::new();
    match command.name.as_str() {
        "lock" => {
            let mode = if command.arguments[2].key == "x" { LockMode::Exclusive } else { LockMode::Shared };
            match locks.request(owner, 1, key.as_bytes(), mode) {
                Ok(Requested::Granted) => out.push("granted".to_owned()),
                Ok(Requested::Waiting(wait)) => {
                    waits.insert(owner, (key, wait));
                    out.push("waits".to_owned());
                }
                Err(error) if error.kind() == ErrorKind::Deadlock => {
                    out.push(format!("deadlock {:?}", cycle_of(&error)))
                }
                Err(error) => out.push(format!("{:?}", error.kind())),
            }
        }
        "release" => locks.release_all(owner),
        "unlock" => locks.unlock(owner, 1, key.as_bytes()),
        "cancel" => drop(waits.remove(&owner)),
        "grant" => locks.grant(owner, 1, key.as_bytes()),
        other => panic!("{other}"),
    }
    let context = Context::from_waker(Waker::noop());
    let ready: Vec<u64> =
        waits.iter_mut().filter_map(|(owner, (_, wait))| wait.poll(&context).is_ready().then_some(*owner)).collect();
    for owner in ready {
        let (key, _) = waits.remove(&owner).unwrap();
        out.push(format!("{owner} got {key} {:?}", locks.mode(owner, 1, key.as_bytes()).unwrap()));
    }
    let stats = locks.stats();
    out.push(format!("locks {} waiting {}", stats.locks, stats.waiting));
    out.join("\n")
}

#[test]
fn scripts() {
    run_dir("testdata/row_locks", |_| {
        let locks: &'static RowLocks = Box::leak(Box::new(RowLocks::new(NO_LIMIT)));
        let mut waits = BTreeMap::new();
        move |command: &Command| run(locks, &mut waits, command)
    });
}

/// What the table should do, said as plainly as possible: a list of requests in the order in which they are served.
#[derive(Debug, Default)]
struct Naive {
    /// Owner, row, exclusive, granted.
    requests: Vec<(u64, u8, bool, bool)>,
}

impl Naive {
    fn bears(&self, owner: u64, row: u8, exclusive: bool) -> bool {
        self.requests.iter().all(|(o, r, x, granted)| !granted || *r != row || *o == owner || !(*x || exclusive))
    }

    /// Whom each waiting request waits for.
    fn edges(&self) -> BTreeMap<u64, BTreeSet<u64>> {
        let mut edges = BTreeMap::<u64, BTreeSet<u64>>::new();
        for (at, (owner, row, exclusive, granted)) in self.requests.iter().enumerate() {
            for (other_at, (other, other_row, other_exclusive, other_granted)) in self.requests.iter().enumerate() {
                let is_before = *other_granted || other_at < at;
                if !granted && row == other_row && owner != other && is_before && (*exclusive || *other_exclusive) {
                    edges.entry(*owner).or_default().insert(*other);
                }
            }
        }
        edges
    }

    fn reaches(&self, from: u64, to: u64) -> bool {
        let edges = self.edges();
        let mut seen = BTreeSet::new();
        let mut next = vec![from];
        while let Some(owner) = next.pop() {
            for other in edges.get(&owner).into_iter().flatten() {
                if *other == to {
                    return true;
                }
                if seen.insert(*other) {
                    next.push(*other);
                }
            }
        }
        false
    }

    fn serve(&mut self) {
        for row in 0..8 {
            while let Some(at) = self.requests.iter().position(|(_, r, _, granted)| *r == row && !granted) {
                let (owner, _, exclusive, _) = self.requests[at];
                if !self.bears(owner, row, exclusive) {
                    break;
                }
                self.requests[at].3 = true;
                self.tidy(owner, row);
            }
        }
    }

    /// One granted request for each owner and row, the strongest.
    fn tidy(&mut self, owner: u64, row: u8) {
        let exclusive = self.requests.iter().any(|(o, r, x, granted)| *o == owner && *r == row && *granted && *x);
        self.requests.retain(|(o, r, _, granted)| !(*o == owner && *r == row && *granted));
        self.requests.insert(0, (owner, row, exclusive, true));
    }

    fn held(&self, owner: u64, row: u8) -> Option<bool> {
        self.requests.iter().find(|(o, r, _, granted)| *o == owner && *r == row && *granted).map(|found| found.2)
    }

    /// Granted, waiting, or a deadlock.
    fn lock(&mut self, owner: u64, row: u8, exclusive: bool) -> &'static str {
        let held = self.held(owner, row);
        if held.is_some_and(|x| x || !exclusive) {
            return "granted";
        }
        let someone_waits = self.requests.iter().any(|(_, r, _, granted)| *r == row && !granted);
        if self.bears(owner, row, exclusive) && (held.is_some() || !someone_waits) {
            self.requests.insert(0, (owner, row, exclusive, true));
            self.tidy(owner, row);
            return "granted";
        }
        let first_plain =
            self.requests.iter().position(|(o, r, _, granted)| *r == row && !granted && self.held(*o, row).is_none());
        let at = if held.is_some() { first_plain } else { None }.unwrap_or(self.requests.len());
        self.requests.insert(at, (owner, row, exclusive, false));
        if self.reaches(owner, owner) {
            self.cancel(owner);
            return "deadlock";
        }
        "waits"
    }

    fn cancel(&mut self, owner: u64) {
        self.requests.retain(|(o, _, _, granted)| *o != owner || *granted);
        self.serve();
    }

    fn release(&mut self, owner: u64) {
        self.requests.retain(|(o, ..)| *o != owner);
        self.serve();
    }

    fn waits(&self, owner: u64) -> bool {
        self.requests.iter().any(|(o, _, _, granted)| *o == owner && !granted)
    }
}

#[derive(Debug, Clone)]
enum Step {
    Lock(u64, u8, bool),
    Release(u64),
    Cancel(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let owner = || 0..6_u64;
    prop_oneof![
        8 => (owner(), 0..4_u8, any::<bool>()).prop_map(|(owner, row, x)| Step::Lock(owner, row, x)),
        2 => owner().prop_map(Step::Release),
        1 => owner().prop_map(Step::Cancel),
    ]
}

proptest! {
    #[test]
    fn a_naive_table_agrees(steps in prop::collection::vec(step(), 1..120)) {
        let locks = RowLocks::new(NO_LIMIT);
        let mut naive = Naive::default();
        let mut waits = BTreeMap::<u64, LockWait<'_>>::new();
        for step in steps {
            match step {
                // Who waits can neither ask nor give back.
                Step::Lock(owner, row, exclusive) if !naive.waits(owner) => {
                    let mode = if exclusive { LockMode::Exclusive } else { LockMode::Shared };
                    let outcome = match locks.request(owner, 9, &[row], mode) {
                        Ok(Requested::Granted) => "granted",
                        Ok(Requested::Waiting(wait)) => {
                            waits.insert(owner, wait);
                            "waits"
                        }
                        Err(error) => {
                            let cycle = cycle_of(&error);
                            prop_assert_eq!(cycle[0], owner);
                            "deadlock"
                        }
                    };
                    prop_assert_eq!(outcome, naive.lock(owner, row, exclusive));
                }
                Step::Release(owner) if !naive.waits(owner) => {
                    locks.release_all(owner);
                    naive.release(owner);
                }
                Step::Cancel(owner) if naive.waits(owner) => {
                    waits.remove(&owner);
                    naive.cancel(owner);
                }
                _ => {}
            }
            let context = Context::from_waker(Waker::noop());
            waits.retain(|_, wait| wait.poll(&context).is_pending());
            for owner in 0..6 {
                prop_assert_eq!(waits.contains_key(&owner), naive.waits(owner));
                for row in 0..4 {
                    let held = locks.mode(owner, 9, &[row]).map(|mode| mode == LockMode::Exclusive);
                    prop_assert_eq!(held, naive.held(owner, row));
                }
            }
            prop_assert_eq!(locks.stats().locks, naive.requests.iter().filter(|request| request.3).count());
        }
        waits.clear();
        (0..6).for_each(|owner| locks.release_all(owner));
        prop_assert_eq!(locks.stats().bytes, 0);
        prop_assert!(locks.is_empty());
    }
}

#[test]
fn a_wait_ends_with_its_time_and_leaves_no_trace() {
    let clock = Arc::new(ManualClock::new(0));
    let executor = StepExecutor::new(Arc::clone(&clock));
    let locks = RowLocks::new(NO_LIMIT);
    assert!(locks.try_lock(1, 7, b"a", LockMode::Shared).unwrap());
    let lock = |owner, mode, timeout| locks.lock(&executor, owner, 7, b"a", mode, timeout);
    let error = lock(2, LockMode::Exclusive, Some(Duration::from_secs(5))).unwrap_err();
    assert_eq!((error.kind(), clock.now_micros()), (ErrorKind::TimedOut, 5_000_000));
    assert_eq!(lock(2, LockMode::Exclusive, None).unwrap_err().kind(), ErrorKind::Busy);
    // The request that was given up keeps nobody from the lock.
    lock(3, LockMode::Shared, None).unwrap();
    let stats = locks.stats();
    assert_eq!((stats.locks, stats.waiting, stats.waits, stats.timeouts), (2, 0, 2, 1));
    locks.release_all(1);
    lock(3, LockMode::Exclusive, None).unwrap();
    locks.release_all(2);
    locks.release_all(3);
    assert_eq!(locks.stats().bytes, 0);
}

/// A job that gives a lock back while somebody waits for it.
#[test]
fn a_job_may_give_a_lock_back_that_a_caller_waits_for() {
    struct Release(Arc<RowLocks>);
    impl crate::executor::Job for Release {
        fn name(&self) -> &'static str {
            "release"
        }
        fn step(&mut self, _: &mut crate::executor::Budget<'_>) -> crate::executor::Progress {
            self.0.release_all(1);
            crate::executor::Progress::Done
        }
        fn poisoned(&mut self, _: &str) {}
    }
    let executor = StepExecutor::new(Arc::new(ManualClock::new(0)));
    let locks = Arc::new(RowLocks::new(NO_LIMIT));
    locks.grant(1, 0, b"");
    executor.submit(Priority::Low, Box::new(Release(Arc::clone(&locks))));
    locks.lock(&executor, 2, 0, b"", LockMode::Exclusive, None).unwrap();
    assert_eq!((locks.mode(1, 0, b""), locks.mode(2, 0, b"")), (None, Some(LockMode::Exclusive)));
}

#[test]
fn a_task_is_woken_when_it_has_the_lock() {
    #[derive(Default)]
    struct Woken(AtomicUsize);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let locks = RowLocks::new(NO_LIMIT);
    locks.grant(1, 0, b"a");
    let Requested::Waiting(mut wait) = locks.request(2, 0, b"a", LockMode::Shared).unwrap() else { panic!() };
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(wait.poll(&Context::from_waker(&waker)).is_pending());
    let error = locks.request(2, 0, b"a", LockMode::Exclusive).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "one request at a time");
    locks.release_all(1);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(wait.poll(&Context::from_waker(&waker)).is_ready());
    drop(wait);
    assert_eq!(locks.mode(2, 0, b"a"), Some(LockMode::Shared));
}

#[test]
fn memory_has_a_limit_and_is_given_back() {
    let locks = RowLocks::new(1000);
    let mut held = 0_u32;
    let error = loop {
        match locks.try_lock(1, 0, &held.to_be_bytes(), LockMode::Shared) {
            Ok(is_granted) => assert!(is_granted),
            Err(error) => break error,
        }
        held += 1;
    };
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!((3..100).contains(&held), "{held}");
    // What is held may be had again, and be shared.
    assert!(locks.try_lock(1, 0, &0_u32.to_be_bytes(), LockMode::Exclusive).unwrap());
    assert!(locks.try_lock(2, 0, &1_u32.to_be_bytes(), LockMode::Shared).unwrap());
    locks.release_all(1);
    locks.release_all(2);
    assert_eq!(locks.stats(), RowLockStats::default());
}

#[test]
fn nobody_takes_all_of_the_memory() {
    let locks = RowLocks::new(10_000).limit_owners(1000);
    let lock = |owner: u64, number: u32| locks.try_lock(owner, 0, &number.to_be_bytes(), LockMode::Exclusive);
    let held = (0..).take_while(|number| lock(1, *number).is_ok()).count();
    assert!((3..6).contains(&held), "{held}");
    let before = locks.stats();
    assert_eq!(before.locks, held, "what was refused is not held");
    // Nor may it wait for more; what it has it may have again.
    assert!(lock(2, 100).unwrap());
    let error = locks.request(1, 0, &100_u32.to_be_bytes(), LockMode::Exclusive).unwrap_err();
    assert_eq!((error.kind(), locks.stats().waiting), (ErrorKind::LimitExceeded, 0));
    assert!(lock(1, 0).unwrap());
    // One given back makes room for one.
    locks.unlock(1, 0, &0_u32.to_be_bytes());
    assert!(lock(1, 200).unwrap());
    assert_eq!(lock(1, 201).unwrap_err().kind(), ErrorKind::LimitExceeded);
    locks.release_all(1);
    locks.release_all(2);
    assert_eq!(locks.stats(), RowLockStats::default());
}

#[test]
fn locks_from_before_count_for_nobodys_limit() {
    let locks = RowLocks::new(1000).limit_owners(800);
    (0..100_u32).for_each(|number| locks.restore(1, 0, &number.to_be_bytes()));
    assert_eq!(locks.stats().locks, 100);
    let lock = |owner: u64, number: u32| locks.try_lock(owner, 0, &number.to_be_bytes(), LockMode::Exclusive);
    assert!(!lock(2, 7).unwrap());
    let held = (1000..).take_while(|number| lock(2, *number).is_ok()).count();
    assert!((3..5).contains(&held), "{held}");
    locks.unlock(1, 0, &8_u32.to_be_bytes());
    assert!(lock(3, 8).unwrap());
    assert!(!lock(3, 9).unwrap());
    [1, 2, 3].into_iter().for_each(|owner| locks.release_all(owner));
    assert_eq!(locks.stats(), RowLockStats::default());
    // It is full again for the others.
    let held = (0..).take_while(|number| lock(4 + u64::from(*number), *number).is_ok()).count();
    assert!((4..8).contains(&held), "{held}");
}

/// Threads take two rows each in a random order, increment a plain counter of each, and give up on deadlocks.
#[test]
fn threads_exclude_one_another_and_none_starves() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 400;
    let executor = Arc::new(ThreadExecutor::new(1, Arc::new(SystemClock::new())).unwrap());
    let locks = Arc::new(RowLocks::new(NO_LIMIT));
    let owners_of_row: Arc<[AtomicU64; 3]> = Arc::default();
    let threads = (0..THREADS).map(|thread| {
        let (executor, locks, owners_of_row) = (Arc::clone(&executor), Arc::clone(&locks), Arc::clone(&owners_of_row));
        std::thread::spawn(move || {
            let mut random = thread.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let (mut done, mut deadlocks) = (0, 0_u64);
            while done < ROUNDS {
                let owner = 1 + thread + THREADS * (done + ROUNDS * deadlocks);
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let first = (random >> 40) as usize % 3;
                let rows = [first, (first + 1 + (random >> 50) as usize % 2) % 3];
                let taken = rows
                    .iter()
                    .try_for_each(|row| locks.lock(&*executor, owner, 0, &[*row as u8], LockMode::Exclusive, None));
                match taken {
                    Ok(()) => {
                        for row in rows {
                            assert_eq!(owners_of_row[row].swap(owner, Ordering::SeqCst), 0, "two have row {row}");
                        }
                        std::thread::yield_now();
                        for row in rows {
                            assert_eq!(owners_of_row[row].swap(0, Ordering::SeqCst), owner);
                        }
                        done += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
                        assert!(cycle_of(&error).contains(&owner));
                        deadlocks += 1;
                    }
                }
                locks.release_all(owner);
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(RowLockStats { waits: 0, deadlocks: 0, ..locks.stats() }, RowLockStats::default());
}

/// Readers come without end; a writer gets its turn, since none of those behind it passes.
#[test]
fn a_writer_is_not_passed_by_readers() {
    let executor = Arc::new(ThreadExecutor::new(1, Arc::new(SystemClock::new())).unwrap());
    let locks = Arc::new(RowLocks::new(NO_LIMIT));
    let is_done = Arc::new(crate::sync::atomic::AtomicBool::new(false));
    locks.grant(100, 0, b"");
    let readers: Vec<_> = (1..3_u64)
        .map(|reader| {
            let (executor, locks, is_done) = (Arc::clone(&executor), Arc::clone(&locks), Arc::clone(&is_done));
            std::thread::spawn(move || {
                // Each holds its lock until it has the next one, as another owner: the row is never free.
                let mut owner = reader;
                while !is_done.load(Ordering::SeqCst) {
                    locks.lock(&*executor, owner + 2, 0, b"", LockMode::Shared, Some(Duration::from_millis(1))).ok();
                    locks.release_all(owner);
                    owner += 2;
                }
                locks.release_all(owner);
            })
        })
        .collect();
    let Requested::Waiting(wait) = locks.request(0, 0, b"", LockMode::Exclusive).unwrap() else { panic!() };
    locks.release_all(100);
    wait.wait(&*executor, None).unwrap();
    assert_eq!(locks.stats().locks, 1);
    is_done.store(true, Ordering::SeqCst);
    locks.release_all(0);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert!(locks.is_empty());
}

#[test]
fn a_lock_that_is_handed_over_is_counted_all_the_time() {
    use crate::sync::atomic::AtomicBool;
    const OWNERS: u64 = 8;
    let locks = RowLocks::new(NO_LIMIT);
    let executor = ThreadExecutor::new(1, Arc::new(SystemClock::new())).unwrap();
    // Each owner asks for the row while the one before holds it: from then on somebody always does.
    assert!(locks.try_lock(0, 1, b"row", LockMode::Exclusive).unwrap());
    let (is_over, times) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                assert!(!locks.is_empty(), "nobody has the lock");
                assert!(locks.is_locked_by_other(OWNERS + 1, 1, b"row"));
                assert_eq!(locks.stats().locks, 1);
                times.fetch_add(1, Ordering::AcqRel);
            }
        });
        let mut last = 0;
        for round in 1..=2_000 {
            let next = round % OWNERS + 1;
            let Requested::Waiting(wait) = locks.request(next, 1, b"row", LockMode::Exclusive).unwrap() else {
                panic!("the lock is held")
            };
            locks.release_all(last);
            wait.wait(&executor, None).unwrap();
            assert_eq!(locks.mode(next, 1, b"row"), Some(LockMode::Exclusive));
            last = next;
        }
        // The other thread has looked at least once.
        while times.load(Ordering::Acquire) == 0 && !watcher.is_finished() {
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Release);
    });
    assert_eq!(locks.stats().locks, 1);
}
