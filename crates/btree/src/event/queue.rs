//! Events that wait to be told, and the job that tells them.

use super::{Event, EventListener};
use crate::health::Health;
use siltstone_base::executor::{Budget, Executor, Job, Priority, Progress};
use siltstone_base::sync::{Arc, Mutex, OnceLock, Rank, Weak};
use siltstone_base::{Error, ErrorKind};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Taken under any other lock of the engine; nothing is called under it but the executor, which takes a job.
const EVENTS_RANK: Rank = Rank(650);

/// Events that may wait.
const MOST_WAITING: usize = 1024;

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Event>,
    /// Events that came while so many waited.
    lost: u64,
    is_running: bool,
    /// Whether a listener panicked: nobody is told any more.
    is_silent: bool,
}

/// The events of an open database. Any thread may note one, whatever it holds.
#[derive(Debug)]
pub(crate) struct Events {
    listeners: Vec<Arc<dyn EventListener>>,
    executor: Arc<dyn Executor>,
    queue: Mutex<Queue>,
    /// For the job.
    me: Weak<Self>,
    health: OnceLock<Weak<Health>>,
}

impl Events {
    pub(crate) fn new(listeners: Vec<Arc<dyn EventListener>>, executor: Arc<dyn Executor>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            listeners,
            executor,
            queue: Mutex::new(EVENTS_RANK, Queue::default()),
            me: Weak::clone(me),
            health: OnceLock::new(),
        })
    }

    /// Events of which nobody hears.
    #[cfg(test)]
    pub(crate) fn silent() -> Arc<Self> {
        use siltstone_base::clock::ManualClock;
        use siltstone_base::executor::StepExecutor;
        Self::new(Vec::new(), Arc::new(StepExecutor::new(Arc::new(ManualClock::new(0)))))
    }

    /// Says whose health ends with a listener that panics.
    pub(crate) fn attach(&self, health: &Arc<Health>) {
        // Only the first time counts, and there is one.
        let _ = self.health.set(Arc::downgrade(health));
    }

    /// Takes note of what happened, if anybody wants to know.
    #[inline]
    pub(crate) fn note(&self, event: impl FnOnce() -> Event) {
        if !self.listeners.is_empty() {
            self.add(event());
        }
    }

    /// The time, if anybody wants to know how long something took.
    pub(crate) fn now_micros(&self) -> u64 {
        if self.listeners.is_empty() { 0 } else { self.executor.clock().now_micros() }
    }

    #[cold]
    fn add(&self, event: Event) {
        let mut queue = self.queue.lock();
        if queue.is_silent {
            return;
        }
        if queue.waiting.len() < MOST_WAITING {
            queue.waiting.push_back(event);
        } else {
            queue.lost += 1;
        }
        if !queue.is_running {
            queue.is_running = true;
            // Not on the thread that is kept for the page cleaner.
            self.executor.submit(Priority::Low, Box::new(Teller(Weak::clone(&self.me))));
        }
    }

    fn next(&self, is_job: bool) -> Option<Event> {
        let mut queue = self.queue.lock();
        if let Some(event) = queue.waiting.pop_front() {
            return Some(event);
        }
        if queue.lost > 0 {
            return Some(Event::EventsLost { count: std::mem::take(&mut queue.lost) });
        }
        if is_job {
            queue.is_running = false;
        }
        None
    }

    /// Tells the next event. Returns whether there was one. The caller holds no lock.
    fn tell_next(&self, is_job: bool) -> bool {
        let Some(event) = self.next(is_job) else { return false };
        let tell = || self.listeners.iter().for_each(|listener| listener.on_event(&event));
        if catch_unwind(AssertUnwindSafe(tell)).is_err() {
            {
                let mut queue = self.queue.lock();
                queue.waiting.clear();
                (queue.is_silent, queue.lost) = (true, 0);
            }
            if let Some(health) = self.health.get().and_then(Weak::upgrade) {
                health.fail(Error::new(ErrorKind::Poisoned, "a listener of events panicked"));
            }
        }
        true
    }

    /// Tells what waits, on the caller's thread. The caller holds no lock.
    pub(crate) fn tell(&self) {
        while self.tell_next(false) {}
    }
}

#[derive(Debug)]
struct Teller(Weak<Events>);

impl Job for Teller {
    fn name(&self) -> &'static str {
        "events"
    }

    fn step(&mut self, budget: &mut Budget<'_>) -> Progress {
        let Some(events) = self.0.upgrade() else { return Progress::Done };
        loop {
            if !events.tell_next(true) {
                return Progress::Done;
            }
            if budget.is_over() {
                return Progress::More;
            }
        }
    }

    /// Panics of listeners end before they come here.
    fn poisoned(&mut self, _: &str) {}
}
