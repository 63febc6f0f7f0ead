//! Jobs on threads.

use super::{Budget, Executor, Job, Priority, Progress, Waited, drop_caught, micros, step_caught, turn};
use crate::clock::Clock;
use crate::sync::{Arc, Signal};
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::time::Duration;

/// Steps jobs on a number of threads that may grow: the highest priority first, in turn within one.
///
/// One thread is kept for [`Priority::High`] when there are at least two, so that a flush never waits for the steps of
/// compactions. Dropping the executor lets the threads finish the step that they are in; jobs that are
/// not done are dropped. A job may own the executor: it then lives until the last such job is done, and may be dropped on one
/// of its own threads. One that [waits for nobody](Self::waiting_for_nobody) leaves both to its threads.
pub struct ThreadExecutor {
    shared: Arc<Shared>,
    threads: parking_lot::Mutex<Vec<std::thread::JoinHandle<()>>>,
    niceness: u32,
    /// Whether dropping it waits for the threads.
    waits: bool,
}

/// Who is woken: a job that becomes ready wakes one idle thread that may take it, and whoever takes one wakes another if there is more. One idle thread waits for the next
/// timer on behalf of all; whoever leaves it alone wakes another. So a job that waits for its time, thousands of times a second, wakes no thread but its own.
struct Shared {
    clock: Arc<dyn Clock>,
    queue: parking_lot::Mutex<Queue>,
    /// Here the thread waits that is kept for the highest priority.
    kept: parking_lot::Condvar,
    /// Here the others wait.
    work: parking_lot::Condvar,
}

#[derive(Default)]
struct Queue {
    ready: [VecDeque<Box<dyn Job>>; 4],
    /// Jobs of the highest priority that wait for their time, and others.
    timers: [BinaryHeap<Timer>; 2],
    timers_added: u64,
    closing: bool,
    /// The thread that is kept waits, until then at most.
    kept_idle: Option<u64>,
    /// How many of the others wait.
    idle: usize,
    /// One of them waits until then at most, for the next timer.
    watched: Option<u64>,
    /// How often the thread that is kept was woken, and the others.
    #[cfg(test)]
    wakes: [u64; 2],
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
        let heap = usize::from(priority != Priority::High);
        self.timers[heap].push(Timer { due_micros, order: self.timers_added, priority, job });
    }

    fn release_timers(&mut self, now_micros: u64) {
        for heap in 0..self.timers.len() {
            while self.timers[heap].peek().is_some_and(|timer| timer.due_micros <= now_micros) {
                if let Some(timer) = self.timers[heap].pop() {
                    self.push(timer.priority, timer.job);
                }
            }
        }
    }

    /// When the next timer is due that is of use to a thread: to the one that is kept, or to another.
    fn next_due(&self, is_kept: bool) -> Option<u64> {
        let heaps = if is_kept { &self.timers[..1] } else { &self.timers[..] };
        heaps.iter().filter_map(|timers| Some(timers.peek()?.due_micros)).min()
    }

    /// Whether an idle thread should look: something is ready that it may take, or no idle thread waits for the next timer.
    fn needs_kept(&self) -> bool {
        let Some(until) = self.kept_idle else { return false };
        !self.ready[Priority::High as usize].is_empty() || self.next_due(true).is_some_and(|due| due < until)
    }

    fn needs_other(&self) -> bool {
        let is_for_kept = |priority: usize| priority == Priority::High as usize && self.kept_idle.is_some();
        let is_ready = |(priority, jobs): (usize, &VecDeque<_>)| !jobs.is_empty() && !is_for_kept(priority);
        self.idle > 0
            && (self.ready.iter().enumerate().any(is_ready)
                || self.next_due(false).is_some_and(|due| self.watched.is_none_or(|watched| due < watched)))
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
    pub fn with_niceness(threads: usize, clock: Arc<dyn Clock>, niceness: u32) -> std::io::Result<Self> {
        let count = threads.max(1);
        let queue = parking_lot::Mutex::new(Queue::default());
        let (kept, work) = (parking_lot::Condvar::new(), parking_lot::Condvar::new());
        let shared = Arc::new(Shared { clock, queue, kept, work });
        // Complete from the start, so that the threads that began end if a later one cannot begin.
        let executor = Self { shared, threads: parking_lot::Mutex::default(), niceness, waits: true };
        if count > 1 {
            executor.start(&mut executor.threads.lock(), Priority::High)?;
        }
        executor.grow(count)?;
        Ok(executor)
    }

    /// The same, for owners that must not wait where they are: when it is dropped, its threads end by themselves, and drop the jobs that are not done.
    pub fn waiting_for_nobody(mut self) -> Self {
        self.waits = false;
        self
    }

    /// Starts one more thread, which takes jobs down to the priority `lowest`.
    #[expect(clippy::disallowed_methods, reason = "the one place that starts threads")]
    fn start(&self, threads: &mut Vec<std::thread::JoinHandle<()>>, lowest: Priority) -> std::io::Result<()> {
        let (worker, niceness) = (Arc::clone(&self.shared), self.niceness);
        let builder = std::thread::Builder::new().name(format!("siltstone-{}", threads.len()));
        threads.push(builder.spawn(move || {
            if lowest > Priority::High {
                give_way(niceness);
            }
            let gives_way = turn::shorten();
            worker.run(lowest, gives_way);
        })?);
        Ok(())
    }
}

