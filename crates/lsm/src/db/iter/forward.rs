//! Forward, to the next key with a value that is seen.

use super::covered::is_covered;
use super::{Direction, Iter};
use crate::db::ranges::seek_uncovered;
use crate::iterator::InternalIterator;
use crate::key::{LookupKey, ParsedKey, SEEK_TYPE, ValueType, pack_trailer};
use crate::metrics::{PerfTime, times};
use siltstone_base::Result;
use std::cmp::Ordering;

impl Iter {
    /// Puts `merged` on the first entry of `key` or a later one that the reader may see, and goes on to what is visible.
    #[inline]
    pub(super) fn seek_merged(&mut self, key: &[u8]) {
        let began = times::begin();
        match &mut self.ranges {
            None if self.timestamps.is_some() => {
                self.set_target(key, pack_trailer(self.newest, SEEK_TYPE));
                self.merged.seek(&self.target);
            }
            None => self.merged.seek(LookupKey::new(key, self.newest).internal_key()),
            Some(ranges) => {
                if let Err(error) = seek_uncovered(&mut self.merged, ranges, key, self.newest) {
                    return self.fail(error);
                }
            }
        }
        times::end(PerfTime::SeekInternalSeek, began);
        times::timed(PerfTime::FindNextUserEntry, || self.find_next_visible(false));
    }

    /// From a key that is kept to the next one.
    pub(super) fn next_of_kept(&mut self) {
        if self.direction == Direction::Forward {
            return self.find_next_visible(true);
        }
        self.direction = Direction::Forward;
        let key = std::mem::take(&mut self.key);
        self.set_target(&key, 0);
        self.merged.seek(&self.target);
        self.key = key;
        self.find_next_visible(true);
    }

    /// Goes forward from where `merged` stands to the first key with a visible value. With `skipping`, the versions of
    /// `key` are passed over first.
    #[inline]
    pub(super) fn find_next_visible(&mut self, mut skipping: bool) {
        self.valid = false;
        self.is_kept = false;
        while self.merged.valid() {
            let mut parsed = match ParsedKey::parse(self.merged.key()) {
                Ok(parsed) => parsed,
                Err(error) => return self.fail(error),
            };
            let mut is_late = false;
            if let Some(view) = &mut self.timestamps {
                match view.split(&mut parsed) {
                    Ok((timestamp, hides)) => (view.of_kept, is_late) = (timestamp, hides),
                    Err(error) => return self.fail(error),
                }
            }
            if let Some(bound) = &self.upper_bound
                && self.comparator.compare_user(parsed.user_key, bound) != Ordering::Less
            {
                return;
            }
            if let Some(walk) = &self.prefix_walk
                && !walk.includes(parsed.user_key)
            {
                return;
            }
            let hidden = self.is_too_new(parsed.seqno)
                || is_late
                || (skipping && self.comparator.compare_user(parsed.user_key, &self.key) == Ordering::Equal);
            if !hidden {
                match is_covered(&mut self.ranges, &parsed) {
                    Ok(false) => {}
                    Ok(true) => {
                        self.pass_covered();
                        continue;
                    }
                    Err(error) => return self.fail(error),
                }
                match parsed.value_type {
                    ValueType::Put => {
                        if let Some(expiry) = &mut self.expiry
                            && expiry.hides(parsed.user_key, self.merged.value())
                        {
                            self.key.clear();
                            self.key.extend_from_slice(parsed.user_key);
                            skipping = true;
                            self.merged.next();
                            continue;
                        }
                        self.valid = true;
                        return;
                    }
                    ValueType::Delete | ValueType::SingleDelete | ValueType::DeleteWithTimestamp => {
                        self.key.clear();
                        self.key.extend_from_slice(parsed.user_key);
                        skipping = true;
                    }
                    kind => {
                        self.key.clear();
                        self.key.extend_from_slice(parsed.user_key);
                        self.show_kept(kind);
                        if !self.hides_kept() {
                            return;
                        }
                        self.is_kept = false;
                        skipping = true;
                        continue;
                    }
                }
            }
            self.counts.skipped += 1;
            self.merged.next();
        }
        if let Err(error) = self.merged.status() {
            self.fail(error);
        }
    }

    /// Forward: shows what the entry at hand, of type `kind` and of the user key `key`, and older ones amount to.
    #[cold]
    fn show_kept(&mut self, kind: ValueType) {
        let made = match kind {
            ValueType::Merge => self.merge_forward(),
            other => self
                .resolver
                .value(&self.key, other, self.merged.value(), self.options.read_tier)
                .map(|value| value.unwrap_or_default().into_owned()),
        };
        match made {
            Ok(value) => {
                self.value = value;
                self.is_kept = true;
                self.valid = true;
            }
            Err(error) => self.fail(error),
        }
    }

    /// Merges the operands from the one at hand on, and leaves `merged` on the entry that they are merged into, or behind the key.
    fn merge_forward(&mut self) -> Result<Vec<u8>> {
        self.operands.clear();
        let mut base = None;
        while self.merged.valid() {
            let mut parsed = ParsedKey::parse(self.merged.key())?;
            if let Some(view) = &self.timestamps {
                view.split(&mut parsed)?;
            }
            if self.comparator.compare_user(parsed.user_key, &self.key) != Ordering::Equal {
                break;
            }
            // Among versions with timestamps, an older one may have a later number.
            if self.is_too_new(parsed.seqno) {
                self.merged.next();
                continue;
            }
            if is_covered(&mut self.ranges, &parsed)? {
                break;
            }
            match parsed.value_type {
                ValueType::Merge => self.operands.push(self.merged.value()),
                kind => {
                    base = Some((kind, self.merged.value()));
                    break;
                }
            }
            self.merged.next();
        }
        if !self.merged.valid() {
            self.merged.status()?;
        }
        self.resolver.merged(&self.key, base, &self.operands.reversed(), self.options.read_tier, &self.metrics)
    }
}
