//! Backward, to the key before with a value that is seen.

use super::Iter;
use super::covered::is_covered;
use crate::iterator::InternalIterator;
use crate::key::{MAX_SEQNO, ParsedKey, SEEK_TYPE, ValueType, pack_trailer};
use std::cmp::Ordering;

impl Iter {
    /// Puts `merged` on the last entry of any key before `key`.
    pub(super) fn seek_before(&mut self, key: &[u8]) {
        self.set_target(key, pack_trailer(MAX_SEQNO, SEEK_TYPE));
        self.merged.seek_for_prev(&self.target);
    }

    /// Goes backward from where `merged` stands to the last key with a visible value that is not expired, and leaves `merged` before all of
    /// its versions.
    pub(super) fn find_previous_visible(&mut self) {
        self.find_previous_value();
        while self.hides_kept() {
            self.find_previous_value();
        }
    }

    /// The same, whether or not it is expired.
    fn find_previous_value(&mut self) {
        self.valid = false;
        self.is_kept = true;
        self.operands.clear();
        // The type of the newest visible version seen so far, but for operands, of the key being passed; `key` and `value` hold it.
        let mut found = None;
        let mut passing = false;
        while self.merged.valid() {
            let mut parsed = match ParsedKey::parse(self.merged.key()) {
                Ok(parsed) => parsed,
                Err(error) => return self.fail(error),
            };
            let (mut timestamp, mut is_late) = (0, false);
            if let Some(view) = &self.timestamps {
                match view.split(&mut parsed) {
                    Ok(split) => (timestamp, is_late) = split,
                    Err(error) => return self.fail(error),
                }
            }
            let same = passing && self.comparator.compare_user(parsed.user_key, &self.key) == Ordering::Equal;
            if !same {
                if found.is_some() || !self.operands.is_empty() {
                    break;
                }
                if let Some(bound) = &self.lower_bound
                    && self.comparator.compare_user(parsed.user_key, bound) == Ordering::Less
                {
                    break;
                }
                if let Some(walk) = &self.prefix_walk
                    && !walk.includes(parsed.user_key)
                {
                    break;
                }
                passing = true;
                self.key.clear();
                self.key.extend_from_slice(parsed.user_key);
            }
            // Versions come oldest first: each visible one replaces what was found.
            if !self.is_too_new(parsed.seqno) && !is_late {
                if let Some(view) = &mut self.timestamps {
                    view.of_kept = timestamp;
                }
                match is_covered(&mut self.ranges, &parsed) {
                    Ok(false) => {}
                    // Older versions, which came before, are covered too.
                    Ok(true) => {
                        self.pass_covered();
                        continue;
                    }
                    Err(error) => return self.fail(error),
                }
                match parsed.value_type {
                    ValueType::Merge => self.operands.push(self.merged.value()),
                    ValueType::Delete | ValueType::SingleDelete | ValueType::DeleteWithTimestamp => {
                        found = None;
                        self.operands.clear();
                    }
                    kind => {
                        found = Some(kind);
                        self.operands.clear();
                        self.value.clear();
                        self.value.extend_from_slice(self.merged.value());
                    }
                }
            }
            self.merged.prev();
        }
        if let Err(error) = self.merged.status() {
            return self.fail(error);
        }
        match found {
            Some(ValueType::Put) if self.operands.is_empty() => self.valid = true,
            None if self.operands.is_empty() => {}
            base => self.resolve_kept(base),
        }
    }

    /// Backward: replaces `value`, an entry of type `base`, by what it and the operands over it amount to.
    #[cold]
    fn resolve_kept(&mut self, base: Option<ValueType>) {
        let base = base.map(|kind| (kind, self.value.as_slice()));
        let made = match base {
            Some((kind, stored)) if self.operands.is_empty() => self
                .resolver
                .value(&self.key, kind, stored, self.options.read_tier)
                .map(|value| value.unwrap_or_default().into_owned()),
            _ => {
                self.resolver.merged(&self.key, base, &self.operands.in_order(), self.options.read_tier, &self.metrics)
            }
        };
        match made {
            Ok(value) => {
                self.value = value;
                self.valid = true;
            }
            Err(error) => self.fail(error),
        }
    }
}
