//! The rows of one commit.

use super::InsertConfig;
use super::rows::RowSource;
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::engine::{Row, TableId, Tables};
use siltstone_base::{Error, ErrorKind, Result};

/// The rows of one commit, in memory that is used again.
pub(super) struct Commit {
    source: RowSource,
    /// The keys and values, one after the other.
    pub bytes: Vec<u8>,
    /// Where each key and each value ends.
    ends: Vec<(usize, usize)>,
    clock: SystemClock,
}

impl Commit {
    /// Of a client that has inserted the rows before `next_id` already.
    pub(super) fn new(config: &InsertConfig, client: usize, next_id: u64) -> Self {
        let source = RowSource::starting_at(config.schema, config.seed, client, next_id);
        Self { source, bytes: Vec::new(), ends: Vec::new(), clock: SystemClock::new() }
    }

    /// Makes the next rows.
    pub(super) fn fill(&mut self, rows: usize) {
        self.bytes.clear();
        self.ends.clear();
        let now = self.clock.unix_seconds();
        for _ in 0..rows {
            let key_end = self.source.next(now, &mut self.bytes);
            self.ends.push((key_end, self.bytes.len()));
        }
    }

    /// Makes rows of these numbers anew.
    pub(super) fn fill_numbers(&mut self, numbers: impl Iterator<Item = u64>) {
        self.bytes.clear();
        self.ends.clear();
        let now = self.clock.unix_seconds();
        for number in numbers {
            let key_end = self.source.row(number, now, &mut self.bytes);
            self.ends.push((key_end, self.bytes.len()));
        }
    }

    /// The rows that were made last.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let mut start = 0;
        let row = |&(key_end, end): &(usize, usize)| {
            let row = Row { primary_key: &self.bytes[start..key_end], value: &self.bytes[key_end..end] };
            start = end;
            row
        };
        self.ends.iter().map(row).collect()
    }
}

/// Inserts rows as one batch; as several, if the engine allows no such long one. `most`: the most rows that it took since it refused some.
pub(super) fn insert(tables: &dyn Tables, table: TableId, rows: &[Row<'_>], most: &mut Option<u64>) -> Result<()> {
    let mut left = rows;
    while !left.is_empty() {
        let count = most.map_or(left.len(), |most| left.len().min(most as usize));
        match tables.insert(table, &left[..count]) {
            Ok(()) => left = &left[count..],
            Err(error) if error.kind() == ErrorKind::LimitExceeded && count > 1 => *most = Some(count as u64 / 2),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The oldest rows of a table, from the key of the oldest on.
#[derive(Debug, Default)]
pub(super) struct Oldest {
    rows: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Oldest {
    /// Deletes `count` rows from the one with the key `from` on, as `DELETE ... ORDER BY ... LIMIT` does: reads them, and removes them with their entries.
    pub(super) fn delete(&mut self, tables: &dyn Tables, table: TableId, from: &[u8], count: usize) -> Result<()> {
        self.rows.clear();
        let rows = &mut self.rows;
        tables.scan_rows(table, from, count, &mut |row| rows.push((row.primary_key.to_vec(), row.value.to_vec())))?;
        if rows.len() < count {
            return Err(Error::invalid_argument(format!(
                "{count} rows were to be deleted, and {} are there",
                rows.len()
            )));
        }
        let rows: Vec<_> = rows.iter().map(|(primary_key, value)| Row { primary_key, value }).collect();
        let mut left = &rows[..];
        let mut most = left.len();
        while !left.is_empty() {
            let part = most.min(left.len());
            match tables.delete(table, &left[..part]) {
                Ok(()) => left = &left[part..],
                Err(error) if error.kind() == ErrorKind::LimitExceeded && part > 1 => most = part / 2,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
