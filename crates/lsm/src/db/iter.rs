//! The user's iterator: what is visible at one sequence number, in both directions.

use super::column_family::Family;
use super::read::unsupported_entry;
use super::state::DbInner;
use super::super_version::SuperVersion;
use crate::iterator::{ChildIter, InternalIterator, MergingIter};
use crate::key::{InternalKeyComparator, LookupKey, MAX_SEQNO, ParsedKey, SEEK_TYPE, SeqNo, ValueType, pack_trailer};
use crate::metrics::{Counter, Metrics};
use crate::options::ReadOptions;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::cmp::Ordering;

/// Walks the live keys of a column family in order, as of the moment it was made or of its snapshot.
///
/// A new iterator is not positioned. When a movement leaves it without an entry, [`status`](Self::status) tells the end of
/// the data from an error. It pins memtables and files until it is dropped.
///
/// Inside: `merged` yields internal entries of all sources, newest version first within a key. Going forward, `merged`
/// stands on the entry that is shown. Going backward, it stands before all versions of the key that is shown, which is
/// kept in `key` and `value`.
pub struct Iter {
    merged: MergingIter<ChildIter>,
    comparator: InternalKeyComparator,
    seqno: SeqNo,
    lower_bound: Option<Vec<u8>>,
    upper_bound: Option<Vec<u8>>,
    direction: Direction,
    valid: bool,
    /// Forward: the user key whose remaining versions are skipped. Backward: the key that is shown.
    key: Vec<u8>,
    /// Backward: the value that is shown.
    value: Vec<u8>,
    error: Option<Error>,
    /// Scratch for seeks.
    target: Vec<u8>,
    seeks: u64,
    steps: u64,
    metrics: Arc<Metrics>,
    /// Keeps memtables and files.
    _pinned: Arc<SuperVersion>,
}

