//! One row of the ladder: the sources, who looks, and who cleans up.

use super::AdsConfig;
use super::generator::{DAY, Event, Generator, ROW_BYTES};
use super::ladder::{LAYOUT, Opened, Row, VALID_DAYS};
use super::samples::{Sample, Samples};
use super::shares::Shares;
use crate::config_json;
use crate::load::{self, Load, Worker};
use crate::stopwatch::Stopwatch;
use crate::{IntervalLine, ResultLine};
use siltstone_base::Result;
use siltstone_base::clock::{Clock, FastClock, SystemClock};
use siltstone_base::engine::{Kv, KvBatch};
use siltstone_lsm::{CompactRangeOptions, Counter};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The wall time of the first event.
const BEGIN: u64 = 1_600_000_000;

/// Everything is compacted by hand after so many days.
const COMPACT_DAYS: u64 = 5;

/// Rows of one transaction of the job that deletes, and rows that it looks at before it looks anew.
const DELETE_BATCH: usize = 50;
const DELETE_CHUNK: usize = 1000;

/// What is expired is looked at after so many days, from the day on that the first idle rows count.
const LOOK_DAYS: u64 = 3;

/// How often helpers look whether something is due.
const NAP: Duration = Duration::from_millis(20);

/// What is run, as its threads see it.
struct Stage<'a> {
    config: &'a AdsConfig,
    row: Row,
    clock: Arc<FastClock>,
    opened: &'a Opened,
}

/// What a thread brings home.
enum Part {
    /// Bytes of a source, and how late it was at most, in microseconds of simulated time.
    Source {
        bytes: u64,
        lag_micros: u64,
    },
    Looked(Samples),
    Cleaned,
}

/// Runs a row on an empty database in `dir`.
pub(super) fn run(config: &AdsConfig, row: Row, dir: &Path, bar: bool) -> Result<(ResultLine, Vec<IntervalLine>)> {
    let clock = Arc::new(FastClock::new(Arc::new(SystemClock::new()), config.factor(), BEGIN));
    let opened = row.open(config, dir, &clock)?;
    let before = opened.engine.stats()?;
    let label = format!("{} {row}", opened.engine.name());
    let load = Load {
        label: &label,
        threads: config.sources,
        companions: 2,
        expected_ops: config.upserts_per_day * config.days,
        interval_s: config.interval_s,
        bar,
        most_seconds: None,
        gauge: None,
        space: None,
    };
    let stage = Stage { config, row, clock: Arc::clone(&clock), opened: &opened };
    let (measured, parts) = load::run(&load, |worker| match worker.index {
        index if index < config.sources => stage.source(worker, index as u64),
        index if index == config.sources => stage.look(worker),
        _ => stage.clean(worker),
    })?;
    let stats = opened.engine.stats()?.since(&before);
    let (mut samples, mut bytes_user) = (Samples::default(), 0);
    let mut lag = 0;
    for part in parts {
        match part {
            Part::Source { bytes, lag_micros } => {
                bytes_user += bytes;
                lag = lag.max(lag_micros);
            }
            Part::Looked(looked) => samples = looked,
            Part::Cleaned => {}
        }
    }
    samples.shares.push(Shares::look(&opened, clock.unix_seconds())?);
    let upserts = (bytes_user / ROW_BYTES as u64).max(1);
    let ratio = |part: Option<u64>, whole: u64| part.filter(|_| whole > 0).map(|part| part as f64 / whole as f64);
    let name = ResultLine {
        experiment: "ads".to_owned(),
        workload: row.name().to_owned(),
        engine: opened.engine.name(),
        config_hash: config.config_hash(),
        setup: config.setup(),
        config: config_json::whole(config),
        pair: 1,
        threads: config.sources as u32,
        bytes_user,
        write_amp: ratio(stats.bytes_written, bytes_user),
        written_per_upsert: ratio(stats.bytes_written, upserts),
        expired_share: samples.worst(Shares::expired_share),
        idle_expired_share: samples.worst(Shares::idle_expired_share),
        rewritten_per_reclaimed: rewritten(&opened),
        write_peak_over_mean: samples.write_peak_over_mean(),
        read_rise: samples.read_rise(VALID_DAYS, config.days),
        replication_lag_s: Some(lag as f64 / config.factor() as f64 / 1e6),
        ..row.line(config)
    };
    let mut line = measured.line(stats, name);
    let intervals = measured.interval_lines(&line);
    let restarted = restart(config, row, dir, opened)?;
    (line.shutdown_s, line.startup_s) = (Some(restarted.shutdown_s), Some(restarted.startup_s));
    line.space_bytes = restarted.space_bytes;
    Ok((line, intervals))
}

/// Bytes that the engine wrote for the sake of expired rows alone, for each byte that it got back.
fn rewritten(opened: &Opened) -> Option<f64> {
    let counters = opened.lsm.as_ref()?.metrics().counters();
    let (given, written) = (counters.get(Counter::ExpiryBytesIn), counters.get(Counter::ExpiryBytesOut));
    (given > written).then(|| written as f64 / (given - written) as f64)
}

/// How an engine bears being started anew.
struct Restarted {
    /// How long closing takes, and opening again.
    shutdown_s: f64,
    startup_s: f64,
    /// What its files take once nothing is in memory alone.
    space_bytes: Option<u64>,
}

