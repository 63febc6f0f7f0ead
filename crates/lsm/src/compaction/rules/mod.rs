//! The drop rules: what becomes of each entry that a flush or a compaction reads.
//!
//! Snapshots cut the sequence numbers into stripes: nobody can tell two states apart that lie in one stripe. Entries of a key come newest
//! first.
//!
//! 1. Of one key and stripe only the newest entry counts; older ones are hidden and dropped. A merge operand hides nothing, because it
//!    needs what is older. A single delete is hidden by a tombstone only: an older value beneath may still wait for it.
//! 2. A tombstone with no older entry of its key, neither among the inputs nor beneath the outputs, is dropped if every snapshot sees it: a
//!    transaction that began before it must find that the key changed.
//! 3. A single delete and the value right behind it in the same stripe drop each other, if every snapshot sees them or a newer entry of the stripe stays; otherwise, for the
//!    same reason as in rule 2, the single delete stays, without its value. It stays what it is: a newer value hides a tombstone, and the single delete of that value would
//!    lay bare what the tombstone hid. Of two single deletes of a stripe, one right before the other, the newer stays, and so does one right before a tombstone, whose work it
//!    does as a delete; beneath a value of the stripe, which hides tombstones, as what it is. So the newest number of a key never falls while somebody asks for changes since an
//!    older one. One right before a merge operand was not meant for it: it becomes a delete.
//! 4. A value that is the newest entry of its key and that no snapshot sees is shown to the entry filter. One that it removes becomes a
//!    tombstone.
//!    Before that, a value that is expired for every reader becomes a tombstone, whichever snapshots see it: to all of them it is not there.
//! 5. Where nothing lies beneath the whole compaction, a value that every snapshot sees gets sequence number 0, which compresses better.
//! 6. Operands of one key and stripe become one value at the newest one's sequence number, where a value or a tombstone of the stripe is
//!    behind them, or nothing at all neither here nor beneath. Otherwise they become one operand, if the operator can. What the operator fails to merge
//!    stays as it is, with what is behind it. Operands that no snapshot sees are shown to the entry filter first; the result is not.
//!
//! ```text
//!   stripes      newest            | snapshot 6      | snapshot 3
//!   entries      +1@9   +2@8       | +4@6   put 5@5  | put 7@2
//!   rule 6       +3@9              | put 9@6         | put 7@2        never across a snapshot
//! ```
//!
//! Before all that, an entry that a range tombstone of its stripe covers is dropped: to the other rules it does not exist. What is kept of the
//! range tombstones themselves is decided apart ([`retained`](crate::range_tombstones::retained)).
//!
//! To decide rules 2 and 3 a tombstone may have to be held until the next entry is known; for rule 6 operands are gathered until an
//! entry comes that is none.

mod held;
mod hidden;
mod run;
mod sieve;
#[cfg(test)]
mod tests;

pub(crate) use hidden::{HiddenRow, HiddenRows, HiddenWatch, JobFiles};
pub(crate) use sieve::{DroppedEntries, Sieve};

use crate::batch::MAX_VALUE_LEN;
use crate::expiry::{Expiring, LastBound, judged};
use crate::key::{InternalKeyComparator, SeqNo, ValueType, pack_trailer};
use crate::merge::MergeOperator;
use crate::range_tombstones::{FragmentWalk, Fragments};
use held::Held;
use run::{Base, Run, Settled};
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
    /// It is a single delete, and the newer one right before it does its work.
    SupersededSingleDelete,
    /// It is an operand that the entry filter removed.
    RemovedOperand,
    /// A range tombstone of its stripe covers it.
    Covered,
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
    /// It is an operand that a later call decides about, together with its neighbours.
    Gather,
}

