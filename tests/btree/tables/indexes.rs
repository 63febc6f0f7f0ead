//! The indexes that the table of a case has, which come and go.

use super::{Map, name};
use siltstone_base::engine::TableSpec;
use siltstone_base::index_spec::IndexSpec;
use std::collections::BTreeSet;

/// What an index sorts by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    Kind,
    /// The number, which is unique; this index stays.
    Number,
    /// The number once more.
    Again,
    Both,
}

impl Column {
    /// Those that come and go.
    pub const LOOSE: [Self; 3] = [Self::Kind, Self::Again, Self::Both];

    pub fn name(self) -> &'static str {
        match self {
            Self::Kind => "by_kind",
            Self::Number => "by_number",
            Self::Again => "again",
            Self::Both => "both",
        }
    }

    fn range(self) -> std::ops::Range<usize> {
        match self {
            Self::Kind => 0..2,
            Self::Number | Self::Again => 2..4,
            Self::Both => 1..4,
        }
    }

    pub fn spec(self) -> IndexSpec {
        let is_unique = matches!(self, Self::Number | Self::Again);
        IndexSpec::over_columns(self.name(), Some(self.range())).unique(is_unique)
    }

    /// The entries of rows, made anew.
    pub fn entries(self, rows: &Map) -> BTreeSet<Vec<u8>> {
        let entry = |(key, value): (&u8, &Vec<u8>)| Some([value.get(self.range())?, &name(*key)].concat());
        rows.iter().filter_map(entry).collect()
    }
}

/// The indexes of the table, in their order, each with a number that no other one ever has.
#[derive(Debug, Clone)]
pub struct Indexes {
    pub all: Vec<(Column, u32)>,
    next: u32,
}

impl Default for Indexes {
    fn default() -> Self {
        Self { all: vec![(Column::Kind, 0), (Column::Number, 1)], next: 2 }
    }
}

impl Indexes {
    pub fn spec(&self) -> TableSpec {
        TableSpec { name: "rows".to_owned(), indexes: self.all.iter().map(|(column, _)| column.spec()).collect() }
    }

    pub fn numbers(&self) -> BTreeSet<u32> {
        self.all.iter().map(|(_, number)| *number).collect()
    }

    pub fn has(&self, column: Column) -> bool {
        self.all.iter().any(|(own, _)| *own == column)
    }

    /// Takes note of a new one. Returns its position.
    pub fn add(&mut self, column: Column) -> usize {
        self.all.push((column, self.next));
        self.next += 1;
        self.all.len() - 1
    }

    pub fn drop(&mut self, column: Column) {
        self.all.retain(|(own, _)| *own != column);
    }
}
