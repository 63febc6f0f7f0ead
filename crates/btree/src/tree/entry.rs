//! Changing entries of a secondary index: the one door for them. An entry is a key without a value; what can be said of it is whether it is there, whether it is marked
//! as deleted, and who did that.
//!
//! What an operation does to an entry follows from the operation and the entry alone ([`EntryOp::outcome`]): so operations on the entries of one page may be collected,
//! and made later in the order in which they came.

use super::Tree;
use super::insert::has_room;
use super::search::Route;
use crate::mtr::{Close, change_one};
use crate::page::{self, Cell, Change, FLAG_DELETED, FLAG_STAMP, PageMut, Stamp};
use siltstone_base::{Error, ErrorKind, Result};

/// Splits for one entry.
const MAX_SPLITS: usize = 16;

/// What is done to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryOp {
    /// It is there from now on, whatever was before: it is added, or revived if it is marked.
    Insert {
        /// Who did that, if the undo log knows what was before.
        stamp: Option<Stamp>,
    },
    /// It is marked as deleted, if it is there.
    Mark {
        /// Who did that.
        stamp: Stamp,
    },
    /// It goes, if it is there.
    Remove {
        /// Only as this change left it.
        only_if: Option<Stamp>,
    },
}

/// What is to be done to a page for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryOutcome {
    /// Nothing.
    Stays,
    /// The entry's cell gets these flags, and this stamp as its value; it is added if it is not there.
    Becomes(u8, Option<Stamp>),
    /// The entry's cell goes.
    Goes,
}

impl EntryOp {
    /// What the operation does to an entry with the flags and the stamp of `cell`; `None`: there is none.
    pub(crate) fn outcome(self, cell: Option<(u8, Option<Stamp>)>) -> EntryOutcome {
        let next = match self {
            Self::Insert { stamp } => (if stamp.is_some() { FLAG_STAMP } else { 0 }, stamp),
            Self::Mark { stamp } if cell.is_some() => (FLAG_STAMP | FLAG_DELETED, Some(stamp)),
            Self::Remove { only_if } if cell.is_some_and(|(_, now)| only_if.is_none() || only_if == now) => {
                return EntryOutcome::Goes;
            }
            Self::Mark { .. } | Self::Remove { .. } => return EntryOutcome::Stays,
        };
        if cell == Some(next) { EntryOutcome::Stays } else { EntryOutcome::Becomes(next.0, next.1) }
    }
}

/// What an operation changes on a leaf.
#[derive(Debug)]
pub(crate) struct EntryPlan<'a> {
    pub(crate) change: Change<'a>,
    /// Whether a cell is added.
    pub(crate) is_new: bool,
    /// The slot of the entry.
    pub(crate) slot: usize,
    /// Bytes that the leaf gets back, and bytes that it must have.
    pub(crate) freed: usize,
    pub(crate) taken: usize,
}

impl EntryOp {
    /// Who does it, where the entry's cell says so afterwards.
    pub(crate) fn stamp(self) -> Option<Stamp> {
        match self {
            Self::Insert { stamp } => stamp,
            Self::Mark { stamp } => Some(stamp),
            Self::Remove { .. } => None,
        }
    }

