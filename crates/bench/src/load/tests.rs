//! Variation, segments, medians, and loads whose clients fail.

use super::*;

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
}
