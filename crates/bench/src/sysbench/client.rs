//! One client: transactions, statement for statement.

use super::changes::{Changes, missing};
use super::rows::{self, RowBuffer};
use super::statement_cost::Above;
use super::workload::{POINTS, Workload};
use crate::Rng;
use crate::row_guards::RowGuards;
use siltstone_base::engine::{Row, TableId, Tables};
use siltstone_base::{ErrorKind, Result};
use std::hint::black_box;
use std::time::Duration;

/// Rows of a range.
const RANGE: u32 = 100;

/// What all clients of a run share.
pub(super) struct Shared<'a> {
    pub(super) engine: &'a dyn Tables,
    pub(super) ids: &'a [TableId],
    /// Rows of each table.
    pub(super) rows: u32,
    /// Processor time for what stands above the engine.
    per_statement: Duration,
    guards: RowGuards,
}

impl<'a> Shared<'a> {
    pub(super) fn new(engine: &'a dyn Tables, ids: &'a [TableId], rows: u32) -> Result<Self> {
        Ok(Self { engine, ids, rows, per_statement: Duration::ZERO, guards: RowGuards::new()? })
    }

    /// Clients take so much of the processor for each statement, beside what the engine takes.
    pub(super) fn with_statement_cost(self, per_statement: Duration) -> Self {
        Self { per_statement, ..self }
    }
}

pub(super) struct Client<'a> {
    shared: &'a Shared<'a>,
    workload: Workload,
    /// Owns locks under this number.
    number: u64,
    rng: Rng,
    above: Above,
    /// The key that is looked for.
    wanted: RowBuffer,
    changes: Changes,
    /// What a range returned, where its order counts.
    strings: Vec<u8>,
    bytes: u64,
}

/// A group of statements that change a row.
#[derive(Clone, Copy)]
enum Change {
    /// `UPDATE t SET k = k + 1 WHERE id = ?`
    K,
    /// `UPDATE t SET c = ? WHERE id = ?`
    C,
    /// `DELETE FROM t WHERE id = ?`, then `INSERT INTO t (id, k, c, pad) VALUES (?, ?, ?, ?)` with the same key.
    Replaced,
}

impl Change {
    fn statements(self) -> u32 {
        match self {
            Self::K | Self::C => 1,
            Self::Replaced => 2,
        }
    }
}

