//! Jobs on threads.

use super::{Budget, Executor, Job, Priority, Progress, Waited, drop_caught, micros, step_caught};
use crate::clock::Clock;
use crate::sync::{Arc, Signal};
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::time::Duration;

/// Steps jobs on a fixed number of threads: the highest priority first, in turn within one.
///
/// One thread is kept for [`Priority::High`] when there are at least two, so that a flush never waits for the steps of
/// compactions. Dropping the executor lets the threads finish the step that they are in; jobs that are
/// not done are dropped. A job may own the executor: it then lives until the last such job is done, and may be dropped on one
/// of its own threads.
pub struct ThreadExecutor {
    shared: Arc<Shared>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    queue: parking_lot::Mutex<Queue>,
    work: parking_lot::Condvar,
}

#[derive(Default)]
struct Queue {
    ready: [VecDeque<Box<dyn Job>>; 4],
    timers: BinaryHeap<Timer>,
    timers_added: u64,
    closing: bool,
}

struct Timer {
    due_micros: u64,
    order: u64,
    priority: Priority,
    job: Box<dyn Job>,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Timer {}
impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timer {
    /// The earliest timer is the greatest, so that it is on top of the heap.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.due_micros, other.order).cmp(&(self.due_micros, self.order))
    }
}

impl Queue {
    fn push(&mut self, priority: Priority, job: Box<dyn Job>) {
        self.ready[priority as usize].push_back(job);
    }

    fn push_after(&mut self, due_micros: u64, priority: Priority, job: Box<dyn Job>) {
        self.timers_added += 1;
        self.timers.push(Timer { due_micros, order: self.timers_added, priority, job });
    }

    fn release_timers(&mut self, now_micros: u64) {
        while self.timers.peek().is_some_and(|timer| timer.due_micros <= now_micros) {
            if let Some(timer) = self.timers.pop() {
                self.push(timer.priority, timer.job);
            }
        }
    }

    fn pop(&mut self, lowest: Priority) -> Option<(Priority, Box<dyn Job>)> {
        [Priority::High, Priority::Medium, Priority::Low, Priority::Idle]
            .into_iter()
            .take_while(|priority| *priority <= lowest)
            .find_map(|priority| Some((priority, self.ready[priority as usize].pop_front()?)))
    }
}

impl ThreadExecutor {
    /// Starts `threads` threads (at least one) that go by `clock`.
    pub fn new(threads: usize, clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        Self::with_niceness(threads, clock, 0)
    }

    /// Starts `threads` threads (at least one) that go by `clock`. Those that may be stepping compactions give way to the other threads of
    /// the process by `niceness`, 0 to 19 as of nice(1), so that a thread that wakes up to write or read is not kept waiting by one
    /// that computes. The thread kept for [`Priority::High`], and a thread that is alone, are as urgent as any. Where the operating system
    /// refuses, nothing is different.
    #[expect(clippy::disallowed_methods, reason = "the one place that starts threads")]
    pub fn with_niceness(threads: usize, clock: Arc<dyn Clock>, niceness: u32) -> std::io::Result<Self> {
        let count = threads.max(1);
        let queue = parking_lot::Mutex::new(Queue::default());
        let shared = Arc::new(Shared { clock, queue, work: parking_lot::Condvar::new() });
        // Complete from the start, so that the threads that began end if a later one cannot begin.
        let mut executor = Self { shared, threads: Vec::with_capacity(count) };
        for index in 0..count {
            let lowest = if index == 0 && count > 1 { Priority::High } else { Priority::Idle };
            let worker = Arc::clone(&executor.shared);
            let builder = std::thread::Builder::new().name(format!("siltstone-{index}"));
            executor.threads.push(builder.spawn(move || {
                if lowest > Priority::High {
                    give_way(niceness);
                }
                worker.run(lowest);
            })?);
        }
        Ok(executor)
    }
}

/// Makes the calling thread as nice as that.
fn give_way(niceness: u32) {
    if niceness > 0 {
        // Of the calling thread alone: that is what Linux means by a process of number 0.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::setpriority_process(None, niceness.min(19) as i32);
    }
}

impl Shared {
    fn run(&self, lowest: Priority) {
        loop {
            let Some((priority, mut job)) = self.next(lowest) else { return };
            let progress = step_caught(&mut *job, Budget::new(&*self.clock));
            if progress == Progress::Done {
                drop_caught(job);
                continue;
            }
            let mut queue = self.queue.lock();
            if queue.closing {
                // Never under the lock: a job may own what takes it.
                drop(queue);
                drop_caught(job);
                continue;
            }
            match progress {
                Progress::Done => {}
                Progress::More => queue.push(priority, job),
                Progress::After(delay) => {
                    let due_micros = self.clock.now_micros().saturating_add(micros(delay));
                    queue.push_after(due_micros, priority, job);
                    // Another thread may be parked for a later timer than this one.
                    self.work.notify_all();
                }
            }
        }
    }

    fn next(&self, lowest: Priority) -> Option<(Priority, Box<dyn Job>)> {
        let mut queue = self.queue.lock();
        loop {
            if queue.closing {
                return None;
            }
            let now_micros = self.clock.now_micros();
            queue.release_timers(now_micros);
            if let Some(found) = queue.pop(lowest) {
                return Some(found);
            }
            match queue.timers.peek().map(|timer| timer.due_micros - now_micros) {
                None => self.work.wait(&mut queue),
                Some(micros) => {
                    self.work.wait_for(&mut queue, Duration::from_micros(micros));
                }
            }
        }
    }
}

impl Drop for ThreadExecutor {
    fn drop(&mut self) {
        let jobs = {
            let mut queue = self.shared.queue.lock();
            queue.closing = true;
            self.shared.work.notify_all();
            (std::mem::take(&mut queue.ready), std::mem::take(&mut queue.timers))
        };
        let (ready, timers) = jobs;
        ready.into_iter().flatten().chain(timers.into_iter().map(|timer| timer.job)).for_each(drop_caught);
        let current = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // The last owner of an executor may be a job on one of its own threads.
            if thread.thread().id() != current {
                let _ = thread.join();
            }
        }
    }
}

impl Executor for ThreadExecutor {
    fn submit(&self, priority: Priority, job: Box<dyn Job>) {
        let mut queue = self.shared.queue.lock();
        if !queue.closing {
            queue.push(priority, job);
            // All are woken: the one that is woken alone might be the one kept for a higher priority.
            self.shared.work.notify_all();
        }
    }

    fn wait_until(&self, signal: &Signal, timeout: Option<Duration>, condition: &mut dyn FnMut() -> bool) -> Waited {
        if signal.wait_while(timeout, &mut || !condition()) { Waited::Met } else { Waited::TimedOut }
    }

    fn sleep(&self, duration: Duration) {
        self.shared.clock.sleep(duration);
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    fn threads(&self) -> usize {
        self.threads.len()
    }
}

impl fmt::Debug for ThreadExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadExecutor").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}
