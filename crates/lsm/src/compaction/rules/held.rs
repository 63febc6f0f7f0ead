//! Tombstones that wait for what comes behind them in their key: rules 2 and 3.

use super::{DropReason, DropRules, Entry, HiddenBy, Hiding, Verdict};
use crate::key::{SeqNo, ValueType, append_internal_key, pack_trailer};

#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    stripe: SeqNo,
    trailer: u64,
    is_single: bool,
    /// Whether older entries may lie beneath.
    beneath: bool,
    /// Whether a newer entry of the stripe tells that the key changed.
    has_newer: bool,
}

impl Held {
    /// No entry of the key follows.
    pub(super) fn at_end_of_key(self) -> Verdict {
        match self.beneath {
            true => Verdict::Keep { trailer: self.trailer, changed: false },
            false => Verdict::Drop(DropReason::ObsoleteTombstone),
        }
    }
}

impl DropRules {
    /// Decides about what is held, now that the next entry is known; and whether, and why, that entry goes with it.
    pub(super) fn resolve(
        &mut self,
        held: Held,
        is_new_key: bool,
        stripe: SeqNo,
        value_type: ValueType,
    ) -> (Option<Verdict>, Option<DropReason>) {
        if is_new_key {
            return (Some(held.at_end_of_key()), None);
        }
        let keep = Verdict::Keep { trailer: held.trailer, changed: false };
        if stripe != held.stripe {
            self.told = Some(held.stripe);
            return (Some(keep), None);
        }
        if !held.is_single {
            // Rule 1 drops the entry; the tombstone goes on waiting for one of an older stripe.
            self.held = Some(held);
            return (None, None);
        }
        match value_type {
            ValueType::Put | ValueType::BlobIndex | ValueType::WideColumnEntity | ValueType::TimedPut => {
                if held.trailer >> 8 > self.earliest_snapshot && !held.has_newer {
                    self.told = Some(stripe);
                    return (Some(keep), None);
                }
                self.paired = true;
                (Some(Verdict::Drop(DropReason::SingleDeletePair)), Some(DropReason::SingleDeletePair))
            }
            ValueType::SingleDelete => {
                self.held = Some(held);
                (None, Some(DropReason::SupersededSingleDelete))
            }
            ValueType::Delete | ValueType::DeleteWithTimestamp => {
                if self.hiding.is_some_and(|hiding| hiding.by == HiddenBy::Value && hiding.stripe == stripe) {
                    // A newer value of the stripe hides the tombstone, as it would hide what the single delete became.
                    self.held = Some(held);
                    return (None, None);
                }
                self.hiding = Some(Hiding { stripe, by: HiddenBy::Tombstone });
                (self.become_delete(held), None)
            }
            ValueType::Merge | ValueType::RangeDelete => {
                self.figures.single_delete_mismatches += 1;
                self.hiding = Some(Hiding { stripe, by: HiddenBy::Tombstone });
                (self.become_delete(held), None)
            }
        }
    }

    /// Makes the single delete that was held a delete, which is what readers take it for: it stays if anything lies beneath, and waits for entries of
    /// older stripes otherwise.
    fn become_delete(&mut self, held: Held) -> Option<Verdict> {
        let trailer = pack_trailer(held.trailer >> 8, ValueType::Delete as u8);
        self.held_key.truncate(self.key.len());
        self.held_key.extend_from_slice(&trailer.to_le_bytes());
        if held.beneath {
            self.told = Some(held.stripe);
            return Some(Verdict::Keep { trailer, changed: false });
        }
        self.held = Some(Held { trailer, is_single: false, ..held });
        None
    }

    #[cold]
    pub(super) fn tombstone(
        &mut self,
        entry: Entry<'_>,
        stripe: SeqNo,
        beneath: &mut impl FnMut(&[u8]) -> bool,
    ) -> Verdict {
        let is_single = entry.value_type == ValueType::SingleDelete;
        // One that some snapshot does not see stays as if there were something.
        let beneath = entry.seqno > self.earliest_snapshot || beneath(entry.user_key);
        let trailer = pack_trailer(entry.seqno, entry.value_type as u8);
        if beneath && !is_single {
            return Verdict::Keep { trailer, changed: false };
        }
        let has_newer = self.told == Some(stripe);
        self.held = Some(Held { stripe, trailer, is_single, beneath, has_newer });
        self.held_key.clear();
        append_internal_key(&mut self.held_key, entry.user_key, entry.seqno, entry.value_type);
        Verdict::Hold
    }

    /// Makes a value a tombstone.
    #[cold]
    pub(super) fn remove(
        &mut self,
        entry: Entry<'_>,
        stripe: SeqNo,
        beneath: &mut impl FnMut(&[u8]) -> bool,
    ) -> Verdict {
        self.hiding = Some(Hiding { stripe, by: HiddenBy::Tombstone });
        self.changed_value.clear();
        let removed = Entry { value_type: ValueType::Delete, ..entry };
        match self.tombstone(removed, stripe, beneath) {
            Verdict::Keep { trailer, .. } => Verdict::Keep { trailer, changed: true },
            other => other,
        }
    }
}
