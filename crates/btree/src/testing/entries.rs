//! Entries of secondary indexes without their table: what the change buffer does with them can be told from what a map says.

use crate::page::Stamp;
use crate::tree::{Chunk, EntryOp, Position, Start};
use crate::{Db, Result, TreeHandle};
use std::collections::BTreeMap;

/// An entry: the flags of its cell, and its stamp.
pub type IndexEntry = (u8, Option<Stamp>);

/// What is done to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryChange {
    /// It is there from now on.
    Insert(Option<Stamp>),
    /// It is marked as deleted, if it is there.
    Mark(Stamp),
    /// It goes, if it is there; only as this change left it, if one is named.
    Remove(Option<Stamp>),
}

impl EntryChange {
    fn op(self) -> EntryOp {
        match self {
            Self::Insert(stamp) => EntryOp::Insert { stamp },
            Self::Mark(stamp) => EntryOp::Mark { stamp },
            Self::Remove(only_if) => EntryOp::Remove { only_if },
        }
    }

    /// What it makes of an entry.
    pub fn after(self, entry: Option<IndexEntry>) -> Option<IndexEntry> {
        self.op().after(entry)
    }
}

/// Changes entries of a tree as one group.
///
/// # Errors
///
/// Those of [`Db::put_in`].
pub fn apply_entries(db: &Db, tree: &TreeHandle, changes: &[(Vec<u8>, EntryChange)]) -> Result<()> {
    let ops: Vec<_> = changes.iter().map(|(key, change)| (key.clone(), change.op())).collect();
    db.apply_entries_for_test(tree, &ops)
}

/// All entries of a tree.
///
/// # Errors
///
/// Those of [`Db::get_in`].
pub fn entries(db: &Db, tree: &TreeHandle, is_forward: bool) -> Result<BTreeMap<Vec<u8>, IndexEntry>> {
    let tree = db.tree_for_test(tree);
    let (mut entries, mut position, mut chunk) = (BTreeMap::new(), Position::default(), Chunk::default());
    let mut last: Option<Vec<u8>> = None;
    loop {
        let start = last.as_deref().map_or(Start::End, Start::Beyond);
        tree.read_chunk(start, is_forward, &mut position, 7, &mut chunk)?;
        let Some((key, _)) = chunk.len().checked_sub(1).and_then(|last| chunk.get(last)) else { return Ok(entries) };
        last = Some(key.to_vec());
        for index in 0..chunk.len() {
            let Some((key, value)) = chunk.get(index) else { break };
            let flags = chunk.flags(index);
            entries.insert(key.to_vec(), (flags, Stamp::of(flags, value)));
        }
    }
}

/// One entry of a tree.
///
/// # Errors
///
/// Those of [`Db::get_in`].
pub fn entry(db: &Db, tree: &TreeHandle, key: &[u8]) -> Result<Option<IndexEntry>> {
    let found = db.tree_for_test(tree).raw(key)?;
    Ok(found.map(|(flags, value)| (flags, Stamp::of(flags, &value))))
}
