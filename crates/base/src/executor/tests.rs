//! What jobs and waiters may rely on, on both executors.

use super::*;
use crate::clock::{ManualClock, SystemClock};
use crate::sync::Weak;
use crate::sync::atomic::{AtomicU64, Ordering};

struct Count {
    steps_left: u64,
    done: Arc<(AtomicU64, Signal)>,
    panics: bool,
}

impl Job for Count {
    fn name(&self) -> &'static str {
        "count"
    }
    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        assert!(!self.panics, "planned");
        self.steps_left -= 1;
        self.done.0.fetch_add(1, Ordering::SeqCst);
        self.done.1.notify_all();
        match self.steps_left {
            0 => Progress::Done,
            left if left % 2 == 0 => Progress::More,
            _ => Progress::After(Duration::from_micros(50)),
        }
    }
    fn poisoned(&mut self, message: &str) {
        assert_eq!(message, "planned");
        self.done.0.fetch_add(1000, Ordering::SeqCst);
        self.done.1.notify_all();
    }
}

fn check(executor: &dyn Executor) {
    let done = Arc::new((AtomicU64::new(0), Signal::new()));
    for priority in [Priority::Idle, Priority::Low, Priority::Medium, Priority::High] {
        let job = Count { steps_left: 7, done: Arc::clone(&done), panics: false };
        executor.submit(priority, Box::new(job));
    }
    let met = executor.wait_until(&done.1, None, &mut || done.0.load(Ordering::SeqCst) == 28);
    assert_eq!(met, Waited::Met);
    executor.submit(Priority::Low, Box::new(Count { steps_left: 1, done: Arc::clone(&done), panics: true }));
    let met = executor.wait_until(&done.1, None, &mut || done.0.load(Ordering::SeqCst) == 1028);
    assert_eq!(met, Waited::Met, "a panic reaches the job's owner");
    let late = executor.wait_until(&done.1, Some(Duration::from_millis(2)), &mut || false);
    assert_eq!(late, Waited::TimedOut);
}

#[test]
fn threads_step_jobs_and_wake_waiters() {
    check(&ThreadExecutor::new(3, Arc::new(SystemClock::new())).unwrap());
    check(&ThreadExecutor::new(1, Arc::new(SystemClock::new())).unwrap());
}

#[test]
fn one_thread_steps_jobs_while_it_waits() {
    check(&StepExecutor::new(Arc::new(ManualClock::new(0))));
    check(&StepExecutor::with_seed(Arc::new(ManualClock::new(0)), 7));
}

#[test]
fn what_is_more_urgent_is_stepped_first() {
    let executor = StepExecutor::new(Arc::new(ManualClock::new(0)));
    let order = Arc::new(crate::sync::SegQueue::new());
    for priority in [Priority::Idle, Priority::Low, Priority::Medium, Priority::High, Priority::Medium] {
        let order = Arc::clone(&order);
        let step = move || {
            order.push(priority);
            Progress::Done
        };
        executor.submit(priority, job(&Arc::default(), step));
    }
    executor.run_until_idle();
    let order: Vec<_> = std::iter::from_fn(|| order.pop()).collect();
    assert_eq!(order, [Priority::High, Priority::Medium, Priority::Medium, Priority::Low, Priority::Idle]);
}

#[test]
fn a_deadlock_is_reported_instead_of_hanging() {
    let executor = StepExecutor::new(Arc::new(ManualClock::new(0)));
    assert_eq!(executor.wait_until(&Signal::new(), None, &mut || false), Waited::Stuck);
}

/// A job made of a closure; counts its drops.
struct Steps<F> {
    step: F,
    dropped: Arc<AtomicU64>,
}

impl<F: FnMut() -> Progress + Send> Job for Steps<F> {
    fn name(&self) -> &'static str {
        "steps"
    }
    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        (self.step)()
    }
    fn poisoned(&mut self, _: &str) {
        panic!("planned: the one who is told panics too");
    }
}

