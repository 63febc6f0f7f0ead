//! Writing the filter of a table.

use crate::options::{FilterPolicy, LEAST_FILTER_BITS, TableOptions};
use siltstone_base::bloom::{BloomBuild, BloomBuilder, false_rate, ribbon_block};
use siltstone_base::checksum::xxph3;
use siltstone_base::prefix_extractor::PrefixExtractor;
use siltstone_base::ribbon::{self, RibbonBuild, RibbonProgress};
use std::sync::Arc;

/// Above so many keys a ribbon filter is always smaller than the bloom filter of the same accuracy.
const SMALL_FILTER_KEYS: usize = 1024;

/// Gathers hashes of keys and makes filters of them.
#[derive(Debug)]
pub(crate) struct FilterBuilder {
    bloom: BloomBuilder,
    /// Makes ribbon filters that err once in so many answers, where that is possible.
    ribbon_one_in: Option<f64>,
    whole_keys: bool,
    prefixes: Option<Prefixes>,
    /// The filter that is being built.
    build: Option<FilterBuild>,
}

/// A filter that is built in pieces.
#[derive(Debug)]
enum FilterBuild {
    Bloom(BloomBuild),
    Ribbon(Box<RibbonBuild>),
}

/// Adds prefixes beside the keys. Both come in runs, so that each is compared with the one of its kind before.
#[derive(Debug)]
struct Prefixes {
    extractor: Arc<dyn PrefixExtractor>,
    last_key: Option<u64>,
    last_prefix: Option<u64>,
}

impl FilterBuilder {
    /// A builder for a table of `level` (-1: made by a flush); `None` if the policy has no filter for it, or nothing would be in it.
    pub(crate) fn new(options: &TableOptions, extractor: Option<Arc<dyn PrefixExtractor>>, level: i32) -> Option<Self> {
        let (bits_per_key, is_ribbon) = match options.filter_policy {
            FilterPolicy::None => return None,
            FilterPolicy::Bloom { bits_per_key } => (bits_per_key, false),
            FilterPolicy::Ribbon { bloom_equivalent_bits_per_key, bloom_before_level } => {
                (bloom_equivalent_bits_per_key, level >= bloom_before_level)
            }
        };
        let whole_keys = options.whole_key_filtering;
        if bits_per_key < LEAST_FILTER_BITS || (!whole_keys && extractor.is_none()) {
            return None;
        }
        let millibits = (bits_per_key * 1000.0).round() as u32;
        let ribbon_one_in = is_ribbon.then(|| 1.0 / false_rate(millibits));
        let prefixes = extractor.map(|extractor| Prefixes { extractor, last_key: None, last_prefix: None });
        Some(Self { bloom: BloomBuilder::new(millibits), ribbon_one_in, whole_keys, prefixes, build: None })
    }

