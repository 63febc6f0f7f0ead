//! Background work as steppable jobs, and the one way to wait.
//!
//! A [`Job`] never runs to completion in one call: [`Job::step`] does at most a [`Budget`] of work and says what it
//! wants next. On [`ThreadExecutor`] prioritised threads step the jobs; on `StepExecutor` (feature `testing`) nothing runs until somebody waits or
//! steps by hand, so that one thread runs a whole engine deterministically.
//!
//! An engine waits only by [`Executor::wait_until`] and [`Executor::sleep`].

use crate::clock::Clock;
use crate::sync::{Arc, Signal};
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

#[cfg(any(test, feature = "testing"))]
mod step;
#[cfg(test)]
mod tests;
mod thread;
mod turn;

#[cfg(any(test, feature = "testing"))]
pub use step::StepExecutor;
pub use thread::ThreadExecutor;

/// Which jobs go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Flushes, and other work that writers will wait for.
    High,
    /// Compactions of level 0: what writers will wait for next.
    Medium,
    /// Other compactions, and purge.
    Low,
    /// What can wait for all else: unlinking files, statistics.
    Idle,
}

/// How much work one step may do: until its CPU time slice is over.
#[derive(Debug)]
pub struct Budget<'a> {
    clock: &'a dyn Clock,
    deadline_micros: u64,
    units_to_check: u32,
    /// What is left of a slice that is counted in units.
    units_left: Option<u32>,
    /// When the thread lets others have the processor next, if it does.
    gives_way_micros: Option<u64>,
}

impl<'a> Budget<'a> {
    /// The longest slice that a step may take between two yield points.
    pub const SLICE: Duration = Duration::from_millis(2);

    /// How many units [`spend`](Self::spend) takes between two looks at the clock.
    const UNITS_PER_CHECK: u32 = 64;

    /// A budget of [`SLICE`](Self::SLICE) from now.
    pub fn new(clock: &'a dyn Clock) -> Self {
        let deadline_micros = clock.now_micros().saturating_add(micros(Self::SLICE));
        Self { clock, deadline_micros, units_to_check: Self::UNITS_PER_CHECK, units_left: None, gives_way_micros: None }
    }

    /// The same, in which the thread lets others have the processor every so often, if one waits for it.
    fn giving_way(mut self) -> Self {
        self.gives_way_micros = Some(self.clock.now_micros().saturating_add(micros(turn::TURN)));
        self
    }

    /// A slice of so many units, whatever time it takes: a test under whose clock no time passes preempts jobs by it.
    #[cfg(any(test, feature = "testing"))]
    pub fn of_units(clock: &'a dyn Clock, units: u32) -> Self {
        Self { clock, deadline_micros: u64::MAX, units_to_check: 0, units_left: Some(units), gives_way_micros: None }
    }

    /// Takes note of `units` of work (about one entry each) and returns whether the slice is over.
    #[inline]
    pub fn spend(&mut self, units: u32) -> bool {
        if self.units_to_check > units {
            self.units_to_check -= units;
            return false;
        }
        if let Some(left) = &mut self.units_left {
            *left = left.saturating_sub(units);
            return *left == 0;
        }
        self.units_to_check = Self::UNITS_PER_CHECK;
        let now_micros = self.clock.now_micros();
        if let Some(due) = self.gives_way_micros.filter(|due| now_micros >= *due) {
            give_way();
            self.gives_way_micros = Some(due.max(now_micros).saturating_add(micros(turn::TURN)));
        }
        now_micros >= self.deadline_micros
    }

    /// Takes note of one entry of so many bytes: a unit, and another one for each KiB. Returns whether the slice is over.
    #[inline]
    pub fn spend_entry(&mut self, bytes: usize) -> bool {
        self.spend(u32::try_from(bytes / 1024).unwrap_or(u32::MAX).saturating_add(1))
    }

    /// Whether the slice is over, by the clock.
    pub fn is_over(&self) -> bool {
        self.units_left == Some(0) || self.clock.now_micros() >= self.deadline_micros
    }
}

/// Offers the processor of this thread to others that want one.
pub fn give_way() {
    std::thread::yield_now();
}

/// Whether threads of this process can run at the same time.
pub fn has_several_processors() -> bool {
    static SEVERAL: OnceLock<bool> = OnceLock::new();
    *SEVERAL.get_or_init(|| std::thread::available_parallelism().is_ok_and(|count| count.get() > 1))
}

/// What a job wants after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Another step, when its turn comes.
    More,
    /// Another step, no earlier than this much later.
    After(Duration),
    /// Nothing: the job is done and is dropped.
    Done,
}

/// A piece of background work.
pub trait Job: Send {
    /// The kind of work, for traces and thread names.
    fn name(&self) -> &'static str;

    /// Does some work within `budget`.
    fn step(&mut self, budget: &mut Budget<'_>) -> Progress;

    /// A step panicked. The job is dropped after this call; it must tell its owner, which fails what waits for it.
    fn poisoned(&mut self, message: &str);
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The condition holds.
    Met,
    /// The time is over.
    TimedOut,
    /// Nothing is left that could make the condition hold. Only a deterministic executor can tell.
    Stuck,
}

/// Runs jobs, and lets callers wait for what they do.
pub trait Executor: Send + Sync + fmt::Debug {
    /// Hands a job over. It is stepped until it says [`Progress::Done`] or panics.
    fn submit(&self, priority: Priority, job: Box<dyn Job>);

    /// Waits until `condition` holds, at most for `timeout`. Whoever changes what the condition reads calls
    /// [`Signal::notify_all`] on `signal` afterwards. The caller holds no lock. A job does not wait for another job: it
    /// would keep a thread from it.
    fn wait_until(&self, signal: &Signal, timeout: Option<Duration>, condition: &mut dyn FnMut() -> bool) -> Waited;

    /// Lets time pass on behalf of a caller. The caller holds no lock.
    fn sleep(&self, duration: Duration);

    /// The clock that steps and waits are measured by.
    fn clock(&self) -> &Arc<dyn Clock>;

    /// Steps may be run for at most this many jobs at the same time.
    fn threads(&self) -> usize;

    /// Lets steps be run for so many jobs at the same time, if it can; those that could be before stay.
    ///
    /// # Errors
    ///
    /// The operating system refuses further threads: those that it gave are used.
    fn grow(&self, threads: usize) -> std::io::Result<()> {
        let _ = threads;
        Ok(())
    }
}

/// A duration in microseconds; the longest that a clock can express stands for all that are longer.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Drops a job that is done. A panic of its destructor ends there: the thread goes on.
fn drop_caught(job: Box<dyn Job>) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(job)));
}

/// Steps a job once; a panic is caught, told to the job, and ends it.
fn step_caught(job: &mut dyn Job, mut budget: Budget<'_>) -> Progress {
    let step = std::panic::AssertUnwindSafe(|| job.step(&mut budget));
    match std::panic::catch_unwind(step) {
        Ok(progress) => progress,
        Err(panic) => {
            let message = panic
                .downcast_ref::<&str>()
                .map(|message| (*message).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "a panic without a message".to_owned());
            // A second panic, of the one who is told, has nobody left to be told to.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.poisoned(&message)));
            Progress::Done
        }
    }
}
