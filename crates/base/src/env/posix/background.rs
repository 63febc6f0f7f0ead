//! Threads that move bytes while whoever wants them moved does something else.
//!
//! Where the page cache is passed by, nothing reads ahead and nothing writes behind by itself: a compaction would wait for the device, and the device for the compaction.
//!
//! Nobody waits for his turn: what no thread has begun when it is needed, whoever needs it does himself, or leaves undone. So it is never later than it would be without the threads, whatever others
//! have asked of them, and a child process that has none of them lacks nothing.

use crate::sync::{Arc, OnceLock};
use crossbeam::atomic::AtomicCell;
use crossbeam::channel::{Receiver, Sender, bounded, unbounded};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Threads of the process. They sleep where nothing is to be moved.
const THREADS: usize = 4;

type Work<T> = Box<dyn FnOnce() -> T + Send>;

/// Work that another thread does, or will do. What nobody has begun when it is dropped is never done.
pub(super) struct Begun<T> {
    /// Empty once somebody has begun.
    waiting: Arc<AtomicCell<Option<Work<T>>>>,
    outcome: Receiver<T>,
}

impl<T> Begun<T> {
    /// Waits until it is done, and returns what came of it. What nobody has begun is done by the caller. `None` if it panicked.
    pub(super) fn end(self) -> Option<T> {
        match self.waiting.take() {
            Some(work) => Some(work()),
            None => self.outcome.recv().ok(),
        }
    }

    /// The same, but `None` if nobody has begun: then it is not done at all.
    pub(super) fn end_if_begun(self) -> Option<T> {
        match self.waiting.take() {
            Some(_) => None,
            None => self.outcome.recv().ok(),
        }
    }

    /// What came of it if it is done; if it is not, nobody wants to know any more.
    pub(super) fn end_if_done(self) -> Option<T> {
        self.outcome.try_recv().ok()
    }
}

impl<T> Drop for Begun<T> {
    fn drop(&mut self) {
        drop(self.waiting.take());
    }
}

/// Has `work` done by another thread, as soon as one is free.
pub(super) fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Begun<T> {
    let (sender, outcome) = bounded(1);
    let work: Work<T> = Box::new(work);
    let waiting = Arc::new(AtomicCell::new(Some(work)));
    let taken = Arc::clone(&waiting);
    let work = Box::new(move || {
        if let Some(work) = taken.take() {
            // Nobody may want it any more.
            let _ = sender.send(work());
        }
    });
    if let Some(queue) = queue() {
        // The threads take from the queue for as long as the process lives.
        let _ = queue.send(work);
    }
    Begun { waiting, outcome }
}

/// Starts the threads, as urgent as the caller, unless that was done.
pub(super) fn start() {
    let _ = queue();
}

/// What the threads take from; `None` if none could be started.
#[expect(clippy::disallowed_methods, reason = "a part of a system call that takes long, and no work of an engine")]
fn queue() -> Option<&'static Sender<Work<()>>> {
    static QUEUE: OnceLock<Option<Sender<Work<()>>>> = OnceLock::new();
    let begin = || {
        let (sender, receiver) = unbounded::<Work<()>>();
        let run = |number| {
            let receiver = receiver.clone();
            let name = format!("siltstone-io-{number}");
            // Who waits for what panics is told, and the thread goes on.
            let each = |work: Work<()>| drop(catch_unwind(AssertUnwindSafe(work)));
            let work = move || receiver.iter().for_each(each);
            std::thread::Builder::new().name(name).spawn(work).is_ok()
        };
        let started = (0..THREADS).filter(|number| run(*number)).count();
        (started > 0).then_some(sender)
    };
    #[cfg(test)]
    if tests::is_without_threads() {
        return None;
    }
    QUEUE.get_or_init(begin).as_ref()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sync::{Mutex, MutexGuard, Rank};
    use std::cell::Cell;

    thread_local! {
        static WITHOUT_THREADS: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn is_without_threads() -> bool {
        WITHOUT_THREADS.get()
    }

    /// Has nothing done by another thread for this one from now on.
    pub(in super::super) fn do_without_threads() {
        WITHOUT_THREADS.set(true);
    }

    /// Two of them would keep some threads each, and wait for the others.
    static ONE_GATE: Mutex<()> = Mutex::new(Rank(1), ());

    /// Keeps all threads busy until it is opened.
    pub(in super::super) struct Gate {
        held: Vec<Sender<()>>,
        _one: MutexGuard<'static, ()>,
    }

    impl Gate {
        pub(in super::super) fn close() -> Self {
            let one = ONE_GATE.lock();
            let begun = (0..THREADS).map(|_| {
                let ((open, opened), (at, arrived)) = (bounded::<()>(1), bounded(1));
                let held = begin(move || {
                    let _ = at.send(());
                    opened.recv()
                });
                // It waits in the thread, not here.
                arrived.recv().unwrap();
                std::mem::forget(held);
                open
            });
            Self { held: begun.collect(), _one: one }
        }

        pub(in super::super) fn open(self) {
            drop(self.held);
        }
    }

    #[test]
    fn whoever_waits_does_what_nobody_has_begun() {
        let gate = Gate::close();
        let (done, left, dropped) = (begin(|| 1), begin(|| panic!("not to be done")), begin(|| panic!("nor that")));
        assert_eq!(done.end(), Some(1));
        assert_eq!(left.end_if_begun(), None::<u8>);
        drop::<Begun<u8>>(dropped);
        gate.open();
        let begun = begin(|| 2);
        assert!(matches!(begun.end_if_begun(), None | Some(2)));
    }

    #[test]
    fn what_panics_ends_no_thread() {
        for _ in 0..3 * THREADS {
            let (at, arrived) = bounded(1);
            let begun = begin(move || -> u8 {
                let _ = at.send(());
                panic!("a fault")
            });
            arrived.recv().unwrap();
            assert_eq!(begun.end(), None);
        }
        let (at, arrived) = bounded(1);
        let begun = begin(move || {
            let _ = at.send(());
            7
        });
        arrived.recv().unwrap();
        assert_eq!(begun.end(), Some(7));
    }
}
