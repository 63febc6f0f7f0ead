//! Everything that is counted, at one moment, as text: RocksDB's, and Prometheus'.

use super::{Counters, HistogramData};
use std::fmt;
use std::fmt::Write;

/// Counters and distributions of an open database at one moment, under RocksDB's names.
///
/// `Display` prints them as RocksDB's `Statistics::ToString` does: one line each, `name COUNT : n`, and for distributions quantiles, number and sum.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// Numbers that only grow, by name.
    pub tickers: Vec<(&'static str, u64)>,
    /// Distributions by name.
    pub histograms: Vec<(&'static str, HistogramData)>,
}

impl Statistics {
    pub(crate) fn new(
        counters: &Counters,
        others: impl IntoIterator<Item = (&'static str, u64)>,
        histograms: Vec<(&'static str, HistogramData)>,
    ) -> Self {
        let tickers = counters.iter().map(|(counter, value)| (counter.name(), value)).chain(others).collect();
        Self { tickers, histograms }
    }

    /// The number of this name, if there is one.
    pub fn ticker(&self, name: &str) -> Option<u64> {
        self.tickers.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
    }

    /// The distribution of this name, if there is one.
    pub fn histogram(&self, name: &str) -> Option<&HistogramData> {
        self.histograms.iter().find(|(found, _)| *found == name).map(|(_, data)| data)
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.tickers {
            writeln!(f, "{name} COUNT : {value}")?;
        }
        for (name, data) in &self.histograms {
            writeln!(f, "{name} {data}")?;
        }
        Ok(())
    }
}

/// A number that goes up and down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gauge {
    /// Its name as that of a property.
    pub(crate) name: String,
    /// What tells it from others of its name.
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: u64,
}

/// The text that Prometheus reads (version 0.0.4 of its exposition format). Gauges of one name follow each other.
pub(crate) fn prometheus_text(statistics: &Statistics, gauges: &[Gauge]) -> String {
    let mut text = String::new();
    for (name, value) in &statistics.tickers {
        let name = metric_name(name);
        let _ = writeln!(text, "# TYPE {name}_total counter\n{name}_total {value}");
    }
    for (name, data) in &statistics.histograms {
        let name = metric_name(name);
        let _ = writeln!(text, "# TYPE {name} summary");
        for quantile in [0.5, 0.95, 0.99] {
            // Of nothing there is none: 0 would read as one that is very good.
            let value = if data.count() == 0 { f64::NAN } else { data.quantile(quantile) };
            let _ = writeln!(text, "{name}{{quantile=\"{quantile}\"}} {value}");
        }
        let _ = writeln!(text, "{name}_sum {}\n{name}_count {}", data.sum(), data.count());
    }
    let mut last = "";
    for gauge in gauges {
        let name = metric_name(&gauge.name);
        if gauge.name != last {
            let _ = writeln!(text, "# TYPE {name} gauge");
            last = &gauge.name;
        }
        let labels: Vec<String> =
            gauge.labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(text, "{name}{labels} {}", gauge.value);
    }
    text
}

/// A name of letters, digits and underscores.
fn metric_name(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}

/// The value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::{Counter, HistogramKind, Metrics};
    use super::*;

    fn statistics() -> Statistics {
        let metrics = Metrics::new();
        metrics.add(Counter::KeysWritten, 3);
        metrics.record(HistogramKind::FlushTime, 100);
        Statistics::new(&metrics.counters(), [("rocksdb.block.cache.miss", 7)], metrics.histograms())
    }

    #[test]
    fn text_is_rocksdbs() {
        let statistics = statistics();
        let text = statistics.to_string();
        assert!(text.contains("rocksdb.number.keys.written COUNT : 3\n"), "{text}");
        assert!(text.contains("rocksdb.block.cache.miss COUNT : 7\n"), "{text}");
        let flush = "rocksdb.db.flush.micros P50 : 99.500000 P95 : 100.000000 P99 : 100.000000 P100 : 100.000000 COUNT : 1 SUM : 100\n";
        assert!(text.contains(flush), "{text}");
        assert_eq!(statistics.ticker("rocksdb.block.cache.miss"), Some(7));
        assert_eq!(statistics.ticker("rocksdb.none"), None);
        assert_eq!(statistics.histogram("rocksdb.db.flush.micros").map(HistogramData::max), Some(100));
    }

    #[test]
    fn prometheus_can_read_its_text() {
        let gauge = |family: &str, value| Gauge {
            name: "rocksdb.num-files-at-level".to_owned(),
            labels: vec![("family", family.to_owned()), ("level", "0".to_owned())],
            value,
        };
        let text = prometheus_text(&statistics(), &[gauge("default", 4), gauge("a\"b\\c\nd", 5)]);
        assert!(text.contains("# TYPE rocksdb_block_cache_miss_total counter\nrocksdb_block_cache_miss_total 7\n"));
        assert!(text.contains("rocksdb_db_flush_micros_sum 100\nrocksdb_db_flush_micros_count 1\n"));
        let gauges = "# TYPE rocksdb_num_files_at_level gauge\n\
                      rocksdb_num_files_at_level{family=\"default\",level=\"0\"} 4\n\
                      rocksdb_num_files_at_level{family=\"a\\\"b\\\\c\\nd\",level=\"0\"} 5\n";
        assert!(text.ends_with(gauges), "{text}");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let name = name.split('{').next().unwrap();
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{line}");
        }
    }
}