/// What [`DropRules::next`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// What becomes of the tombstone that was held, if one was.
    pub(super) held: Option<Verdict>,
    /// Whether operands that were gathered are decided about: [`DropRules::merged`] is written for them.
    pub(super) has_merged: bool,
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
pub(crate) struct RulesOptions {
    /// The order of keys.
    pub(crate) order: InternalKeyComparator,
    /// The live snapshots, ascending.
    pub(crate) snapshots: Vec<SeqNo>,
    /// Whether nothing lies beneath the whole range.
    pub(crate) bottommost: bool,
    /// Looks at values.
    pub(crate) filter: Option<Arc<dyn EntryFilter>>,
    /// Which values are expired for every reader.
    pub(crate) expiring: Option<Expiring>,
    /// Merges operands. `None`: they stay as they are.
    pub(crate) merge_operator: Option<Arc<dyn MergeOperator>>,
    /// The level of the outputs, for the filter.
    pub(crate) output_level: usize,
}

/// The rules, and what they remember of the entries before.
#[derive(Debug)]
pub(super) struct DropRules {
    options: RulesOptions,
    /// Up to which stamp values are expired.
    last_bound: LastBound,
    /// The range tombstones among the inputs, if there are any.
    ranges: Option<FragmentWalk>,
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
    /// Operands of `key` that were gathered, all of one stripe.
    run: Run,
    run_stripe: SeqNo,
    /// Whether older entries may lie beneath those.
    run_beneath: bool,
    /// What is written for the operands gathered before, and their user key.
    merged: Run,
    merged_key: Vec<u8>,
    /// Whether the last single delete of the stripe met its value.
    paired: bool,
    /// The stripe of the last entry of `key` that stays, in whatever form.
    told: Option<SeqNo>,
    figures: Figures,
}

/// What the rules count, beside the reasons of drops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Values and operands that the filter removed.
    pub(super) filtered: u64,
    /// Values that were expired.
    pub(super) expired: u64,
    /// Operands that went into other entries.
    pub(super) operands_merged: u64,
    /// Runs of operands that the operator failed to merge.
    pub(super) merge_failures: u64,
    /// Single deletes over more than one value, or over operands.
    pub(super) single_delete_mismatches: u64,
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

impl Hiding {
    /// Whether it hides an older entry of this type. What a single delete and its value leave behind when they drop each other is no tombstone: one
    /// that lies behind them still has its work to do.
    #[inline]
    fn hides(self, value_type: ValueType) -> bool {
        match self.by {
            HiddenBy::Tombstone => true,
            HiddenBy::Value => value_type != ValueType::SingleDelete,
            HiddenBy::SingleDelete => !value_type.is_tombstone(),
        }
    }
}

impl DropRules {
    pub(super) fn new(mut options: RulesOptions) -> Self {
        if is_planted(PlantedBug::SnapshotIgnoredByCompaction) {
            options.snapshots.clear();
        }
        let earliest_snapshot = options.snapshots.first().copied().unwrap_or(NEWEST_STRIPE);
        Self {
            options,
            last_bound: LastBound::default(),
            ranges: None,
            earliest_snapshot,
            key: Vec::new(),
            has_key: false,
            hiding: None,
            held: None,
            held_key: Vec::new(),
            released_key: Vec::new(),
            changed_value: Vec::new(),
            run: Run::default(),
            run_stripe: NEWEST_STRIPE,
            run_beneath: true,
            merged: Run::default(),
            merged_key: Vec::new(),
            paired: false,
            told: None,
            figures: Figures::default(),
        }
    }

    /// Lets range tombstones drop what they cover. Before the first entry.
    pub(super) fn set_ranges(&mut self, ranges: Fragments) {
        self.ranges = (!ranges.is_empty()).then(|| FragmentWalk::new(ranges));
    }

    /// The internal key of the tombstone that [`Step::held`], or [`finish`](Self::finish), is about.
    pub(super) fn released_key(&self) -> &[u8] {
        &self.released_key
    }

    /// The value that the filter gave to the last entry.
    pub(super) fn changed_value(&self) -> &[u8] {
        &self.changed_value
    }

    /// What was counted so far.
    pub(super) fn figures(&self) -> Figures {
        self.figures
    }

