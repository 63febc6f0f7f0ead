//! The threads that do what a task must not wait for on its own.

use siltstone_base::clock::SystemClock;
use siltstone_base::executor::{Budget, Executor, Job, Priority, Progress, ThreadExecutor};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;

/// A bounded number of threads: those that were asked for, and one each for what must not wait for the others: what writes, what writes with low priority (which may take long),
/// and reads.
/// Whatever is not [`Priority::High`] takes turns at one priority, so that nothing waits for ever.
#[derive(Clone)]
pub(super) struct Pool {
    executor: Arc<dyn Executor>,
}

impl Pool {
    /// Starts `threads` threads and three more. `dir` is told if that fails.
    pub(super) fn new(threads: usize, dir: &Path) -> Result<Self> {
        let executor = ThreadExecutor::new(threads + 3, Arc::new(SystemClock::new()));
        let executor = executor.map_err(|error| Error::io("start threads for", dir, error))?;
        // Whoever drops the last of it may be a task.
        Ok(Self { executor: Arc::new(executor.waiting_for_nobody()) })
    }

    /// Hands a job over.
    pub(super) fn submit(&self, priority: Priority, job: Box<dyn Job>) {
        self.executor.submit(priority, job);
    }

    /// Has `work` done by a thread, if somebody still waits for the answer by then.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        priority: Priority,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        let (sender, receiver) = oneshot::channel();
        let work = move || {
            if !sender.is_closed() {
                // Nobody may be there for it any more: it is then dropped here.
                let _ = sender.send(work());
            }
        };
        self.submit(priority, Box::new(Errand(Some(work))));
        Answer { receiver, home: Some((self.clone(), priority)) }
    }

    /// Has `work` done by a thread, whoever waits for it.
    pub(super) fn run(&self, priority: Priority, work: impl FnOnce() + Send + 'static) {
        self.submit(priority, Box::new(Errand(Some(work))));
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.executor.threads()).finish_non_exhaustive()
    }
}

/// Something that is done once, in one step.
struct Errand<F>(Option<F>);

impl<F: FnOnce() + Send> Job for Errand<F> {
    fn name(&self) -> &'static str {
        "errand of a task"
    }

    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        if let Some(work) = self.0.take() {
            work();
        }
        Progress::Done
    }

    /// Whoever waits is told by the end of the channel.
    fn poisoned(&mut self, _: &str) {}
}

/// What a thread of the pool will answer. An answer that nobody takes is dropped by the pool: that may close a database, or free much.
#[derive(Debug)]
pub(super) struct Answer<T: Send + 'static> {
    receiver: oneshot::Receiver<T>,
    /// Who drops it, and how urgently; `None` for what costs nothing to drop, and for what was taken.
    home: Option<(Pool, Priority)>,
}

impl<T: Send + 'static> Answer<T> {
    /// What `receiver` gets, which costs nothing to drop.
    pub(super) fn new(receiver: oneshot::Receiver<T>) -> Self {
        Self { receiver, home: None }
    }
}

impl<T: Send + 'static> Drop for Answer<T> {
    fn drop(&mut self) {
        let Some((pool, priority)) = self.home.take() else { return };
        // What comes later stays with the thread that made it.
        self.receiver.close();
        if let Ok(answer) = self.receiver.try_recv() {
            // The thread keeps the pool: this one must not wait for its threads.
            let kept = pool.clone();
            pool.run(priority, move || drop((answer, kept)));
        }
    }
}

impl<T: Send + 'static> Future for Answer<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.receiver).poll(context));
        self.home = None;
        Poll::Ready(answer.map_err(|_| Error::new(ErrorKind::Poisoned, "what was done for a task panicked")))
    }
}
