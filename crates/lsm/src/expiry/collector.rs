//! Collects the stamps of each table that is written.

use super::block_stamps::{BLOCK_STAMPS_PROPERTY, BlockStampsBuilder};
use super::histogram::HistogramBuilder;
use super::{STAMPS_PROPERTY, judged};
use crate::key::ValueType;
use siltstone_base::expiry::ExpiryPolicy;
use siltstone_base::sync::Arc;

/// Collects the stamps of one table of a family whose rows expire.
#[derive(Debug)]
pub(crate) struct StampCollector {
    policy: Arc<dyn ExpiryPolicy>,
    rows: HistogramBuilder,
    blocks: BlockStampsBuilder,
}

impl StampCollector {
    /// The name under which tables list it among those who collected properties.
    pub(crate) const NAME: &str = STAMPS_PROPERTY;

    /// Of a table without entries so far.
    pub(crate) fn new(policy: Arc<dyn ExpiryPolicy>) -> Self {
        let rows = HistogramBuilder::new(policy.name());
        Self { policy, rows, blocks: BlockStampsBuilder::default() }
    }

    /// Looks at an entry. Entries come in the order of the table.
    pub(crate) fn add(&mut self, user_key: &[u8], value_type: ValueType, stored: &[u8]) {
        // Whatever is no value stays: tombstones hide something, and the rest has its value elsewhere.
        let value = judged(value_type, stored);
        let stamp = value.and_then(|value| self.policy.stamp(user_key, value));
        self.rows.add(stamp, user_key.len() + stored.len());
        self.blocks.add(stamp);
    }

    /// Ends a data block, behind the entry that was added last. `goes_on` says that the next block begins with an older version of its key.
    pub(crate) fn end_block(&mut self, goes_on: bool) {
        self.blocks.end_block(goes_on);
    }

    /// The properties, at the end of the table. `block_ends` are the offsets behind its data blocks.
    pub(crate) fn finish(self, block_ends: impl Iterator<Item = u64>) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
        let rows = self.rows.finish().map(|rows| (STAMPS_PROPERTY, rows.encode()));
        let blocks = self.blocks.finish(self.policy.name(), block_ends);
        rows.into_iter().chain(blocks.map(|blocks| (BLOCK_STAMPS_PROPERTY, blocks.encode())))
    }
}
