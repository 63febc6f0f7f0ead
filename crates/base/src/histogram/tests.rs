//! Quantiles against sorted latencies.

use super::*;
use proptest::prelude::*;

#[test]
fn an_empty_histogram_is_all_zeros() {
    let histogram = Histogram::new();
    assert_eq!(histogram.summary(), LatencySummary::default());
    assert_eq!((histogram.min_nanos(), histogram.max_nanos(), histogram.sum_nanos()), (0, 0, 0));
}

#[test]
fn a_thousand_latencies() {
    let mut histogram = Histogram::new();
    for micros in 1..=1000 {
        histogram.record_micros(micros);
    }
    let summary = histogram.summary();
    assert_eq!((summary.count, summary.mean_micros, summary.max_micros), (1000, 500.5, 1000.0));
    for (found, expected) in [
        (summary.p50_micros, 500.0),
        (summary.p95_micros, 950.0),
        (summary.p99_micros, 990.0),
        (summary.p999_micros, 999.0),
    ] {
        assert!((found / expected - 1.0).abs() < 0.0011, "{found} for {expected}");
    }
    assert_eq!(summary.p9999_micros, 1000.0);
    histogram.clear();
    assert_eq!(histogram.summary(), LatencySummary::default());
}

#[test]
fn hours_are_clamped() {
    let mut histogram = Histogram::new();
    histogram.record(Duration::from_secs(86_400));
    histogram.record(Duration::MAX);
    assert_eq!((histogram.len(), histogram.max_nanos(), histogram.min_nanos()), (2, MAX_NANOS, MAX_NANOS));
}

proptest! {
    #[test]
    fn quantiles_and_merging(
        left in prop::collection::vec(0u64..10_000_000_000, 1..200),
        right in prop::collection::vec(0u64..1_000_000, 0..200),
        quantile in 0.0..=1.0f64,
    ) {
        let record = |values: &[u64]| {
            let mut histogram = Histogram::new();
            values.iter().for_each(|nanos| histogram.record_nanos(*nanos));
            histogram
        };
        let mut merged = record(&left);
        merged.merge(&record(&right));
        let mut all = [left, right].concat();
        let direct = record(&all);
        all.sort_unstable();
        prop_assert_eq!(merged.summary(), direct.summary());
        prop_assert_eq!(merged.min_nanos(), all[0]);
        prop_assert_eq!(merged.max_nanos(), all[all.len() - 1]);
        let rank = ((quantile * all.len() as f64).ceil() as usize).clamp(1, all.len());
        let (found, near) = (merged.quantile_nanos(quantile), [rank.saturating_sub(2), rank - 1, rank.min(all.len() - 1)]);
        let low = all[near[0]] as f64 * 0.999 - 1.0;
        let high = all[near[2]] as f64 * 1.001 + 1.0;
        prop_assert!((low..=high).contains(&(found as f64)), "{} at {}", found, quantile);
    }
}
