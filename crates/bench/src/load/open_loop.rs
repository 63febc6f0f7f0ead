//! Open loop: operations arrive by a schedule, whether or not the engine keeps up.
//!
//! A tokio task draws arrivals a little ahead of time and hands them to the submitting threads in turn; a thread sleeps until the
//! next of its own is due. The schedule begins when all threads have taken their queues. The latency of an operation counts from the moment at which it was due. The generator's own
//! lateness is how long after that moment a thread that had nothing else to do woke up for it; an arrival that found its thread
//! at work was not late, it queued.

use super::arrivals::Arrivals;
use crate::stopwatch::Stopwatch;
use crate::{Latencies, LatencySummary, Rng};
use siltstone_base::sync::{Arc, Mutex, Rank};
use siltstone_base::{Error, ErrorKind, Result};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

/// How often the generator hands out arrivals.
const TICK: Duration = Duration::from_millis(10);

/// How far ahead arrivals are handed out, so that a generator that is kept from its processor delays nobody.
const AHEAD_NANOS: u64 = 100_000_000;

/// The shortest sleep of a thread that waits for an arrival: shorter ones cost more than the operations they are for.
const SHORTEST_SLEEP_NANOS: u64 = 100_000;

/// Arrivals that a submitting thread may have waiting. Beyond that the generator waits.
const QUEUE: usize = 1 << 20;

/// Arrivals that a thread takes at a time.
const TAKE: usize = 64;

/// How long the schedule waits for threads to take their queues: one that failed before keeps no other waiting.
const PATIENCE: Duration = Duration::from_secs(1);

/// Moments in nanoseconds from the start.
type Due = u64;

/// An operation that is due: its number, and when it was.
type Arrival = (u64, Due);

/// Where the schedule ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// After so many arrivals.
    Operations(u64),
    /// After so long.
    Seconds(f64),
}

/// A generator that is running.
pub(crate) struct OpenLoop {
    runtime: tokio::runtime::Runtime,
    generator: JoinHandle<()>,
    lateness: Arc<Mutex<Latencies>>,
    receivers: Vec<Mutex<Option<mpsc::Receiver<Arrival>>>>,
    /// A permit for each queue that is taken.
    taken: Arc<Semaphore>,
    watch: Stopwatch,
}

impl OpenLoop {
    /// Hands out arrivals to `threads` submitting threads, as soon as all of them have taken their queues.
    pub(crate) fn start(arrivals: Arrivals, end: End, threads: usize, seed: u64) -> Result<Self> {
        Self::start_patiently(arrivals, end, threads, seed, PATIENCE)
    }

    /// The same, after `patience` at the latest.
    pub(super) fn start_patiently(
        arrivals: Arrivals,
        end: End,
        threads: usize,
        seed: u64,
        patience: Duration,
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .map_err(|error| Error::new(ErrorKind::Io, "start the generator").with_source(error))?;
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| mpsc::channel(QUEUE)).unzip();
        let receivers = receivers.into_iter().map(|receiver| Mutex::new(Rank(u16::MAX), Some(receiver))).collect();
        let lateness = Arc::new(Mutex::new(Rank(u16::MAX), Latencies::new()?));
        let (taken, watch) = (Arc::new(Semaphore::new(0)), Stopwatch::start());
        let all_taken = wait_for_takers(Arc::clone(&taken), threads, patience);
        let generator = runtime.spawn(async move {
            all_taken.await;
            generate(senders, arrivals, end, seed, watch).await;
        });
        Ok(Self { runtime, generator, lateness, receivers, taken, watch })
    }

    /// What arrives for submitting thread `thread`, which must take it only once.
    pub(crate) fn queue(&self, thread: usize) -> Result<ArrivalQueue> {
        let receiver = self.receivers.get(thread).and_then(|receiver| receiver.lock().take());
        let receiver = receiver.ok_or_else(|| Error::new(ErrorKind::Aborted, "arrivals were taken twice"))?;
        let lateness = Arc::clone(&self.lateness);
        let (taken, late) = (Vec::with_capacity(TAKE), Latencies::new()?);
        self.taken.add_permits(1);
        Ok(ArrivalQueue { receiver, taken, late, lateness, watch: self.watch, idle_from: 0, woke: 0, now: 0 })
    }

    /// Whether every arrival has been handed out.
    #[cfg(test)]
    pub(super) fn is_handed_out_for_test(&self) -> bool {
        self.generator.is_finished()
    }

    /// How late threads woke up for arrivals. To be asked when all submitting threads have ended.
    pub(crate) fn lateness(self) -> Result<Option<LatencySummary>> {
        self.runtime
            .block_on(self.generator)
            .map_err(|error| Error::new(ErrorKind::Poisoned, "the generator panicked").with_source(error))?;
        let summary = self.lateness.lock().summary();
        Ok(summary)
    }
}

