//! The keys of rows and index entries.

use super::definition::TableDefinition;
use super::gate::Gate;
use siltstone_base::engine::{KvBatch, Row, RowChange};
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::cell::Cell;

/// Bytes of the number in front of every key.
const NUMBER_BYTES: usize = 4;

thread_local! {
    /// Memory for the key of a lookup.
    static KEY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A table that is open. Any thread may read it, and nothing of it changes: what becomes of a table is another one with the same gate.
#[derive(Debug)]
pub(super) struct OpenTable {
    /// What is stored of it.
    pub(super) definition: TableDefinition,
    /// Its indexes with their extractors, as many as are stored, by their positions.
    pub(super) specs: Vec<IndexSpec>,
    /// Kept for as long as the table is open, whatever becomes of its indexes.
    pub(super) gate: Arc<Gate>,
}

impl OpenTable {
    /// The number of the index at a position, and what it is.
    ///
    /// # Errors
    ///
    /// `NotFound`.
    pub(super) fn index(&self, position: usize) -> Result<(u32, &IndexSpec)> {
        self.indexes().nth(position).ok_or_else(no_index)
    }

    fn indexes(&self) -> impl Iterator<Item = (u32, &IndexSpec)> {
        self.definition.indexes.iter().map(|index| index.number).zip(&self.specs)
    }

    /// Hands the key of a row to `each`, and then those of its entries; `true`: it is that of the row. `key` is memory for them.
    pub(super) fn each_key(&self, row: &Row<'_>, key: &mut Vec<u8>, mut each: impl FnMut(&[u8], bool)) {
        set_key(key, self.definition.rows, row.primary_key);
        each(key, true);
        for (number, spec) in self.indexes() {
            if set_entry(key, number, spec, row) {
                each(key, false);
            }
        }
    }

    /// Adds what a change takes away to `gone`, and what it brings to `new`; entries that stay the same are left alone. `keys` is memory for those that are compared.
    ///
    /// A row may be put over one of the same key, and is deleted. An entry is put where there is none, so that it is deleted once.
    pub(super) fn add_change(
        &self,
        change: &RowChange<'_>,
        keys: &mut [Vec<u8>; 2],
        gone: &mut KvBatch,
        new: &mut KvBatch,
    ) {
        let (before, after) = (change.before(), change.after());
        let [old_key, new_key] = keys;
        if let Some(row) = before
            && after.is_none_or(|after| after.primary_key != row.primary_key)
        {
            set_key(old_key, self.definition.rows, row.primary_key);
            gone.delete(old_key);
        }
        if let Some(row) = after {
            set_key(new_key, self.definition.rows, row.primary_key);
            new.put(new_key, row.value);
        }
        for (number, spec) in self.indexes() {
            let had = before.is_some_and(|row| set_entry(old_key, number, spec, &row));
            let has = after.is_some_and(|row| set_entry(new_key, number, spec, &row));
            if had && has && old_key == new_key {
                continue;
            }
            if had {
                gone.delete_once(old_key);
            }
            if has {
                new.put(new_key, b"");
            }
        }
    }
}

/// What every key of the rows or of the index of this number begins with.
pub(super) fn prefix(number: u32) -> [u8; NUMBER_BYTES] {
    number.to_be_bytes()
}

/// A key of the rows or of the index of this number.
pub(super) fn key(number: u32, rest: &[u8]) -> Vec<u8> {
    [&prefix(number)[..], rest].concat()
}

/// The same in memory that is there.
pub(super) fn set_key(key: &mut Vec<u8>, number: u32, rest: &[u8]) {
    key.clear();
    key.extend_from_slice(&prefix(number));
    key.extend_from_slice(rest);
}

/// The same in memory that the thread keeps. Where `look_up` comes here itself, it gets other memory.
pub(super) fn with_key<T>(number: u32, rest: &[u8], look_up: impl FnOnce(&[u8]) -> T) -> T {
    let mut key = KEY.take();
    set_key(&mut key, number, rest);
    let found = look_up(&key);
    KEY.set(key);
    found
}

/// Makes `key` that of a row's entry in the index of this number, and returns whether the row has one.
fn set_entry(key: &mut Vec<u8>, number: u32, spec: &IndexSpec, row: &Row<'_>) -> bool {
    key.clear();
    key.extend_from_slice(&prefix(number));
    spec.entry(row.primary_key, row.value, key)
}

#[cold]
pub(super) fn no_index() -> Error {
    Error::new(ErrorKind::NotFound, "no such index")
}
