//! A merge of several levels, range by range.

use super::super::inputs::{Scene, total_bytes, user_key_range};
use crate::compaction::{LevelInputs, Merge};
use crate::file_meta::FileMeta;
use std::sync::Arc;

/// All tables of the levels of a merge between two user keys, where no table reaches out.
#[derive(Debug)]
pub(super) struct Piece {
    /// Upper levels first; levels without tables are left out.
    pub(super) inputs: Vec<LevelInputs>,
    smallest: Vec<u8>,
    largest: Vec<u8>,
}

impl Piece {
    fn bytes(&self) -> u64 {
        self.inputs.iter().map(|inputs| total_bytes(&inputs.files)).fold(0, u64::saturating_add)
    }

    fn files(&self) -> impl Iterator<Item = &Arc<FileMeta>> {
        self.inputs.iter().flat_map(|inputs| &inputs.files)
    }

    /// Whether there is nothing to merge: tables of one level above the one that they go to.
    fn is_move(&self, merge: &Merge) -> bool {
        matches!(&*self.inputs, [inputs] if inputs.level != merge.output_level)
    }
}

/// The first piece from the left that no running compaction has something of: as much as `max_bytes` have room for, and one group of tables that overlap at least. `None`
/// if there is none, or nothing to merge any more.
pub(super) fn next_piece(scene: &Scene<'_>, merge: &Merge, max_bytes: u64) -> Option<Piece> {
    let mut piece: Option<Piece> = None;
    let mut passed: Option<Vec<u8>> = None;
    loop {
        let from = piece.as_ref().map(|piece| &piece.largest).or(passed.as_ref());
        let Some(file) = first_file(scene, merge, from.map(Vec::as_slice)) else { return piece };
        let group = closure(scene, merge, file.smallest.user_key(), file.largest.user_key());
        if !is_free(scene, merge, &group) {
            if piece.is_some() {
                return piece;
            }
            passed = Some(group.largest);
            continue;
        }
        let Some(current) = &mut piece else {
            piece = Some(group);
            continue;
        };
        let bytes = current.bytes().saturating_add(group.bytes());
        if bytes > max_bytes || current.is_move(merge) != group.is_move(merge) {
            return piece;
        }
        let grown = closure(scene, merge, &current.smallest, &group.largest);
        if grown.bytes() > bytes {
            // A table between them needs no merge.
            return piece;
        }
        *current = grown;
    }
}

/// Among the levels that are emptied: the table that begins first behind the user key `from`.
fn first_file<'a>(scene: &'a Scene<'_>, merge: &Merge, from: Option<&[u8]>) -> Option<&'a Arc<FileMeta>> {
    let order = scene.order();
    let firsts = (merge.first_level..merge.output_level).filter_map(|level| {
        let files = scene.version.files(level);
        let is_passed =
            |file: &Arc<FileMeta>| from.is_some_and(|from| order.compare_user(file.smallest.user_key(), from).is_le());
        files.get(files.partition_point(is_passed))
    });
    firsts.min_by(|a, b| order.compare(a.smallest.as_bytes(), b.smallest.as_bytes()))
}

/// Everything from `smallest` to `largest`, and what overlaps that, directly or not.
fn closure(scene: &Scene<'_>, merge: &Merge, smallest: &[u8], largest: &[u8]) -> Piece {
    let order = scene.order();
    let mut piece = Piece { inputs: Vec::new(), smallest: smallest.to_vec(), largest: largest.to_vec() };
    let mut count = 0;
    loop {
        piece.inputs.clear();
        for level in merge.first_level..=merge.output_level {
            let files = scene.version.overlapping_files(level, Some(&piece.smallest), Some(&piece.largest));
            if let Some((low, high)) = user_key_range(order, files.iter().map(|file| &**file)) {
                if order.compare_user(low, &piece.smallest).is_lt() {
                    piece.smallest = low.to_vec();
                }
                if order.compare_user(high, &piece.largest).is_gt() {
                    piece.largest = high.to_vec();
                }
                piece.inputs.push(LevelInputs { level, files });
            }
        }
        let now = piece.files().count();
        if now == count {
            return piece;
        }
        count = now;
    }
}

/// Whether no running compaction reads tables of `piece` or writes to its range.
fn is_free(scene: &Scene<'_>, merge: &Merge, piece: &Piece) -> bool {
    let mut levels = merge.first_level..=merge.output_level;
    !piece.files().any(|file| file.is_being_compacted())
        && !levels.any(|level| scene.running.writes_to(scene.order(), level, &piece.smallest, &piece.largest))
}
