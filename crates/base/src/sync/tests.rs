//! What waiters and holders of locks may rely on.
#![expect(clippy::disallowed_methods, reason = "wake-ups are tested between real threads")]

use super::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Wake, Waker};
use std::time::Duration;

/// Each thread waits for its turn, takes it and passes it on: one lost wake-up and the test never ends.
#[test]
fn no_wake_up_is_lost_between_threads() {
    const ROUNDS: u64 = 20_000;
    for threads in [2, 3] {
        let state = Arc::new((AtomicU64::new(0), Signal::new()));
        let workers: Vec<_> = (0..threads)
            .map(|own| {
                let state = Arc::clone(&state);
                std::thread::spawn(move || {
                    for round in 0..ROUNDS / threads {
                        let turn = round * threads + own;
                        // Relaxed on purpose: the signal alone orders the change before the look.
                        assert!(state.1.wait_while(None, &mut || state.0.load(Ordering::Relaxed) != turn));
                        state.0.store(turn + 1, Ordering::Relaxed);
                        state.1.notify_all();
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(state.0.load(Ordering::SeqCst), ROUNDS / threads * threads);
    }
}

/// The change and the announcement of the waiter meet head on, a little earlier or later each round: the notifier must not
/// look for waiters before its change is visible.
#[test]
fn no_wake_up_is_lost_when_change_and_wait_meet() {
    const ROUNDS: u64 = 5_000;
    let (begin, ended, state, signal) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0), Signal::new());
    let meet = |at: &AtomicU64, round: u64| {
        let mut spins = 0;
        while at.load(Ordering::Acquire) != round {
            std::hint::spin_loop();
            spins += 1;
            if spins % 1_000 == 0 {
                std::thread::yield_now();
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                meet(&begin, round);
                assert!(signal.wait_while(None, &mut || state.load(Ordering::Relaxed) != round));
                ended.store(round, Ordering::Release);
            }
        });
        for round in 1..=ROUNDS {
            begin.store(round, Ordering::Release);
            (0..round % 200).for_each(|_| std::hint::spin_loop());
            state.store(round, Ordering::Relaxed);
            signal.notify_all();
            meet(&ended, round);
        }
    });
}

/// Wakes a parked thread by unparking it, as a runtime would.
struct Unpark(std::thread::Thread, AtomicBool);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::SeqCst);
        self.0.unpark();
    }
}

/// A task looks, registers, looks again and sleeps until it is woken: the same game with wakers against a thread.
#[test]
fn no_wake_up_is_lost_between_a_task_and_a_thread() {
    const ROUNDS: u64 = 20_000;
    let state = Arc::new((AtomicU64::new(0), Signal::new()));
    let task = {
        let state = Arc::clone(&state);
        std::thread::spawn(move || {
            let unpark = Arc::new(Unpark(std::thread::current(), AtomicBool::new(false)));
            let waker = Waker::from(Arc::clone(&unpark));
            for turn in (0..ROUNDS).step_by(2) {
                while state.0.load(Ordering::Relaxed) != turn {
                    unpark.1.store(false, Ordering::SeqCst);
                    state.1.register(&waker);
                    if state.0.load(Ordering::Relaxed) == turn {
                        break;
                    }
                    while !unpark.1.load(Ordering::SeqCst) {
                        std::thread::park();
                    }
                }
                state.0.store(turn + 1, Ordering::Relaxed);
                state.1.notify_all();
            }
        })
    };
    for turn in (1..ROUNDS).step_by(2) {
        assert!(state.1.wait_while(None, &mut || state.0.load(Ordering::Relaxed) != turn));
        state.0.store(turn + 1, Ordering::Relaxed);
        state.1.notify_all();
    }
    task.join().unwrap();
}

#[derive(Default)]
struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_registration_is_good_for_one_notification() {
    let signal = Signal::new();
    let counts = [Arc::new(CountWakes::default()), Arc::new(CountWakes::default())];
    let wakers = counts.clone().map(Waker::from);
    let wakes = || [0, 1].map(|index: usize| counts[index].0.load(Ordering::SeqCst));
    signal.notify_all();
    assert_eq!(wakes(), [0, 0]);
    signal.register(&wakers[0]);
    signal.register(&wakers[0]);
    signal.register(&wakers[1]);
    signal.notify_all();
    assert_eq!(wakes(), [1, 1], "one waker registered twice is woken once");
    signal.notify_all();
    assert_eq!(wakes(), [1, 1]);
    signal.register(&wakers[1]);
    signal.notify_all();
    assert_eq!(wakes(), [1, 2]);
}

