//! Applies the rules to a sorted sequence of entries and writes what is left of it.

use super::hidden::HiddenTally;
use super::{DropReason, DropRules, Entry, HiddenWatch, RulesOptions, Verdict};
use crate::key::{ParsedKey, pack_trailer};
use crate::range_tombstones::Fragments;
use siltstone_base::Result;

/// What the rules did to the entries of a flush or a compaction, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DroppedEntries {
    /// Hidden by a newer entry that no snapshot tells apart from it.
    pub(crate) hidden: u64,
    /// Tombstones with nothing to hide.
    pub(crate) obsolete_tombstones: u64,
    /// Single deletes and what they were for.
    pub(crate) single_deletes: u64,
    /// Covered by a range tombstone that no snapshot tells apart from it.
    pub(crate) covered: u64,
    /// Removed by the entry filter; a tombstone may have taken the place of a value.
    pub(crate) filtered: u64,
    /// Values that were expired; a tombstone may have taken the place of one.
    pub(crate) expired: u64,
    /// Operands that the entry filter removed: they are among the filtered ones.
    pub(crate) removed_operands: u64,
    /// Operands that went into other entries.
    pub(crate) operands_merged: u64,
    /// Values that operands became.
    pub(crate) values_merged: u64,
    /// Times that operands could not be merged.
    pub(crate) merge_failures: u64,
    /// Single deletes over more than one value, or over operands.
    pub(crate) single_delete_mismatches: u64,
}

impl DroppedEntries {
    /// Adds what was dropped elsewhere.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.hidden += other.hidden;
        self.obsolete_tombstones += other.obsolete_tombstones;
        self.single_deletes += other.single_deletes;
        self.covered += other.covered;
        self.filtered += other.filtered;
        self.expired += other.expired;
        self.removed_operands += other.removed_operands;
        self.operands_merged += other.operands_merged;
        self.values_merged += other.values_merged;
        self.merge_failures += other.merge_failures;
        self.single_delete_mismatches += other.single_delete_mismatches;
    }

    fn count(&mut self, reason: DropReason) {
        match reason {
            DropReason::Hidden => self.hidden += 1,
            DropReason::ObsoleteTombstone => self.obsolete_tombstones += 1,
            DropReason::SingleDeletePair | DropReason::SupersededSingleDelete => self.single_deletes += 1,
            DropReason::RemovedOperand => self.removed_operands += 1,
            DropReason::Covered => self.covered += 1,
        }
    }
}

/// Takes entries in order, and gives what is left to a function that writes: internal key, value, and whether it is the first of its
/// user key.
#[derive(Debug)]
pub(crate) struct Sieve {
    rules: DropRules,
    /// Whether no entry of the key at hand was written yet.
    is_first_of_key: bool,
    /// An internal key with a trailer of its own.
    key: Vec<u8>,
    entries_in: u64,
    entries_out: u64,
    dropped: DroppedEntries,
    /// Who sees what goes.
    hidden: Option<HiddenTally>,
}

impl Sieve {
    /// A sieve that nothing went through yet.
    pub(crate) fn new(options: RulesOptions) -> Self {
        Self {
            rules: DropRules::new(options),
            is_first_of_key: true,
            key: Vec::new(),
            entries_in: 0,
            entries_out: 0,
            dropped: DroppedEntries::default(),
            hidden: None,
        }
    }

    /// Lets somebody see values that go because newer entries hide them. Before the first entry.
    pub(crate) fn set_watch(&mut self, watch: Option<HiddenWatch>) {
        self.hidden = watch.map(HiddenTally::new);
    }

    /// Lets range tombstones drop what they cover. Before the first entry.
    pub(crate) fn set_ranges(&mut self, ranges: Fragments) {
        self.rules.set_ranges(ranges);
    }

    /// Entries that went in so far.
    pub(crate) fn entries_in(&self) -> u64 {
        self.entries_in
    }

    /// What was dropped so far.
    pub(crate) fn dropped(&self) -> DroppedEntries {
        let figures = self.rules.figures();
        DroppedEntries {
            filtered: figures.filtered,
            expired: figures.expired,
            operands_merged: figures.operands_merged,
            merge_failures: figures.merge_failures,
            single_delete_mismatches: figures.single_delete_mismatches,
            ..self.dropped
        }
    }