#[cfg(test)]
impl ThreadExecutor {
    /// How often the thread that is kept was woken, and the others.
    pub(super) fn wakes_for_test(&self) -> [u64; 2] {
        self.shared.queue.lock().wakes
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
    fn run(&self, lowest: Priority, gives_way: bool) {
        loop {
            let Some((priority, mut job)) = self.next(lowest) else { return self.drop_jobs() };
            let budget = Budget::new(&*self.clock);
            let progress = step_caught(&mut *job, if gives_way { budget.giving_way() } else { budget });
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
                }
            }
        }
    }

    fn next(&self, lowest: Priority) -> Option<(Priority, Box<dyn Job>)> {
        let is_kept = lowest == Priority::High;
        let mut queue = self.queue.lock();
        loop {
            if queue.closing {
                return None;
            }
            let now_micros = self.clock.now_micros();
            queue.release_timers(now_micros);
            if let Some(found) = queue.pop(lowest) {
                self.wake(&queue);
                return Some(found);
            }
            if is_kept {
                // It may have released what it may not take.
                self.wake(&queue);
            }
            let due = queue.next_due(is_kept);
            if is_kept {
                queue.kept_idle = Some(due.unwrap_or(u64::MAX));
                wait(&self.kept, &mut queue, due, now_micros);
                queue.kept_idle = None;
            } else {
                let watches = due.filter(|due| queue.watched.is_none_or(|watched| *due < watched));
                queue.watched = watches.or(queue.watched);
                queue.idle += 1;
                wait(&self.work, &mut queue, watches, now_micros);
                queue.idle -= 1;
                if watches.is_some() && queue.watched == watches {
                    queue.watched = None;
                }
            }
            #[cfg(test)]
            {
                queue.wakes[usize::from(!is_kept)] += 1;
            }
        }
    }

    /// Drops the jobs that are left. Never under the lock: a job may own what takes it.
    fn drop_jobs(&self) {
        let (ready, timers) = {
            let mut queue = self.queue.lock();
            (std::mem::take(&mut queue.ready), std::mem::take(&mut queue.timers))
        };
        let timers = timers.into_iter().flatten().map(|timer| timer.job);
        ready.into_iter().flatten().chain(timers).for_each(drop_caught);
    }

    /// Wakes a thread if one is needed.
    fn wake(&self, queue: &Queue) {
        if queue.needs_kept() {
            self.kept.notify_one();
        }
        if queue.needs_other() {
            self.work.notify_one();
        }
    }
}

/// Waits to be woken, or until `due_micros`.
fn wait(
    signal: &parking_lot::Condvar,
    queue: &mut parking_lot::MutexGuard<'_, Queue>,
    due_micros: Option<u64>,
    now_micros: u64,
) {
    match due_micros {
        None => signal.wait(queue),
        Some(due_micros) => {
            signal.wait_for(queue, Duration::from_micros(due_micros.saturating_sub(now_micros)));
        }
    }
}

impl Drop for ThreadExecutor {
    fn drop(&mut self) {
        self.shared.queue.lock().closing = true;
        self.shared.kept.notify_all();
        self.shared.work.notify_all();
        if !self.waits {
            return;
        }
        self.shared.drop_jobs();
        let current = std::thread::current().id();
        for thread in self.threads.get_mut().drain(..) {
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
            self.shared.wake(&queue);
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
        self.threads.lock().len()
    }

    fn grow(&self, threads: usize) -> std::io::Result<()> {
        let mut started = self.threads.lock();
        while started.len() < threads {
            self.start(&mut started, Priority::Idle)?;
        }
        Ok(())
    }
}

impl fmt::Debug for ThreadExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadExecutor").field("threads", &self.threads.lock().len()).finish_non_exhaustive()
    }
}