impl Drop for Iter {
    fn drop(&mut self) {
        self.metrics.add_all([(Counter::IterSeeks, self.seeks), (Counter::IterSteps, self.steps)]);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

impl DbInner {
    /// An iterator over `family`.
    pub(crate) fn iter(&self, family: &Family, options: &ReadOptions) -> Result<Iter> {
        self.check_readable(family)?;
        let pinned = family.super_version.load_full();
        let seqno = self.read_seqno(options)?;
        self.iter_pinned(family, pinned, seqno, options)
    }

    /// Iterators over several families that show the same moment.
    pub(crate) fn iters(&self, families: &[&Family], options: &ReadOptions) -> Result<Vec<Iter>> {
        for family in families {
            self.check_readable(family)?;
        }
        let (pins, seqno) = self.pin_families(families, options)?;
        let pairs = families.iter().zip(pins);
        pairs.map(|(family, pinned)| self.iter_pinned(family, pinned, seqno, options)).collect()
    }

    fn iter_pinned(
        &self,
        family: &Family,
        pinned: Arc<SuperVersion>,
        seqno: SeqNo,
        options: &ReadOptions,
    ) -> Result<Iter> {
        let mut children = vec![ChildIter::Memtable(pinned.memtable.iter())];
        children.extend(pinned.immutables.newest_first().iter().map(|memtable| ChildIter::Memtable(memtable.iter())));
        pinned.version.add_iterators(&family.table_cache, options, &mut children)?;
        Ok(Iter {
            merged: MergingIter::new(family.comparator.clone(), children),
            comparator: family.comparator.clone(),
            seqno,
            lower_bound: options.iterate_lower_bound.clone(),
            upper_bound: options.iterate_upper_bound.clone(),
            direction: Direction::Forward,
            valid: false,
            key: Vec::new(),
            value: Vec::new(),
            error: None,
            target: Vec::new(),
            seeks: 0,
            steps: 0,
            metrics: Arc::clone(&self.metrics),
            _pinned: pinned,
        })
    }
}

impl Iter {
    /// Whether the iterator stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The error that made the iterator stop, if one did.
    pub fn status(&self) -> Result<()> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// The key. Empty unless [`valid`](Self::valid).
    #[inline]
    pub fn key(&self) -> &[u8] {
        match (self.valid, self.direction) {
            (false, _) => &[],
            (true, Direction::Forward) => crate::key::user_key(self.merged.key()),
            (true, Direction::Backward) => &self.key,
        }
    }

    /// The value. Empty unless [`valid`](Self::valid).
    #[inline]
    pub fn value(&self) -> &[u8] {
        match (self.valid, self.direction) {
            (false, _) => &[],
            (true, Direction::Forward) => self.merged.value(),
            (true, Direction::Backward) => &self.value,
        }
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) {
        self.start(Direction::Forward);
        match &self.lower_bound {
            Some(bound) => self.merged.seek(LookupKey::new(bound, self.seqno).internal_key()),
            None => self.merged.seek_to_first(),
        }
        self.find_next_visible(false);
    }

    /// Moves to the first key at or after `key`.
    pub fn seek(&mut self, key: &[u8]) {
        self.start(Direction::Forward);
        let bounded = match &self.lower_bound {
            Some(bound) if self.comparator.compare_user(key, bound) == Ordering::Less => bound,
            _ => key,
        };
        self.merged.seek(LookupKey::new(bounded, self.seqno).internal_key());
        self.find_next_visible(false);
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) {
        self.start(Direction::Backward);
        match self.upper_bound.take() {
            Some(bound) => {
                self.seek_before(&bound);
                self.upper_bound = Some(bound);
            }
            None => self.merged.seek_to_last(),
        }
        self.find_previous_visible();
    }

    /// Moves to the last key at or before `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) {
        if let Some(bound) = &self.upper_bound
            && self.comparator.compare_user(key, bound) != Ordering::Less
        {
            return self.seek_to_last();
        }
        self.start(Direction::Backward);
        // The last possible entry of the key: its oldest version.
        self.set_target(key, 0);
        self.merged.seek_for_prev(&self.target);
        self.find_previous_visible();
    }

    /// Moves to the next key. Does nothing unless [`valid`](Self::valid).
    #[inline]
    pub fn next(&mut self) {
        if !self.valid {
            return;
        }
        self.steps += 1;
        if self.direction == Direction::Backward {
            return self.turn_forward();
        }
        let key = crate::key::user_key(self.merged.key());
        self.key.clear();
        self.key.extend_from_slice(key);
        self.merged.next();
        self.find_next_visible(true);
    }

    /// Moves to the previous key. Does nothing unless [`valid`](Self::valid).
    pub fn prev(&mut self) {
        if !self.valid {
            return;
        }
        self.steps += 1;
        if self.direction == Direction::Forward {
            let key = crate::key::user_key(self.merged.key());
            self.key.clear();
            self.key.extend_from_slice(key);
            self.direction = Direction::Backward;
            let key = std::mem::take(&mut self.key);
            self.seek_before(&key);
            self.key = key;
        }
        self.find_previous_visible();
    }

    fn start(&mut self, direction: Direction) {
        self.seeks += 1;
        self.direction = direction;
        self.valid = false;
        self.error = None;
        self.key.clear();
    }

    /// From a key shown backward to the next one.
    fn turn_forward(&mut self) {
        self.direction = Direction::Forward;
        let key = std::mem::take(&mut self.key);
        self.set_target(&key, 0);
        self.merged.seek(&self.target);
        self.key = key;
        self.find_next_visible(true);
    }

    /// Sets `target` to the internal key of `key` with `trailer`.
    fn set_target(&mut self, key: &[u8], trailer: u64) {
        self.target.clear();
        self.target.extend_from_slice(key);
        self.target.extend_from_slice(&trailer.to_le_bytes());
    }

    /// Puts `merged` on the last entry of any key before `key`.
    fn seek_before(&mut self, key: &[u8]) {
        self.set_target(key, pack_trailer(MAX_SEQNO, SEEK_TYPE));
        self.merged.seek_for_prev(&self.target);
    }

    /// Goes forward from where `merged` stands to the first key with a visible value. With `skipping`, the versions of
    /// `key` are passed over first.
    #[inline]
    fn find_next_visible(&mut self, mut skipping: bool) {
        self.valid = false;
        while self.merged.valid() {
            let parsed = match ParsedKey::parse(self.merged.key()) {
                Ok(parsed) => parsed,
                Err(error) => return self.fail(error),
            };
            if let Some(bound) = &self.upper_bound
                && self.comparator.compare_user(parsed.user_key, bound) != Ordering::Less
            {
                return;
            }
            let hidden = parsed.seqno > self.seqno
                || (skipping && self.comparator.compare_user(parsed.user_key, &self.key) == Ordering::Equal);
            if !hidden {
                match parsed.value_type {
                    ValueType::Put => {
                        self.valid = true;
                        return;
                    }
                    ValueType::Delete | ValueType::SingleDelete => {
                        self.key.clear();
                        self.key.extend_from_slice(parsed.user_key);
                        skipping = true;
                    }
                    other => return self.fail(unsupported_entry(other)),
                }
            }
            self.merged.next();
        }
        if let Err(error) = self.merged.status() {
            self.fail(error);
        }
    }

    /// Goes backward from where `merged` stands to the last key with a visible value, and leaves `merged` before all of
    /// its versions.
    fn find_previous_visible(&mut self) {
        self.valid = false;
        // Whether `key` and `value` hold the newest visible version seen so far of the key being passed.
        let mut found = false;
        let mut passing = false;
        while self.merged.valid() {
            let parsed = match ParsedKey::parse(self.merged.key()) {
                Ok(parsed) => parsed,
                Err(error) => return self.fail(error),
            };
            let same = passing && self.comparator.compare_user(parsed.user_key, &self.key) == Ordering::Equal;
            if !same {
                if found {
                    break;
                }
                if let Some(bound) = &self.lower_bound
                    && self.comparator.compare_user(parsed.user_key, bound) == Ordering::Less
                {
                    break;
                }
                passing = true;
                self.key.clear();
                self.key.extend_from_slice(parsed.user_key);
            }
            // Versions come oldest first: each visible one replaces what was found.
            if parsed.seqno <= self.seqno {
                match parsed.value_type {
                    ValueType::Put => {
                        found = true;
                        self.value.clear();
                        self.value.extend_from_slice(self.merged.value());
                    }
                    ValueType::Delete | ValueType::SingleDelete => found = false,
                    other => return self.fail(unsupported_entry(other)),
                }
            }
            self.merged.prev();
        }
        if let Err(error) = self.merged.status() {
            return self.fail(error);
        }
        self.valid = found;
    }

    #[cold]
    fn fail(&mut self, error: Error) {
        self.valid = false;
        self.error = Some(error);
    }
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("seqno", &self.seqno).field("valid", &self.valid).finish_non_exhaustive()
    }
}
