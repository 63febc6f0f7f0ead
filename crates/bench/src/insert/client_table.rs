//! A client's table, whose indexes are kept eagerly or lazily.

use super::commit::{self, Oldest};
use super::rows::Schema;
use crate::engines::OpenEngine;
use siltstone_base::engine::{LazyTableId, Row, TableId};
use siltstone_base::{Error, ErrorKind, Result};
use std::fmt;
use std::str::FromStr;

/// How secondary indexes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexMode {
    /// Who changes a row reads it first, so that its old entries go at once.
    #[default]
    Eager,
    /// Rows are put without reading anything; old entries stay until a sweep finds them.
    Lazy,
}

impl fmt::Display for IndexMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eager => "eager",
            Self::Lazy => "lazy",
        })
    }
}

impl FromStr for IndexMode {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "eager" => Ok(Self::Eager),
            "lazy" => Ok(Self::Lazy),
            _ => Err("expected eager or lazy"),
        }
    }
}

/// A table of either kind.
#[derive(Debug, Clone, Copy)]
pub(super) enum ClientTable {
    Eager(TableId),
    Lazy(LazyTableId),
}

/// Memory for what rows were.
#[derive(Debug, Default)]
pub(super) struct OldRows {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ClientTable {
    /// Creates the table of a client, counted from 1, with its indexes or without.
    pub(super) fn create(
        engine: &OpenEngine,
        mode: IndexMode,
        schema: Schema,
        client: usize,
        has_indexes: bool,
    ) -> Result<Self> {
        let (mut eager, mut lazy) = (schema.table(client), schema.lazy_table(client));
        if !has_indexes {
            eager.indexes.clear();
            lazy.indexes.clear();
        }
        Ok(match mode {
            IndexMode::Eager => Self::Eager(engine.as_tables()?.create_table(&eager)?),
            IndexMode::Lazy => Self::Lazy(engine.as_lazy_tables()?.create_lazy_table(&lazy)?),
        })
    }

    /// Adds an index of the schema, by its position. `Busy` if the engine is adding one elsewhere and can't add two at once.
    pub(super) fn add_index(self, engine: &OpenEngine, schema: Schema, position: usize) -> Result<()> {
        let missing = || Error::invalid_argument("the schema has no index at this position");
        let added = match self {
            Self::Eager(table) => {
                let indexes = schema.table(1).indexes;
                engine.as_tables()?.add_index(table, indexes.get(position).ok_or_else(missing)?)?
            }
            Self::Lazy(table) => {
                let indexes = schema.lazy_table(1).indexes;
                engine.as_lazy_tables()?.add_lazy_index(table, indexes.get(position).ok_or_else(missing)?)?
            }
        };
        match added == position {
            true => Ok(()),
            false => Err(Error::invalid_argument("an index was added at another position")),
        }
    }

    /// Inserts rows whose keys are new. `most`: the most rows that the engine took at once since it refused some.
    pub(super) fn insert(self, engine: &OpenEngine, rows: &[Row<'_>], most: &mut Option<u64>) -> Result<()> {
        match self {
            Self::Eager(table) => commit::insert(engine.as_tables()?, table, rows, most),
            Self::Lazy(table) => engine.as_lazy_tables()?.upsert(table, rows),
        }
    }

    /// Gives rows that are there other values, in one commit. Eagerly each of them is read first.
    pub(super) fn update(self, engine: &OpenEngine, rows: &[Row<'_>], old: &mut OldRows) -> Result<()> {
        let table = match self {
            Self::Lazy(table) => return engine.as_lazy_tables()?.upsert(table, rows),
            Self::Eager(table) => table,
        };
        let tables = engine.as_tables()?;
        old.bytes.clear();
        old.ends.clear();
        for row in rows {
            let bytes = &mut old.bytes;
            if !tables.get_row(table, row.primary_key, &mut |value| bytes.extend_from_slice(value))? {
                return Err(Error::new(ErrorKind::NotFound, "a row that was to be updated is not there"));
            }
            old.ends.push(old.bytes.len());
        }
        let mut start = 0;
        let mut pairs = Vec::with_capacity(rows.len());
        for (row, &end) in rows.iter().zip(&old.ends) {
            let value = old.bytes.get(start..end).unwrap_or_default();
            pairs.push((Row { primary_key: row.primary_key, value }, *row));
            start = end;
        }
        let mut left = &pairs[..];
        let mut most = left.len();
        while !left.is_empty() {
            let part = most.min(left.len());
            match tables.update(table, &left[..part]) {
                Ok(()) => left = &left[part..],
                Err(error) if error.kind() == ErrorKind::LimitExceeded && part > 1 => most = part / 2,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Deletes the rows of these numbers, which are the oldest. Eagerly they are read first.
    pub(super) fn delete_oldest(
        self,
        engine: &OpenEngine,
        schema: Schema,
        numbers: std::ops::Range<u64>,
        oldest: &mut Oldest,
    ) -> Result<()> {
        let key = |number| {
            let mut key = Vec::new();
            schema.put_id(number, &mut key);
            key
        };
        match self {
            Self::Eager(table) => {
                let count = (numbers.end - numbers.start) as usize;
                oldest.delete(engine.as_tables()?, table, &key(numbers.start), count)
            }
            Self::Lazy(table) => {
                let keys: Vec<Vec<u8>> = numbers.map(key).collect();
                let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
                engine.as_lazy_tables()?.delete_keys(table, &keys)
            }
        }
    }

    /// Reads at most `limit` entries of an index: eagerly the entries alone, lazily their rows with them.
    pub(super) fn range(self, engine: &OpenEngine, index: usize, from: &[u8], limit: usize) -> Result<()> {
        match self {
            Self::Eager(table) => engine.as_tables()?.scan_index(table, index, from, limit, &mut |entry| {
                std::hint::black_box(entry);
            }),
            Self::Lazy(table) => engine.as_lazy_tables()?.lazy_rows_by(table, index, from, limit, &mut |_, row| {
                std::hint::black_box(row);
            }),
        }
        .map(drop)
    }

    /// Reads a row.
    pub(super) fn row(self, engine: &OpenEngine, primary_key: &[u8]) -> Result<()> {
        let mut found = |row: &[u8]| {
            std::hint::black_box(row);
        };
        match self {
            Self::Eager(table) => engine.as_tables()?.get_row(table, primary_key, &mut found),
            Self::Lazy(table) => engine.as_lazy_tables()?.lazy_row(table, primary_key, &mut found),
        }
        .map(drop)
    }

    /// The stale share of a lazy table's entries, by reading all of it.
    pub(super) fn stale_share(self, engine: &OpenEngine) -> Result<Option<f64>> {
        match self {
            Self::Eager(_) => Ok(None),
            Self::Lazy(table) => engine.as_lazy_tables()?.count_stale(table).map(|counted| Some(counted.share())),
        }
    }
}
