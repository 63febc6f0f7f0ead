//! Open loop: operations arrive at a rate, whether or not the engine keeps up.
//!
//! A tokio task draws arrivals (exponential gaps) and hands those that are due, a batch at a time, to the submitting
//! threads in turn. The latency of an operation counts from the moment at which it was due. How late arrivals
//! were handed over is measured as the generator's own lateness.

use super::client::Client;
use super::session::Run;
use super::{KvConfig, Workload};
use crate::engines::OpenEngine;
use crate::load::{self, Load};
use crate::stopwatch::Stopwatch;
use crate::{Latencies, Rng};
use siltstone_base::sync::{Mutex, Rank};
use siltstone_base::{Error, ErrorKind, Result};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

/// How often the generator looks for arrivals that are due.
const TICK: Duration = Duration::from_millis(1);

/// Arrivals that a submitting thread may have waiting. Beyond that the generator waits, which its lateness shows.
const QUEUE: usize = 1 << 20;

/// Arrivals that a thread takes at a time.
const TAKE: usize = 64;

/// Moments in nanoseconds from the start.
type Due = u64;

pub(super) fn measure(
    config: &KvConfig,
    engine: &OpenEngine,
    workload: Workload,
    pair: u32,
    load: &Load<'_>,
    rate: u64,
) -> Result<Run> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .map_err(|error| Error::new(ErrorKind::Io, "start the generator").with_source(error))?;
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..load.threads).map(|_| mpsc::channel(QUEUE)).unzip();
    let receivers: Vec<_> = receivers.into_iter().map(|receiver| Mutex::new(Rank(u16::MAX), Some(receiver))).collect();
    let watch = Stopwatch::start();
    let seed = config.seed ^ u64::from(pair);
    let generator = runtime.spawn(generate(senders, load.expected_ops, rate, seed, watch));
    let (measured, clients) = load::run(load, |worker| {
        let thread = worker.index;
        let mut client = Client::new(engine.as_kv()?, config, workload, pair, thread, 0);
        if thread >= load.threads {
            let done = worker.drive(0, 1, |_| client.put_random())?;
            return Ok((thread, done, client.bytes()));
        }
        let mut receiver: mpsc::Receiver<(u64, Due)> = receivers[thread]
            .lock()
            .take()
            .ok_or_else(|| Error::new(ErrorKind::Aborted, "arrivals were taken twice"))?;
        let mut taken = Vec::with_capacity(TAKE);
        let mut done = 0;
        while !worker.is_stopped() && receiver.blocking_recv_many(&mut taken, TAKE) > 0 {
            for (number, due) in taken.drain(..) {
                client.step(number)?;
                worker.record(watch.nanos().saturating_sub(due), 1);
                done += 1;
            }
        }
        client.finish()?;
        Ok((thread, done, client.bytes()))
    })?;
    let lateness = runtime
        .block_on(generator)
        .map_err(|error| Error::new(ErrorKind::Poisoned, "the generator panicked").with_source(error))??;
    Ok(Run::new(measured, workload, load.threads, &clients, lateness.summary()))
}

/// Hands out `ops` arrivals and returns how late each was.
async fn generate(
    senders: Vec<mpsc::Sender<(u64, Due)>>,
    ops: u64,
    rate: u64,
    seed: u64,
    watch: Stopwatch,
) -> Result<Latencies> {
    let mut lateness = Latencies::new()?;
    let mut rng = Rng::new(seed, 0x6172_7269);
    let mean_gap = 1e9 / rate as f64;
    let mut tick = tokio::time::interval_at(Instant::now(), TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut due = watch.nanos() as f64;
    let mut number = 0;
    while number < ops {
        tick.tick().await;
        while number < ops && due <= watch.nanos() as f64 {
            let Some(sender) = senders.get((number % senders.len() as u64) as usize) else { return Ok(lateness) };
            if sender.send((number, due as Due)).await.is_err() {
                return Ok(lateness);
            }
            lateness.record(watch.nanos().saturating_sub(due as u64));
            number += 1;
            // The gap of a Poisson process; 53 random bits make a fraction above 0.
            let fraction = ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            due -= fraction.ln() * mean_gap;
        }
    }
    Ok(lateness)
}
