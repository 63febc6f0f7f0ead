//! The drop rules: what becomes of each entry that a compaction reads.
//!
//! Snapshots cut the sequence numbers into stripes: nobody can tell two states apart that lie in one stripe. Entries of a key come newest
//! first.
//!
//! 1. Of one key and stripe only the newest entry counts; older ones are hidden and dropped. A merge operand hides nothing, because it
//!    needs what is older. A single delete is hidden by a tombstone only: an older value beneath may still wait for it.
//! 2. A tombstone with no older entry of its key, neither among the inputs nor beneath the outputs, is dropped.
//! 3. A single delete and the value right behind it in the same stripe drop each other. A single delete right before a tombstone, or before
//!    another single delete, of the same stripe is dropped.
//! 4. A value that is the newest entry of its key and that no snapshot sees is shown to the entry filter. One that it removes becomes a
//!    tombstone.
//! 5. Where nothing lies beneath the whole compaction, a value that every snapshot sees gets sequence number 0, which compresses better.
//!
//! To decide rules 2 and 3 a tombstone may have to be held until the next entry is known.

#[cfg(test)]
mod tests;

use crate::key::{InternalKeyComparator, SeqNo, ValueType, append_internal_key, pack_trailer};
use siltstone_base::entry_filter::{Decision, EntryFilter};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;

/// The stripe above all snapshots.
const NEWEST_STRIPE: SeqNo = SeqNo::MAX;

/// Why an entry is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DropReason {
    /// A newer entry of the same stripe hides it.
    Hidden,
    /// It is a tombstone and there is nothing for it to hide.
    ObsoleteTombstone,
    /// It is a single delete or its value, and they drop each other.
    SingleDeletePair,
    /// It is a single delete, and the tombstone behind it does its work.
    SupersededSingleDelete,
}

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is written with this trailer.
    Keep {
        /// The trailer.
        trailer: u64,
        /// Its value is [`DropRules::changed_value`].
        changed: bool,
    },
    /// It is dropped.
    Drop(DropReason),
    /// It is a tombstone that the next call decides about.
    Hold,
}

/// What [`DropRules::next`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// What becomes of the tombstone that was held, if one was.
    pub(super) held: Option<Verdict>,
    /// Whether the entry is the first of its key.
    pub(super) is_new_key: bool,
    /// What becomes of the entry.
    pub(super) verdict: Verdict,
}

/// One entry, without its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) user_key: &'a [u8],
    pub(super) seqno: SeqNo,
    pub(super) value_type: ValueType,
}

/// What the rules must know.
#[derive(Debug)]
pub(super) struct RulesOptions {
    /// The order of keys.
    pub(super) order: InternalKeyComparator,
    /// The live snapshots, ascending.
    pub(super) snapshots: Vec<SeqNo>,
    /// Whether nothing lies beneath the whole range.
    pub(super) bottommost: bool,
    /// Looks at values.
    pub(super) filter: Option<Arc<dyn EntryFilter>>,
    /// The level of the outputs, for the filter.
    pub(super) output_level: usize,
}

/// The rules, and what they remember of the entries before.
#[derive(Debug)]
pub(super) struct DropRules {
    options: RulesOptions,
    /// The smallest snapshot: what is at or below, everyone sees.
    earliest_snapshot: SeqNo,
    /// The user key of the last entry.
    key: Vec<u8>,
    has_key: bool,
    /// What hides older entries of `key`.
    hiding: Option<Hiding>,
    held: Option<Held>,
    /// The internal key of what is held.
    held_key: Vec<u8>,
    /// The internal key of what was held before the last entry.
    released_key: Vec<u8>,
    changed_value: Vec<u8>,
    /// Values that the filter removed.
    filtered: u64,
}

#[derive(Debug, Clone, Copy)]
struct Hiding {
    stripe: SeqNo,
    by: HiddenBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HiddenBy {
    Value,
    SingleDelete,
    Tombstone,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    stripe: SeqNo,
    trailer: u64,
    is_single: bool,
    /// Whether older entries may lie beneath.
    beneath: bool,
}

impl DropRules {
    pub(super) fn new(mut options: RulesOptions) -> Self {
        if is_planted(PlantedBug::SnapshotIgnoredByCompaction) {
            options.snapshots.clear();
        }
        let earliest_snapshot = options.snapshots.first().copied().unwrap_or(NEWEST_STRIPE);
        Self {
            options,
            earliest_snapshot,
            key: Vec::new(),
            has_key: false,
            hiding: None,
            held: None,
            held_key: Vec::new(),
            released_key: Vec::new(),
            changed_value: Vec::new(),
            filtered: 0,
        }
    }