    /// Takes the next entry in the order of internal keys. `beneath` says whether an older entry of a key may lie beneath.
    ///
    /// # Errors
    ///
    /// `Corruption` for a key that is none, and those of `write`.
    #[inline]
    pub(crate) fn take(
        &mut self,
        internal_key: &[u8],
        value: &[u8],
        beneath: &mut impl FnMut(&[u8]) -> bool,
        write: &mut impl FnMut(&[u8], &[u8], bool) -> Result<()>,
    ) -> Result<()> {
        let parsed = ParsedKey::parse(internal_key)?;
        let entry = Entry { user_key: parsed.user_key, seqno: parsed.seqno, value_type: parsed.value_type };
        self.entries_in += 1;
        let step = self.rules.next(entry, value, beneath);
        if let Some(held) = step.held {
            self.write_held(held, write)?;
        }
        if step.has_merged {
            self.write_merged(write)?;
        }
        self.is_first_of_key |= step.is_new_key;
        if let Some(hidden) = &mut self.hidden {
            if step.is_new_key {
                hidden.first(parsed.user_key, parsed.seqno, parsed.value_type, value);
            } else if step.verdict == Verdict::Drop(DropReason::Hidden) {
                hidden.hidden(parsed.user_key, parsed.value_type, value);
            }
        }
        match step.verdict {
            Verdict::Keep { trailer, changed } => {
                let value = if changed { self.rules.changed_value() } else { value };
                let key = if trailer == pack_trailer(parsed.seqno, parsed.value_type as u8) {
                    internal_key
                } else {
                    self.key.clear();
                    self.key.extend_from_slice(parsed.user_key);
                    self.key.extend_from_slice(&trailer.to_le_bytes());
                    &self.key
                };
                write(key, value, self.is_first_of_key)?;
                self.entries_out += 1;
                self.is_first_of_key = false;
            }
            Verdict::Drop(reason) => self.dropped.count(reason),
            Verdict::Hold | Verdict::Gather => {}
        }
        Ok(())
    }

    /// Says that no entry follows.
    ///
    /// # Errors
    ///
    /// Those of `write`.
    pub(crate) fn finish(&mut self, write: &mut impl FnMut(&[u8], &[u8], bool) -> Result<()>) -> Result<()> {
        let (held, has_merged) = self.rules.finish();
        if let Some(held) = held {
            self.write_held(held, write)?;
        }
        if has_merged {
            self.write_merged(write)?;
        }
        let dropped = self.dropped();
        debug_assert_eq!(
            self.entries_in + dropped.values_merged,
            self.entries_out
                + dropped.hidden
                + dropped.obsolete_tombstones
                + dropped.single_deletes
                + dropped.removed_operands
                + dropped.covered
                + dropped.operands_merged,
            "every entry is written, merged or dropped"
        );
        Ok(())
    }

    /// Writes or drops the tombstone that the rules held.
    #[cold]
    fn write_held(&mut self, verdict: Verdict, write: &mut impl FnMut(&[u8], &[u8], bool) -> Result<()>) -> Result<()> {
        if let Verdict::Drop(reason) = verdict {
            self.dropped.count(reason);
            return Ok(());
        }
        write(self.rules.released_key(), &[], self.is_first_of_key)?;
        self.entries_out += 1;
        self.is_first_of_key = false;
        Ok(())
    }

    /// Writes what operands became.
    #[cold]
    fn write_merged(&mut self, write: &mut impl FnMut(&[u8], &[u8], bool) -> Result<()>) -> Result<()> {
        let (user_key, entries) = self.rules.merged();
        for (trailer, value) in entries {
            self.key.clear();
            self.key.extend_from_slice(user_key);
            self.key.extend_from_slice(&trailer.to_le_bytes());
            write(&self.key, value, self.is_first_of_key)?;
            self.entries_out += 1;
            self.is_first_of_key = false;
            self.dropped.values_merged += u64::from(trailer as u8 == crate::key::ValueType::Put as u8);
        }
        Ok(())
    }
}
