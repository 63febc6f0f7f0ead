//! Collects the stamps of each table that is written.

use super::histogram::HistogramBuilder;
use super::{STAMPS_PROPERTY, judged};
use crate::key::ColumnFamilyId;
use crate::sst::{CollectedEntry, TablePropertiesCollector, TablePropertiesCollectorFactory};
use siltstone_base::expiry::ExpiryPolicy;
use siltstone_base::sync::Arc;

/// Makes a collector of stamps for each table of a family whose rows expire.
#[derive(Debug)]
pub(crate) struct StampCollectors(pub(crate) Arc<dyn ExpiryPolicy>);

impl TablePropertiesCollectorFactory for StampCollectors {
    fn name(&self) -> &str {
        STAMPS_PROPERTY
    }

    fn collector(&self, _: ColumnFamilyId) -> Box<dyn TablePropertiesCollector> {
        let builder = HistogramBuilder::new(self.0.name());
        Box::new(StampCollector { policy: Arc::clone(&self.0), builder })
    }
}

#[derive(Debug)]
struct StampCollector {
    policy: Arc<dyn ExpiryPolicy>,
    builder: HistogramBuilder,
}

impl TablePropertiesCollector for StampCollector {
    fn add(&mut self, entry: &CollectedEntry<'_>) {
        // Whatever is no value stays: tombstones hide something, and the rest has its value elsewhere.
        let value = judged(entry.value_type, entry.value);
        let stamp = value.and_then(|value| self.policy.stamp(entry.user_key, value));
        self.builder.add(stamp, entry.user_key.len() + entry.value.len());
    }

    fn finish(self: Box<Self>) -> Vec<(String, Vec<u8>)> {
        let histogram = self.builder.finish();
        histogram.map(|histogram| (STAMPS_PROPERTY.to_owned(), histogram.encode())).into_iter().collect()
    }
}