    /// The internal key of the tombstone that [`Step::held`], or [`finish`](Self::finish), is about.
    pub(super) fn released_key(&self) -> &[u8] {
        &self.released_key
    }

    /// The value that the filter gave to the last entry.
    pub(super) fn changed_value(&self) -> &[u8] {
        &self.changed_value
    }

    /// How many values the filter removed so far.
    pub(super) fn filtered(&self) -> u64 {
        self.filtered
    }

    /// Decides about the next entry in the order of internal keys. `beneath` says whether an older entry of a key may lie beneath; it is
    /// asked for ascending keys.
    #[inline]
    pub(super) fn next(&mut self, entry: Entry<'_>, value: &[u8], beneath: &mut impl FnMut(&[u8]) -> bool) -> Step {
        let is_new_key = !self.has_key || !self.is_current(entry.user_key);
        let stripe = self.stripe_of(entry.seqno);
        let (held, pairs) = match self.held.take() {
            None => (None, false),
            Some(held) => self.resolve(held, is_new_key, stripe, entry.value_type),
        };
        if held.is_some() {
            std::mem::swap(&mut self.held_key, &mut self.released_key);
        }
        if is_new_key {
            self.key.clear();
            self.key.extend_from_slice(entry.user_key);
            self.has_key = true;
            self.hiding = None;
        }
        let verdict = match pairs {
            true => Verdict::Drop(DropReason::SingleDeletePair),
            false => self.judge(entry, value, stripe, is_new_key, beneath),
        };
        Step { held, is_new_key, verdict }
    }

    /// What becomes of the tombstone that is held behind the last entry.
    pub(super) fn finish(&mut self) -> Option<Verdict> {
        let held = self.held.take()?;
        std::mem::swap(&mut self.held_key, &mut self.released_key);
        Some(held.at_end_of_key())
    }

    #[inline]
    fn is_current(&self, user_key: &[u8]) -> bool {
        self.options.order.compare_user(&self.key, user_key).is_eq()
    }

    /// The smallest snapshot that sees `seqno`.
    #[inline]
    fn stripe_of(&self, seqno: SeqNo) -> SeqNo {
        let snapshots = &self.options.snapshots;
        if snapshots.is_empty() {
            return NEWEST_STRIPE;
        }
        let index = snapshots.partition_point(|snapshot| *snapshot < seqno);
        snapshots.get(index).copied().unwrap_or(NEWEST_STRIPE)
    }

    /// Decides about what is held, now that the next entry is known; and whether that entry goes with it.
    fn resolve(
        &mut self,
        held: Held,
        is_new_key: bool,
        stripe: SeqNo,
        value_type: ValueType,
    ) -> (Option<Verdict>, bool) {
        if is_new_key {
            return (Some(held.at_end_of_key()), false);
        }
        let keep = Verdict::Keep { trailer: held.trailer, changed: false };
        if stripe != held.stripe {
            return (Some(keep), false);
        }
        if !held.is_single {
            // Rule 1 drops the entry; the tombstone goes on waiting for one of an older stripe.
            self.held = Some(held);
            return (None, false);
        }
        match value_type {
            ValueType::Put | ValueType::BlobIndex | ValueType::WideColumnEntity => {
                (Some(Verdict::Drop(DropReason::SingleDeletePair)), true)
            }
            ValueType::SingleDelete => (Some(Verdict::Drop(DropReason::SupersededSingleDelete)), false),
            ValueType::Delete => {
                if self.hiding.is_some_and(|hiding| hiding.by == HiddenBy::Value && hiding.stripe == stripe) {
                    // A newer value of the stripe hides the tombstone, and with it what the single delete is for.
                    return (Some(keep), false);
                }
                // What the single delete hid, the tombstone hides: it must not count as hidden itself.
                self.hiding = None;
                (Some(Verdict::Drop(DropReason::SupersededSingleDelete)), false)
            }
            ValueType::Merge | ValueType::RangeDelete => (Some(keep), false),
        }
    }

