//! Variation, segments, medians, latencies by interval, when schedules begin, and loads whose clients fail.

use super::interval_latencies::{Phase, Tray};
use super::*;
use siltstone_base::engine::{Capabilities, EngineStats};
use siltstone_base::sync::CachePadded;
use siltstone_base::sync::atomic::AtomicU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

#[test]
fn variation_is_plain_and_against_the_trend() {
    assert_eq!(variation(&[1.0; 4]), None, "too few");
    assert_eq!(variation(&[5.0; 10]), Some((0.0, 0.0)));
    let trend: Vec<f64> = (0..100).map(|second| 1_000.0 + f64::from(second) * 10.0).collect();
    let (plain, detrended) = variation(&trend).unwrap();
    assert!(plain > 0.15 && detrended < 0.02, "{plain} {detrended}");
}

#[test]
fn long_runs_have_five_segments() {
    assert_eq!(segments(&[1.0; 119]), None);
    let rates: Vec<f64> = (0..150).map(|second| f64::from(second / 30)).collect();
    assert_eq!(segments(&rates), Some(vec![0.0, 1.0, 2.0, 3.0, 4.0]));
}

#[test]
fn medians() {
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
}

pub(super) fn load(threads: usize, companions: usize) -> Load<'static> {
    Load {
        label: "test",
        threads,
        companions,
        expected_ops: 100,
        interval_s: 1.0,
        bar: false,
        most_seconds: None,
        gauge: None,
        space: None,
    }
}

#[test]
fn a_client_that_fails_ends_the_run_with_its_error() {
    let outcome = run(&load(2, 1), |worker| {
        let index = worker.index;
        worker.drive(u64::MAX, 1, |number| {
            if index == 1 && number == 10 { Err(Error::new(ErrorKind::NoSpace, "full")) } else { Ok(true) }
        })
    });
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NoSpace);
}

struct Panics;

impl Admin for Panics {
    fn name(&self) -> String {
        "panics".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        panic!("a fault")
    }

    fn stats(&self) -> Result<EngineStats> {
        Ok(EngineStats::default())
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn an_engine_that_panics_while_it_settles_ends_the_run_instead_of_hanging_it() {
    let settled = catch_unwind(AssertUnwindSafe(|| settle(&Panics, false).is_ok()));
    assert!(settled.is_err());
}

#[test]
fn companions_end_with_the_clients_and_are_counted_apart() {
    let (measured, returned) = run(&load(2, 1), |worker| worker.drive(1_000, 7, |_| Ok(true))).unwrap();
    assert_eq!(measured.ops, 2_000);
    assert_eq!(returned[..2], [1_000, 1_000]);
    assert_eq!(measured.companion_ops, returned[2]);
    assert!(measured.latencies.summary().is_some());
}

#[test]
fn arrivals_come_at_their_rate() {
    let count = |arrivals: &Arrivals, from_s: f64, to_s: f64| {
        let mut rng = crate::Rng::new(11, 0);
        let (mut now, mut count) = (0.0, 0);
        while now < to_s * 1e9 {
            count += u64::from(now >= from_s * 1e9);
            now += arrivals.gap_after(now, &mut rng);
        }
        count
    };
    let constant = Arrivals { process: Process::Constant, rate: 1_000.0, bursts: None };
    assert_eq!(count(&constant, 0.0, 10.0), 10_000);
    let poisson = Arrivals::poisson(1_000.0);
    assert!((9_700..10_300).contains(&count(&poisson, 0.0, 10.0)), "within three deviations");
    let bursts = Bursts { every_s: 60.0, length_s: 10.0, rate: 4_000.0 };
    let bursting = Arrivals { bursts: Some(bursts), ..constant };
    assert_eq!(bursting.mean_rate(120.0), 1_500.0);
    assert_eq!(bursting.mean_rate(25.0), 1_000.0);
    assert_eq!(bursting.mean_rate(30.0), 45_000.0 / 30.0);
    assert_eq!(bursting.mean_rate(50.0), 80_000.0 / 50.0);
    assert_eq!(count(&bursting, 0.0, 25.0), 25_000);
    assert_eq!(count(&bursting, 25.0, 35.0), 40_000);
    assert_eq!(count(&bursting, 35.0, 85.0), 50_000);
}

#[test]
fn the_worst_rate_is_a_part_of_the_median_around_it() {
    assert_eq!(worst(&[1.0; 4]), None, "too few");
    let mut rates = vec![100.0; 40];
    rates[20] = 30.0;
    assert_eq!(worst(&rates), Some(0.3));
}

#[test]
fn a_run_that_is_over_in_time_looks_at_its_gauge_once_a_second() {
    let gauge = || Some(7);
    let load = Load { most_seconds: Some(2.5), gauge: Some(&gauge), space: Some(&|| Some(9)), ..load(1, 0) };
    let (measured, _) = run(&load, |worker| worker.drive(u64::MAX, 1_000, |_| Ok(true))).unwrap();
    assert!(measured.ops > 0);
    assert_eq!(measured.second_gauges.len(), measured.second_rates.len());
    assert!(measured.second_gauges.iter().all(|debt| *debt == 7));
    assert!(measured.intervals.iter().all(|interval| interval.space_bytes == Some(9)));
    let longest = measured.latencies.summary().unwrap().max_us;
    let mut of_intervals = measured.intervals.iter().filter_map(|interval| interval.latencies);
    assert!(of_intervals.all(|one| one.p50_us <= one.p99_us && one.p99_us <= one.max_us && one.max_us <= longest));
}

#[test]
fn a_size_that_panics_ends_the_run() {
    let space = || -> Option<u64> { panic!("no size") };
    let load = Load { interval_s: 0.0, space: Some(&space), ..load(2, 1) };
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&load, |worker| worker.drive(u64::MAX, 1, |_| Ok(true)))));
    assert!(outcome.is_err());
}

