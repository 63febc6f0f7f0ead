//! What is stored of tables, so that they are found again when their engine is opened anew.
//!
//! | key behind the number 1 | value |
//! | --- | --- |
//! | nothing | the smallest number never given out, 4 bytes, big-endian |
//! | name of a table | its definition in JSON |

use super::layout::{key, prefix};
use serde::{Deserialize, Serialize};
use siltstone_base::engine::{KvCursor, TableSpec};
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};

/// The number in front of the keys of definitions.
const DEFINITIONS: u32 = 1;

/// The smallest number of a table's rows and of an index; what is below is kept for such as definitions.
const FIRST_NUMBER: u32 = 256;

/// What is stored of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TableDefinition {
    /// Its name, unique in the engine.
    pub(super) name: String,
    /// The number of its rows, by which the table is known while it is open.
    pub(super) rows: u32,
    /// Its secondary indexes, by their positions.
    pub(super) indexes: Vec<IndexDefinition>,
}

/// What is stored of a secondary index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexDefinition {
    /// The number of its entries.
    pub(super) number: u32,
    /// Its name, unique in the table.
    pub(super) name: String,
    unique: bool,
    covering: bool,
    /// The length of all index keys. `None`: they differ.
    fixed_len: Option<usize>,
    /// What tells the extractor from others. Empty: nobody can tell.
    identity: Vec<u8>,
}

/// What is stored of all tables.
#[derive(Debug)]
pub(super) struct Definitions {
    /// The tables, by their names.
    pub(super) tables: BTreeMap<String, TableDefinition>,
    /// The smallest number never given out.
    pub(super) next: u32,
}

impl IndexDefinition {
    fn new(spec: &IndexSpec, number: u32) -> Result<Self> {
        if spec.covered.is_some() {
            let message = format!("index {}: columns beside the key, over an engine of keys and values", spec.name);
            return Err(Error::not_supported(message));
        }
        Ok(Self {
            number,
            name: spec.name.clone(),
            unique: spec.unique,
            covering: spec.covering,
            fixed_len: spec.extractor.fixed_len(),
            identity: spec.extractor.identity(),
        })
    }

    /// What of this index `spec` says otherwise. Entries of other columns would be taken for those of the rows.
    fn difference(&self, spec: &IndexSpec) -> Option<&'static str> {
        let identity = spec.extractor.identity();
        // What an extractor says of itself is compared where both say something.
        let is_other = !self.identity.is_empty() && !identity.is_empty() && self.identity != identity;
        [
            (self.name != spec.name, "name"),
            (self.unique != spec.unique, "uniqueness"),
            (self.covering != spec.covering, "covering"),
            (self.fixed_len != spec.extractor.fixed_len(), "length of keys"),
            (is_other, "extractor"),
            (spec.covered.is_some(), "set of columns"),
        ]
        .into_iter()
        .find_map(|(differs, what)| differs.then_some(what))
    }
}

impl TableDefinition {
    /// A table whose rows and indexes get the numbers from `first` on.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a table without a name or indexes of one name, `NotSupported` for an index that holds columns beside its key, `LimitExceeded` when numbers are used up.
    pub(super) fn new(spec: &TableSpec, first: u32) -> Result<Self> {
        if spec.name.is_empty() {
            return Err(Error::invalid_argument("a table has a name"));
        }
        let mut table = Self { name: spec.name.clone(), rows: first, indexes: Vec::with_capacity(spec.indexes.len()) };
        for index in &spec.indexes {
            let number = table.end()?;
            table.add(index, number)?;
        }
        Ok(table)
    }

    fn add(&mut self, spec: &IndexSpec, number: u32) -> Result<()> {
        if self.indexes.iter().any(|index| index.name == spec.name) {
            return Err(Error::invalid_argument("the table has an index of that name"));
        }
        self.indexes.push(IndexDefinition::new(spec, number)?);
        Ok(())
    }