impl<F> Drop for Steps<F> {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

fn job<F: FnMut() -> Progress + Send + 'static>(dropped: &Arc<AtomicU64>, step: F) -> Box<dyn Job> {
    Box::new(Steps { step, dropped: Arc::clone(dropped) })
}

fn threads(count: usize) -> ThreadExecutor {
    ThreadExecutor::new(count, Arc::new(SystemClock::new())).unwrap()
}

#[test]
fn dropping_drops_the_jobs_that_are_not_done() {
    let dropped = Arc::new(AtomicU64::new(0));
    for count in [1, 3] {
        let executor = threads(count);
        let begun = Arc::new((AtomicU64::new(0), Signal::new()));
        for priority in [Priority::High, Priority::Low, Priority::Idle] {
            executor.submit(priority, job(&dropped, || Progress::After(Duration::MAX)));
            executor.submit(priority, job(&dropped, || Progress::After(Duration::from_secs(1000))));
        }
        let seen = Arc::clone(&begun);
        executor.submit(
            Priority::Idle,
            job(&dropped, move || {
                seen.0.store(1, Ordering::SeqCst);
                seen.1.notify_all();
                Progress::More
            }),
        );
        let met = executor.wait_until(&begun.1, None, &mut || begun.0.load(Ordering::SeqCst) == 1);
        assert_eq!(met, Waited::Met);
        drop(executor);
        assert_eq!(dropped.swap(0, Ordering::SeqCst), 7);
    }
}

/// A job is in its step, and goes on only when the executor is gone: whoever dropped that did not wait for it. What was not begun is dropped by the threads.
#[test]
fn an_executor_that_waits_for_nobody_leaves_what_is_left_to_its_threads() {
    for count in [1, 3] {
        let executor = threads(count).waiting_for_nobody();
        let (dropped, state) = (Arc::new(AtomicU64::new(0)), Arc::new((AtomicU64::new(0), Signal::new())));
        let at_least = |least: u64| {
            let state = Arc::clone(&state);
            move || state.1.wait_while(None, &mut || state.0.load(Ordering::SeqCst) < least)
        };
        let (seen, until) = (Arc::clone(&state), at_least(2));
        executor.submit(
            Priority::Low,
            job(&dropped, move || {
                seen.0.store(1, Ordering::SeqCst);
                seen.1.notify_all();
                until();
                Progress::More
            }),
        );
        executor.submit(Priority::Low, job(&dropped, || Progress::After(Duration::MAX)));
        at_least(1)();
        drop(executor);
        state.0.store(2, Ordering::SeqCst);
        state.1.notify_all();
        // Nothing tells of the end of a job but its destructor.
        while dropped.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
    }
}

/// Three jobs that wait for each other end only where each has a thread.
#[test]
fn an_executor_that_grows_runs_as_many_jobs_at_the_same_time() {
    for count in [1, 2] {
        let executor = threads(count);
        executor.grow(4).unwrap();
        executor.grow(2).unwrap();
        assert_eq!(executor.threads(), 4);
        let met = Arc::new((AtomicU64::new(0), Signal::new()));
        for _ in 0..3 {
            let met = Arc::clone(&met);
            executor.submit(
                Priority::Low,
                job(&Arc::default(), move || {
                    met.0.fetch_add(1, Ordering::SeqCst);
                    met.1.notify_all();
                    met.1.wait_while(None, &mut || met.0.load(Ordering::SeqCst) < 3);
                    Progress::Done
                }),
            );
        }
        let all = executor.wait_until(&met.1, None, &mut || met.0.load(Ordering::SeqCst) == 3);
        assert_eq!(all, Waited::Met);
    }
}