    /// What the entry is afterwards.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn after(self, cell: Option<(u8, Option<Stamp>)>) -> Option<(u8, Option<Stamp>)> {
        match self.outcome(cell) {
            EntryOutcome::Stays => cell,
            EntryOutcome::Becomes(flags, stamp) => Some((flags, stamp)),
            EntryOutcome::Goes => None,
        }
    }

    /// What the operation changes on a leaf, if anything. `value` is its encoded [`stamp`](Self::stamp), if it has one. An error is that the slots make no sense.
    pub(crate) fn plan<'a>(
        self,
        leaf: &[u8],
        key: &'a [u8],
        value: &'a [u8],
    ) -> std::result::Result<Option<EntryPlan<'a>>, &'static str> {
        let found = page::find(leaf, key).ok_or("the slots make no sense")?;
        let cell = found.as_ref().ok().map(|(_, cell)| (cell.flags, Stamp::of(cell.flags, cell.value)));
        let old = found.as_ref().map_or(0, |(_, cell)| cell.value.len());
        let old_footprint = found.as_ref().map_or(0, |(_, cell)| cell.footprint());
        let (is_new, slot) = match &found {
            Ok((slot, _)) => (false, *slot),
            Err(slot) => (true, *slot),
        };
        let (change, freed, taken) = match self.outcome(cell) {
            EntryOutcome::Stays => return Ok(None),
            EntryOutcome::Goes => (Change::Remove { slot: slot as u16 }, old_footprint, 0),
            EntryOutcome::Becomes(flags, _) if is_new => {
                let cell = Cell { flags, key, value };
                (Change::Insert { slot: slot as u16, cell }, 0, cell.footprint())
            }
            EntryOutcome::Becomes(flags, _) => (Change::Replace { slot: slot as u16, flags, value }, old, value.len()),
        };
        Ok(Some(EntryPlan { change, is_new, slot, freed, taken }))
    }
}

impl Tree {
    /// Changes an entry, as part of an open group. Returns whether its leaf is now so empty that it should be merged.
    pub(crate) fn apply_entry(&self, key: &[u8], op: EntryOp) -> Result<bool> {
        if self.keep_back(key, op)? {
            return Ok(false);
        }
        for _ in 0..MAX_SPLITS {
            if let Some(is_underfull) = self.try_apply_entry(key, op)? {
                return Ok(is_underfull);
            }
            self.make_room(key, Stamp::LEN, Close::Open)?;
        }
        Err(Error::new(ErrorKind::LimitExceeded, "an entry does not fit between its neighbours"))
    }