    #[inline]
    fn judge(
        &mut self,
        entry: Entry<'_>,
        value: &[u8],
        stripe: SeqNo,
        is_new_key: bool,
        beneath: &mut impl FnMut(&[u8]) -> bool,
    ) -> Verdict {
        if let Some(hiding) = self.hiding
            && hiding.stripe == stripe
            && (hiding.by == HiddenBy::Tombstone || entry.value_type != ValueType::SingleDelete)
        {
            return Verdict::Drop(DropReason::Hidden);
        }
        match entry.value_type {
            ValueType::Put => {
                self.hiding = Some(Hiding { stripe, by: HiddenBy::Value });
                if is_new_key && stripe == NEWEST_STRIPE && self.options.filter.is_some() {
                    return self.filter(entry, value, stripe, beneath);
                }
                self.keep_value(entry, false)
            }
            ValueType::BlobIndex | ValueType::WideColumnEntity => {
                self.hiding = Some(Hiding { stripe, by: HiddenBy::Value });
                self.keep_value(entry, false)
            }
            ValueType::Delete => {
                self.hiding = Some(Hiding { stripe, by: HiddenBy::Tombstone });
                self.tombstone(entry, stripe, beneath)
            }
            ValueType::SingleDelete => {
                if self.hiding.is_none_or(|hiding| hiding.stripe != stripe) {
                    self.hiding = Some(Hiding { stripe, by: HiddenBy::SingleDelete });
                }
                self.tombstone(entry, stripe, beneath)
            }
            // Range tombstones are no entries of tables; merge operands stay as they are.
            ValueType::Merge | ValueType::RangeDelete => {
                self.hiding = None;
                Verdict::Keep { trailer: pack_trailer(entry.seqno, entry.value_type as u8), changed: false }
            }
        }
    }

    #[inline]
    fn keep_value(&self, entry: Entry<'_>, changed: bool) -> Verdict {
        let is_settled = self.options.bottommost && entry.seqno <= self.earliest_snapshot;
        let seqno = if is_settled { 0 } else { entry.seqno };
        Verdict::Keep { trailer: pack_trailer(seqno, entry.value_type as u8), changed }
    }

    #[cold]
    fn tombstone(&mut self, entry: Entry<'_>, stripe: SeqNo, beneath: &mut impl FnMut(&[u8]) -> bool) -> Verdict {
        let is_single = entry.value_type == ValueType::SingleDelete;
        let beneath = beneath(entry.user_key);
        let trailer = pack_trailer(entry.seqno, entry.value_type as u8);
        if beneath && !is_single {
            return Verdict::Keep { trailer, changed: false };
        }
        self.held = Some(Held { stripe, trailer, is_single, beneath });
        self.held_key.clear();
        append_internal_key(&mut self.held_key, entry.user_key, entry.seqno, entry.value_type);
        Verdict::Hold
    }

    #[cold]
    fn filter(
        &mut self,
        entry: Entry<'_>,
        value: &[u8],
        stripe: SeqNo,
        beneath: &mut impl FnMut(&[u8]) -> bool,
    ) -> Verdict {
        let Some(filter) = &self.options.filter else { return self.keep_value(entry, false) };
        match filter.filter(self.options.output_level, entry.user_key, value) {
            Decision::Keep => self.keep_value(entry, false),
            Decision::Change(value) => {
                self.changed_value = value;
                self.keep_value(entry, true)
            }
            Decision::Remove => {
                self.filtered += 1;
                self.hiding = Some(Hiding { stripe, by: HiddenBy::Tombstone });
                self.changed_value.clear();
                let removed = Entry { value_type: ValueType::Delete, ..entry };
                match self.tombstone(removed, stripe, beneath) {
                    Verdict::Keep { trailer, .. } => Verdict::Keep { trailer, changed: true },
                    other => other,
                }
            }
        }
    }
}

impl Held {
    /// No entry of the key follows.
    fn at_end_of_key(self) -> Verdict {
        match self.beneath {
            true => Verdict::Keep { trailer: self.trailer, changed: false },
            false => Verdict::Drop(DropReason::ObsoleteTombstone),
        }
    }
}