/// The last owner of the executor is a job on one of its threads; another thread is inside a step meanwhile.
#[test]
fn a_job_may_be_the_last_owner_of_its_executor() {
    for count in [1, 2, 4] {
        let executor: Arc<dyn Executor> = Arc::new(threads(count));
        let weak = Arc::downgrade(&executor);
        let dropped = Arc::new(AtomicU64::new(0));
        let state = Arc::new((AtomicU64::new(0), Signal::new()));
        executor.submit(Priority::Low, job(&dropped, || Progress::More));
        let (owner, seen) = (Arc::clone(&executor), Arc::clone(&state));
        let owning = move || {
            // Waits here for the test to let go, so that this is the last owner.
            let alone = seen.1.wait_while(None, &mut || seen.0.load(Ordering::SeqCst) == 0);
            assert!(alone && Arc::strong_count(&owner) == 1);
            Progress::Done
        };
        executor.submit(Priority::High, job(&dropped, owning));
        drop(executor);
        state.0.store(1, Ordering::SeqCst);
        state.1.notify_all();
        // The jobs are gone only when the executor is.
        while dropped.load(Ordering::SeqCst) < 2 || weak.strong_count() > 0 {
            std::thread::yield_now();
        }
    }
}

/// A job that is queued when the executor closes may itself hand over work, and drop what takes locks.
#[test]
fn a_destructor_may_submit_to_a_closing_executor() {
    struct SubmitOnDrop(Weak<dyn Executor>, Arc<AtomicU64>);
    impl Drop for SubmitOnDrop {
        fn drop(&mut self) {
            if let Some(executor) = self.0.upgrade() {
                executor.submit(Priority::Low, job(&self.1, || Progress::Done));
            }
            panic!("planned: a destructor panics");
        }
    }
    let dropped = Arc::new(AtomicU64::new(0));
    let executor: Arc<dyn Executor> = Arc::new(threads(1));
    let on_drop = SubmitOnDrop(Arc::downgrade(&executor), Arc::clone(&dropped));
    executor.submit(
        Priority::Low,
        job(&dropped, move || {
            let _ = &on_drop;
            Progress::Done
        }),
    );
    let after = Arc::new((AtomicU64::new(0), Signal::new()));
    let seen = Arc::clone(&after);
    executor.submit(
        Priority::Idle,
        job(&dropped, move || {
            seen.0.store(1, Ordering::SeqCst);
            seen.1.notify_all();
            Progress::Done
        }),
    );
    let met = executor.wait_until(&after.1, None, &mut || after.0.load(Ordering::SeqCst) == 1);
    assert_eq!(met, Waited::Met, "the thread outlives a panic of a destructor");
}

#[test]
fn a_thread_outlives_whatever_panics() {
    let executor = threads(1);
    let dropped = Arc::new(AtomicU64::new(0));
    executor.submit(Priority::High, job(&dropped, || panic!("planned")));
    let done = Arc::new((AtomicU64::new(0), Signal::new()));
    executor.submit(Priority::Low, Box::new(Count { steps_left: 3, done: Arc::clone(&done), panics: false }));
    let met = executor.wait_until(&done.1, None, &mut || done.0.load(Ordering::SeqCst) == 3);
    assert_eq!((met, dropped.load(Ordering::SeqCst)), (Waited::Met, 1));
}

/// With two threads, low work that never ends leaves one for what is urgent.
#[test]
fn a_thread_is_kept_for_high_priority() {
    let executor = threads(2);
    let dropped = Arc::new(AtomicU64::new(0));
    let state = Arc::new((AtomicU64::new(0), Signal::new()));
    for _ in 0..2 {
        let seen = Arc::clone(&state);
        // Holds its thread until the urgent job was stepped.
        let hold = move || {
            seen.1.wait_while(None, &mut || seen.0.load(Ordering::SeqCst) == 0);
            Progress::Done
        };
        executor.submit(Priority::Low, job(&dropped, hold));
    }
    let seen = Arc::clone(&state);
    let urgent = move || {
        seen.0.store(1, Ordering::SeqCst);
        seen.1.notify_all();
        Progress::Done
    };
    executor.submit(Priority::High, job(&dropped, urgent));
    let met = executor.wait_until(&state.1, None, &mut || state.0.load(Ordering::SeqCst) == 1);
    assert_eq!(met, Waited::Met);
}