/// Two queues of a schedule without bursts that waits for so long until both are taken.
fn open_loop(arrivals: u64, patience: Duration) -> OpenLoop {
    let constant = Arrivals { process: Process::Constant, rate: 1e6, bursts: None };
    OpenLoop::start_patiently(constant, End::Operations(arrivals), 2, 7, patience).unwrap()
}

#[test]
fn a_schedule_begins_once_all_queues_are_taken() {
    let open_loop = open_loop(100, Duration::from_secs(100_000));
    let first = open_loop.queue(0).unwrap();
    // Time enough to begin too early.
    let early = Stopwatch::start();
    while early.seconds() < 0.02 {}
    let watch = Stopwatch::start();
    let mut served = 0;
    for mut queue in [first, open_loop.queue(1).unwrap()] {
        let mut each = |_, waited: &dyn Fn() -> u64| {
            let waited = waited();
            assert!(waited <= watch.nanos(), "{waited} ns: it was due before the second queue was taken");
            served += 1;
            Ok(())
        };
        while queue.serve(&mut each).unwrap() {}
    }
    assert_eq!(served, 100);
    open_loop.lateness().unwrap();
}

#[test]
fn a_schedule_does_not_wait_for_a_queue_that_nobody_takes() {
    let open_loop = open_loop(100, Duration::ZERO);
    let mut queue = open_loop.queue(0).unwrap();
    let mut served = 0;
    let mut each = |_, _: &dyn Fn() -> u64| {
        served += 1;
        Ok(())
    };
    while queue.serve(&mut each).unwrap() {}
    assert_eq!(served, 50);
    open_loop.lateness().unwrap();
}

#[test]
fn the_only_interval_has_the_latencies_of_the_run() {
    let load = Load { interval_s: 1e6, ..load(3, 0) };
    let (measured, _) = run(&load, |worker| worker.drive(1_000, 1, |_| Ok(true))).unwrap();
    let of_intervals: Vec<_> = measured.intervals.iter().map(|interval| interval.latencies).collect();
    assert!(measured.latencies.summary().is_some());
    assert_eq!(of_intervals, [measured.latencies.summary()]);
    let line = measured.line(EngineStats::default(), crate::ResultLine::default());
    let intervals = measured.interval_lines(&line);
    assert_eq!((intervals[0].p50_us, intervals[0].p99_us), (line.p50_us, line.p99_us));
    assert_eq!(intervals[0].max_us, line.max_us);
    assert!(line.voluntary_context_switches.is_some() && line.user_cpu_s.is_some(), "{line:?}");
}

/// What several clients record, each on a tray of its own, by hand.
pub(super) struct Clients {
    pub(super) phase: Phase,
    pub(super) done: AtomicU64,
    trays: Vec<CachePadded<Tray>>,
}

impl Clients {
    pub(super) fn new(count: usize) -> Self {
        let trays = (0..count).map(|_| CachePadded::new(Tray::new())).collect();
        Self { phase: Phase::start(), done: AtomicU64::new(0), trays }
    }

