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

fn load(threads: usize, companions: usize) -> Load<'static> {
    Load { label: "test", threads, companions, expected_ops: 100, interval_s: 1.0, bar: false }
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
