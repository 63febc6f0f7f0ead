//! A merge of several levels, range by range.
//!
//! 1. Where the runs have common borders, a piece is what lies between two of them: a table, what overlaps it, what overlaps that, and so on.
//! 2. Runs that another style made, or that are older than the borders of the oldest run, have none for long stretches. There a piece is a [`cone`]: a few tables of the
//!    uppermost level and what lies beneath them. The tables at the cone's sides are written again by the next one.

use super::super::inputs::{Scene, meeting, total_bytes};
use crate::compaction::{LevelInputs, Merge};
use crate::file_meta::FileMeta;
use crate::key::InternalKeyComparator;
use std::sync::Arc;

/// A group of tables that overlap, directly or not, is taken as a whole if it is no more than so many pieces.
const UNALIGNED_PARTS: u64 = 4;

/// All tables of the levels of a merge between two user keys, where no table reaches out.
#[derive(Debug)]
pub(super) struct Piece {
    /// Upper levels first; levels without tables are left out.
    pub(super) inputs: Vec<LevelInputs>,
    smallest: Vec<u8>,
    end: End,
    bytes: u64,
}

/// Where a piece ends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    key: Vec<u8>,
    /// The key is the exclusive end of a range tombstone: the next piece may begin with it.
    is_exclusive: bool,
}

impl End {
    fn of(order: &InternalKeyComparator, file: &FileMeta) -> Self {
        let key = file.largest.user_key();
        Self { key: key.to_vec(), is_exclusive: file.ends_before(order, key) }
    }

    /// Whether it lies before a table, none of whose keys the piece then has.
    fn is_before(&self, order: &InternalKeyComparator, file: &FileMeta) -> bool {
        let order = order.compare_user(&self.key, file.smallest.user_key());
        order.is_lt() || self.is_exclusive && order.is_eq()
    }

    fn is_beyond(&self, order: &InternalKeyComparator, other: &Self) -> bool {
        let order = order.compare_user(&self.key, &other.key);
        order.is_gt() || order.is_eq() && other.is_exclusive && !self.is_exclusive
    }
}

impl Piece {
    fn files(&self) -> impl Iterator<Item = &Arc<FileMeta>> {
        self.inputs.iter().flat_map(|inputs| &inputs.files)
    }

    /// Whether there is nothing to merge: tables of one level above the one that they go to.
    fn is_move(&self, merge: &Merge) -> bool {
        matches!(&*self.inputs, [inputs] if inputs.level != merge.output_level)
    }

    /// Takes the piece right behind it in.
    fn append(&mut self, next: Self) {
        for LevelInputs { level, files } in next.inputs {
            match self.inputs.iter_mut().find(|inputs| inputs.level == level) {
                Some(inputs) => inputs.files.extend(files),
                None => {
                    let place = self.inputs.partition_point(|inputs| inputs.level < level);
                    self.inputs.insert(place, LevelInputs { level, files });
                }
            }
        }
        self.end = next.end;
        self.bytes = self.bytes.saturating_add(next.bytes);
    }
}

/// The first piece from the left that no running compaction has something of: as much as `max_bytes` have room for, and one group of tables that overlap at least. `None`
/// if there is none, or nothing to merge any more.
pub(super) fn next_piece(scene: &Scene<'_>, merge: &Merge, max_bytes: u64) -> Option<Piece> {
    let mut piece: Option<Piece> = None;
    let mut passed: Option<End> = None;
    loop {
        let from = piece.as_ref().map(|piece| &piece.end).or(passed.as_ref());
        let Some(file) = first_file(scene, merge, from) else { return piece };
        let group = match closure(scene, merge, file, max_bytes.saturating_mul(UNALIGNED_PARTS)) {
            Some(group) => group,
            // Runs without common borders: all of them would be one piece.
            None if piece.is_some() => return piece,
            None => match cone(scene, merge, from, max_bytes) {
                Cone::Free(cone) => return Some(cone),
                Cone::Busy(end) => {
                    passed = Some(end);
                    continue;
                }
                Cone::Empty => return None,
            },
        };
        if !is_free(scene, merge, &group) {
            if piece.is_some() {
                return piece;
            }
            passed = Some(group.end);
            continue;
        }
        let Some(current) = &mut piece else {
            piece = Some(group);
            continue;
        };
        let bytes = current.bytes.saturating_add(group.bytes);
        if bytes > max_bytes
            || current.is_move(merge) != group.is_move(merge)
            // A table between them needs no merge.
            || has_table_between(scene, merge, &current.end, &group)
            // Nor does one that is about to be there: output between the two groups would overlap it.
            || scene.running.writes_to(scene.order(), merge.output_level, &current.smallest, &group.end.key)
        {
            return piece;
        }
        current.append(group);
    }
}

/// Among the levels that are emptied: the table that begins first behind `from`.
fn first_file<'a>(scene: &'a Scene<'_>, merge: &Merge, from: Option<&End>) -> Option<&'a Arc<FileMeta>> {
    let order = scene.order();
    let firsts = (merge.first_level..merge.output_level).filter_map(|level| {
        let files = scene.version.files(level);
        files.get(files.partition_point(|file| from.is_some_and(|from| !from.is_before(order, file))))
    });
    firsts.min_by(|a, b| order.compare(a.smallest.as_bytes(), b.smallest.as_bytes()))
}

