//! The filter of a table: which user keys it may have.

use siltstone_base::bloom::{BloomBuilder, FilterKind};

/// Key of the metaindex under which RocksDB stores a filter of the whole table.
pub(crate) const FULL_FILTER: &str = "fullfilter.rocksdb.BuiltinBloomFilter";

/// The name of the policy in a table's properties.
pub(crate) const POLICY_NAME: &str = "bloomfilter";

/// A builder of a filter with `bits_per_key`; `None` if that is not enough for one.
pub(crate) fn filter_builder(bits_per_key: f64) -> Option<BloomBuilder> {
    (bits_per_key >= 0.5).then(|| BloomBuilder::new((bits_per_key * 1000.0).round() as u32))
}

/// A filter as stored.
#[derive(Debug)]
pub(crate) struct FilterBlock {
    data: Vec<u8>,
    kind: FilterKind,
}

impl FilterBlock {
    /// Takes the bytes of a filter block. A kind that is not known matches every key.
    pub(crate) fn new(data: Vec<u8>) -> Self {
        let kind = FilterKind::parse(&data);
        Self { data, kind }
    }

    /// Whether the table may have `user_key`. `hash` is its XXPH3 hash, if the caller made it already.
    #[inline]
    pub(crate) fn may_match(&self, user_key: &[u8], hash: Option<u64>) -> bool {
        let hash = match hash {
            Some(hash) if !self.kind.needs_own_hash() => hash,
            _ => self.kind.hash_key(user_key),
        };
        self.kind.may_match(&self.data, hash)
    }

    /// The bytes of memory that the filter takes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.data.capacity()
    }
}
