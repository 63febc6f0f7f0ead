//! Which rows an owner has locks of, or waits for.

use super::shard::RowKey;
use crate::sync::{Arc, Mutex, Rank};
use std::collections::HashMap;

/// Never held together with a shard of rows.
const RANK: Rank = Rank(720);

/// Parts of the owners.
const PARTS: usize = 16;

/// The rows of one owner, some perhaps twice.
#[derive(Debug, Default)]
struct Rows {
    rows: Vec<Arc<RowKey>>,
    /// Bytes that they take.
    bytes: usize,
    /// Whether these bytes count for nobody's limit.
    is_restored: bool,
}

/// What an owner had when it gave everything back.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) rows: Vec<Arc<RowKey>>,
    /// Bytes that counted for nobody's limit.
    pub(super) restored_bytes: usize,
}

type Part = HashMap<u64, Rows>;

/// The rows of each owner.
#[derive(Debug)]
pub(super) struct Owners(Box<[Mutex<Part>]>);

impl Owners {
    pub(super) fn new() -> Self {
        Self((0..PARTS).map(|_| Mutex::new(RANK, Part::new())).collect())
    }

    fn part(&self, owner: u64) -> &Mutex<Part> {
        &self.0[owner as usize % PARTS]
    }

    /// Takes note that an owner has a lock, or waits for one. Returns the bytes that all its rows take now.
    pub(super) fn note(&self, owner: u64, row: Arc<RowKey>) -> usize {
        let mut part = self.part(owner).lock();
        let own = part.entry(owner).or_default();
        own.bytes += row.size_bytes();
        own.rows.push(row);
        own.bytes
    }

    /// Takes note that an owner has a lock from before the database was opened: what such owners have counts for nobody's limit. Returns the bytes of the row.
    pub(super) fn note_restored(&self, owner: u64, row: Arc<RowKey>) -> usize {
        let bytes = row.size_bytes();
        let mut part = self.part(owner).lock();
        let own = part.entry(owner).or_default();
        own.bytes += bytes;
        own.is_restored = true;
        own.rows.push(row);
        bytes
    }

    /// The bytes that all rows of an owner take.
    pub(super) fn bytes(&self, owner: u64) -> usize {
        self.part(owner).lock().get(&owner).map_or(0, |own| own.bytes)
    }

    /// Takes back that an owner has a lock of a row, or waits for one: the newest note of it. Returns the bytes that counted for nobody's limit.
    pub(super) fn retract(&self, owner: u64, row: &RowKey) -> usize {
        let mut part = self.part(owner).lock();
        let Some(own) = part.get_mut(&owner) else { return 0 };
        let mut restored_bytes = 0;
        if let Some(place) = own.rows.iter().rposition(|other| **other == *row) {
            let row = own.rows.remove(place);
            own.bytes -= row.size_bytes();
            restored_bytes = if own.is_restored { row.size_bytes() } else { 0 };
        }
        if own.rows.is_empty() {
            part.remove(&owner);
        }
        restored_bytes
    }

    /// All rows of an owner, who has none from now on.
    pub(super) fn take(&self, owner: u64) -> Taken {
        let Some(own) = self.part(owner).lock().remove(&owner) else { return Taken::default() };
        Taken { restored_bytes: if own.is_restored { own.bytes } else { 0 }, rows: own.rows }
    }
}
