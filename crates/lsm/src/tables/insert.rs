//! Inserts: one write batch of blind puts, whatever the number of indexes.

use super::TableDb;
use super::layout::IndexId;
use crate::batch::WriteBatch;
use siltstone_base::Result;
use siltstone_base::engine::{Row, TableId};
use std::cell::RefCell;

/// What a thread keeps between inserts, for its memory.
#[derive(Default)]
struct Scratch {
    batch: WriteBatch,
    key: Vec<u8>,
}

/// A batch that grew beyond this is not kept.
const KEPT_BYTES: usize = 4 << 20;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

impl TableDb {
    /// Inserts rows whose primary keys are new, with their index entries, in one commit. The caller vouches for the keys
    /// being new: nothing is read.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id, `LimitExceeded` for a key or a value beyond the limits, and those of a write.
    pub fn insert(&self, table: TableId, rows: &[Row<'_>]) -> Result<()> {
        // Taken out while it is used: an extractor or a listener that inserts again gets one of its own.
        let mut scratch = SCRATCH.with(|scratch| std::mem::take(&mut *scratch.borrow_mut()));
        scratch.batch.clear();
        let outcome = self.insert_with(table, rows, &mut scratch);
        if scratch.batch.size_bytes() <= KEPT_BYTES {
            SCRATCH.with(|kept| *kept.borrow_mut() = scratch);
        }
        outcome
    }

    fn insert_with(&self, table: TableId, rows: &[Row<'_>], scratch: &mut Scratch) -> Result<()> {
        let Scratch { batch, key } = scratch;
        self.with_table(table, |table| {
            for row in rows {
                start(key, table.definition.primary);
                key.extend_from_slice(row.primary_key);
                batch.put(&*key, row.value);
                for index in &table.indexes {
                    start(key, index.id);
                    if index.spec.extractor.extract(row.primary_key, row.value, key) {
                        key.extend_from_slice(row.primary_key);
                        batch.put(&*key, []);
                    }
                }
            }
            Ok(())
        })?;
        self.db.write(batch, &self.write_options)
    }
}

/// Begins a key of the index.
#[inline]
fn start(key: &mut Vec<u8>, id: IndexId) {
    key.clear();
    key.extend_from_slice(&id.to_bytes());
}
