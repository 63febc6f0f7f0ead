//! Taking note of changes of a table, and holding them off.
//!
//! What a transaction changed in the table is in its records of the undo log. So the log says which of those that are active must end first: it is enough to look once, for from then on
//! changes are noted, or nobody else makes any. They themselves go on changing it until they end. One that has no records left, because it rolled back to a savepoint, is none of them: records only get
//! higher numbers, so that who looks at them in their order can't miss all. Batches are waited for by making them safe.

use super::super::super::state::State;
use super::super::Table;
use super::super::standing::busy;
use crate::redo::GroupEnd;
use siltstone_base::engine::{Durability, TableId};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::time::Duration;

/// Records of the undo log that are read at a time.
const RECORDS: usize = 64;

/// Changes of rows of the table are noted while this lives.
#[derive(Debug)]
pub(super) struct Building<'a> {
    state: &'a Arc<State>,
    table: Arc<Table>,
}

impl Building<'_> {
    pub(super) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Waits for transactions that changed the table and have not ended. Others go on.
    pub(super) fn wait(&self) -> Result<()> {
        self.state.wait_for_changers(&self.table)
    }

    /// Holds changes of the table off as long as this lives, and waits for those that have not ended.
    pub(super) fn hold(&self) -> Result<()> {
        let state = self.state;
        let made = {
            let _writer = state.writer.lock();
            state.check_open()?;
            state.health.check()?;
            self.table.standing.set_held();
            state.made()
        };
        state.wait_for(made, &self.table)
    }
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        self.table.standing.end_building();
        self.state.transactions.ended.notify_all();
    }
}

impl State {
    /// Has changes of a table noted. Those from before are visible when this returns.
    pub(super) fn note_changes<'a>(self: &'a Arc<Self>, id: TableId) -> Result<Building<'a>> {
        let (building, made) = {
            let _writer = self.writer.lock();
            self.check_open()?;
            self.health.check()?;
            let table = Arc::clone(&self.tables.get(id)?.table);
            table.standing.check()?;
            table.standing.set_noting();
            (Building { state: self, table }, self.made())
        };
        self.wait_for(made, building.table())?;
        Ok(building)
    }

    /// Where the log ends, and a batch behind all that were made. For who holds the lock of writers.
    fn made(&self) -> (GroupEnd, u64) {
        (self.redo.closed(), self.versions.begin())
    }

    /// Waits until changes of a table that were made before are visible.
    fn wait_for(self: &Arc<Self>, (end, batch): (GroupEnd, u64), table: &Table) -> Result<()> {
        if self.durability == Durability::Commit {
            self.redo.sync_to(end)?;
        }
        // Batches that were made before are visible with it.
        self.publish(batch);
        self.wait_for_changers(table)
    }

    /// Waits until an index is there that is about to be, or is not added after all.
    pub(in super::super::super) fn wait_while_held(&self, table: &Table, timeout: Option<Duration>) -> Result<()> {
        let mut is_over = || !table.standing.is_held() || self.check_open().is_err() || self.health.error().is_some();
        let timeout = timeout.unwrap_or(self.lock_timeout);
        self.executor.wait_until(&self.transactions.ended, Some(timeout), &mut is_over);
        self.check_open()?;
        self.health.check()?;
        if table.standing.is_held() { Err(busy()) } else { Ok(()) }
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