/// The arrivals of one submitting thread.
pub(crate) struct ArrivalQueue {
    receiver: mpsc::Receiver<Arrival>,
    taken: Vec<Arrival>,
    /// Of the arrivals so far; added to all at the end.
    late: Latencies,
    lateness: Arc<Mutex<Latencies>>,
    watch: Stopwatch,
    /// Since when the thread last had nothing to do, and until when.
    idle_from: Due,
    woke: Due,
    /// When the clock was last looked at.
    now: Due,
}

impl ArrivalQueue {
    /// Waits for arrivals and hands each, once it is due, to `serve`, with the nanoseconds for which it has been due by the
    /// time it is called as a function. False once there are no more.
    pub(crate) fn serve(&mut self, mut serve: impl FnMut(u64, &dyn Fn() -> u64) -> Result<()>) -> Result<bool> {
        self.idle_from = self.watch.nanos();
        let mut taken = std::mem::take(&mut self.taken);
        if self.receiver.blocking_recv_many(&mut taken, TAKE) == 0 {
            self.lateness.lock().add(&self.late)?;
            return Ok(false);
        }
        self.now = self.watch.nanos();
        self.woke = self.now;
        for (number, due) in taken.drain(..) {
            self.wait_until(due);
            let was_idle = (self.idle_from..=self.woke).contains(&due);
            self.late.record(if was_idle { self.woke - due } else { 0 });
            serve(number, &|| self.watch.nanos().saturating_sub(due))?;
        }
        self.taken = taken;
        Ok(true)
    }

    /// Serves no more. Hands the nanoseconds for which each arrival that is left has been due to `each`; what is not due yet is forgotten, and what the generator has not handed out never comes.
    pub(crate) fn abandon(mut self, mut each: impl FnMut(u64)) -> Result<()> {
        self.receiver.close();
        let now = self.watch.nanos();
        while let Ok((_, due)) = self.receiver.try_recv() {
            if due <= now {
                each(now - due);
            }
        }
        self.lateness.lock().add(&self.late)
    }

    fn wait_until(&mut self, due: Due) {
        if due <= self.now {
            return;
        }
        self.now = self.watch.nanos();
        if due > self.now {
            self.idle_from = self.now;
            sleep(Duration::from_nanos((due - self.now).max(SHORTEST_SLEEP_NANOS)));
            self.now = self.watch.nanos();
            self.woke = self.now;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "arrivals come by the system's clock, whatever clock the engine goes by")]
fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// Waits until so many queues are taken, or for `patience`.
async fn wait_for_takers(taken: Arc<Semaphore>, queues: usize, patience: Duration) {
    // The schedule begins either way.
    let _ = tokio::time::timeout(patience, taken.acquire_many(queues as u32)).await;
}

/// Hands out arrivals.
async fn generate(senders: Vec<mpsc::Sender<Arrival>>, arrivals: Arrivals, end: End, seed: u64, watch: Stopwatch) {
    let mut rng = Rng::new(seed, 0x6172_7269);
    let mut tick = tokio::time::interval_at(Instant::now(), TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let start = watch.nanos() as f64;
    let mut due = start;
    let mut number = 0;
    let is_over = |number: u64, due: f64| match end {
        End::Operations(operations) => number >= operations,
        End::Seconds(seconds) => due - start >= seconds * 1e9,
    };
    while !is_over(number, due) {
        tick.tick().await;
        let horizon = (watch.nanos() + AHEAD_NANOS) as f64;
        while !is_over(number, due) && due <= horizon {
            let Some(sender) = senders.get((number % senders.len() as u64) as usize) else { return };
            if sender.send((number, due as Due)).await.is_err() {
                return;
            }
            number += 1;
            due += arrivals.gap_after(due - start, &mut rng);
        }
    }
}
