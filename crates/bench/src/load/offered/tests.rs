//! Bounds and names of offered rates, and what becomes of arrivals that are not served.

use super::*;
use crate::ResultLine;
use crate::load::tests::{Clients, load};
use crate::load::{Arrivals, End, Load, Measured, OpenLoop, Worker, run};
use crate::stopwatch::Stopwatch;
use siltstone_base::ErrorKind;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};

#[test]
fn rates_are_parts_of_the_maximum_and_then_those_given() {
    let offered = OfferedRates { fractions: vec![0.95, 0.5, 1.0 / 8.0, 0.55], rates: vec![500] };
    offered.check().unwrap();
    let loops = offered.after(2_000.0);
    let names: Vec<_> = loops.iter().map(|rate| rate.name_of("read_write")).collect();
    let expected = ["poisson-95", "poisson-50", "poisson-12.5", "poisson-55", "poisson-500/s"];
    assert_eq!(names, expected.map(|name| format!("read_write {name}")));
    assert!(names.iter().all(|name| workload_of(name) == "read_write"));
    assert_eq!(workload_of("read_write"), "read_write");
    let rates: Vec<_> = loops.iter().map(|rate| rate.per_s).collect();
    assert_eq!(rates, [0.95 * 2_000.0, 1_000.0, 250.0, 0.55 * 2_000.0, 500.0]);
    assert_eq!(loops[2].arrivals(3.0), 750);
    assert!(OfferedRates::default().after(2_000.0).is_empty());
    assert!(offered.after(0.0)[0].per_s > 0.0, "a schedule ends");
}

#[test]
fn rates_out_of_bounds_are_refused() {
    let refused = |fractions: &[f64], rates: &[u64]| {
        let error = OfferedRates { fractions: fractions.to_vec(), rates: rates.to_vec() }.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        error.to_string()
    };
    for fraction in [0.0, -0.5, 1.51, f64::NAN, f64::INFINITY] {
        assert!(refused(&[0.5, fraction], &[]).contains("--fractions must be above 0 and at most 1.5"), "{fraction}");
    }
    for rate in [0, 1_000_001] {
        assert!(refused(&[], &[rate]).contains("--rate must be 1 to 1000000"), "{rate}");
    }
    OfferedRates { fractions: vec![1.5, 1e-4], rates: vec![1, 1_000_000] }.check().unwrap();
}

/// Serves an offering with clients whose operations each keep the processor busy for so long. What was measured, and how many operations were called.
fn served(offering: &Offering, load: &Load<'_>, seconds: f64) -> (Measured, u64) {
    let called = AtomicU64::new(0);
    let operation = || {
        called.fetch_add(1, Ordering::Relaxed);
        spin(seconds);
        Ok(())
    };
    let (measured, _) = run(load, |worker: &mut Worker<'_>| offering.serve(worker, operation)).unwrap();
    (measured, called.load(Ordering::Relaxed))
}

fn spin(seconds: f64) {
    let watch = Stopwatch::start();
    while watch.seconds() < seconds {}
}

#[test]
fn everything_that_arrives_is_served_and_told_of() {
    let rate = OfferedRate::given(100_000);
    let offering = Offering::start(&rate, End::Operations(1_000), 2, 7).unwrap();
    let (measured, called) = served(&offering, &load(2, 0), 0.0);
    assert_eq!((measured.ops, called), (1_000, 1_000));
    assert!(measured.latencies.summary().is_some());
    let mut line = ResultLine { workload: rate.name_of("a"), ..ResultLine::default() };
    assert_eq!(table(std::slice::from_ref(&line)), None);
    offering.finish().unwrap().mark(&mut line);
    assert_eq!(line.offered_ops_per_s, Some(100_000.0));
    assert!(line.generator_late_p99_us.is_some() && line.generator_late_max_us >= line.generator_late_p99_us);
    assert!(line.longest_gap_us.is_some());
    assert_eq!(line.unserved_ops, Some(0));
    let text = table(&[ResultLine::default(), line]).unwrap();
    assert!(text.contains("a poisson-100000/s") && text.contains("late max us"), "{text}");
}

#[test]
fn an_offering_that_clients_cannot_keep_up_with_ends_with_the_run() {
    let offering = Offering::start(&OfferedRate::given(1_000_000), End::Operations(1_000), 2, 7).unwrap();
    let load = Load { most_seconds: Some(0.05), ..load(2, 0) };
    let (measured, called) = served(&offering, &load, 0.3);
    let ops = measured.ops;
    assert!(ops < 1_000, "{ops} of 1,000");
    assert_eq!(ops, called, "what is not served is no operation");
    let mut line = ResultLine::default();
    offering.finish().unwrap().mark(&mut line);
    assert!(line.unserved_ops.is_some_and(|unserved| ops + unserved <= 1_000), "{ops} and {:?}", line.unserved_ops);
}

#[test]
fn arrivals_that_nobody_served_are_counted() {
    let offering = Offering::start(&OfferedRate::given(1_000_000), End::Operations(1_000), 1, 7).unwrap();
    let clients = Clients::new(1);
    let operation = || {
        while !offering.is_handed_out_for_test() {
            std::thread::yield_now();
        }
        // The others are due within a few milliseconds.
        spin(0.1);
        clients.phase.end_run();
        Ok(())
    };
    offering.serve(&mut clients.client(0), operation).unwrap();
    assert_eq!(clients.done.load(Ordering::Relaxed), 1);
    let mut line = ResultLine::default();
    offering.finish().unwrap().mark(&mut line);
    assert_eq!(line.unserved_ops, Some(999));
    let text = table(&[line]).unwrap();
    assert!(text.contains("unserved") && text.contains("999"), "{text}");
}

#[test]
fn arrivals_that_are_abandoned_have_waited_until_then() {
    const SECONDS: f64 = 0.2;
    let open_loop = OpenLoop::start(Arrivals::poisson(1e6), End::Operations(1_000), 1, 7).unwrap();
    let queue = open_loop.queue(0).unwrap();
    // All of them are handed out then, and were due within a few milliseconds.
    open_loop.lateness().unwrap();
    spin(SECONDS);
    let mut waited = Vec::new();
    queue.abandon(|nanos| waited.push(nanos)).unwrap();
    assert_eq!(waited.len(), 1_000);
    assert!(waited.iter().all(|nanos| *nanos as f64 > SECONDS * 1e9 / 2.0), "{waited:?}");
}

#[test]
fn a_client_that_fails_ends_an_open_loop_with_its_error() {
    let offering = Offering::start(&OfferedRate::given(10), End::Seconds(600.0), 2, 7).unwrap();
    let fails = |worker: &mut Worker<'_>| offering.serve(worker, || Err(Error::new(ErrorKind::NoSpace, "full")));
    assert_eq!(run(&load(2, 0), fails).unwrap_err().kind(), ErrorKind::NoSpace);
}
