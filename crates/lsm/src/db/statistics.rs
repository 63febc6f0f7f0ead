//! What is counted, put together: the database's own counters, those of its block cache, and the state of its families.

use super::state::DbInner;
use crate::event::StallCause;
use crate::metrics::{Counter, Gauge, HistogramKind, Property, Statistics, prometheus_text};
use crate::sst::CachedKind;

impl DbInner {
    /// All counters and distributions at this moment.
    pub(crate) fn statistics(&self) -> Statistics {
        let counters = self.metrics.counters();
        let (cache, tier) = (self.block_cache.stats(), self.block_cache.compressed_stats());
        let stalls = StallCause::ALL.into_iter().map(|cause| counters.get(Counter::stall_micros(cause))).sum();
        let [data, index, filter] =
            [CachedKind::Data, CachedKind::Index, CachedKind::Filter].map(|kind| self.block_cache.kind_stats(kind));
        let (hits, misses) = (cache.hits.saturating_add(tier.hits), cache.misses.saturating_sub(tier.hits));
        let misses_of_tables = Counter::GET_PLACES.iter().map(|place| counters.get(*place)).sum();
        let (batches, groups) = (counters.get(Counter::WriteBatches), counters.get(Counter::WriteGroups));
        let others = [
            ("rocksdb.stall.micros", stalls),
            ("rocksdb.memtable.miss", misses_of_tables),
            ("rocksdb.write.self", groups),
            ("rocksdb.write.other", batches.saturating_sub(groups)),
            // As in RocksDB, what the tier of compressed blocks has is a hit.
            ("rocksdb.block.cache.hit", hits),
            ("rocksdb.block.cache.miss", misses),
            ("rocksdb.block.cache.add", cache.inserts),
            ("rocksdb.block.cache.add.failures", cache.rejections),
            ("rocksdb.block.cache.bytes.write", data.inserted_bytes + index.inserted_bytes + filter.inserted_bytes),
            // What is no partition is a data block.
            ("rocksdb.block.cache.data.hit", hits.saturating_sub(index.hits + filter.hits)),
            ("rocksdb.block.cache.data.miss", misses.saturating_sub(index.misses + filter.misses)),
            ("rocksdb.block.cache.data.add", data.inserts),
            ("rocksdb.block.cache.data.bytes.insert", data.inserted_bytes),
            ("rocksdb.block.cache.index.hit", index.hits),
            ("rocksdb.block.cache.index.miss", index.misses),
            ("rocksdb.block.cache.index.add", index.inserts),
            ("rocksdb.block.cache.index.bytes.insert", index.inserted_bytes),
            ("rocksdb.block.cache.filter.hit", filter.hits),
            ("rocksdb.block.cache.filter.miss", filter.misses),
            ("rocksdb.block.cache.filter.add", filter.inserts),
            ("rocksdb.block.cache.filter.bytes.insert", filter.inserted_bytes),
            ("siltstone.block.cache.evictions", cache.evictions),
            ("rocksdb.secondary.cache.hits", tier.hits),
            // It holds nothing else.
            ("rocksdb.secondary.cache.data.hits", tier.hits),
            ("rocksdb.compressed.secondary.cache.hits", tier.hits),
        ];
        Statistics::new(&counters, others, self.metrics.histograms())
    }

    /// The same, and the properties of all families that are numbers, as Prometheus reads them.
    pub(crate) fn prometheus_text(&self) -> String {
        prometheus_text(&self.statistics(), &self.gauges())
    }

    /// The same for the recorder of the program.
    #[cfg(feature = "metrics")]
    pub(crate) fn publish_metrics(&self) {
        crate::metrics::publish(&self.statistics(), &self.gauges());
    }

    /// The properties of all families that are numbers and cost little. Those of one name follow each other.
    fn gauges(&self) -> Vec<Gauge> {
        let families = self.families.load();
        let mut gauges = Vec::new();
        for property in Property::ALL.iter().filter(|property| !property.is_text() && !property.is_costly()) {
            for family in families.values() {
                let mut labels = vec![("family", family.name.clone())];
                if property.is_of_database() {
                    labels.clear();
                }
                let value = self.number_property(family, *property);
                gauges.push(Gauge { name: property.name(), labels, value });
                if property.is_of_database() {
                    break;
                }
            }
        }
        for family in families.values() {
            let version = siltstone_base::sync::Arc::clone(&family.super_version.load().version);
            for level in 0..version.num_levels() {
                let labels = vec![("family", family.name.clone()), ("level", level.to_string())];
                let value = version.files(level).len() as u64;
                gauges.push(Gauge { name: "rocksdb.num-files-at-level".to_owned(), labels, value });
            }
        }
        gauges
    }

    /// Does `operation`, and counts how long it took where operations are timed.
    #[inline]
    pub(crate) fn timed<T>(&self, kind: HistogramKind, operation: impl FnOnce() -> T) -> T {
        if !self.metrics.times_operations() {
            return operation();
        }
        let started = self.clock.now_micros();
        let outcome = operation();
        self.metrics.record(kind, self.clock.now_micros().saturating_sub(started));
        outcome
    }
}