fn restart(config: &AdsConfig, row: Row, dir: &Path, opened: Opened) -> Result<Restarted> {
    let watch = Stopwatch::start();
    let Opened { engine, lsm, btree } = opened;
    engine.admin.close()?;
    drop((engine, lsm, btree));
    let shutdown_s = watch.seconds();
    let watch = Stopwatch::start();
    // Time goes on where it was, as far as anybody can tell.
    let seconds = BEGIN + config.days * DAY;
    let clock = Arc::new(FastClock::new(Arc::new(SystemClock::new()), config.factor(), seconds));
    let opened = row.open(config, dir, &clock)?;
    let startup_s = watch.seconds();
    // Whatever is in memory alone takes its place, in one engine as in the other.
    opened.engine.admin.flush()?;
    let space_bytes = opened.engine.stats()?.data_bytes();
    opened.engine.admin.close()?;
    Ok(Restarted { shutdown_s, startup_s, space_bytes })
}

impl Stage<'_> {
    /// Commits the events of a source when they are due.
    fn source(&self, worker: &mut Worker<'_>, number: u64) -> Result<Part> {
        let (config, kv) = (self.config, self.opened.engine.as_kv()?);
        let per_day = (config.upserts_per_day / config.sources as u64).max(1);
        let mut generator = Generator::new(number, per_day, config.seed);
        let end = config.days * DAY * 1_000_000;
        let (mut batch, mut bytes, mut lag_micros) = (KvBatch::new(), 0, 0);
        loop {
            let Event { micros, row } = generator.next(BEGIN);
            let is_over = micros >= end || worker.is_stopped();
            if let Some((key, value)) = row.filter(|_| !is_over) {
                batch.put(&key, value);
            }
            if batch.len() < config.rows_per_commit && !is_over {
                continue;
            }
            let now = self.clock.now_micros();
            let late_micros = match micros.checked_sub(now) {
                Some(early) if !is_over => {
                    self.clock.sleep(Duration::from_micros(early));
                    0
                }
                _ => now.saturating_sub(micros),
            };
            lag_micros = lag_micros.max(late_micros);
            if !batch.is_empty() {
                let watch = Stopwatch::start();
                kv.write(&batch)?;
                // The rows waited for those before them as well.
                let waited_nanos = late_micros.saturating_mul(1_000) / config.factor().max(1);
                worker.record(watch.nanos().saturating_add(waited_nanos), batch.len() as u64);
                bytes += (batch.len() * ROW_BYTES) as u64;
                batch.clear();
            }
            if is_over {
                return Ok(Part::Source { bytes, lag_micros });
            }
        }
    }

    /// Looks at what was written and read every second, and at what is expired every few days.
    fn look(&self, worker: &Worker<'_>) -> Result<Part> {
        let (env, watch) = (self.opened.engine.env(), Stopwatch::start());
        let mut samples = Samples::default();
        let mut next_look = (VALID_DAYS + LOOK_DAYS) * DAY;
        while !worker.is_stopped() {
            SystemClock::new().sleep(NAP);
            let simulated = self.clock.unix_seconds() - BEGIN;
            let last = samples.samples.last().copied().unwrap_or_default();
            if watch.seconds() >= last.seconds + 1.0 {
                let counted = env.io_stats().snapshot().total();
                let (written, read) = (counted.written_bytes, counted.read_bytes);
                samples.samples.push(Sample { seconds: watch.seconds(), simulated, written, read });
            }
            if simulated >= next_look {
                samples.shares.push(Shares::look(self.opened, BEGIN + simulated)?);
                next_look = simulated + LOOK_DAYS * DAY;
            }
        }
        Ok(Part::Looked(samples))
    }

    /// What the user's own jobs do: compact everything now and then, or delete what is too old once a day.
    fn clean(&self, worker: &Worker<'_>) -> Result<Part> {
        let mut next = if self.row == Row::Btree { DAY } else { COMPACT_DAYS * DAY };
        while !worker.is_stopped() {
            SystemClock::new().sleep(NAP);
            let simulated = self.clock.unix_seconds() - BEGIN;
            if simulated < next {
                continue;
            }
            match &self.opened.lsm {
                Some(db) if self.row.is_compacted_by_hand() => {
                    let options = CompactRangeOptions::default().force_bottommost(true);
                    db.compact_range(&db.default_family(), None, None, &options)?;
                    next += COMPACT_DAYS * DAY;
                }
                Some(_) => next = u64::MAX,
                None if self.row == Row::BtreePurge => next = u64::MAX,
                None => {
                    self.delete_old_rows(worker, self.opened.engine.as_kv()?, BEGIN + simulated)?;
                    next += DAY;
                }
            }
        }
        Ok(Part::Cleaned)
    }

    /// Walks over all rows, a few at a time, and deletes those that are too old at `now`, a few in a transaction.
    fn delete_old_rows(&self, worker: &Worker<'_>, kv: &dyn Kv, now: u64) -> Result<()> {
        let (mut next, mut old) = (Vec::new(), KvBatch::new());
        let is_old = |value: &[u8]| LAYOUT.split(value).is_ok_and(|(_, stamp)| stamp + VALID_DAYS * DAY <= now);
        let mut is_there = true;
        while is_there && !worker.is_stopped() {
            {
                let mut cursor = kv.cursor()?;
                is_there = cursor.seek(&next)?;
                for _ in 0..DELETE_CHUNK {
                    if !is_there || old.len() == DELETE_BATCH {
                        break;
                    }
                    if is_old(cursor.value()) {
                        old.delete(cursor.key());
                    }
                    next.clear();
                    next.extend_from_slice(cursor.key());
                    next.push(0);
                    is_there = cursor.next()?;
                }
            }
            if !old.is_empty() {
                kv.write(&old)?;
                old.clear();
            }
        }
        Ok(())
    }
}