/// Whether the level that is written to has a table behind `end` that lies before the tables of `group`.
fn has_table_between(scene: &Scene<'_>, merge: &Merge, end: &End, group: &Piece) -> bool {
    let order = scene.order();
    let files = scene.version.files(merge.output_level);
    let next = files.get(files.partition_point(|file| !end.is_before(order, file)));
    next.is_some_and(|file| order.compare_user(file.smallest.user_key(), &group.smallest).is_lt())
}

/// A table, and what overlaps it, directly or not; `None` if that is more than `max_bytes`.
fn closure(scene: &Scene<'_>, merge: &Merge, file: &FileMeta, max_bytes: u64) -> Option<Piece> {
    let order = scene.order();
    let (smallest, end) = (file.smallest.user_key().to_vec(), End::of(order, file));
    let mut piece = Piece { inputs: Vec::new(), smallest, end, bytes: 0 };
    let mut count = 0;
    loop {
        piece.inputs.clear();
        for level in merge.first_level..=merge.output_level {
            let mut files = scene.version.overlapping_files(level, Some(&piece.smallest), Some(&piece.end.key));
            files.retain(|file| !piece.end.is_before(order, file));
            if let (Some(first), Some(last)) = (files.first(), files.last()) {
                if order.compare_user(first.smallest.user_key(), &piece.smallest).is_lt() {
                    piece.smallest = first.smallest.user_key().to_vec();
                }
                let end = End::of(order, last);
                if end.is_beyond(order, &piece.end) {
                    piece.end = end;
                }
                piece.inputs.push(LevelInputs { level, files });
            }
        }
        piece.bytes = piece.inputs.iter().map(|inputs| total_bytes(&inputs.files)).fold(0, u64::saturating_add);
        if piece.bytes > max_bytes {
            return None;
        }
        let now = piece.files().count();
        if now == count {
            return Some(piece);
        }
        count = now;
    }
}

/// What [`cone`] finds.
enum Cone {
    Free(Piece),
    /// Something that runs is in its way, up to here.
    Busy(End),
    /// No level that is emptied has a table there.
    Empty,
}

/// Tables of the uppermost level that has any behind `from`, and what they meet going down: all that must go along, so that nothing comes to lie beneath what is
/// older. Newer tables above stay. As many as `max_bytes` have room for, and one at least.
fn cone(scene: &Scene<'_>, merge: &Merge, from: Option<&End>, max_bytes: u64) -> Cone {
    let order = scene.order();
    let behind = |level: usize| {
        let files = scene.version.files(level);
        &files[files.partition_point(|file| from.is_some_and(|from| !from.is_before(order, file)))..]
    };
    let uppermost = (merge.first_level..merge.output_level).find(|level| !behind(*level).is_empty());
    let Some(level) = uppermost else { return Cone::Empty };
    let files = behind(level);
    let mut found = None;
    for count in 1..=files.len() {
        let (piece, is_free) = beneath(scene, merge, level, &files[..count]);
        match &found {
            Some(_) if !is_free || piece.bytes > max_bytes => break,
            None if !is_free => return Cone::Busy(piece.end),
            _ => found = Some(piece),
        }
    }
    found.map_or(Cone::Empty, Cone::Free)
}

/// Tables of `level`, those of each level beneath that meet what is taken above, and whether nothing that runs has any of it.
fn beneath(scene: &Scene<'_>, merge: &Merge, level: usize, start: &[Arc<FileMeta>]) -> (Piece, bool) {
    let order = scene.order();
    let mut files = start.to_vec();
    let mut all: Vec<Arc<FileMeta>> = Vec::new();
    let mut inputs = Vec::new();
    for level in level..=merge.output_level {
        if !all.is_empty() {
            files = meeting(scene.version, level, &all);
        }
        // Whether they are free is asked once, of all of them.
        let _ = scene.expand_to_clean_cut(level, &mut files);
        if !files.is_empty() {
            all.extend_from_slice(&files);
            inputs.push(LevelInputs { level, files: std::mem::take(&mut files) });
        }
    }
    let first = start.first().map_or(&[][..], |file| file.smallest.user_key());
    let smallest = all.iter().map(|file| file.smallest.user_key());
    let smallest = smallest.fold(first, |least, key| if order.compare_user(key, least).is_lt() { key } else { least });
    let ends = all.iter().map(|file| End::of(order, file));
    let end = ends.reduce(|last, end| if end.is_beyond(order, &last) { end } else { last });
    let end = end.unwrap_or(End { key: Vec::new(), is_exclusive: false });
    let piece = Piece { smallest: smallest.to_vec(), end, bytes: total_bytes(&all), inputs };
    let is_free = is_free(scene, merge, &piece);
    (piece, is_free)
}

/// Whether no running compaction reads tables of `piece` or writes to its range.
fn is_free(scene: &Scene<'_>, merge: &Merge, piece: &Piece) -> bool {
    let mut levels = merge.first_level..=merge.output_level;
    !piece.files().any(|file| file.is_being_compacted())
        && !levels.any(|level| scene.running.writes_to(scene.order(), level, &piece.smallest, &piece.end.key))
}
