//! Walks that stay among the keys of one prefix: where they end, and what they need not look into.

use super::iter::Iter;
use crate::iterator::ChildIter;
use crate::options::{ColumnFamilyOptions, ReadOptions};
use siltstone_base::checksum::xxph3;
use siltstone_base::comparator::Comparator;
use siltstone_base::prefix_extractor::PrefixExtractor;
use siltstone_base::sync::Arc;

/// What an iterator knows of prefixes. Only iterators whose options ask for it have one.
///
/// Two modes: a *limited* walk ends where the prefix of its start ends, and can ask filters in both directions. An *automatic* one is not
/// limited, and asks filters only while its upper bound keeps it within the prefix: forward, from the key that was sought.
#[derive(Debug)]
pub(super) struct PrefixWalk {
    extractor: Arc<dyn PrefixExtractor>,
    comparator: Arc<dyn Comparator>,
    is_limited: bool,
    asks_filters: bool,
    /// The prefix that a limited walk stays in; `None` if it began at a key without one.
    limit: Option<Vec<u8>>,
    /// Whether the sources were told a prefix.
    has_told: bool,
}

impl PrefixWalk {
    /// `None` if prefixes play no part for these options.
    pub(super) fn new(family: &ColumnFamilyOptions, options: &ReadOptions) -> Option<Box<Self>> {
        let extractor = family.prefix_extractor.as_ref()?;
        let is_limited = options.prefix_same_as_start;
        let asks_filters = !options.total_order_seek && (is_limited || options.auto_prefix_mode);
        if family.comparator.equal_may_differ() || !(is_limited || asks_filters) {
            return None;
        }
        Some(Box::new(Self {
            extractor: Arc::clone(extractor),
            comparator: Arc::clone(&family.comparator),
            is_limited,
            asks_filters,
            limit: None,
            has_told: false,
        }))
    }

    /// Begins a walk at `key`; returns the hash of the prefix that filters can be asked for.
    fn begin(&mut self, key: &[u8], upper_bound: Option<&[u8]>, is_forward: bool) -> Option<u64> {
        let prefix = self.extractor.prefix(key);
        self.limit = prefix.filter(|_| self.is_limited).map(<[u8]>::to_vec);
        let keeps = |prefix: &&[u8]| {
            self.is_limited || (is_forward && upper_bound.is_some_and(|bound| self.keeps_within(prefix, bound)))
        };
        prefix.filter(|_| self.asks_filters).filter(keeps).map(xxph3)
    }

    /// Whether every key from one of `prefix` up to `bound`, which is excluded, has that prefix.
    fn keeps_within(&self, prefix: &[u8], bound: &[u8]) -> bool {
        if self.extractor.prefix(bound) == Some(prefix) {
            return true;
        }
        // Or `bound` is the first key behind all that begin with the prefix. A last byte ff has no successor of the same length: then shorter keys lie between.
        let is_next = match (prefix.split_last(), bound.split_last()) {
            (Some((last, front)), Some((bound_last, bound_front))) => {
                front == bound_front && last.checked_add(1) == Some(*bound_last)
            }
            _ => false,
        };
        is_next && self.comparator.is_bytewise() && self.extractor.full_len() == Some(prefix.len())
    }

    /// Whether a walk may show `key`.
    pub(super) fn includes(&self, key: &[u8]) -> bool {
        self.limit.as_ref().is_none_or(|limit| self.extractor.prefix(key) == Some(limit))
    }
}

impl Iter {
    /// Begins a walk at `key`. REQUIRES: a seek follows.
    #[inline(never)]
    pub(super) fn begin_prefix_walk(&mut self, key: &[u8], is_forward: bool) {
        let Some(walk) = &mut self.prefix_walk else { return };
        let hash = walk.begin(key, self.upper_bound.as_deref(), is_forward);
        self.tell_sources(hash);
    }

    /// Begins a walk at the first or last key. REQUIRES: a movement there follows.
    #[inline(never)]
    pub(super) fn begin_at_an_end(&mut self) {
        if let Some(walk) = &mut self.prefix_walk {
            walk.limit = None;
            self.tell_sources(None);
        }
    }

    /// Limits a walk that began at an end to the prefix of the key that it found.
    #[inline(never)]
    pub(super) fn limit_to_current(&mut self) {
        if !self.valid() {
            return;
        }
        let prefix = self.prefix_walk.as_ref().filter(|walk| walk.is_limited);
        let limit = prefix.and_then(|walk| walk.extractor.prefix(self.key())).map(<[u8]>::to_vec);
        if let Some(walk) = &mut self.prefix_walk {
            walk.limit = limit;
        }
    }

    /// Prepares for going back from a key that was sought forward: nothing keeps that within a prefix, unless the walk is limited. REQUIRES: a seek follows.
    #[inline(never)]
    pub(super) fn turn_prefix_walk_back(&mut self) {
        if self.prefix_walk.as_ref().is_some_and(|walk| !walk.is_limited) {
            self.tell_sources(None);
        }
    }

    /// Tells all sources the prefix whose keys are sought; `None`: all keys are.
    fn tell_sources(&mut self, prefix: Option<u64>) {
        let Some(walk) = &mut self.prefix_walk else { return };
        if prefix.is_none() && !walk.has_told {
            return;
        }
        walk.has_told = prefix.is_some();
        // A batch's own entries, if there are any, come before all others.
        let pinned = &self.pinned;
        let mut memtables = std::iter::once(&pinned.memtable).chain(pinned.immutables.newest_first());
        for child in self.merged.children_mut().iter_mut().skip(self.own_sources) {
            child.set_prefix(prefix);
            if let ChildIter::Memtable(iter) = child {
                // They come first among the sources, in this order.
                let memtable = memtables.next();
                iter.set_skipped(
                    prefix.zip(memtable).is_some_and(|(prefix, memtable)| !memtable.may_have_prefix(prefix)),
                );
            }
        }
    }
}