impl<'a> Client<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, workload: Workload, number: u64, rng: Rng) -> Self {
        Self {
            shared,
            workload,
            number,
            rng,
            above: Above::new(shared.per_statement),
            wanted: RowBuffer::default(),
            changes: Changes::default(),
            strings: Vec::new(),
            bytes: 0,
        }
    }

    /// Bytes of rows and entries written; read, where nothing is written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Statements so far, with those that begin and end a transaction.
    #[cfg(test)]
    pub(super) fn statements_done(&self) -> u64 {
        self.above.statements()
    }

    /// Does one transaction. Where clients would wait for one another in a circle, the one that is told gives its locks back and begins anew.
    pub(super) fn transaction(&mut self) -> Result<bool> {
        loop {
            match self.statements() {
                Err(error) if error.kind() == ErrorKind::Deadlock => {}
                outcome => return outcome.map(|()| true),
            }
        }
    }

    fn statements(&mut self) -> Result<()> {
        let points = match self.workload {
            Workload::PointSelect => 1,
            workload if workload.reads() => POINTS,
            _ => 0,
        };
        self.begin_or_commit();
        let table = self.draw_table()?;
        for _ in 0..points {
            self.point(table)?;
        }
        if self.workload.reads() {
            self.ranges()?;
        }
        match self.workload {
            Workload::ReadWrite | Workload::WriteOnly => self.change(&[Change::K, Change::C, Change::Replaced]),
            Workload::UpdateIndex => self.change(&[Change::K]),
            Workload::UpdateNonIndex => self.change(&[Change::C]),
            _ => {
                self.begin_or_commit();
                Ok(())
            }
        }
    }

    /// `BEGIN`, or `COMMIT`: a statement alone has neither.
    fn begin_or_commit(&mut self) {
        if self.workload.queries() > 1 {
            self.above.statement();
        }
    }

    /// The table of a group of statements.
    fn draw_table(&mut self) -> Result<TableId> {
        let tables = self.shared.ids;
        tables.get(self.rng.below(tables.len() as u64) as usize).copied().ok_or_else(missing)
    }

    fn draw_id(&mut self) -> u32 {
        1 + self.rng.below(u64::from(self.shared.rows)) as u32
    }

    /// `SELECT c FROM t WHERE id = ?`
    fn point(&mut self, table: TableId) -> Result<()> {
        self.above.statement();
        let id = self.draw_id();
        self.wanted.set_id(id);
        let (mut read, mut is_whole) = (0, Ok(()));
        let found = self.shared.engine.get_row(table, &self.wanted.key, &mut |value| {
            is_whole = rows::c(value).map(|c| _ = black_box(c));
            read = value.len();
        })?;
        is_whole?;
        self.read_bytes(read);
        if found { Ok(()) } else { Err(missing()) }
    }

    /// The four ranges, each over a table of its own.
    fn ranges(&mut self) -> Result<()> {
        let mut sum = 0_i64;
        // SELECT c ... BETWEEN ? AND ? + 99
        self.range(|value| rows::c(value).map(|c| _ = black_box(c)))?;
        // SELECT SUM(k) ...
        self.range(|value| {
            sum += i64::from(rows::k(value)?);
            Ok(())
        })?;
        black_box(sum);
        // SELECT c ... ORDER BY c, and SELECT DISTINCT c ... ORDER BY c
        for is_distinct in [false, true] {
            let mut strings = std::mem::take(&mut self.strings);
            strings.clear();
            let mut len = 1;
            self.range(|value| {
                let c = rows::c(value)?;
                len = c.len();
                strings.extend_from_slice(c);
                Ok(())
            })?;
            let mut sorted: Vec<&[u8]> = strings.chunks_exact(len).collect();
            sorted.sort_unstable();
            if is_distinct {
                sorted.dedup();
            }
            black_box(&sorted);
            self.strings = strings;
        }
        Ok(())
    }

    fn range(&mut self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.above.statement();
        let (table, first) = (self.draw_table()?, self.draw_id());
        let last = i64::from(first) + i64::from(RANGE) - 1;
        self.wanted.set_id(first);
        let (mut read, mut outcome) = (0, Ok(()));
        let mut found = |row: Row<'_>| {
            if outcome.is_ok() {
                outcome = rows::id(row.primary_key).and_then(|id| match i64::from(id) <= last {
                    true => each(row.value),
                    false => Ok(()),
                });
            }
            read += row.primary_key.len() + row.value.len();
        };
        let count = self.shared.engine.scan_rows(table, &self.wanted.key, RANGE as usize, &mut found)?;
        outcome?;
        self.read_bytes(read);
        let expected = (self.shared.rows - first + 1).min(RANGE);
        // While rows are deleted and inserted anew in one commit, none is ever missing.
        if count == expected as usize { Ok(()) } else { Err(missing()) }
    }

    fn read_bytes(&mut self, bytes: usize) {
        if !self.workload.writes() {
            self.bytes += bytes as u64;
        }
    }

    /// Changes rows, each of a table drawn for it and locked from then on, and commits.
    fn change(&mut self, changes: &[Change]) -> Result<()> {
        let shared = self.shared;
        let guarded = shared.guards.guard(self.number);
        self.changes.clear();
        let mut bytes = 0;
        for change in changes {
            let (table, id) = (self.draw_table()?, self.draw_id());
            for _ in 0..change.statements() {
                self.above.statement();
            }
            guarded.lock(table, id)?;
            let row = self.changes.row(shared.engine, (table, id))?;
            match change {
                Change::K => row.update()?.add_to_k()?,
                Change::C => row.update()?.draw_c(&mut self.rng)?,
                Change::Replaced => {
                    row.delete()?;
                    row.insert()?.draw(shared.rows, &mut self.rng);
                }
            }
            bytes += row.bytes();
        }
        self.begin_or_commit();
        shared.engine.commit(&self.changes.to_commit())?;
        self.bytes += bytes;
        Ok(())
    }
}
