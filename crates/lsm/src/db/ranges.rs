//! Which range tombstones a reader must know of.

use super::column_family::Family;
use super::super_version::SuperVersion;
use crate::iterator::{ChildIter, InternalIterator, MergingIter, RangeSource, RangeView};
use crate::key::{LookupKey, SeqNo};
use crate::memtable::RangeReader;
use crate::options::ReadTier;
use siltstone_base::{Error, Result};

/// The range tombstones of all that is pinned, for a reader at `seqno`; `None` if there are none. Sources are numbered as the children of an
/// iterator, `first_child` on: the memtables, newest first, then those of the version.
///
/// # Errors
///
/// `Incomplete` if `tier` does not let a table be opened that must be asked, and errors of opening one; `NotSupported` beside timestamps.
pub(super) fn range_view(
    family: &Family,
    pinned: &SuperVersion,
    seqno: SeqNo,
    first_child: usize,
    tier: ReadTier,
) -> Result<Option<Box<RangeView>>> {
    if family.timestamps.is_some() {
        return refuse_ranges(family, pinned, tier).map(|()| None);
    }
    let mut sources = Vec::new();
    let mut child = first_child;
    for memtable in std::iter::once(&pinned.memtable).chain(pinned.immutables.newest_first()) {
        if let Some(reader) = RangeReader::new(memtable) {
            sources.push((child, RangeSource::Memtable(reader)));
        }
        child += 1;
    }
    pinned.version.add_range_sources(&family.table_cache, tier, child, &mut sources)?;
    Ok(RangeView::new(&family.comparator, seqno, sources))
}

/// Fails if a family whose keys have timestamps has range tombstones.
#[cold]
fn refuse_ranges(family: &Family, pinned: &SuperVersion, tier: ReadTier) -> Result<()> {
    let mut memtables = std::iter::once(&pinned.memtable).chain(pinned.immutables.newest_first());
    let mut has_any = memtables.any(|memtable| memtable.num_ranges() > 0);
    for (_, file) in pinned.version.all_files().filter(|(_, file)| file.may_have_ranges()) {
        has_any |= family.table_cache.reader_within(file, tier)?.range_fragments().is_some();
    }
    if has_any {
        let what = format!("range tombstones with timestamps, which column family {} has", family.name);
        return Err(Error::not_supported(what));
    }
    Ok(())
}

/// Seeks forward to `key`: each child to where no newer source hides everything from there on.
pub(super) fn seek_uncovered(
    merged: &mut MergingIter<ChildIter>,
    ranges: &mut RangeView,
    key: &[u8],
    seqno: SeqNo,
) -> Result<()> {
    let lookup = LookupKey::new(key, seqno);
    if ranges.covering(key)? == 0 {
        merged.seek(lookup.internal_key());
        return Ok(());
    }
    let starts = ranges.uncovered_from(key)?;
    let starts: Vec<_> = starts.iter().map(|(child, start)| (*child, LookupKey::new(start, seqno))).collect();
    merged.position_each(false, |index, child| {
        let start = starts.iter().rev().find(|(first, _)| *first <= index);
        child.seek(start.map_or(&lookup, |(_, start)| start).internal_key());
    });
    Ok(())
}