    /// `None` if the leaf has no room.
    fn try_apply_entry(&self, key: &[u8], op: EntryOp) -> Result<Option<bool>> {
        let (number, mut leaf) = self.leaf_exclusive(Route::Key(key))?;
        let header = leaf.header();
        let stamp = op.stamp().map(|stamp| stamp.encode());
        let value = stamp.as_ref().map_or(&[][..], |stamp| &stamp[..]);
        let plan = op.plan(leaf.bytes(), key, value).map_err(|what| self.corruption(number, what))?;
        let Some(EntryPlan { change, is_new, slot, freed, taken }) = plan else { return Ok(Some(false)) };
        let page_len = self.pool.page_len();
        if header.free() + freed < taken || (is_new && !has_room(&header, slot, taken, page_len)) {
            return Ok(None);
        }
        self.note_free(number, header.free() + freed - taken)?;
        change_one(&self.pool, &mut leaf, &change, Close::Open)?;
        let is_removal = matches!(change, Change::Remove { .. });
        Ok(Some(is_removal && self.is_underfull(header.used(page_len) - freed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mtr::close_group;
    use crate::{Db, DbOptions, Durability};
    use std::collections::BTreeMap;

    const T1: Stamp = Stamp { id: 7, number: 1 };
    const T2: Stamp = Stamp { id: 8, number: 3 };

    #[test]
    fn an_operation_does_what_follows_from_it_and_the_entry() {
        let live = Some((0, None));
        let (by_t1, marked) = (Some((FLAG_STAMP, Some(T1))), Some((FLAG_STAMP | FLAG_DELETED, Some(T1))));
        let (plain, stamped) = (EntryOp::Insert { stamp: None }, EntryOp::Insert { stamp: Some(T2) });
        let remove = |only_if| EntryOp::Remove { only_if };
        let becomes = |flags, stamp| EntryOutcome::Becomes(flags, stamp);
        for (op, cells, expected) in [
            (plain, &[None, by_t1, marked][..], becomes(0, None)),
            (plain, &[live], EntryOutcome::Stays),
            (stamped, &[None, live, by_t1, marked], becomes(FLAG_STAMP, Some(T2))),
            (EntryOp::Insert { stamp: Some(T1) }, &[by_t1], EntryOutcome::Stays),
            (EntryOp::Mark { stamp: T2 }, &[live, by_t1, marked], becomes(FLAG_STAMP | FLAG_DELETED, Some(T2))),
            (EntryOp::Mark { stamp: T2 }, &[None], EntryOutcome::Stays),
            (remove(None), &[live, by_t1, marked], EntryOutcome::Goes),
            (remove(Some(T1)), &[by_t1, marked], EntryOutcome::Goes),
            (remove(Some(T2)), &[None, live, by_t1, marked], EntryOutcome::Stays),
        ] {
            cells.iter().for_each(|cell| assert_eq!(op.outcome(*cell), expected, "{op:?} of {cell:?}"));
        }
    }

    /// An entry was deleted by T1 and inserted again by T2 when purge comes for T1.
    #[test]
    fn what_was_revived_survives_the_purge_of_who_deleted_it() {
        let ops = [
            EntryOp::Insert { stamp: None },
            EntryOp::Mark { stamp: T1 },
            EntryOp::Insert { stamp: Some(T2) },
            EntryOp::Remove { only_if: Some(T1) },
        ];
        assert_eq!(ops.into_iter().fold(None, |cell, op| op.after(cell)), Some((FLAG_STAMP, Some(T2))));
        // T2 brings back what T1 left, and then purge comes.
        let ops = [&ops[..3], &[EntryOp::Mark { stamp: T1 }, EntryOp::Remove { only_if: Some(T1) }]].concat();
        assert_eq!(ops.into_iter().fold(None, |cell, op| op.after(cell)), None);
    }

    #[test]
    fn pages_become_what_operations_say_and_stay_sound() {
        let dir = tempfile::tempdir().unwrap();
        let options = DbOptions::default()
            .create_if_missing(true)
            .page_size(512)
            .buffer_pool_bytes(2 << 20)
            .redo_capacity_bytes(8 << 20)
            .durability(Durability::Os);
        let db = Db::open(dir.path(), &options).unwrap();
        let handle = db.create_tree("entries").unwrap();
        let tree = db.tree_for_test(&handle);
        let mut model = BTreeMap::new();
        let mut state = 1_u64;
        for step in 0..6_000_u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = (state >> 33) as u32;
            let key = format!("{:04}", random % 600);
            let stamp = Stamp { id: 1 + u64::from(random % 5), number: step + 1 };
            let last = model.get(&key).and_then(|(_, stamp)| *stamp);
            let op = match (random / 600) % 8 {
                0 | 1 => EntryOp::Insert { stamp: None },
                2 | 3 => EntryOp::Insert { stamp: Some(stamp) },
                4 | 5 => EntryOp::Mark { stamp },
                6 => EntryOp::Remove { only_if: last.or(Some(stamp)) },
                _ => EntryOp::Remove { only_if: None },
            };
            let is_underfull = tree.apply_entry(key.as_bytes(), op).unwrap();
            close_group(tree.pool()).unwrap();
            if is_underfull {
                tree.merge_at(key.as_bytes(), Close::Group).unwrap();
            }
            match op.after(model.get(&key).copied()) {
                Some(cell) => drop(model.insert(key, cell)),
                None => drop(model.remove(&key)),
            }
        }
        assert!(tree.pool().metrics.get(crate::Counter::Splits) > 0);
        assert!(tree.pool().metrics.get(crate::Counter::Merges) > 0);
        for number in 0..600 {
            let key = format!("{number:04}");
            let found = tree.raw(key.as_bytes()).unwrap().map(|(flags, value)| (flags, Stamp::of(flags, &value)));
            assert_eq!(found, model.get(&key).copied(), "{key}");
        }
        let report = db.check().unwrap();
        assert_eq!((report.rows + report.deleted_rows) as usize, model.len());
    }
}
