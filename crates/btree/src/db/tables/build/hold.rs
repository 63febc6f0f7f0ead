//! Holding changes of a table off.
//!
//! What a transaction changed in the table is in its records of the undo log. So the log says which of those that are active must end first: it is enough to look once, for from then on
//! nobody else changes the table. They themselves go on changing it until they end. One that has no records left, because it rolled back to a savepoint, is none of them: records only get
//! higher numbers, so that who looks at them in their order can't miss all. Batches are waited for by making them safe.

use super::super::super::state::State;
use super::super::Table;
use siltstone_base::engine::{Durability, TableId};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};

/// Records of the undo log that are read at a time.
const RECORDS: usize = 64;

/// No row of the table changes while this lives.
#[derive(Debug)]
pub(super) struct Held(Arc<Table>);

impl Held {
    pub(super) fn table(&self) -> &Table {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.standing.end_building();
    }
}

impl State {
    /// Holds changes of a table off, and waits for those that have not ended.
    pub(super) fn hold_changes(self: &Arc<Self>, id: TableId) -> Result<Held> {
        let (held, end, batch) = {
            let _writer = self.writer.lock();
            self.check_open()?;
            self.health.check()?;
            let open = self.tables.get(id)?;
            open.table.standing.check()?;
            open.table.standing.set_building();
            (Held(Arc::clone(&open.table)), self.redo.closed(), self.versions.begin())
        };
        if self.durability == Durability::Commit {
            self.redo.sync_to(end)?;
        }
        // Batches that were made before are visible with it.
        self.publish(batch);
        self.wait_for_changers(held.table())?;
        Ok(held)
    }

    fn wait_for_changers(&self, table: &Table) -> Result<()> {
        let mut changers = Vec::new();
        for id in self.transactions.active() {
            if self.has_changed(id, table)? {
                changers.push(id);
            }
        }
        if changers.is_empty() {
            return Ok(());
        }
        let has_ended = || changers.iter().all(|id| !self.transactions.is_active(*id));
        let mut is_over = || has_ended() || self.check_open().is_err() || self.health.error().is_some();
        self.executor.wait_until(&self.transactions.ended, Some(self.lock_timeout), &mut is_over);
        self.check_open()?;
        self.health.check()?;
        if has_ended() {
            return Ok(());
        }
        let name = &table.definition.name;
        let message =
            format!("transactions that changed the table {name} have not ended, and no index is added before");
        Err(Error::new(ErrorKind::TimedOut, message))
    }

    /// Whether a transaction has changes of a table to undo.
    pub(in super::super::super) fn has_changed(&self, id: u64, table: &Table) -> Result<bool> {
        let spaces: Vec<u32> = table.definition.spaces().collect();
        let mut from = 1;
        loop {
            let records = self.undo.records(id, from, RECORDS)?;
            if records.iter().any(|(_, record)| spaces.contains(&record.space)) {
                return Ok(true);
            }
            match records.last().and_then(|(number, _)| number.checked_add(1)) {
                Some(next) => from = next,
                None => return Ok(false),
            }
        }
    }
}