    /// What is written for the operands that [`Step::has_merged`], or [`finish`](Self::finish), is about: their user key, and trailers and values,
    /// newest first.
    pub(super) fn merged(&self) -> (&[u8], impl Iterator<Item = (u64, &[u8])>) {
        (&self.merged_key, self.merged.entries())
    }

    /// Decides about the next entry in the order of internal keys. `beneath` says whether an older entry of a key may lie beneath; it is
    /// asked for ascending keys.
    #[inline]
    pub(super) fn next(&mut self, entry: Entry<'_>, value: &[u8], beneath: &mut impl FnMut(&[u8]) -> bool) -> Step {
        let stripe = self.stripe_of(entry.seqno);
        if let Some(ranges) = &mut self.ranges
            && ranges.covering(entry.user_key, stripe) > entry.seqno
        {
            let verdict = Verdict::Drop(DropReason::Covered);
            return Step { held: None, has_merged: false, is_new_key: false, verdict };
        }
        let is_new_key = !self.has_key || !self.is_current(entry.user_key);
        let (held, goes) = match self.held.take() {
            None => (None, None),
            Some(held) => self.resolve(held, is_new_key, stripe, entry.value_type),
        };
        if held.is_some() {
            std::mem::swap(&mut self.held_key, &mut self.released_key);
        }
        let has_merged = !self.run.is_empty() && self.end_run(is_new_key, stripe, entry.value_type, value);
        if is_new_key {
            self.key.clear();
            self.key.extend_from_slice(entry.user_key);
            self.has_key = true;
            self.hiding = None;
            self.told = None;
        }
        let verdict = match goes {
            Some(reason) => Verdict::Drop(reason),
            None => self.judge(entry, value, stripe, is_new_key, beneath),
        };
        if matches!(verdict, Verdict::Keep { .. } | Verdict::Gather) {
            self.told = Some(stripe);
        }
        Step { held, has_merged, is_new_key, verdict }
    }

    /// What becomes of the tombstone that is held behind the last entry, and whether operands that were gathered there are decided about.
    pub(super) fn finish(&mut self) -> (Option<Verdict>, bool) {
        let has_merged = !self.run.is_empty();
        if has_merged {
            self.settle_run(if self.run_beneath { Base::Unknown } else { Base::Nothing });
        }
        let held = self.held.take();
        if held.is_some() {
            std::mem::swap(&mut self.held_key, &mut self.released_key);
        }
        (held.map(Held::at_end_of_key), has_merged)
    }

    /// Whether the next entry ends the run of operands; if so, decides about the run.
    #[cold]
    fn end_run(&mut self, is_new_key: bool, stripe: SeqNo, next: ValueType, value: &[u8]) -> bool {
        let base = match next {
            _ if is_new_key && self.run_beneath => Base::Unknown,
            _ if is_new_key => Base::Nothing,
            _ if stripe != self.run_stripe => Base::Unknown,
            ValueType::Merge if !self.run.is_full() => return false,
            ValueType::Put => Base::Value(value),
            ValueType::Delete | ValueType::SingleDelete | ValueType::DeleteWithTimestamp => Base::Nothing,
            _ => Base::Unknown,
        };
        self.settle_run(base);
        true
    }