    pub(super) fn client(&self, index: usize) -> Worker<'_> {
        let tray = self.trays.get(index).map(|tray| &**tray);
        Worker::new(index, &self.done, &self.phase, tray, Latencies::new().unwrap())
    }
}

/// The longest latency of each interval.
fn longest(gathered: Gathered<'_>) -> Vec<Option<f64>> {
    let (_, by_interval) = gathered.finish().unwrap();
    by_interval.into_iter().map(|latencies| latencies.map(|latencies| latencies.max_us)).collect()
}

#[test]
fn an_operation_counts_in_the_interval_in_which_it_was_completed() {
    let clients = Clients::new(1);
    let mut client = clients.client(0);
    client.record(1_000, 1);
    clients.phase.begin_interval();
    // It began before.
    client.record(7_000, 1);
    client.record(2_000, 1);
    clients.phase.begin_interval();
    clients.phase.begin_interval();
    // Nothing was completed in between.
    client.record(3_000, 1);
    client.finish();
    let mut gathered = Gathered::new(&clients.trays).unwrap();
    gathered.gather().unwrap();
    let (all, _) = gathered.finish().unwrap();
    assert_eq!(all.summary().unwrap().max_us, 7.0);
    assert!((all.summary().unwrap().p50_us - 2.0).abs() < 0.05);
    // What was gathered is gone from the trays.
    assert!(longest(Gathered::new(&clients.trays).unwrap()).is_empty());
}

#[test]
fn an_interval_has_the_longest_latency_of_its_own() {
    let clients = Clients::new(1);
    let mut client = clients.client(0);
    client.record(1_000, 1);
    clients.phase.begin_interval();
    client.record(7_000, 1);
    client.record(2_000, 1);
    clients.phase.begin_interval();
    client.record(3_000, 1);
    client.finish();
    assert_eq!(longest(Gathered::new(&clients.trays).unwrap()), [Some(1.0), Some(7.0), Some(3.0)]);
}

#[test]
fn an_interval_waits_for_the_slowest_client() {
    let clients = Clients::new(2);
    let (mut quick, mut slow) = (clients.client(0), clients.client(1));
    let mut gathered = Gathered::new(&clients.trays).unwrap();
    slow.record(9_000, 1);
    for micros in [1, 2, 3] {
        quick.record(micros * 1_000, 1);
        clients.phase.begin_interval();
        gathered.gather().unwrap();
    }
    // It was busy for three intervals, and has the first one's latency still.
    slow.record(30_000, 1);
    gathered.gather().unwrap();
    quick.record(4_000, 1);
    quick.finish();
    slow.finish();
    assert_eq!(longest(gathered), [Some(9.0), Some(2.0), Some(3.0), Some(30.0)]);
}

#[test]
fn intervals_without_operations_have_no_latencies() {
    let clients = Clients::new(1);
    let mut client = clients.client(0);
    clients.phase.begin_interval();
    clients.phase.begin_interval();
    client.record(1_000, 1);
    clients.phase.begin_interval();
    client.finish();
    assert_eq!(longest(Gathered::new(&clients.trays).unwrap()), [None, None, Some(1.0)]);
    let nobody = Clients::new(1);
    nobody.client(0).finish();
    assert!(longest(Gathered::new(&nobody.trays).unwrap()).is_empty());
}

#[test]
fn a_client_that_is_driven_ends_with_the_run_and_a_companion_keeps_no_latencies() {
    const YEARS_NANOS: u64 = 1 << 60;
    let clients = Clients::new(1);
    let mut client = clients.client(0);
    assert_eq!(client.drive(5, 1, |_| Ok(true)).unwrap(), 5);
    assert_eq!(client.drive(u64::MAX, 1, |number| Ok(number < 3)).unwrap(), 3);
    assert!(!client.is_stopped());
    let end = |number: u64| {
        if number == 9 {
            clients.phase.end_run();
        }
        Ok(true)
    };
    assert_eq!(client.drive(u64::MAX, 1, end).unwrap(), 10);
    assert!(client.is_stopped());
    assert_eq!(client.drive(5, 1, |_| Ok(true)).unwrap(), 0, "the run is over");
    let mut companion = clients.client(1);
    companion.record(YEARS_NANOS, 1);
    client.finish();
    companion.finish();
    let (all, _) = Gathered::new(&clients.trays).unwrap().finish().unwrap();
    assert!(all.summary().unwrap().max_us < YEARS_NANOS as f64 / 1e3);
}
