//! How the keys of a large compaction are shared out to subcompactions.
//!
//! 1. The index of every input says which keys cut it into a few stretches of about one size: anchors.
//! 2. All anchors together, in order, tell about how many bytes lie before each.
//! 3. There are as many shares as are allowed, unless they had less than one output each; they end at the anchors where their bytes are full.

use crate::compaction::Compaction;
use crate::file_meta::FileMeta;
use crate::key::InternalKeyComparator;
use crate::table_cache::TableCache;
use siltstone_base::Result;

/// Anchors of each input.
const ANCHORS: usize = 64;

/// A range of user keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// The first of them; `None`: no bound.
    pub(crate) start: Option<Vec<u8>>,
    /// The first one behind; `None`: no bound.
    pub(crate) end: Option<Vec<u8>>,
}

impl KeyRange {
    /// Whether it has all keys.
    pub(super) fn is_all(&self) -> bool {
        self.start.is_none() && self.end.is_none()
    }

    /// Whether `file` may have some of them.
    pub(super) fn may_meet(&self, order: &InternalKeyComparator, file: &FileMeta) -> bool {
        let begins_behind = |end: &Vec<u8>| order.compare_user(file.smallest.user_key(), end).is_ge();
        !self.end.as_ref().is_some_and(begins_behind)
            && !self.start.as_ref().is_some_and(|start| file.ends_before(order, start))
    }
}

/// The ranges of at most `most` subcompactions, ascending: together all keys. One if `compaction` is too small for more.
///
/// # Errors
///
/// Those of opening an input.
pub(crate) fn shares(compaction: &Compaction, table_cache: &TableCache, most: usize) -> Result<Vec<KeyRange>> {
    let order = compaction.input_version.comparator();
    // The versions of a key with timestamps are keys of their own, and must stay together.
    let most = if order.user().timestamp_len() == 0 { most as u64 } else { 1 };
    let parts = most.min(compaction.input_bytes() / compaction.target_file_size.max(1));
    if parts < 2 {
        return Ok(vec![KeyRange::default()]);
    }
    let mut anchors = Vec::new();
    for (_, file) in compaction.input_files() {
        anchors.extend(table_cache.reader(file)?.anchors(ANCHORS));
    }
    Ok(ranges(cuts(order, anchors, parts)))
}

/// Keys that cut what `anchors` tell of into at most `parts` of about one size. Ascending, each once.
pub(super) fn cuts(order: &InternalKeyComparator, mut anchors: Vec<(Vec<u8>, u64)>, parts: u64) -> Vec<Vec<u8>> {
    anchors.sort_by(|a, b| order.compare_user(&a.0, &b.0));
    let all: u64 = anchors.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
    let mut cuts: Vec<Vec<u8>> = Vec::new();
    let (mut before, mut part) = (0_u64, 1_u64);
    let end_of = |part: u64| (u128::from(all) * u128::from(part) / u128::from(parts.max(1))) as u64;
    for (key, bytes) in anchors {
        before = before.saturating_add(bytes);
        let is_new = cuts.last().is_none_or(|last| order.compare_user(last, &key).is_lt());
        if before < all && is_new && before >= end_of(part) {
            cuts.push(key);
            // A stretch may be larger than a part.
            part = (part..parts).find(|part| end_of(*part) > before).unwrap_or(parts);
        }
    }
    cuts
}

/// The ranges between `cuts`.
pub(super) fn ranges(cuts: Vec<Vec<u8>>) -> Vec<KeyRange> {
    let ends = cuts.iter().cloned().map(Some).chain([None]);
    let starts = [None].into_iter().chain(cuts.iter().cloned().map(Some));
    starts.zip(ends).map(|(start, end)| KeyRange { start, end }).collect()
}
