//! The range tombstones of a compaction's inputs.

use super::shares::KeyRange;
use crate::compaction::Compaction;
use crate::file_meta::FileMeta;
use crate::key::InternalKeyComparator;
use crate::range_tombstones::RangeTombstone;
use crate::table_cache::TableCache;
use siltstone_base::Result;
use siltstone_base::env::IoContext;

/// All range tombstones of the inputs within `keys`, in no order. Below level 0 each is cut to the range of its table: what reaches beyond is in the
/// neighbours too, and obsolete where it is not.
pub(super) fn gather(
    compaction: &Compaction,
    keys: &KeyRange,
    table_cache: &TableCache,
    context: IoContext,
) -> Result<Vec<RangeTombstone>> {
    let order = compaction.input_version.comparator();
    let mut gathered = Vec::new();
    for (level, file) in compaction.input_files() {
        let reader = table_cache.reader(file)?;
        if reader.range_fragments().is_none() {
            continue;
        }
        let tombstones = reader.read_range_tombstones(context)?;
        let tombstones = tombstones
            .into_iter()
            .filter_map(|tombstone| cut(order, tombstone, keys.start.as_deref(), keys.end.as_deref()));
        if level == 0 {
            gathered.extend(tombstones);
            continue;
        }
        let (start, end) = (file.smallest.user_key(), end_of(compaction, level, file));
        gathered.extend(tombstones.filter_map(|tombstone| cut(order, tombstone, Some(start), end)));
    }
    Ok(gathered)
}

/// Where the range of `file` ends, exclusive; `None`: nowhere. No entry lies between its last key and the next table of its level.
fn end_of<'a>(compaction: &'a Compaction, level: usize, file: &'a FileMeta) -> Option<&'a [u8]> {
    if file.largest.is_exclusive_end() {
        return Some(file.largest.user_key());
    }
    let files = compaction.input_version.files(level);
    let position = files.iter().position(|other| other.number == file.number)?;
    files.get(position + 1).map(|next| next.smallest.user_key())
}

/// What of `tombstone` lies at or after `start` and before `end`.
fn cut(
    order: &InternalKeyComparator,
    mut tombstone: RangeTombstone,
    start: Option<&[u8]>,
    end: Option<&[u8]>,
) -> Option<RangeTombstone> {
    if let Some(start) = start
        && order.compare_user(&tombstone.start, start).is_lt()
    {
        tombstone.start = start.into();
    }
    if let Some(end) = end
        && order.compare_user(&tombstone.end, end).is_gt()
    {
        tombstone.end = end.into();
    }
    order.compare_user(&tombstone.start, &tombstone.end).is_lt().then_some(tombstone)
}