    fn settle_run(&mut self, base: Base<'_>) {
        let Some(operator) = &self.options.merge_operator else { return };
        let gathered = self.run.len() as u64;
        match self.run.settle(&**operator, &self.key, base) {
            Settled::Value => {
                self.hiding = Some(Hiding { stripe: self.run_stripe, by: HiddenBy::Value });
                let seqno = self.settled_seqno(self.run.newest_seqno());
                self.run.set_trailer(pack_trailer(seqno, ValueType::Put as u8));
                self.figures.operands_merged += gathered;
            }
            Settled::Operands => self.figures.operands_merged += gathered - self.run.len() as u64,
            Settled::Failed => self.figures.merge_failures += 1,
        }
        std::mem::swap(&mut self.run, &mut self.merged);
        self.run.clear();
        self.merged_key.clear();
        self.merged_key.extend_from_slice(&self.key);
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

    /// Whether a value is expired for every reader.
    #[inline]
    fn is_expired(&mut self, entry: &Entry<'_>, stored: &[u8]) -> bool {
        let Some(expiring) = &self.options.expiring else { return false };
        let value = judged(entry.value_type, stored);
        value.is_some_and(|value| self.last_bound.is_expired(expiring, entry.user_key, value))
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
            && hiding.hides(entry.value_type)
        {
            if hiding.by == HiddenBy::SingleDelete && std::mem::take(&mut self.paired) {
                self.figures.single_delete_mismatches += 1;
            }
            return Verdict::Drop(DropReason::Hidden);
        }
        match entry.value_type {
            ValueType::Put | ValueType::WideColumnEntity if self.is_expired(&entry, value) => {
                self.figures.expired += 1;
                self.remove(entry, stripe, beneath)
            }
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
            ValueType::TimedPut => {
                self.hiding = Some(Hiding { stripe, by: HiddenBy::Value });
                Verdict::Keep { trailer: pack_trailer(entry.seqno, entry.value_type as u8), changed: false }
            }
            ValueType::Delete | ValueType::DeleteWithTimestamp => {
                self.hiding = Some(Hiding { stripe, by: HiddenBy::Tombstone });
                self.tombstone(entry, stripe, beneath)
            }
            ValueType::SingleDelete => {
                self.paired = false;
                if self.hiding.is_none_or(|hiding| hiding.stripe != stripe) {
                    self.hiding = Some(Hiding { stripe, by: HiddenBy::SingleDelete });
                }
                self.tombstone(entry, stripe, beneath)
            }
            ValueType::Merge => self.operand(entry, value, stripe, beneath),
            // Range tombstones are no entries of tables.
            ValueType::RangeDelete => {
                self.hiding = None;
                Verdict::Keep { trailer: pack_trailer(entry.seqno, entry.value_type as u8), changed: false }
            }
        }
    }

    #[inline]
    fn keep_value(&self, entry: Entry<'_>, changed: bool) -> Verdict {
        let seqno = self.settled_seqno(entry.seqno);
        Verdict::Keep { trailer: pack_trailer(seqno, entry.value_type as u8), changed }
    }

    /// The sequence number that a value is written with.
    #[inline]
    fn settled_seqno(&self, seqno: SeqNo) -> SeqNo {
        if self.options.bottommost && seqno <= self.earliest_snapshot { 0 } else { seqno }
    }

    /// Gathers an operand.
    #[cold]
    fn operand(
        &mut self,
        entry: Entry<'_>,
        operand: &[u8],
        stripe: SeqNo,
        beneath: &mut impl FnMut(&[u8]) -> bool,
    ) -> Verdict {
        self.hiding = None;
        let trailer = pack_trailer(entry.seqno, ValueType::Merge as u8);
        if self.options.merge_operator.is_none() {
            return Verdict::Keep { trailer, changed: false };
        }
        let decision = match &self.options.filter {
            Some(filter) if stripe == NEWEST_STRIPE => {
                filter.filter_operand(self.options.output_level, entry.user_key, operand)
            }
            _ => Decision::Keep,
        };
        match &decision {
            Decision::Change(changed) if changed.len() <= MAX_VALUE_LEN => self.run.push(trailer, changed),
            // No table takes a longer one.
            Decision::Keep | Decision::Change(_) => self.run.push(trailer, operand),
            Decision::Remove => {
                self.figures.filtered += 1;
                return Verdict::Drop(DropReason::RemovedOperand);
            }
        }
        self.run_stripe = stripe;
        self.run_beneath = beneath(entry.user_key);
        Verdict::Gather
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
            Decision::Change(value) if value.len() <= MAX_VALUE_LEN => {
                self.changed_value = value;
                self.keep_value(entry, true)
            }
            // No table takes a longer one.
            Decision::Keep | Decision::Change(_) => self.keep_value(entry, false),
            Decision::Remove => {
                self.figures.filtered += 1;
                self.remove(entry, stripe, beneath)
            }
        }
    }
}
