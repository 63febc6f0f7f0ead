//! Which rows an owner has locks of, or waits for.

use super::shard::RowKey;
use crate::sync::{Arc, Mutex, Rank};
use std::collections::HashMap;

/// Never held together with a shard of rows.
const RANK: Rank = Rank(720);

/// Parts of the owners.
const PARTS: usize = 16;

type Rows = HashMap<u64, Vec<Arc<RowKey>>>;

/// The rows of each owner, some perhaps twice.
#[derive(Debug)]
pub(super) struct Owners(Box<[Mutex<Rows>]>);

impl Owners {
    pub(super) fn new() -> Self {
        Self((0..PARTS).map(|_| Mutex::new(RANK, Rows::new())).collect())
    }

    fn part(&self, owner: u64) -> &Mutex<Rows> {
        &self.0[owner as usize % PARTS]
    }

    /// Takes note that an owner has a lock, or waits for one.
    pub(super) fn note(&self, owner: u64, row: Arc<RowKey>) {
        self.part(owner).lock().entry(owner).or_default().push(row);
    }

    /// Takes back that an owner waits for a row: the newest note of it.
    pub(super) fn retract(&self, owner: u64, row: &RowKey) {
        let mut part = self.part(owner).lock();
        let Some(rows) = part.get_mut(&owner) else { return };
        if let Some(place) = rows.iter().rposition(|other| **other == *row) {
            rows.remove(place);
        }
        if rows.is_empty() {
            part.remove(&owner);
        }
    }

    /// All rows of an owner, who has none from now on.
    pub(super) fn take(&self, owner: u64) -> Vec<Arc<RowKey>> {
        self.part(owner).lock().remove(&owner).unwrap_or_default()
    }
}
