//! Unique indexes: no two rows have the same index key.
//!
//! 1. Whoever gives keys to rows locks them, in ascending order, so that nobody waits in a circle.
//! 2. Then he looks whether they are there, but for those that he takes from rows of the same call. That is a point lookup, which filters answer for a key that is new.
//! 3. He writes, and gives the locks back when what he wrote is visible.
//!
//! Who gives up a key needs no lock: until that is visible, others find the key, and refuse. But where rows expire, others do not find it once the row is expired, and take it. There the
//! key is locked as well, and stays if another row has it.

use super::TableDb;
use super::index::Table;
use super::insert::Scratch;
use super::layout::{IndexId, without_id};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::row_locks::{LockMode, RowLocks};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::text_table::Shown;
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
        let Scratch { claims, releases, freed, batch, .. } = scratch;
        if claims.is_empty() && releases.is_empty() {
            return Ok(None);
        }
        claims.sort_unstable();
        if let Some(twice) = claims.windows(2).find(|pair| pair[0].key == pair[1].key) {
            let what = format!("rows {} and {} have the same key", twice[0].row, twice[1].row);
            return Err(violation(tables, &twice[1], &what));
        }
        releases.sort_unstable();
        let given_up = releases.iter().map(|release| &release.key[..]);
        let keys: BTreeSet<&[u8]> = claims.iter().map(|claim| &claim.key[..]).chain(given_up).collect();
        let claimed = self.lock_keys(keys)?;
        let freed: BTreeSet<&[u8]> = freed.iter().map(|key| &key[..]).collect();
        for claim in &*claims {
            if freed.contains(&claim.key[..]) || is_planted(PlantedBug::UniqueIsNotChecked) {
                continue;
            }
            let Some(holder) = self.ground.db.get(&claim.key)? else { continue };
            let from = releases.partition_point(|release| release.key < claim.key);
            let mut own = releases.iter().skip(from).take_while(|release| release.key == claim.key);
            if !own.any(|release| release.is_holder(&holder)) {
                return Err(violation(tables, claim, &format!("row {} has the key of a row that is there", claim.row)));
            }
        }
        for release in &*releases {
            if claims.binary_search_by(|claim| claim.key.cmp(&release.key)).is_ok() {
                // It is put again.
                continue;
            }
            let holder = self.ground.db.get(&release.key)?;
            if holder.is_none_or(|holder| release.is_holder(&holder)) {
                batch.delete(&release.key);
            }
        }
        Ok(Some(claimed))
    }

    /// Locks keys, which ascend.
    pub(super) fn lock_keys<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> Result<Claimed<'_>> {
        let owner = self.next_owner.fetch_add(1, Ordering::Relaxed);
        let claimed = Claimed { locks: &self.unique_keys, owner };
        for key in keys {
            self.unique_keys.lock(self.ground.db.executor(), owner, 0, key, LockMode::Exclusive, None)?;
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
    let message = format!("unique index {index} of table {table}: {what}, {}", Shown(without_id(&claim.key)));
    Error::new(ErrorKind::AlreadyExists, message)
}