    /// The same table with an index behind those that it has.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    pub(super) fn with_index(&self, spec: &IndexSpec, number: u32) -> Result<Self> {
        let mut table = self.clone();
        table.add(spec, number)?;
        Ok(table)
    }

    /// The first number behind all of its own.
    ///
    /// # Errors
    ///
    /// `LimitExceeded` where there is none.
    pub(super) fn end(&self) -> Result<u32> {
        after(self.numbers().max().unwrap_or(self.rows))
    }

    /// The number of its rows, and those of its indexes.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.rows).chain(self.indexes.iter().map(|index| index.number))
    }

    /// Refuses a specification of another table.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names what is otherwise.
    pub(super) fn check(&self, spec: &TableSpec) -> Result<()> {
        let name = &self.name;
        if self.indexes.len() != spec.indexes.len() {
            let message = format!("table {name} has {} indexes, not {}", self.indexes.len(), spec.indexes.len());
            return Err(Error::invalid_argument(message));
        }
        let differs = |(own, other): (&IndexDefinition, &IndexSpec)| Some((own.name.clone(), own.difference(other)?));
        match self.indexes.iter().zip(&spec.indexes).find_map(differs) {
            Some((index, what)) => {
                Err(Error::invalid_argument(format!("index {index} of table {name} was created with another {what}")))
            }
            None => Ok(()),
        }
    }

    /// The key under which it is stored.
    pub(super) fn key(&self) -> Vec<u8> {
        key(DEFINITIONS, self.name.as_bytes())
    }

    /// What is stored there.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, if it cannot be written down.
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let failed = |error: serde_json::Error| Error::invalid_argument("write down a table").with_source(error);
        serde_json::to_vec(self).map_err(failed)
    }

    fn decode(name: &[u8], value: &[u8]) -> Result<Self> {
        let table: Self = serde_json::from_slice(value).map_err(|error| damaged().with_source(error))?;
        if table.name.as_bytes() == name { Ok(table) } else { Err(damaged()) }
    }
}

impl Definitions {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// `Corruption`, if what is stored makes no sense; those of the cursor.
    pub(super) fn read(cursor: &mut dyn KvCursor) -> Result<Self> {
        let mut definitions = Self { tables: BTreeMap::new(), next: FIRST_NUMBER };
        let (prefix, mut given_out) = (prefix(DEFINITIONS), BTreeSet::new());
        let mut is_there = cursor.seek(&prefix)?;
        while is_there && let Some(name) = cursor.key().strip_prefix(&prefix[..]) {
            definitions.add(name, cursor.value(), &mut given_out)?;
            is_there = cursor.next()?;
        }
        Ok(definitions)
    }

    /// Adds a stored row. The one with the next number is the first of them. `given_out` are the numbers of the tables before, and then of this one, too.
    fn add(&mut self, name: &[u8], value: &[u8], given_out: &mut BTreeSet<u32>) -> Result<()> {
        if name.is_empty() {
            let next = <[u8; 4]>::try_from(value).ok().map(u32::from_be_bytes);
            self.next = next.filter(|next| *next >= FIRST_NUMBER).ok_or_else(damaged)?;
            return Ok(());
        }
        let table = TableDefinition::decode(name, value)?;
        // Two with one number would take each other's keys for their own.
        let are_its_own =
            table.numbers().all(|number| (FIRST_NUMBER..self.next).contains(&number) && given_out.insert(number));
        if !are_its_own {
            return Err(damaged());
        }
        self.tables.insert(table.name.clone(), table);
        Ok(())
    }
}

/// The row that holds the smallest number never given out.
pub(super) fn next_row(next: u32) -> (Vec<u8>, [u8; 4]) {
    (key(DEFINITIONS, b""), next.to_be_bytes())
}

/// The number behind another one.
///
/// # Errors
///
/// `LimitExceeded` where there is none.
pub(super) fn after(number: u32) -> Result<u32> {
    number.checked_add(1).ok_or_else(|| Error::new(ErrorKind::LimitExceeded, "the numbers of indexes are used up"))
}

#[cold]
fn damaged() -> Error {
    Error::corrupt("the stored definition of a table makes no sense")
}
