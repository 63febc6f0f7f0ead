//! Jobs under a test's control.

use super::{Budget, Executor, Job, Priority, Progress, Waited, drop_caught, micros, step_caught};
use crate::clock::{Clock, ManualClock};
use crate::sync::{Arc, Signal};
use std::fmt;
use std::time::Duration;

/// Steps jobs only when somebody waits, sleeps or calls [`step`](Self::step): always on the calling thread, in an
/// order that the seed alone decides. Time is a [`ManualClock`] that moves when all that is left to do is to wait for it.
pub struct StepExecutor {
    manual: Arc<ManualClock>,
    clock: Arc<dyn Clock>,
    queue: parking_lot::Mutex<Queue>,
}

struct Queue {
    jobs: Vec<Entry>,
    random: Option<u64>,
    arrivals: u64,
    steps: u64,
    /// The most that a step may do, if that is limited.
    most_units: Option<u32>,
}

struct Entry {
    due_micros: u64,
    priority: Priority,
    arrival: u64,
    job: Box<dyn Job>,
}

impl StepExecutor {
    /// An executor that steps the highest priority first, in turn within one.
    pub fn new(clock: Arc<ManualClock>) -> Self {
        Self::build(clock, None)
    }

    /// An executor that picks among all due jobs by a generator seeded with `seed`, ignoring priorities, and draws how far a step gets: often
    /// only a few entries.
    pub fn with_seed(clock: Arc<ManualClock>, seed: u64) -> Self {
        // splitmix64: neighbouring seeds give unrelated orders. The generator must not stand at zero.
        let mut state = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self::build(clock, Some((state ^ (state >> 31)).max(1)))
    }

    fn build(manual: Arc<ManualClock>, random: Option<u64>) -> Self {
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&manual);
        let queue = Queue { jobs: Vec::new(), random, arrivals: 0, steps: 0, most_units: None };
        Self { manual, clock, queue: parking_lot::Mutex::new(queue) }
    }

    /// From now on no step does more than `units` of work, about one entry each, however far the generator would let it get.
    pub fn limit_steps(&self, units: u32) {
        self.queue.lock().most_units = Some(units);
    }

    fn budget(&self, units: Option<u32>) -> Budget<'_> {
        units.map_or_else(|| Budget::new(&*self.clock), |units| Budget::of_units(&*self.clock, units))
    }

    /// Steps one due job. Returns false if none is due.
    pub fn step(&self) -> bool {
        let now_micros = self.manual.now_micros();
        let (entry, units) = {
            let mut queue = self.queue.lock();
            (queue.take_due(now_micros), queue.draw_units())
        };
        let Some(mut entry) = entry else { return false };
        let progress = step_caught(&mut *entry.job, self.budget(units));
        let due_micros = match progress {
            Progress::Done => {
                drop_caught(entry.job);
                return true;
            }
            Progress::More => now_micros,
            // From the end of the step: a step may let time pass.
            Progress::After(delay) => self.manual.now_micros().saturating_add(micros(delay)),
        };
        let mut queue = self.queue.lock();
        queue.arrivals += 1;
        let arrival = queue.arrivals;
        queue.jobs.push(Entry { due_micros, arrival, ..entry });
        true
    }

    /// Steps until no job is due now. Returns the steps made.
    pub fn run_until_idle(&self) -> u64 {
        let mut steps = 0;
        while self.step() {
            steps += 1;
        }
        steps
    }

    /// Steps made so far.
    pub fn steps(&self) -> u64 {
        self.queue.lock().steps
    }

    /// Jobs that are due or wait for their time.
    pub fn pending(&self) -> usize {
        self.queue.lock().jobs.len()
    }

    /// Drops every job, as the death of the process would.
    pub fn abandon_all(&self) {
        let jobs = std::mem::take(&mut self.queue.lock().jobs);
        drop(jobs);
    }

    /// The clock, to move it by hand.
    pub fn manual_clock(&self) -> &Arc<ManualClock> {
        &self.manual
    }

    /// Moves the clock to the next moment at which a job is due. Returns false if there is none.
    fn advance_to_next(&self, limit_micros: u64) -> bool {
        let now_micros = self.manual.now_micros();
        let next = self.queue.lock().jobs.iter().map(|entry| entry.due_micros).min();
        match next {
            // A job that is due at the end of time waits for nothing.
            Some(next) if next <= limit_micros && next != u64::MAX => {
                self.manual.advance(Duration::from_micros(next.saturating_sub(now_micros)));
                true
            }
            _ => false,
        }
    }
}