#[test]
fn a_waker_may_use_the_signal_that_wakes_it() {
    struct Again(Arc<Signal>, AtomicUsize);
    impl Wake for Again {
        fn wake(self: Arc<Self>) {
            if self.1.fetch_add(1, Ordering::SeqCst) == 0 {
                let signal = Arc::clone(&self.0);
                signal.register(&Waker::from(self));
                signal.notify_all();
            }
        }
    }
    let signal = Arc::new(Signal::new());
    let again = Arc::new(Again(Arc::clone(&signal), AtomicUsize::new(0)));
    signal.register(&Waker::from(Arc::clone(&again)));
    signal.notify_all();
    assert_eq!(again.1.load(Ordering::SeqCst), 2);
}

#[test]
fn a_wait_ends_with_its_time() {
    let signal = Signal::new();
    assert!(!signal.wait_while(Some(Duration::ZERO), &mut || true));
    assert!(!signal.wait_while(Some(Duration::from_millis(1)), &mut || true));
    assert!(signal.wait_while(Some(Duration::ZERO), &mut || false));
    assert!(signal.wait_while(Some(Duration::MAX), &mut || false));
    // What changes without a notification is still seen when the time is over.
    let mut looks = 0;
    let mut waiting = || {
        looks += 1;
        looks < 3
    };
    assert!(signal.wait_while(Some(Duration::from_millis(1)), &mut waiting));
}

#[test]
fn a_condition_that_panics_leaves_no_waiter_behind() {
    let signal = Signal::new();
    let mut looks = 0;
    let mut waiting = || {
        looks += 1;
        assert!(looks < 2, "planned");
        true
    };
    catch_unwind(AssertUnwindSafe(|| signal.wait_while(None, &mut waiting))).unwrap_err();
    assert!(format!("{signal:?}").contains("waiters: 0"), "{signal:?}");
}

#[test]
fn locks_are_taken_in_the_order_of_their_ranks() {
    let low = Mutex::new(Rank(1), 1);
    let high = RwLock::new(Rank(2), 2);
    {
        let low = low.lock();
        let high = high.read();
        assert_eq!(*low + *high, 3);
        // Given back in any order.
        drop(low);
        drop(high);
    }
    *high.write() += 1;
    assert_eq!((*low.lock(), *high.read()), (1, 3));
}

#[test]
fn locks_out_of_order_panic_where_it_is_checked() {
    if !cfg!(debug_assertions) {
        return;
    }
    let (low, equal, high) = (Mutex::new(Rank(1), ()), Mutex::new(Rank(1), ()), RwLock::new(Rank(2), ()));
    let refused = |take: &dyn Fn()| catch_unwind(AssertUnwindSafe(take)).is_err();
    {
        let _high = high.read();
        assert!(refused(&|| drop(low.lock())));
        assert!(refused(&|| drop(low.try_lock())));
        assert!(refused(&|| drop(high.read())), "a reader that reads again may deadlock with a writer between");
        assert!(refused(&|| drop(high.write())));
    }
    {
        let _low = low.lock();
        assert!(refused(&|| drop(equal.lock())));
        assert!(!refused(&|| drop(high.write())));
    }
    assert!(!refused(&|| drop(low.lock())), "a refusal leaves nothing held");
    assert!(!refused(&|| drop((low.try_lock(), high.read()))));
}

#[test]
fn a_lock_is_free_after_a_panic_of_its_holder() {
    let lock = Arc::new(Mutex::new(Rank(1), 0));
    let holder = Arc::clone(&lock);
    std::thread::spawn(move || {
        *holder.lock() += 1;
        let _held = holder.lock();
        panic!("planned");
    })
    .join()
    .unwrap_err();
    assert_eq!(lock.try_lock().map(|value| *value), Some(1));
}
