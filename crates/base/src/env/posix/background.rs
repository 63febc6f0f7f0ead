//! Threads that move bytes while whoever wants them moved does something else.
//!
//! Where the page cache is passed by, nothing reads ahead and nothing writes behind by itself: a compaction would wait for the device, and the device for the compaction.

use crate::sync::OnceLock;
use crossbeam::channel::{Receiver, Sender, bounded, unbounded};

/// Threads of the process. They sleep where nothing is to be moved.
const THREADS: usize = 4;

type Work = Box<dyn FnOnce() + Send>;

/// What another thread does.
pub(super) struct Begun<T>(Receiver<T>);

impl<T> Begun<T> {
    /// Waits until it is done, and returns what came of it; `None` if the thread is gone.
    pub(super) fn end(self) -> Option<T> {
        self.0.recv().ok()
    }

    /// Something that is done.
    pub(super) fn done(outcome: T) -> Self {
        let (sender, receiver) = bounded(1);
        let _ = sender.send(outcome);
        Self(receiver)
    }
}

/// Has `work` done by another thread; gives it back where there is none.
pub(super) fn begin<T: Send + 'static, W: FnOnce() -> T + Send + 'static>(work: W) -> Result<Begun<T>, W> {
    #[cfg(test)]
    if tests::is_without_threads() {
        return Err(work);
    }
    let Some(queue) = queue() else { return Err(work) };
    let (sender, receiver) = bounded(1);
    let work = Box::new(move || {
        // Nobody may want it any more.
        let _ = sender.send(work());
    });
    // The threads take from the queue for as long as the process lives.
    let _ = queue.send(work);
    Ok(Begun(receiver))
}

/// What the threads take from; `None` if none could be started.
#[expect(clippy::disallowed_methods, reason = "a part of a system call that takes long, and no work of an engine")]
fn queue() -> Option<&'static Sender<Work>> {
    static QUEUE: OnceLock<Option<Sender<Work>>> = OnceLock::new();
    let start = || {
        let (sender, receiver) = unbounded::<Work>();
        let run = |number| {
            let receiver = receiver.clone();
            let name = format!("siltstone-io-{number}");
            let work = move || receiver.iter().for_each(|work| work());
            std::thread::Builder::new().name(name).spawn(work).is_ok()
        };
        let started = (0..THREADS).filter(|number| run(*number)).count();
        (started > 0).then_some(sender)
    };
    QUEUE.get_or_init(start).as_ref()
}

#[cfg(test)]
pub(super) mod tests {
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
}
