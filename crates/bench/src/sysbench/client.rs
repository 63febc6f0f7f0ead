//! One client: transactions, statement for statement.

use super::rows::{self, RowBuffer};
use super::workload::{POINTS, Workload};
use crate::Rng;
use crate::row_guards::RowGuards;
use siltstone_base::engine::{Row, RowChange, TableId, Tables};
use siltstone_base::{Error, ErrorKind, Result};
use std::hint::black_box;

/// Rows of a range.
const RANGE: u32 = 100;

/// What all clients of a run share.
pub(super) struct Shared<'a> {
    pub(super) engine: &'a dyn Tables,
    pub(super) ids: &'a [TableId],
    /// Rows of each table.
    pub(super) rows: u32,
    guards: RowGuards,
}

impl<'a> Shared<'a> {
    pub(super) fn new(engine: &'a dyn Tables, ids: &'a [TableId], rows: u32) -> Result<Self> {
        Ok(Self { engine, ids, rows, guards: RowGuards::new()? })
    }
}

pub(super) struct Client<'a> {
    shared: &'a Shared<'a>,
    workload: Workload,
    /// Owns locks under this number.
    number: u64,
    rng: Rng,
    /// The rows that a transaction changes, as they were and as they will be.
    old: [RowBuffer; 3],
    new: [RowBuffer; 3],
    /// What a range returned, where its order counts.
    strings: Vec<u8>,
    bytes: u64,
}

/// A change of one row.
#[derive(Clone, Copy)]
enum Change {
    K,
    C,
    /// Deleted, and inserted with the same key.
    Replaced,
}

impl<'a> Client<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, workload: Workload, number: u64, rng: Rng) -> Self {
        Self {
            shared,
            workload,
            number,
            rng,
            old: Default::default(),
            new: Default::default(),
            strings: Vec::new(),
            bytes: 0,
        }
    }

    /// Bytes of rows and entries written; read, where nothing is written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Does one transaction.
    pub(super) fn transaction(&mut self) -> Result<bool> {
        let points = match self.workload {
            Workload::PointSelect => 1,
            workload if workload.reads() => POINTS,
            _ => 0,
        };
        let table = self.draw_table()?;
        for _ in 0..points {
            self.point(table)?;
        }
        if self.workload.reads() {
            self.ranges()?;
        }
        match self.workload {
            Workload::ReadWrite | Workload::WriteOnly => self.change(&[Change::K, Change::C, Change::Replaced])?,
            Workload::UpdateIndex => self.change(&[Change::K])?,
            Workload::UpdateNonIndex => self.change(&[Change::C])?,
            _ => {}
        }
        Ok(true)
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
        let id = self.draw_id();
        let [row, ..] = &mut self.old;
        row.set_id(id);
        let (mut read, mut is_whole) = (0, Ok(()));
        let found = self.shared.engine.get_row(table, &row.key, &mut |value| {
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
        let (table, first) = (self.draw_table()?, self.draw_id());
        let last = i64::from(first) + i64::from(RANGE) - 1;
        let [row, ..] = &mut self.old;
        row.set_id(first);
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
        let count = self.shared.engine.scan_rows(table, &row.key, RANGE as usize, &mut found)?;
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

    /// Changes as many rows, each of a table of its own, in one commit.
    fn change(&mut self, changes: &[Change]) -> Result<()> {
        let mut places: Vec<(TableId, u32)> = Vec::with_capacity(changes.len());
        for _ in changes {
            let mut place = (self.draw_table()?, self.draw_id());
            // Different rows, as long as there are enough.
            while places.contains(&place) && self.shared.rows >= 3 {
                place.1 = self.draw_id();
            }
            places.push(place);
        }
        let _guarded = self.shared.guards.lock(self.number, &places)?;
        self.change_rows(changes, &places)
    }

    fn change_rows(&mut self, changes: &[Change], places: &[(TableId, u32)]) -> Result<()> {
        let Shared { engine, rows, .. } = self.shared;
        for ((change, (table, id)), (old, new)) in
            changes.iter().zip(places).zip(self.old.iter_mut().zip(&mut self.new))
        {
            old.set_id(*id);
            old.value.clear();
            if !engine.get_row(*table, &old.key, &mut |value| old.value.extend_from_slice(value))? {
                return Err(missing());
            }
            new.clone_from(old);
            match change {
                Change::K => new.add_to_k()?,
                Change::C => new.draw_c(&mut self.rng)?,
                Change::Replaced => new.draw(*rows, &mut self.rng),
            }
            self.bytes += new.bytes();
        }
        let pairs = self.old.iter().zip(&self.new).map(|(old, new)| RowChange::Update(old.as_row(), new.as_row()));
        let pairs: Vec<_> = places.iter().map(|(table, _)| *table).zip(pairs).collect();
        engine.commit(&pairs)
    }
}

#[cold]
fn missing() -> Error {
    Error::new(ErrorKind::Corruption, "a row that was loaded is missing")
}
