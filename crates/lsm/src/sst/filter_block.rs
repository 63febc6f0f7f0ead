//! The filter of a table: which user keys, and which prefixes of keys, it may have.

use super::properties::TableProperties;
use siltstone_base::bloom::FilterKind;
use siltstone_base::comparator::Comparator;
use siltstone_base::prefetch::LineAligned;
use siltstone_base::prefix_extractor::PrefixExtractor;
use std::sync::Arc;

/// Key of the metaindex under which RocksDB stores a filter of the whole table.
pub(crate) const FULL_FILTER: &str = "fullfilter.rocksdb.BuiltinBloomFilter";

/// What a table's filter can be asked for.
#[derive(Debug, Clone)]
pub(crate) struct FilterContent {
    /// User keys.
    whole_keys: bool,
    /// Prefixes that this extractor yields.
    prefixes: Option<Arc<dyn PrefixExtractor>>,
}

impl FilterContent {
    /// What the properties of a table say; `None` if the filter is of no use under this order and with this extractor.
    pub(crate) fn of(
        properties: &TableProperties,
        comparator: &dyn Comparator,
        extractor: Option<&Arc<dyn PrefixExtractor>>,
    ) -> Option<Self> {
        if comparator.equal_may_differ() {
            return None;
        }
        let is_same = |extractor: &&Arc<dyn PrefixExtractor>| {
            properties.prefix_filtering && extractor.name() == properties.prefix_extractor
        };
        let content =
            Self { whole_keys: properties.whole_key_filtering, prefixes: extractor.filter(is_same).map(Arc::clone) };
        (content.whole_keys || content.prefixes.is_some()).then_some(content)
    }
}

impl FilterContent {
    /// Whether it has user keys.
    pub(crate) fn has_whole_keys(&self) -> bool {
        self.whole_keys
    }

    /// Whether it has prefixes.
    pub(crate) fn has_prefixes(&self) -> bool {
        self.prefixes.is_some()
    }

    /// The prefix of a user key, as far as it would be here.
    pub(crate) fn prefix<'a>(&self, user_key: &'a [u8]) -> Option<&'a [u8]> {
        self.prefixes.as_ref().and_then(|extractor| extractor.prefix(user_key))
    }
}

/// A filter as stored.
#[derive(Debug)]
pub(crate) struct FilterBlock {
    /// The probes of a key are in one cache line.
    data: LineAligned,
    kind: FilterKind,
    content: FilterContent,
}

impl FilterBlock {
    /// Takes the bytes of a filter block. A kind that is not known matches every key.
    pub(crate) fn new(data: &[u8], content: FilterContent) -> Self {
        Self { data: LineAligned::new(data), kind: FilterKind::parse(data), content }
    }

    /// Whether the table may have `user_key`. `hash` is its XXPH3 hash, if the caller made it already.
    #[inline]
    pub(crate) fn may_match(&self, user_key: &[u8], hash: Option<u64>) -> bool {
        if !self.content.whole_keys {
            return self.may_match_prefix_of(user_key);
        }
        let hash = match hash {
            Some(hash) if !self.kind.needs_own_hash() => hash,
            _ => self.kind.hash_key(user_key),
        };
        self.kind.may_match(&self.data, hash)
    }

    /// Asks for the memory that [`may_match`](Self::may_match) reads for a key of this hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if self.content.whole_keys {
            self.kind.prefetch(&self.data, hash);
        }
    }

    /// Whether the table may have a key of the prefix of `user_key`.
    #[cold]
    fn may_match_prefix_of(&self, user_key: &[u8]) -> bool {
        let prefix = self.content.prefix(user_key);
        prefix.is_none_or(|prefix| self.kind.may_match(&self.data, self.kind.hash_key(prefix)))
    }

    /// Whether the table may have a key of the prefix whose XXPH3 hash is `hash`.
    pub(crate) fn may_match_prefix(&self, hash: u64) -> bool {
        self.content.prefixes.is_none() || self.kind.needs_own_hash() || self.kind.may_match(&self.data, hash)
    }

    /// The bytes of memory that the filter takes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.data.memory_usage()
    }
}
