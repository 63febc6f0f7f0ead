//! Open loop: operations arrive by a schedule, whether or not the engine keeps up.
//!
//! A tokio task draws arrivals and hands those that are due, a batch at a time, to the submitting threads in turn. The
//! latency of an operation counts from the moment at which it was due. How late arrivals were handed over is measured as
//! the generator's own lateness.

use super::arrivals::Arrivals;
use crate::stopwatch::Stopwatch;
use crate::{Latencies, LatencySummary, Rng};
use siltstone_base::sync::{Mutex, Rank};
use siltstone_base::{Error, ErrorKind, Result};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

/// How often the generator looks for arrivals that are due.
const TICK: Duration = Duration::from_millis(1);

/// Arrivals that a submitting thread may have waiting. Beyond that the generator waits, which its lateness shows.
const QUEUE: usize = 1 << 20;

/// Arrivals that a thread takes at a time.
const TAKE: usize = 64;

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
    generator: JoinHandle<Result<Latencies>>,
    receivers: Vec<Mutex<Option<mpsc::Receiver<Arrival>>>>,
    watch: Stopwatch,
}

impl OpenLoop {
    /// Begins to hand out arrivals to `threads` submitting threads.
    pub(crate) fn start(arrivals: Arrivals, end: End, threads: usize, seed: u64) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .map_err(|error| Error::new(ErrorKind::Io, "start the generator").with_source(error))?;
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| mpsc::channel(QUEUE)).unzip();
        let receivers = receivers.into_iter().map(|receiver| Mutex::new(Rank(u16::MAX), Some(receiver))).collect();
        let watch = Stopwatch::start();
        let generator = runtime.spawn(generate(senders, arrivals, end, seed, watch));
        Ok(Self { runtime, generator, receivers, watch })
    }

    /// What arrives for submitting thread `thread`, which must take it only once.
    pub(crate) fn queue(&self, thread: usize) -> Result<ArrivalQueue> {
        let receiver = self.receivers.get(thread).and_then(|receiver| receiver.lock().take());
        let receiver = receiver.ok_or_else(|| Error::new(ErrorKind::Aborted, "arrivals were taken twice"))?;
        Ok(ArrivalQueue { receiver, taken: Vec::with_capacity(TAKE), watch: self.watch })
    }

    /// How late arrivals were handed over. To be asked when all submitting threads have ended.
    pub(crate) fn lateness(self) -> Result<Option<LatencySummary>> {
        let lateness = self
            .runtime
            .block_on(self.generator)
            .map_err(|error| Error::new(ErrorKind::Poisoned, "the generator panicked").with_source(error))??;
        Ok(lateness.summary())
    }
}

/// The arrivals of one submitting thread.
pub(crate) struct ArrivalQueue {
    receiver: mpsc::Receiver<Arrival>,
    taken: Vec<Arrival>,
    watch: Stopwatch,
}

impl ArrivalQueue {
    /// Waits for arrivals and hands each to `serve`, with the nanoseconds for which it has been due by the time it is called
    /// as a function. False once there are no more.
    pub(crate) fn serve(&mut self, mut serve: impl FnMut(u64, &dyn Fn() -> u64) -> Result<()>) -> Result<bool> {
        let Self { receiver, taken, watch } = self;
        if receiver.blocking_recv_many(taken, TAKE) == 0 {
            return Ok(false);
        }
        for (number, due) in taken.drain(..) {
            serve(number, &|| watch.nanos().saturating_sub(due))?;
        }
        Ok(true)
    }
}

/// Hands out arrivals and returns how late each was.
async fn generate(
    senders: Vec<mpsc::Sender<Arrival>>,
    arrivals: Arrivals,
    end: End,
    seed: u64,
    watch: Stopwatch,
) -> Result<Latencies> {
    let mut lateness = Latencies::new()?;
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
        while !is_over(number, due) && due <= watch.nanos() as f64 {
            let Some(sender) = senders.get((number % senders.len() as u64) as usize) else { return Ok(lateness) };
            if sender.send((number, due as Due)).await.is_err() {
                return Ok(lateness);
            }
            lateness.record(watch.nanos().saturating_sub(due as u64));
            number += 1;
            due += arrivals.gap_after(due - start, &mut rng);
        }
    }
    Ok(lateness)
}