impl Queue {
    fn take_due(&mut self, now_micros: u64) -> Option<Entry> {
        let due = |entry: &Entry| entry.due_micros <= now_micros;
        let index = match &mut self.random {
            None => {
                let jobs = self.jobs.iter().enumerate().filter(|(_, entry)| due(entry));
                jobs.min_by_key(|(_, entry)| (entry.priority, entry.arrival))?.0
            }
            Some(state) => {
                let draw = next_random(state);
                let candidates: Vec<usize> =
                    self.jobs.iter().enumerate().filter(|(_, entry)| due(entry)).map(|(index, _)| index).collect();
                *candidates.get((draw % candidates.len().max(1) as u64) as usize)?
            }
        };
        self.steps += 1;
        Some(self.jobs.swap_remove(index))
    }

    /// How far the next step gets; `None`: as far as it likes.
    fn draw_units(&mut self) -> Option<u32> {
        let drawn = self.random.as_mut().and_then(|state| {
            let draw = next_random(state);
            // 1 to 256 units, the smaller the likelier; a quarter of the steps is not preempted.
            (!draw.is_multiple_of(4)).then(|| 1 + (draw >> 8) as u32 % (1 << ((draw >> 2) % 9)))
        });
        match (drawn, self.most_units) {
            (Some(units), Some(most)) => Some(units.min(most)),
            (units, most) => units.or(most),
        }
    }
}

/// xorshift64: any generator does; this one needs no crate.
fn next_random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

impl Executor for StepExecutor {
    fn submit(&self, priority: Priority, job: Box<dyn Job>) {
        let due_micros = self.manual.now_micros();
        let mut queue = self.queue.lock();
        queue.arrivals += 1;
        let arrival = queue.arrivals;
        queue.jobs.push(Entry { due_micros, priority, arrival, job });
    }

    fn wait_until(&self, _: &Signal, timeout: Option<Duration>, condition: &mut dyn FnMut() -> bool) -> Waited {
        let start_micros = self.manual.now_micros();
        let limit_micros = timeout.map_or(u64::MAX, |timeout| start_micros.saturating_add(micros(timeout)));
        loop {
            if condition() {
                return Waited::Met;
            }
            if self.manual.now_micros() > limit_micros {
                return Waited::TimedOut;
            }
            if self.step() || self.advance_to_next(limit_micros) {
                continue;
            }
            if timeout.is_none() {
                return Waited::Stuck;
            }
            let now_micros = self.manual.now_micros();
            self.manual.advance(Duration::from_micros(limit_micros.saturating_sub(now_micros)));
            return if condition() { Waited::Met } else { Waited::TimedOut };
        }
    }

    fn sleep(&self, duration: Duration) {
        let wake_micros = self.manual.now_micros().saturating_add(micros(duration));
        loop {
            self.step();
            if self.manual.now_micros() >= wake_micros {
                return;
            }
            if self.queue.lock().nothing_due(self.manual.now_micros()) && !self.advance_to_next(wake_micros) {
                self.manual.advance(Duration::from_micros(wake_micros - self.manual.now_micros()));
                return;
            }
        }
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn threads(&self) -> usize {
        1
    }
}

impl Queue {
    fn nothing_due(&self, now_micros: u64) -> bool {
        self.jobs.iter().all(|entry| entry.due_micros > now_micros)
    }
}

impl fmt::Debug for StepExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepExecutor").field("pending", &self.pending()).finish_non_exhaustive()
    }
}