#[test]
fn time_moves_only_to_the_next_due_job() {
    let clock = Arc::new(ManualClock::new(0));
    let executor = StepExecutor::new(Arc::clone(&clock));
    let dropped = Arc::new(AtomicU64::new(0));
    let mut delays = [10, 20, 0].into_iter().map(Duration::from_micros);
    let step = move || delays.next().map_or(Progress::Done, Progress::After);
    executor.submit(Priority::Low, job(&dropped, step));
    executor.submit(Priority::Low, job(&dropped, || Progress::After(Duration::MAX)));
    let signal = Signal::new();
    let waited = executor.wait_until(&signal, Some(Duration::from_micros(15)), &mut || false);
    assert_eq!((waited, clock.now_micros(), executor.pending()), (Waited::TimedOut, 15, 2));
    executor.sleep(Duration::from_micros(100));
    assert_eq!((clock.now_micros(), executor.pending(), dropped.load(Ordering::SeqCst)), (115, 1, 1));
    assert_eq!(executor.wait_until(&signal, None, &mut || false), Waited::Stuck);
    executor.abandon_all();
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
}

#[test]
fn a_seed_decides_the_order_alone() {
    let order = |seed| {
        let executor = StepExecutor::with_seed(Arc::new(ManualClock::new(0)), seed);
        let order = Arc::new(crate::sync::SegQueue::new());
        for index in 0..8 {
            let order = Arc::clone(&order);
            let step = move || {
                order.push(index);
                Progress::Done
            };
            executor.submit(Priority::Low, job(&Arc::default(), step));
        }
        assert_eq!(executor.run_until_idle(), 8);
        std::iter::from_fn(|| order.pop()).collect::<Vec<_>>()
    };
    let orders: std::collections::BTreeSet<_> = (0..16).map(order).collect();
    assert!(orders.len() > 12, "neighbouring seeds differ: {orders:?}");
    assert_eq!(order(3), order(3));
}

/// What compactions do thousands of times a second, waits for the rate limiter and for flushes, is nothing to the thread that is there for flushes.
#[test]
fn compactions_that_wait_do_not_wake_the_thread_that_is_kept_for_flushes() {
    let executor = threads(3);
    let done = Arc::new((AtomicU64::new(0), Signal::new()));
    for _ in 0..50 {
        for priority in [Priority::Medium, Priority::Low, Priority::Idle] {
            executor.submit(priority, Box::new(Count { steps_left: 9, done: Arc::clone(&done), panics: false }));
        }
    }
    let met = executor.wait_until(&done.1, None, &mut || done.0.load(Ordering::SeqCst) == 50 * 3 * 9);
    assert_eq!((met, executor.wakes_for_test()[0]), (Waited::Met, 0));
    executor.submit(Priority::High, Box::new(Count { steps_left: 2, done: Arc::clone(&done), panics: false }));
    let met = executor.wait_until(&done.1, None, &mut || done.0.load(Ordering::SeqCst) == 50 * 3 * 9 + 2);
    assert_eq!(met, Waited::Met);
}

/// Nobody sleeps while there is something to do: jobs of every priority come from several threads, some wait for their time, and each is waited for.
#[test]
fn no_job_is_left_to_threads_that_sleep() {
    for count in [1, 2, 3, 5] {
        let executor = threads(count);
        std::thread::scope(|scope| {
            for seed in 0..3_u64 {
                let executor = &executor;
                scope.spawn(move || {
                    for round in 0..400 {
                        let done = Arc::new((AtomicU64::new(0), Signal::new()));
                        let jobs = 1 + (round + seed) % 4;
                        for index in 0..jobs {
                            let priority = [Priority::High, Priority::Medium, Priority::Low, Priority::Idle]
                                [((round * 7 + index + seed) % 4) as usize];
                            let steps_left = 1 + (round + index) % 3;
                            let job = Count { steps_left, done: Arc::clone(&done), panics: false };
                            executor.submit(priority, Box::new(job));
                        }
                        let steps: u64 = (0..jobs).map(|index| 1 + (round + index) % 3).sum();
                        let met = executor.wait_until(&done.1, None, &mut || done.0.load(Ordering::SeqCst) == steps);
                        assert_eq!(met, Waited::Met);
                    }
                });
            }
        });
    }
}
