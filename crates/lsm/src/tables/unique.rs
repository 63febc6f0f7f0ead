//! Unique indexes: no two rows have the same index key.
//!
//! 1. Whoever gives keys to rows locks them, in ascending order, so that nobody waits in a circle.
//! 2. Then he looks whether they are there, but for those that he takes from rows of the same call. That is a point lookup, which filters answer for a key that is new.
//! 3. He writes, and gives the locks back when what he wrote is visible.
//!
//! Who gives up a key needs no lock: until that is visible, others find the key, and refuse.

use super::TableDb;
use super::index::Table;
use super::insert::Scratch;
use super::layout::IndexId;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::row_locks::{LockMode, RowLocks};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeSet;

/// A key of a unique index that a row gets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    /// As it is stored.
    pub(super) key: Vec<u8>,
    /// The number of the row in its call.
    pub(super) row: usize,
    pub(super) index: IndexId,
}

/// Locks of keys, until it is dropped.
#[derive(Debug)]
pub(super) struct Claimed<'a> {
    locks: &'a RowLocks,
    owner: u64,
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        self.locks.release_all(self.owner);
    }
}

impl TableDb {
    /// Locks the keys that rows get in unique indexes, and refuses those that other rows have. `None` if there are none.
    pub(super) fn claim(&self, tables: &[Arc<Table>], scratch: &mut Scratch) -> Result<Option<Claimed<'_>>> {
        if scratch.claims.is_empty() {
            return Ok(None);
        }
        let claims = &mut scratch.claims;
        claims.sort_unstable();
        if let Some(twice) = claims.windows(2).find(|pair| pair[0].key == pair[1].key) {
            let what = format!("rows {} and {} have the same key", twice[0].row, twice[1].row);
            return Err(violation(tables, &twice[1], &what));
        }
        let claimed = self.lock_keys(claims)?;
        let freed: BTreeSet<&[u8]> = scratch.freed.iter().map(|key| &key[..]).collect();
        for claim in &*claims {
            if freed.contains(&claim.key[..]) || is_planted(PlantedBug::UniqueIsNotChecked) {
                continue;
            }
            if self.ground.db.get(&claim.key)?.is_some() {
                return Err(violation(tables, claim, &format!("row {} has the key of a row that is there", claim.row)));
            }
        }
        Ok(Some(claimed))
    }

    /// Locks keys, which ascend.
    pub(super) fn lock_keys(&self, claims: &[Claim]) -> Result<Claimed<'_>> {
        let owner = self.next_owner.fetch_add(1, Ordering::Relaxed);
        let claimed = Claimed { locks: &self.unique_keys, owner };
        for claim in claims {
            self.unique_keys.lock(self.ground.db.executor(), owner, 0, &claim.key, LockMode::Exclusive, None)?;
        }
        Ok(claimed)
    }
}

#[cold]
fn violation(tables: &[Arc<Table>], claim: &Claim, what: &str) -> Error {
    let all = tables.iter().flat_map(|table| table.indexes.iter().map(move |index| (table, index)));
    let (index, table) = all
        .filter(|(_, index)| index.id == claim.index)
        .fold(("?", "?"), |_, (table, index)| (index.spec.name.as_str(), table.definition.name.as_str()));
    let message = format!("unique index {index} of table {table}: {what}");
    Error::new(ErrorKind::AlreadyExists, message)
}
