//! A workload whose operations arrive at a rate.

use super::client::Client;
use super::session::Run;
use super::{KvConfig, Workload};
use crate::engines::OpenEngine;
use crate::load::{self, Arrivals, End, Load, OpenLoop};
use siltstone_base::Result;

pub(super) fn measure(
    config: &KvConfig,
    engine: &OpenEngine,
    workload: Workload,
    pair: u32,
    load: &Load<'_>,
    rate: u64,
) -> Result<Run> {
    let end = End::Operations(load.expected_ops);
    let seed = config.seed ^ u64::from(pair);
    let open_loop = OpenLoop::start(Arrivals::poisson(rate as f64), end, load.threads, seed)?;
    let (measured, clients) = load::run(load, |worker| {
        let thread = worker.index;
        let mut client = Client::new(engine.as_kv()?, config, workload, pair, thread, 0);
        if thread >= load.threads {
            let done = worker.drive(0, 1, |_| client.put_random())?;
            return Ok((thread, done, client.bytes()));
        }
        let mut queue = open_loop.queue(thread)?;
        let mut done = 0;
        let mut goes_on = true;
        while goes_on && !worker.is_stopped() {
            goes_on = queue.serve(|number, waited| {
                client.step(number)?;
                worker.record(waited(), 1);
                done += 1;
                Ok(())
            })?;
        }
        client.finish()?;
        Ok((thread, done, client.bytes()))
    })?;
    Ok(Run::new(measured, workload, load.threads, &clients, open_loop.lateness()?))
}
