//! Tables that range tombstones of other tables cover as a whole: they are deleted by an edit of the MANIFEST alone.
//!
//! A table may go if a newer range tombstone lies over all its keys, and no snapshot sees the table without seeing the tombstone. What the table hid lies under the
//! tombstone too: it is older than the table, and within its keys. The tombstone stays where it is until compactions find nothing beneath it.
//!
//! A tombstone counts within the bounds of its table alone: RocksDB writes it uncut into every table of a level that it meets, and what lies beyond one of them may have gone from the others,
//! because it is done. Rows that were written since may be beneath it there.

use crate::compaction::{Compaction, CompressionType, LevelInputs};
use crate::event::CompactionReason;
use crate::file_meta::FileMeta;
use crate::key::{InternalKeyComparator, MAX_SEQNO, SeqNo};
use crate::range_tombstones::Fragments;
use crate::version::Version;
use std::sync::Arc;

/// At most so many tables are compared with tombstones at a time; what is left is seen once the tree has changed.
const MAX_COMPARED: usize = 4096;

/// The deletion of all idle tables that are covered; `None` if there are none. `snapshots` ascend; `fragments` tells the range tombstones of a table, as far as they are
/// known.
pub(super) fn pick<'a>(
    version: &'a Arc<Version>,
    snapshots: &[SeqNo],
    fragments: &dyn Fn(&'a FileMeta) -> Option<&'a Fragments>,
) -> Option<Compaction> {
    let order = version.comparator();
    // Timestamps make versions of one key live side by side.
    if order.user().timestamp_len() > 0 {
        return None;
    }
    let mut inputs: Vec<LevelInputs> = Vec::new();
    let mut compared = 0;
    for (source_level, source) in version.files_with_ranges() {
        let Some(fragments) = fragments(source) else { continue };
        for level in source_level..version.num_levels() {
            for file in files_within(version, level, source) {
                compared += 1;
                if compared > MAX_COMPARED {
                    break;
                }
                let is_covered = file.number != source.number
                    && !file.is_being_compacted()
                    // The counts of what blob files still have are kept by compactions that read it.
                    && file.oldest_blob_file().is_none()
                    && covered_from(fragments, order, file).is_some_and(|from| !is_seen(snapshots, file, from));
                if is_covered {
                    take(&mut inputs, level, file);
                }
            }
        }
    }
    let output_level = inputs.first()?.level;
    Some(Compaction {
        family: version.family(),
        reason: CompactionReason::Covered,
        inputs,
        output_level,
        input_version: Arc::clone(version),
        grandparents: Vec::new(),
        target_file_size: u64::MAX,
        max_output_file_size: u64::MAX,
        max_compaction_bytes: u64::MAX,
        compression: CompressionType::None,
        trivial_move: false,
        deletes: true,
        bottommost: false,
        fences: Vec::new(),
        merge: None,
    })
}

/// The tables of `level` that lie within the bounds of `source`.
fn files_within<'a>(version: &'a Version, level: usize, source: &FileMeta) -> impl Iterator<Item = &'a Arc<FileMeta>> {
    let order = version.comparator().clone();
    let (smallest, largest) = (source.smallest.user_key().to_vec(), source.largest.user_key().to_vec());
    let ends_exclusively = source.largest.is_exclusive_end();
    let files = version.files(level);
    let first = match level {
        0 => 0,
        _ => files.partition_point(|file| file.ends_before(&order, &smallest)),
    };
    let beyond = order.clone();
    let end = largest.clone();
    files[first..]
        .iter()
        .take_while(move |file| level == 0 || beyond.compare_user(file.smallest.user_key(), &end).is_le())
        .filter(move |file| {
            let ends_within = match ends_exclusively {
                true => file.ends_before(&order, &largest),
                false => order.compare_user(file.largest.user_key(), &largest).is_le(),
            };
            ends_within && order.compare_user(file.smallest.user_key(), &smallest).is_ge()
        })
}

/// The sequence number from which on a reader sees nothing of `file`, because newer tombstones cover it; `None` if some of it is not covered.
fn covered_from(fragments: &Fragments, order: &InternalKeyComparator, file: &FileMeta) -> Option<SeqNo> {
    if fragments.seqnos().1 <= file.largest_seqno {
        return None;
    }
    let mut from = 0;
    let mut key = file.smallest.user_key();
    loop {
        let stretch = fragments.stretch_at(key, MAX_SEQNO);
        if stretch.seqno <= file.largest_seqno {
            return None;
        }
        from = from.max(stretch.seqno);
        let end = stretch.end?;
        if file.ends_before(order, end) {
            return Some(from);
        }
        key = end;
    }
}

/// Whether a snapshot before `from` sees something of `file`.
fn is_seen(snapshots: &[SeqNo], file: &FileMeta, from: SeqNo) -> bool {
    let first = snapshots.partition_point(|snapshot| *snapshot < file.smallest_seqno);
    snapshots.get(first).is_some_and(|snapshot| *snapshot < from)
}

/// Adds a table of `level`, once.
fn take(inputs: &mut Vec<LevelInputs>, level: usize, file: &Arc<FileMeta>) {
    let place = inputs.partition_point(|inputs| inputs.level < level);
    if inputs.get(place).is_none_or(|inputs| inputs.level != level) {
        inputs.insert(place, LevelInputs { level, files: Vec::new() });
    }
    let files = &mut inputs[place].files;
    if !files.iter().any(|other| other.number == file.number) {
        files.push(Arc::clone(file));
    }
}