    /// The name of a policy in the properties of a table that has a filter by it.
    pub(crate) fn policy_name(policy: FilterPolicy) -> &'static str {
        match policy {
            FilterPolicy::None => "",
            FilterPolicy::Bloom { .. } => "bloomfilter",
            FilterPolicy::Ribbon { .. } => "ribbonfilter",
        }
    }

    /// Adds a user key and its prefix. Keys ascend.
    #[inline]
    pub(crate) fn add(&mut self, user_key: &[u8]) {
        match &self.prefixes {
            None => self.bloom.add_hash(xxph3(user_key)),
            Some(_) => self.add_with_prefix(user_key),
        }
    }

    fn add_with_prefix(&mut self, user_key: &[u8]) {
        let Some(prefixes) = &mut self.prefixes else { return };
        if self.whole_keys {
            let hash = xxph3(user_key);
            if prefixes.last_key.replace(hash) != Some(hash) {
                self.bloom.add_hash(hash);
            }
        }
        if let Some(prefix) = prefixes.extractor.prefix(user_key) {
            let hash = xxph3(prefix);
            if prefixes.last_prefix.replace(hash) != Some(hash) {
                self.bloom.add_hash(hash);
            }
        }
    }

    /// Adds the prefix of a key without the key.
    pub(crate) fn add_prefix(&mut self, user_key: &[u8]) {
        let whole_keys = std::mem::replace(&mut self.whole_keys, false);
        self.add_with_prefix(user_key);
        self.whole_keys = whole_keys;
    }

    /// About the length of the filter of the keys so far.
    #[inline]
    pub(crate) fn finished_len(&self) -> usize {
        self.bloom.finished_len()
    }

    /// How many keys and prefixes there are, adjacent duplicates counted once.
    pub(crate) fn len(&self) -> usize {
        self.bloom.len()
    }

    /// Bytes of the hashes that it holds.
    pub(crate) fn memory_usage(&self) -> usize {
        self.bloom.memory_usage()
    }

    /// Whether there are no keys.
    pub(crate) fn is_empty(&self) -> bool {
        self.bloom.is_empty()
    }

    /// The filter block of the keys so far, which are forgotten.
    pub(crate) fn finish_and_reset(&mut self) -> Vec<u8> {
        loop {
            if let Some(block) = self.step(&mut || false) {
                return block;
            }
        }
    }

    /// Builds the filter block of the keys so far until `is_over`, which is asked now and then; `None` if it needs another step. No key is added between steps;
    /// once the block is there, all keys are forgotten.
    pub(crate) fn step(&mut self, is_over: &mut dyn FnMut() -> bool) -> Option<Vec<u8>> {
        loop {
            match self.build.take() {
                None => self.build = Some(self.begin()),
                Some(FilterBuild::Ribbon(mut build)) => match build.step(self.bloom.hashes(), is_over) {
                    RibbonProgress::More => {
                        self.build = Some(FilterBuild::Ribbon(build));
                        return None;
                    }
                    RibbonProgress::Done(ribbon) => {
                        self.forget();
                        return Some(ribbon_block(ribbon));
                    }
                    RibbonProgress::Impossible => self.build = Some(FilterBuild::Bloom(self.bloom.begin())),
                },
                Some(FilterBuild::Bloom(mut build)) => {
                    if !self.bloom.step(&mut build, is_over) {
                        self.build = Some(FilterBuild::Bloom(build));
                        return None;
                    }
                    self.forget();
                    return Some(build.into_block());
                }
            }
        }
    }

    fn begin(&self) -> FilterBuild {
        let one_in = self.ribbon_one_in.filter(|one_in| self.ribbon_is_smaller(*one_in));
        match one_in.and_then(|one_in| RibbonBuild::new(self.bloom.hashes(), one_in)) {
            Some(build) => FilterBuild::Ribbon(Box::new(build)),
            None => FilterBuild::Bloom(self.bloom.begin()),
        }
    }

    fn forget(&mut self) {
        self.bloom.clear();
        if let Some(prefixes) = &mut self.prefixes {
            (prefixes.last_key, prefixes.last_prefix) = (None, None);
        }
    }

    fn ribbon_is_smaller(&self, one_in: f64) -> bool {
        let keys = self.bloom.len();
        keys > SMALL_FILTER_KEYS || ribbon::finished_len(keys, one_in) < self.bloom.finished_len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_base::bloom::FilterKind;
    use siltstone_base::prefix_extractor::FixedPrefix;

    const RIBBON: FilterPolicy = FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: 10.0, bloom_before_level: 0 };

    fn builder(policy: FilterPolicy, level: i32) -> Option<FilterBuilder> {
        FilterBuilder::new(&TableOptions::default().filter_policy(policy), None, level)
    }

    fn build(policy: FilterPolicy, level: i32, keys: u64) -> (FilterKind, usize) {
        let mut builder = builder(policy, level).unwrap();
        (0..keys).for_each(|key| builder.add(&key.to_be_bytes()));
        let block = builder.finish_and_reset();
        assert!(builder.is_empty());
        let kind = FilterKind::parse(&block);
        assert!((0..keys).all(|key| kind.may_match(&block, xxph3(&key.to_be_bytes()))));
        (kind, block.len())
    }

    #[test]
    fn ribbon_filters_are_made_where_they_pay() {
        let is_ribbon = |level, keys| matches!(build(RIBBON, level, keys).0, FilterKind::Ribbon(_));
        assert!(is_ribbon(0, 5000));
        assert!(is_ribbon(6, 5000));
        assert!(!is_ribbon(-1, 5000), "a flush");
        assert!(!is_ribbon(0, 3), "too few keys");
        let always = FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: 10.0, bloom_before_level: -1 };
        assert!(matches!(build(always, -1, 5000).0, FilterKind::Ribbon(_)));
        let bloom = FilterPolicy::Bloom { bits_per_key: 10.0 };
        for keys in [1, 10, 100, 300, 1000, 1025, 5000] {
            assert!(build(RIBBON, 1, keys).1 <= build(bloom, 1, keys).1, "{keys} keys");
        }
    }

    #[test]
    fn a_filter_that_is_built_in_pieces_is_the_same() {
        let always = FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: 10.0, bloom_before_level: -1 };
        for policy in [always, FilterPolicy::Bloom { bits_per_key: 10.0 }] {
            for keys in [0_u64, 1, 8192, 50_000] {
                let mut at_once = builder(policy, 0).unwrap();
                (0..keys).for_each(|key| at_once.add(&key.to_be_bytes()));
                let mut in_pieces = builder(policy, 0).unwrap();
                (0..keys).for_each(|key| in_pieces.add(&key.to_be_bytes()));
                let mut steps = 1;
                let block = loop {
                    match in_pieces.step(&mut || true) {
                        Some(block) => break block,
                        None => steps += 1,
                    }
                };
                assert_eq!(block, at_once.finish_and_reset(), "{policy:?}, {keys} keys");
                assert!(in_pieces.is_empty() && steps > keys / 9000, "{steps} steps");
            }
        }
    }

    #[test]
    fn policies_without_enough_bits_have_no_filter() {
        for policy in [
            FilterPolicy::None,
            FilterPolicy::Bloom { bits_per_key: 0.4 },
            FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: 0.0, bloom_before_level: 0 },
        ] {
            assert!(builder(policy, 0).is_none());
        }
    }

    #[test]
    fn prefixes_are_added_beside_keys_or_instead() {
        let keys = [&b"a"[..], b"aa1", b"aa1", b"aa2", b"ab1", b"ab1"];
        for (whole_keys, len) in [(true, 6), (false, 2)] {
            let options = TableOptions::default().bloom_bits_per_key(20.0).whole_key_filtering(whole_keys);
            let extractor: Arc<dyn PrefixExtractor> = Arc::new(FixedPrefix::new(2));
            let mut builder = FilterBuilder::new(&options, Some(extractor), 0).unwrap();
            keys.iter().for_each(|key| builder.add(key));
            assert_eq!(builder.len(), len, "each key and each prefix once");
            let block = builder.finish_and_reset();
            let has = |key: &[u8]| FilterKind::parse(&block).may_match(&block, xxph3(key));
            assert!(has(b"aa") && has(b"ab") && !has(b"ac"));
            assert_eq!((has(b"a"), has(b"aa1"), has(b"ab1")), (whole_keys, whole_keys, whole_keys));
        }
        let neither = TableOptions::default().bloom_bits_per_key(20.0).whole_key_filtering(false);
        assert!(FilterBuilder::new(&neither, None, 0).is_none());
    }
}
