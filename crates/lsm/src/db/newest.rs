//! Whether a key changed: the number of its newest entry.

use super::column_family::Family;
use super::ranges::range_view;
use super::state::DbInner;
use super::super_version::SuperVersion;
use crate::iterator::InternalIterator;
use crate::key::{InternalKeyComparator, LookupKey, MAX_SEQNO, ParsedKey, SeqNo};
use crate::options::{ReadOptions, ReadTier};
use crate::sst::TableReadOptions;
use siltstone_base::Result;

/// Where to look for entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// In memtables and tables.
    Everywhere,
    /// In memtables, and in tables that have anything newer than this: all that is not was looked at before.
    NewerThan(SeqNo),
    /// In memtables alone: tables were looked at before.
    Memtables,
}

impl DbInner {
    /// Whether `key` was changed after `seqno`, as far as `pinned` says: by an entry of its own, whatever it does, or by a range tombstone.
    ///
    /// Compactions forget numbers that no snapshot needs: somebody holds a snapshot of `seqno` or of an older state. An operand that an
    /// [`EntryFilter`](crate::EntryFilter) removed since may count as no change. Tables of which all entries are older cost nothing.
    pub(crate) fn is_changed_since(
        &self,
        family: &Family,
        pinned: &SuperVersion,
        key: &[u8],
        seqno: SeqNo,
        place: Lookup,
    ) -> Result<bool> {
        let lookup = LookupKey::new(key, MAX_SEQNO);
        // Tables of which all entries are as old cannot tell.
        let tables_after = match place {
            Lookup::Everywhere => Some(seqno),
            Lookup::NewerThan(seen) => Some(seen.max(seqno)),
            Lookup::Memtables => None,
        };
        let has_new_ranges = |after: SeqNo| {
            let mut memtables = std::iter::once(&pinned.memtable).chain(pinned.immutables.newest_first());
            let mut tables = pinned.version.files_with_ranges();
            memtables.any(|memtable| memtable.num_ranges() > 0) || tables.any(|(_, file)| file.largest_seqno > after)
        };
        if tables_after.is_some_and(has_new_ranges)
            && let Some(mut ranges) = range_view(family, pinned, MAX_SEQNO, 0, ReadTier::All)?
            && ranges.covering(key)? > seqno
        {
            return Ok(true);
        }
        let order = &family.comparator;
        for memtable in std::iter::once(&pinned.memtable).chain(pinned.immutables.newest_first()) {
            let is_covered = || memtable.num_ranges() > 0 && memtable.newest_range_over(key) > seqno;
            if newest(order, &lookup, &mut memtable.iter())?.is_some_and(|newest| newest > seqno) || is_covered() {
                return Ok(true);
            }
        }
        let mut is_changed = false;
        if let Some(after) = tables_after {
            let options = TableReadOptions::from(&ReadOptions::default());
            pinned.version.visit(&family.table_cache, &options, &lookup, after, &mut |source| {
                let newest = newest(order, &lookup, source)?;
                is_changed = newest.is_some_and(|newest| newest > seqno);
                // What is behind the newest entry is older.
                Ok(newest.is_none())
            })?;
        }
        Ok(is_changed)
    }
}

/// The number of the newest entry of a key in one source.
fn newest(
    order: &InternalKeyComparator,
    lookup: &LookupKey,
    source: &mut impl InternalIterator,
) -> Result<Option<SeqNo>> {
    source.seek(lookup.internal_key());
    if !source.valid() {
        return source.status().map(|()| None);
    }
    let parsed = ParsedKey::parse(source.key())?;
    let is_same = order.compare_user(parsed.user_key, lookup.user_key()).is_eq();
    Ok(is_same.then_some(parsed.seqno))
}
