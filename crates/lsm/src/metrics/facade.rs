//! Statistics for the recorder that the program has installed for the crate `metrics`.

use super::{Gauge, Statistics};
use metrics_facade::{counter, gauge};

/// Hands everything to the recorder under the names that it has here: tickers as counters; of distributions, quantiles and the maximum as gauges, number and sum as counters.
pub(crate) fn publish(statistics: &Statistics, gauges: &[Gauge]) {
    for (name, value) in &statistics.tickers {
        counter!(*name).absolute(*value);
    }
    for (name, data) in &statistics.histograms {
        counter!(format!("{name}.count")).absolute(data.count());
        counter!(format!("{name}.sum")).absolute(data.sum());
        let (p50, p95, p99) = (data.quantile(0.5), data.quantile(0.95), data.quantile(0.99));
        for (suffix, value) in [("p50", p50), ("p95", p95), ("p99", p99), ("max", data.max() as f64)] {
            gauge!(format!("{name}.{suffix}")).set(value);
        }
    }
    for Gauge { name, labels, value } in gauges {
        gauge!(name.clone(), labels).set(*value as f64);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Db, DbOptions, FlushOptions};
    use metrics_facade::{
        Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    };
    use siltstone_base::env::sim::SimDisk;
    use siltstone_base::sync::{Mutex, Rank};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    /// What was handed over, by name and labels.
    type Found = Arc<Mutex<BTreeMap<String, f64>>>;

    /// One name.
    struct Named(String, Found);

    impl CounterFn for Named {
        fn increment(&self, value: u64) {
            *self.1.lock().entry(self.0.clone()).or_default() += value as f64;
        }

        fn absolute(&self, value: u64) {
            self.1.lock().insert(self.0.clone(), value as f64);
        }
    }

    impl GaugeFn for Named {
        fn increment(&self, value: f64) {
            *self.1.lock().entry(self.0.clone()).or_default() += value;
        }

        fn decrement(&self, value: f64) {
            self.increment_by(-value);
        }

        fn set(&self, value: f64) {
            self.1.lock().insert(self.0.clone(), value);
        }
    }

    impl Named {
        fn increment_by(&self, value: f64) {
            *self.1.lock().entry(self.0.clone()).or_default() += value;
        }

        fn of(key: &Key, found: &Found) -> Arc<Self> {
            let labels: Vec<String> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let name = [&[key.name().to_owned()], &labels[..]].concat().join(",");
            Arc::new(Self(name, Arc::clone(found)))
        }
    }

    struct Recording(Found);

    impl Recorder for Recording {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(Named::of(key, &self.0))
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(Named::of(key, &self.0))
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn a_recorder_gets_everything() {
        let disk = SimDisk::new();
        let db = Db::open("/db", &DbOptions::default().create_if_missing(true).env(Some(disk.env()))).unwrap();
        for key in ["a", "b", "c"] {
            db.put(key, "value").unwrap();
        }
        db.flush(&FlushOptions::default()).unwrap();
        let found = Arc::new(Mutex::new(Rank(1), BTreeMap::new()));
        metrics_facade::with_local_recorder(&Recording(Arc::clone(&found)), || {
            db.publish_metrics();
            // Again and again: what is counted is not added up.
            db.publish_metrics();
        });
        let statistics = db.statistics();
        db.close().unwrap();
        let found = found.lock();
        assert_eq!(found["rocksdb.number.keys.written"], 3.0);
        assert_eq!(found["rocksdb.db.flush.micros.count"], 1.0);
        assert_eq!(found["rocksdb.db.flush.micros.max"], found["rocksdb.db.flush.micros.sum"]);
        assert_eq!(found["rocksdb.num-files-at-level,family=default,level=0"], 1.0);
        assert!(statistics.tickers.iter().all(|(name, _)| found.contains_key(*name)), "{found:?}");
    }
}
